//! A stack that someone else drives, in virtual time and without a runtime.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock::{Clock as _, Instant, Limits, Port, Stack};
use ackclock_wire::pipe::Pipe;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Virtual, Woken, addr, detached};

const LIMITS: Limits = Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };
const ONE_WAY: Duration = Duration::from_millis(5);

/// Two ports, a cable with a delay between them, and one application.
struct VirtualCable {
    clock: Arc<Virtual>,
    ports: [Port; 2],
    /// Packets under way, and where they arrive.
    flying: Pipe<Instant, (usize, Vec<u8>)>,
    /// Everything that was ever sent, with its time.
    log: Vec<(u64, Vec<u8>)>,
}

impl VirtualCable {
    fn new() -> (Stack, Stack, Self) {
        let clock = Arc::default();
        let (left, left_port) = detached(&clock, 1);
        let (right, right_port) = detached(&clock, 2);
        let ports = [left_port, right_port];
        (left, right, Self { clock, ports, flying: Pipe::new(), log: Vec::new() })
    }

    fn run<T>(&mut self, application: impl Future<Output = T>) -> T {
        let mut application = Box::pin(application);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            if let Poll::Ready(done) = poll_until_still(application.as_mut(), &waker, &woken) {
                return done;
            }
            let sent = self.collect();
            if woken.times() == 0 && !sent {
                self.jump();
            }
        }
    }

    /// Takes what both ports send; whether there was anything.
    fn collect(&mut self) -> bool {
        let now = self.clock.now();
        let before = self.flying.in_transit();
        for (from, port) in self.ports.iter_mut().enumerate() {
            let (flying, log) = (&mut self.flying, &mut self.log);
            while port.poll_transmit(now, LIMITS, |packet| {
                let bytes = packet.to_vec();
                log.push((now.as_nanos(), bytes.clone()));
                flying.carry(now + ONE_WAY, (1 - from, bytes));
            }) {}
        }
        self.flying.in_transit() > before
    }

    /// Moves time to the next arrival or deadline, and does what is due.
    fn jump(&mut self) {
        let deadlines = self.ports.iter().filter_map(Port::poll_timeout);
        let next = self.flying.next_due().into_iter().chain(deadlines).min().expect("a task waits for ever");
        let now = next.max(self.clock.now());
        self.clock.set(now);
        while let Some((_, (to, bytes))) = self.flying.take_due(now) {
            self.ports[to].handle_packet(now, &bytes, Default::default());
        }
        for port in &mut self.ports {
            port.handle_timeout(now);
        }
    }
}

fn poll_until_still<T>(
    mut application: Pin<&mut impl Future<Output = T>>,
    waker: &Waker,
    woken: &Woken,
) -> Poll<T> {
    loop {
        woken.reset();
        let polled = application.as_mut().poll(&mut Context::from_waker(waker));
        if polled.is_ready() || woken.times() == 0 {
            return polled;
        }
    }
}

/// A transfer of 200 KB; returns what was received.
async fn transfer(left: &Stack, right: &Stack) -> Vec<u8> {
    let listener = right.listen(addr("10.0.0.2:80")).unwrap();
    let (sender, accepted) = tokio::join!(left.connect(addr("10.0.0.2:80")), listener.accept());
    let (mut sender, mut receiver) = (sender.unwrap(), accepted.unwrap().0);
    let mut received = Vec::new();
    let send = async {
        sender.write_all(&vec![3; 200_000]).await.unwrap();
        sender.shutdown().await.unwrap();
    };
    tokio::join!(send, async { receiver.read_to_end(&mut received).await.unwrap() });
    received
}

#[test]
fn the_api_runs_in_virtual_time_without_a_runtime() {
    let (left, right, mut cable) = VirtualCable::new();
    let received = cable.run(transfer(&left, &right));
    assert_eq!(received.len(), 200_000);
    // Ten segments in the first flight and doubling: a handful of round trips of 10 ms.
    let took = cable.clock.now().saturating_since(Instant::ZERO);
    assert!(took > Duration::from_millis(30) && took < Duration::from_millis(300), "{took:?}");
}

#[test]
fn the_same_seed_and_calls_send_the_same_packets_at_the_same_times() {
    let run = || {
        let (left, right, mut cable) = VirtualCable::new();
        cable.run(transfer(&left, &right));
        cable.log
    };
    let (first, second) = (run(), run());
    assert!(first.len() > 100);
    assert!(first == second);
}

#[test]
fn dropping_the_port_fails_the_calls() {
    let (left, _right, cable) = VirtualCable::new();
    drop(cable);
    let mut connect = Box::pin(left.connect(addr("10.0.0.2:80")));
    let polled = connect.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Err(error)) = polled else { panic!("the call waits on a stack without a driver") };
    assert_eq!(error.kind(), std::io::ErrorKind::NetworkDown);
}

#[test]
fn a_call_that_leaves_work_is_told_to_the_ports_holder() {
    let (left, _right, mut cable) = VirtualCable::new();
    let mut cx = Context::from_waker(Waker::noop());
    while cable.ports[0].poll_work(&mut cx).is_ready() {}
    let mut connect = Box::pin(left.connect(addr("10.0.0.2:80")));
    assert!(connect.as_mut().poll(&mut cx).is_pending());
    assert!(cable.ports[0].poll_work(&mut cx).is_ready());
    assert!(cable.ports[0].poll_work(&mut cx).is_pending());
}

#[test]
fn the_ports_holder_takes_the_groups_and_has_no_work_then() {
    let (left, _right, mut cable) = VirtualCable::new();
    let mut cx = Context::from_waker(Waker::noop());
    let port = &mut cable.ports[0];
    assert_eq!(port.take_groups(), None);
    while port.poll_work(&mut cx).is_ready() {}
    let socket = left.udp(addr("0.0.0.0:5000")).unwrap();
    let (one, two) = ([239, 1, 2, 3].into(), "ff15::1234".parse().unwrap());
    socket.join_multicast_v4(one, [0; 4].into()).unwrap();
    assert!(port.poll_work(&mut cx).is_ready());
    socket.join_multicast_v6(&two, 0).unwrap();
    assert_eq!(port.take_groups(), Some(vec![one.into(), two.into()]));
    assert_eq!(port.take_groups(), None);
    // A call that leaves nothing to do wakes the holder no more.
    while port.poll_work(&mut cx).is_ready() {}
    socket.set_ttl(7).unwrap();
    assert!(port.poll_work(&mut cx).is_pending());
    drop(socket);
    assert!(port.poll_work(&mut cx).is_ready());
    assert_eq!(port.take_groups(), Some(vec![]));
}
