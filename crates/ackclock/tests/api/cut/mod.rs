//! Every async call of the public API, dropped after each number of polls that it can have.
//!
//! A case runs again and again, in virtual time: first its call is dropped unpolled, then after one poll,
//! two, and so on, until it becomes ready. After each run nothing is lost (the case looks), nothing is left
//! behind and nothing hangs ([`leaves_nothing`]). `every_async_call_of_the_api_is_cut` holds the cases
//! against the source.

mod datagrams;
mod ending;
mod opening;
mod reading;
mod writing;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use ackclock::{Stack, TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use crate::support::{Hosts, accepted, settle};

/// How often the call of one run is polled.
struct Cut {
    polls: usize,
    ready: Cell<bool>,
}

impl Cut {
    /// Polls `future` as often as this run allows, everything else having its turn in between, and drops it.
    /// The name is the call's: its file under `src`, and its own.
    async fn at<F: Future>(&self, _call: &str, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        for poll in 0..self.polls {
            let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
            if let Poll::Ready(output) = polled {
                self.ready.set(true);
                return Some(output);
            }
            // At first at the finest grain; later time passes too, for calls that wait for that.
            if poll < FINE { tokio::task::yield_now().await } else { sleep(STEP).await }
        }
        None
    }
}

/// Runs `case` with one poll more each time, until its call becomes ready.
async fn at_every_poll(case: impl AsyncFn(&Cut)) {
    for polls in 0..POLLS_MAX {
        let cut = Cut { polls, ready: Cell::new(false) };
        let run = timeout(RUN_MAX, case(&cut)).await;
        assert!(run.is_ok(), "stuck after {polls} polls");
        if cut.ready.get() {
            assert!(polls > 0, "a call does nothing before it is polled");
            return;
        }
    }
    panic!("not ready after {POLLS_MAX} polls");
}

/// Both hosts forget all connections, give back all memory, and end once their last handle is dropped: a
/// future that was dropped keeps none. The case has dropped everything else.
async fn leaves_nothing(hosts: Hosts) {
    let Hosts { client, server, cable: _ } = hosts;
    for stack in [&client, &server] {
        let empty = async {
            while stack.info().connections > 0 || stack.info().memory_used > 0 {
                sleep(STEP).await;
            }
        };
        assert!(timeout(END_MAX, empty).await.is_ok(), "left: {:?} {:?}", stack.info(), stack.connections());
        let info = stack.info();
        assert_eq!((info.listeners, info.udp_sockets), (0, 0), "{info:?}");
    }
    drop((client, server));
    all_tasks_end().await;
}

/// The drivers end, and so does what the case has spawned.
async fn all_tasks_end() {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let ended = async {
        while tasks() > 0 {
            sleep(STEP).await;
        }
    };
    assert!(timeout(END_MAX, ended).await.is_ok(), "{} tasks are left", tasks());
}

/// A new connection to `listener` works, whatever waits there to be accepted from before.
async fn still_connects(client: &Stack, listener: &TcpListener) {
    let mut ours = client.connect(listener.local_addr().unwrap()).await.unwrap();
    let name = ours.local_addr().unwrap();
    let mut theirs = loop {
        let (stream, peer) = listener.accept().await.unwrap();
        if peer == name {
            break stream;
        }
    };
    talk(&mut ours, &mut theirs).await;
}

/// Both directions of a connection work.
async fn talk(ours: &mut TcpStream, theirs: &mut TcpStream) {
    let mut read = [0; 4];
    ours.write_all(b"ping").await.unwrap();
    theirs.read_exact(&mut read).await.unwrap();
    theirs.write_all(b"pong").await.unwrap();
    ours.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"pong");
}

/// A connection of two hosts, nothing of it under way.
async fn joined(hosts: &Hosts) -> (TcpStream, TcpStream) {
    let listener = hosts.server.listen(crate::support::addr(crate::support::SERVER)).unwrap();
    let both = accepted(&hosts.client, &listener).await;
    settle().await;
    both
}

/// Lets others have their turn a few times: what follows happens in the middle of the call that is cut.
async fn a_little_later() {
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn every_async_call_of_the_api_is_cut() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lib = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let exports = lib.split("pub use self::").skip(1).map(|rest| rest.split(';').next().unwrap());
    let exported: BTreeSet<_> = exports.flat_map(|path| path.split(|c: char| !c.is_alphanumeric())).collect();
    let mut declared = BTreeSet::new();
    for file in rust_files(&root.join("src")) {
        let name = file.strip_prefix(root.join("src")).unwrap().with_extension("");
        let name = name.to_str().unwrap().trim_end_matches("/mod").to_owned();
        // Features that are off have tests of their own.
        if name.starts_with("dns") || name.starts_with("frameworks") {
            continue;
        }
        let source = fs::read_to_string(&file).unwrap();
        // `pub` methods of types that the crate does not export are its own.
        let mut is_exported = false;
        for line in source.lines() {
            if let Some(rest) = line.strip_prefix("impl") {
                let owner =
                    rest.rsplit(" for ").next().unwrap().trim_start_matches(|c: char| !c.is_alphabetic());
                is_exported = exported.contains(word(owner));
            }
            if let Some(call) = line.strip_prefix("    pub async fn ").filter(|_| is_exported) {
                declared.insert(format!("{name}::{}", word(call)));
            }
        }
    }
    // Tested in tests/hand_over.rs, with its feature.
    declared.remove("listener/incoming::stream");
    assert!(declared.len() > 40, "{declared:?}");
    let cases: String = rust_files(&root.join("tests/api/cut"))
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let missing: Vec<_> = declared.iter().filter(|call| !cases.contains(&format!("\"{call}\""))).collect();
    assert!(missing.is_empty(), "no case cuts {missing:?}");
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

fn rust_files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Polls between which no time passes.
const FINE: usize = 32;
/// Time between two of the others.
const STEP: Duration = Duration::from_millis(10);
/// More polls than any call needs.
const POLLS_MAX: usize = 400;
/// In virtual time: no run takes longer.
const RUN_MAX: Duration = Duration::from_secs(900);
/// In virtual time: after this, orphans and what waits for a peer that is gone have ended.
const END_MAX: Duration = Duration::from_secs(300);
