//! Goal: a round-trip sample far from its neighbours is reported with what it set; a wide spread is not.

use ackclock_core::trace::Entry::RoundTrip;
use ackclock_sim::scenario::Reordering;
use ackclock_sim::units::Share;

use super::*;

/// These samples in milliseconds, ten milliseconds apart, each from an acknowledgement of a thousand bytes.
fn sampled(samples: &[u32]) -> TracedSource {
    let mut entries = vec![
        (at(0), Entry::Window { cause: WindowCause::Start, cwnd: 100_000, ssthresh: 50_000 }),
        (at(0), Entry::TimerSet { timer: Timer::Pacing, in_us: 1 }),
    ];
    for (number, millis) in (1..).zip(samples) {
        let now = at(10 * u64::from(number));
        entries.push((now, acked(1000 * number + 1)));
        entries.push((now, RoundTrip { sample_us: millis * 1000, rto_us: 200_000 + millis }));
        entries.push((now, Entry::Smoothed { srtt_us: 40_000 + millis, rttvar_us: 10 }));
    }
    traced("cubic", &[], &entries)
}

/// Forty samples of 40 ms, except one.
fn one_of(millis: u32) -> TracedSource {
    let mut samples = [40; 40];
    samples[25] = millis;
    sampled(&samples)
}

#[test]
fn far_sample_is_named_with_its_acknowledgement_and_what_it_set() {
    let far = account(&one_of(1)).round_trips.far;
    let expected = FarSample {
        at: at(260),
        ack: 26_001,
        sample: MS,
        usual: 40 * MS,
        srtt: Some(Duration::from_micros(40_001)),
        rto: Duration::from_micros(200_001),
        // 1.2 windows per smoothed round trip.
        rate: Some(SetRate::Pacing(2_999_925)),
    };
    assert_eq!(far, [expected]);
    let said = sentence(&one_of(1), "far from those around it");
    let begin = "1 of 40 round-trip samples lies far from those around it: 1.0 ms at 0.260000 s";
    assert!(said.starts_with(begin), "{said}");
    for part in [
        "before byte 26001",
        "40.0 ms was usual",
        "round trip of 40.0 ms, a timeout of 200.0 ms and a pacing rate of 24.00 Mbit/s",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(account(&one_of(1)).to_json()["far_round_trips"][0]["ack"], 26_001);
}

#[test]
fn far_begins_at_three_times() {
    for (millis, is_far) in [(13, true), (14, false), (100, false), (120, false), (121, true), (5000, true)] {
        assert_eq!(account(&one_of(millis)).round_trips.far.len(), usize::from(is_far), "{millis} ms");
    }
}

#[test]
fn few_samples_or_wide_ones_have_none_that_are_far() {
    let mut samples = [40; AROUND];
    samples[3] = 1;
    assert_eq!(account(&sampled(&samples)).round_trips.far.len(), 1);
    assert!(account(&sampled(&samples[..AROUND - 1])).round_trips.far.is_empty());
    // From 20 to 80 ms: the quartiles are 30 apart, so three times the median, or a third of it, is within
    // the fences.
    let mut wide: Vec<u32> = (0..60).map(|place| 20 + place * 17 % 60).collect();
    for millis in [15, 160] {
        wide[30] = millis;
        assert!(account(&sampled(&wide)).round_trips.far.is_empty(), "{millis} ms");
    }
    wide[30] = 400;
    assert_eq!(account(&sampled(&wide)).round_trips.far.len(), 1);
}

#[test]
fn round_trip_that_grows_with_a_queue_is_not_far() {
    let growing: Vec<u32> = (0..400).map(|place| 40 + place).collect();
    assert!(account(&sampled(&growing)).round_trips.far.is_empty());
}

#[test]
fn estimate_of_the_bandwidth_is_the_rate_of_a_controller_that_has_one() {
    let mut entries = vec![(at(0), Entry::Controller { name: 1, value: 1_250_000 })];
    for number in 1..=40 {
        let now = at(10 * u64::from(number));
        let sample_us = if number == 20 { 500_000 } else { 40_000 };
        entries.push((now, acked(1000 * number + 1)));
        entries.push((now, RoundTrip { sample_us, rto_us: 300_000 }));
    }
    let far = account(&traced("bbr", &["state", "bw"], &entries)).round_trips.far;
    assert_eq!(far.iter().map(|far| far.rate).collect::<Vec<_>>(), [Some(SetRate::Bandwidth(1_250_000))]);
}

#[test]
fn packets_that_lag_behind_are_found_in_a_transfer() {
    // A window of one segment: a late segment delays its own acknowledgement, and no other takes its place.
    let reorder = Reordering { share: Share::percent(1), by: Span::millis(150) };
    let slow = Direction { reorder: Some(reorder), ..path() };
    let peer = TcpSettings::default().fixed_window(1448);
    let lagging = |there: Direction| {
        let tcp = TcpSettings::default().traced();
        let source = transfer(400_000, tcp, peer.clone(), [there, path()]).remove(0);
        account(&source).round_trips.far
    };
    let far = lagging(slow);
    assert!((1..=12).contains(&far.len()), "{far:?}");
    for one in &far {
        assert!((180 * MS..=400 * MS).contains(&one.sample) && one.usual < 100 * MS, "{one:?}");
    }
    assert_eq!(lagging(path()), []);
}
