//! Measures how many frames a second a packet socket and AF_XDP carry over a veth pair, and what one costs.
//! As root, in half a minute:
//!
//!     cargo run --release -p ackclock-tests --bin frames          # five rounds of a second for each cell
//!     cargo run --release -p ackclock-tests --bin frames -- 9     # nine
//!
//! In each round every device has its turn with every size and direction. A frame counts when it arrives. The
//! time of the processor is that of the thread which has the device; the kernel's work for a frame is part
//! of it as far as it is done in the thread's calls.

#![forbid(unsafe_code)]

use std::future::poll_fn;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ackclock_device::link::{HEADER_LEN, MacAddr};
use ackclock_device::{FrameDevice, PacketDevice, PacketOptions, ReceiveBatch, XdpDevice, XdpMode};
use ackclock_tests::netns::{Namespace, in_namespaces};
use ackclock_wire::TxPacket;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let rounds = std::env::args().nth(1).map_or(Ok(5), |rounds| rounds.parse::<usize>());
    let Ok(rounds) = rounds else {
        eprintln!("usage: frames [ROUNDS]");
        return ExitCode::from(2);
    };
    in_namespaces(|[near, far]: [Namespace; 2]| {
        near.cable("wire", &far, "peer");
        let mut cells: Vec<(Cell, Vec<Measured>)> = Cell::all().map(|cell| (cell, Vec::new())).collect();
        for _ in 0..rounds {
            for (cell, measured) in &mut cells {
                measured.push(if cell.sends {
                    send(&near, &far, *cell)
                } else {
                    receive(&near, &far, *cell)
                });
            }
        }
        println!("| | device | thousand frames a second | ns of the processor for each |\n|---|---|---|---|");
        for (cell, measured) in cells {
            let what = if cell.sends { "sent" } else { "received" };
            let rate = spread(measured.iter().map(|one| one.frames / one.wall / 1e3));
            let cost = spread(measured.iter().map(|one| one.cpu * 1e9 / one.frames));
            println!("| {what}, {} | {} | {rate} | {cost} |", cell.size(), cell.way.name());
        }
    });
    ExitCode::SUCCESS
}

/// One measurement.
#[derive(Clone, Copy)]
struct Cell {
    way: Way,
    sends: bool,
    /// Of the IP packet, in bytes.
    len: usize,
}

#[derive(Clone, Copy)]
enum Way {
    Packet,
    Xdp(XdpMode),
}

/// A count, and seconds.
struct Measured {
    frames: f64,
    wall: f64,
    cpu: f64,
}

impl Cell {
    fn all() -> impl Iterator<Item = Self> {
        let ways = [Way::Packet, Way::Xdp(XdpMode::Native), Way::Xdp(XdpMode::Generic)];
        [true, false].into_iter().flat_map(move |sends| {
            let sizes = [64 - HEADER_LEN, 1500].into_iter();
            sizes.flat_map(move |len| ways.into_iter().map(move |way| Self { way, sends, len }))
        })
    }

    fn size(self) -> &'static str {
        if self.len == 1500 { "1,500 bytes of IP" } else { "64 bytes of Ethernet" }
    }
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet socket",
            Self::Xdp(XdpMode::Native) => "AF_XDP in the driver",
            Self::Xdp(_) => "AF_XDP before the kernel",
        }
    }

    /// The device on `interface`, as the station [`STATION`].
    fn open(self, interface: &str) -> Box<dyn FrameDevice> {
        let options = PacketOptions { mac: Some(MacAddr::new(STATION)), ..PacketOptions::default() };
        match self {
            Self::Packet => Box::new(PacketDevice::open(interface, options).expect("the device opens").0),
            Self::Xdp(mode) => {
                let opened = XdpDevice::open_queues(interface, options, mode, 1);
                Box::new(opened.expect("the device opens").0.remove(0))
            }
        }
    }
}

/// The device sends as fast as it can. The kernel at the other end drops what is for another station.
fn send(near: &Namespace, far: &Namespace, cell: Cell) -> Measured {
    let before = arrived(far);
    let (wall, cpu) = near.run(async move {
        on_a_thread(move || async move {
            let mut device = cell.way.open("wire");
            let (began, cpu) = (Instant::now(), spent());
            while began.elapsed() < TURN {
                blast(&mut *device, cell.len).await;
            }
            (began.elapsed().as_secs_f64(), spent() - cpu)
        })
    });
    Measured { frames: arrived(far) - before, wall, cpu }
}

/// The other end sends as fast as it can, by AF_XDP, which sends faster than any of the devices receives.
fn receive(near: &Namespace, far: &Namespace, cell: Cell) -> Measured {
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&over);
    let blasting = far.handle().spawn(async move {
        on_a_thread(move || async move {
            let mut device = Way::Xdp(XdpMode::Generic).open("peer");
            while !stop.load(Ordering::Relaxed) {
                blast(&mut *device, cell.len).await;
            }
        });
    });
    let measured = near.run(async move {
        on_a_thread(move || async move {
            let mut device = cell.way.open("wire");
            let mut batch = ReceiveBatch::new(256, 1 << 20);
            let (mut frames, began, cpu) = (0usize, Instant::now(), spent());
            while began.elapsed() < TURN {
                batch.clear();
                let received = poll_fn(|cx| device.poll_receive(cx, &mut batch)).await;
                received.expect("the device works");
                frames += batch.iter().filter(|(frame, _)| frame.len() == HEADER_LEN + cell.len).count();
            }
            Measured { frames: frames as f64, wall: began.elapsed().as_secs_f64(), cpu: spent() - cpu }
        })
    });
    over.store(true, Ordering::Relaxed);
    far.run(async { blasting.await.expect("the other end sends") });
    measured
}

/// Sends some frames.
async fn blast(device: &mut dyn FrameDevice, len: usize) {
    let (mut header, mut packet) = ([0; HEADER_LEN], [0; 1500]);
    header[..6].copy_from_slice(&STATION);
    header[6..].copy_from_slice(&[2, 0, 0, 0, 0, 9, 8, 0]);
    packet[0] = 0x45;
    for _ in 0..64 {
        poll_fn(|cx| device.poll_send_ready(cx)).await.expect("the device works");
        device.send(&header, &TxPacket::complete(&packet[..len])).expect("the device works");
    }
    device.flush().expect("the device works");
}

/// Runs a future on a thread of its own, whose time is the future's.
fn on_a_thread<F: Future>(make: impl FnOnce() -> F + Send + 'static) -> F::Output
where
    F::Output: Send + 'static,
{
    let run = || Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(make());
    thread::spawn(run).join().expect("the thread ends")
}

/// Seconds of the processor that this thread has had.
fn spent() -> f64 {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with CONFIG_SCHED_INFO");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

/// Frames that have arrived at the other end.
fn arrived(far: &Namespace) -> f64 {
    let counts = far.run(async { std::fs::read_to_string("/proc/thread-self/net/dev") }).expect("counts");
    let line = counts.lines().find_map(|line| line.trim().strip_prefix("peer:")).expect("the other end");
    line.split_whitespace().nth(1).and_then(|frames| frames.parse().ok()).expect("a number")
}

/// The median, least and most.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    format!("{:.0} [{:.0}-{:.0}]", at(values.len() / 2), at(0), at(values.len().saturating_sub(1)))
}

/// The Ethernet address to which the frames go: at no end the interface's.
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 0x55];

const TURN: Duration = Duration::from_secs(1);
