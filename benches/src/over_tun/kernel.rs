//! The kernel's TCP as the program: what any stack in user space is compared with.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use super::{OWN, Service};

/// Serves all services on the kernel's sockets until an error. All connections share one thread, as in this
/// stack's program.
///
/// # Errors
/// A port is not free.
pub fn serve_kernel() -> io::Result<()> {
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut services = tokio::task::JoinSet::new();
        for service in Service::ALL {
            services.spawn(accept(service, TcpListener::bind((OWN, service.port())).await?));
        }
        services.join_next().await.expect("there are services").expect("a listener does not panic")
    })
}

async fn accept(service: Service, listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        // A client that disappears ends only its own connection.
        tokio::spawn(serve(service, stream));
    }
}

async fn serve(service: Service, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0x5a; if service == Service::Close { 64 } else { CHUNK }];
    loop {
        if service == Service::Source {
            stream.write_all(&buffer).await?;
            continue;
        }
        let len = stream.read(&mut buffer).await?;
        if len == 0 {
            return Ok(());
        }
        if service == Service::Echo {
            stream.write_all(&buffer[..len]).await?;
        }
    }
}

const CHUNK: usize = 256 << 10;
