//! The gateway's memory.

use std::io;
use std::time::Duration;

use ackclock_tests::netns::raise_descriptor_limit;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::{PROXY, V4, with_arguments};

/// Sends back what comes.
async fn echoes() -> io::Result<()> {
    let listener = TcpListener::bind("[::]:7").await?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buf = [0; 1024];
                while let Ok(len @ 1..) = stream.read(&mut buf).await {
                    stream.write_all(&buf[..len]).await.ok();
                }
            });
        }
    });
    Ok(())
}

/// Lets the kernel of this namespace keep 256 kB in each direction of a connection, not megabytes.
fn small_buffers() -> io::Result<()> {
    std::fs::write("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 262144")?;
    std::fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 262144")
}

/// Accepts connections and reads nothing from them.
async fn deaf() -> io::Result<()> {
    small_buffers()?;
    let listener = TcpListener::bind("[::]:7").await?;
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    Ok(())
}

/// Resident memory of a process, in bytes.
fn resident(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn an_idle_connection_takes_less_than_eight_kilobytes() {
    const CONNECTIONS: usize = 1000;
    raise_descriptor_limit().unwrap();
    with_arguments(PROXY, &[], None, echoes(), |program| async move {
        let before = resident(program.id());
        let mut open = Vec::new();
        while open.len() < CONNECTIONS {
            // Not all at once: a SYN that the device's queue drops is repeated a second later.
            let more: JoinSet<_> = (0..50).map(|_| TcpStream::connect(V4)).collect();
            open.extend(more.join_all().await.into_iter().map(Result::unwrap));
        }
        let each = resident(program.id()).saturating_sub(before) / CONNECTIONS;
        assert!(each <= 8000, "{each} bytes each");
        // They work.
        for stream in &mut open {
            stream.write_all(b"x").await.unwrap();
            stream.read_u8().await.unwrap();
        }
        drop(program);
    });
}

#[test]
fn connections_whose_destination_takes_nothing_stay_within_the_bounds() {
    const CONNECTIONS: usize = 32;
    with_arguments(PROXY, &["--memory", "8"], None, deaf(), |program| async move {
        small_buffers().unwrap();
        let before = resident(program.id());
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            open.push(TcpStream::connect(V4).await.unwrap());
        }
        // Until nothing takes a byte any more: the sockets of both kernels, the proxy's, the stack's.
        let (mut all, chunk) = (0, vec![7; 64 << 10]);
        loop {
            let mut taken = 0;
            for stream in &open {
                taken += stream.try_write(&chunk).unwrap_or(0);
            }
            all += taken;
            tokio::time::sleep(Duration::from_millis(50)).await;
            if taken == 0 {
                break;
            }
        }
        let held = resident(program.id()).saturating_sub(before);
        // The stack's budget, what each pump may hold, and as much again for what an allocator keeps.
        let bound = 2 * (8_000_000 + CONNECTIONS * ackclock::pump::HELD_BYTES_MAX);
        assert!(held <= bound && all > bound, "{held} bytes held of {all}, at most {bound}");
        drop(program);
    });
}
