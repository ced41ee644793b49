//! A stack has one clock, its driver's, for as long as it runs and from any thread.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock::Stack;
use ackclock_device::memory::{self, MemoryDevice};
use ackclock_device::{Capabilities, Device, ReceiveBatch};
use ackclock_wire::TxPacket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, advance, sleep};

use crate::support::{accepted, addr, host, hosts, kind, settle};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Calls to a device, with their times.
#[derive(Debug, Default)]
struct Asked {
    polls: AtomicUsize,
    sent: Mutex<Vec<Instant>>,
}

#[derive(Debug)]
struct Watched(MemoryDevice, Arc<Asked>);

impl Device for Watched {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.1.polls.fetch_add(1, Relaxed);
        self.0.poll_receive(cx, batch)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        self.1.sent.lock().unwrap().push(Instant::now());
        self.0.send(packet)
    }
}

/// A stack on a watched device, nothing at the other end of its cable.
fn watched() -> (Stack, Arc<Asked>, MemoryDevice) {
    let (left, right) = memory::pair(memory::Config::default());
    let asked = Arc::new(Asked::default());
    let stack = host("10.0.0.1/24", "fd00::1/64").device(Watched(left, Arc::clone(&asked))).spawn().unwrap();
    (stack, asked, right)
}

fn paused() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_driver_sleeps_between_deadlines_however_old_its_stack_is() {
    for age in [364 * DAY, 366 * DAY, 3 * 365 * DAY, 500 * 365 * DAY] {
        let (stack, asked, _cable) = watched();
        advance(age).await;
        let began = Instant::now();
        // The SYN will be sent again in a second.
        let mut connect = pin!(stack.connect(addr("10.0.0.2:80")));
        assert!(connect.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        settle().await;
        let polls = asked.polls.load(Relaxed);
        settle().await;
        assert_eq!(asked.polls.load(Relaxed), polls, "{age:?}");

        // RFC 6298 §5.7, RFC 9293 §3.8.3: the default gives up a SYN after 127 seconds or more.
        assert_eq!(kind(connect.await), io::ErrorKind::TimedOut);
        let took = began.elapsed();
        assert!(took > Duration::from_secs(60) && took < 2 * HOUR, "{age:?}: {took:?}");
        assert!(asked.polls.load(Relaxed) < polls + 100, "a few polls for each SYN");
    }
}

#[tokio::test(start_paused = true)]
async fn an_epoch_in_the_future_counts_as_now() {
    let (left, _right) = memory::pair(memory::Config::default());
    let builder = host("10.0.0.1/24", "fd00::1/64").device(left).epoch(Instant::now() + HOUR);
    let stack = builder.spawn().unwrap();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(stack.now(), ackclock::Instant::from_millis(3000));
}

#[test]
fn a_caller_without_a_runtime_reads_the_drivers_clock() {
    let runtime = paused();
    let stack = runtime.block_on(async { watched().0 });
    let before = stack.now();
    assert_eq!(stack.now(), before, "the driver's clock stands still");
    runtime.block_on(advance(HOUR));
    assert_eq!(stack.now(), before + HOUR);
    drop(runtime);
    assert_eq!(stack.now(), before + HOUR, "as long as the stack's handles live");
}

#[test]
fn a_caller_whose_time_is_paused_reads_the_drivers_clock() {
    let (driver, caller) = (paused(), paused());
    let stack = driver.block_on(async { watched().0 });
    let before = stack.now();
    caller.block_on(async {
        advance(HOUR).await;
        assert_eq!(stack.now(), before);
    });
    driver.block_on(advance(HOUR));
    caller.block_on(async { assert_eq!(stack.now(), before + HOUR) });
}

#[test]
fn a_device_is_used_in_its_drivers_time_whoever_sends() {
    let driver = paused();
    let (stack, asked, _cable) = driver.block_on(async {
        let made = watched();
        settle().await;
        made
    });
    let now = driver.block_on(async { Instant::now() });
    let connects = || {
        let mut connect = pin!(stack.connect(addr("10.0.0.2:80")));
        assert!(connect.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    };
    connects();
    driver.block_on(settle());
    paused().block_on(async {
        advance(HOUR).await;
        connects();
    });
    let sent = asked.sent.lock().unwrap();
    assert!(sent.len() == 2 && sent.iter().all(|&at| at == now), "{now:?} {sent:?}");
}

#[test]
fn a_caller_whose_time_jumps_does_not_delay_what_the_stack_sends() {
    let one = || Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let here = || Builder::new_current_thread().enable_time().build().unwrap();
    for driver in [one(), here()] {
        let hosts = driver.block_on(async { hosts() });
        let stops = Arc::new(tokio::sync::Notify::new());
        let stopped = Arc::clone(&stops);
        let drives = std::thread::spawn(move || driver.block_on(stopped.notified()));
        let began = hosts.client.now();
        paused().block_on(async {
            let listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
            let (mut ours, mut theirs) = accepted(&hosts.client, &listener).await;
            for _ in 0..50 {
                ours.write_all(&[7; 10_000]).await.unwrap();
                advance(Duration::from_secs(5)).await;
                theirs.read_exact(&mut [0; 10_000]).await.unwrap();
                theirs.write_all(&[8; 10_000]).await.unwrap();
                advance(Duration::from_secs(5)).await;
                ours.read_exact(&mut [0; 10_000]).await.unwrap();
            }
        });
        // A deadline set by the caller's clock would lie 5 s ahead or more.
        let took = hosts.client.now().saturating_since(began);
        assert!(took < Duration::from_secs(5), "{took:?}");
        stops.notify_one();
        drives.join().unwrap();
    }
}

/// A stack with a queue on each of two runtimes, whose clocks differ by ten days.
#[test]
fn each_queue_has_the_clock_of_its_own_driver() {
    let runtimes = [paused(), paused()];
    runtimes[0].block_on(advance(10 * DAY));
    let (near, _far): (Vec<_>, Vec<_>) = (0..2).map(|_| memory::pair(memory::Config::default())).unzip();
    let handles = runtimes.each_ref().map(|runtime| runtime.handle().clone());
    let stack = host("10.0.0.1/24", "fd00::1/64").queues(near).spawn_on(&handles).unwrap();
    runtimes.iter().for_each(|runtime| runtime.block_on(settle()));

    // The queues take turns.
    let attempts = [0, 1].map(|_| Box::pin(stack.connect(addr("10.0.0.2:80"))));
    for (attempt, runtime) in attempts.into_iter().zip(&runtimes) {
        let took = runtime.block_on(async {
            let began = Instant::now();
            assert_eq!(kind(attempt.await), io::ErrorKind::TimedOut);
            began.elapsed()
        });
        assert!(took > Duration::from_secs(60) && took < 2 * HOUR, "{took:?}");
    }
}
