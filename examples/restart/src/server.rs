//! The server: it sends back what it gets, and hands over once its successor is there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use ackclock::device::{self, OffloadMode, PassedFd};
use ackclock::{Cidr, Stack, TcpListener, TcpStream};
use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{LocalSet, spawn_local};

/// The bytes that were read and not yet written, by the stream's key. Between two awaits a stream's bytes are
/// in here or with the stack, so what is handed over is complete.
type Pending = Rc<RefCell<BTreeMap<u64, Vec<u8>>>>;

pub(crate) async fn run(takes_over: bool) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let to = UnixStream::from(rustix::stdio::stdout().as_fd().try_clone_to_owned()?);
    let tasks = LocalSet::new();
    let (stack, listener, streams, pending, next_key) = if takes_over { take_over()? } else { begin()? };
    let serving = async {
        let pending: Pending = Rc::new(RefCell::new(pending));
        for (key, stream) in streams {
            spawn_local(echo(stream, key, Rc::clone(&pending)));
        }
        serve(&stack, &listener, pending, next_key, to).await
    };
    tasks.run_until(serving).await
}

type Serving = (Stack, TcpListener, Vec<(u64, TcpStream)>, BTreeMap<u64, Vec<u8>>, u64);

fn begin() -> anyhow::Result<Serving> {
    let (device, _why_no_offload) = device::open("tun0", OffloadMode::Auto)?;
    let address: Cidr = "10.9.0.2/24".parse()?;
    device::configure("tun0").stack(address).apply()?;
    let stack = Stack::builder().device(device).address(address).spawn()?;
    let listener = stack.listen("10.9.0.2:7".parse()?)?;
    Ok((stack, listener, Vec::new(), BTreeMap::new(), 0))
}

fn take_over() -> anyhow::Result<Serving> {
    let from = UnixStream::from(rustix::stdio::stdin().as_fd().try_clone_to_owned()?);
    let mut taken = Stack::builder().take_over(&from, |fd| PassedFd::new(fd)?.open(None))?;
    let (pending, next_key) = read_state(&taken.application).context("the state of the last server")?;
    let listener = taken.listener("10.9.0.2:7".parse()?).context("the listener came along")?;
    let streams = taken.streams.into_iter().filter_map(|(key, stream)| Some((key?, stream))).collect();
    Ok((taken.stack, listener, streams, pending, next_key))
}

async fn serve(
    stack: &Stack,
    listener: &TcpListener,
    pending: Pending,
    mut next_key: u64,
    to: UnixStream,
) -> anyhow::Result<()> {
    to.set_nonblocking(true)?;
    let successor = tokio::net::UnixStream::from_std(to.try_clone()?)?;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                stream.set_key(next_key)?;
                pending.borrow_mut().insert(next_key, Vec::new());
                spawn_local(echo(stream, next_key, Rc::clone(&pending)));
                next_key += 1;
            }
            ready = successor.readable() => {
                ready?;
                let state = write_state(next_key, &pending.borrow());
                return Ok(stack.hand_over(&to, &state)?);
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

fn write_state(next_key: u64, pending: &BTreeMap<u64, Vec<u8>>) -> Vec<u8> {
    let mut state = next_key.to_le_bytes().to_vec();
    for (key, bytes) in pending {
        state.extend(key.to_le_bytes());
        state.extend((bytes.len() as u64).to_le_bytes());
        state.extend(bytes);
    }
    state
}

fn read_state(mut state: &[u8]) -> Option<(BTreeMap<u64, Vec<u8>>, u64)> {
    let number = |state: &mut &[u8]| {
        let (number, rest) = state.split_first_chunk::<8>()?;
        *state = rest;
        Some(u64::from_le_bytes(*number))
    };
    let next_key = number(&mut state)?;
    let mut pending = BTreeMap::new();
    while !state.is_empty() {
        let key = number(&mut state)?;
        let len = usize::try_from(number(&mut state)?).ok()?;
        let (bytes, rest) = state.split_at_checked(len)?;
        pending.insert(key, bytes.to_vec());
        state = rest;
    }
    Some((pending, next_key))
}
