//! [`Outlet`]: a file to write to where nothing may wait, for instance under a stack's lock.
//!
//! A write to a file on a disk ends soon. A pipe whose reader has stopped takes nothing for ever, and so does
//! a terminal that was halted. A thread writes to these, from a bounded queue.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A file, or a pipe, socket or terminal behind a queue.
///
/// [`write`](Write::write) takes all or nothing. While the reader of a pipe leaves no room in the queue, it
/// fails with [`WouldBlock`](io::ErrorKind::WouldBlock). An error of the thread's is returned by the next
/// call. Dropping it waits for the reader, for a quarter of a second at most.
#[derive(Debug)]
pub struct Outlet(Kind);

#[derive(Debug)]
enum Kind {
    Direct(File),
    Queued(Arc<Queue>),
}

/// Data that waits for the reader of a pipe; a handle that outlives the outlet.
#[derive(Clone, Debug)]
pub struct Backlog(Option<Arc<Queue>>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    parts: VecDeque<Vec<u8>>,
    /// Their bytes, and those of the part being written that are not.
    waiting: usize,
    /// No more parts will come.
    closed: bool,
    failed: Option<io::Error>,
}

impl Outlet {
    /// The most bytes that wait for a reader.
    pub const WAITING_MAX: usize = 8 << 20;

    /// Writes to `file`: itself if that cannot take long, else through a thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(file: File) -> io::Result<Self> {
        if !may_stall(&file) {
            return Ok(Self(Kind::Direct(file)));
        }
        let queue = Arc::new(Queue::default());
        let of_thread = Arc::clone(&queue);
        std::thread::Builder::new().name("ackclock-outlet".to_owned()).spawn(move || of_thread.run(file))?;
        Ok(Self(Kind::Queued(queue)))
    }

    /// A handle on what waits.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        Backlog(match &self.0 {
            Kind::Direct(_) => None,
            Kind::Queued(queue) => Some(Arc::clone(queue)),
        })
    }

    /// Cuts a file to this length, if it is one.
    ///
    /// # Errors
    /// As [`File::set_len`].
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        match &self.0 {
            Kind::Direct(file) => file.set_len(bytes),
            Kind::Queued(_) => Ok(()),
        }
    }
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Direct(file) => file.write_all(bytes)?,
            Kind::Queued(queue) => queue.push(bytes)?,
        }
        Ok(bytes.len())
    }

    /// Flushes a file; for a pipe it reports an error, and waits for nothing.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Direct(file) => file.flush(),
            Kind::Queued(queue) => queue.state().check(),
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if let Kind::Queued(queue) = &self.0 {
            queue.state().closed = true;
            queue.changed.notify_all();
            // Handles report what is left.
            let _ = queue.settle(END_WAIT);
        }
    }
}

impl Backlog {
    /// Bytes that the reader has not taken yet; none if they are written by the writer itself.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.as_ref().map_or(0, |queue| queue.state().waiting)
    }

    /// Why the thread could not write, if so.
    #[must_use]
    pub fn failed(&self) -> Option<io::ErrorKind> {
        self.0.as_ref()?.state().failed.as_ref().map(io::Error::kind)
    }

    /// Waits until the reader has taken everything, this long at most.
    ///
    /// # Errors
    /// The thread's error; [`WouldBlock`](io::ErrorKind::WouldBlock) after that time.
    pub fn settle(&self, within: Duration) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |queue| queue.settle(within))
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.check()?;
        if state.waiting.saturating_add(bytes.len()) > Outlet::WAITING_MAX {
            return Err(stalled(state.waiting));
        }
        state.waiting += bytes.len();
        state.parts.push_back(bytes.to_vec());
        self.changed.notify_all();
        Ok(())
    }

    fn settle(&self, within: Duration) -> io::Result<()> {
        let until = Instant::now() + within;
        let mut state = self.state();
        while state.waiting > 0 && state.failed.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(stalled(state.waiting));
            }
            let waited = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
        }
        state.check()
    }

    /// The thread: writes until the end, or until it fails.
    fn run(&self, mut file: File) {
        while let Some(part) = self.next() {
            let mut rest = &part[..];
            while !rest.is_empty() {
                let written = match file.write(rest) {
                    Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    written => written,
                };
                let mut state = self.state();
                match written {
                    Ok(written) => {
                        state.waiting = state.waiting.saturating_sub(written);
                        rest = &rest[written..];
                    }
                    Err(error) => {
                        state.failed = Some(error);
                        state.parts.clear();
                        self.changed.notify_all();
                        return;
                    }
                }
                drop(state);
                self.changed.notify_all();
            }
        }
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        loop {
            if let Some(part) = state.parts.pop_front() {
                return Some(part);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn check(&self) -> io::Result<()> {
        match &self.failed {
            Some(error) => Err(match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => error.kind().into(),
            }),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Queue")
            .field("waiting", &state.waiting)
            .field("failed", &state.failed)
            .finish_non_exhaustive()
    }
}

/// Whether a write may wait for ever.
fn may_stall(file: &File) -> bool {
    #[cfg(unix)]
    {
        use std::io::IsTerminal;
        use std::os::unix::fs::FileTypeExt;
        let kind = file.metadata().map(|metadata| metadata.file_type());
        kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket()) || file.is_terminal()
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        false
    }
}

fn stalled(waiting: usize) -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, format!("its reader is too slow: {waiting} bytes wait for it"))
}

/// How long the end waits for the reader.
const END_WAIT: Duration = Duration::from_millis(250);

#[cfg(all(test, unix))]
mod tests {
    use std::io::{PipeReader, Read};
    use std::os::fd::OwnedFd;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn pipe() -> (PipeReader, Outlet) {
        let (reader, writer) = io::pipe().unwrap();
        (reader, Outlet::new(File::from(OwnedFd::from(writer))).unwrap())
    }

    #[test]
    fn a_pipe_without_a_reader_takes_a_bounded_amount_and_gives_it_back_in_order() {
        let (mut reader, mut outlet) = pipe();
        let part = |number: usize| vec![number as u8; 100_000];
        let mut taken = 0;
        let error = loop {
            match outlet.write(&part(taken)) {
                Ok(len) => {
                    assert_eq!(len, 100_000);
                    taken += 1;
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        // The queue's bound, and what the pipe itself holds: 64 KiB by default, a MiB at most (pipe(7)).
        let bytes = taken * 100_000;
        assert!(bytes > Outlet::WAITING_MAX - 100_000 && bytes <= Outlet::WAITING_MAX + (1 << 20), "{bytes}");
        assert_eq!(outlet.backlog().settle(Duration::ZERO).unwrap_err().kind(), io::ErrorKind::WouldBlock);

        for number in 0..taken {
            let mut read = vec![0; 100_000];
            reader.read_exact(&mut read).unwrap();
            assert!(read == part(number), "{number}");
        }
        outlet.backlog().settle(LONG).unwrap();
        assert_eq!(outlet.backlog().waiting(), 0);
        outlet.write_all(b"more").unwrap();
        let backlog = outlet.backlog();
        drop(outlet);
        backlog.settle(LONG).unwrap();
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"more");
    }

    #[test]
    fn a_reader_that_leaves_is_reported_by_the_next_call() {
        let (reader, mut outlet) = pipe();
        drop(reader);
        outlet.write_all(b"lost").unwrap();
        let broken = |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::BrokenPipe;
        assert!(broken(outlet.backlog().settle(LONG)));
        assert!(broken(outlet.write_all(b"more")) && broken(outlet.flush()));
        assert_eq!(outlet.backlog().failed(), Some(io::ErrorKind::BrokenPipe));
    }

    #[test]
    fn a_file_and_a_full_disk_are_written_to_at_once() {
        let mut full = Outlet::new(File::options().write(true).open("/dev/full").unwrap()).unwrap();
        assert_eq!(full.write_all(b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
        let path = std::env::temp_dir().join(format!("ackclock-outlet-{}", std::process::id()));
        let mut file = Outlet::new(File::create(&path).unwrap()).unwrap();
        file.write_all(b"abc").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
        file.set_len(1).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"a");
        std::fs::remove_file(path).unwrap();
    }
}
