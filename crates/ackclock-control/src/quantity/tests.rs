use std::collections::HashSet;
use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::time::Duration;

use ackclock_test_support::rng::Rng;
use proptest::prelude::*;

use super::units::{Kind, LIMITED_RATES, LIMITS, PACKETS, RATES, SHARES, SIZES, TIMES};
use super::{Bytes, Limit, Rate, Share, Span, UnitError, exact};

const KINDS: [(&str, Kind); 7] = [
    ("rates", RATES),
    ("limited rates", LIMITED_RATES),
    ("sizes", SIZES),
    ("times", TIMES),
    ("packets", PACKETS),
    ("limits", LIMITS),
    ("shares", SHARES),
];

fn same_again<T: FromStr<Err = UnitError> + Display + PartialEq + Debug>(value: &T) {
    assert_eq!(value.to_string().parse::<T>().as_ref(), Ok(value), "{value}");
}

/// Numbers that a unit divides, and others.
fn numbers() -> impl Strategy<Value = u64> {
    let scales = KINDS.map(|(_, kind)| kind.units().map(|unit| unit.scale).collect::<Vec<_>>()).concat();
    let scaled = (0..1000_u64, prop::sample::select(scales));
    prop_oneof![any::<u64>(), 0..10_000_u64, scaled.prop_map(|(number, scale)| number * scale)]
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(number in numbers()) {
        same_again(&Rate::bits_per_second(number));
        same_again(&Bytes(number));
        same_again(&Span(number));
        same_again(&Limit::Packets(number.max(1)));
        same_again(&Limit::Bytes(number.max(1)));
        let parts = u32::try_from(number % 1_000_000_001).unwrap();
        let share: Share = format!("{}.{:09}", parts / 1_000_000_000, parts % 1_000_000_000).parse().unwrap();
        prop_assert_eq!(share.parts_per_billion(), parts);
        same_again(&share);
    }

    #[test]
    fn decimal_numbers_are_read_exactly(whole in 0..1_000_000_u64, places in 0..9_u32, digits in any::<u64>()) {
        let scale = 10_u64.pow(places);
        let fraction = digits % scale;
        let text = if places == 0 { whole.to_string() } else {
            format!("{whole}.{fraction:0width$}", width = places as usize)
        };
        prop_assert_eq!(exact(&text, scale), Some(whole * scale + fraction));
        for (_, kind) in &KINDS {
            for unit in kind.units() {
                let product = u128::from(whole * scale + fraction) * u128::from(unit.scale);
                let value = product.is_multiple_of(u128::from(scale)).then(|| product / u128::from(scale));
                let read = kind.read(&format!("{text}{}", unit.names[0])).ok().map(u128::from);
                prop_assert_eq!(read, value.filter(|value| *value <= u128::from(u64::MAX)));
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,12}|[0-9.]{0,40} ?[a-zA-Zµ%/]{0,6}") {
        for (_, kind) in &KINDS {
            let _ = kind.read(&text);
        }
    }
}

#[test]
fn unlimited_reads_back_the_same() {
    same_again(&Rate::UNLIMITED);
    assert!(Rate::read_limited("unlimited").is_err());
    assert_eq!(Rate::read_limited("1Mbit/s"), Ok(Rate::mbit(1)));
}

#[test]
fn every_unit_is_read_at_its_scale() {
    for (what, kind) in &KINDS {
        let mut names = HashSet::new();
        for unit in kind.units() {
            for name in unit.names {
                assert_eq!(kind.read(&format!("3{name}")), Ok(3 * unit.scale), "{what} in {name}");
                assert_eq!(kind.read(&format!(" 0.5 {name} ")).ok(), exact("0.5", unit.scale));
                assert!(names.insert(name), "{what} have {name} twice");
            }
        }
        assert!(kind.written.is_sorted_by_key(|unit| unit.scale), "{what} are written from small to large");
    }
}

#[test]
fn errors_name_every_unit() {
    for (what, kind) in KINDS.iter().filter(|(what, _)| !["packets", "limits"].contains(what)) {
        for unit in kind.units() {
            assert!(kind.allowed.contains(unit.names[0]), "{what} in {}", unit.names[0]);
        }
    }
}

#[test]
fn units_that_errors_suggest_are_read() {
    fn suggested<T: FromStr<Err = UnitError> + Debug>() {
        let Err(UnitError::NoUnit { number, units }) = "20".parse::<T>() else { panic!("20 has no unit") };
        for unit in units {
            assert!(format!("{number}{unit}").parse::<T>().is_ok(), "{number}{unit}");
        }
    }
    suggested::<Rate>();
    suggested::<Bytes>();
    suggested::<Span>();
    suggested::<Limit>();
}

#[test]
fn letter_case_tells_only_bit_from_byte() {
    for text in ["1.5kib", "1.5KIB", "1.5k", "1536b"] {
        assert_eq!(text.parse(), Ok(Bytes(1536)), "{text}");
    }
    for text in ["2MS", "2ms", "2000\u{b5}s", "2000\u{3bc}s", "2000us"] {
        assert_eq!(text.parse(), Ok(Span::millis(2)), "{text}");
    }
    for (text, bits) in [
        ("10M", 10_000_000),
        ("10m", 10_000_000),
        ("10mbit", 10_000_000),
        ("10MBIT/S", 10_000_000),
        ("10Mbps", 10_000_000),
        ("10mb/s", 10_000_000),
        ("10MBps", 80_000_000),
        ("10MB/s", 80_000_000),
        ("10mB", 80_000_000),
        ("1.5G", 1_500_000_000),
        ("1GB/s", 8_000_000_000),
        ("300bit/s", 300),
    ] {
        assert_eq!(text.parse(), Ok(Rate::bits_per_second(bits)), "{text}");
    }
}

/// The list that tcpcat and scenario files are held to as well.
#[test]
fn listed_quantities_are_read_as_listed() {
    let mut kinds = HashSet::new();
    for line in include_str!("../../tests/quantities.tsv").lines().skip(1) {
        let [kind, text, value, refusal] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("four columns: {line}")
        };
        let read = match kind {
            "rate" => text.parse().map(Rate::bits),
            "size" => text.parse().map(|Bytes(bytes)| bytes),
            "time" => text.parse().map(|Span(nanos)| nanos),
            "limit" => text.parse().map(|(Limit::Packets(number) | Limit::Bytes(number))| number),
            "share" => text.parse().map(|share: Share| share.parts_per_billion().into()),
            _ => panic!("a kind: {line}"),
        };
        kinds.insert(kind);
        match read {
            Ok(number) => assert_eq!(number.to_string(), value, "{line}"),
            Err(error) => {
                assert!(error.to_string().contains(refusal) && !refusal.is_empty(), "{line}: {error}")
            }
        }
    }
    assert_eq!(kinds.len(), 5);
}

#[test]
fn each_reason_to_refuse_has_its_error() {
    let time = |text: &str| text.parse::<Span>().unwrap_err();
    assert!(matches!(time("20"), UnitError::NoUnit { number, units: ["ms", "s"] } if number == "20"));
    assert!(matches!(time("1 day"), UnitError::Unknown { .. }));
    assert!(matches!(time(""), UnitError::Unknown { .. }));
    assert!(matches!(time("0.5ns"), UnitError::NotWhole { .. }));
    assert!(matches!(time("0.0000000000000000001s"), UnitError::NotWhole { .. }));
    assert!(matches!(time("5200000h"), UnitError::OutOfRange { .. }));
    assert!(matches!("2Tbit/s".parse::<Rate>(), Err(UnitError::OutOfRange { .. })));
    assert!(matches!("0packets".parse::<Limit>(), Err(UnitError::OutOfRange { .. })));
    assert!(matches!("101%".parse::<Share>(), Err(UnitError::OutOfRange { .. })));
}

#[test]
fn nothing_needs_no_unit() {
    assert_eq!("0".parse(), Ok(Span(0)));
    assert_eq!(" 0.0 ".parse(), Ok(Bytes(0)));
    assert!(matches!("0".parse::<Rate>(), Err(UnitError::OutOfRange { .. })));
}

#[test]
fn durations_are_written_in_the_largest_unit_that_divides_them() {
    for (time, text) in [
        (Duration::ZERO, "0ns"),
        (Duration::from_millis(40), "40ms"),
        (Duration::from_micros(1500), "1500us"),
        (Duration::from_secs(64), "64s"),
        (Duration::from_nanos(1), "1ns"),
    ] {
        assert_eq!(Span::from(time).to_string(), text);
    }
}

#[test]
fn a_share_as_a_fraction_is_the_nearest_float() {
    for (text, fraction) in
        [("0", 0.0), ("1%", 0.01), ("0.3", 0.3), ("12.34567%", 0.123_456_7), ("100%", 1.0)]
    {
        assert_eq!(text.parse::<Share>().unwrap().fraction(), fraction, "{text}");
    }
}

/// Links that count in millionths keep what a seed loses.
#[test]
fn a_share_in_millionths_holds_for_the_draws_of_a_chance_in_a_million() {
    let mut draws = Rng::new(7);
    for _ in 0..100_000 {
        let parts = u32::try_from(draws.below(1_000_001)).unwrap();
        let mut same = draws;
        assert_eq!(Share::per_million(parts).holds(draws.next_u64()), same.chance(parts), "{parts}");
    }
    // The draws on both sides of the edge: floor(draw * 10^6 / 2^64) is 9,999, then 10,000.
    let edge = u64::try_from((10_000_u128 << 64).div_ceil(1_000_000)).unwrap();
    assert!(Share::percent(1).holds(edge - 1) && !Share::percent(1).holds(edge));
}

#[test]
fn a_share_holds_for_as_many_draws() {
    assert!(Share::ONE.holds(u64::MAX) && !Share::ZERO.holds(0));
    assert!(Share::percent(50).holds(u64::MAX / 2 - 1000) && !Share::percent(50).holds(u64::MAX / 2 + 1000));
}

#[test]
fn numbers_are_scaled_exactly() {
    assert_eq!(exact("0.2", 10_000), Some(2000));
    assert_eq!(exact("0.0125", 10_000), Some(125));
    assert_eq!(exact("1.50", 2), Some(3));
    assert_eq!(exact("0.00001", 10_000), None);
    for wrong in ["", ".5", "1..5", "1.5.", "-1", "+1", "1e3", "1 0", "99999999999999999999"] {
        assert_eq!(exact(wrong, 1_000_000), None, "{wrong}");
    }
}

#[cfg(feature = "serde")]
#[test]
fn bare_number_in_a_file_is_refused_as_it_was_written() {
    for number in ["7", "-7", "1.5"] {
        let refused = serde_json::from_str::<Span>(number).expect_err("it has no unit").to_string();
        let as_text = number.parse::<Span>().expect_err("nor has the text").to_string();
        assert!(refused.starts_with(&as_text) && as_text.contains(number), "{refused}");
    }
}
