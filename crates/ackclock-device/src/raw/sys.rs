//! The system calls of raw and packet sockets, each behind a safe function.
//!
//! Source: packet(7), raw(7), ipv6(7), sendmmsg(2), getifaddrs(3), Linux
//! `include/uapi/linux/{if_packet,filter}.h`.

#![expect(unsafe_code, reason = "system calls")]

use std::ffi::CStr;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use libc::{c_int, c_uint, c_void, sock_filter, socklen_t};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a socket with the calling task's runtime.
pub(super) fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: `OwnedFd` owns its descriptor, always returns the same one, and only the `AsyncFd` drops it.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(io::Error::from)
}

/// An instruction of classic BPF.
pub(super) type Instruction = sock_filter;

/// A packet that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// Its length, which exceeds the buffer if it was truncated.
    pub len: usize,
    /// `TP_STATUS_*`.
    pub status: u32,
}

/// A packet to send: its position in a buffer, and its destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub start: usize,
    pub end: usize,
    pub dst: IpAddr,
}

/// A socket for the IP packets of one family, which reports whether each checksum is finished. It receives
/// nothing before [`bind_packets`].
pub(super) fn packet_socket() -> io::Result<OwnedFd> {
    // Protocol 0: nothing is received until the filter is attached.
    let fd = socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?;
    set_option(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
    Ok(fd)
}

/// A socket that sends whole IP packets.
pub(super) fn raw_socket(v6: bool) -> io::Result<OwnedFd> {
    // raw(7), ipv6(7): IPPROTO_RAW implies that the header is included, and receives nothing.
    socket(if v6 { libc::AF_INET6 } else { libc::AF_INET }, libc::SOCK_RAW, libc::IPPROTO_RAW)
}

/// A netfilter netlink socket.
pub(super) fn netfilter_socket() -> io::Result<OwnedFd> {
    socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER)
}

/// Passes only packets for which `program` returns more than 0.
pub(super) fn attach_filter(fd: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let len = libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // The kernel copies the program and writes nothing.
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Starts a packet socket: it receives IPv4 or IPv6 packets from now on, from all interfaces if `index` is 0.
pub(super) fn bind_packets(fd: BorrowedFd<'_>, v6: bool, index: c_int) -> io::Result<()> {
    // SAFETY: `sockaddr_ll` is plain integers; all zeros are a valid value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    let protocol = if v6 { libc::ETH_P_IPV6 } else { libc::ETH_P_IP };
    address.sll_family = libc::AF_PACKET as u16; // 17
    address.sll_protocol = (protocol as u16).to_be(); // both fit
    address.sll_ifindex = index;
    // SAFETY: bind(2) reads the given number of bytes, which are a live `sockaddr_ll`.
    check(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_ll>() as socklen_t,
        )
    })
}

/// Binds a socket to the interface `name`.
pub(super) fn bind_to_interface(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: setsockopt(2) reads the given number of bytes, which are those of the name.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            name.len() as socklen_t, // an interface name
        )
    })
}

/// Sets the buffer for received or sent packets, beyond the limit for users if this process may.
pub(super) fn set_buffer(fd: BorrowedFd<'_>, receive: bool, bytes: c_int) -> io::Result<()> {
    let (forced, plain) = if receive {
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)
    } else {
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)
    };
    set_option(fd, libc::SOL_SOCKET, forced, &bytes)
        .or_else(|_| set_option(fd, libc::SOL_SOCKET, plain, &bytes))
}

/// Reads one packet with the kernel's metadata.
pub(super) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([0; CONTROL_LEN]);
    // SAFETY: `msghdr` is plain integers and pointers; all zeros are a valid value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_LEN;
    // SAFETY: recvmsg(2) writes only into the message's buffers, within their lengths, and all are live.
    let len = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    Ok(Received { len, status: status(&message) })
}

/// The status in a message's control data; 0 without one.
fn status(message: &libc::msghdr) -> u32 {
    // SAFETY: the kernel has filled the control buffer and set its length. The macros stay within it, and the
    // data of this type is a `tpacket_auxdata`, read without alignment.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = header.as_ref() {
            if found.cmsg_level == libc::SOL_PACKET && found.cmsg_type == libc::PACKET_AUXDATA {
                return libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned().tp_status;
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    0
}

/// Sends packets in as few calls as the kernel allows. Returns how many it took.
pub(super) fn send(fd: BorrowedFd<'_>, bytes: &[u8], packets: &[Outgoing]) -> io::Result<usize> {
    let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
    // SAFETY: both are plain integers and pointers; all zeros are a valid value.
    let (mut addresses, mut messages): ([Address; BATCH], [libc::mmsghdr; BATCH]) = unsafe { mem::zeroed() };
    let packets = &packets[..packets.len().min(BATCH)];
    for (index, packet) in packets.iter().enumerate() {
        let slice = &bytes[packet.start..packet.end];
        parts[index] = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
        let message = &mut messages[index].msg_hdr;
        message.msg_namelen = addresses[index].set(packet.dst);
        message.msg_name = (&raw mut addresses[index]).cast();
        message.msg_iov = &raw mut parts[index];
        message.msg_iovlen = 1;
    }
    // SAFETY: sendmmsg(2) reads the messages, whose names and parts are live, and writes their lengths.
    let sent = unsafe {
        libc::sendmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), packets.len() as c_uint, libc::MSG_DONTWAIT)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// How many packets were lost since the last call because they were not fetched in time.
pub(super) fn lost_packets(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    get_option(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut statistics)?;
    Ok(statistics.tp_drops)
}

/// The largest packet that the kernel would send to `dst`, in bytes. Connecting a UDP socket sends nothing.
pub(super) fn path_mtu(dst: IpAddr) -> io::Result<usize> {
    let any: SocketAddr = if dst.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect((dst, 9))?;
    let mut mtu: c_int = 0;
    let (level, name) =
        if dst.is_ipv4() { (libc::IPPROTO_IP, libc::IP_MTU) } else { (libc::IPPROTO_IPV6, libc::IPV6_MTU) };
    get_option(socket.as_fd(), level, name, &mut mtu)?;
    usize::try_from(mtu).map_err(io::Error::other)
}

/// An interface with one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub name: String,
    pub addr: Option<IpAddr>,
    pub flags: c_uint,
}

/// All interfaces of the calling thread's network namespace, one for each of their addresses.
pub(super) fn interfaces() -> io::Result<Vec<Interface>> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: getifaddrs(3) stores a list that is ours until freeifaddrs(3).
    check(unsafe { libc::getifaddrs(&raw mut list) })?;
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: the list is live until it is freed below. Its names end with a zero, and each address has its
    // family's length.
    unsafe {
        while let Some(entry) = next.as_ref() {
            let name = CStr::from_ptr(entry.ifa_name).to_string_lossy().into_owned();
            found.push(Interface { name, addr: address(entry.ifa_addr), flags: entry.ifa_flags });
            next = entry.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    Ok(found)
}

/// # Safety
/// The pointer is null, or points to a live address with its family's length.
unsafe fn address(of: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller guarantees it.
    unsafe {
        match c_int::from(of.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = of.cast::<libc::sockaddr_in>().read_unaligned();
                Some(v4.sin_addr.s_addr.to_ne_bytes().into())
            }
            libc::AF_INET6 => Some(of.cast::<libc::sockaddr_in6>().read_unaligned().sin6_addr.s6_addr.into()),
            _ => None,
        }
    }
}

/// Room for an address of either family.
#[repr(C)]
#[derive(Clone, Copy)]
union Address {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Address {
    /// Stores an address without a port. Returns its length.
    fn set(&mut self, addr: IpAddr) -> socklen_t {
        match addr {
            IpAddr::V4(addr) => {
                let sin_addr = libc::in_addr { s_addr: u32::from_ne_bytes(addr.octets()) };
                let family = libc::AF_INET as libc::sa_family_t; // 2
                self.v4 = libc::sockaddr_in { sin_family: family, sin_port: 0, sin_addr, sin_zero: [0; 8] };
                size_of::<libc::sockaddr_in>() as socklen_t
            }
            IpAddr::V6(addr) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t, // 10
                    sin6_port: 0,
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: addr.octets() },
                    sin6_scope_id: 0,
                };
                size_of::<libc::sockaddr_in6>() as socklen_t
            }
        }
    }
}

/// Room for control data, aligned like its headers.
#[repr(C, align(8))]
struct Control([u8; CONTROL_LEN]);

fn set_option<T>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: setsockopt(2) reads the given number of bytes, which are a live value of the option's type.
    check(unsafe {
        let value = ptr::from_ref(value).cast::<c_void>();
        libc::setsockopt(fd.as_raw_fd(), level, name, value, size_of::<T>() as socklen_t)
    })
}

fn get_option<T>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as socklen_t;
    // SAFETY: getsockopt(2) writes at most the given number of bytes, into a live value of plain integers.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, ptr::from_mut(value).cast(), &raw mut len) })
}

fn socket(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes integers only.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol) };
    check(fd)?;
    // SAFETY: the descriptor was just made, is valid and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Packets in one call.
pub(super) const BATCH: usize = 64;

/// The status and its header, and as much again.
const CONTROL_LEN: usize = 128;
