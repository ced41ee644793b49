//! Errors, one type per operation.

use std::net::{IpAddr, SocketAddr};

use ackclock_control::InvalidParameter;
use ackclock_control::rtt::InvalidRto;

/// Why a connection ended other than by both ends closing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer answered the SYN with a reset: nothing listens there.
    #[error("connection refused: nothing listens on the peer's port")]
    Refused,
    /// The peer reset an established connection.
    #[error("connection reset by peer")]
    Reset,
    /// Nothing was acknowledged for as long as R2 or the user timeout allows (RFC 9293 §3.8.3, RFC 5482).
    #[error("connection timed out: the peer stopped answering")]
    TimedOut,
    /// Keep-alive probes stayed unanswered.
    #[error("connection timed out: the peer answers no keep-alive probe")]
    KeepaliveTimedOut,
    /// No data moved in either direction for as long as the idle timeout allows
    /// ([`TcpConfig::idle_timeout`](crate::TcpConfig::idle_timeout)).
    #[error("connection timed out: no data moved either way for as long as its idle timeout allows")]
    IdleTimedOut,
    /// The network reported that the peer cannot be reached, while the connection was being opened.
    #[error("unreachable: {0}")]
    Unreachable(IcmpError),
    /// This end aborted the connection.
    #[error("connection aborted locally")]
    Aborted,
    /// The memory budget was exhausted, and this connection was chosen to be reset.
    #[error("connection dropped: the stack's memory budget is exhausted")]
    OutOfMemory,
}

/// An ICMP error's report about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IcmpError {
    /// Network unreachable.
    #[error("network unreachable")]
    Network,
    /// Host or address unreachable.
    #[error("host unreachable")]
    Host,
    /// Protocol unreachable.
    #[error("protocol unreachable")]
    Protocol,
    /// Port unreachable.
    #[error("port unreachable")]
    Port,
    /// Administratively prohibited.
    #[error("prohibited by a firewall or router")]
    Prohibited,
    /// Time (hops) exceeded.
    #[error("time to live exceeded")]
    TimeExceeded,
    /// Parameter problem in the header.
    #[error("parameter problem")]
    ParameterProblem,
    /// The source route failed.
    #[error("source route failed")]
    SourceRoute,
}

/// Why no packet can be sent to this socket, and what to do.
pub(crate) fn why_no_peer(remote: SocketAddr) -> &'static str {
    match remote.ip() {
        _ if remote.port() == 0 => "port 0 belongs to no peer; name the port that the peer listens on",
        addr if addr.is_loopback() => {
            "it is a loopback address, which does not leave this machine's kernel; use a socket of the \
             kernel, or an address that the device leads to"
        }
        addr if addr.is_unspecified() => "it stands for no host in particular; name the peer's address",
        addr if addr.is_multicast() => "it is a multicast address; name one host",
        _ => "it is a broadcast or reserved address; name one host",
    }
}

/// Why a socket cannot have this local address, and what to do.
pub(crate) fn why_not_local(addr: IpAddr) -> &'static str {
    match addr {
        _ if addr.is_multicast() => "it is a multicast address; name one host's",
        _ if addr.is_loopback() => "it is a loopback address, which stays in this machine; name another",
        _ => "give the stack this address, or make it transparent to use other hosts' addresses",
    }
}

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The remote address cannot be a TCP peer (RFC 9293 MUST-46).
    #[error("{0} cannot be a TCP peer: {why}", why = why_no_peer(*.0))]
    InvalidRemote(SocketAddr),
    /// No local address of the peer's family.
    #[error("no local address to reach {0} from: give the stack one of its family")]
    NoLocalAddress(IpAddr),
    /// The local address is not one of the stack's.
    #[error("{0} is not an address of this stack: {why}", why = why_not_local(*.0))]
    NotLocal(IpAddr),
    /// The local socket is in use with this peer, or all ports to it are.
    #[error("local address in use: no free port to {0}")]
    AddressInUse(SocketAddr),
    /// The table of connections is full.
    #[error("too many connections: the limit is {0}")]
    TooManyConnections(usize),
}

/// Why a listener could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another listener has this address and port.
    #[error("address in use: another listener has it")]
    AddressInUse,
    /// The local address is not one of the stack's.
    #[error("{0} is not an address of this stack: {why}", why = why_not_local(*.0))]
    NotLocal(IpAddr),
    /// The table of listeners is full.
    #[error("too many listeners: the limit is {0}")]
    TooManyListeners(usize),
    /// The limit of listeners that share the address is reached.
    #[error(
        "too many listeners share this address and port: the limit is {0}; close one, or listen elsewhere"
    )]
    TooManyOnAddress(usize),
}

/// Why nothing could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing to read now.
    #[error("nothing to read yet")]
    WouldBlock,
    /// The connection ended in error.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The connection has not been established.
    #[error("not connected")]
    NotConnected,
}

/// Why nothing could be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No room now.
    #[error("no room in the send buffer")]
    WouldBlock,
    /// The connection ended in error.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The connection has not been established.
    #[error("not connected")]
    NotConnected,
    /// This end has shut down its sending side, or the peer has closed the connection.
    #[error("broken pipe: this side has been shut down")]
    Shutdown,
}

/// Why an option could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// The value is outside the option's range.
    #[error("{option} takes {range}")]
    OutOfRange {
        /// The option's name.
        option: &'static str,
        /// The range, in words.
        range: &'static str,
    },
    /// No timeout estimator can have these parameters.
    #[error(transparent)]
    Rto(#[from] InvalidRto),
    /// The choice has parameters that it does not take.
    #[error(transparent)]
    Choice(#[from] InvalidParameter),
}

ackclock_form::form! {
    enum ConnectionError {
        0 Refused, 1 Reset, 2 TimedOut, 3 KeepaliveTimedOut, 4 IdleTimedOut, 5 Unreachable(value),
        6 Aborted, 7 OutOfMemory
    }
    enum IcmpError {
        0 Network, 1 Host, 2 Protocol, 3 Port, 4 Prohibited, 5 TimeExceeded, 6 ParameterProblem,
        7 SourceRoute
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_host_is_refused_with_the_way_to_use_it() {
        for (addr, what, instead) in [
            ("10.9.9.9", "not an address of this stack", "transparent"),
            ("fd00::9", "not an address of this stack", "transparent"),
            ("224.0.0.1", "multicast", "one host"),
            ("127.0.0.1", "loopback", "another"),
        ] {
            let addr: IpAddr = addr.parse().unwrap();
            for said in [ConnectError::NotLocal(addr).to_string(), ListenError::NotLocal(addr).to_string()] {
                assert!(said.contains(what) && said.contains(instead), "{said}");
            }
        }
    }

    #[test]
    fn an_address_without_a_peer_is_named_for_what_it_is() {
        for (remote, what, instead) in [
            ("127.0.0.1:80", "loopback", "a socket of the kernel"),
            ("[::1]:80", "loopback", "a socket of the kernel"),
            ("0.0.0.0:80", "no host in particular", "the peer's address"),
            ("224.0.0.1:80", "multicast", "one host"),
            ("[ff02::1]:80", "multicast", "one host"),
            ("255.255.255.255:80", "broadcast", "one host"),
            ("127.0.0.1:0", "port 0", "the port"),
        ] {
            let said = ConnectError::InvalidRemote(remote.parse().unwrap()).to_string();
            assert!(said.starts_with(remote) && said.contains(what) && said.contains(instead), "{said}");
        }
    }
}
