//! The page itself: its markup, its script, its style and its icon.

use axum::extract::Path;
use axum::response::{Html, IntoResponse, Response};
use http::{StatusCode, header};

use super::failure::Failure;

/// A file of the page: its name, its type and its text.
type Asset = (&'static str, &'static str, &'static str);

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files of the page.
const ASSETS: [Asset; 13] = [
    ("page.css", "text/css; charset=utf-8", include_str!("../assets/page.css")),
    ("chart.css", "text/css; charset=utf-8", include_str!("../assets/chart.css")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
    ("page.js", SCRIPT, include_str!("../assets/page.js")),
    ("tools.js", SCRIPT, include_str!("../assets/tools.js")),
    ("overview.js", SCRIPT, include_str!("../assets/overview.js")),
    ("browse.js", SCRIPT, include_str!("../assets/browse.js")),
    ("rows.js", SCRIPT, include_str!("../assets/rows.js")),
    ("details.js", SCRIPT, include_str!("../assets/details.js")),
    ("restore.js", SCRIPT, include_str!("../assets/restore.js")),
    ("find.js", SCRIPT, include_str!("../assets/find.js")),
    ("space.js", SCRIPT, include_str!("../assets/space.js")),
    ("difference.js", SCRIPT, include_str!("../assets/difference.js")),
];

/// Returns the page.
pub(super) fn page() -> Html<&'static str> {
    Html(include_str!("../assets/page.html"))
}

/// Returns the page that follows the exchange of the token. It leads to the page by a link of its own
/// origin, so that a browser sends the cookie even if another site has led to it.
pub(super) fn exchanged() -> Response {
    Html(include_str!("../assets/exchanged.html")).into_response()
}

/// Returns the page for a browser without the cookie.
pub(super) fn refused() -> Response {
    let page = Html(include_str!("../assets/refused.html"));
    (StatusCode::UNAUTHORIZED, page).into_response()
}

/// Returns a file of the page.
pub(super) async fn asset(Path(name): Path<String>) -> Result<Response, Failure> {
    let asset = ASSETS.iter().find(|(known, ..)| *known == name);
    let (_, kind, text) = asset.ok_or_else(|| Failure::missing("there is no such file"))?;
    Ok(([(header::CONTENT_TYPE, *kind)], *text).into_response())
}
