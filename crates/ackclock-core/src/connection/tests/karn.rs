//! Karn's rule (RFC 6298 §3, RFC 9293 MUST-18): what was sent more than once gives no round trip, whatever
//! the reason to send it again. RFC 7323 §4: with timestamps, the echo shows which transmission was answered.

use std::collections::BTreeSet;

use ackclock_wire::{Codepoint, Fields, Flags, SackBlocks, TcpOptions};

use super::lone::{Lone, SECOND, handshake, tuple};
use super::walks::settings;
use super::*;
use crate::connection::{Handshake, Offer};
use crate::profile::Recovery;
use crate::walks::Walk;

/// A segment with text: its range, counted from the first byte, when it left, and its timestamp.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u32,
    end: u32,
    at: Instant,
    stamp: u32,
}

/// The peer's answer.
#[derive(Clone, Debug)]
struct Answer {
    ack: u32,
    blocks: Vec<(u32, u32)>,
    /// The segment whose timestamp it echoes.
    echoed: Sent,
}

/// A receiver that acknowledges each segment, with the timestamp that RFC 7323 §4.3 says.
struct Receiver {
    next: u32,
    held: BTreeSet<u32>,
    recent: Option<Sent>,
}

impl Receiver {
    fn take(&mut self, sent: Sent) -> Answer {
        // RFC 7323 §5.3 R2: what is unacceptable sets nothing.
        let acceptable = sent.end > self.next;
        if acceptable
            && sent.start <= self.next
            && self.recent.is_none_or(|recent| recent.stamp <= sent.stamp)
        {
            self.recent = Some(sent);
        }
        let (next, mut blocks) = (self.next, Vec::new());
        if sent.end <= next {
            blocks.push((sent.start, sent.end));
        }
        self.held.extend(sent.start.max(next)..sent.end);
        while self.held.remove(&self.next) {
            self.next += 1;
        }
        let mut held = self.held.iter().copied().peekable();
        while let Some(start) = held.next() {
            let mut end = start + 1;
            while held.next_if_eq(&end).is_some() {
                end += 1;
            }
            blocks.push((start, end));
        }
        blocks.truncate(3);
        Answer { ack: self.next, blocks, echoed: self.recent.unwrap_or(sent) }
    }
}

struct LoneTransfer {
    lone: Lone,
    first: SeqNum,
    peer: Receiver,
    timestamps: bool,
    sack: bool,
    sent: Vec<Sent>,
    /// The segments on their way, to the peer or back.
    there: Vec<(Instant, Sent)>,
    back: Vec<(Instant, Answer)>,
    acked: u32,
    sacked: BTreeSet<u32>,
    samples: u32,
    /// Samples of answers that were predicted.
    predicted: u32,
}

impl LoneTransfer {
    fn new(walk: &mut Walk) -> Self {
        let mut tcp = TcpConfig {
            keepalive: None,
            user_timeout: None,
            mtu_probing: None,
            trace: None,
            ..settings(walk)
        };
        tcp.send_buffer_max = 1 << 20;
        tcp.mss_max = Some(216);
        let (timestamps, sack) = (walk.one_in(2), walk.one_in(2));
        let agreed = Handshake { timestamps: timestamps.then_some(1), sack, ..handshake() };
        let mut lone = Lone::agreed(tcp, agreed);
        lone.limits = walk.pick(&[software(0), software(2000)]);
        let first = lone.end.snd.flight().una().seq();
        let peer = Receiver { next: 0, held: BTreeSet::new(), recent: None };
        let (sent, there, back, sacked) = (Vec::new(), Vec::new(), Vec::new(), BTreeSet::new());
        Self {
            lone,
            first,
            peer,
            timestamps,
            sack,
            sent,
            there,
            back,
            acked: 0,
            sacked,
            samples: 0,
            predicted: 0,
        }
    }

    /// All that may leave does, and takes its time on the path.
    fn transmit(&mut self, walk: &mut Walk) {
        let mut header = [0; HEADER_MAX];
        let (now, limits) = (self.lone.now, self.lone.limits);
        while let Some(out) = self.lone.end.poll_transmit(now, limits, true, &mut header) {
            let at = usize::from(out.transport_offset);
            let from = SeqNum::new(u32::from_be_bytes(header[at + 4..at + 8].try_into().unwrap()));
            let options = TcpOptions::parse(&header[at + 20..out.header_len]).unwrap_or_default();
            let stamp = options.timestamps.map_or(0, |(value, _)| value);
            let size = out.segment_size.map_or(out.payload_len.max(1), |size| size.get().into());
            for piece in (0..out.payload_len).step_by(size) {
                let start = from.offset_from(self.first) + piece as u32;
                let end = start + size.min(out.payload_len - piece) as u32;
                let sent = Sent { start, end, at: now, stamp };
                self.sent.push(sent);
                if !walk.one_in(8) {
                    self.there.push((now + delay(walk), sent));
                }
                if walk.one_in(20) {
                    self.there.push((now + delay(walk), sent));
                }
            }
        }
    }

    /// The next thing happens.
    fn step(&mut self, walk: &mut Walk) {
        let next = |queue: &[Instant]| queue.iter().copied().min().unwrap_or(Instant::FAR_FUTURE);
        let there = next(&self.there.iter().map(|&(at, _)| at).collect::<Vec<_>>());
        let back = next(&self.back.iter().map(|&(at, _)| at).collect::<Vec<_>>());
        let timer = self.lone.end.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        let write = self.lone.now + Duration::from_millis(300);
        let now = there.min(back).min(timer).min(write).max(self.lone.now);
        self.lone.now = now;
        if there <= now {
            let place = self.there.iter().position(|&(at, _)| at == there).unwrap();
            let answer = self.peer.take(self.there.remove(place).1);
            if !walk.one_in(8) {
                self.back.push((now + delay(walk), answer));
            }
        } else if back <= now {
            let place = self.back.iter().position(|(at, _)| *at == back).unwrap();
            let (_, answer) = self.back.remove(place);
            self.hear(&answer);
        } else if timer <= now {
            self.lone.end.handle_timeout(now);
        } else {
            let _ = self.lone.end.write(now, &vec![1; walk.pick(&[1, 300, 2000])]);
        }
        self.transmit(walk);
    }

    fn hear(&mut self, answer: &Answer) {
        let mut options = TcpOptions::default();
        if self.timestamps {
            options.timestamps = Some((1, answer.echoed.stamp));
        }
        let mut blocks = SackBlocks::default();
        if self.sack {
            answer.blocks.iter().for_each(|&(start, end)| blocks.push(self.first + start, self.first + end));
        }
        options.sack = blocks;
        let fields = Fields { options, ..self.lone.ack(self.first + answer.ack, 65_535) };
        // No two samples are equal, by the nanosecond.
        let before = self.lone.end.snd.flight().rtt().latest();
        let is_predicted = self.lone.give_packet(&fields);
        // The other policies take no notice of blocks.
        let heeds = matches!(self.lone.end.snd.flight().recovery(), Recovery::Sack | Recovery::RackTlp);
        let covered: BTreeSet<u32> = (self.acked..answer.ack)
            .chain(answer.blocks.iter().filter(|_| heeds).flat_map(|&(start, end)| start..end))
            .filter(|at| *at >= self.acked && !self.sacked.contains(at))
            .collect();
        let sample = self.lone.end.snd.flight().rtt().latest();
        if sample != before {
            self.samples += 1;
            self.predicted += u32::from(is_predicted);
            self.judge(sample, &covered, answer);
        }
        self.acked = self.acked.max(answer.ack);
        self.sacked.extend(covered);
    }

    /// A sample was taken from what `answer` was the first to acknowledge.
    fn judge(&self, sample: Duration, covered: &BTreeSet<u32>, answer: &Answer) {
        let now = self.lone.now;
        let story = || format!("a sample of {sample:?} from {answer:?} at {now:?}");
        let times = |at: u32| self.sent.iter().filter(move |sent| sent.start <= at && at < sent.end);
        let repeated = covered.iter().any(|&at| times(at).count() > 1);
        if !self.timestamps {
            assert!(!repeated, "{}", story());
            return;
        }
        // The answer is to what bore the stamp, whose clock ticks once a millisecond, or to the newest of
        // what the acknowledgement covers.
        let newest = covered.iter().flat_map(|&at| times(at)).map(|sent| sent.at).max().expect("something");
        let ages = [newest, answer.echoed.at].map(|at| now.saturating_since(at));
        let (least, most) = (ages[0].min(ages[1]), ages[0].max(ages[1]) + Duration::from_millis(1));
        assert!((least..=most).contains(&sample), "{least:?}..={most:?}, not {}", story());
    }
}

fn delay(walk: &mut Walk) -> Duration {
    // Nanoseconds, so that no two samples are equal.
    Duration::from_nanos(
        walk.pick(&[10_000_000, 10_000_000, 15_000_000, 400_000_000]) + walk.below(1_000_000),
    )
}

// Tests: RFC 9293 MUST-18
#[test]
fn sender_takes_no_round_trip_of_what_it_sent_twice() {
    let (mut samples, mut predicted, mut repeated) = (0, 0, 0);
    for seed in 0..400 {
        let mut walk = Walk::new(seed);
        let mut transfer = LoneTransfer::new(&mut walk);
        let _ = transfer.lone.end.write(transfer.lone.now, &[1; 3000]);
        transfer.transmit(&mut walk);
        for _ in 0..150 {
            transfer.step(&mut walk);
        }
        samples += transfer.samples;
        predicted += transfer.predicted;
        repeated += transfer.lone.end.info(transfer.lone.now).retransmits;
    }
    assert!(samples > 5000 && repeated > 5000, "{samples} samples, {repeated} sent again");
    assert!(predicted > 500, "{predicted} samples of predicted answers");
}

/// The SYN of a client whose timer has expired is answered: which of the two, nothing shows.
#[test]
fn syn_that_was_sent_twice_gives_no_round_trip() {
    for lost in [0, 1] {
        let mut lone = Lone::opening(TcpConfig::default());
        for _ in 0..lost {
            lone.expire();
            assert_eq!(lone.sizes(), [0]);
        }
        lone.now += Duration::from_millis(20);
        let flags = Flags::SYN | Flags::ACK;
        let ack = lone.end.snd.flight().nxt().seq();
        let fields = Fields { seq: SeqNum::new(1000), ack, flags, window: 1000, ..Fields::default() };
        lone.give(&fields, Codepoint::NotEct, &[]);
        assert_eq!(lone.end.state(), State::Established);
        assert_eq!(lone.end.snd.flight().rtt().has_sample(), lost == 0, "{lost} lost");
    }
}

/// A Fast Open server's SYN,ACK that its timer or the client's SYN draws again gives no round trip either.
#[test]
fn syn_ack_that_was_sent_twice_gives_no_round_trip() {
    type Again = fn(&mut Lone);
    let again: [(&str, Again, bool); 3] = [
        ("once", |_| {}, true),
        ("its timer", Lone::expire, false),
        (
            "the client's SYN",
            |lone| {
                let syn =
                    Fields { seq: SeqNum::new(1000), flags: Flags::SYN, window: 9, ..Fields::default() };
                lone.now += SECOND / 10;
                lone.give(&syn, Codepoint::NotEct, &[]);
            },
            false,
        ),
    ];
    for (reason, again, sampled) in again {
        let now = Instant::from_millis(100_000);
        let (tcp, env) = (TcpConfig::default(), environment(5000));
        let opening = (None, Offer::None);
        let end =
            Connection::passive_with_data(now, tuple(), tcp.into(), &env, handshake(), opening, b"text");
        let mut lone = Lone { end, now, limits: software(1500) };
        let iss = lone.end.snd.iss().seq();
        assert_eq!(lone.flags(), [Flags::SYN | Flags::ACK]);
        again(&mut lone);
        let repeated: &[Flags] = if sampled { &[] } else { &[Flags::SYN.union(Flags::ACK)] };
        assert_eq!(lone.flags(), repeated, "{reason}");
        lone.now += Duration::from_millis(20);
        lone.give(&lone.ack(iss + 1, 1000), Codepoint::NotEct, &[]);
        assert_eq!(lone.end.state(), State::Established, "{reason}");
        assert_eq!(lone.end.snd.flight().rtt().has_sample(), sampled, "{reason}");
    }
}
