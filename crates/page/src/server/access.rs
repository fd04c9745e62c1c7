//! Who may ask for what: the name of the host, the one-time token, the cookie, and the proof that a
//! change was asked for by the page itself.
//!
//! - The `Host` must be a name of the loopback interface, so that a page of another name whose address
//!   was changed to 127.0.0.1 (DNS rebinding) gets nothing.
//! - The token in the printed address is exchanged for a cookie once. The cookie is `HttpOnly` and
//!   `SameSite=Strict`, so that scripts cannot read it and other sites cannot use it.
//! - A browser says where a request comes from (`Sec-Fetch-Site`); one from another site is refused
//!   even with a cookie.
//! - A change also needs the origin of the page, and a value that only the page can read.

use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method, header};

use super::failure::Failure;

/// The header that proves that the page asks for a change.
pub(super) const PROOF_HEADER: &str = "x-cutpoint-proof";
/// The user name of WebDAV clients.
pub(super) const DAV_USER: &str = "cutpoint";
/// The length of secrets, in bytes.
const SECRET_LEN: usize = 32;

/// The secrets of a server.
#[derive(Debug)]
pub(super) struct Access {
    /// The name of the cookie. Cookies are shared by all ports of a host.
    cookie_name: String,
    cookie: String,
    proof: String,
    /// The token, until it was exchanged.
    token: Mutex<Option<String>>,
    /// The password of WebDAV clients, if there may be any.
    dav_password: Option<String>,
}

impl Access {
    /// Draws new secrets.
    ///
    /// # Errors
    ///
    /// Fails if the system has no randomness.
    pub(super) fn new(has_dav: bool) -> Result<Access, getrandom::Error> {
        Ok(Access {
            cookie_name: format!("cutpoint_{}", &secret()?[..8]),
            cookie: secret()?,
            proof: secret()?,
            token: Mutex::new(Some(secret()?)),
            dav_password: if has_dav { Some(secret()?[..32].to_owned()) } else { None },
        })
    }

    /// Returns the token, unless it was exchanged.
    pub(super) fn token(&self) -> Option<String> {
        super::lock(&self.token).clone()
    }

    /// Returns the value of [`PROOF_HEADER`].
    pub(super) fn proof(&self) -> &str {
        &self.proof
    }

    /// Returns the password of WebDAV clients.
    pub(super) fn dav_password(&self) -> Option<&str> {
        self.dav_password.as_deref()
    }

    /// Exchanges the token for a cookie. Returns the header that sets it; `None` if `given` is not
    /// the token, or was used before.
    pub(super) fn exchange(&self, given: &str) -> Option<String> {
        let mut token = super::lock(&self.token);
        if !token.as_deref().is_some_and(|token| is_same(token, given)) {
            return None;
        }
        *token = None;
        let (name, value) = (&self.cookie_name, &self.cookie);
        Some(format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict"))
    }

    /// Returns `true` if a request has the cookie.
    pub(super) fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .any(|(name, value)| name == self.cookie_name && is_same(value, &self.cookie))
    }

    /// Returns `true` if a request has the password of WebDAV clients.
    pub(super) fn has_dav_password(&self, headers: &HeaderMap) -> bool {
        let Some(password) = &self.dav_password else { return false };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(given) = given.and_then(|value| value.split_once(' ')) else { return false };
        let expected = STANDARD.encode(format!("{DAV_USER}:{password}"));
        given.0.eq_ignore_ascii_case("basic") && is_same(given.1.trim(), &expected)
    }

    /// Refuses a change that the page did not ask for.
    ///
    /// # Errors
    ///
    /// Fails unless the request has the origin of the page and the proof.
    pub(super) fn require_proof(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let text = |name: header::HeaderName| headers.get(name).and_then(|it| it.to_str().ok());
        let host = text(header::HOST).unwrap_or_default();
        let origin = text(header::ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
        let proof = headers.get(PROOF_HEADER).and_then(|value| value.to_str().ok());
        let has_proof = proof.is_some_and(|proof| is_same(proof, &self.proof));
        if origin != Some(host) || !has_proof {
            return Err(Failure::forbidden("this request does not come from the page itself"));
        }
        Ok(())
    }
}

/// Refuses a request by another name than those of the loopback interface.
///
/// # Errors
///
/// Fails if the name of the host is missing or another one.
pub(super) fn require_loopback(headers: &HeaderMap) -> Result<(), Failure> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let is_known = ["127.0.0.1", "[::1]"].contains(&name) || name.eq_ignore_ascii_case("localhost");
    if !is_known || hosts.next().is_some() {
        return Err(Failure::forbidden(
            "this page is for 127.0.0.1 and localhost, not for another name",
        ));
    }
    Ok(())
}

/// Refuses a request that another site has caused, and methods that change something without proof.
///
/// # Errors
///
/// Fails for such a request.
pub(super) fn require_same_site(headers: &HeaderMap) -> Result<(), Failure> {
    let site = headers.get("sec-fetch-site").map(|value| value.as_bytes());
    match site {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(Failure::forbidden("this request comes from another site")),
    }
}

/// Returns `true` for methods that change nothing.
pub(super) fn is_reading(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

/// Compares secrets in a time that does not depend on their common beginning.
fn is_same(one: &str, other: &str) -> bool {
    blake3::hash(one.as_bytes()) == blake3::hash(other.as_bytes())
}

/// Returns a new secret, in hexadecimal.
fn secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; SECRET_LEN];
    getrandom::fill(&mut bytes)?;
    Ok(cutpoint_terminal::escape::hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (header::HeaderName::from_static(name), value.parse().expect("a value"))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn token_is_exchanged_once() {
        let access = Access::new(false).expect("randomness");
        let token = access.token().expect("a token");
        assert_eq!(access.exchange("other"), None, "another token");
        let cookie = access.exchange(&token).expect("a cookie");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        assert_eq!(access.exchange(&token), None, "a second time");
        assert_eq!(access.token(), None, "it is void");
        let value = cookie.split(';').next().expect("a value");
        assert!(access.has_cookie(&headers(&[("cookie", &format!("a=b; {value}"))])), "the cookie");
        assert!(!access.has_cookie(&headers(&[("cookie", &format!("{value}0"))])), "another one");
        assert!(!access.has_cookie(&headers(&[])), "none");
    }

    #[test]
    fn host_must_be_a_loopback_name() {
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:80", "[::1]"] {
            assert!(require_loopback(&headers(&[("host", host)])).is_ok(), "{host}");
        }
        for host in ["", "evil.example:80", "127.0.0.1.evil.example", "localhost:x", "192.168.1.1"]
        {
            assert!(require_loopback(&headers(&[("host", host)])).is_err(), "{host}");
        }
        assert!(require_loopback(&headers(&[])).is_err(), "none");
    }

    #[test]
    fn change_needs_origin_and_proof() {
        let access = Access::new(false).expect("randomness");
        let proof = access.proof();
        let good =
            [("host", "localhost:1"), ("origin", "http://localhost:1"), (PROOF_HEADER, proof)];
        assert!(access.require_proof(&headers(&good)).is_ok(), "all of it");
        for missing in 0..good.len() {
            let mut fewer = good.to_vec();
            fewer.remove(missing);
            assert!(access.require_proof(&headers(&fewer)).is_err(), "{fewer:?}");
        }
        let other =
            [("host", "localhost:1"), ("origin", "http://localhost:2"), (PROOF_HEADER, proof)];
        assert!(access.require_proof(&headers(&other)).is_err(), "another port");
    }

    #[test]
    fn dav_needs_the_password() {
        let access = Access::new(true).expect("randomness");
        let password = access.dav_password().expect("a password");
        let value = format!("Basic {}", STANDARD.encode(format!("cutpoint:{password}")));
        assert!(access.has_dav_password(&headers(&[("authorization", &value)])), "the password");
        let value = format!("Basic {}", STANDARD.encode(b"cutpoint:"));
        assert!(!access.has_dav_password(&headers(&[("authorization", &value)])), "none");
        let off = Access::new(false).expect("randomness");
        assert!(!off.has_dav_password(&headers(&[("authorization", &value)])), "off");
    }
}
