//! The system calls without a safe interface: a TUN device, precise sleep, the kernel's view of a connection,
//! many packets in one call, what the allocator has handed out.
//!
//! Source: Linux `Documentation/networking/tuntap.rst`, `include/uapi/linux/tcp.h`, ppoll(2), prctl(2),
//! packet(7), sendmmsg(2), mallinfo(3).

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libc::{c_char, c_int, c_short, c_uint};

/// Opens the TUN device `name` of this thread's network namespace. With `offload`, each packet has a
/// virtio-net header in front, and packets of 64 KB are whole.
pub(crate) fn open_tun(name: &str, offload: bool) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = libc::O_NONBLOCK;
    let file = File::options().read(true).write(true).custom_flags(flags).open("/dev/net/tun")?;
    // SAFETY: `ifreq` is plain integers and a union of such; all zeros are a valid value of each.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
        *to = from as c_char;
    }
    let header = if offload { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | header) as c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which lives until the call returns.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    let offloads: c_uint = if offload { libc::TUN_F_CSUM | libc::TUN_F_TSO4 } else { 0 };
    // SAFETY: TUNSETOFFLOAD takes its argument by value and touches no memory of this process.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) })?;
    Ok(file)
}

/// Has the timers of the calling thread expire on time; by default they may be 50 µs late.
pub(crate) fn precise_timers() -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory of this process.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) })
}

/// Waits until one of these can be read, or for `timeout`.
pub(crate) fn wait_readable<const N: usize>(files: [BorrowedFd<'_>; N], timeout: Duration) -> io::Result<()> {
    let mut polled =
        files.map(|file| libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let timeout =
        libc::timespec { tv_sec: timeout.as_secs() as libc::time_t, tv_nsec: timeout.subsec_nanos().into() };
    let count = polled.len() as libc::nfds_t;
    // SAFETY: the array and the timeout live until the call returns; no signal mask is given.
    match check(unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// Reads an option of IPPROTO_TCP into `value`. Returns how many bytes the kernel has filled in.
pub(crate) fn tcp_option(socket: BorrowedFd<'_>, name: c_int, value: &mut [u8]) -> io::Result<usize> {
    let mut len = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    let to = value.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes to the slice, and the length to `len`; both are live.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, name, to, &raw mut len) })?;
    usize::try_from(len).map_err(io::Error::other)
}

/// Where a packet socket sends IPv4 packets: to the host with this hardware address, behind the interface
/// `device` of this thread's network namespace. A TUN device has no hardware addresses.
pub(crate) fn link_address(device: &str, hardware: [u8; 6]) -> io::Result<libc::sockaddr_ll> {
    let name = CString::new(device)?;
    // SAFETY: the name ends with a zero byte and lives until the call returns.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `sockaddr_ll` is plain integers; all zeros are a valid value of each.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_IP as u16).to_be();
    address.sll_ifindex = c_int::try_from(index).map_err(io::Error::other)?;
    address.sll_halen = 6;
    address.sll_addr[..6].copy_from_slice(&hardware);
    Ok(address)
}

/// Sends packets to one address by a packet socket, in one call: sendmmsg(2). Returns how many were taken.
pub(crate) fn send_many(
    socket: BorrowedFd<'_>,
    to: &libc::sockaddr_ll,
    packets: &[&[u8]],
) -> io::Result<usize> {
    let name = std::ptr::from_ref(to).cast_mut().cast();
    let mut parts: Vec<_> = packets
        .iter()
        // The kernel only reads them.
        .map(|packet| libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() })
        .collect();
    let mut messages: Vec<libc::mmsghdr> = parts
        .iter_mut()
        .map(|part| {
            // SAFETY: `mmsghdr` is plain integers and pointers; all zeros are a valid value of each.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_name = name;
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message
        })
        .collect();
    let count = messages.len() as c_uint;
    // SAFETY: `messages` has `count` elements, which point to `to` and to one element of `parts` each, and
    // these to the packets; all of them live until the call returns.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
    check(sent)?;
    usize::try_from(sent).map_err(io::Error::other)
}

/// Bytes of memory that the allocator has handed out, after it has given back to the system what it can.
pub(crate) fn heap() -> usize {
    // SAFETY: malloc_trim(3) may be called at any time and takes a number of bytes to keep.
    unsafe { libc::malloc_trim(0) };
    // SAFETY: mallinfo2(3) takes nothing and returns a structure of numbers.
    let heap = unsafe { libc::mallinfo2() };
    heap.uordblks + heap.hblkhd
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
