//! How a run over a stack fails: the exit codes and remedies of its connections and devices.

use std::io::{self, ErrorKind};

use ackclock::{ConnectError, ListenError, StackError};
use ackclock_cli::{Exit, Failure};
use ackclock_device::{FdError, OpenError, configure::ConfigureError, explain};

use crate::device::Label;

/// A failure of a connection or listener while `doing` something; `device` is what the stack stands on.
pub(crate) fn network(doing: &str, error: &io::Error, device: &Label) -> Failure {
    if let Some(StackError::Device(source)) = stack_error(error) {
        return Failure::new(Exit::Device, format!("{doing}: {}", explain(source, &device.name)))
            .remedy(&device.diagnosis);
    }
    // The stack made no system call whose number would help.
    let words = error.to_string();
    let words = words.rsplit_once(" (os error ").map_or(&*words, |(words, _)| words);
    let failure = |exit| Failure::new(exit, format!("{doing}: {words}"));
    match error.kind() {
        ErrorKind::ConnectionRefused => failure(Exit::Refused)
            .remedy("start the listener first, on the peer: tcpcat -l PORT (or any other server)"),
        ErrorKind::TimedOut => failure(Exit::Unreachable)
            .remedy(format!("check the path: {} --addr ADDR/PREFIX", device.diagnosis)),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable if device.is_kernel => {
            failure(Exit::Unreachable)
                .remedy("give the kernel a route to it: sudo ip route add ADDR/PREFIX via ROUTER")
        }
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => failure(Exit::Unreachable).remedy(
            "let the kernel forward (sudo sysctl -w net.ipv4.ip_forward=1), and check its route \
                (ip route get ADDR)",
        ),
        ErrorKind::NetworkDown => failure(Exit::Device).remedy(&device.diagnosis),
        ErrorKind::AddrNotAvailable if device.is_kernel => {
            failure(Exit::Usage).remedy("choose an address that the kernel has (ip addr), or leave -s out")
        }
        ErrorKind::AddrNotAvailable if is_not_local(error) => failure(Exit::Usage)
            .remedy("add it to the stack's addresses (--addr ADDR/PREFIX once for each), or leave -s out"),
        ErrorKind::AddrNotAvailable => failure(Exit::Usage)
            .remedy("give the stack an address of that family: --addr 10.9.0.2/24 or --addr fd00::2/64"),
        ErrorKind::AddrInUse => failure(Exit::Usage)
            .remedy("choose another port, or end the program that has this one: ss -ltnp shows it"),
        ErrorKind::InvalidInput => failure(Exit::Usage),
        _ => failure(Exit::Failed),
    }
}

/// The data that arrived is not the data that was sent.
pub(crate) fn verification(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Verification, message)
        .remedy("send it again; if this repeats, capture it with --pcap FILE")
}

/// Turns a failure before there was a stack into a failure of the command.
pub(crate) trait OrFail<T> {
    /// The value, or why there is none.
    fn or_fail(self) -> Result<T, Failure>;
}

impl<T> OrFail<T> for Result<T, OpenError> {
    fn or_fail(self) -> Result<T, Failure> {
        self.map_err(|error| {
            let exit = match error {
                OpenError::NameEmpty
                | OpenError::NameTooLong { .. }
                | OpenError::NameInvalid { .. }
                | OpenError::MacNotUnicast { .. } => Exit::Usage,
                _ => Exit::Device,
            };
            Failure::new(exit, error.to_string())
        })
    }
}

impl<T> OrFail<T> for Result<T, FdError> {
    fn or_fail(self) -> Result<T, Failure> {
        match self {
            Ok(value) => Ok(value),
            Err(FdError::Open(error)) => Err(error).or_fail(),
            Err(error @ FdError::MtuUnknown { .. }) => {
                Err(Failure::new(Exit::Device, error.to_string()).remedy("add --mtu 1500, or what it has"))
            }
            Err(error) => Err(Failure::new(Exit::Device, error.to_string())),
        }
    }
}

impl<T> OrFail<T> for Result<T, ConfigureError> {
    fn or_fail(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(Exit::Device, error.to_string()))
    }
}

/// Whether the user chose an address that the stack does not have.
fn is_not_local(error: &io::Error) -> bool {
    let Some(cause) = error.get_ref() else { return false };
    matches!(cause.downcast_ref(), Some(ConnectError::NotLocal(_)))
        || matches!(cause.downcast_ref(), Some(ListenError::NotLocal(_)))
}

fn stack_error(error: &io::Error) -> Option<&StackError> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn exit_of(kind: ErrorKind) -> Exit {
        network("connecting", &kind.into(), &Label::tun("tun0")).exit()
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
    fn a_network_error_is_told_in_words_alone() {
        let refused = io::Error::from_raw_os_error(libc::ECONNREFUSED);
        let failure = network("connecting to 10.9.0.1:9", &refused, &Label::tun("tun0"));
        assert_eq!(failure.message(), "connecting to 10.9.0.1:9: Connection refused");
    }

    #[test]
    fn what_to_do_is_for_the_address_and_for_whose_tcp_it_is() {
        let remedy = |error: &io::Error, device: &Label| network("connecting", error, device).to_string();
        let addr = std::net::Ipv4Addr::LOCALHOST.into();
        let (tun, kernel) = (Label::tun("tun0"), Label::kernel());
        let not_local = io::Error::new(ErrorKind::AddrNotAvailable, ListenError::NotLocal(addr));
        assert!(remedy(&not_local, &tun).contains("or leave -s out"));
        let not_local = io::Error::new(ErrorKind::AddrNotAvailable, ConnectError::NotLocal(addr));
        assert!(remedy(&not_local, &tun).contains("or leave -s out"));
        let no_family = io::Error::new(ErrorKind::AddrNotAvailable, ConnectError::NoLocalAddress(addr));
        assert!(remedy(&no_family, &tun).contains("an address of that family"));
        let unreachable = io::Error::from(ErrorKind::NetworkUnreachable);
        assert!(remedy(&unreachable, &tun).contains("let the kernel forward"));
        assert!(remedy(&unreachable, &kernel).contains("ip route add"));
        assert!(remedy(&io::Error::from_raw_os_error(libc::EADDRNOTAVAIL), &kernel).contains("ip addr"));
    }

    #[test]
    fn a_deleted_device_is_named_with_its_remedy() {
        let deleted = io::Error::from_raw_os_error(libc::EBADFD);
        let error = io::Error::from(StackError::Device(Arc::new(deleted)));
        let failure = network("sending", &error, &Label::tun("tun7"));
        assert_eq!(failure.exit(), Exit::Device);
        assert!(failure.to_string().contains("tun7 was deleted"), "{failure}");
    }

    #[test]
    fn a_bad_device_name_is_a_usage_error() {
        let failed = |error: OpenError| Err::<(), _>(error).or_fail().unwrap_err();
        assert_eq!(failed(OpenError::NameEmpty).exit(), Exit::Usage);
        let denied = OpenError::TunForbidden(io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(failed(denied).exit(), Exit::Device);
    }
}
