//! The server: it sends back what it gets, and hands over once its successor is there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use ackclock::device::{self, OffloadMode, PassedFd};
use ackclock::{Cidr, Stack, TcpListener, TcpStream};
use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{LocalSet, spawn_local};

/// The bytes that were read and not yet written, by the stream's key. Between two awaits a stream's bytes are
/// in here or with the stack, so what is handed over is complete.
type Pending = Rc<RefCell<BTreeMap<u64, Vec<u8>>>>;

pub(crate) async fn run(takes_over: bool) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let to = UnixStream::from(rustix::stdio::stdout().as_fd().try_clone_to_owned()?);
    let tasks = LocalSet::new();
    let Serving { stack, listener, streams, mut state } = if takes_over { take_over()? } else { begin()? };
    let serving = async {
        let pending: Pending = Rc::new(RefCell::new(std::mem::take(&mut state.pending)));
        for (key, stream) in streams {
            spawn_local(echo(stream, key, Rc::clone(&pending)));
        }
        if takes_over {
            // The driver has its first turn, in which it reads the packets that waited.
            tokio::task::yield_now().await;
            state.stood_still.push(monotonic().saturating_sub(state.left));
        }
        serve(&stack, &listener, pending, state, to).await
    };
    tasks.run_until(serving).await
}

struct Serving {
    stack: Stack,
    listener: TcpListener,
    streams: Vec<(u64, TcpStream)>,
    state: State,
}

/// The message of one server to the next.
#[derive(Default)]
pub(crate) struct State {
    next_key: u64,
    /// When the last server stopped, by the clock that all processes share.
    left: Duration,
    /// For each server that was replaced, the time in which neither it nor its successor ran.
    pub stood_still: Vec<Duration>,
    pending: BTreeMap<u64, Vec<u8>>,
}

fn begin() -> anyhow::Result<Serving> {
    let (device, _why_no_offload) = device::open("tun0", OffloadMode::Auto)?;
    let address: Cidr = "10.9.0.2/24".parse()?;
    device::configure("tun0").stack(address).apply()?;
    let stack = Stack::builder().device(device).address(address).spawn()?;
    let listener = stack.listen("10.9.0.2:7".parse()?)?;
    Ok(Serving { stack, listener, streams: Vec::new(), state: State::default() })
}

fn take_over() -> anyhow::Result<Serving> {
    let from = UnixStream::from(rustix::stdio::stdin().as_fd().try_clone_to_owned()?);
    let mut taken = Stack::builder().take_over(&from, |fd| PassedFd::new(fd)?.open(None))?;
    let state = State::read(&taken.application).context("the state of the last server")?;
    let listener = taken.listener("10.9.0.2:7".parse()?).context("the listener came along")?;
    let streams = taken.streams.into_iter().filter_map(|(key, stream)| Some((key?, stream))).collect();
    Ok(Serving { stack: taken.stack, listener, streams, state })
}

async fn serve(
    stack: &Stack,
    listener: &TcpListener,
    pending: Pending,
    mut state: State,
    to: UnixStream,
) -> anyhow::Result<()> {
    to.set_nonblocking(true)?;
    let successor = tokio::net::UnixStream::from_std(to.try_clone()?)?;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                stream.set_key(state.next_key)?;
                pending.borrow_mut().insert(state.next_key, Vec::new());
                spawn_local(echo(stream, state.next_key, Rc::clone(&pending)));
                state.next_key += 1;
            }
            ready = successor.readable() => {
                ready?;
                (state.left, state.pending) = (monotonic(), pending.take());
                return Ok(stack.hand_over(&to, &state.to_bytes())?);
            }
        }
    }
}

/// Sends back what arrives, until its end.
async fn echo(mut stream: TcpStream, key: u64, pending: Pending) {
    let mut buf = vec![0; 16 << 10];
    let mut ended = false;
    loop {
        let next = pending.borrow().get(&key).cloned().unwrap_or_default();
        if !next.is_empty() {
            let Ok(written) = stream.write(&next).await else { break };
            if let Some(left) = pending.borrow_mut().get_mut(&key) {
                left.drain(..written);
            }
        } else if ended {
            break;
        } else {
            let Ok(read) = stream.read(&mut buf).await else { break };
            ended = read == 0;
            pending.borrow_mut().entry(key).or_default().extend(&buf[..read]);
        }
    }
    pending.borrow_mut().remove(&key);
}

impl State {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut number = |number: u64| bytes.extend(number.to_le_bytes());
        number(self.next_key);
        number(nanos(self.left));
        number(self.stood_still.len() as u64);
        self.stood_still.iter().for_each(|&time| number(nanos(time)));
        for (key, pending) in &self.pending {
            bytes.extend(key.to_le_bytes());
            bytes.extend((pending.len() as u64).to_le_bytes());
            bytes.extend(pending);
        }
        bytes
    }

    pub(crate) fn read(mut bytes: &[u8]) -> Option<Self> {
        let number = |bytes: &mut &[u8]| {
            let (number, rest) = bytes.split_first_chunk::<8>()?;
            *bytes = rest;
            Some(u64::from_le_bytes(*number))
        };
        let time = |bytes: &mut &[u8]| number(bytes).map(Duration::from_nanos);
        let (next_key, left) = (number(&mut bytes)?, time(&mut bytes)?);
        let replaced = number(&mut bytes)?;
        let stood_still = (0..replaced).map(|_| time(&mut bytes)).collect::<Option<_>>()?;
        let mut pending = BTreeMap::new();
        while !bytes.is_empty() {
            let key = number(&mut bytes)?;
            let len = usize::try_from(number(&mut bytes)?).ok()?;
            let (text, rest) = bytes.split_at_checked(len)?;
            pending.insert(key, text.to_vec());
            bytes = rest;
        }
        Some(Self { next_key, left, stood_still, pending })
    }
}

/// `CLOCK_MONOTONIC`.
fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
