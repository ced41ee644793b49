//! Local ports that lead to hosts behind the peer.

use std::io;
use std::sync::Arc;

use ackclock::pump::Pump;
use ackclock::{Stack, TcpStream};
use anyhow::Context;
use tokio::net;
use tokio::sync::Semaphore;

use crate::args::{Forward, Remote};

/// Binds the local port; the task carries its connections for as long as the stack lives.
pub(crate) async fn start(stack: &Stack, forward: Forward) -> anyhow::Result<()> {
    let listener = net::TcpListener::bind(forward.local)
        .await
        .with_context(|| format!("listening on {}", forward.local))?;
    eprintln!("{} leads to {}", listener.local_addr()?, forward.remote);
    tokio::spawn(accept(stack.clone(), listener, forward));
    Ok(())
}

async fn accept(stack: Stack, listener: net::TcpListener, forward: Forward) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // The semaphore is never closed.
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        let client = match listener.accept().await {
            Ok((client, _)) => client,
            Err(error) => {
                // Most likely out of descriptors: connections that end give some back.
                eprintln!("{}: {error}", forward.local);
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        let (stack, forward) = (stack.clone(), forward.clone());
        tokio::spawn(async move {
            if let Err(error) = carry(&stack, client, &forward.remote).await {
                eprintln!("{} to {}: {error}", forward.local, forward.remote);
            }
            drop(permit);
        });
    }
}

/// Carries bytes both ways until both have finished. If one side fails, the other is reset: what it has is
/// not everything.
async fn carry(stack: &Stack, client: net::TcpStream, remote: &Remote) -> io::Result<()> {
    match TcpStream::connect(stack, remote.as_str()).await {
        Ok(remote) => Pump::new(remote, client).await.into_result().map(drop),
        Err(error) => {
            client.set_zero_linger()?;
            Err(error)
        }
    }
}

/// Connections at one time, for each port; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 1024;
