//! Devices that take nothing for a while, or for ever, and devices that fail.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock::{Stack, StackError};
use ackclock_device::memory::{self, MemoryDevice};
use ackclock_device::{Capabilities, Device, ReceiveBatch};
use ackclock_wire::TxPacket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{SERVER, addr, between, host};

/// How a device treats packets to send.
#[derive(Debug, Default)]
enum Mood {
    /// It takes it.
    #[default]
    Open,
    /// It has no room, and wakes this one when it has.
    Blocked(Option<Waker>),
    /// It fails with this number, as often.
    Fails(i32, u32),
}

#[derive(Clone, Debug, Default)]
struct Gate(Arc<Mutex<Mood>>);

impl Gate {
    fn mood(&self) -> MutexGuard<'_, Mood> {
        self.0.lock().unwrap()
    }

    fn block(&self) {
        *self.mood() = Mood::Blocked(None);
    }

    fn open(&self) {
        if let Mood::Blocked(Some(waker)) = std::mem::take(&mut *self.mood()) {
            waker.wake();
        }
    }
}

#[derive(Debug)]
struct Moody(MemoryDevice, Gate);

impl Device for Moody {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.0.poll_receive(cx, batch)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.1.mood() {
            Mood::Blocked(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Mood::Open | Mood::Fails(..) => self.0.poll_send_ready(cx),
        }
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        match &mut *self.1.mood() {
            Mood::Fails(code, times) if *times > 0 => {
                *times -= 1;
                Err(io::Error::from_raw_os_error(*code))
            }
            _ => self.0.send(packet),
        }
    }
}

/// A client behind such a device, a server, and the former's gate.
fn gated() -> (Stack, Stack, Gate) {
    let (left, right) = memory::pair(memory::Config::default());
    let gate = Gate::default();
    let client = host("10.0.0.1/24", "fd00::1/64").device(Moody(left, gate.clone()));
    let client = client.close_timeout(Duration::from_secs(5)).spawn().unwrap();
    let server = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
    (client, server, gate)
}

// Virtual time passes only while no task runs: a driver that asked a blocked device again and again would
// never let it.
#[tokio::test(start_paused = true)]
async fn a_device_that_blocks_for_a_while_loses_nothing_and_keeps_writers_waiting() {
    let (client, server, gate) = gated();
    let (mut ours, mut theirs) = between(&client, &server).await;
    gate.block();
    let writing = tokio::spawn(async move {
        for number in 0..200_u8 {
            ours.write_all(&[number; 50_000]).await.unwrap();
        }
        ours
    });
    sleep(Duration::from_secs(20)).await;
    assert!(!writing.is_finished(), "10 MB are more than a send buffer");
    let held = client.info();
    assert!(held.memory_used < 8 << 20, "{held:?}");
    gate.open();
    let mut all = vec![0; 200 * 50_000];
    timeout(Duration::from_secs(120), theirs.read_exact(&mut all)).await.expect("it goes on").unwrap();
    assert!(
        all.chunks(50_000).enumerate().all(|(number, part)| part.iter().all(|&byte| byte == number as u8))
    );
    drop(writing.await.unwrap());
}

// The stream was dropped, and what it had written will never leave.
#[tokio::test(start_paused = true)]
async fn a_stack_on_a_device_that_blocks_for_ever_closes_in_its_time() {
    let (client, server, gate) = gated();
    let (mut ours, _theirs) = between(&client, &server).await;
    gate.block();
    ours.write_all(b"anybody?").await.unwrap();
    assert!(timeout(Duration::from_secs(60), ours.read(&mut [0; 1])).await.is_err());
    drop(ours);
    let began = Instant::now();
    timeout(Duration::from_secs(20), client.shutdown()).await.expect("it closes");
    let took = began.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_secs(7)).contains(&took), "{took:?}");
    assert_eq!((client.info().connections, client.info().memory_used), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_device_that_fails_to_send_is_named_with_what_it_said() {
    for code in [libc::ENOBUFS, libc::EAGAIN, libc::EIO] {
        let (client, server, gate) = gated();
        let (mut ours, _theirs) = between(&client, &server).await;
        let listener = client.listen(addr("10.0.0.1:99")).unwrap();
        *gate.mood() = Mood::Fails(code, u32::MAX);
        ours.write_all(b"x").await.ok();
        for error in [
            timeout(Duration::from_secs(1), ours.read(&mut [0; 1])).await.unwrap().unwrap_err(),
            timeout(Duration::from_secs(1), listener.accept()).await.unwrap().unwrap_err(),
            timeout(Duration::from_secs(1), client.connect(addr(SERVER))).await.unwrap().unwrap_err(),
        ] {
            let said = io::Error::from_raw_os_error(code).to_string();
            assert_eq!(error.kind(), ErrorKind::NetworkDown);
            assert!(error.to_string().contains(&said), "{error}");
            assert!(matches!(error.downcast::<StackError>().unwrap(), StackError::Device(_)));
        }
        drop((ours, listener));
        assert_eq!((client.info().connections, client.info().memory_used), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_that_is_interrupted_is_asked_again() {
    let (client, server, gate) = gated();
    let (mut ours, mut theirs) = between(&client, &server).await;
    *gate.mood() = Mood::Fails(libc::EINTR, 3);
    let mut read = [0; 100_000];
    let (written, all) = tokio::join!(ours.write_all(&[7; 100_000]), theirs.read_exact(&mut read));
    written.unwrap();
    assert_eq!((all.unwrap(), read), (100_000, [7; 100_000]), "what was lost is sent again");
}
