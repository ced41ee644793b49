//! The system calls that the standard library lacks, each behind a safe function.
//!
//! Source: Linux `Documentation/networking/tuntap.rst`, `include/uapi/linux/if_tun.h`, netdevice(7).

#![expect(unsafe_code, reason = "system calls")]

pub(crate) mod packet;
#[cfg(feature = "xdp")]
pub(crate) mod xdp;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use libc::{Ioctl, c_char, c_int, c_short, ifreq};

/// Attaches an open `/dev/net/tun` to the interface `name`, which is created if it does not exist.
pub(crate) fn attach_interface(fd: BorrowedFd<'_>, name: &str, flags: c_short) -> io::Result<()> {
    let mut request = interface_request(name);
    request.ifr_ifru.ifru_flags = flags;
    ioctl_interface(fd, libc::TUNSETIFF, &mut request)
}

/// The interface that `fd` is attached to: its name and flags (`IFF_TAP` and others); `EBADFD` once it is
/// deleted.
pub(crate) fn attachment(fd: BorrowedFd<'_>) -> io::Result<(String, c_int)> {
    let mut request = interface_request("");
    ioctl_interface(fd, libc::TUNGETIFF, &mut request)?;
    // SAFETY: the ioctl succeeded, so the kernel has filled in this member of the union.
    let flags = c_int::from(unsafe { request.ifr_ifru.ifru_flags }) & 0xffff;
    Ok((name_of(&request)?, flags))
}

/// A duplicate of the descriptor `number` of this process, closed on exec.
pub(crate) fn duplicate(number: c_int) -> io::Result<OwnedFd> {
    // SAFETY: fcntl(2) takes integers here, and fails for a number without an open descriptor.
    let fd = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    check(fd)?;
    // SAFETY: the descriptor was just made, is valid and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The TUN features that the kernel knows (`IFF_VNET_HDR` and others).
pub(crate) fn tun_features(fd: BorrowedFd<'_>) -> io::Result<c_int> {
    let mut features: c_int = 0;
    // SAFETY: TUNGETFEATURES writes one int to the address given, which is that of a live int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNGETFEATURES, &raw mut features) })?;
    Ok(features)
}

/// Sets which unfinished packets (`TUN_F_*`) the kernel may hand to this device.
pub(crate) fn set_offload(fd: BorrowedFd<'_>, features: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value and touches no memory of this process.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(features)) })
}

/// Sets the length of the virtio-net header in front of each packet.
pub(crate) fn set_vnet_header_len(fd: BorrowedFd<'_>, len: c_int) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads one int from the address given, which is that of a live int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const len) })
}

/// Makes reads and writes return `EAGAIN` instead of waiting.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let on: c_int = 1;
    // SAFETY: FIONBIO reads one int from the address given, which is that of a live int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &raw const on) })
}

/// A socket for queries about interfaces, bound to the network namespace of the calling thread.
pub(crate) fn control_socket() -> io::Result<OwnedFd> {
    socket(libc::AF_INET, libc::SOCK_DGRAM, 0)
}

/// A routing netlink socket; `write` sends a request to the kernel, `read` takes its answer.
pub(crate) fn route_socket() -> io::Result<File> {
    socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE).map(File::from)
}

/// A timer that becomes readable when it expires, to the microsecond.
pub(crate) fn timer() -> io::Result<File> {
    // SAFETY: timerfd_create(2) takes integers only.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
    check(fd)?;
    // SAFETY: the descriptor was just made, is valid and has no other owner.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Makes a [`timer`] expire after `delay`, which must not be zero. Any earlier setting no longer counts.
pub(crate) fn set_timer(timer: BorrowedFd<'_>, delay: Duration) -> io::Result<()> {
    let seconds = libc::time_t::try_from(delay.as_secs()).unwrap_or(libc::time_t::MAX);
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let once = libc::timespec { tv_sec: seconds, tv_nsec: delay.subsec_nanos() as libc::c_long }; // below 10^9
    let setting = libc::itimerspec { it_interval: never, it_value: once };
    // SAFETY: timerfd_settime(2) reads one itimerspec, which is live, and writes none.
    check(unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const setting, std::ptr::null_mut()) })
}

/// The MTU of the interface `name`.
pub(crate) fn interface_mtu(socket: BorrowedFd<'_>, name: &str) -> io::Result<c_int> {
    let mut request = interface_request(name);
    ioctl_interface(socket, SIOCGIFMTU, &mut request)?;
    // SAFETY: the ioctl succeeded, so the kernel has filled in this member of the union.
    Ok(unsafe { request.ifr_ifru.ifru_mtu })
}

/// The flags (`IFF_UP` and others) of the interface `name`.
pub(crate) fn interface_flags(socket: BorrowedFd<'_>, name: &str) -> io::Result<c_int> {
    let mut request = interface_request(name);
    ioctl_interface(socket, SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the ioctl succeeded, so the kernel has filled in this member of the union.
    Ok(c_int::from(unsafe { request.ifr_ifru.ifru_flags }) & 0xffff)
}

/// How many packets may wait to leave by the interface `name`.
pub(crate) fn interface_queue_len(socket: BorrowedFd<'_>, name: &str) -> io::Result<c_int> {
    let mut request = interface_request(name);
    ioctl_interface(socket, SIOCGIFTXQLEN, &mut request)?;
    // SAFETY: the ioctl succeeded, so the kernel has filled in this member of the union: `ifr_qlen` is
    // another name of it.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// The number of the interface `name`.
pub(crate) fn interface_index(socket: BorrowedFd<'_>, name: &str) -> io::Result<c_int> {
    let mut request = interface_request(name);
    ioctl_interface(socket, SIOCGIFINDEX, &mut request)?;
    // SAFETY: the ioctl succeeded, so the kernel has filled in this member of the union.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// The name of the interface of this number; `ENODEV` once it is deleted.
pub(crate) fn interface_name(socket: BorrowedFd<'_>, index: c_int) -> io::Result<String> {
    let mut request = interface_request("");
    request.ifr_ifru.ifru_ifindex = index;
    ioctl_interface(socket, SIOCGIFNAME, &mut request)?;
    name_of(&request)
}

/// The hardware type (`ARPHRD_*`) and the first six octets of the hardware address of the interface `name`.
pub(crate) fn interface_hardware(socket: BorrowedFd<'_>, name: &str) -> io::Result<(u16, [u8; 6])> {
    let mut request = interface_request(name);
    ioctl_interface(socket, SIOCGIFHWADDR, &mut request)?;
    // SAFETY: the ioctl succeeded, so the kernel has filled in this member of the union.
    let hardware = unsafe { request.ifr_ifru.ifru_hwaddr };
    let [a, b, c, d, e, f, ..] = hardware.sa_data.map(|octet| octet as u8);
    Ok((hardware.sa_family, [a, b, c, d, e, f]))
}

/// The name of the driver of the interface `name`.
#[cfg(feature = "xdp")]
pub(crate) fn interface_driver(socket: BorrowedFd<'_>, name: &str) -> io::Result<String> {
    // `struct ethtool_drvinfo` of include/uapi/linux/ethtool.h: a command, and from byte 4 the driver's name.
    let mut answer = [0u32; 49];
    answer[0] = ETHTOOL_GDRVINFO;
    let mut request = interface_request(name);
    request.ifr_ifru.ifru_data = answer.as_mut_ptr().cast();
    // It writes the 196 bytes of that structure too, to `answer`, which is as long.
    ioctl_interface(socket, SIOCETHTOOL, &mut request)?;
    let name = answer[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|&c| c != 0).collect();
    String::from_utf8(name).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Moves the process, or for per-thread namespaces the calling thread, into new namespaces (`CLONE_NEW*`).
pub(crate) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: unshare(2) takes an integer and touches no memory of this process.
    check(unsafe { libc::unshare(flags) })
}

/// Changes what is mounted at `target`, in the mount namespace of the calling thread. `source`: the file to
/// bind there.
pub(crate) fn mount(source: Option<&Path>, target: &Path, flags: libc::c_ulong) -> io::Result<()> {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (source, target) = (source.map(text).transpose()?, text(target)?);
    let source = source.as_ref().map_or(std::ptr::null(), |source| source.as_ptr());
    let none = std::ptr::null();
    // SAFETY: mount(2) reads two strings, which end in zero and live; with these flags it takes no type and
    // no data.
    check(unsafe { libc::mount(source, target.as_ptr(), none, flags, none.cast()) })
}

/// The user and group that the process acts as.
pub(crate) fn effective_ids() -> (libc::uid_t, libc::gid_t) {
    // SAFETY: these take nothing, cannot fail and touch no memory of this process.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// A request about the interface `name`. A name that is too long is truncated, and the kernel finds nothing.
fn interface_request(name: &str) -> ifreq {
    // SAFETY: `ifreq` is plain integers and a union of such; all zeros are a valid value of each.
    let mut request: ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
        *to = from as c_char;
    }
    request
}

fn name_of(request: &ifreq) -> io::Result<String> {
    let name = request.ifr_name.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8(name).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn ioctl_interface(fd: BorrowedFd<'_>, number: Ioctl, request: &mut ifreq) -> io::Result<()> {
    // SAFETY: every request number passed to this function reads and writes at most one `ifreq`.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), number, std::ptr::from_mut(request)) })
}

fn socket(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes integers only.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) };
    check(fd)?;
    // SAFETY: the descriptor was just made, is valid and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

// netdevice(7); libc declares these as `unsigned long` whatever type the C library's ioctl takes.
const SIOCGIFNAME: Ioctl = 0x8910;
const SIOCGIFFLAGS: Ioctl = 0x8913;
const SIOCGIFMTU: Ioctl = 0x8921;
const SIOCGIFTXQLEN: Ioctl = 0x8942;
const SIOCGIFHWADDR: Ioctl = 0x8927;
const SIOCGIFINDEX: Ioctl = 0x8933;
#[cfg(feature = "xdp")]
const SIOCETHTOOL: Ioctl = 0x8946;
#[cfg(feature = "xdp")]
const ETHTOOL_GDRVINFO: u32 = 3;
