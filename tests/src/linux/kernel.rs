//! The kernel's side of a sequence, over a TUN device whose other end is the test.
//!
//! The kernel handles a packet within the `write` that brings it, and its answers can be read once that
//! returns: the test waits for nothing. Everything that only time would cause is switched off, and a sequence
//! that took long enough for one of the kernel's timers to expire is not judged.

use ackclock_core::State;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::time::Duration;

use etherparse::Ipv4Header;
use socket2::{Domain, Protocol, Socket, Type};

use super::Side;
use super::answer::Said;
use super::remote::text;
use super::sequence::Call;
use crate::kernel::wire::is_local;
use crate::netns::ip;
use crate::segment::Frame;

/// The TUN device, and the next four-tuple to use.
#[derive(Debug)]
pub struct Kernel {
    tun: File,
    runs: u32,
}

/// A program's sockets on the kernel.
#[derive(Debug)]
pub struct KernelSide<'a> {
    tun: &'a File,
    local: SocketAddr,
    remote: SocketAddr,
    active: bool,
    listener: Option<Socket>,
    stream: Option<Socket>,
    written: u32,
}

impl Kernel {
    /// Opens the device in the namespace of the calling thread and makes the kernel there answer always and
    /// at once.
    ///
    /// # Errors
    /// The kernel has no such device or setting.
    ///
    /// # Panics
    /// `ip` fails.
    pub fn open() -> io::Result<Self> {
        let tun = sys::open_tun(TUN)?;
        for (name, value) in SETTINGS {
            std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value)
                .map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
        }
        ip(&format!("link set {TUN} up mtu 1500 txqueuelen 5000"));
        ip(&format!("addr add 10.78.0.1/32 dev {TUN}"));
        ip(&format!("-6 addr add fd78::1/128 dev {TUN} nodad"));
        ip(&format!("route add 10.78.0.0/16 dev {TUN} quickack 1"));
        ip(&format!("-6 route add fd78::/64 dev {TUN} quickack 1"));
        assert!((0..500).any(|_| is_local("fd78::1")), "fd78::1 never becomes local");
        Ok(Self { tun, runs: 0 })
    }

    /// A program and a remote host with their own pair of sockets.
    pub fn side(&mut self, v6: bool, active: bool) -> KernelSide<'_> {
        self.runs += 1;
        let (port, host) = ((self.runs % 60_000) as u16 + 2_000, (self.runs / 60_000) as u16 + 2);
        let (local, remote) = if v6 {
            let far = Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, host);
            (IpAddr::from(Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 1)), IpAddr::from(far))
        } else {
            let [high, low] = host.to_be_bytes();
            (IpAddr::from([10, 78, 0, 1]), IpAddr::from(Ipv4Addr::new(10, 78, high + 1, low)))
        };
        let side = KernelSide {
            tun: &self.tun,
            local: SocketAddr::new(local, port),
            remote: SocketAddr::new(remote, 4242),
            active,
            listener: None,
            stream: None,
            written: 0,
        };
        // Packets left over from earlier sequences.
        while side.next_packet().is_some() {}
        side
    }
}

impl KernelSide<'_> {
    /// The program's socket and the remote host's.
    #[must_use]
    pub fn names(&self) -> (SocketAddr, SocketAddr) {
        (self.local, self.remote)
    }

    /// Closes everything; `last_word` is a reset from the remote host.
    pub fn end(mut self, last_word: &[u8]) {
        if let Some(stream) = self.stream.take() {
            stream.set_linger(Some(Duration::ZERO)).ok();
        }
        self.deliver(last_word);
    }

    fn next_packet(&self) -> Option<Vec<u8>> {
        let mut packet = vec![0; 2048];
        match (&mut &*self.tun).read(&mut packet) {
            Ok(len) => {
                packet.truncate(len);
                Some(packet)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{TUN} cannot be read: {error}"),
        }
    }

    fn open(&mut self) -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(self.local), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        socket.set_out_of_band_inline(true)?;
        socket.bind(&self.local.into())?;
        if self.active {
            match socket.connect(&self.remote.into()) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
                _ => self.stream = Some(socket),
            }
        } else {
            socket.listen(1024)?;
            self.listener = Some(socket);
        }
        Ok(())
    }

    fn accept(&mut self) -> Said {
        let Some(listener) = self.listener.as_ref().filter(|_| self.stream.is_none()) else {
            return Said::NoSocket;
        };
        let Ok((stream, _)) = listener.accept() else { return Said::Blocked };
        stream.set_nonblocking(true).expect("a socket may be made non-blocking");
        self.stream = Some(stream);
        Said::Done
    }

    fn write(&mut self, len: u16) -> Said {
        let bytes = text(1 + self.written, usize::from(len));
        match self.stream.as_ref().map(|mut stream| stream.write(&bytes)) {
            Some(Ok(len)) => {
                self.written += len as u32;
                Said::Done
            }
            Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => Said::Blocked,
            Some(Err(_)) => Said::Failed(Vec::new()),
            None => Said::NoSocket,
        }
    }
}

fn read(mut stream: &Socket) -> Said {
    let mut all = Vec::new();
    loop {
        let mut into = [0; 4096];
        match stream.read(&mut into) {
            Ok(0) => return Said::End(all),
            Ok(len) => all.extend_from_slice(&into[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock && all.is_empty() => return Said::Blocked,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Said::Bytes(all),
            Err(_) => return Said::Failed(all),
        }
    }
}

impl Side for KernelSide<'_> {
    fn deliver(&mut self, packet: &[u8]) {
        // Bytes that are not a packet are refused by the device itself.
        (&mut &*self.tun).write_all(packet).expect("the device takes a packet");
    }

    fn call(&mut self, call: Call) -> Said {
        match call {
            Call::Open => {
                self.open().expect("the name is free");
                return Said::Done;
            }
            Call::Accept => return self.accept(),
            Call::Unlisten => {
                return if self.listener.take().is_some() { Said::Done } else { Said::NoSocket };
            }
            Call::Write(len) => return self.write(len),
            _ => {}
        }
        let Some(stream) = &self.stream else { return Said::NoSocket };
        match call {
            Call::Read => return read(stream),
            // The tests of the calls compare the results of these on a stream that has ended.
            Call::Shutdown => {
                stream.shutdown(Shutdown::Write).ok();
            }
            Call::Nodelay(on) => {
                stream.set_tcp_nodelay(on).ok();
            }
            Call::Abort => {
                stream.set_linger(Some(Duration::ZERO)).ok();
                self.stream = None;
            }
            _ => self.stream = None,
        }
        Said::Done
    }

    fn sent(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(packet) = self.next_packet() {
            frames.extend(frame(packet).filter(|frame| (frame.src, frame.dst) == (self.local, self.remote)));
        }
        frames
    }

    fn pause(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    fn status(&mut self) -> Option<State> {
        let Some(stream) = &self.stream else { return None };
        // include/net/tcp_states.h
        match sys::state(stream).expect("TCP_INFO of a TCP socket") {
            1 => Some(State::Established),
            2 => Some(State::SynSent),
            3 => Some(State::SynReceived),
            4 => Some(State::FinWait1),
            5 => Some(State::FinWait2),
            8 => Some(State::CloseWait),
            9 => Some(State::LastAck),
            11 => Some(State::Closing),
            _ => Some(State::Closed),
        }
    }
}

/// A segment of the kernel; `None` for a packet that is not TCP.
fn frame(mut packet: Vec<u8>) -> Option<Frame> {
    if packet.first()? >> 4 == 4 {
        // The decoder is as strict as this stack's packets allow; the kernel numbers its packets, and permits
        // fragmentation for some.
        let (mut header, _) = Ipv4Header::from_slice(&packet).ok()?;
        (header.identification, header.dont_fragment) = (0, true);
        header.header_checksum = header.calc_header_checksum();
        packet[..20].copy_from_slice(&header.to_bytes());
        if packet[9] != 6 {
            return None;
        }
    } else if packet[6] != 6 {
        return None;
    }
    // In the sums of RFC 1071 both representations are zero; the decoder knows one.
    let sum = if packet[0] >> 4 == 4 { 36 } else { 56 };
    if packet.get(sum..sum + 2) == Some(&[0xff, 0xff]) {
        packet[sum..sum + 2].fill(0);
    }
    Some(Frame::parse(&packet).unwrap_or_else(|why| panic!("{why}: {packet:02x?}")))
}

/// Two calls without a safe interface.
#[expect(unsafe_code, reason = "an ioctl and getsockopt")]
mod sys {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    use socket2::Socket;

    /// Makes a TUN interface in the namespace of the calling thread, which lives as long as the descriptor.
    pub(super) fn open_tun(name: &str) -> io::Result<File> {
        let tun =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        // SAFETY: `ifreq` is plain data, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which is live and filled.
        if unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(tun)
    }

    /// The first byte of TCP_INFO.
    pub(super) fn state(socket: &Socket) -> io::Result<u8> {
        let mut info = [0_u8; 4];
        let mut len = info.len() as libc::socklen_t;
        let fd = socket.as_raw_fd();
        // SAFETY: getsockopt(2) writes at most `len` bytes into `info`, which is as long.
        let result = unsafe {
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
        };
        if result == 0 { Ok(info[0]) } else { Err(io::Error::last_os_error()) }
    }
}

/// The interface, which is in a private namespace.
const TUN: &str = "seq0";

/// Answers are not rate-limited, nothing is cached from one sequence to the next, and no timer is shorter
/// than 200 ms.
const SETTINGS: [(&str, &str); 11] = [
    ("tcp_invalid_ratelimit", "0"),
    ("tcp_challenge_ack_limit", "2147483647"),
    ("tcp_early_retrans", "0"),
    ("tcp_recovery", "0"),
    ("tcp_ecn", "0"),
    ("tcp_fastopen", "0"),
    ("tcp_rfc1337", "1"),
    ("tcp_max_tw_buckets", "1000000"),
    ("tcp_no_metrics_save", "1"),
    ("tcp_autocorking", "0"),
    ("tcp_wmem", "65536 1048576 4194304"),
];
