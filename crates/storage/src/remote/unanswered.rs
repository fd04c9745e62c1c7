//! Requests over HTTP that got no answer, and the reasons that a user can do something about.

use std::error::Error as StdError;
use std::io::Error;

use object_store::client::{HttpError, HttpErrorKind};
use rustls::{CertificateError, Error as TlsError, InvalidMessage};

use super::http::deepest;

/// Describes a request that got no answer.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered {
    pub(crate) text: String,
    /// The next step, if it does not depend on the kind of storage.
    pub(crate) remedy: Option<&'static str>,
}

impl Unanswered {
    /// Describes the failure of a request to an address with TLS if `has_tls` is set.
    pub(crate) fn of(error: &HttpError, has_tls: bool) -> Unanswered {
        let text = deepest(error);
        if let Some((problem, remedy)) = tls_error(error).and_then(tls_problem) {
            return Unanswered { text: format!("{problem} ({text})"), remedy: Some(remedy) };
        }
        let remedy = match error.kind() {
            HttpErrorKind::Connect | HttpErrorKind::Timeout => has_proxy(has_tls).then_some(PROXY),
            HttpErrorKind::Request | HttpErrorKind::Interrupted if !has_tls => Some(CUT),
            _ => None,
        };
        Unanswered { text, remedy }
    }
}

/// Returns the remedy of an answer by which a server with TLS refuses a request without it.
pub(crate) fn tls_remedy(status: u16, text: &str) -> Option<&'static str> {
    let is_refused = status == 400 && text.to_ascii_lowercase().contains("https");
    is_refused.then_some(NEEDS_TLS)
}

/// Returns the error of TLS among the causes of `error`.
fn tls_error(error: &HttpError) -> Option<&TlsError> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(each) = cause {
        let mut inner = each;
        // An error in an error of the system is no cause of it, but shown as the same.
        while let Some(next) = inner.downcast_ref::<Error>().and_then(Error::get_ref) {
            inner = next;
        }
        if let Some(tls) = inner.downcast_ref() {
            return Some(tls);
        }
        cause = each.source();
    }
    None
}

/// Returns the meaning of an error of TLS, and the next step.
fn tls_problem(error: &TlsError) -> Option<(&'static str, &'static str)> {
    let certificate = match error {
        TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => {
            return Some(("the server does not speak TLS", NO_TLS));
        }
        TlsError::InvalidCertificate(certificate) => certificate,
        _ => return None,
    };
    Some(match certificate {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ("the certificate of the server has expired", EXPIRED)
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("the certificate of the server is not valid yet", EXPIRED)
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            ("the certificate of the server is one for another name", OTHER_NAME)
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            ("the certificate of the server is one of an authority, not of a server", AUTHORITY)
        }
        _ => ("the certificate of the server is not trusted here", UNTRUSTED),
    })
}

/// Returns `true` if a variable names a proxy for requests, unless `NO_PROXY` excludes their host.
fn has_proxy(has_tls: bool) -> bool {
    let own = if has_tls { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    own.iter().chain(&["ALL_PROXY", "all_proxy"]).any(is_set)
}

const NO_TLS: &str = "check the port, or begin the address with http:// instead of https://: the \
                      account and the names of objects are not encrypted on the way then";
const NEEDS_TLS: &str = "begin the address with https:// instead of http://";
const CUT: &str = "check that the server runs; if it speaks TLS, begin the address with https:// \
                   instead of http://";
const EXPIRED: &str = "renew the certificate on the server, and check the clock of this machine; \
                       `openssl s_client -connect HOST:PORT` shows the certificate";
const OTHER_NAME: &str = "use a name in the address that is in the certificate: `openssl s_client \
                          -connect HOST:PORT` shows it";
const UNTRUSTED: &str = "add the certificate of its authority, or its own if it is self-signed, to \
                         those of this system (Debian: /usr/local/share/ca-certificates and \
                         `update-ca-certificates`), or name the file by SSL_CERT_FILE";
const AUTHORITY: &str = "give the server a certificate that is not one of an authority (`openssl req \
                         -x509 -addext basicConstraints=critical,CA:FALSE`), and trust it or its \
                         authority here (SSL_CERT_FILE)";
const PROXY: &str = "check the address and the network, and the proxy that HTTP_PROXY, HTTPS_PROXY \
                     or ALL_PROXY names; NO_PROXY excludes hosts from it";

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    fn of(kind: HttpErrorKind, error: TlsError) -> Unanswered {
        // As the clients have it.
        let error = Error::other(Error::new(ErrorKind::InvalidData, error));
        Unanswered::of(&HttpError::new(kind, error), true)
    }

    #[test]
    fn errors_of_tls_have_meaning_and_remedy() {
        let other = |error| of(HttpErrorKind::Connect, TlsError::InvalidCertificate(error));
        for (found, problem, remedy) in [
            (
                of(HttpErrorKind::Connect, InvalidMessage::InvalidContentType.into()),
                "does not speak TLS (received corrupt message",
                "http://",
            ),
            (other(CertificateError::Expired), "has expired", "clock"),
            (other(CertificateError::NotValidYet), "not valid yet", "clock"),
            (other(CertificateError::NotValidForName), "another name", "openssl s_client"),
            (other(CertificateError::UnknownIssuer), "not trusted", "SSL_CERT_FILE"),
        ] {
            assert!(found.text.contains(problem), "{found:?}");
            assert!(found.remedy.is_some_and(|known| known.contains(remedy)), "{found:?}");
        }
        let alert = TlsError::AlertReceived(rustls::AlertDescription::HandshakeFailure);
        assert_eq!(of(HttpErrorKind::Unknown, alert).remedy, None);
    }

    #[test]
    fn scheme_without_tls_is_named_where_it_may_be_wrong() {
        let cut = |has_tls| {
            let error = Error::from(ErrorKind::ConnectionReset);
            Unanswered::of(&HttpError::new(HttpErrorKind::Interrupted, error), has_tls).remedy
        };
        assert!(cut(false).is_some_and(|remedy| remedy.contains("https://")));
        assert_eq!(cut(true), None);
        let go = "Client sent an HTTP request to an HTTPS server.";
        assert!(tls_remedy(400, go).is_some());
        assert!(tls_remedy(404, go).is_none() && tls_remedy(400, "Bad Request").is_none());
    }
}
