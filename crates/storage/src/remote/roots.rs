//! Certificates of authorities for systems that have none, such as an empty container.

use std::sync::OnceLock;

use reqwest::Certificate;

/// The variables that replace the certificates of the system.
const VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Returns the bundled certificates if this system has none and no variable names others, and
/// nothing otherwise. The system is asked once.
pub(super) fn fallback() -> impl Iterator<Item = Certificate> {
    static IS_NEEDED: OnceLock<bool> = OnceLock::new();
    let is_needed = *IS_NEEDED.get_or_init(|| {
        // A user who names certificates trusts no others, even if the file is missing.
        let is_chosen = VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
        !is_chosen && rustls_native_certs::load_native_certs().certs.is_empty()
    });
    bundled(is_needed)
}

/// Returns the certificates of Mozilla as of the version of their crate, or nothing unless `is_needed`.
fn bundled(is_needed: bool) -> impl Iterator<Item = Certificate> {
    let known = is_needed.then_some(webpki_root_certs::TLS_SERVER_ROOT_CERTS);
    known.into_iter().flatten().filter_map(|der| Certificate::from_der(der).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundled_certificates_when_needed_are_accepted_by_a_client() {
        assert_eq!(bundled(false).count(), 0, "a system with certificates gets no others");
        let count = webpki_root_certs::TLS_SERVER_ROOT_CERTS.len();
        assert_eq!(bundled(true).count(), count, "all are well formed");
        assert!(count > 100, "{count} certificates");
        let client = reqwest::Client::builder().tls_certs_only(bundled(true)).build();
        assert!(client.is_ok(), "{client:?}");
    }
}
