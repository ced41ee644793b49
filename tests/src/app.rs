//! An application at one end of a connection: writes, reads, pauses, half closes, aborts. It compares
//! everything it reads with what its peer wrote, byte by byte.

use std::time::Duration;

use ackclock_control::quantity::Share;
use ackclock_core::{Connection, ConnectionError, ConnectionId, Instant, ReadError, WriteError};

use crate::host::Host;
use crate::rng::{Rng, stream_byte};

/// The plan of an application.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Bytes to write before it shuts its sending side down.
    pub total: u64,
    /// Smallest and largest write.
    pub write_chunk: (u64, u64),
    /// Smallest and largest read.
    pub read_chunk: (u64, u64),
    /// Probability of a pause after a read or write.
    pub pause: Share,
    /// The longest pause.
    pub pause_max: Duration,
    /// Aborts once this many bytes are written.
    pub abort_after: Option<u64>,
}

impl Plan {
    /// Writes and reads as fast as it can.
    #[must_use]
    pub fn plain(total: u64) -> Self {
        let chunk = (65_536, 65_536);
        Self {
            total,
            write_chunk: chunk,
            read_chunk: chunk,
            pause: Share::ZERO,
            pause_max: Duration::ZERO,
            abort_after: None,
        }
    }
}

/// The application and its progress.
#[derive(Clone, Debug)]
pub struct App {
    plan: Plan,
    rng: Rng,
    stream_out: u64,
    stream_in: u64,
    /// When it continues after a pause.
    pub paused_until: Instant,
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
    /// Whether it has shut its sending side down.
    pub shut: bool,
    /// Whether it has read the end of the stream.
    pub eof: bool,
    /// Whether it has aborted the connection.
    pub aborted: bool,
    /// How the connection ended, unless cleanly.
    pub error: Option<ConnectionError>,
}

impl App {
    /// An application that writes stream `stream_out` and expects stream `stream_in`.
    #[must_use]
    pub fn new(plan: Plan, stream_out: u64, stream_in: u64) -> Self {
        Self {
            rng: Rng::new(stream_out),
            plan,
            stream_out,
            stream_in,
            paused_until: Instant::ZERO,
            written: 0,
            read: 0,
            shut: false,
            eof: false,
            aborted: false,
            error: None,
        }
    }

    /// Whether it has nothing more to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.aborted || self.error.is_some() || (self.eof && self.shut)
    }

    /// From now on it does not pause.
    pub fn hurry(&mut self) {
        self.plan.pause = Share::ZERO;
        self.paused_until = Instant::ZERO;
    }

    /// Does what can be done now.
    ///
    /// # Panics
    /// If what it reads is not what was written, or a call fails without cause.
    pub fn run(&mut self, host: &mut Host, conn: ConnectionId) {
        for _ in 0..TURNS_MAX {
            if self.is_done() || host.now < self.paused_until {
                return;
            }
            let wrote = self.write(host, conn);
            let read = self.read(host, conn);
            if !wrote && !read {
                return;
            }
            if self.plan.pause.holds(self.rng.next_u64()) {
                let pause = self.rng.below(self.plan.pause_max.as_nanos() as u64 + 1);
                self.paused_until = host.now + Duration::from_nanos(pause);
            }
        }
    }

    fn write(&mut self, host: &mut Host, conn: ConnectionId) -> bool {
        if self.shut || self.error.is_some() {
            return false;
        }
        let open = host.endpoint.connection(conn).is_some_and(|c| c.is_established());
        if open && self.plan.abort_after.is_some_and(|after| self.written >= after) {
            host.endpoint.update(host.now, conn, |c, now| c.abort(now)).expect("not released");
            self.aborted = true;
            return false;
        }
        let left = self.plan.total - self.written;
        if left == 0 {
            let shut = host.endpoint.update(host.now, conn, |c, now| c.shutdown(now)).expect("not released");
            self.shut = self.note(host, conn, shut.map(|()| 0));
            return self.shut;
        }
        let len = self.rng.between(self.plan.write_chunk.0, self.plan.write_chunk.1).min(left);
        // As much as can be taken and one byte more, because making data that is refused would take most of a
        // long run's time.
        let room = host.endpoint.connection(conn).map_or(0, Connection::write_room) as u64;
        let len = len.min(room + 1);
        let data: Vec<u8> = (0..len).map(|i| stream_byte(self.stream_out, self.written + i)).collect();
        let taken = host.endpoint.update(host.now, conn, |c, now| c.write(now, &data)).expect("not released");
        if let Ok(count) = taken {
            assert!((1..=data.len()).contains(&count), "write took {count} of {} bytes", data.len());
            self.written += count as u64;
        }
        self.note(host, conn, taken)
    }

    fn note(&mut self, host: &Host, conn: ConnectionId, result: Result<usize, WriteError>) -> bool {
        // A pipe that the peer broke after it had closed.
        let ended = host.endpoint.connection(conn).and_then(Connection::error);
        let result = match (result, ended) {
            (Err(WriteError::Shutdown), Some(error)) => Err(WriteError::Connection(error)),
            (result, _) => result,
        };
        match result {
            Ok(_) => true,
            Err(WriteError::WouldBlock | WriteError::NotConnected) => false,
            Err(WriteError::Connection(error)) => {
                self.error = Some(error);
                false
            }
            Err(error) => panic!("write or shutdown: {error}"),
        }
    }

    fn read(&mut self, host: &mut Host, conn: ConnectionId) -> bool {
        if self.eof || self.error.is_some() || self.aborted {
            return false;
        }
        let mut into = vec![0; self.rng.between(self.plan.read_chunk.0, self.plan.read_chunk.1) as usize];
        match host.endpoint.update(host.now, conn, |c, now| c.read(now, &mut into)).expect("not released") {
            Ok(0) => {
                self.eof = true;
                false
            }
            Ok(count) => {
                for byte in &into[..count] {
                    // The bytes read are a prefix of the bytes written.
                    assert_eq!(
                        *byte,
                        stream_byte(self.stream_in, self.read),
                        "byte {} of the stream",
                        self.read
                    );
                    self.read += 1;
                }
                true
            }
            Err(ReadError::WouldBlock | ReadError::NotConnected) => false,
            Err(ReadError::Connection(error)) => {
                self.error = Some(error);
                false
            }
            Err(error) => panic!("read: {error}"),
        }
    }
}

const TURNS_MAX: usize = 1_000_000;
