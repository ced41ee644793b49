//! A thread for each queue of the device: the packets of a connection, its end of the stack, and what carries
//! its bytes stay on one processor, and share nothing with the others.

use std::io;
use std::num::NonZero;
use std::thread;

use ackclock::device::{OffloadMode, OpenError, Queues, open, open_queues};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

/// Threads with a runtime each.
#[derive(Debug)]
pub(crate) struct Threads {
    runtimes: Vec<Runtime>,
}

impl Threads {
    /// As many as asked for, or as there are processors.
    pub(crate) fn new(count: Option<NonZero<usize>>) -> io::Result<Self> {
        let count = count.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
        let runtime =
            || Builder::new_current_thread().enable_all().event_interval(TURNS_BEFORE_EVENTS).build();
        Ok(Self { runtimes: (0..count).map(|_| runtime()).collect::<io::Result<_>>()? })
    }

    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.runtimes.iter().map(|runtime| runtime.handle().clone()).collect()
    }

    /// Runs `main` on the first thread, and what was spawned on the others until `main` ends.
    pub(crate) fn run<T>(&self, main: impl Future<Output = T>) -> T {
        let (first, others) = self.runtimes.split_first().expect("one at least");
        thread::scope(|scope| {
            // Dropped with `main`'s result, or its panic.
            let (_until, ended) = watch::channel(());
            for other in others {
                let mut ended = ended.clone();
                scope.spawn(move || other.block_on(async move { drop(ended.changed().await) }));
            }
            first.block_on(main)
        })
    }
}

/// Opens the device with a queue for each thread, where it belongs. Also returns why it has no offload.
pub(crate) fn open_device(name: &str, threads: &[Handle]) -> Result<Queues, OpenError> {
    if let [_] = threads {
        // Also a device that was made for one queue.
        let (device, fell_back) = open(name, OffloadMode::Auto)?;
        return Ok((vec![device], fell_back));
    }
    let (mut queues, mut fell_back) = (Vec::new(), None);
    for thread in threads {
        let _entered = thread.enter();
        let (queue, why) = open_queues(name, OffloadMode::Auto, 1)?;
        queues.extend(queue);
        fell_back = fell_back.or(why);
    }
    Ok((queues, fell_back))
}

/// Packets and answers of the proxy are looked for after a few turns of connections, not after 61. A turn is
/// of 128 kB at most: together some 200 µs.
const TURNS_BEFORE_EVENTS: u32 = 4;
