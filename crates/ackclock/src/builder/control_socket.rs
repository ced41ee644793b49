//! The builder's choice of a control socket.

use std::path::PathBuf;

use super::StackBuilder;
use crate::build_error::BuildError;
use crate::control::ControlSocket;

impl StackBuilder {
    /// Opens a Unix socket at `path` (feature `control`) through which the user who runs the program, and
    /// only that user, inspects the running stack: `tcpcat ss`, `tcpcat top` and `tcpcat trace` use it. Its
    /// mode is 0600. A socket left there by a program that has ended is replaced; this one is removed when
    /// the stack ends. A [detached](Self::detached) stack has none.
    ///
    /// ```
    /// use std::io::{BufRead, BufReader, Write};
    /// use std::os::unix::net::UnixStream;
    ///
    /// use ackclock::Stack;
    /// # use ackclock_device::memory;
    ///
    /// # #[tokio::main(flavor = "multi_thread", worker_threads = 1)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (device, _other_end) = memory::pair(memory::Config::default());
    /// # let path = std::env::temp_dir().join(format!("ackclock-control-{}", std::process::id()));
    /// let stack = Stack::builder().device(device).address("10.0.0.1/24".parse()?).control(&path).spawn()?;
    ///
    /// let mut client = UnixStream::connect(&path)?;
    /// client.write_all(b"{\"request\": \"connections\"}\n")?;
    /// let mut answer = String::new();
    /// BufReader::new(client).read_line(&mut answer)?;
    /// assert!(answer.starts_with("{\"schema\":2,\"answer\":\"connections\","));
    /// # stack.shutdown().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # The protocol
    #[doc = include_str!("../control/protocol.md")]
    pub fn control(mut self, path: impl Into<PathBuf>) -> Self {
        self.control = Some(path.into());
        self
    }

    pub(crate) fn open_control(
        &self,
        runtime: &tokio::runtime::Handle,
    ) -> Result<Option<ControlSocket>, BuildError> {
        let _entered = runtime.enter();
        Ok(self.control.as_deref().map(ControlSocket::bind).transpose()?)
    }
}
