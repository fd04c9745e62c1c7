//! HTTP clients over a network.

use std::time::Duration;

use object_store::ClientOptions;
use object_store::client::ClientConfigKey;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, NoProxy, Proxy};

/// The maximum time for establishing a connection.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The maximum length of the target of a redirect in a message, in characters.
#[cfg(any(feature = "rest", feature = "s3"))]
const LOCATION_LEN_MAX: usize = 200;

/// Creates a client that follows no redirects. A client of `object_store` repeats a put that is
/// answered by 301, 302 or 303 as a get without the object, and the answer to that, such as a login
/// page, counts as success.
///
/// # Errors
///
/// Returns an error if a proxy or a certificate of `options` is invalid.
pub(crate) fn client(options: &ClientOptions) -> reqwest::Result<Client> {
    let value = |key| options.get_config_value(&key);
    let is_set = |key| value(key).is_some_and(|value| value == "true");
    let mut builder = Client::builder()
        .user_agent(concat!("cutpoint/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .connect_timeout(CONNECT_MAX)
        .https_only(!is_set(ClientConfigKey::AllowHttp))
        .http1_only();
    #[cfg(all(feature = "bundled-roots", target_os = "linux"))]
    {
        builder = builder.tls_certs_merge(super::roots::fallback());
    }
    if is_set(ClientConfigKey::AllowInvalidCertificates) {
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    if let Some(url) = value(ClientConfigKey::ProxyUrl) {
        let excludes = value(ClientConfigKey::ProxyExcludes);
        let excludes = excludes.and_then(|excludes| NoProxy::from_string(&excludes));
        builder = builder.proxy(Proxy::all(url)?.no_proxy(excludes));
        if let Some(certificate) = value(ClientConfigKey::ProxyCaCertificate) {
            let certificate = Certificate::from_pem(certificate.as_bytes())?;
            builder = builder.tls_certs_merge([certificate]);
        }
    }
    builder.build()
}

/// Returns `true` for the status of an answer that a storage, or a proxy in front of it, gives to any
/// request while it is unavailable.
pub(crate) fn is_outage(status: u16) -> bool {
    matches!(status, 429 | 502..=504)
}

/// Returns the target of a redirect for messages, without a query, which may have a secret.
#[cfg(any(feature = "rest", feature = "s3"))]
pub(crate) fn shown_location(location: &str) -> String {
    let location = location.split(['?', '#']).next().unwrap_or_default();
    location.chars().filter(|c| !c.is_control()).take(LOCATION_LEN_MAX).collect()
}
