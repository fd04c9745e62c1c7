//! TLS for connections from other machines.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// The clients that may connect by TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Those with a certificate that the authority in `ca-cert.pem` has signed.
    WithCertificate,
    /// Any.
    Any,
}

/// The certificates of a server.
#[derive(Clone)]
pub struct Tls(pub(super) Arc<ServerConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads certificates from a folder: `server-cert.pem`, `server-key.pem`, and for clients with
    /// certificates `ca-cert.pem`, the names that QEMU and libnbd have as well.
    ///
    /// # Errors
    ///
    /// Fails with the name of the file that cannot be read or is no certificate or key.
    pub fn read(folder: &Path, clients: Clients) -> io::Result<Tls> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = certificates(&folder.join("server-cert.pem"))?;
        let key_path = folder.join("server-key.pem");
        let key =
            PrivateKeyDer::from_pem_file(&key_path).map_err(|error| wrong(&key_path, &error))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let builder = match clients {
            Clients::Any => builder.with_no_client_auth(),
            Clients::WithCertificate => {
                let path = folder.join("ca-cert.pem");
                let mut roots = RootCertStore::empty();
                for certificate in certificates(&path)? {
                    roots.add(certificate).map_err(|error| wrong(&path, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                let verifier = verifier.build().map_err(|error| wrong(&path, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(chain, key);
        config.map(|config| Tls(Arc::new(config))).map_err(|error| wrong(&key_path, &error))
    }
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, &error))?;
    let found: Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|error| wrong(path, &error))?;
    if found.is_empty() { Err(wrong(path, &"has no certificate")) } else { Ok(found) }
}

fn wrong(path: &Path, error: &dyn fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
}
