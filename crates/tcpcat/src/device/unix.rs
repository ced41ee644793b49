//! Ethernet frames over a Unix socket, whose other end is a virtual machine, passt, or another stack.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use ackclock_cli::{Exit, Failure};
use ackclock_device::over::{EthernetOver, PacketStream, accept_datagrams};
use tokio::net::{UnixDatagram, UnixListener, UnixStream};

use super::{Backend, Later, Opened, ethernet};
use crate::args::{DeviceArgs, DeviceFlag};
use crate::doctor::{Finding, ok, problem};
use crate::exit::OrFail;

/// `--device unix:PATH`, each frame behind its length, and `unixgram:PATH`, one in each datagram.
#[derive(Clone, Debug)]
pub(crate) struct Unix {
    path: PathBuf,
    datagrams: bool,
}

impl Unix {
    /// Parses the word after `--device`, if it speaks of a Unix socket.
    pub fn parse(word: &str) -> Option<Result<Self, String>> {
        let (kind, path) = word.split_once(':')?;
        let datagrams = match kind {
            "unix" => false,
            "unixgram" => true,
            _ => return None,
        };
        if path.is_empty() {
            return Some(Err(format!("{word:?} lacks the socket's path: write {kind}:/run/user/1000/guest")));
        }
        Some(Ok(Self { path: path.into(), datagrams }))
    }

    async fn open_now(&self, args: &DeviceArgs, verbose: bool) -> Result<Opened, Failure> {
        ethernet::check(args)?;
        let mtu = args.mtu.map_or(MTU_DEFAULT, |mtu| mtu as usize);
        let options = ethernet::options(args)?;
        if self.datagrams {
            let socket = self.datagrams().await.map_err(|error| self.failed(&error))?;
            // Virtual machines leave checksums to a network card, and there is none.
            let device = EthernetOver::new(socket, mtu).trusting_checksums();
            return ethernet::settled(self, args, vec![options.on(device).or_fail()?], verbose).await;
        }
        let stream = self.stream().await.map_err(|error| self.failed(&error))?;
        let device = EthernetOver::new(PacketStream::prefixed(stream), mtu);
        ethernet::settled(self, args, vec![options.on(device).or_fail()?], verbose).await
    }

    /// A connection to the program that listens at the path, or from the first that connects to it.
    async fn stream(&self) -> io::Result<UnixStream> {
        match UnixStream::connect(&self.path).await {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
            connected => return connected,
        }
        let listener = bound(&self.path, UnixListener::bind)?;
        self.tell_of_wait();
        let accepted = listener.accept().await;
        // One comes; another would wait for ever.
        std::fs::remove_file(&self.path)?;
        Ok(accepted?.0)
    }

    /// A socket at the path, connected to the first that sends there.
    async fn datagrams(&self) -> io::Result<UnixDatagram> {
        let socket = bound(&self.path, UnixDatagram::bind)?;
        self.tell_of_wait();
        accept_datagrams(&socket).await?;
        Ok(socket)
    }

    fn tell_of_wait(&self) {
        say!("tcpcat: waiting at {} for a virtual machine or another stack", self.path.display());
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::new(Exit::Device, format!("{}: {error}", self.path.display())).remedy(
            "give a path in a directory of your own, where no other program listens with another protocol",
        )
    }
}

impl Backend for Unix {
    fn word(&self) -> &'static str {
        if self.datagrams { "unixgram" } else { "unix" }
    }

    fn takes(&self) -> &'static [DeviceFlag] {
        use DeviceFlag::{Autoconf, Gateway, Mac, Mtu};
        &[Autoconf, Gateway, Mac, Mtu]
    }

    fn name(&self, _: &DeviceArgs) -> String {
        self.path.display().to_string()
    }

    fn diagnosis(&self, _: &DeviceArgs) -> String {
        format!("tcpcat doctor --device {}:{}", self.word(), self.path.display())
    }

    fn open<'a>(&'a self, args: &'a DeviceArgs, verbose: bool) -> Later<'a, Result<Opened, Failure>> {
        Box::pin(self.open_now(args, verbose))
    }

    fn findings<'a>(&'a self, _: &'a DeviceArgs) -> Later<'a, Vec<Finding>> {
        Box::pin(async {
            let path = self.path.display();
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            vec![if self.path.exists() {
                ok(
                    "socket",
                    format!("{path} exists: a transfer connects to it, or replaces it if nothing listens"),
                )
            } else if folder.is_dir() {
                ok("socket", format!("a transfer will wait at {path}"))
            } else {
                let fix = format!("mkdir -p {}", folder.display());
                problem("socket", format!("{} is not a directory", folder.display()), fix)
            }]
        })
    }
}

/// Binds a path. A socket there that nothing listens on any more is replaced.
fn bound<'a, S>(path: &'a Path, bind: impl Fn(&'a Path) -> io::Result<S>) -> io::Result<S> {
    match bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_socket(path) => {
            std::fs::remove_file(path)?;
            bind(path)
        }
        bound => bound,
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// Ethernet's.
const MTU_DEFAULT: usize = 1500;
