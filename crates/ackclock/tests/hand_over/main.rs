//! A stack that goes from one owner to the next: the connections of its peer notice nothing.
//!
//! Here each owner is a thread with its own runtime, as a process would be. The device is one end of a pair
//! of Unix sockets, whose queue stays when its holder goes.

mod parts;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use ackclock::device::memory;
use ackclock::device::over::IpOver;
use ackclock::device::{Capabilities, Device, ReceiveBatch};
use ackclock::{HandOverError, Stack, StackError, TakenOver, TcpListener, TcpStream, TxPacket};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SERVER: &str = "10.0.0.2:7";
const OWNERS: u64 = 6;
const STREAMS: u64 = 4;
const STREAM_LEN: usize = 1 << 20;

#[test]
fn transfers_go_on_while_the_server_has_six_owners() {
    let (near, far) = UnixDatagram::pair().unwrap();
    let (first, next) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || alone(async move { begin(near.into(), first).await }));
    let mut owners = vec![server];
    let mut socket = next;
    for owner in 1..OWNERS {
        let (last, following) = UnixStream::pair().unwrap();
        let from = std::mem::replace(&mut socket, following);
        let to = (owner + 1 < OWNERS).then_some(last);
        owners.push(thread::spawn(move || alone(async move { go_on(from, to).await })));
    }
    alone(async move {
        let client = Stack::builder().device(device(far.into())).address("10.0.0.1/24".parse().unwrap());
        let client = client.spawn().unwrap();
        let transfers: Vec<_> = (0..STREAMS).map(|n| tokio::spawn(transfer(client.clone(), n))).collect();
        for transfer in transfers {
            transfer.await.unwrap();
        }
        let udp = client.udp("10.0.0.1:0".parse().unwrap()).unwrap();
        udp.send_to(b"still there?", SERVER.parse().unwrap()).await.unwrap();
        let mut answer = [0; 32];
        let (len, _) = udp.recv_from(&mut answer).await.unwrap();
        assert_eq!(&answer[..len], b"still there?");
        // The end of the last owner: a connection that says nothing.
        let mut last = client.connect(SERVER.parse().unwrap()).await.unwrap();
        last.shutdown().await.unwrap();
        last.read_to_end(&mut Vec::new()).await.unwrap();
        client.shutdown().await;
    });
    for owner in owners {
        owner.join().unwrap();
    }
}

#[test]
fn syns_and_handshakes_go_along() {
    alone(async {
        let (near, far) = UnixDatagram::pair().unwrap();
        let (server, client) = (stack(near, "10.0.0.2/24"), stack(far, "10.0.0.1/24"));
        let listener = server.listener().addr(SERVER.parse().unwrap()).deferred().unwrap();
        let dial = || {
            let client = client.clone();
            tokio::spawn(async move { client.connect(SERVER.parse().unwrap()).await })
        };
        let undecided = dial();
        let held = listener.incoming().await.unwrap();
        let accepted = dial();
        let mut accepting = Box::pin(listener.incoming().await.unwrap().accept());
        // The SYN-ACK leaves; its answer is not there before this task waits.
        let waits = std::future::poll_fn(|cx| Poll::Ready(accepting.as_mut().poll(cx).is_pending()));
        assert!(waits.await);
        let unseen = dial();
        let (old, new) = UnixStream::pair().unwrap();
        let next = thread::spawn(move || {
            alone(async move {
                let mut taken = Stack::builder().take_over(&new, opened).unwrap();
                assert_eq!((taken.deferred.len(), taken.accepting.len(), taken.streams.len()), (1, 1, 0));
                let listener = taken.deferred.pop().unwrap();
                let mut streams = vec![taken.accepting.pop().unwrap().stream().await.unwrap()];
                for _ in 0..2 {
                    streams.push(listener.incoming().await.unwrap().accept().await.unwrap());
                }
                for stream in &mut streams {
                    stream.write_all(b"!").await.unwrap();
                    stream.shutdown().await.unwrap();
                }
                for mut stream in streams {
                    stream.read_to_end(&mut Vec::new()).await.unwrap();
                }
                drop((listener, taken.stack.clone()));
                taken.stack.shutdown().await;
            });
        });
        server.hand_over(&old, b"").unwrap();
        drop((held, accepting));
        for dialled in [undecided, accepted, unseen] {
            let mut stream = dialled.await.unwrap().unwrap();
            let mut read = Vec::new();
            stream.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, b"!");
        }
        // The last segments leave while it waits.
        tokio::task::spawn_blocking(|| next.join()).await.unwrap().unwrap();
    });
}

#[test]
fn a_stack_goes_on_if_the_other_process_gives_up() {
    alone(async {
        let (near, far) = UnixDatagram::pair().unwrap();
        let (server, client) = (stack(near, "10.0.0.2/24"), stack(far, "10.0.0.1/24"));
        let listener = server.listen(SERVER.parse().unwrap()).unwrap();
        let mut ours = client.connect(SERVER.parse().unwrap()).await.unwrap();
        let (mut theirs, _) = listener.accept().await.unwrap();
        for gives_up_after in [0, 20, 44, 60, usize::MAX] {
            let (old, mut new) = UnixStream::pair().unwrap();
            let other = thread::spawn(move || {
                new.write_all(b"ackclock: handing\x01\0\0").unwrap();
                let mut read = vec![0; gives_up_after.min(4096)];
                let _ = new.read(&mut read);
                if gives_up_after == usize::MAX {
                    new.write_all(&[7]).unwrap();
                    let _ = new.read_to_end(&mut read);
                }
            });
            let error = server.hand_over(&old, b"").unwrap_err();
            drop(old);
            other.join().unwrap();
            assert!(matches!(error, HandOverError::Io(_) | HandOverError::Protocol), "{error:?}");
            ours.write_all(b"and?").await.unwrap();
            let mut read = [0; 4];
            theirs.read_exact(&mut read).await.unwrap();
            theirs.write_all(&read).await.unwrap();
            ours.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, b"and?", "after {gives_up_after} bytes");
        }
    });
}

#[test]
fn what_cannot_be_handed_over_is_refused_and_goes_on() {
    alone(async {
        let (left, _right) = memory::pair(memory::Config::default());
        let stack = Stack::builder().device(left).address("10.0.0.1/24".parse().unwrap()).spawn().unwrap();
        let (old, mut new) = UnixStream::pair().unwrap();
        new.write_all(b"ackclock: handing\x01\0\0").unwrap();
        let refused = stack.hand_over(&old, b"").unwrap_err();
        assert!(matches!(refused, HandOverError::Device), "{refused:?}");
        stack.listen("10.0.0.1:7".parse().unwrap()).unwrap();

        let (old, mut new) = UnixStream::pair().unwrap();
        new.write_all(b"ackclock: handing\x02\0\0").unwrap();
        let refused = stack.hand_over(&old, b"").unwrap_err();
        assert!(matches!(refused, HandOverError::Protocol), "{refused:?}");

        stack.clone().shutdown().await;
        let (old, mut new) = UnixStream::pair().unwrap();
        new.write_all(b"ackclock: handing\x01\0\0").unwrap();
        let refused = stack.hand_over(&old, b"").unwrap_err();
        assert!(matches!(refused, HandOverError::NotUp), "{refused:?}");
    });
}

#[test]
fn damaged_bytes_are_an_error_and_never_a_panic() {
    alone(async {
        let (near, far) = UnixDatagram::pair().unwrap();
        let (server, client) = (stack(near, "10.0.0.2/24"), stack(far, "10.0.0.1/24"));
        let listener = server.listen(SERVER.parse().unwrap()).unwrap();
        let mut ours = client.connect(SERVER.parse().unwrap()).await.unwrap();
        let (theirs, _) = listener.accept().await.unwrap();
        theirs.set_key(9).unwrap();
        ours.write_all(&[5; 300]).await.unwrap();
        let (old, mut new) = UnixStream::pair().unwrap();
        let whole = thread::spawn(move || {
            new.write_all(b"ackclock: handing\x01\0\0").unwrap();
            let mut head = [0; 44];
            new.read_exact(&mut head).unwrap();
            let lens = head[20..].chunks(8).map(|len| u64::from_le_bytes(len.try_into().unwrap()));
            let mut rest = vec![0; lens.sum::<u64>() as usize];
            new.read_exact(&mut rest).unwrap();
            [&head[..], &rest].concat()
        });
        server.hand_over(&old, b"state").unwrap_err();
        let whole = whole.join().unwrap();
        // The whole is taken; what is missing is only the last word of the other side.
        assert!(matches!(fed(&whole), HandOverError::Io(_)), "{:?}", fed(&whole));
        let endless = [&whole[..20], &[0xff; 24], &whole[44..]].concat();
        assert!(matches!(fed(&endless), HandOverError::TooLarge { bytes: u64::MAX, .. }));
        let mut refused = 0;
        for at in (0..whole.len()).step_by(whole.len() / 400 + 1) {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= flip;
                refused += u32::from(!matches!(fed(&damaged), HandOverError::Io(_)));
            }
            assert!(matches!(fed(&whole[..at]), HandOverError::Io(_)), "cut at {at}");
        }
        assert!(refused > 100, "most damage shows: {refused}");
    });
}

/// The end of a process that gets these bytes, and nothing after them.
fn fed(bytes: &[u8]) -> HandOverError {
    let (kept, _other) = UnixDatagram::pair().unwrap();
    let (mut old, new) = UnixStream::pair().unwrap();
    let bytes = bytes.to_vec();
    let feeder = thread::spawn(move || {
        let descriptors = [kept.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        if let Some((first, rest)) = bytes.split_at_checked(bytes.len().min(44)) {
            let _ = sendmsg(&old, &[IoSlice::new(first)], &mut ancillary, SendFlags::NOSIGNAL);
            let _ = old.write_all(rest);
        }
        let _ = old.shutdown(std::net::Shutdown::Write);
        let _ = old.read_to_end(&mut Vec::new());
    });
    let error = Stack::builder().memory_budget(1 << 30).take_over(&new, opened).unwrap_err();
    drop(new);
    feeder.join().unwrap();
    error
}

/// The first owner.
async fn begin(device_end: OwnedFd, to: UnixStream) {
    let stack = stack(UnixDatagram::from(device_end), "10.0.0.2/24");
    let listener = stack.listen(SERVER.parse().unwrap()).unwrap();
    let udp = stack.udp(SERVER.parse().unwrap()).unwrap();
    serve(stack, listener, udp, Vec::new(), Pending::default(), 0, Some(to)).await;
}

/// A later owner.
async fn go_on(from: UnixStream, to: Option<UnixStream>) {
    let mut taken: TakenOver = Stack::builder().take_over(&from, opened).unwrap();
    let listener = taken.listener(SERVER.parse().unwrap()).expect("the listener came along");
    let udp = taken.udp(SERVER.parse().unwrap()).expect("the socket came along");
    let (next_key, pending) = read_state(&taken.application);
    let streams: Vec<_> =
        pending.keys().map(|&key| (key, taken.stream(key).expect("its stream came along"))).collect();
    assert!(taken.streams.is_empty(), "every stream has a key");
    let pending = Rc::new(RefCell::new(pending));
    serve(taken.stack.clone(), listener, udp, streams, pending, next_key, to).await;
}

/// Bytes that were read and not yet written, by key.
type Pending = Rc<RefCell<BTreeMap<u64, Vec<u8>>>>;

/// Echoes for a while, then hands over; the last owner serves until a client has nothing to say.
async fn serve(
    stack: Stack,
    listener: TcpListener,
    udp: ackclock::UdpSocket,
    streams: Vec<(u64, TcpStream)>,
    pending: Pending,
    mut next_key: u64,
    to: Option<UnixStream>,
) {
    let tasks = tokio::task::LocalSet::new();
    let run = async {
        for (key, stream) in streams {
            tokio::task::spawn_local(echo(stream, key, Rc::clone(&pending)));
        }
        tokio::task::spawn_local(async move {
            let mut buf = [0; 2048];
            while let Ok((len, peer)) = udp.recv_from(&mut buf).await {
                let _ = udp.send_to(&buf[..len], peer).await;
            }
        });
        let time_is_up = tokio::time::sleep(Duration::from_millis(60));
        tokio::pin!(time_is_up);
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, _) = accepted.unwrap();
                    stream.set_key(next_key).unwrap();
                    pending.borrow_mut().insert(next_key, Vec::new());
                    let task = tokio::task::spawn_local(echo(stream, next_key, Rc::clone(&pending)));
                    next_key += 1;
                    if to.is_none() && next_key > STREAMS {
                        task.await.unwrap();
                        break;
                    }
                }
                () = &mut time_is_up, if to.is_some() => {
                    let state = write_state(next_key, &pending.borrow());
                    stack.hand_over(to.as_ref().unwrap(), &state).unwrap();
                    let error = stack.connect("10.0.0.1:1".parse().unwrap()).await.unwrap_err();
                    let why = error.get_ref().and_then(|inner| inner.downcast_ref::<StackError>());
                    assert!(matches!(why, Some(StackError::HandedOver)), "{error}");
                    return;
                }
            }
        }
        drop(listener);
        stack.shutdown().await;
    };
    tasks.run_until(run).await;
}

/// Between two awaits, what was read is in `pending` or was written.
async fn echo(mut stream: TcpStream, key: u64, pending: Pending) {
    let mut buf = vec![0; 16 << 10];
    let mut ended = false;
    loop {
        let next: Vec<u8> = pending.borrow()[&key].clone();
        if next.is_empty() && ended {
            break;
        }
        if next.is_empty() {
            match stream.read(&mut buf).await {
                Ok(0) => ended = true,
                Ok(read) => pending.borrow_mut().get_mut(&key).unwrap().extend(&buf[..read]),
                Err(_) => return,
            }
            continue;
        }
        let Ok(written) = stream.write(&next).await else { return };
        pending.borrow_mut().get_mut(&key).unwrap().drain(..written);
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

fn read_state(mut state: &[u8]) -> (u64, BTreeMap<u64, Vec<u8>>) {
    let number = |state: &mut &[u8]| {
        let (number, rest) = state.split_first_chunk::<8>().unwrap();
        *state = rest;
        u64::from_le_bytes(*number)
    };
    let next_key = number(&mut state);
    let mut pending = BTreeMap::new();
    while !state.is_empty() {
        let (key, len) = (number(&mut state), number(&mut state) as usize);
        pending.insert(key, state[..len].to_vec());
        state = &state[len..];
    }
    (next_key, pending)
}

/// Sends a stream slowly enough that every owner has part of it, and compares what comes back.
async fn transfer(client: Stack, number: u64) {
    let (mut read, mut write) = client.connect(SERVER.parse().unwrap()).await.unwrap().into_split();
    let sent = bytes(number);
    let sender = tokio::spawn(async move {
        for part in sent.chunks(STREAM_LEN / 64) {
            write.write_all(part).await.unwrap();
            tokio::time::sleep(Duration::from_millis(8)).await;
        }
        write.shutdown().await.unwrap();
    });
    let mut back = Vec::new();
    read.read_to_end(&mut back).await.unwrap();
    sender.await.unwrap();
    assert!(back == bytes(number), "stream {number} came back with {} bytes", back.len());
}

fn bytes(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; STREAM_LEN];
    ackclock_test_support::rng::fill_stream(number, 0, &mut bytes);
    bytes
}

fn stack(end: UnixDatagram, address: &str) -> Stack {
    Stack::builder().device(device(end.into())).address(address.parse().unwrap()).spawn().unwrap()
}

fn opened(descriptor: OwnedFd) -> Result<Box<dyn Device>, std::io::Error> {
    Ok(Box::new(device(descriptor)))
}

fn device(end: OwnedFd) -> OnDescriptor {
    let socket = UnixDatagram::from(end.try_clone().unwrap());
    socket.set_nonblocking(true).unwrap();
    OnDescriptor { over: IpOver::new(tokio::net::UnixDatagram::from_std(socket).unwrap(), 1500), end }
}

/// Packets over a Unix socket, which can be handed over.
#[derive(Debug)]
struct OnDescriptor {
    over: IpOver<tokio::net::UnixDatagram>,
    end: OwnedFd,
}

impl Device for OnDescriptor {
    fn capabilities(&self) -> Capabilities {
        self.over.capabilities()
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut ReceiveBatch,
    ) -> Poll<std::io::Result<usize>> {
        self.over.poll_receive(cx, batch)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.over.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> std::io::Result<()> {
        self.over.send(packet)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.over.flush()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.end.as_fd())
    }
}

/// Runs a program on a runtime of its own, as a process does.
fn alone<F: Future>(program: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(program)
}
