//! The control socket (feature `control`): a Unix socket through which the owner of a running stack inspects
//! it.
//!
//! It answers only the user who owns the program. The socket's mode is 0600, and because a mode can be
//! changed later, the kernel is also asked for each client's user (SO_PEERCRED, unix(7)). The socket writes
//! no files, opens no connections, and changes nothing except whether a connection is traced. Its bounds:
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | clients at once | [`CLIENTS_MAX`] | the next gets an error and is closed |
//! | a request in bytes | [`REQUEST_MAX`](client::REQUEST_MAX) | the client gets an error and is closed |
//! | time to take an answer | [`WRITE_MAX`](client::WRITE_MAX) | the client is closed |
//! | connections in one answer | [`LISTED_MAX`](list::LISTED_MAX) | the rest are counted |
//!
//! Each client has its own task, which holds a lock of the stack for a few connections at a time. A client
//! that stops reading delays only itself. The socket's task ends with the stack and removes the socket.

mod client;
mod list;
mod protocol;
mod taps;

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::shards::ShardRef;
use crate::state::Queue;

/// Why a control socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// A program listens there.
    #[error("the control socket {} is in use by another program or stack: name another path for this one", .0.display())]
    InUse(PathBuf),
    /// The name belongs to something that is not a socket.
    #[error("{} is there already and is not a socket: name another path for the control \
        socket", .0.display())]
    NotASocket(PathBuf),
    /// The operating system refused it.
    #[error("the control socket {} cannot be opened: {source}", path.display())]
    Io {
        /// The socket's path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A listening socket that removes itself when dropped.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    // Remove it while the listener lives. Until then no other program takes it for stale, and its inode
    // cannot be another socket's.
    file: SocketFile,
    listener: UnixListener,
}

/// The socket in the file system.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode. A file that has since taken the name is left alone.
    identity: (u64, u64),
    /// The user who owns it.
    owner: u32,
}

impl ControlSocket {
    /// Listens at `path`, and replaces a socket that no program listens on. Must be called within a tokio
    /// runtime.
    pub fn bind(path: &Path) -> Result<Self, ControlError> {
        let failed = |source| ControlError::Io { path: path.to_owned(), source };
        // Of two programs that start at once, each could remove the socket that the other has just made.
        let _alone = hold_folder(path);
        remove_stale(path)?;
        let listener = UnixListener::bind(path).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => ControlError::InUse(path.to_owned()),
            _ => failed(error),
        })?;
        let metadata = fs::symlink_metadata(path).map_err(failed)?;
        let identity = (metadata.dev(), metadata.ino());
        let file = SocketFile { path: path.to_owned(), identity, owner: metadata.uid() };
        // Until then another user's client may connect; each client's user is checked below.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Self { file, listener })
    }

    /// Answers clients until the stack is down. Does not keep the stack up.
    pub async fn serve(self, stack: ShardRef) {
        let Self { file, listener } = self;
        let down = stack.wait(Queue::Down, |state, _| state.poll_down());
        tokio::select! {
            biased;
            () = down => {}
            () = accept(&listener, file.owner, &stack) => {}
        }
        drop(file);
        drop(listener);
    }
}

async fn accept(listener: &UnixListener, owner: u32, stack: &ShardRef) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    // Dropping the set ends the clients' tasks.
    let mut clients = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Probably out of descriptors, which may pass.
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        while clients.try_join_next().is_some() {}
        if !is_owner(&stream, owner) {
            client::refuse(
                &stream,
                "not-permitted",
                "this control socket answers to the user who runs the stack alone",
            );
            continue;
        }
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            let message =
                format!("{CLIENTS_MAX} clients are connected, and there may be no more: close one of them");
            client::refuse(&stream, "too-many-clients", &message);
            continue;
        };
        let stack = stack.clone();
        clients.spawn(async move {
            client::serve(stream, stack).await;
            drop(place);
        });
    }
}

fn is_owner(stream: &UnixStream, owner: u32) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == owner)
}

/// Locks the folder of `path` against other programs that open a control socket there. They hold it for
/// microseconds; without a lock (the file system has none, or a stranger keeps it) the start goes on.
fn hold_folder(path: &Path) -> Option<fs::File> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let held = fs::File::open(folder.unwrap_or(Path::new("."))).ok()?;
    for _ in 0..HOLD_TRIES {
        match rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(held),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(HOLD_RETRY),
            Err(_) => return None,
        }
    }
    None
}

/// Removes a socket that no program listens on.
fn remove_stale(path: &Path) -> Result<(), ControlError> {
    let failed = |source| ControlError::Io { path: path.to_owned(), source };
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !kind.is_socket() {
        return Err(ControlError::NotASocket(path.to_owned()));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(ControlError::InUse(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let identity = fs::symlink_metadata(&self.path).map(|metadata| (metadata.dev(), metadata.ino()));
        if identity.is_ok_and(|identity| identity == self.identity) {
            // If it cannot be removed, the next program finds it stale.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Clients at once: several observers and a program that collects figures.
const CLIENTS_MAX: usize = 16;
/// How often, and how far apart, the folder's lock is tried.
const HOLD_TRIES: u32 = 1000;
const HOLD_RETRY: std::time::Duration = std::time::Duration::from_millis(1);
/// The wait after a failed accept.
const ACCEPT_RETRY: std::time::Duration = std::time::Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener as StaleListener, UnixStream as Probe};
    use std::sync::Barrier;

    use super::*;

    /// A directory of the test's own, removed at its end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("ackclock-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn names(&self) -> Vec<std::ffi::OsString> {
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[tokio::test]
    async fn of_several_starts_at_once_one_gets_the_socket_and_keeps_it() {
        const STARTS: usize = 4;
        let directory = Directory::new("at-once");
        let path = directory.0.join("control");
        let runtime = tokio::runtime::Handle::current();
        for _ in 0..200 {
            // Left there by a program that was killed.
            drop(StaleListener::bind(&path).unwrap());
            let barrier = Barrier::new(STARTS);
            let start = || {
                let _entered = runtime.enter();
                barrier.wait();
                ControlSocket::bind(&path)
            };
            let outcomes: Vec<_> = std::thread::scope(|scope| {
                let starts: Vec<_> = (0..STARTS).map(|_| scope.spawn(start)).collect();
                starts.into_iter().map(|start| start.join().unwrap()).collect()
            });
            let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
            assert_eq!(won.len(), 1, "{lost:?}");
            assert!(lost.iter().all(|lost| matches!(lost, Err(ControlError::InUse(_)))), "{lost:?}");
            Probe::connect(&path).expect("the winner listens there");
            assert_eq!(directory.names(), ["control"]);
            drop(won);
            assert!(directory.names().is_empty());
        }
    }

    #[tokio::test]
    async fn a_socket_goes_before_another_program_can_take_it_for_stale() {
        let directory = Directory::new("goes");
        let path = directory.0.join("control");
        let ControlSocket { file, listener } = ControlSocket::bind(&path).unwrap();
        drop(file);
        assert!(!path.exists());
        let second = ControlSocket::bind(&path).unwrap();
        drop(listener);
        assert!(path.exists());
        drop(second);
    }
}
