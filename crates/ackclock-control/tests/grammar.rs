//! The grammar of every choice: words that are accepted, with what they are read as, and words that are
//! refused. `grammar.tsv` has a row for each; a `-` stands for a refusal.

use std::fmt::Debug;
use std::str::FromStr;
use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::bandwidth::{CsaConfig, SenderEstimatorKind};
use ackclock_control::congestion::{ControllerFactory, IdlePolicy, Registry, Start};
use ackclock_control::names::nearest;
use ackclock_control::profile::{
    AckPolicy, CHOICES, Choice, Choices, Ecn, Overrides, Profile, Recovery, UndoChoice,
};
use ackclock_control::quantity::{Span, exact};
use ackclock_control::rtt::{Gain, RtoConfig, presets};

/// The rows of one choice: words, and what they are read as, if they are.
fn rows(of: &str) -> Vec<(&'static str, Option<&'static str>)> {
    let fields = include_str!("grammar.tsv").lines().skip(1).map(|line| {
        let [choice, words, read] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}: three fields")
        };
        (choice, words, (read != "-").then_some(read))
    });
    fields.filter(|(choice, ..)| *choice == of).map(|(_, words, read)| (words, read)).collect()
}

#[test]
fn every_choice_reads_its_words_and_refuses_others() {
    for choice in &CHOICES {
        let rows = rows(choice.key);
        assert!(rows.iter().any(|(_, read)| read.is_none()), "{}: a word is refused", choice.key);
        for (words, read) in rows {
            let mut chosen = Choices::default();
            match (choice.set(&mut chosen, words), read) {
                (Ok(()), Some(read)) => {
                    assert_eq!(choice.get(&chosen), read, "{} {words}", choice.key);
                    // The value is read back as it was written.
                    let mut again = Choices::default();
                    choice.set(&mut again, read).unwrap();
                    assert_eq!(choice.get(&again), read);
                    assert_eq!(chosen.for_simulations_only(), words == "backoff=off");
                }
                (Err(refused), None) => {
                    assert_eq!(choice.get(&chosen), choice.get(&Choices::default()), "nothing changes");
                    assert!(refused.to_string().len() > 10, "{refused}");
                }
                (found, _) => panic!("{} {words}: {found:?}, not {read:?}", choice.key),
            }
        }
        for named in choice.names() {
            assert!(!named.summary.is_empty());
            let mut chosen = Choices::default();
            // Others show where a parameter goes.
            if !named.name.contains(|letter: char| letter.is_ascii_uppercase()) {
                choice.set(&mut chosen, named.name).unwrap();
            }
        }
    }
    assert_eq!(Choice::find("ecn").unwrap().key, "ecn");
    assert!(Choice::find("sacks").unwrap_err().to_string().contains("`sacks`; there are recovery"));
}

#[test]
fn a_registry_reads_names_and_parameters() {
    let registry = Registry::with_experiments();
    let names: Vec<_> = registry.names().collect();
    assert!(names.is_sorted() && names.contains(&"reno") && names.len() > 15, "{names:?}");
    let start = Start { smss: 1000, initial_window: 10_000, now: Instant::ZERO };
    let describe = |factory: &dyn ControllerFactory| (factory.words(), factory.create(&start).name());
    for name in &names {
        let found = registry.find(name).unwrap();
        let (words, made) = describe(found.as_ref());
        assert_eq!(words, *name);
        assert!(name.starts_with(made) || made.starts_with(name), "{name} makes {made}");
    }
    for (words, read) in rows("controller") {
        match (registry.find(words), read) {
            (Ok(found), Some(read)) => {
                assert_eq!(describe(found.as_ref()).0, read, "{words}");
                assert_eq!(registry.find(read).unwrap().words(), read);
            }
            (Err(_), None) => {}
            (found, _) => panic!("{words}: {:?}, not {read:?}", found.map(|found| found.words())),
        }
    }
    let mut mine = Registry::default();
    assert!(mine.register(registry.find("reno").unwrap()).is_err(), "it has one of this name");
    mine.register(registry.find("none-1987").unwrap()).unwrap();
    assert!(mine.names().any(|name| name == "none-1987"));
}

/// Every way in which a name is read to a type.
fn read_alike<T, E>(name: &str, find: impl Fn(&str) -> Result<T, E>) -> bool
where
    T: FromStr<Err = E> + for<'a> TryFrom<&'a str, Error = E> + for<'a> TryFrom<&'a String, Error = E>,
    T: PartialEq + Debug,
    E: PartialEq + Debug,
{
    let found = find(name);
    assert_eq!(name.parse::<T>(), found);
    assert_eq!(T::try_from(name), found);
    assert_eq!(T::try_from(&name.to_owned()), found);
    found.is_ok()
}

#[test]
fn types_are_read_alike_however_they_are_asked() {
    assert!(Profile::all().all(|profile| read_alike(profile.name, Profile::find)));
    assert!(Recovery::ALL.iter().all(|(name, it)| read_alike(name, Recovery::find) && it.name() == *name));
    assert!(
        IdlePolicy::ALL.iter().all(|(name, it)| read_alike(name, IdlePolicy::find) && it.name() == *name)
    );
    assert!(Ecn::ALL.iter().all(|(name, it)| read_alike(name, Ecn::find) && it.name() == *name));
    for (words, read) in rows("undo") {
        assert_eq!(read_alike(words, UndoChoice::find), read.is_some());
    }
    for (words, read) in rows("acks") {
        assert_eq!(read_alike(words, AckPolicy::find), read.is_some());
    }
    for (words, read) in rows("rto") {
        // A timer without backoff is for simulations, and not for a type's own grammar.
        assert_eq!(
            read_alike(words, RtoConfig::find),
            read.is_some() && !words.contains("backoff"),
            "{words}"
        );
    }
    for (words, read) in rows("start-up").into_iter().filter(|(words, _)| *words != "off") {
        assert_eq!(read_alike(words, SenderEstimatorKind::find), read.is_some(), "{words}");
    }
    for preset in presets::all() {
        let found = presets::find(preset.name).unwrap().config;
        // One that equals an earlier one has its name.
        let name = found.preset_name().unwrap();
        assert_eq!(presets::find(name).unwrap().config, found);
    }
    let refused = Ecn::find("?").unwrap_err();
    assert_eq!((&*refused.given, refused.valid.contains("RFC 3168")), ("?", true));
}

#[test]
fn bounds_belong_to_the_ranges() {
    for (n, nu, is_possible) in [
        (1, 1, false),
        (2, 1, true),
        (2, 0, false),
        (100, 10_000, true),
        (100, 10_001, false),
        (101, 1, false),
    ] {
        assert_eq!(CsaConfig::new(n, nu).map(|config| config.n()).ok(), is_possible.then_some(u32::from(n)));
    }
    let gains = [Gain::ZERO, Gain::ONE, Gain::one_in(0), Gain::one_in(2), Gain::one_in(8)];
    assert_eq!(gains.map(Gain::divisor), [0, 1, 0, 2, 8]);
    assert_eq!(gains.map(Gain::as_f64), [0.0, 1.0, 0.0, 0.5, 0.125]);
}

#[test]
fn overrides_lie_one_over_the_other() {
    let mut low = Overrides::default();
    assert!(low.is_empty());
    low.set("sack", "off").unwrap();
    assert!(low.set("sack", "x").is_err() && low.set("x", "on").is_err());
    let mut high = Overrides::default();
    high.set_unchecked("ecn", "accurate");
    high.set_unchecked("sack", "on");
    let both = high.over(&low);
    assert_eq!(both.iter().collect::<Vec<_>>(), [("ecn", "accurate"), ("sack", "on")]);
    assert_eq!((both.get("sack"), both.get("x"), both.is_empty()), (Some("on"), None, false));
    assert_eq!(low.over(&high).get("sack"), Some("off"));
    let mut made = Choices::default();
    both.apply(&mut made).unwrap();
    assert_eq!((made.ecn, made.sack), (Ecn::Accurate, true));
    let mut wrong = Overrides::default();
    wrong.set_unchecked("ecn", "x");
    assert!(wrong.apply(&mut made).is_err());
    made.choose("ecn", "classic").unwrap();
    assert_eq!(made.ecn, Ecn::Classic);
}

/// RFC 9293 MUST-40: an acknowledgement waits less than 0.5 s. A tick's deadlines are those of a clock.
#[test]
fn acknowledgements_wait_for_a_time_or_for_a_tick() {
    let ms = Duration::from_millis;
    for (policy, is_possible) in [
        (AckPolicy::EVERY_SECOND, true),
        (AckPolicy::BSD_4_3, true),
        (AckPolicy::EverySecondSegment { delay_max: ms(501) }, false),
        (AckPolicy::EverySecondByTick { tick: ms(200) }, true),
        (AckPolicy::EverySecondByTick { tick: Duration::ZERO }, true),
        (AckPolicy::WindowShare { percent: 0, delay_max: ms(1) }, false),
        (AckPolicy::WindowShare { percent: 100, delay_max: ms(500) }, true),
    ] {
        assert_eq!(policy.check().is_ok(), is_possible, "{policy}");
        let delay = policy.delay_max();
        for nanos in [0, 1, 199_999_999, 200_000_000, 200_000_001] {
            let expected = match policy {
                AckPolicy::EverySecondByTick { .. } | AckPolicy::WindowShare { .. } => {
                    let tick = (delay.as_nanos() as u64).max(1);
                    (nanos / tick + 1) * tick
                }
                _ => nanos + delay.as_nanos() as u64,
            };
            assert_eq!(policy.deadline(Instant::from_nanos(nanos), 0).as_nanos(), expected, "{policy}");
        }
    }
}

#[test]
fn clocks_of_acknowledgements_have_phases() {
    let at = |nanos, phase| AckPolicy::BSD_4_3.deadline(Instant::from_nanos(nanos), phase).as_nanos();
    assert_eq!(
        [0, 149_999_999, 150_000_000].map(|nanos| at(nanos, 50_000_000)),
        [150_000_000, 150_000_000, 350_000_000]
    );
}

#[test]
fn numbers_are_read_exactly_or_not_at_all() {
    let max = u64::MAX;
    for (text, units) in [
        ("0", [Some(0); 4]),
        ("1", [Some(1), Some(1000), Some(1_000_000_000), Some(max)]),
        ("0.5", [None, Some(500), Some(500_000_000), None]),
        ("1.50", [None, Some(1500), Some(1_500_000_000), None]),
        ("01", [Some(1), Some(1000), Some(1_000_000_000), Some(max)]),
        ("1.", [Some(1), Some(1000), Some(1_000_000_000), Some(max)]),
        ("1.000000000000000000", [Some(1), Some(1000), Some(1_000_000_000), Some(max)]),
        ("0.123456789", [None, None, Some(123_456_789), None]),
        ("18446744073709551615", [Some(max), None, None, None]),
    ] {
        assert_eq!([1, 1000, 1_000_000_000, max].map(|unit| exact(text, unit)), units, "{text}");
    }
    for text in
        ["1.0000000000000000001", "18446744073709551616", ".5", "1..5", "-1", "1e3", "", "1.5x", "x1.5"]
    {
        assert_eq!([1, 1000, 1_000_000_000].map(|unit| exact(text, unit)), [None; 3], "{text}");
    }
    assert_eq!(exact("0.000000000000000001", 1_000_000_000), None);
    for (nanos, shown) in [
        (0, "0ns"),
        (999, "999ns"),
        (1000, "1us"),
        (1001, "1001ns"),
        (1_500_000, "1500us"),
        (1_000_000_000, "1s"),
        (1_500_000_000, "1500ms"),
        (60_000_000_000, "60s"),
    ] {
        assert_eq!(Span(nanos).to_string(), shown);
    }
}

#[test]
fn times_stop_at_the_ends_of_their_range() {
    let all = [0, 1, 2, 1_500_000, 999_999, 1_000_000, FAR];
    for at in all {
        let instant = Instant::from_nanos(at);
        assert_eq!((instant.as_nanos(), instant.as_millis()), (at, at / 1_000_000));
        for other in all {
            let since = at.saturating_sub(other);
            assert_eq!(instant.nanos_since(Instant::from_nanos(other)), since);
            assert_eq!(instant.saturating_since(Instant::from_nanos(other)), Duration::from_nanos(since));
            assert_eq!(instant.plus_nanos(other).as_nanos(), at.saturating_add(other).min(FAR));
            assert_eq!((instant - Duration::from_nanos(other)).as_nanos(), since);
        }
    }
    assert_eq!(Instant::from_micros(7).as_nanos(), 7000);
    assert_eq!(Instant::from_millis(7).as_nanos(), 7_000_000);
    assert_eq!(Instant::default(), Instant::ZERO);
    assert_eq!(Instant::from_micros(u64::MAX).as_nanos(), FAR);
}

/// The last instant that can come.
const FAR: u64 = u64::MAX - 1;

#[test]
fn a_slip_of_the_pen_finds_the_name_that_was_meant() {
    let names = ["reno", "newreno", "cubic", "vegas", "vegas-star"];
    for (given, meant) in [
        ("ren", "reno"),
        ("nwreno", "newreno"),
        ("cubi", "cubic"),
        ("vegas-sta", "vegas-star"),
        ("vegaz", "vegas"),
        ("qubic", "cubic"),
        ("erno", "reno"),
    ] {
        assert_eq!(nearest(given, names), Some(meant));
    }
}

#[cfg(feature = "serde")]
#[test]
fn snapshot_is_serialised_as_a_map() {
    let snapshot = ackclock_control::congestion::Snapshot::default().with("alpha", -3).with("beta", 7);
    assert_eq!(serde_json::to_string(&snapshot).unwrap(), r#"{"alpha":-3,"beta":7}"#);
}
