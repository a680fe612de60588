//! The style sheet, scripts and icon: compiled into the program, and served under names that contain a hash of their content.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::access::{OPEN, Routes};
use crate::extract::PathParams;
use crate::problem::Problem;

struct Asset {
    path: String,
    kind: &'static str,
    text: &'static str,
}

fn asset(stem: &str, suffix: &str, kind: &'static str, text: &'static str) -> Asset {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    Asset { path: format!("/assets/{stem}-{:016x}.{suffix}", hasher.finish()), kind, text }
}

static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    asset("style", "css", "text/css; charset=utf-8", include_str!("../../assets/style.css"))
});
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    asset("app", "js", "text/javascript; charset=utf-8", include_str!("../../assets/app.js"))
});
static WORKER: LazyLock<Asset> = LazyLock::new(|| {
    asset("events", "js", "text/javascript; charset=utf-8", include_str!("../../assets/events.js"))
});
static ICON: LazyLock<Asset> =
    LazyLock::new(|| asset("icon", "svg", "image/svg+xml", include_str!("../../assets/icon.svg")));

pub(super) fn style() -> &'static str {
    &STYLE.path
}

pub(super) fn script() -> &'static str {
    &SCRIPT.path
}

pub(super) fn worker() -> &'static str {
    &WORKER.path
}

pub(super) fn icon() -> &'static str {
    &ICON.path
}

pub(super) fn router() -> Routes {
    Routes::default().get(OPEN, "/assets/{name}", serve)
}

async fn serve(PathParams(name): PathParams<String>) -> Result<Response, Problem> {
    let all = [&*STYLE, &*SCRIPT, &*WORKER, &*ICON];
    let found = all.into_iter().find(|asset| asset.path.strip_prefix("/assets/") == Some(&*name));
    let found = found.ok_or_else(|| Problem::new("not_found", "there is nothing of this name"))?;
    let headers = [
        (header::CONTENT_TYPE, found.kind),
        // A changed asset has another name, so this one may be cached for ever.
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    Ok((headers, found.text).into_response())
}
