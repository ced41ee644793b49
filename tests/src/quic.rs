//! QUIC by quinn for tests: endpoints with one certificate, which is the same in every run, and downloads.

use std::sync::Arc;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ReadError, ServerConfig};
use rcgen::{CertificateParams, KeyPair};

use crate::kernel::payload;

/// The server's name in its certificate.
pub const NAME: &str = "server.test";

/// A server's settings, and those of a client that trusts this server and no other.
///
/// The key is Ed25519's: each of its signatures has as many bytes as the next, and so has each handshake.
///
/// # Panics
/// Never: the certificate is the same each time.
#[must_use]
pub fn configs() -> (ServerConfig, ClientConfig) {
    let pkcs8 = PrivatePkcs8KeyDer::from([PKCS8_ED25519, &[7; 32]].concat());
    let signer = KeyPair::try_from(&pkcs8).expect("a key of Ed25519");
    let certificate =
        CertificateParams::new([NAME.to_owned()]).and_then(|params| params.self_signed(&signer));
    let certificate: CertificateDer<'static> = certificate.expect("a name").der().clone();
    let mut trusted = RootCertStore::empty();
    trusted.add(certificate.clone()).expect("a certificate");
    let server = ServerConfig::with_single_cert(vec![certificate], pkcs8.into()).expect("its key");
    (server, ClientConfig::with_root_certificates(Arc::new(trusted)).expect("a trusted certificate"))
}

/// An endpoint's settings whose random choices, such as which packet numbers to leave out, are the seed's.
#[must_use]
pub fn seeded(seed: u8) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.rng_seed(Some([seed; 32]));
    config
}

/// Sends `bytes` of a payload on every connection.
pub async fn give(endpoint: Endpoint, bytes: u64, seed: u64) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            let mut stream = connection.open_uni().await?;
            payload::send(&mut stream, bytes, seed).await?;
            stream.finish()?;
            connection.closed().await;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
    }
}

/// Takes what [`give`] sends, calls `took` for each part, and closes the connection.
///
/// # Errors
/// The connection's.
pub async fn take(connection: &Connection, mut took: impl FnMut(&[u8])) -> Result<(), ReadError> {
    let mut stream = connection.accept_uni().await?;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        took(&chunk.bytes);
    }
    connection.close(0_u32.into(), b"done");
    Ok(())
}

/// The bytes before the 32 bytes of a key in PKCS #8 (RFC 8410 §7).
const PKCS8_ED25519: &[u8] = &[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
