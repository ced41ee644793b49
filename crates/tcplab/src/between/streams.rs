//! Connections: each is one of the system's, one of the network's, and one of the system's again.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ackclock::pump::Pump;
use ackclock::{Incoming, Stack};
use ackclock_cli::output;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Way;
use crate::real_time::leave::{self, TURN_BYTES};

/// The first host: accepts programs and carries each through the network.
pub(super) async fn from_programs(ways: Arc<[Way]>, index: usize, stack: Stack) -> anyhow::Result<()> {
    let way = &ways[index];
    let listener = way.listener.try_clone()?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let (room, mut connections) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), JoinSet::new());
    loop {
        // It is never closed.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return Ok(()) };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((socket, _)) = accepted else {
            // Out of descriptors, most likely.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        way.tally.connected();
        let (ways, stack) = (Arc::clone(&ways), stack.clone());
        connections.spawn(async move {
            enter(socket, &stack, &ways[index]).await;
            drop(permit);
        });
    }
}

/// A program has connected.
async fn enter(socket: TcpStream, stack: &Stack, way: &Way) {
    let connected = async {
        socket.set_nodelay(true)?;
        let stream = stack.connect(way.server).await?;
        stream.set_nodelay(true)?;
        std::io::Result::Ok(stream)
    };
    let stream = match connected.await {
        Ok(stream) => stream,
        Err(_) => {
            // Dropped, it resets the program's connection.
            socket.set_zero_linger().ok();
            return way.tally.refused();
        }
    };
    let pump = Pump::new(stream, socket).counts(way.tally.carried()).turn_bytes(TURN_BYTES);
    way.tally.ended(&pump.await.end);
}

/// The second host: answers a connection once the program behind it has.
pub(super) async fn to_program(ways: Arc<[Way]>, index: usize, stack: Stack) -> anyhow::Result<()> {
    let listener = stack.listener().addr(ways[index].server).deferred()?;
    let (refuses, mut connections) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    loop {
        let incoming = tokio::select! {
            // It fails when the stack ends.
            incoming = listener.incoming() => match incoming {
                Ok(incoming) => incoming,
                Err(_) => return Ok(()),
            },
            Some(_) = connections.join_next() => continue,
        };
        let (ways, refuses) = (Arc::clone(&ways), Arc::clone(&refuses));
        connections.spawn(async move { leave(incoming, &ways[index].to, &refuses).await });
    }
}

/// A connection has come through the network. `refuses`: the last one found no program.
async fn leave(incoming: Incoming, to: &str, refuses: &AtomicBool) {
    match leave::leave(incoming, to, None).await {
        Ok(_) => refuses.store(false, Relaxed),
        Err((incoming, error)) => {
            incoming.reset();
            if !refuses.swap(true, Relaxed) {
                output::say(format_args!("tcplab: cannot connect to {to}: {error}; clients are reset"));
            }
        }
    }
}

/// The most connections of one --listen at one time; more wait in the system's backlog.
const CONNECTIONS_MAX: usize = 4096;
