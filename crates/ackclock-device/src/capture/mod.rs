//! A device whose packets are written to a file for Wireshark and tcpdump.
//!
//! The file is pcapng with nanosecond times, link type RAW and the direction of each packet. Packets appear
//! as they cross the device: with offload up to 64 KB long, and with checksums that the kernel has not
//! finished. The device's task writes through a buffer. A write error (a full disk) ends the capture, never
//! the transfer. If the reader of a pipe is too slow, the capture lacks packets and counts them.

use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ackclock_wire::pcapng::{self, Direction, LinkType, Record};
use ackclock_wire::{Egress, Route, TxPacket};

use crate::outlet::Outlet;
use crate::{Capabilities, Counters, Device, ReceiveBatch};

/// A captured device.
#[derive(Debug)]
pub struct Captured<D> {
    device: D,
    capture: Capture,
}

/// A handle on a running capture.
#[derive(Clone, Debug)]
pub struct Capture(Arc<Mutex<Writer>>);

/// The state of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CaptureReport {
    /// Packets captured so far, without lost ones.
    pub packets: u64,
    /// Packets that are missing, because the reader of a pipe was too slow.
    pub lost: u64,
    /// Bytes in the file and its buffer.
    pub bytes: u64,
    /// Why the capture ended early.
    pub stopped: Option<String>,
}

impl<D: Device> Captured<D> {
    /// Captures `device`, called `name` in the file, to the file at `path`. An existing file is overwritten.
    ///
    /// # Errors
    /// The file cannot be created or its header cannot be written.
    ///
    /// ```no_run
    /// # use ackclock_device::{Device, capture::Captured, memory};
    /// let (a, _b) = memory::pair(memory::Config::default());
    /// let device = Captured::create(a, "memory0", "transfer.pcapng")?;
    /// let capture = device.handle();
    /// // .. and at the end:
    /// if let Some(why) = capture.report().stopped {
    ///     eprintln!("the capture is incomplete: {why}");
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn create(device: D, name: &str, path: impl AsRef<Path>) -> io::Result<Self> {
        Self::to_file(device, name, File::create(path)?)
    }

    /// Captures `device`, called `name` in the file, to an open file.
    ///
    /// # Errors
    /// The file's header cannot be written.
    pub fn to_file(device: D, name: &str, file: File) -> io::Result<Self> {
        let mut writer = Writer::new(Outlet::new(file)?);
        pcapng::section_header(&mut writer.buffer);
        pcapng::interface(&mut writer.buffer, name, LinkType::Raw, SNAP_LEN);
        writer.flush()?;
        Ok(Self { device, capture: Capture(Arc::new(Mutex::new(writer))) })
    }

    /// A handle on the capture.
    #[must_use]
    pub fn handle(&self) -> Capture {
        self.capture.clone()
    }
}

impl<D: Device> Device for Captured<D> {
    fn capabilities(&self) -> Capabilities {
        let inner = self.device.capabilities();
        if inner.tx_checksum {
            return inner;
        }
        // The device would cut larger packets itself, and the file would not show what crosses it.
        Capabilities { gso_max_v4: inner.mtu, gso_max_v6: inner.mtu, ..inner }
    }

    fn routes(&self) -> Vec<Route<Egress>> {
        self.device.routes()
    }

    fn generation(&self) -> u64 {
        self.device.generation()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let before = batch.len();
        let received = self.device.poll_receive(cx, batch);
        let mut writer = self.capture.writer();
        if received.is_pending() {
            writer.flush_if_old();
        } else {
            batch.iter().skip(before).for_each(|(bytes, _)| writer.write(Direction::Received, &[bytes]));
        }
        received
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.device.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        let [first, second] = packet.payload;
        self.capture.writer().write(Direction::Sent, &[packet.header, first, second]);
        self.device.send(packet)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.device.flush()
    }

    fn counters(&self) -> Counters {
        self.device.counters()
    }

    fn reached(&mut self, addr: IpAddr) {
        self.device.reached(addr);
    }

    fn listen_to(&mut self, groups: &[IpAddr]) {
        self.device.listen_to(groups);
    }

    fn link_up(&self) -> bool {
        self.device.link_up()
    }

    fn leads_to_kernel(&self) -> bool {
        self.device.leads_to_kernel()
    }
}

impl<D> Drop for Captured<D> {
    fn drop(&mut self) {
        self.capture.writer().flush_or_stop();
    }
}

impl Capture {
    /// The state of the capture.
    #[must_use]
    pub fn report(&self) -> CaptureReport {
        self.writer().report.clone()
    }

    /// Writes the buffer to the file, and waits at most a second for the reader of a pipe. The device also
    /// writes the buffer within a second while packets come, and when it is dropped. The report has any
    /// failure.
    pub fn flush(&self) {
        let mut writer = self.writer();
        writer.flush_or_stop();
        let backlog = writer.file.backlog();
        drop(writer);
        if let Err(error) = backlog.settle(FLUSH_INTERVAL) {
            self.writer().stop(&error);
        }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // At worst, a panic leaves an unfinished last block.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Complete blocks on their way to the file.
#[derive(Debug)]
struct Writer {
    file: Outlet,
    buffer: Vec<u8>,
    /// The packets in it.
    buffered: u64,
    flushed_at: Instant,
    clock: Clock,
    /// Bytes in the file, all in complete blocks.
    written: u64,
    report: CaptureReport,
}

impl Writer {
    fn new(file: Outlet) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            buffered: 0,
            flushed_at: Instant::now(),
            clock: Clock::new(),
            written: 0,
            report: CaptureReport::default(),
        }
    }

    fn write(&mut self, direction: Direction, parts: &[&[u8]]) {
        if self.report.stopped.is_some() {
            return;
        }
        let len = parts.iter().map(|part| part.len()).sum();
        let record =
            Record { interface: 0, time_ns: self.clock.time_ns(), direction, parts, len, comment: "" };
        pcapng::packet(&mut self.buffer, &record, SNAP_LEN);
        self.buffered += 1;
        self.report.packets += 1;
        self.report.bytes = self.written + self.buffer.len() as u64;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush_or_stop();
        }
    }

    fn flush_if_old(&mut self) {
        if !self.buffer.is_empty() && self.flushed_at.elapsed() >= FLUSH_INTERVAL {
            self.flush_or_stop();
        }
    }

    fn flush_or_stop(&mut self) {
        if self.report.stopped.is_some() {
            return;
        }
        match self.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // A reader of a pipe that goes on reading later finds whole blocks.
                let lost = std::mem::take(&mut self.buffered);
                self.report.lost += lost;
                self.report.packets = self.report.packets.saturating_sub(lost);
                self.buffer.clear();
                self.report.bytes = self.written;
                self.flushed_at = Instant::now();
            }
            Err(error) => self.stop(&error),
            Ok(()) => {}
        }
    }

    /// Nothing more is written.
    fn stop(&mut self, why: &io::Error) {
        if self.report.stopped.is_some() {
            return;
        }
        let written = self.written.saturating_sub(self.file.backlog().waiting() as u64);
        self.report.stopped = Some(format!("{why} after {written} bytes"));
        self.buffer = Vec::new();
        // Cut the file after the last complete block, so that it can be read. If that fails too, nothing more
        // can be done.
        let _ = self.file.set_len(self.written);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.report.bytes = self.written;
        self.buffer.clear();
        self.buffered = 0;
        self.flushed_at = Instant::now();
        Ok(())
    }
}

/// The time of day when a capture began, plus the time since then on tokio's clock. The clock of a paused
/// runtime is virtual, and setting the system's clock does not reorder packets.
#[derive(Debug)]
struct Clock {
    began: Duration,
    at: tokio::time::Instant,
}

impl Clock {
    fn new() -> Self {
        // A clock set before 1970 counts from there.
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began, at: tokio::time::Instant::now() }
    }

    /// Nanoseconds since 1970.
    fn time_ns(&self) -> u64 {
        u64::try_from((self.began + self.at.elapsed()).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The largest that tcpdump and Wireshark accept: every packet whole.
const SNAP_LEN: u32 = 262_144;

/// The buffer is written at this size.
const BUFFER_BYTES: usize = 256 * 1024;

/// The longest that a packet stays in the buffer while no others come.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
