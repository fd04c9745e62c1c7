//! The headers of every answer. They let the page do what it does and nothing else, whatever a file or
//! its name contains.

use axum::response::Response;
use http::{HeaderName, HeaderValue, header};

/// The policy of the page: scripts, styles, pictures and requests of its own address, nothing inline,
/// no frames around it and no forms.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";
/// The policy of contents of files: nothing of them runs, even if they are opened by themselves.
pub(super) const CONTENT_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

/// The headers that every answer has, unless the answer has its own.
const HEADERS: [(&str, &str); 8] = [
    ("content-security-policy", PAGE_POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ("cache-control", "no-store"),
];

/// Adds the headers to an answer.
pub(super) fn add(response: &mut Response) {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        headers.entry(name).or_insert(value);
    }
}

/// Returns the value of `Content-Disposition` for a file that is saved under a name. The name is of any
/// bytes; what is no UTF-8 is replaced.
pub(super) fn attachment(name: &[u8], extension: &str) -> HeaderValue {
    let name = format!("{}{extension}", String::from_utf8_lossy(name));
    let name = name.trim_start_matches('.');
    let name = if name.is_empty() { "file" } else { name };
    let plain: String = name
        .chars()
        .map(|it| if it.is_ascii_alphanumeric() || "-_. ".contains(it) { it } else { '_' })
        .collect();
    let exact = super::query::encoded(name.as_bytes());
    let value = format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}");
    HeaderValue::from_str(&value).unwrap_or(HeaderValue::from_static("attachment"))
}

/// Adds the headers of a file's content, which is never shown as a page.
pub(super) fn add_content(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_an_attachment_cannot_add_a_header() {
        let value = attachment(b"a\"\r\nX: y\xff.html", "");
        let expected = "attachment; filename=\"a___X_ y_.html\"; \
                        filename*=UTF-8''a%22%0D%0AX%3A%20y%EF%BF%BD.html";
        assert_eq!(value.to_str().ok(), Some(expected), "escaped twice");
        let value = attachment(b"", ".zip");
        assert!(value.to_str().is_ok_and(|it| it.contains("\"zip\"")), "{value:?}");
    }
}
