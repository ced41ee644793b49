//! The emulated path: one thread that carries packets between two TUN devices.
//!
//! It sleeps until shortly before the next packet is due and spins for the rest, because waking a halted
//! processor takes longer than the path's error may be. The report says how late packets came out.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::lane::{Fate, Lane, LaneCounts, LaneSpec, nanos};
use super::meter::{Meter, Seen};
use super::packet::Glance;
use super::record::Recording;
use super::tun::Tun;
use crate::sys;

/// A path that is being emulated.
#[derive(Debug)]
pub struct Emulator {
    epoch: Instant,
    /// When the measurement ends, and when the emulation does, in nanoseconds from the epoch.
    ends: Arc<[AtomicU64; 2]>,
    thread: JoinHandle<io::Result<PathReport>>,
}

/// Counts of the path.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct PathReport {
    /// The direction of the data, until the end of the measurement.
    pub there: LaneCounts,
    /// The direction of the acknowledgements.
    pub back: LaneCounts,
    /// Each sender, by the address and port that it sent from.
    pub senders: Vec<(String, Seen)>,
    /// How late packets came out, in nanoseconds: the median, the 99th percentile, the worst. Lateness counts
    /// from the time when the packet is due and the one before it is out: packets that are due at once and
    /// leave one after the other are not late.
    pub late_ns: [u64; 3],
    /// The mean time that the kernel took for a packet, in nanoseconds.
    pub write_ns: u64,
}

impl Emulator {
    /// Starts carrying packets from `near` to `far` as `there` says, and from `far` to `near` as `back` says.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(ends: [Tun; 2], lanes: [LaneSpec; 2], recording: Option<Recording>) -> io::Result<Self> {
        let epoch = Instant::now();
        let stops = Arc::new([AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)]);
        let rtt = lanes.iter().map(|lane| lane.delay).sum();
        let mut path = Emulation {
            ends,
            rtt,
            lanes: lanes.map(Lane::new),
            meters: Vec::new(),
            late: vec![0; LATE_BINS],
            late_max: 0,
            free_at: 0,
            writing: 0,
            recording,
            epoch,
        };
        let until = Arc::clone(&stops);
        let thread = thread::Builder::new().name("emulator".into()).spawn(move || path.run(&until))?;
        Ok(Self { epoch, ends: stops, thread })
    }

    /// Sets the end of the measurement; packets after it are carried, but not counted.
    pub fn measure_until(&self, end: Instant) {
        self.ends[0].store(nanos(end.saturating_duration_since(self.epoch)), Ordering::Relaxed);
    }

    /// Ends the emulation and reports what it saw.
    ///
    /// # Errors
    /// A device failed.
    ///
    /// # Panics
    /// The emulator did.
    pub fn finish(self) -> io::Result<PathReport> {
        self.ends[1].store(0, Ordering::Relaxed);
        self.thread.join().expect("the emulator does not panic")
    }
}

/// The state of the thread.
#[derive(Debug)]
struct Emulation {
    ends: [Tun; 2],
    lanes: [Lane; 2],
    /// Of both directions, without queueing at bottlenecks.
    rtt: Duration,
    meters: Vec<Meter>,
    /// The number of packets by lateness in microseconds.
    late: Vec<u64>,
    late_max: u64,
    /// When the last packet was out.
    free_at: u64,
    /// Nanoseconds spent writing packets.
    writing: u64,
    recording: Option<Recording>,
    epoch: Instant,
}

impl Emulation {
    fn run(&mut self, ends: &[AtomicU64; 2]) -> io::Result<PathReport> {
        sys::precise_timers()?;
        let mut report = None;
        loop {
            let end = ends[0].load(Ordering::Relaxed);
            let now = self.now();
            if now >= end && report.is_none() {
                report = Some(self.report(end));
            }
            if now >= ends[1].load(Ordering::Relaxed) {
                break;
            }
            let took_in = self.take_in(0)? | self.take_in(1)?;
            self.release(0)?;
            self.release(1)?;
            if !took_in {
                self.rest()?;
            }
        }
        let now = self.now();
        if let Some(recording) = &mut self.recording {
            recording.finish()?;
        }
        Ok(report.unwrap_or_else(|| self.report(now)))
    }

    /// Reads what is there at one end, but little enough that the other does not wait. Returns whether there
    /// was anything.
    fn take_in(&mut self, side: usize) -> io::Result<bool> {
        let Self { ends, lanes, rtt, meters, recording, epoch, .. } = self;
        for round in 0..READS {
            let now = nanos(epoch.elapsed());
            let took = ends[side].read(|packet| {
                let glance = Glance::at(packet);
                let is_data = glance.is_some_and(|glance| glance.payload > 0);
                // Data one way, pure acknowledgements the other; segments that open or close a connection are
                // never at risk.
                let at_risk =
                    glance.is_some_and(|glance| !glance.is_handshake_or_end) && is_data == (side == 0);
                if side == 0
                    && is_data
                    && let Some(glance) = &glance
                {
                    meter_of(meters, now, glance, *rtt).see(now, glance);
                }
                let fate = lanes[side].offer(now, packet, at_risk);
                if let Some(recording) = recording
                    && (side == 0 || fate != Fate::Delivered)
                {
                    recording.packet(now, side == 0, packet, fate);
                }
            })?;
            if !took {
                return Ok(round > 0);
            }
        }
        Ok(true)
    }

    /// Writes the packets whose time has come.
    fn release(&mut self, side: usize) -> io::Result<()> {
        for _ in 0..WRITES {
            let now = self.now();
            let Some((due, bytes)) = self.lanes[side].pop_due(now) else { return Ok(()) };
            let late = now - due.max(self.free_at);
            self.late_max = self.late_max.max(late);
            self.late[usize::try_from(late / 1000).unwrap_or(LATE_BINS).min(LATE_BINS - 1)] += 1;
            self.ends[1 - side].write(&bytes)?;
            self.free_at = self.now();
            self.writing += self.free_at - now;
            if side == 1
                && let Some(recording) = &mut self.recording
            {
                recording.packet(now, false, &bytes, Fate::Delivered);
            }
            self.lanes[side].reuse(bytes);
        }
        Ok(())
    }

    /// Waits until a packet arrives or is due.
    fn rest(&mut self) -> io::Result<()> {
        let next = self.lanes.iter().filter_map(Lane::next_release).min();
        let left = next.map_or(LOOK_UP, |next| Duration::from_nanos(next.saturating_sub(self.now())));
        if left <= SPIN {
            std::hint::spin_loop();
            return Ok(());
        }
        sys::wait_readable([self.ends[0].as_fd(), self.ends[1].as_fd()], (left - SPIN).min(LOOK_UP))
    }

    fn report(&self, end: u64) -> PathReport {
        let [there, back] = [self.lanes[0].counts(), self.lanes[1].counts()];
        let senders = self.meters.iter().map(|meter| (meter.from.to_string(), meter.clone().finish(end)));
        let late_ns = [self.late_percentile(50), self.late_percentile(99), self.late_max];
        let write_ns = self.writing / (there.delivered + back.delivered).max(1);
        PathReport { there, back, senders: senders.collect(), late_ns, write_ns }
    }

    fn late_percentile(&self, percent: u64) -> u64 {
        let total: u64 = self.late.iter().sum();
        let mut below = 0;
        for (micros, count) in self.late.iter().enumerate() {
            below += count;
            if below * 100 >= total * percent {
                return micros as u64 * 1000;
            }
        }
        0
    }

    fn now(&self) -> u64 {
        nanos(self.epoch.elapsed())
    }
}

fn meter_of<'a>(meters: &'a mut Vec<Meter>, now: u64, glance: &Glance, rtt: Duration) -> &'a mut Meter {
    let at = meters.iter().position(|meter| meter.from == glance.from).unwrap_or_else(|| {
        meters.push(Meter::new(now, glance, rtt));
        meters.len() - 1
    });
    &mut meters[at]
}

/// Packets, of up to 64 KB each, read at one end before the other has its turn.
const READS: usize = 2;
/// Packets written in one direction before the other has its turn.
const WRITES: usize = 256;
/// The longest that waking up takes.
const SPIN: Duration = Duration::from_micros(60);
/// How often the thread checks whether the emulation is to end.
const LOOK_UP: Duration = Duration::from_millis(5);
/// The highest lateness counted, in microseconds.
const LATE_BINS: usize = 10_000;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use ackclock_control::quantity::Share;
    use ackclock_tests::netns::{Namespace, in_namespaces};

    use super::*;

    const RTT: Duration = Duration::from_millis(10);
    const PINGS: usize = 50;

    fn end(namespace: &Namespace, own: &str, other: &str) -> Tun {
        let tun = namespace.run(async { Tun::open("path0") }).unwrap();
        namespace.ip(&format!("addr add {own} peer {other} dev path0"));
        namespace.ip("link set path0 up");
        tun
    }

    #[test]
    fn a_packet_takes_as_long_as_the_path_says() {
        in_namespaces(|[near, far]| {
            let ends = [end(&near, "10.1.0.1", "10.1.0.2"), end(&far, "10.1.0.2", "10.1.0.1")];
            let lane =
                LaneSpec { delay: RTT / 2, rate_bps: None, queue_bytes: 0, loss: Share::ZERO, seed: 1 };
            let path = Emulator::start(ends, [lane; 2], None).unwrap();
            let listener = far.run(async { TcpListener::bind("10.1.0.2:7") }).unwrap();
            let mut pinging = near.run(async { TcpStream::connect("10.1.0.2:7") }).unwrap();
            let (mut ponging, _) = listener.accept().unwrap();
            let mut byte = [0];
            let mut took = [(); PINGS].map(|()| {
                let began = Instant::now();
                pinging.write_all(&byte).unwrap();
                ponging.read_exact(&mut byte).unwrap();
                ponging.write_all(&byte).unwrap();
                pinging.read_exact(&mut byte).unwrap();
                began.elapsed()
            });
            took.sort();
            let report = path.finish().unwrap();
            assert!(report.there.delivered > PINGS as u64 && report.back.delivered > PINGS as u64);
            assert_eq!((report.there.lost, report.senders[0].1.data_bytes), (0, PINGS as u64));
            assert!(took[0] >= RTT, "{took:?}");
            // The best shows what the path adds, whatever else the machine does; the median shows that the
            // best is typical.
            assert!(took[0] < RTT + Duration::from_micros(300), "{took:?}");
            assert!(took[PINGS / 2] < RTT + Duration::from_millis(2), "{took:?}");
        });
    }
}
