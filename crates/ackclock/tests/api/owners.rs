//! A stack drops a program's objects outside its locks, so a destructor may use the stack.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use ackclock::congestion::{
    Ack, Controller, ControllerFactory, IdleRestart, LossEpisode, Start, Timeout, Undo, Window, factory,
};
use ackclock::{Stack, TcpListener, TcpStream};
use ackclock_device::memory;
use bytes::Bytes;
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::support::{
    SERVER, Virtual, addr, connection, detached, ends, host, hosts, hosts_with_network, settle,
};

/// The slices that are kept rather than copied have 32 KiB and more.
const LEN: usize = 100_000;

/// Uses its stack when it is dropped, which takes the lock of each queue.
#[derive(Debug)]
struct User {
    stack: Stack,
    listener: Option<TcpListener>,
    drops: Arc<AtomicUsize>,
}

impl User {
    fn of(stack: &Stack) -> (Self, Arc<AtomicUsize>) {
        let drops = Arc::default();
        let listener = stack.listen(addr("0.0.0.0:0")).unwrap();
        (Self { stack: stack.clone(), listener: Some(listener), drops: Arc::clone(&drops) }, drops)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.stack.connections();
        drop(self.listener.take());
        self.drops.fetch_add(1, Relaxed);
    }
}

/// The bytes of a file, say, that a user keeps.
struct Kept(Vec<u8>, #[expect(dead_code, reason = "it is there to be dropped")] User);

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn kept(stack: &Stack) -> (Bytes, Arc<AtomicUsize>) {
    let (user, drops) = User::of(stack);
    (Bytes::from_owner(Kept(vec![7; LEN], user)), drops)
}

async fn read(peer: &TcpStream, mut len: usize) {
    while len > 0 {
        peer.readable().await.unwrap();
        len -= peer.try_read_bytes(len).map_or(0, |bytes| bytes.len());
    }
}

#[test]
fn bytes_that_were_acknowledged() {
    ends(|| async {
        let hosts = hosts();
        let (mut stream, peer) = connection(&hosts).await;
        let (mut bytes, drops) = kept(&hosts.client);
        stream.write_all_bytes(&mut bytes).await.unwrap();
        drop(bytes);
        assert_eq!(drops.load(Relaxed), 0);
        read(&peer, LEN).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(drops.load(Relaxed), 1);
    });
}

#[test]
fn bytes_to_the_stack_itself() {
    ends(|| async {
        let hosts = hosts();
        let (mut stream, peer) = crate::support::between(&hosts.server, &hosts.server).await;
        let (mut bytes, drops) = kept(&hosts.server);
        let write = async {
            stream.write_all_bytes(&mut bytes).await.unwrap();
            drop(bytes);
        };
        tokio::join!(write, read(&peer, LEN));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(drops.load(Relaxed), 1);
    });
}

#[test]
fn bytes_of_connections_that_were_reset() {
    for ends_how in [
        |stream: TcpStream, _: TcpStream, _: &Stack| stream.abort(),
        |_: TcpStream, peer: TcpStream, _: &Stack| peer.abort(),
        |_: TcpStream, _: TcpStream, stack: &Stack| stack.abort(),
        |stream: TcpStream, _: TcpStream, _: &Stack| stream.set_zero_linger().unwrap(),
    ] {
        ends(move || async move {
            let hosts = hosts();
            let (mut stream, peer) = connection(&hosts).await;
            let (mut bytes, drops) = kept(&hosts.client);
            stream.write_all_bytes(&mut bytes).await.unwrap();
            drop(bytes);
            ends_how(stream, peer, &hosts.client);
            sleep(Duration::from_secs(1)).await;
            assert_eq!(drops.load(Relaxed), 1);
        });
    }
}

#[test]
fn bytes_of_a_stack_that_ends() {
    for cut in [false, true] {
        ends(move || async move {
            let hosts = hosts();
            let (mut stream, _peer) = connection(&hosts).await;
            let (mut bytes, drops) = kept(&hosts.client);
            stream.write_all_bytes(&mut bytes).await.unwrap();
            drop(bytes);
            if cut {
                hosts.cable.unplug();
                settle().await;
            } else {
                hosts.client.shutdown().await;
            }
            assert_eq!(drops.load(Relaxed), 1);
        });
    }
}

#[test]
fn bytes_of_a_connection_that_times_out() {
    ends(|| async {
        let (client, server, network) = hosts_with_network();
        let (mut stream, _peer) = crate::support::between(&client, &server).await;
        network.set_blackout(true);
        let (mut bytes, drops) = kept(&client);
        assert!(stream.write_bytes(&mut bytes).await.unwrap() > 0);
        drop(bytes);
        stream.set_user_timeout(Some(Duration::from_secs(20))).unwrap();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(drops.load(Relaxed), 1);
    });
}

#[test]
fn bytes_of_a_stack_whose_runtime_ends() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let (hosts, stream, _peer, drops) = runtime.block_on(async {
        let hosts = hosts();
        let (mut stream, peer) = connection(&hosts).await;
        let (mut bytes, drops) = kept(&hosts.client);
        stream.write_all_bytes(&mut bytes).await.unwrap();
        (hosts, stream, peer, drops)
    });
    ends(move || async move {
        runtime_guard(runtime);
        assert_eq!(drops.load(Relaxed), 1);
        drop((hosts, stream));
    });
}

/// A runtime must not be dropped within another: it goes to a thread of its own, which has ended.
fn runtime_guard(runtime: tokio::runtime::Runtime) {
    std::thread::spawn(move || drop(runtime)).join().unwrap();
}

#[test]
fn bytes_of_two_queues() {
    ends(|| async {
        let (near, far): (Vec<_>, Vec<_>) = (0..2).map(|_| memory::pair(memory::Config::default())).unzip();
        let client = host("10.0.0.1/24", "fd00::1/64").queues(near).spawn().unwrap();
        let peers: Vec<Stack> = far
            .into_iter()
            .map(|device| host("10.0.0.2/24", "fd00::2/64").device(device).spawn().unwrap())
            .collect();
        let mut all = Vec::new();
        for peer in &peers {
            // The queues take turns.
            let listener = peer.listen(addr(SERVER)).unwrap();
            let (mut stream, accepted) = crate::support::accepted(&client, &listener).await;
            let (mut bytes, drops) = kept(&client);
            stream.write_all_bytes(&mut bytes).await.unwrap();
            all.push((stream, accepted, listener, drops));
        }
        client.abort();
        settle().await;
        for (.., drops) in &all {
            assert_eq!(drops.load(Relaxed), 1);
        }
    });
}

#[test]
fn bytes_and_wakers_of_a_port() {
    struct Waking(#[expect(dead_code, reason = "it is there to be dropped")] User);
    impl Wake for Waking {
        fn wake(self: Arc<Self>) {}
    }
    ends(|| async {
        let clock = Arc::new(Virtual::default());
        let (stack, mut port) = detached(&clock, 1);
        let (user, drops) = User::of(&stack);
        let waker = Waker::from(Arc::new(Waking(user)));
        while port.poll_work(&mut Context::from_waker(&waker)).is_ready() {}
        drop(waker);
        assert_eq!(drops.load(Relaxed), 0, "the port keeps it");
        let _ = port.poll_work(&mut Context::from_waker(Waker::noop()));
        assert_eq!(drops.load(Relaxed), 1);
    });
}

/// A controller that keeps something of its program.
#[derive(Debug)]
struct Keeps(Window, #[expect(dead_code, reason = "it is there to be dropped")] User);

impl Controller for Keeps {
    fn name(&self) -> &'static str {
        "keeps"
    }
    fn on_ack(&mut self, ack: &Ack) {
        self.0.reno_step(ack.bytes_acked);
    }
    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.0.reduce(self.0.half_of(loss.flight_size));
    }
    fn on_timeout(&mut self, timeout: &Timeout) {
        self.0.collapse(timeout, self.0.half_of(timeout.flight_size));
    }
    fn on_idle_restart(&mut self, idle: &IdleRestart) {
        self.0.restart(idle);
    }
    fn on_undo(&mut self, _: &Undo) {
        self.0.undo();
    }
    fn on_mss_change(&mut self, smss: u32) {
        self.0.set_smss(smss);
    }
    fn cwnd(&self) -> u64 {
        self.0.cwnd()
    }
    fn ssthresh(&self) -> u64 {
        self.0.ssthresh()
    }
}

/// The controllers that a factory has made, and whether each is gone.
#[derive(Default)]
struct Made {
    controllers: Mutex<Vec<Arc<AtomicUsize>>>,
    factory: Arc<AtomicUsize>,
}

impl Made {
    /// How many controllers there were, how many are gone, and whether the factory is.
    fn counts(&self) -> (usize, usize, usize) {
        let controllers = self.controllers.lock().unwrap();
        let gone = controllers.iter().map(|drops| drops.load(Relaxed)).sum();
        (controllers.len(), gone, self.factory.load(Relaxed))
    }
}

/// A factory of such controllers, which keeps something itself.
fn keeping(stack: &Stack) -> (Arc<dyn ControllerFactory>, Arc<Made>) {
    // Made here: a factory is called under the lock.
    let users = Mutex::new((0..4).map(|_| User::of(stack)).collect::<Vec<_>>());
    let (own, factory_drops) = User::of(stack);
    let made = Arc::new(Made { factory: factory_drops, ..Made::default() });
    let notes = Arc::clone(&made);
    let create = move |start: &Start| -> Box<dyn Controller> {
        let _keeps = &own;
        let (user, drops) = users.lock().unwrap().pop().expect("few are made");
        notes.controllers.lock().unwrap().push(drops);
        Box::new(Keeps(Window::new(start), user))
    };
    (factory("keeps", create), made)
}

#[test]
fn controllers_and_their_factories() {
    for replaces in [false, true] {
        ends(move || async move {
            let hosts = hosts();
            let (factory, made) = keeping(&hosts.client);
            let listener = hosts.server.listen(addr(SERVER)).unwrap();
            let socket = hosts.client.socket();
            socket.set_congestion_control(factory).unwrap();
            let (stream, accepted) = tokio::join!(socket.connect(addr(SERVER)), listener.accept());
            let (stream, (peer, _)) = (stream.unwrap(), accepted.unwrap());
            let (controllers, gone, factories) = made.counts();
            assert_eq!((controllers - gone, factories), (1, 0));
            if replaces {
                stream.set_congestion_control("reno").unwrap();
            } else {
                drop((peer, stream));
                sleep(Duration::from_secs(600)).await;
            }
            assert_eq!(made.counts(), (controllers, controllers, 1));
        });
    }
}

#[test]
fn factories_of_sockets_and_listeners_that_fail_or_close() {
    ends(|| async {
        let hosts = hosts();
        let taken = hosts.client.listen(addr("10.0.0.1:80")).unwrap();
        let (factory, made) = keeping(&hosts.client);
        let builder = hosts.client.listener().addr(addr("10.0.0.1:80")).congestion_control(factory).unwrap();
        assert!(builder.bind().is_err());
        assert_eq!(made.counts(), (0, 0, 1));
        drop(taken);

        let (factory, made) = keeping(&hosts.client);
        let builder = hosts.client.listener().addr(addr("10.0.0.1:80")).congestion_control(factory).unwrap();
        let listener = builder.bind().unwrap();
        drop(listener);
        assert_eq!(made.counts(), (0, 0, 1));

        let (factory, made) = keeping(&hosts.client);
        let socket = hosts.client.socket();
        socket.set_congestion_control(factory).unwrap();
        assert!(socket.connect(addr("0.0.0.0:0")).await.is_err());
        assert_eq!(made.counts(), (0, 0, 1));
    });
}
