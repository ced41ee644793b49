use std::time::Duration;

use ackclock_control::rate::DatagramRate;
use ackclock_control::rtt::{RtoConfig, RttEstimator, TickEstimator, presets};

use super::{ms, number, rows, words};

#[test]
fn rfc_6298_timeouts() {
    // Tests: RFC 9293 MUST-18
    // Tests: J1, A1
    let mut rtt = RttEstimator::new(&RtoConfig::RFC_6298);
    for row in rows(include_str!("rto_rfc6298.csv")) {
        rtt.on_sample(Duration::from_nanos(row[0].unsigned_abs()));
        let ours = [rtt.srtt(), rtt.rttvar(), rtt.rto()].map(|time| i64::try_from(time.as_nanos()).unwrap());
        for (ours, theirs) in ours.iter().zip(&row[1..]) {
            assert!((ours - theirs).abs() <= 2, "{ours:?} is not {row:?}");
        }
    }
}

#[test]
fn timeouts_of_1988_in_ticks() {
    // Tests: J1
    let mut estimator: Option<TickEstimator> = None;
    for row in rows(include_str!("rto_jacobson1988.csv")) {
        let ticks = u32::try_from(row[0]).unwrap();
        match &mut estimator {
            Some(estimator) => estimator.update(ticks),
            None => estimator = Some(TickEstimator::first(ticks)),
        }
        let ours = [2, 4].map(|k| i64::try_from(estimator.unwrap().rto_ticks(k)).unwrap());
        assert_eq!(ours, row[1..]);
    }
}

#[test]
fn every_row_of_tables_1_to_4_times_out_as_its_formula() {
    // Tests: A1
    let mut estimator: Option<(&str, RttEstimator)> = None;
    let mut seen = Vec::new();
    for row in words(include_str!("rto_presets.csv")) {
        if estimator.as_ref().is_none_or(|(name, _)| *name != row[0]) {
            estimator = Some((row[0], RttEstimator::new(&presets::find(row[0]).unwrap().config)));
            seen.push(row[0]);
        }
        let (_, rtt) = estimator.as_mut().unwrap();
        rtt.on_sample(Duration::from_micros(number(row[1])));
        let ours = u64::try_from(rtt.rto().as_micros()).unwrap();
        // Accumulated roundings below a nanosecond may cost a tick of a millisecond.
        assert!(ours.abs_diff(number(row[2])) <= 1000, "{ours} is not {row:?}");
    }
    let missing: Vec<_> =
        presets::names().filter(|name| name.starts_with("ap-") && !seen.contains(name)).collect();
    assert!(missing.is_empty(), "no vectors for {missing:?}");
}

#[test]
fn rfc_793_timeouts() {
    // Tests: J2
    let mut rtt = RttEstimator::new(&presets::find("rfc793").unwrap().config);
    for row in rows(include_str!("rto_rfc793.csv")) {
        rtt.on_sample(Duration::from_nanos(row[0].unsigned_abs()));
        for (ours, theirs) in [rtt.srtt(), rtt.rto()].iter().zip(&row[1..]) {
            assert!(ours.as_nanos().abs_diff(theirs.unsigned_abs().into()) <= 20, "{ours:?} is not {row:?}");
        }
    }
}

#[test]
fn smaller_factor_while_the_signed_variance_is_negative() {
    // Tests: B3
    let mut rtt = RttEstimator::new(&presets::find("bfa-1998").unwrap().config);
    for row in rows(include_str!("rto_bfa1998.csv")) {
        rtt.on_sample(ms(row[0]));
        assert_eq!(rtt.rto(), ms(row[1]), "{row:?}");
    }
}

#[test]
fn datagram_interval_of_footnote_13() {
    // Tests: J11
    let mut rate = DatagramRate::new(ms(100), ms(1000));
    for row in rows(include_str!("datagram_interval.csv")) {
        if row[0] == 1 {
            rate.on_loss()
        } else {
            rate.on_success()
        }
        assert!(rate.interval().as_nanos().abs_diff(row[1].unsigned_abs().into()) <= 1, "{row:?}");
    }
}
