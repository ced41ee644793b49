//! Raw IP: a stack on an address that the host itself has, or that is routed to it.
//!
//! The device creates nothing and moves no address. Packets leave through raw sockets, which route them like
//! the host's own, and come in through packet sockets, which get a copy of each. A raw socket could receive,
//! but it cannot tell an unfinished checksum from a wrong one: packets that a host sends to itself, or over a
//! veth pair, never get a checksum, and `PACKET_AUXDATA` says so for each packet (packet(7)). Coalesced
//! packets above the MTU arrive whole.
//!
//! The host must not answer in the stack's place: [`RawDevice::open`] sets a rule for exactly the device's
//! packets, which ends with it (`guard`). With [`Ports::Range`] the address stays the host's, and those TCP
//! ports are the device's. With [`Ports::All`] all TCP and UDP of the address is the device's.
//!
//! Limits: packets are seen before the host's firewall and address translation, and leave through the host's
//! `OUTPUT` rules. With ports, packets with IPv6 extension headers and later fragments do not arrive. The
//! kernel still answers echo requests. The kernel does not cut sent packets; one call of sendmmsg(2) sends
//! many.

mod claims;
mod error;
mod filter;
mod guard;
mod host;
mod receive;
mod send;
mod sys;
mod too_big;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ackclock_wire::{RxMeta, TxPacket, gso};
use tokio::runtime::Handle;

use crate::error::check_name;
use crate::{Capabilities, Counters, Device, ReceiveBatch, configure};
use claims::Claim;
use guard::Guard;
use receive::{Receiver, Step};
use send::Sender;

pub use error::RawError;

/// The configuration of a raw device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawConfig {
    /// The addresses, 1 to 16. The host has them, or you add them with `ip route add local`.
    pub addresses: Vec<IpAddr>,
    /// The device's part of their traffic.
    pub ports: Ports,
    /// The only interface to send and receive on; `None`: the host's routes decide.
    pub interface: Option<String>,
    /// Whether to keep the kernel from answering; `false` if a rule of yours does (see [`reset_command`]).
    pub guard: bool,
}

/// A raw device's part of its addresses' traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ports {
    /// All TCP and UDP: the host's sockets no longer receive on these addresses.
    All,
    /// These TCP ports. The stack must take its ephemeral ports from them too
    /// (`StackBuilder::ephemeral_ports`); exclude them from the host's choice
    /// (`net.ipv4.ip_local_reserved_ports`).
    Range(RangeInclusive<u16>),
}

/// A raw IP device.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ackclock_device::RawError> {
/// use ackclock_device::{Ports, RawConfig, RawDevice};
/// let mut config = RawConfig::new(["192.0.2.7".parse().unwrap()]);
/// config.ports = Ports::Range(40_000..=40_999);
/// let device = RawDevice::open(&config)?;
/// # Ok(())
/// # }
/// ```
pub struct RawDevice {
    families: Vec<Family>,
    /// The interface whose MTU and state apply.
    interface: Option<String>,
    control: OwnedFd,
    link: Cell<Link>,
    counters: Counters,
    lost: Cell<u64>,
    /// ICMP messages for the stack, made from the kernel's error codes.
    own: VecDeque<Vec<u8>>,
    receiver: Waker,
    _guard: Option<Guard>,
    _claim: Claim,
}

/// The sockets for IPv4 or IPv6.
#[derive(Debug)]
struct Family {
    v6: bool,
    receiver: Receiver,
    sender: Sender,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    mtu: usize,
    up: bool,
    asked_at: Option<Instant>,
}

impl RawConfig {
    /// All ports of `addresses`, on all interfaces, with the kernel kept from answering.
    #[must_use]
    pub fn new(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let addresses = addresses.into_iter().collect();
        Self { addresses, ports: Ports::All, interface: None, guard: true }
    }
}

/// The command that keeps the kernel from resetting such a device's connections, for a process that may not
/// do it itself.
#[must_use]
pub fn reset_command(config: &RawConfig) -> String {
    guard::command(&config.addresses, &config.ports)
}

impl RawDevice {
    /// Opens the sockets, and sets the rule that keeps the kernel from answering. Both end with the device,
    /// even if the process is killed.
    ///
    /// # Errors
    /// See [`RawError`]; each message names the command that fixes it.
    ///
    /// # Panics
    /// If the caller's tokio runtime has no I/O driver.
    pub fn open(config: &RawConfig) -> Result<Self, RawError> {
        Handle::try_current().map_err(|_| RawError::NoRuntime)?;
        check(config)?;
        let claim = Claim::new(config)?;
        let other = |doing| move |source| RawError::from_io(doing, source);
        let interface = match &config.interface {
            Some(name) => Some(name.clone()),
            None => host::interface(&config.addresses).map_err(other("listing interfaces"))?,
        };
        let control = crate::sys::control_socket().map_err(other("a socket"))?;
        let families = families(config)?;
        let guard = config
            .guard
            .then(|| Guard::set_up(&config.addresses, &config.ports))
            .transpose()
            .map_err(|source| RawError::Resets { command: reset_command(config), source })?;
        Ok(Self {
            families,
            interface,
            control,
            link: Cell::new(Link { mtu: MTU_DEFAULT, up: true, asked_at: None }),
            counters: Counters::default(),
            lost: Cell::new(0),
            own: VecDeque::new(),
            receiver: Waker::noop().clone(),
            _guard: guard,
            _claim: claim,
        })
    }

    /// Sends what waits, as far as the sockets take it. The receiving task handles the rest.
    fn flush_all(&mut self) -> io::Result<()> {
        let mut drained = true;
        let told = self.own.len();
        for family in &mut self.families {
            drained &= family.sender.flush(&mut self.counters, &mut self.own)?;
        }
        if self.own.len() > told || !drained {
            self.receiver.wake_by_ref();
        }
        Ok(())
    }

    fn queue(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        let destination = host::destination(packet.header);
        let v6 = destination.is_some_and(|addr| addr.is_ipv6());
        let family = self.families.iter_mut().find(|family| family.v6 == v6);
        let (Some(dst), Some(family)) = (destination, family) else {
            self.counters.send_refused += 1;
            return Ok(());
        };
        if family.sender.is_full() {
            family.sender.flush(&mut self.counters, &mut self.own)?;
        }
        if !family.sender.push(packet, dst) {
            self.counters.send_no_room += 1;
        }
        Ok(())
    }

    /// The interface's state, queried at most once a second. If it can no longer be queried, the last known
    /// state stays, with the link down.
    fn refreshed_link(&self) -> Link {
        let known = self.link.get();
        let now = Instant::now();
        if known.asked_at.is_some_and(|at| now.saturating_duration_since(at) < LINK_REFRESH) {
            return known;
        }
        let Some(name) = &self.interface else { return known };
        let asked = || -> io::Result<Link> {
            let mtu = crate::sys::interface_mtu(self.control.as_fd(), name)?;
            let flags = crate::sys::interface_flags(self.control.as_fd(), name)?;
            let mtu = usize::try_from(mtu).map_err(io::Error::other)?.min(MTU_MAX);
            Ok(Link { mtu, up: flags & libc::IFF_UP != 0, asked_at: None })
        };
        let link = Link { asked_at: Some(now), ..asked().unwrap_or(Link { up: false, ..known }) };
        self.link.set(link);
        link
    }
}

impl Device for RawDevice {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ip(self.refreshed_link().mtu)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.receiver.clone_from(cx.waker());
        for family in &mut self.families {
            // Packets that a socket refused leave as soon as it takes them.
            while !family.sender.flush(&mut self.counters, &mut self.own)? {
                if family.sender.poll_ready(cx)?.is_pending() {
                    break;
                }
            }
        }
        let mut received = 0;
        while let Some(message) = self.own.front() {
            if !batch.push(message, RxMeta::default()) {
                return Poll::Ready(Ok(received));
            }
            self.own.pop_front();
            received += 1;
        }
        let mtu = self.link.get().mtu;
        for family in &mut self.families {
            match family.receiver.poll(cx, batch, mtu, &mut self.counters, &mut received) {
                Ok(Step::Drained) => {}
                Ok(Step::Full) => return Poll::Ready(Ok(received)),
                // Packets received before the error count. The error recurs on the next call.
                Err(_) if received > 0 => return Poll::Ready(Ok(received)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        // The next call begins with the other family, so that neither waits while the other is silent.
        self.families.reverse();
        if received > 0 { Poll::Ready(Ok(received)) } else { Poll::Pending }
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for family in &mut self.families {
            while family.sender.is_full() && !family.sender.flush(&mut self.counters, &mut self.own)? {
                if family.sender.poll_ready(cx)?.is_pending() {
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        if packet.segment_size.is_none() && !packet.checksum.is_partial() {
            return self.queue(packet);
        }
        let mut result = Ok(());
        gso::cut(packet, |segment| {
            if result.is_ok() {
                result = self.queue(segment);
            }
        });
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_all()
    }

    fn counters(&self) -> Counters {
        let lost: u64 = self.families.iter().map(|family| family.receiver.lost()).sum();
        self.lost.set(self.lost.get() + lost);
        Counters { receive_no_room: self.lost.get(), ..self.counters }
    }

    fn link_up(&self) -> bool {
        self.refreshed_link().up
    }
}

impl Drop for RawDevice {
    fn drop(&mut self) {
        // Resets of a stack that closes. If a socket does not take them, it no longer matters.
        let _ = self.flush_all();
    }
}

impl fmt::Debug for RawDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawDevice")
            .field("interface", &self.interface)
            .field("link", &self.link.get())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// Checks what needs no privilege.
fn check(config: &RawConfig) -> Result<(), RawError> {
    let count = config.addresses.len();
    if count == 0 || count > filter::ADDRESSES_MAX {
        return Err(RawError::Addresses { count });
    }
    if let Ports::Range(range) = &config.ports
        && (range.is_empty() || *range.start() == 0)
    {
        return Err(RawError::Ports);
    }
    if let Some(name) = &config.interface
        && (check_name(name).is_err() || configure::link_state(name).is_err())
    {
        return Err(RawError::NoInterface { name: name.clone() });
    }
    for &addr in &config.addresses {
        host::check_local(addr)?;
    }
    host::check_unused(&config.addresses, &config.ports)
}

fn families(config: &RawConfig) -> Result<Vec<Family>, RawError> {
    let index = match &config.interface {
        None => 0,
        Some(name) => crate::sys::control_socket()
            .and_then(|socket| crate::sys::interface_index(socket.as_fd(), name))
            .map_err(|_| RawError::NoInterface { name: name.clone() })?,
    };
    let mut families = Vec::new();
    for v6 in [false, true] {
        if config.addresses.iter().any(|addr| addr.is_ipv6() == v6) {
            let program = filter::program(v6, &config.addresses, &config.ports);
            let receiver = Receiver::open(v6, index, &program)
                .map_err(|source| RawError::from_io("a packet socket", source))?;
            let sender = Sender::open(v6, config.interface.as_deref())
                .map_err(|source| RawError::from_io("a raw socket", source))?;
            families.push(Family { v6, receiver, sender });
        }
    }
    Ok(families)
}

/// How long the link's state is cached.
const LINK_REFRESH: Duration = Duration::from_secs(1);

/// Used until the interface is queried.
const MTU_DEFAULT: usize = 1500;

/// The largest length in an IPv4 length field; the loopback interface has one more.
const MTU_MAX: usize = 65_535;
