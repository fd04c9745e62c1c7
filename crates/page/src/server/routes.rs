//! Which request is answered by what, after `access.rs` has allowed it.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use serde_json::{Value, json};

use super::failure::Failure;
use super::query::Query;
use super::shared::Shared;
use super::{
    access, archive, assets, dav, difference, download, file, folder, headers, restore, search,
    snapshots, space_views, versions,
};

/// The answer to a question of the page.
type Answer = Result<Value, Failure>;

/// Returns the service that answers all requests.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(|| async { assets::page() }))
        .route("/assets/{name}", get(assets::asset))
        .route("/api/session", question(session))
        .route("/api/snapshots", question(snapshots::list))
        .route("/api/folder", question(folder::slice))
        .route("/api/file", question(file::preview))
        .route("/api/picture", content(file::picture))
        .route("/api/download", content(download::download))
        .route("/api/zip", content(archive::zip))
        .route("/api/search", content(search::search))
        .route("/api/versions", question(versions::versions))
        .route("/api/difference", question(difference::difference))
        .route("/api/space", shared_question(space_views::state))
        .route("/api/space/rows", question(space_views::rows))
        .route("/api/space/drawing", content(space_views::drawing))
        .route("/api/restore", question(restore::state).post(start_restore))
        .route("/api/problems", question(problems))
        .route(dav::ROOT, any(dav::answer))
        .route("/dav/", any(dav::answer))
        .route("/dav/{*path}", any(dav::answer))
        .fallback(|| async { Failure::missing("there is no such page") })
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

/// Returns a route that answers a question in a thread that may read the repository.
fn question(answer: fn(&Shared, &Query) -> Answer) -> MethodRouter<Arc<Shared>> {
    get(move |State(shared): State<Arc<Shared>>, uri: Uri| async move {
        let query = Query::parse(uri.query().unwrap_or_default());
        let answered = blocking(move || answer(&shared, &query)).await;
        answered.map(|value| json_response(&value))
    })
}

/// Returns a route that answers a question that may start work in the background.
fn shared_question(answer: fn(&Arc<Shared>, &Query) -> Answer) -> MethodRouter<Arc<Shared>> {
    get(move |State(shared): State<Arc<Shared>>, uri: Uri| async move {
        let query = Query::parse(uri.query().unwrap_or_default());
        let answered = blocking(move || answer(&shared, &query)).await;
        answered.map(|value| json_response(&value))
    })
}

/// Starts a restore.
async fn start_restore(
    State(shared): State<Arc<Shared>>,
    body: Bytes,
) -> Result<Response, Failure> {
    let answered = blocking(move || restore::start(&shared, &body)).await;
    answered.map(|value| json_response(&value))
}

/// Returns a route that answers with the content of files.
fn content(
    answer: fn(&Arc<Shared>, &Query, &HeaderMap) -> Result<Response, Failure>,
) -> MethodRouter<Arc<Shared>> {
    get(move |State(shared): State<Arc<Shared>>, uri: Uri, asked: HeaderMap| async move {
        let query = Query::parse(uri.query().unwrap_or_default());
        let answered = blocking(move || answer(&shared, &query, &asked)).await;
        answered.map(|mut response| {
            headers::add_content(&mut response);
            response
        })
    })
}

/// Runs what reads the repository in a thread for that.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Failure::internal("the request has failed")))
}

fn json_response(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// Allows or refuses a request, and adds the headers that every answer has.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response = match allow(&shared, &request) {
        Allowed::Yes => next.run(request).await,
        Allowed::Exchanged(cookie) => {
            let mut response = assets::exchanged();
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        Allowed::No(failure) => failure.into_response(),
        Allowed::NoDav => dav::unauthorized(),
        Allowed::NoDavMethod => dav::read_only(),
        Allowed::Unknown => assets::refused(),
    };
    headers::add(&mut response);
    response
}

/// The decision about a request.
enum Allowed {
    Yes,
    /// The token is exchanged for this cookie.
    Exchanged(String),
    No(Failure),
    /// The browser has no cookie.
    Unknown,
    /// The WebDAV client has no password.
    NoDav,
    /// The WebDAV client asks for a change.
    NoDavMethod,
}

fn allow(shared: &Shared, request: &Request<Body>) -> Allowed {
    let (asked, uri, method) = (request.headers(), request.uri(), request.method());
    if let Err(failure) = access::require_loopback(asked) {
        return Allowed::No(failure);
    }
    if uri.path() == dav::ROOT || uri.path().starts_with("/dav/") {
        return allow_dav(shared, request);
    }
    // The printed address is opened from anywhere, once.
    let query = Query::parse(uri.query().unwrap_or_default());
    if let ("/", &Method::GET, Some(token)) = (uri.path(), method, query.text("token")) {
        return match shared.access.exchange(token) {
            Some(cookie) => Allowed::Exchanged(cookie),
            None if shared.access.has_cookie(asked) => Allowed::Yes,
            None => Allowed::Unknown,
        };
    }
    if !shared.access.has_cookie(asked) {
        return Allowed::Unknown;
    }
    let checked = access::require_same_site(asked).and_then(|()| match method {
        method if access::is_reading(method) => Ok(()),
        &Method::POST => shared.access.require_proof(asked),
        _ => Err(Failure {
            status: StatusCode::METHOD_NOT_ALLOWED,
            message: "this page can only be read".to_owned(),
        }),
    });
    match checked {
        Ok(()) => Allowed::Yes,
        Err(failure) => Allowed::No(failure),
    }
}

/// Decides about the request of a WebDAV client, which has a password instead of a cookie.
fn allow_dav(shared: &Shared, request: &Request<Body>) -> Allowed {
    let asked = request.headers();
    if shared.access.dav_password().is_none() {
        return Allowed::No(Failure::missing("`cutpoint serve --webdav` answers WebDAV clients"));
    }
    if let Err(failure) = access::require_same_site(asked) {
        return Allowed::No(failure);
    }
    match (shared.access.has_dav_password(asked), dav::is_known(request.method())) {
        (false, _) => Allowed::NoDav,
        (true, false) => Allowed::NoDavMethod,
        (true, true) => Allowed::Yes,
    }
}

/// Returns the properties of the page.
fn session(shared: &Shared, _: &Query) -> Answer {
    let repository = shared.contents.reader().repository();
    Ok(json!({
        "repository": repository.config().repository.to_string(),
        "place": shared.options.place,
        "may_restore": shared.options.may_restore,
        "unread_since": shared.options.unread_since_ns.map(super::text::milliseconds),
        "proof": shared.access.proof(),
        "program": env!("CARGO_PKG_VERSION"),
    }))
}

/// Returns the problems that the page has not shown yet.
fn problems(shared: &Shared, query: &Query) -> Answer {
    let known = query.number("known", 0)? as u64;
    let (count, new) = shared.problems_since(known);
    Ok(json!({ "count": count, "problems": new }))
}
