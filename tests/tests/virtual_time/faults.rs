//! Partitions, held packets and crashes, from within the program.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ackclock::{Stack, TcpStream};
use ackclock_sim::units::{Rate, Share, Span};
use ackclock_sim::{Change, Faults, VirtualNetwork};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use super::support::{echo, ends, path, two};

/// Echoes on port 80 of a host.
async fn echoes(stack: Stack) {
    echo(stack.listen("0.0.0.0:80".parse().unwrap()).unwrap()).await.ok();
}

async fn round_trip(stream: &mut TcpStream) -> Duration {
    let sent = Instant::now();
    stream.write_all(b"ping").await.unwrap();
    stream.read_exact(&mut [0; 4]).await.unwrap();
    sent.elapsed()
}

/// Runs `test` on host `a` with a connection to an echo on host `b`, and gives the network.
fn on_a_connection(test: impl AsyncFnOnce(TcpStream, Faults)) -> VirtualNetwork {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, listener, addr) = ends(&mut net, "a", "b");
    let faults = net.faults();
    let done = net.run(async {
        tokio::spawn(echo(listener));
        test(client.connect(addr).await.unwrap(), faults).await;
    });
    assert_eq!(done, Ok(()));
    net
}

#[test]
fn a_partition_begins_and_ends_when_the_program_says_so() {
    let net = on_a_connection(async |mut stream, faults| {
        assert!(round_trip(&mut stream).await < Duration::from_millis(50));
        faults.partition("a", "b").unwrap();
        faults.after(Duration::from_secs(3)).heal("*", "*").unwrap();
        // The retransmissions after 0.2, 0.4, 0.8 s and so on do not get through.
        let took = round_trip(&mut stream).await;
        assert!((Duration::from_secs(3)..Duration::from_secs(7)).contains(&took), "{took:?}");
        assert!(round_trip(&mut stream).await < Duration::from_millis(50));
    });
    assert!(net.report().packets_partitioned >= 4);
}

#[test]
fn held_packets_wait_for_their_release() {
    on_a_connection(async |mut stream, faults| {
        faults.hold("b", "a").unwrap();
        faults.after(Duration::from_millis(100)).release("b", "a").unwrap();
        let took = round_trip(&mut stream).await;
        // The request waits for the release, and its answer takes the way back.
        assert!((120..125).contains(&took.as_millis()), "{took:?}");
    });
}

#[test]
fn a_crashed_host_is_silent_then_resets_then_serves_again() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, faults) = (net.stack("a").unwrap(), net.faults());
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    net.start("b", move |stack| {
        counted.fetch_add(1, Ordering::Relaxed);
        echoes(stack)
    })
    .unwrap();
    let addr = (net.lookup("b").unwrap(), 80).into();
    let done = net.run(async {
        let mut stream = client.connect(addr).await.unwrap();
        round_trip(&mut stream).await;
        faults.crash("b").unwrap();
        stream.write_all(b"ping").await.unwrap();
        let silence = timeout(Duration::from_secs(5), stream.read(&mut [0; 4])).await;
        assert!(silence.is_err(), "{silence:?}");
        let connecting = timeout(Duration::from_secs(5), client.connect(addr)).await;
        assert!(connecting.is_err(), "{connecting:?}");
        faults.restart("b").unwrap();
        let error = stream.read(&mut [0; 4]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let mut again = client.connect(addr).await.unwrap();
        round_trip(&mut again).await;
    });
    assert_eq!(done, Ok(()));
    assert_eq!(starts.load(Ordering::Relaxed), 2);
    assert!(net.report().packets_to_hosts_down >= 3);
}

#[test]
fn a_host_may_run_another_program_after_its_restart() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, server) = (net.stack("a").unwrap(), net.stack("b").unwrap());
    let (faults, addr) = (net.faults(), (net.lookup("b").unwrap(), 80).into());
    let done = net.run(async {
        let listener = server.listen(addr).unwrap();
        faults.crash("b").unwrap();
        // The handles of its first life fail.
        assert!(listener.accept().await.is_err());
        assert!(server.connect("10.0.0.1:80".parse().unwrap()).await.is_err());
        faults.restart_with("b", echoes).unwrap();
        let mut stream = client.connect(addr).await.unwrap();
        round_trip(&mut stream).await;
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn a_link_is_degraded_and_repaired() {
    on_a_connection(async |mut stream, faults| {
        let slow = Change { delay: Some(Span::millis(200)), ..Change::new(Span(0), "a-b") };
        faults.degrade(slow).unwrap();
        let took = round_trip(&mut stream).await.as_millis();
        assert!((400..405).contains(&took), "{took}");
        let back =
            Change { delay: Some(Span::millis(20)), rate: Some(Rate::mbit(1)), ..Change::new(Span(0), "*") };
        faults.after(Duration::from_secs(1)).degrade(back).unwrap();
        sleep(Duration::from_secs(2)).await;
        let took = round_trip(&mut stream).await.as_millis();
        assert!((40..45).contains(&took), "{took}");
        let all = Change { loss: Some(Share::ONE), ..Change::new(Span(0), "a-b") };
        faults.degrade(all).unwrap();
        let lost = timeout(Duration::from_secs(9), async { round_trip(&mut stream).await }).await;
        assert!(lost.is_err());
    });
}

#[test]
fn wrong_names_are_told_at_once() {
    let net = VirtualNetwork::new(&two(path())).unwrap();
    let faults = net.faults();
    let said = faults.partition("a", "server").unwrap_err().to_string();
    assert!(said.starts_with("change.partition[1]: found `server`; allowed are `a`, `b`"), "{said}");
    assert!(faults.crash("c*").is_err() && faults.restart_with("c", echoes).is_err());
    assert!(
        faults.degrade(Change::new(Span(0), "a-b")).unwrap_err().to_string().contains("nothing that changes")
    );
}

#[test]
#[should_panic(expected = "the server's own")]
fn the_panic_of_a_hosts_program_is_the_runs() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    net.start("b", |_| async {
        sleep(Duration::from_secs(1)).await;
        panic!("the server's own");
    })
    .unwrap();
    let _ = net.run(async { sleep(Duration::from_secs(5)).await });
}
