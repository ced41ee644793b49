//! The system calls of packet sockets.
//!
//! Source: packet(7), socket(7), Linux `include/uapi/linux/if_packet.h`, `include/uapi/linux/filter.h`.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_void, socklen_t};

use super::check;

/// The kernel's metadata about a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    /// Bytes written to the buffer, including any virtio-net header.
    pub len: usize,
    /// The buffer was too short for the frame.
    pub truncated: bool,
    /// This host sent it.
    pub outgoing: bool,
    /// `TP_STATUS_*`
    pub status: u32,
    /// The VLAN tag removed from the frame, if `status` reports one.
    pub vlan: u16,
}

/// A non-blocking packet socket for whole frames, which receives nothing until it is bound.
pub(crate) fn open() -> io::Result<File> {
    super::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0).map(File::from)
}

/// Binds the socket to the interface, to receive all its frames and to send.
pub(crate) fn bind(socket: BorrowedFd<'_>, index: c_int) -> io::Result<()> {
    // SAFETY: `sockaddr_ll` is plain integers, for which all zeros are valid.
    let mut addr: libc::sockaddr_ll = unsafe { mem::zeroed() };
    addr.sll_family = libc::AF_PACKET as u16; // 17
    addr.sll_protocol = (libc::ETH_P_ALL as u16).to_be(); // 3
    addr.sll_ifindex = index;
    let len = mem::size_of_val(&addr) as socklen_t; // 20
    // SAFETY: bind(2) reads `len` bytes at the address given, which is that of a live structure of this
    // length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const addr).cast(), len) })
}

/// Sets an option of packet(7) that is one integer.
pub(crate) fn set_option(socket: BorrowedFd<'_>, option: c_int, value: c_int) -> io::Result<()> {
    set(socket, libc::SOL_PACKET, option, &value)
}

/// Sets how many bytes may wait in each direction, limited by what the process may have.
pub(crate) fn set_buffers(socket: BorrowedFd<'_>, bytes: c_int) -> io::Result<()> {
    for (forced, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        set(socket, libc::SOL_SOCKET, forced, &bytes)
            .or_else(|_| set(socket, libc::SOL_SOCKET, plain, &bytes))?;
    }
    Ok(())
}

/// A fan-out group: its number, and the flags that its sockets have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    id: c_int,
    flags: c_int,
}

/// Adds the bound socket to the group, or to a new one. Each frame then goes to one socket of the group, by
/// the hash of its flow.
pub(crate) fn fan_out(socket: BorrowedFd<'_>, group: Option<Group>) -> io::Result<Group> {
    let join = |id: c_int, flags: c_int| set_option(socket, libc::PACKET_FANOUT, id | (flags << 16));
    if let Some(group) = group {
        return join(group.id, group.flags).map(|()| group);
    }
    let hash = libc::PACKET_FANOUT_HASH as c_int; // 0
    // A group ignores what its sockets said of outgoing frames. Kernels before 5.11 lack the flag.
    let mut flags = hash | FLAG_IGNORE_OUTGOING;
    join(0, flags | FLAG_UNIQUE_ID).or_else(|_| {
        flags = hash;
        join(0, flags | FLAG_UNIQUE_ID)
    })?;
    let id = int_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)? & 0xffff;
    Ok(Group { id, flags })
}

/// Makes the interface also receive frames for `mac`, in the way that `PACKET_MR_*` says, as long as the
/// socket is open.
pub(crate) fn add_membership(
    socket: BorrowedFd<'_>,
    index: c_int,
    kind: c_int,
    mac: [u8; 6],
) -> io::Result<()> {
    membership(socket, libc::PACKET_ADD_MEMBERSHIP, index, kind, mac)
}

/// Reverses [`add_membership`].
pub(crate) fn drop_membership(
    socket: BorrowedFd<'_>,
    index: c_int,
    kind: c_int,
    mac: [u8; 6],
) -> io::Result<()> {
    membership(socket, libc::PACKET_DROP_MEMBERSHIP, index, kind, mac)
}

fn membership(
    socket: BorrowedFd<'_>,
    option: c_int,
    index: c_int,
    kind: c_int,
    mac: [u8; 6],
) -> io::Result<()> {
    let [a, b, c, d, e, f] = mac;
    let request = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: kind as u16, // 0 to 3
        mr_alen: 6,
        mr_address: [a, b, c, d, e, f, 0, 0],
    };
    set(socket, libc::SOL_PACKET, option, &request)
}

/// Makes the socket drop all frames except IPv4, IPv6 and ARP to `mac` or to a group.
pub(crate) fn filter_station(socket: BorrowedFd<'_>, mac: [u8; 6]) -> io::Result<()> {
    let [a, b, c, d, e, f] = mac;
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, jump) = (libc::BPF_LD | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_K);
    let mut program = [
        step(load | libc::BPF_B, 0, 0, 0),
        step(jump | libc::BPF_JSET, 4, 0, 1), // a group: on to the protocol
        step(load | libc::BPF_W, 0, 0, 0),
        step(jump | libc::BPF_JEQ, 0, 6, u32::from_be_bytes([a, b, c, d])),
        step(load | libc::BPF_H, 0, 0, 4),
        step(jump | libc::BPF_JEQ, 0, 4, u32::from_be_bytes([0, 0, e, f])),
        step(load | libc::BPF_H, 0, 0, 12),
        step(jump | libc::BPF_JEQ, 3, 0, 0x0800),
        step(jump | libc::BPF_JEQ, 2, 0, 0x86dd),
        step(jump | libc::BPF_JEQ, 1, 0, 0x0806),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Fetches and clears the pending error of the socket.
pub(crate) fn take_error(socket: BorrowedFd<'_>) -> io::Result<c_int> {
    int_option(socket, libc::SOL_SOCKET, libc::SO_ERROR)
}

/// An option that is one integer.
fn int_option(socket: BorrowedFd<'_>, level: c_int, option: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = mem::size_of_val(&value) as socklen_t; // 4
    let (into, fd) = ((&raw mut value).cast(), socket.as_raw_fd());
    // SAFETY: getsockopt(2) writes at most `len` bytes to the address given, which is that of a live int.
    check(unsafe { libc::getsockopt(fd, level, option, into, &raw mut len) })?;
    Ok(value)
}

/// Receives one frame.
pub(crate) fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Arrived> {
    // SAFETY: `sockaddr_ll` is plain integers, for which all zeros are valid.
    let mut from: libc::sockaddr_ll = unsafe { mem::zeroed() };
    // Room for one `tpacket_auxdata` behind its header, with the alignment that it needs.
    let mut control = [0u64; 8];
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: `msghdr` is integers and pointers, for which all zeros are valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = mem::size_of_val(&from) as socklen_t; // 20
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control);
    // SAFETY: every pointer in `message` points to live memory of the length beside it, which nothing else
    // uses meanwhile.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    let auxiliary = auxiliary_data(&message);
    Ok(Arrived {
        len,
        truncated: message.msg_flags & libc::MSG_TRUNC != 0,
        outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
        status: auxiliary.map_or(0, |data| data.tp_status),
        vlan: auxiliary.map_or(0, |data| data.tp_vlan_tci),
    })
}

fn auxiliary_data(message: &libc::msghdr) -> Option<libc::tpacket_auxdata> {
    // SAFETY: the kernel has filled in the control buffer that `message` points to, which is alive. The
    // header and, as its length says, the data behind it are within that buffer. The data may be unaligned
    // and is copied.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message).as_ref()?;
        let wanted = libc::CMSG_LEN(mem::size_of::<libc::tpacket_auxdata>() as u32) as usize; // 36
        let is_wanted = header.cmsg_level == libc::SOL_PACKET && header.cmsg_type == libc::PACKET_AUXDATA;
        (is_wanted && header.cmsg_len >= wanted)
            .then(|| libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned())
    }
}

fn set<T>(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let len = mem::size_of::<T>() as socklen_t; // some bytes
    let value = std::ptr::from_ref(value).cast::<c_void>();
    // SAFETY: setsockopt(2) reads `len` bytes at the address given, which is that of a live value of this
    // length.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, len) })
}

const FLAG_IGNORE_OUTGOING: c_int = libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING as c_int; // 0x4000
const FLAG_UNIQUE_ID: c_int = libc::PACKET_FANOUT_FLAG_UNIQUEID as c_int; // 0x2000
