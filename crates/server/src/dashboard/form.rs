//! Reading submitted forms.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;

use crate::problem::Problem;
use crate::state::App;

/// The fields of a submitted form; a form that does not fit becomes a problem.
#[derive(Debug)]
pub(crate) struct Form<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Form<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let read = axum::Form::<T>::from_request(request, app).await;
        read.map(|axum::Form(fields)| Self(fields)).map_err(|rejection| {
            let code = match rejection.status() {
                StatusCode::PAYLOAD_TOO_LARGE => "body_too_large",
                StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported_media_type",
                StatusCode::UNPROCESSABLE_ENTITY => "bad_input",
                _ => "bad_request",
            };
            let said: String = rejection.body_text().chars().take(300).collect();
            Problem::new(code, rethread_domain::quote::safe(&said))
        })
    }
}
