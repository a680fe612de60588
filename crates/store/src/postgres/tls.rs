//! Keeping others from reading along: TLS, and as much of a look at the server's certificate as `sslmode` asks for.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};
use crate::url::{Roots, SslMode, Target};

/// What encrypts connections; nothing where none is to be encrypted.
pub(super) fn connector(target: &Target) -> Result<Option<MakeRustlsConnect>> {
    if target.ssl == SslMode::Disable {
        return Ok(None);
    }
    let provider = Arc::new(ring::default_provider());
    let check = Arc::new(Check::new(target, Arc::clone(&provider))?);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?
        .dangerous()
        .with_custom_certificate_verifier(check);
    let config = match &target.certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| Error::CannotOpen(format!("{}: {error}", key.display())))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| failed(&error))?
        }
    };
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn failed(error: &rustls::Error) -> Error {
    Error::CannotOpen(format!("TLS to PostgreSQL: {error}"))
}

fn certificates(path: &std::path::Path) -> Result<Vec<CertificateDer<'static>>> {
    let bad = |error: &dyn std::fmt::Display| {
        Error::CannotOpen(format!("the certificates in {}: {error}", path.display()))
    };
    let read = CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))?;
    let found: Vec<_> = read.collect::<std::result::Result<_, _>>().map_err(|error| bad(&error))?;
    if found.is_empty() { Err(bad(&"there are none")) } else { Ok(found) }
}

/// How closely the certificate of a server is looked at.
#[derive(Debug)]
struct Check {
    provider: Arc<CryptoProvider>,
    /// By whom it has to be signed. As with libpq, `require` alone says nothing of that.
    signed: Option<Arc<WebPkiServerVerifier>>,
    /// Certificates that are believed themselves: servers often have one that nobody else has signed.
    known: Vec<CertificateDer<'static>>,
    /// Whether it has to be for the server that was named.
    is_named: bool,
}

impl Check {
    fn new(target: &Target, provider: Arc<CryptoProvider>) -> Result<Self> {
        let is_named = target.ssl == SslMode::VerifyFull;
        let is_signed = is_named
            || target.ssl == SslMode::VerifyCa
            || target.ssl == SslMode::Require && target.roots != Roots::System;
        let known = match &target.roots {
            Roots::File(path) if is_signed => certificates(path)?,
            _ => Vec::new(),
        };
        let signed = if is_signed {
            let roots = Arc::new(roots(&target.roots)?);
            let verifier =
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
            Some(verifier.build().map_err(|error| Error::CannotOpen(error.to_string()))?)
        } else {
            None
        };
        Ok(Self { provider, signed, known, is_named })
    }
}

fn roots(which: &Roots) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match which {
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            // What this system has that cannot be read signs nothing for us.
            let (added, _) = roots.add_parsable_certificates(found.certs);
            if added == 0 {
                return Err(Error::CannotOpen(
                    "this system has no certificates to check that of PostgreSQL by: name a file with sslrootcert".into(),
                ));
            }
        }
        Roots::File(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| failed(&error))?;
            }
        }
    }
    Ok(roots)
}

impl ServerCertVerifier for Check {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        revoked: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(signed) = &self.signed else { return Ok(ServerCertVerified::assertion()) };
        if self.known.iter().any(|known| known == certificate) {
            if self.is_named {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        match signed.verify_server_cert(certificate, between, name, revoked, now) {
            Err(rustls::Error::InvalidCertificate(
                NotValidForName | NotValidForNameContext { .. },
            )) if !self.is_named => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
