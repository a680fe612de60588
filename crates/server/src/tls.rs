//! The TLS certificate.

use std::sync::Arc;

pub use tokio_rustls::rustls::ServerConfig as TlsConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Reads PEM: a chain of certificates, and the key of the first.
pub fn tls(chain: &[u8], key: &[u8]) -> Result<Arc<TlsConfig>, String> {
    let chain = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("the certificate cannot be read: {error}"))?;
    if chain.is_empty() {
        return Err("there is no certificate in the file".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| format!("the key cannot be read: {error}"))?;
    let config = TlsConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    config.map(Arc::new).map_err(|error| format!("certificate and key do not match: {error}"))
}
