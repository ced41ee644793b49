//! A recording as a device: it plays one side, and the stack is the other.
//!
//! Packets recorded on their way *to* the stack's addresses come in again. Packets recorded from them are
//! what the stack now sends itself; they serve to understand the answers. A stack chooses its own sequence
//! numbers, ports and timestamps, so the acknowledgement number, SACK blocks, echoed timestamp and
//! destination port of each incoming TCP packet are changed to fit (`connection`). Everything else is as
//! recorded, including faults.
//!
//! Packets come in the order of the file, each as long after the previous one as recorded, or later
//! ([`Pace::Recorded`], to the millisecond on tokio's clock, which a test may pause), and never before the
//! stack has sent what the packet acknowledges. If the stack does something else than the recorded one, the
//! device waits for [`ReplayConfig::patience`] and then fails with what is missing. It also fails that long
//! after the last packet: a recording has an end.
//!
//! No packet exceeds the window that the stack offers. One that would, because this stack's buffer is smaller
//! or its application slower, is set aside and comes in once the window has room. Later packets go on, as a
//! sender retransmits while it waits to send more. A coalesced packet is set aside as its segments, because a
//! window may open by one of them and no further before more has arrived.
//!
//! A stack that sends less at a time than the recorded one, because of other losses or another controller,
//! may wait for an acknowledgement that waits for the stack. The device then also fails and names the frame.

mod connection;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock_wire::{ChecksumState, RxMeta, TxPacket, gso};
use tokio::time::{Instant, Sleep};

use crate::deadline::after;
use crate::recording::{CaptureFileError, Recording};
use crate::{Capabilities, Counters, Device, ReceiveBatch};
use connection::{Connections, Role, Wait};

/// How a recording is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayConfig {
    /// The stack's addresses. Packets to these come in.
    pub addresses: Vec<IpAddr>,
    /// When packets come in.
    pub pace: Pace,
    /// The largest IP packet in bytes that the stack may send.
    pub mtu: usize,
    /// The time from the device's first poll to the first packet, unless that answers the stack. A listener
    /// must exist by then, because a recorded peer does not try again.
    pub lead: Duration,
    /// How long to wait for a stack that does not send what was recorded, and after the last packet.
    pub patience: Duration,
}

/// When the packets of a recording come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pace {
    /// With the recorded spacing.
    #[default]
    Recorded,
    /// As soon as the stack has sent what they answer.
    AtOnce,
}

/// A device that plays a recording.
pub struct Replay {
    recording: Recording,
    config: ReplayConfig,
    connections: Connections,
    /// Packets to play, as indices into the recording, with their roles.
    played: Vec<(usize, Role)>,
    next: usize,
    /// Packets before `next` that wait for the stack's window.
    aside: VecDeque<Aside>,
    /// Whether the stack has sent something since these were last checked.
    window_may_have_moved: bool,
    /// When the device was first polled.
    asked_at: Option<Instant>,
    /// When the last packet came in, and when it was recorded.
    last: Option<(Instant, u64)>,
    /// When the stack last sent something or a packet came in.
    active_at: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    receiver: Waker,
    counters: Counters,
    bytes: Vec<u8>,
}

/// A packet that waits for the stack's window: a recorded one, or a segment of it.
struct Aside {
    /// The recorded packet's index in `played`.
    position: usize,
    role: Role,
    bytes: Vec<u8>,
}

/// The next packet to come in.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// The next of `played`.
    Next,
    /// This one of those set aside, at once.
    Aside(usize),
}

impl ReplayConfig {
    /// The stack at `addresses`, recorded spacing, an MTU of 1500 bytes, 100 ms of lead, 5 s of patience.
    #[must_use]
    pub fn new(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self {
            addresses: addresses.into_iter().collect(),
            pace: Pace::default(),
            mtu: 1500,
            lead: Duration::from_millis(100),
            patience: Duration::from_secs(5),
        }
    }
}

impl Replay {
    /// Plays the pcap or pcapng file at `path`.
    ///
    /// # Errors
    /// See [`CaptureFileError`].
    pub fn open(path: impl AsRef<Path>, config: ReplayConfig) -> Result<Self, CaptureFileError> {
        Recording::open(path).map(|recording| Self::new(recording, config))
    }

    /// Plays a recording.
    #[must_use]
    pub fn new(recording: Recording, config: ReplayConfig) -> Self {
        let mut connections = Connections::default();
        let mut played = Vec::new();
        for (index, packet) in recording.packets().iter().enumerate() {
            if let Some(role) = connections.learn(recording.bytes(packet), &config.addresses) {
                played.push((index, role));
            }
        }
        played.retain(|(_, role)| connections.can_play(*role));
        Self {
            recording,
            config,
            connections,
            played,
            next: 0,
            aside: VecDeque::new(),
            window_may_have_moved: false,
            asked_at: None,
            last: None,
            active_at: None,
            timer: None,
            receiver: Waker::noop().clone(),
            counters: Counters::default(),
            bytes: Vec::new(),
        }
    }

    /// How many packets come in by the end.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.played.len()
    }

    /// The parts of the recording that are not played, one sentence each.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = self.recording.remarks();
        if self.connections.without_start() > 0 {
            remarks.push(format!(
                "{} connections are not played: the stack's SYN is not in the recording",
                self.connections.without_start()
            ));
        }
        if self.played.is_empty() {
            remarks.push(
                "no packet is to the stack's addresses: give those that one side of the recording has"
                    .to_owned(),
            );
        }
        remarks
    }

    /// The next packet that may come in and its time, or what it waits for.
    fn next_due(&mut self, now: Instant) -> Result<(Due, Instant), Wait> {
        if self.window_may_have_moved {
            let fits = |aside: &Aside| self.connections.beyond(aside.role) == 0;
            if let Some(place) = self.aside.iter().position(fits) {
                return Ok((Due::Aside(place), now));
            }
            self.window_may_have_moved = false;
        }
        let Some(&(index, role)) = self.played.get(self.next) else {
            let first = self.aside.front().map(|aside| self.connections.beyond(aside.role));
            return Err(first.map_or(Wait::End, Wait::Beyond));
        };
        self.connections.wait(role)?;
        let recorded = self.recording.packets()[index].time_ns;
        let due = match (self.config.pace, self.last) {
            (Pace::Recorded, Some((at, then))) => {
                after(at, Duration::from_nanos(recorded.saturating_sub(then)))
            }
            (Pace::AtOnce, Some(_)) => now,
            // The stack has sent what it answers. A peer that is slow to begin and fast from then on would
            // seem to acknowledge what has not arrived.
            (_, None) if matches!(role, Role::Segment { ack: Some(_), .. }) => now,
            (_, None) => after(self.asked_at.unwrap_or(now), self.config.lead),
        };
        Ok((Due::Next, due))
    }

    /// Plays a packet that is due. Returns `None` if the batch has no room, `Some(false)` if the packet was
    /// set aside.
    fn play(&mut self, (what, due): (Due, Instant), now: Instant, batch: &mut ReceiveBatch) -> Option<bool> {
        let Due::Aside(place) = what else { return self.play_next(due, now, batch) };
        let aside = &self.aside[place];
        self.bytes.clone_from(&aside.bytes);
        let role = aside.role;
        if !self.let_in(role, true, now, batch) {
            return None;
        }
        self.aside.remove(place);
        Some(true)
    }

    fn play_next(&mut self, due: Instant, now: Instant, batch: &mut ReceiveBatch) -> Option<bool> {
        let (index, role) = self.played[self.next];
        let packet = self.recording.packets()[index];
        let fits = self.connections.beyond(role) == 0;
        if fits {
            self.bytes.clear();
            self.bytes.extend_from_slice(self.recording.bytes(&packet));
            if !self.let_in(role, false, now, batch) {
                return None;
            }
        } else {
            self.set_aside(role, index);
        }
        // A late packet makes those after it neither late twice nor early, and the timer's rounding does not
        // accumulate.
        let at = if now.saturating_duration_since(due) <= TIMER_ROUNDS_UP { due } else { now };
        self.last = Some((at, packet.time_ns));
        self.next += 1;
        Some(fits)
    }

    /// Puts the packet in `bytes` into the batch. Returns whether it had room.
    fn let_in(&mut self, role: Role, was_aside: bool, now: Instant, batch: &mut ReceiveBatch) -> bool {
        let checksum = self.connections.translate(role, &mut self.bytes, was_aside);
        let meta = RxMeta { checksum, segment_size: segment_size(&self.bytes, self.config.mtu) };
        let has_room = batch.push(&self.bytes, meta);
        if has_room {
            self.active_at = Some(now);
            self.counters.received += 1;
        }
        has_room
    }

    /// Sets the next packet aside, cut into its segments on the wire.
    fn set_aside(&mut self, role: Role, index: usize) {
        let bytes = self.recording.bytes(&self.recording.packets()[index]);
        let meta = RxMeta {
            checksum: connection::checksum_of(bytes),
            segment_size: segment_size(bytes, self.config.mtu),
        };
        let (position, aside) = (self.next, &mut self.aside);
        gso::cut_contiguous(bytes, meta, |segment| {
            aside.push_back(Aside { position, role: role.of_part(segment), bytes: segment.to_vec() });
        });
        // The first of several may fit.
        self.window_may_have_moved = true;
    }

    /// Why nothing came for this long.
    fn failure(&self, wait: Wait) -> io::Error {
        let position = self.aside.front().filter(|_| matches!(wait, Wait::Beyond(_)));
        let first = self.played.get(position.map_or(self.next, |aside| aside.position));
        let frame = first.map(|(index, _)| self.recording.packets()[*index].frame);
        let waiting: BTreeSet<usize> = self.aside.iter().map(|aside| aside.position).collect();
        let (played, all) = (self.next - waiting.len(), self.played.len());
        let what = match (wait, frame) {
            (Wait::Unsent(bytes), Some(frame)) => format!(
                "frame {frame} of the recording acknowledges {bytes} bytes that the stack has not sent: \
                 {played} of {all} packets were played"
            ),
            (Wait::Unopened(peer), Some(frame)) => format!(
                "frame {frame} of the recording waits for the stack's handshake with {peer}: \
                 {played} of {all} packets were played"
            ),
            (Wait::Beyond(bytes), Some(frame)) => format!(
                "frame {frame} of the recording reaches {bytes} bytes beyond the stack's receive window, \
                 which does not open; read what has arrived: {played} of {all} packets were played"
            ),
            _ => format!("the recording has ended: all {all} packets were played"),
        };
        io::Error::new(io::ErrorKind::NetworkDown, what)
    }
}

impl Device for Replay {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ip(self.config.mtu)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.receiver.clone_from(cx.waker());
        let mut received = 0;
        self.asked_at.get_or_insert_with(Instant::now);
        loop {
            let now = Instant::now();
            let until = match self.next_due(now) {
                Ok((what, due)) if due <= now => {
                    let Some(came_in) = self.play((what, due), now, batch) else {
                        return Poll::Ready(Ok(received));
                    };
                    received += usize::from(came_in);
                    continue;
                }
                _ if received > 0 => return Poll::Ready(Ok(received)),
                Ok((_, due)) => due,
                Err(wait) => {
                    let until = after(*self.active_at.get_or_insert(now), self.config.patience);
                    if until <= now {
                        return Poll::Ready(Err(self.failure(wait)));
                    }
                    until
                }
            };
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if timer.deadline() != until {
                timer.as_mut().reset(until);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn poll_send_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        self.counters.sent += 1;
        self.connections.sent(packet);
        self.window_may_have_moved = !self.aside.is_empty();
        self.active_at = Some(Instant::now());
        self.receiver.wake_by_ref();
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("config", &self.config)
            .field("packets", &self.played.len())
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// Captures contain coalesced packets: anything above the MTU was several.
fn segment_size(packet: &[u8], mtu: usize) -> Option<NonZeroU16> {
    let headers = connection::headers_len(packet).filter(|_| packet.len() > mtu)?;
    NonZeroU16::new(u16::try_from(mtu.checked_sub(headers)?).ok()?)
}

/// Tokio's timers end at the next millisecond, and a busy machine adds part of another.
const TIMER_ROUNDS_UP: Duration = Duration::from_millis(2);

/// The checksum state of a changed packet: it was right, or unfinished, and would be again.
const CHANGED: ChecksumState = ChecksumState::Verified;

#[cfg(test)]
mod tests;
