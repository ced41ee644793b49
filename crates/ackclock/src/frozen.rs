//! [`TcpStream::freeze`] and [`Stack::thaw`]: one connection as bytes.

use std::fmt;
use std::io::{self, ErrorKind};

use ackclock_core::{ConnectionId, Endpoint, FreezeError, Instant, TcpConfig, ThawError};

use crate::{Stack, TcpStream};

/// A connection that is nowhere, as bytes: [`TcpStream::freeze`] made it, and [`Stack::thaw`] goes on with
/// it.
///
/// The exact form is for a stack of this version and clock: another one of the same
/// virtual network, or the stack itself. Its packets are then those of a connection that never left. The
/// portable form ([`TcpStream::freeze_portable`]) is for any stack and any later version: what the RFCs call
/// the connection's state, its bytes, and the figures of its path. Everything else begins again.
///
/// The bytes hold the connection's data: keep them where no other user reads them.
#[derive(Clone, PartialEq, Eq)]
pub struct Frozen(Vec<u8>);

impl Frozen {
    /// The bytes of [`as_bytes`](Self::as_bytes), from a file or another process. [`Stack::thaw`] checks
    /// them.
    #[must_use]
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The form, as `ackclock-core` describes it (`form.md`).
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frozen").field("len", &self.0.len()).finish_non_exhaustive()
    }
}

/// The stack's calls are recorded, and this one has no place in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the stack is recorded, and a recording cannot hold a connection that comes or goes: build it without"
)]
pub struct Recorded;

impl TcpStream {
    /// Takes the connection out of its stack, exactly as it is. Every later call on the stream fails with
    /// [`NotConnected`](ErrorKind::NotConnected). The peer notices nothing unless it sends before a stack
    /// goes on with the connection: this stack then answers with a reset.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) with a [`FreezeError`], or [`Recorded`], inside. The stream
    /// stays as it was.
    pub fn freeze(&self) -> io::Result<Frozen> {
        self.take_out(Endpoint::freeze_connection)
    }

    /// Takes the connection out of its stack in the form for any stack.
    ///
    /// # Errors
    /// As [`freeze`](Self::freeze); also for a connection in TIME-WAIT.
    ///
    /// ```
    /// # use ackclock::Stack;
    /// # use ackclock::device::memory;
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>>
    /// {
    /// # let (left, right) = memory::pair(memory::Config::default());
    /// # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
    /// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
    /// # let listener = server.listen("10.0.0.2:7".parse()?)?;
    /// let stream = client.connect("10.0.0.2:7".parse()?).await?;
    /// let (mut accepted, _) = listener.accept().await?;
    /// let frozen = stream.freeze_portable()?;
    ///
    /// let mut stream = client.thaw(&frozen, None)?;
    /// stream.write_all(b"still here").await?;
    /// accepted.read_exact(&mut [0; 10]).await?;
    /// # Ok(()) }
    /// ```
    pub fn freeze_portable(&self) -> io::Result<Frozen> {
        self.take_out(Endpoint::freeze_portable)
    }

    fn take_out(
        &self,
        form: impl FnOnce(&mut Endpoint, Instant, ConnectionId) -> Result<Vec<u8>, FreezeError>,
    ) -> io::Result<Frozen> {
        self.shared.call(|state, now| {
            state.check_alive()?;
            state.release_writers(now);
            let endpoint = state.endpoint.unrecorded().ok_or_else(|| unsupported(Recorded))?;
            let form = form(endpoint, now, self.id).map_err(unsupported)?;
            state.forget(self.id);
            Ok(Frozen(form))
        })
    }
}

impl Stack {
    /// Goes on with a connection. `tcp`: its settings, for the portable form (default: the stack's); the
    /// exact form has its own.
    ///
    /// # Errors
    /// [`InvalidData`](ErrorKind::InvalidData) if the bytes are not a connection or contradict themselves,
    /// [`Unsupported`](ErrorKind::Unsupported) if the stack cannot go on with it; each with a [`ThawError`],
    /// or [`Recorded`], inside. Nothing has changed then.
    pub fn thaw(&self, frozen: &Frozen, tcp: Option<TcpConfig>) -> io::Result<TcpStream> {
        let shard = self.shared.at(0);
        let id = shard.call(|state, now| {
            state.check_up()?;
            state.check_tcp(tcp.as_ref())?;
            let registry = state.choices().registry.clone();
            let tcp = tcp.unwrap_or_else(|| state.tcp.clone());
            let endpoint = state.endpoint.unrecorded().ok_or_else(|| unsupported(Recorded))?;
            let thawed = match Endpoint::is_portable(&frozen.0) {
                true => endpoint.thaw_portable(now, &frozen.0, tcp),
                false => endpoint.thaw_connection(now, &frozen.0, &registry).map(|thawed| thawed.id),
            };
            thawed.map_err(|error| match error {
                ThawError::Form(_) => io::Error::new(ErrorKind::InvalidData, error),
                error => unsupported(error),
            })
        })?;
        Ok(TcpStream::new(id, shard))
    }
}

fn unsupported(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(ErrorKind::Unsupported, error)
}
