//! The system calls of AF_XDP: the rings of a socket, by the crate `xdp`, and the program that sends frames
//! to them, by bpf(2).
//!
//! Source: Linux `Documentation/networking/af_xdp.rst`, `include/uapi/linux/bpf.h`, bpf(2), `net/xdp/xsk.c`.

use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use ackclock_link::HEADER_LEN;
use ackclock_wire::TxPacket;
use libc::{c_int, c_long};
use tokio::io::unix::AsyncFd;
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{CompletionRing, FillRing, RingConfigBuilder, RxRing, TxRing, Umem};

use super::check;

/// A refusal of the kernel.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub(crate) struct Refused {
    /// The request, in a few words.
    pub what: &'static str,
    /// The system's answer.
    pub source: io::Error,
}

/// A socket on one queue of an interface, with its rings and the memory of their frames.
pub(crate) struct Rings {
    /// First, so that the kernel lets go of the memory before it is unmapped.
    socket: AsyncFd<XdpSocket>,
    fill: FillRing,
    receive: RxRing,
    transmit: TxRing,
    completion: CompletionRing,
    umem: Umem,
    /// Frames that arrived and were not taken yet.
    arrived: HeapSlab,
    /// Frames that the kernel does not have for arrivals, though it could.
    unfilled: usize,
    /// Frames that wait for room in the transmit ring.
    leaving: HeapSlab,
    /// Frames that the kernel has for sending.
    sending: usize,
}

// SAFETY: only the pointers into `umem` are not `Send` by themselves, and `umem` moves with them.
unsafe impl Send for Rings {}

impl Rings {
    /// A socket on `queue` of the interface of this number, registered with the calling task's runtime.
    pub(crate) fn open(interface: c_int, queue: u32) -> Result<Self, Refused> {
        let config = UmemCfgBuilder {
            frame_size: FrameSize::FourK,
            frame_count: RECEIVED_MAX + SENT_MAX,
            ..UmemCfgBuilder::default()
        };
        let rings = RingConfigBuilder {
            rx_count: RECEIVED_MAX,
            fill_count: RECEIVED_MAX,
            tx_count: SENT_MAX,
            completion_count: SENT_MAX,
        };
        let constant = |_| Refused { what: "AF_XDP", source: io::ErrorKind::InvalidInput.into() };
        let (config, rings) = (config.build().map_err(constant)?, rings.build().map_err(constant)?);
        let mut umem = Umem::map(config).map_err(|source| Refused { what: "memory for AF_XDP", source })?;
        let mut builder = XdpSocketBuilder::new().map_err(refused)?;
        let (made, flags) = builder.build_rings(&umem, rings).map_err(refused)?;
        // Both were asked for.
        let (Some(receive), Some(transmit)) = (made.rx_ring, made.tx_ring) else {
            return Err(Refused { what: "AF_XDP", source: io::ErrorKind::InvalidInput.into() });
        };
        let mut fill = made.fill_ring;
        // SAFETY: the memory outlives the socket, which is dropped first.
        unsafe { fill.enqueue(&mut umem, RECEIVED_MAX as usize) };
        let interface = NicIndex::new(interface.cast_unsigned());
        let socket = builder.bind(interface, queue, flags).map_err(refused)?;
        // SAFETY: `socket` is open during the call.
        let borrowed = unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) };
        // In copy mode, what waits in the interface's own queue counts as the socket's.
        super::packet::set_buffers(borrowed, BUFFER_BYTES)
            .map_err(|source| Refused { what: "the send buffer of AF_XDP", source })?;
        // SAFETY: `XdpSocket` owns its descriptor, always returns the same one, and only the `AsyncFd`
        // drops it.
        let socket = unsafe { AsyncFd::register(socket) }
            .map_err(|error| Refused { what: "waiting for AF_XDP", source: error.into() })?;
        Ok(Self {
            socket,
            fill,
            receive,
            transmit,
            completion: made.completion_ring,
            umem,
            arrived: HeapSlab::with_capacity(BATCH),
            unfilled: 0,
            leaving: HeapSlab::with_capacity(BATCH),
            sending: 0,
        })
    }

    /// The socket, to wait for.
    pub(crate) fn socket(&self) -> &AsyncFd<XdpSocket> {
        &self.socket
    }

    /// Whether a frame has arrived.
    pub(crate) fn has_frame(&mut self) -> bool {
        if self.arrived.is_empty() {
            self.refill();
            // SAFETY: what is taken stays in `arrived`, beside the memory in which it lies.
            unsafe { self.receive.recv(&self.umem, &mut self.arrived) };
        }
        !self.arrived.is_empty()
    }

    /// Takes the next frame.
    pub(crate) fn take(&mut self, use_frame: impl FnOnce(&[u8])) {
        let Some(frame) = self.arrived.pop_back() else { return };
        use_frame(&frame);
        self.umem.free_packet(frame);
        self.unfilled += 1;
    }

    /// Gives the kernel frames again for what is to arrive.
    fn refill(&mut self) {
        if self.unfilled > 0 {
            // SAFETY: the memory outlives the socket, which is dropped first.
            self.unfilled -= unsafe { self.fill.enqueue(&mut self.umem, self.unfilled) };
        }
    }

    /// Puts a frame, of at most [`FRAME_MAX`] bytes, into the transmit ring. Returns `false` if it has no
    /// room.
    pub(crate) fn put(&mut self, header: &[u8; HEADER_LEN], packet: &TxPacket<'_>) -> bool {
        if self.leaving.available() == 0 {
            self.submit();
        }
        if !self.has_room() || self.leaving.available() == 0 {
            return false;
        }
        // SAFETY: the frame stays in `leaving` and the rings, beside the memory in which it lies.
        let Some(mut frame) = (unsafe { self.umem.alloc() }) else { return false };
        let parts = [&header[..], packet.header, packet.payload[0], packet.payload[1]];
        if parts.iter().any(|part| frame.append(part).is_err()) {
            self.umem.free_packet(frame);
            return false;
        }
        self.leaving.push_front(frame);
        self.sending += 1;
        true
    }

    /// Whether [`put`](Self::put) has room for a frame.
    pub(crate) fn has_room(&mut self) -> bool {
        if self.sending >= SENT_MAX as usize {
            self.sending -= self.completion.dequeue(&mut self.umem, self.sending);
        }
        self.sending < SENT_MAX as usize
    }

    fn submit(&mut self) {
        // SAFETY: the memory outlives the socket, which is dropped first.
        unsafe { self.transmit.send(&mut self.leaving) };
    }

    /// Makes the kernel send what is in the transmit ring: in copy mode 32 frames a call, with `EAGAIN` if
    /// more are there, or if the interface takes none now.
    pub(crate) fn kick(&mut self) -> io::Result<()> {
        self.submit();
        let fd = self.socket.get_ref().as_raw_fd();
        // SAFETY: sendto(2) reads no memory of this process if it gets none.
        let sent = unsafe { libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Frames that the kernel has dropped because they were not taken in time, or are too long.
    pub(crate) fn dropped(&self) -> u64 {
        self.socket.get_ref().statistics().map_or(0, |counts| counts.rx_dropped + counts.rx_ring_full)
    }
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rings").field("sending", &self.sending).finish_non_exhaustive()
    }
}

/// Frames that may have arrived, and that may be on their way out, in each queue: powers of two. With frames
/// of 4 KiB they take 12 MiB.
pub(crate) const RECEIVED_MAX: u32 = 2048;
pub(crate) const SENT_MAX: u32 = 1024;

/// The longest frame: the kernel keeps `XDP_PACKET_HEADROOM` of 4 KiB.
pub(crate) const FRAME_MAX: usize = 4096 - 256;

/// The size of all frames that may be on their way out, with the bytes that the kernel adds to each.
const BUFFER_BYTES: c_int = SENT_MAX as c_int * 8192; // 8 MiB

/// Frames that are taken from a ring, or put into one, at once.
const BATCH: usize = 64;

fn refused(error: SocketError) -> Refused {
    match error {
        SocketError::SocketCreation(source) => Refused { what: "a socket of AF_XDP", source },
        SocketError::Bind(source) => Refused { what: "binding AF_XDP to the queue", source },
        SocketError::SetSockOpt { inner, .. } | SocketError::GetSockOpt { inner, .. } => {
            Refused { what: "memory and rings of AF_XDP", source: inner }
        }
        SocketError::RingMap { inner, .. } => Refused { what: "mapping a ring of AF_XDP", source: inner },
    }
}

/// The program on an interface, which ends with this value, and so with the process: frames to one Ethernet
/// address go to the socket of their queue, and all others to the kernel.
#[derive(Debug)]
pub(crate) struct Redirect {
    _link: OwnedFd,
    _sockets: OwnedFd,
}

impl Redirect {
    /// Loads the program and attaches it to the interface of this number: in its driver, or before the
    /// kernel's own handling of a frame.
    pub(crate) fn attach(
        interface: c_int,
        mac: [u8; 6],
        sockets: &[Rings],
        native: bool,
    ) -> Result<Self, Refused> {
        let map = bpf(
            BPF_MAP_CREATE,
            &MapCreate {
                map_type: BPF_MAP_TYPE_XSKMAP,
                key_size: 4,
                value_size: 4,
                max_entries: sockets.len() as u32, // at most 256
                flags: 0,
            },
        )
        .map_err(|source| Refused { what: "a map for sockets of AF_XDP", source })?;
        for (queue, rings) in (0u32..).zip(sockets) {
            let socket = rings.socket.get_ref().as_raw_fd();
            update(&map, queue, socket).map_err(|source| Refused { what: "adding to the map", source })?;
        }
        let program = load(&redirect(map.as_raw_fd(), mac))
            .map_err(|source| Refused { what: "loading the program that redirects frames", source })?;
        let link = bpf(
            BPF_LINK_CREATE,
            &LinkCreate {
                program: program.as_raw_fd().cast_unsigned(),
                interface: interface.cast_unsigned(),
                attach_type: BPF_XDP,
                flags: if native { XDP_FLAGS_DRV_MODE } else { XDP_FLAGS_SKB_MODE },
            },
        )
        .map_err(|source| Refused { what: attaching(&source, native), source })?;
        Ok(Self { _link: link, _sockets: map })
    }
}

fn attaching(error: &io::Error, native: bool) -> &'static str {
    match (error.raw_os_error(), native) {
        (Some(libc::EBUSY), _) => "attaching the program, because the interface has another",
        (_, true) => "attaching the program to the driver",
        (_, false) => "attaching the program to the interface",
    }
}

/// The program, in instructions of the kernel's virtual machine. `r1` is the frame's `struct xdp_md`.
///
/// ```text
///     r2 = frame's first byte; r3 = its end
///     if r2 + 14 > r3: pass
///     if the destination is not `mac`: pass
///     return bpf_redirect_map(map, frame's queue, XDP_PASS)
/// pass:
///     return XDP_PASS
/// ```
///
/// A queue without a socket gives `XDP_PASS` too, so the kernel gets its frames, and a packet socket sees
/// them.
fn redirect(map: c_int, mac: [u8; 6]) -> [Instruction; 17] {
    let [a, b, c, d, e, f] = mac;
    let first = i32::from(u16::from_ne_bytes([a, b]));
    let rest = i32::from_ne_bytes([c, d, e, f]);
    let step = |code, to: u8, from: u8, offset, value| Instruction {
        code,
        registers: if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from },
        offset,
        value,
    };
    [
        step(LOAD_WORD, 2, 1, 0, 0),
        step(LOAD_WORD, 3, 1, 4, 0),
        step(MOVE, 4, 2, 0, 0),
        step(ADD_VALUE, 4, 0, 0, HEADER_LEN as i32), // 14
        step(JUMP_IF_GREATER, 4, 3, 10, 0),
        step(LOAD_HALF, 4, 2, 0, 0),
        step(JUMP_UNLESS_VALUE, 4, 0, 8, first),
        step(LOAD_WORD, 4, 2, 2, 0),
        step(JUMP_UNLESS_VALUE, 4, 0, 6, rest),
        step(LOAD_WORD, 2, 1, 16, 0), // rx_queue_index
        step(LOAD_MAP, 1, BPF_PSEUDO_MAP_FD, 0, map),
        step(0, 0, 0, 0, 0), // the second half of the one before
        step(MOVE_VALUE, 3, 0, 0, XDP_PASS),
        step(CALL, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        step(EXIT, 0, 0, 0, 0),
        step(MOVE_VALUE, 0, 0, 0, XDP_PASS),
        step(EXIT, 0, 0, 0, 0),
    ]
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let license = c"MIT";
    bpf(
        BPF_PROG_LOAD,
        &ProgramLoad {
            kind: BPF_PROG_TYPE_XDP,
            count: program.len() as u32, // 17
            instructions: program.as_ptr().addr() as u64,
            license: license.as_ptr().addr() as u64,
        },
    )
}

fn update(map: &OwnedFd, queue: u32, socket: c_int) -> io::Result<()> {
    let request = MapUpdate {
        map: map.as_raw_fd().cast_unsigned(),
        padding: 0,
        key: (&raw const queue).addr() as u64,
        value: (&raw const socket).addr() as u64,
        flags: 0,
    };
    // SAFETY: as in `bpf`; the key and the value are live.
    check(unsafe { call(BPF_MAP_UPDATE_ELEM, &request) })
}

/// A call of bpf(2) that makes a descriptor.
fn bpf<T>(command: c_int, request: &T) -> io::Result<OwnedFd> {
    // SAFETY: each request is one of the structures below, whose pointers are those of live memory of the
    // length that stands beside them. The kernel takes bytes that a request lacks as zeros.
    let fd = unsafe { call(command, request) };
    check(fd)?;
    // SAFETY: the descriptor was just made, is valid and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
/// `request` is what bpf(2) takes for `command`.
unsafe fn call<T>(command: c_int, request: &T) -> c_int {
    let len = mem::size_of::<T>() as c_long; // some bytes
    // SAFETY: the caller's.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, c_long::from(command), std::ptr::from_ref(request), len) };
    result as c_int // a descriptor, or -1
}

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

// include/uapi/linux/bpf.h, include/uapi/linux/if_link.h
const BPF_MAP_CREATE: c_int = 0;
const BPF_MAP_UPDATE_ELEM: c_int = 2;
const BPF_PROG_LOAD: c_int = 5;
const BPF_LINK_CREATE: c_int = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_PSEUDO_MAP_FD: u8 = 1;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

// Documentation/bpf/standardization/instruction-set.rst
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const LOAD_MAP: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_VALUE: u8 = 0xb7;
const ADD_VALUE: u8 = 0x07;
const JUMP_IF_GREATER: u8 = 0x2d;
const JUMP_UNLESS_VALUE: u8 = 0x56;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
