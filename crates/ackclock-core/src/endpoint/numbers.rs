//! Numbers that belong to a four-tuple: initial sequence numbers and timestamp offsets (RFC 6528; RFC 7323
//! §5.4 and §7.1), flow labels (RFC 6437 §3).

use ackclock_wire::SeqNum;

use super::keys::{Key, Purpose};
use crate::connection::FlowLabels;
use crate::{FourTuple, Instant};

/// Makes the numbers of four-tuples.
#[derive(Debug)]
pub(super) struct Numbers {
    isn: Key,
    timestamp_offset: Key,
    /// `None`: there are no flow labels.
    flow_labels: Option<Key>,
}

impl Numbers {
    pub fn new(secret: &[u8; 32], flow_labels: bool) -> Self {
        Self {
            isn: Key::derive(secret, Purpose::Isn),
            timestamp_offset: Key::derive(secret, Purpose::TimestampOffset),
            flow_labels: flow_labels.then(|| Key::derive(secret, Purpose::FlowLabels)),
        }
    }

    /// The initial sequence number of a connection that begins now.
    // RFC 9293 MUST-8: the clock M ticks every 4 µs.
    // RFC 9293 SHLD-1: ISN = M + F(localip, localport, remoteip, remoteport, secretkey).
    pub fn iss(&self, now: Instant, tuple: &FourTuple) -> SeqNum {
        let clock = low32(now.as_nanos() / ISN_TICK_NANOS);
        SeqNum::new(low32(self.isn.hash24_tuple(tuple, [0, 0])).wrapping_add(clock))
    }

    /// The offset of a connection's timestamp clock. It is the same for all connections of one four-tuple, so
    /// that timestamps continue from one to the next (RFC 6191), and unrelated for two four-tuples, so that a
    /// peer can neither learn the uptime nor count the hosts behind an address.
    pub fn timestamp_offset(&self, tuple: &FourTuple) -> u32 {
        low32(self.timestamp_offset.hash24_tuple(tuple, [0, 0]))
    }

    /// The flow labels of a four-tuple: the same for each connection with it, and for answers without a
    /// connection.
    pub fn flow_labels(&self, tuple: &FourTuple) -> FlowLabels {
        match &self.flow_labels {
            Some(key) if !tuple.local_addr.is_ipv4() => {
                FlowLabels::from_hash(key.hash24_tuple(tuple, [0, 0]))
            }
            _ => FlowLabels::NONE,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
fn low32(value: u64) -> u32 {
    value as u32
}

const ISN_TICK_NANOS: u64 = 4_000;

ackclock_form::form! {
    struct Numbers { isn, timestamp_offset, flow_labels }
}

#[cfg(test)]
mod tests {
    use ackclock_wire::FlowLabel;

    use super::*;

    fn tuple(n: u32) -> FourTuple {
        let [a, b, c, d] = n.to_be_bytes();
        let remote = std::net::SocketAddr::from(([10, a, b, c], 1024 + u16::from(d)));
        FourTuple::new("192.0.2.1:80".parse().unwrap(), remote)
    }

    /// Pearson's statistic of a byte's 256 values; its mean is 255 and its deviation 22.6.
    fn chi_square(bytes: impl Iterator<Item = u8>) -> f64 {
        let mut counts = [0_u32; 256];
        bytes.for_each(|byte| counts[usize::from(byte)] += 1);
        let expected = f64::from(counts.iter().sum::<u32>()) / 256.0;
        counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum()
    }

    // Tests: RFC 9293 MUST-8
    #[test]
    fn the_isn_of_one_name_advances_by_one_every_four_microseconds() {
        let numbers = Numbers::new(&[1; 32], false);
        let first = numbers.iss(Instant::from_micros(400), &tuple(1));
        assert_eq!(numbers.iss(Instant::from_micros(404), &tuple(1)), first + 1);
        let hours_5 = 5 * 3600 * 1_000_000;
        let later = numbers.iss(Instant::from_micros(400 + hours_5), &tuple(1));
        assert_eq!(u64::from(later.offset_from(first)), (hours_5 / 4) % (1 << 32));
    }

    // Tests: RFC 9293 SHLD-1, RFC 9293 MUST-9
    #[test]
    fn sec_a6_isns_of_different_names_look_independent() {
        const NAMES: u32 = 100_000;
        let numbers = Numbers::new(&[1; 32], false);
        let isns: Vec<u32> = (0..NAMES).map(|n| numbers.iss(Instant::ZERO, &tuple(n)).raw()).collect();
        for byte in 0..4 {
            let statistic = chi_square(isns.iter().map(|number| number.to_be_bytes()[byte]));
            // Six deviations: a fixed secret, so this cannot fail by chance once it has passed.
            assert!((119.0..391.0).contains(&statistic), "byte {byte}: {statistic}");
            let differences = isns.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).to_be_bytes()[byte]);
            let statistic = chi_square(differences);
            assert!((119.0..391.0).contains(&statistic), "difference, byte {byte}: {statistic}");
        }
    }

    #[test]
    fn sec_a6_a_restart_with_a_new_secret_changes_every_isn() {
        let (before, after) = (Numbers::new(&[1; 32], false), Numbers::new(&[2; 32], false));
        let same = (0..10_000)
            .filter(|&n| before.iss(Instant::ZERO, &tuple(n)) == after.iss(Instant::ZERO, &tuple(n)));
        assert_eq!(same.count(), 0);
    }

    #[test]
    fn sec_a8_timestamp_offsets_belong_to_the_name_ports_included() {
        let numbers = Numbers::new(&[1; 32], false);
        assert_eq!(numbers.timestamp_offset(&tuple(5)), numbers.timestamp_offset(&tuple(5)));
        let mut offsets: Vec<u32> = (0..1_000).map(|n| numbers.timestamp_offset(&tuple(n))).collect();
        let statistic = chi_square(offsets.iter().map(|offset| offset.to_be_bytes()[0]));
        assert!(statistic < 391.0, "{statistic}");
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), 1_000);
        assert_ne!(numbers.timestamp_offset(&tuple(5)), numbers.iss(Instant::ZERO, &tuple(5)).raw());
    }

    fn label(wanted: bool, local: &str, remote: &str) -> FlowLabel {
        let tuple = FourTuple::new(local.parse().unwrap(), remote.parse().unwrap());
        Numbers::new(&[1; 32], wanted).flow_labels(&tuple).current()
    }

    #[test]
    fn each_four_tuple_of_ipv6_has_a_label_that_stays() {
        let first = label(true, "[fd00::1]:80", "[fd00::2]:4000");
        assert_ne!(first, FlowLabel::NONE);
        assert_eq!(label(true, "[fd00::1]:80", "[fd00::2]:4000"), first);
        assert_ne!(label(true, "[fd00::1]:80", "[fd00::2]:4001"), first);
        assert_eq!(label(false, "[fd00::1]:80", "[fd00::2]:4000"), FlowLabel::NONE);
        assert_eq!(label(true, "10.0.0.1:80", "10.0.0.2:4000"), FlowLabel::NONE);
    }
}
