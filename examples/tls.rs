//! TLS by rustls on a TCP in user space, at both ends, over a cable in memory: one stack serves with a
//! certificate made for this run, and the other trusts this one and no other. With a TUN device the stack
//! serves a page instead (as root):
//!
//!     cargo run --example tls
//!     cargo run --example tls -- tun9
//!     curl --insecure https://10.9.0.2/

use std::io;
use std::sync::Arc;

use ackclock::device::memory;
use ackclock::{Stack, TcpListener, TcpStream};
use ackclock_examples::{STACK, stack_addr, tun};
use anyhow::ensure;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const NAME: &str = "ackclock.test";
const MEGABYTES: usize = 4;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let (acceptor, certificate) = certified()?;
    match std::env::args().nth(1) {
        Some(name) => {
            let stack = Stack::builder().device(tun(&name)?).address(STACK.parse()?).spawn()?;
            let listener = stack.listen((stack_addr(), 443).into())?;
            println!("serving; try: curl --insecure https://{}/", stack_addr());
            serve(listener, acceptor, page).await;
            Ok(())
        }
        None => alone(acceptor, certificate).await,
    }
}

/// An acceptor with a certificate that it signs itself.
fn certified() -> anyhow::Result<(TlsAcceptor, CertificateDer<'static>)> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())?;
    Ok((TlsAcceptor::from(Arc::new(config)), cert.der().clone()))
}

/// Accepts until the stack ends, each connection in its own task.
async fn serve<F>(listener: TcpListener, acceptor: TlsAcceptor, answer: fn(Secured) -> F)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    while let Ok((stream, peer)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let served = match acceptor.accept(stream).await {
                Ok(stream) => answer(stream).await,
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

type Secured = tokio_rustls::server::TlsStream<TcpStream>;

async fn page(mut stream: Secured) -> io::Result<()> {
    let mut request = [0; 4096];
    let len = stream.read(&mut request).await?;
    let line = request[..len].split(|byte| *byte == b'\r').next().unwrap_or_default();
    let body = format!("in user space, and sealed: {}\n", String::from_utf8_lossy(line));
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).await?;
    stream.shutdown().await
}

async fn echo(stream: Secured) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    tokio::io::copy(&mut reader, &mut writer).await?;
    writer.shutdown().await
}

async fn alone(acceptor: TlsAcceptor, certificate: CertificateDer<'static>) -> anyhow::Result<()> {
    let (left, right) = memory::pair(memory::Config::default());
    let client = Stack::builder().device(left).address("10.9.0.1/24".parse()?).spawn()?;
    let server = Stack::builder().device(right).address(STACK.parse()?).spawn()?;
    let listener = server.listen((stack_addr(), 443).into())?;
    tokio::spawn(serve(listener, acceptor, echo));

    let mut trusted = RootCertStore::empty();
    trusted.add(certificate)?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(trusted)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));

    let stream = client.connect((stack_addr(), 443).into()).await?;
    let stream = connector.connect(ServerName::try_from(NAME)?, stream).await?;
    let version = stream.get_ref().1.protocol_version();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let sent: Vec<u8> = (0..MEGABYTES << 20).map(|n| (n % 251) as u8).collect();
    let expected = sent.clone();
    let writing = tokio::spawn(async move {
        writer.write_all(&sent).await?;
        writer.shutdown().await
    });
    let mut echoed = Vec::new();
    reader.read_to_end(&mut echoed).await?;
    writing.await??;
    ensure!(echoed == expected, "{} bytes came back, or others", echoed.len());

    // A name that the certificate does not cover.
    let stream = client.connect((stack_addr(), 443).into()).await?;
    let refused = connector.connect(ServerName::try_from("other.test")?, stream).await;
    ensure!(refused.is_err(), "the certificate is for another name");
    let version = version.and_then(|version| version.as_str()).unwrap_or("?");
    println!("{MEGABYTES} MiB echoed by {version}; another name was refused");
    Ok(())
}
