//! How a run ends: the exit codes, and failures that name their cause and the command that helps.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use ackclock::StackError;
use ackclock_device::{OpenError, configure::ConfigureError, explain};

use crate::device::Label;

/// The exit codes. They are part of the command's interface: scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All was done.
    Done = 0,
    /// The connection was reset or closed early, or did not bring all.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Nothing listens on the peer's port.
    Refused = 3,
    /// The peer does not answer, or no way leads to it.
    Unreachable = 4,
    /// The device cannot be opened or used.
    Device = 5,
    /// A local file cannot be read or written.
    File = 6,
    /// What arrived is not what was sent.
    Verification = 7,
    /// SIGINT ended `send` or `recv`: 128 and the signal's number, as shells have it.
    Interrupted = 130,
    /// The reader of stdout left before the end: 128 and SIGPIPE.
    ReaderGone = 141,
    /// SIGTERM ended `send`, `recv` or `top`.
    Terminated = 143,
}

impl Exit {
    /// All of them.
    pub(crate) const ALL: [Self; 11] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Refused,
        Self::Unreachable,
        Self::Device,
        Self::File,
        Self::Verification,
        Self::Interrupted,
        Self::ReaderGone,
        Self::Terminated,
    ];

    /// What the code means, for the manual.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Done => "Everything was done.",
            Self::Failed => "The connection was reset or closed early, or did not bring everything.",
            Self::Usage => "The command line is wrong.",
            Self::Refused => "Nothing listens on the peer's port, or at the control socket.",
            Self::Unreachable => "The peer does not answer, or there is no route to it.",
            Self::Device => "The device cannot be opened or used.",
            Self::File => "A local file cannot be read or written.",
            Self::Verification => "What arrived is not what was sent.",
            Self::Interrupted => "SIGINT ended send or recv.",
            Self::ReaderGone => "The reader of stdout left before the end, as head does.",
            Self::Terminated => "SIGTERM ended send, recv or top.",
        }
    }

    /// The word for it in JSON; `None` if all was done.
    pub(crate) fn kind(self) -> Option<&'static str> {
        Some(match self {
            Self::Done => return None,
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Device => "device",
            Self::File => "file",
            Self::Verification => "verification",
            Self::ReaderGone => "reader_gone",
            Self::Interrupted | Self::Terminated => "interrupted",
        })
    }

    /// The code that the process ends with.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

/// Why a run failed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    remedy: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), remedy: None }
    }

    /// Adds the remedy: a command, or a sentence that names one.
    pub(crate) fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// What happened, without the remedy.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The remedy.
    pub(crate) fn mend(&self) -> Option<&str> {
        self.remedy.as_deref()
    }

    /// Puts what was done by then in front of the cause.
    pub(crate) fn after(self, done: &str) -> Self {
        Self { message: format!("{done}: {}", self.message), ..self }
    }

    /// The same cause under another code.
    pub(crate) fn with_exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// A failure of a connection or listener while `doing` something; `device` is what the stack stands on.
    pub(crate) fn network(doing: &str, error: &io::Error, device: &Label) -> Self {
        if let Some(StackError::Device(source)) = stack_error(error) {
            return Self::new(Exit::Device, format!("{doing}: {}", explain(source, &device.name)))
                .remedy(&device.diagnosis);
        }
        let failure = |exit| Self::new(exit, format!("{doing}: {error}"));
        match error.kind() {
            ErrorKind::ConnectionRefused => failure(Exit::Refused)
                .remedy("start the listener first, on the peer: tcpcat -l PORT (or any other server)"),
            ErrorKind::TimedOut => failure(Exit::Unreachable)
                .remedy(format!("check the path: {} --addr ADDR/PREFIX", device.diagnosis)),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => failure(Exit::Unreachable).remedy(
                "let the kernel forward (sudo sysctl -w net.ipv4.ip_forward=1), and check its route \
                    (ip route get ADDR)",
            ),
            ErrorKind::NetworkDown => failure(Exit::Device).remedy(&device.diagnosis),
            ErrorKind::AddrNotAvailable => failure(Exit::Usage)
                .remedy("give the stack an address of that family: --addr 10.9.0.2/24 or --addr fd00::2/64"),
            ErrorKind::AddrInUse | ErrorKind::InvalidInput => failure(Exit::Usage),
            _ => failure(Exit::Failed),
        }
    }

    /// A local file could not be used.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe && [Path::new("-"), Path::new("stdout")].contains(&path) {
            return Self::new(Exit::ReaderGone, "the reader of stdout left");
        }
        let path = path.display();
        let failure = Self::new(Exit::File, format!("cannot {doing} {path}: {error}"));
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => failure
                .remedy(format!("free space (df -h {path}) and run it again; the old file is untouched")),
            ErrorKind::PermissionDenied => failure.remedy(format!("check its permissions: ls -ld {path}")),
            ErrorKind::NotFound => failure.remedy("check the name; directories are not created"),
            ErrorKind::IsADirectory => failure.remedy("name a file in that directory"),
            _ if is_out_of_descriptors(error) => failure.remedy(MORE_DESCRIPTORS),
            _ => failure,
        }
    }

    /// Whether nothing is printed: the user closed the pipe.
    pub(crate) fn is_quiet(&self) -> bool {
        self.exit == Exit::ReaderGone
    }

    /// The command line asks for something that cannot be.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The program cannot begin.
    pub(crate) fn start(error: &io::Error) -> Self {
        let failure = Self::new(Exit::Failed, format!("cannot start threads: {error}"));
        if is_out_of_descriptors(error) { failure.remedy(MORE_DESCRIPTORS) } else { failure }
    }

    /// What arrived is not what was sent.
    pub(crate) fn verification(message: impl Into<String>) -> Self {
        Self::new(Exit::Verification, message)
            .remedy("send it again; if this repeats, capture it with --pcap FILE")
    }

    /// The user's interrupt ended the run before all was done.
    pub(crate) fn interrupted(what: &str) -> Self {
        Self::new(Exit::Failed, format!("interrupted: {what}"))
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let exit = match error {
            OpenError::NameEmpty
            | OpenError::NameTooLong { .. }
            | OpenError::NameInvalid { .. }
            | OpenError::MacNotUnicast { .. } => Exit::Usage,
            _ => Exit::Device,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<ConfigureError> for Failure {
    fn from(error: ConfigureError) -> Self {
        Self::new(Exit::Device, error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(remedy) = &self.remedy {
            write!(f, "\n  to fix it: {remedy}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Whether the process, or the system, may open no more files.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn stack_error(error: &io::Error) -> Option<&StackError> {
    error.get_ref()?.downcast_ref()
}

/// The remedy for a lack of descriptors.
const MORE_DESCRIPTORS: &str = "raise the limit first: ulimit -n 4096";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn exit_of(kind: ErrorKind) -> Exit {
        Failure::network("connecting", &kind.into(), &Label::tun("tun0")).exit()
    }

    #[test]
    fn each_kind_of_network_error_has_its_code() {
        assert_eq!(exit_of(ErrorKind::ConnectionReset), Exit::Failed);
        assert_eq!(exit_of(ErrorKind::ConnectionAborted), Exit::Failed);
        assert_eq!(exit_of(ErrorKind::ConnectionRefused), Exit::Refused);
        assert_eq!(exit_of(ErrorKind::TimedOut), Exit::Unreachable);
        assert_eq!(exit_of(ErrorKind::HostUnreachable), Exit::Unreachable);
        assert_eq!(exit_of(ErrorKind::NetworkUnreachable), Exit::Unreachable);
        assert_eq!(exit_of(ErrorKind::NetworkDown), Exit::Device);
    }

    #[test]
    fn a_deleted_device_is_named_with_its_remedy() {
        let deleted = io::Error::from_raw_os_error(libc::EBADFD);
        let error = io::Error::from(StackError::Device(Arc::new(deleted)));
        let failure = Failure::network("sending", &error, &Label::tun("tun7"));
        assert_eq!(failure.exit(), Exit::Device);
        assert!(failure.to_string().contains("tun7 was deleted"), "{failure}");
    }

    #[test]
    fn a_full_disk_is_a_file_error_that_says_what_to_do() {
        let error = io::Error::from_raw_os_error(libc::ENOSPC);
        let failure = Failure::file("write", Path::new("/mnt/out"), &error);
        assert_eq!(failure.exit(), Exit::File);
        assert!(failure.to_string().contains("df -h /mnt/out"), "{failure}");
    }

    #[test]
    fn the_codes_are_those_of_the_manual() {
        let all = [
            Exit::Done,
            Exit::Failed,
            Exit::Usage,
            Exit::Refused,
            Exit::Unreachable,
            Exit::Device,
            Exit::File,
            Exit::Verification,
            Exit::Interrupted,
            Exit::ReaderGone,
            Exit::Terminated,
        ];
        assert_eq!(all, Exit::ALL);
        assert_eq!(all.map(Exit::code), [0, 1, 2, 3, 4, 5, 6, 7, 130, 141, 143]);
    }

    #[test]
    fn a_bad_device_name_is_a_usage_error() {
        assert_eq!(Failure::from(OpenError::NameEmpty).exit(), Exit::Usage);
        let denied = OpenError::TunForbidden(io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(Failure::from(denied).exit(), Exit::Device);
    }
}
