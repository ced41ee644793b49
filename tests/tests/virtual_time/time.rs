//! Time: tokio's clock and the network's are the same, to the nanosecond, and nothing happens late.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ackclock_sim::scenario::Loss;
use ackclock_sim::units::{Bytes, Share, Span};
use ackclock_sim::{Scenario, Simulation, TrafficConfig, VirtualNetwork};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, interval, sleep, timeout};

use super::support::{SentPackets, echo, ends, give, path, payload, take, two};

/// A SYN has 40 bytes and 20 of options: 48 microseconds at 10 Mbit/s.
const SYN_ONE_WAY: Duration = Duration::from_nanos(20_048_000);

#[test]
fn a_handshake_takes_its_round_trip_to_the_nanosecond() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, listener, addr) = ends(&mut net, "a", "b");
    let took = net.run(async {
        tokio::spawn(echo(listener));
        let begun = Instant::now();
        client.connect(addr).await.unwrap();
        begun.elapsed()
    });
    assert_eq!(took.unwrap(), 2 * SYN_ONE_WAY);
    assert_eq!(net.now().as_nanos(), 2 * 20_048_000);
}

#[test]
fn connecting_to_nowhere_times_out_after_the_segments_that_the_timer_repeats() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let client = net.stack("a").unwrap();
    let sent = SentPackets::watch(&mut net);
    let failed = net.run(async { client.connect("10.9.9.9:80".parse().unwrap()).await.err() }).unwrap();
    assert_eq!(failed.unwrap().kind(), std::io::ErrorKind::TimedOut);
    // RFC 6298 §2.1, §2.5, §5.5: after a second, and each time after twice as long, up to a minute.
    let times: Vec<u64> = sent.borrow().0.iter().map(|(at, ..)| *at).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() >= 6, "{times:?}");
    for (index, gap) in gaps.iter().enumerate() {
        assert_eq!(*gap, (1_000_000_000 << index).min(60_000_000_000), "{times:?}");
    }
    assert!(net.now().as_nanos() > *times.last().unwrap());
}

#[test]
fn timers_of_tokio_end_on_their_millisecond_while_packets_fly() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, listener, addr) = ends(&mut net, "a", "b");
    let done = net.run(async {
        tokio::spawn(give(listener, payload(2_000_000)));
        let epoch = Instant::now();
        let ticking = tokio::spawn(async move {
            let mut ticks = interval(Duration::from_millis(7));
            for tick in 0..200 {
                ticks.tick().await;
                assert_eq!(epoch.elapsed(), Duration::from_millis(7) * tick);
            }
        });
        let received = take(client.connect(addr).await.unwrap()).await.unwrap();
        assert_eq!(received, payload(2_000_000));
        ticking.await.unwrap();
        epoch.elapsed()
    });
    assert!(done.unwrap() > Duration::from_millis(1600));
}

#[test]
fn a_sleep_that_begins_between_milliseconds_is_never_short_and_less_than_one_too_long() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, listener, addr) = ends(&mut net, "a", "b");
    net.run(async {
        tokio::spawn(echo(listener));
        let mut stream = client.connect(addr).await.unwrap();
        for round in 0..50_u64 {
            stream.write_all(&vec![1; 100 + round as usize]).await.unwrap();
            stream.read_exact(&mut vec![0; 100 + round as usize]).await.unwrap();
            let begun = Instant::now();
            sleep(Duration::from_millis(5)).await;
            let slept = begun.elapsed();
            let within = Duration::from_millis(5)..Duration::from_millis(6);
            assert!(within.contains(&slept), "round {round}: {slept:?}");
        }
    })
    .unwrap();
}

#[test]
fn a_timeout_of_tokio_cuts_a_read_off() {
    let mut net = VirtualNetwork::new(&two(path())).unwrap();
    let (client, listener, addr) = ends(&mut net, "a", "b");
    net.run(async {
        tokio::spawn(echo(listener));
        let mut stream = client.connect(addr).await.unwrap();
        let begun = Instant::now();
        assert!(timeout(Duration::from_secs(90), stream.read_u8()).await.is_err());
        assert!(
            begun.elapsed() >= Duration::from_secs(90) && begun.elapsed() < Duration::from_millis(90_001)
        );
    })
    .unwrap();
}

#[test]
fn an_hour_of_heartbeats_takes_seconds() {
    let mut net = VirtualNetwork::new(&Scenario { duration: Span::seconds(4000), ..two(path()) }).unwrap();
    let (client, listener, addr) = ends(&mut net, "a", "b");
    let begun = cpu_time();
    let beats = net.run(async {
        tokio::spawn(echo(listener));
        let mut stream = client.connect(addr).await.unwrap();
        let mut ticks = interval(Duration::from_secs(1));
        for beat in 0..=3600 {
            ticks.tick().await;
            stream.write_u64(beat).await.unwrap();
            assert_eq!(stream.read_u64().await.unwrap(), beat);
        }
        stream.info().unwrap().bytes_received
    });
    assert_eq!(beats.unwrap(), 3601 * 8);
    assert_eq!(net.now().as_millis() / 1000, 3600);
    // Of the processor's time: other tests run beside.
    let took = cpu_time() - begun;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// How long this thread has had a processor (proc(5), `schedstat`).
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn small_writes_leave_at_once_or_wait_as_nagle_says() {
    let gap = |nodelay: bool| {
        let mut net = VirtualNetwork::new(&two(path())).unwrap();
        let (client, listener, addr) = ends(&mut net, "a", "b");
        let sent = SentPackets::watch(&mut net);
        net.run(async {
            tokio::spawn(echo(listener));
            let mut stream = client.connect(addr).await.unwrap();
            stream.set_nodelay(nodelay).unwrap();
            stream.write_all(&[1; 10]).await.unwrap();
            stream.write_all(&[2; 10]).await.unwrap();
            stream.read_exact(&mut [0; 20]).await.unwrap();
        })
        .unwrap();
        let sent = sent.borrow();
        let small: Vec<u64> =
            sent.0.iter().filter(|(_, node, len)| (*node, *len) == (0, 10)).map(|(at, ..)| *at).collect();
        assert_eq!(small.len(), 2, "{:?}", sent.0);
        small[1] - small[0]
    };
    assert_eq!(gap(true), 0);
    // Until the echo of the first acknowledges it.
    assert!(gap(false) > 40_000_000);
}

/// A stack here acknowledges before its program reads, as on a device, and an application of the simulator
/// reads at once; apart from such acknowledgements the two do the same.
#[test]
fn a_transfer_is_like_the_one_that_the_simulator_makes_itself() {
    const BYTES: u64 = 5_000_000;
    let lossy = path().loss(Loss::Independent(Share::per_million(500)));
    let bulk = two(lossy.clone()).traffic(TrafficConfig::bulk("load", "a", "b", Some(Bytes(BYTES))));
    let mut simulation = Simulation::new(&bulk).unwrap();
    let expected = Rc::new(RefCell::new(SentPackets::default()));
    simulation.observe(Rc::clone(&expected));
    simulation.run();

    let mut net = VirtualNetwork::new(&two(lossy)).unwrap();
    let (client, listener, addr) = ends(&mut net, "a", "b");
    let sent = SentPackets::watch(&mut net);
    let received = net.run(async {
        let reading = tokio::spawn(async move { take(listener.accept().await?.0).await });
        let mut stream = client.connect(addr).await.unwrap();
        stream.write_all(&payload(BYTES as usize)).await.unwrap();
        stream.shutdown().await.unwrap();
        reading.await.unwrap().unwrap()
    });
    assert!(received.unwrap() == payload(BYTES as usize));
    let (own, hosted) = (expected.borrow().data_of(0), sent.borrow().data_of(0));
    // Losses are drawn by packet, and the packets are not quite the same.
    assert!(own.0.abs_diff(hosted.0) <= 10, "{own:?} {hosted:?}");
    let off = own.1.as_secs_f64() / hosted.1.as_secs_f64() - 1.0;
    assert!(off.abs() < 0.02, "{own:?} {hosted:?}");
}
