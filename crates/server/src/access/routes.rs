//! The route table: each route is registered together with the role that it requires; there is no other way to add one.

use std::collections::BTreeMap;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, on};
use rethread_domain::access::Role;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::SecurityRequirement;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::state::App;

/// What a route requires of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requirements {
    /// The least role; `None` where no credential is needed.
    pub(crate) role: Option<Role>,
    /// Whether it is a stream, which mostly waits: streams do not occupy a worker thread.
    pub(crate) is_stream: bool,
}

/// No credential needed: health checks, the login page, and assets.
pub(crate) const OPEN: Requirements = Requirements { role: None, is_stream: false };
pub(crate) const READ: Requirements = Requirements { role: Some(Role::Read), is_stream: false };
pub(crate) const STREAM: Requirements = Requirements { is_stream: true, ..READ };
pub(crate) const WRITE: Requirements = Requirements { role: Some(Role::Write), is_stream: false };
pub(crate) const ADMIN: Requirements = Requirements { role: Some(Role::Admin), is_stream: false };

/// The requirements of each route, by path and method.
pub(crate) type Table = BTreeMap<String, Vec<(Method, Requirements)>>;

/// Routes of the API, which appear in the `OpenAPI` document, and pages, which do not.
#[derive(Default)]
pub(crate) struct Routes {
    api: OpenApiRouter<App>,
    pages: Router<App>,
    table: Table,
}

impl Routes {
    /// Adds API operations with the same requirements; their paths come from their `utoipa::path` attributes.
    pub(crate) fn api(mut self, needs: Requirements, mut routes: UtoipaMethodRouter<App>) -> Self {
        for (path, item) in &mut routes.1.paths {
            for (method, operation) in operations(item) {
                let role = needs.role.map(Role::as_str);
                operation.security = Some(vec![SecurityRequirement::new("token", role)]);
                self.table.entry(path.clone()).or_default().push((method, needs));
            }
        }
        Self { api: self.api.routes(routes), ..self }
    }

    pub(crate) fn get<T: 'static>(
        self,
        needs: Requirements,
        path: &str,
        page: impl Handler<T, App>,
    ) -> Self {
        self.page(needs, path, MethodFilter::GET, Method::GET, page)
    }

    pub(crate) fn post<T: 'static>(
        self,
        needs: Requirements,
        path: &str,
        page: impl Handler<T, App>,
    ) -> Self {
        self.page(needs, path, MethodFilter::POST, Method::POST, page)
    }

    fn page<T: 'static>(
        mut self,
        needs: Requirements,
        path: &str,
        filter: MethodFilter,
        method: Method,
        page: impl Handler<T, App>,
    ) -> Self {
        self.table.entry(path.to_owned()).or_default().push((method, needs));
        Self { pages: self.pages.route(path, on(filter, page)), ..self }
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        for (path, needs) in other.table {
            self.table.entry(path).or_default().extend(needs);
        }
        let (api, pages) = (self.api.merge(other.api), self.pages.merge(other.pages));
        Self { api, pages, table: self.table }
    }

    /// Nests the API routes below a path.
    pub(crate) fn below(self, path: &str, document: OpenApi) -> Self {
        let table = self.table.into_iter().map(|(of, needs)| (format!("{path}{of}"), needs));
        let api = OpenApiRouter::with_openapi(document).nest(path, self.api);
        Self { api, table: table.collect(), ..self }
    }

    /// The router, the `OpenAPI` document, and the table of requirements.
    pub(crate) fn split(self) -> (Router<App>, OpenApi, Table) {
        let (api, document) = self.api.split_for_parts();
        (api.merge(self.pages), document, self.table)
    }
}

/// The operations at a path.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::POST, &mut item.post),
        (Method::PATCH, &mut item.patch),
        (Method::DELETE, &mut item.delete),
        (Method::PUT, &mut item.put),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// The requirements of a request; `None` if there is no such route, which only an authenticated caller is told.
pub(crate) fn requirements_of(
    table: &Table,
    method: &Method,
    path: Option<&str>,
) -> Option<Requirements> {
    // Whatever answers GET also answers HEAD.
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let known = table.get(path?)?.iter().find(|(known, _)| known == method);
    known.map(|(_, needs)| *needs)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::router;

    /// Whatever is answered was added with what it needs: nothing in this crate adds a route in another way.
    #[test]
    fn no_route_is_without_its_need() {
        let (_, document, table) = router::api().split();
        for (path, mut item) in document.paths.paths {
            for (method, operation) in operations(&mut item) {
                let needs = requirements_of(&table, &method, Some(&path));
                assert!(needs.is_some_and(|needs| needs.role.is_some()), "{method} {path}");
                assert!(operation.security.is_some(), "{method} {path}");
            }
        }
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/access/routes.rs");
        while let Some(folder) = folders.pop() {
            for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if path != here {
                    let text = std::fs::read_to_string(&path).unwrap();
                    for other in ["Router::new(", ".route(", ".routes(", "route_service(", ".nest("]
                    {
                        assert!(!text.contains(other), "{}: {other}", path.display());
                    }
                }
            }
        }
    }
}
