//! The grammar of every choice: words that are accepted, with what they mean, and words that are refused,
//! with what the message says.

use std::fmt::{Debug, Display, Write as _};
use std::path::Path;
use std::time::Duration;

use ackclock_control::bandwidth::{CsaConfig, SenderEstimatorKind};
use ackclock_control::congestion::{ControllerFactory, IdlePolicy, Registry, Start};
use ackclock_control::names::nearest;
use ackclock_control::profile::{
    AckPolicy, CHOICES, Choice, Choices, Ecn, Overrides, Profile, Recovery, UndoChoice,
};
use ackclock_control::quantity::{Span, exact};
use ackclock_control::rtt::{Gain, RtoConfig, presets};
use ackclock_control::{Instant, InvalidParameter};
use ackclock_test_support::snapshot::{self, fingerprint};

struct Page(String);

impl Page {
    fn line(&mut self, name: &str, words: &str, answer: impl Display) {
        let answer = answer.to_string();
        // Long answers, which list all that is valid, keep their beginning and a fingerprint.
        let answer = match answer.char_indices().nth(ANSWER_MAX) {
            Some((end, _)) => format!("{}.. {:x}", &answer[..end], fingerprint(&answer)),
            None => answer,
        };
        writeln!(self.0, "{name} `{words}`: {answer}").unwrap();
    }

    fn parsed<T: Debug, E: Display>(&mut self, name: &str, words: &str, read: Result<T, E>) {
        match read {
            Ok(value) => self.line(name, words, format!("{value:?}")),
            Err(error) => self.line(name, words, format!("refused: {error}")),
        }
    }
}

const ANSWER_MAX: usize = 90;

/// Words for every parameter, unit and bound of timeout estimators.
const RTO: &[&str] = &[
    "rfc793",
    "min=0",
    "min=1ns",
    "min=7us",
    "min=7ms",
    "min=1s",
    "min=0.5s",
    "min=1.0000000001s",
    "min=5",
    "min=",
    "min=ms",
    "min=1 s",
    " min=1s , max=2s",
    "max=86400s",
    "max=86400.000000001s",
    "max=0",
    "max=199ms",
    "max=200ms",
    "initial=86400s",
    "initial=86401s",
    "initial=1ns",
    "initial=0",
    "g=4s",
    "g=4.000000001s",
    "g=0",
    "a1=0",
    "a1=1",
    "a1=1/1",
    "a1=1/2",
    "a1=1/65535",
    "a1=1/65536",
    "a1=1/0",
    "a1=2/3",
    "a1=2",
    "a1=0.5",
    "a1=",
    "a2=0",
    "a2=1",
    "a2=1/9",
    "a2=x",
    "a2=1/x",
    "heartbeat=on",
    "heartbeat=off",
    "heartbeat=yes",
    "backoff=off",
    "backoff=on",
    "backoff=1",
    "floor=term",
    "floor=deviation",
    "floor=x",
    "sampling=every",
    "sampling=flight",
    "sampling=x",
    "arithmetic=fine",
    "arithmetic=ticks",
    "arithmetic=ticks,g=1ns",
    "arithmetic=x",
    "k=0",
    "k=1",
    "k=255",
    "k=256",
    "k=x",
    "adapt=on",
    "adapt=off",
    "adapt=x",
    "k-falling=3",
    "beta=2",
    "rfc793,beta=0",
    "rfc793,beta=255",
    "rfc793,beta=256",
    "rfc793,k=1",
    "rfc793,adapt=on",
    "bfa-1998,k-falling=0",
    "bfa-1998,k-falling=9",
    "bfa-1998,k=0",
    "bfa-1998,k=9",
    "bfa-1998,adapt=on",
    "ap-static-500,k=4",
    "x=1",
    "=1",
    "rfc6298,",
    "rfc6298,rfc793",
    "none",
    "",
    "k=4,k=5",
    "max=1s,min=2s",
    "max=1s,min=1s",
];
const UNDO: &[&str] = &[
    "off",
    "all",
    "timestamps",
    "dsack",
    "frto",
    "min-rtt:1",
    "min-rtt:4",
    "min-rtt:0",
    "min-rtt:5",
    "min-rtt",
    "min-rtt:",
    "timestamps,dsack",
    "dsack, frto ,min-rtt:2",
    "timestamps:1",
    "dsack:1",
    "frto:1",
    "all,off",
    "",
    "timestamps,",
    "min-rtt:2,min-rtt:3",
];
const ACKS: &[&str] = &[
    "every-second",
    "every-second:0",
    "every-second:500ms",
    "every-second:500.000001ms",
    "every-second:40",
    "every-second:",
    "every-second-tick:200ms",
    "every-second-tick:501ms",
    "every-second-tick",
    "window-share",
    "window-share:1,1us",
    "window-share:100,500ms",
    "window-share:100%, 7ms",
    "window-share:0,1ms",
    "window-share:101,1ms",
    "window-share:256,1ms",
    "window-share:50,501ms",
    "window-share:50",
    "window-share:x,1ms",
    "window-share:1.5,1ms",
    "third",
    "",
];
const START_UP: &[&str] = &[
    "off",
    "tssf",
    "csa",
    "tcsa",
    "tcsa-prime",
    "packet-pair",
    "tssf:2",
    "tssf:100",
    "tssf:1",
    "tssf:101",
    "tssf:3,1",
    "tssf:",
    "csa:2",
    "csa:5,0.2",
    "csa:5, 0.0001",
    "csa:5,1",
    "csa:5,1.0001",
    "csa:5,0",
    "csa:5,0.00001",
    "csa:1,0.2",
    "csa:101",
    "csa:x",
    "csa:5,",
    "csa:5,x",
    "tcsa:4,0.1234",
    "tcsa:4,7",
    "tcsa-prime:7,0.5",
    "packet-pair:2",
    "csa:5,0.2,1",
    "pair",
    "",
];
const WINDOWS: &[&str] = &["0", "1", "65535", "65536", "-1", "+3", "x", ""];
const RECEIVER: &[&str] = &["off", "0", "1", "8", "256", "257", "65536", "x", ""];
const SWITCHES: &[&str] = &["on", "off", "true", "1", ""];
const CONTROLLERS: &[&str] = &[
    "vegas:alpha=1",
    "vegas:alpha=1000",
    "vegas:alpha=1001",
    "vegas:alpha=2,beta=2",
    "vegas:alpha=2,beta=3",
    "vegas:alpha=3,beta=2",
    "vegas:gamma=0",
    "vegas:gamma=1",
    "vegas:gamma=7",
    "vegas: beta = 9 ",
    "vegas:beta",
    "vegas:",
    "vegas-star:alpha=2,beta=2",
    "vegas-star:gamma=3,beta=4",
    "bfa:gain=0",
    "bfa:gain=1/4",
    "bfa:gain=1/2",
    "bfa:gain=3/4",
    "bfa:gain=1",
    "bfa:on=1ms",
    "bfa:on=0ms",
    "bfa:on=10000ms",
    "bfa:on=10001ms",
    "bfa:off=-1ms",
    "bfa:off=0ms",
    "bfa:off=-10000ms",
    "bfa:on=5",
    "bfa:tick=1ms",
    "bfa:tick=0ms",
    "bfa:tick=10000ms",
    "bfa:decreasing=yes",
    "bfa:decreasing=no",
    "bfa:decreasing=x",
    "bfa:thresholds=path",
    "bfa:thresholds=fixed",
    "bbr:loss=draft",
    "bbr:loss=certain",
    "bbr:loss=x",
    "reno:count=acks",
    "reno:count=bytes",
    "dual:count=bytes",
    "newreno:count=bytes",
    "newreno:count=acks",
    "tahoe:x=1",
    "none-1987:x=1",
    "nothing",
    "",
];

fn choices(page: &mut Page) {
    let given: [(&str, &[&str]); 13] = [
        ("recovery", &["rack", "", "RACK-TLP"]),
        ("rto", RTO),
        ("undo", UNDO),
        ("start-up", START_UP),
        ("idle", &["idle", ""]),
        ("pacing", SWITCHES),
        ("initial-window", WINDOWS),
        ("acks", ACKS),
        ("ecn", &["on", ""]),
        ("sack", SWITCHES),
        ("timestamps", SWITCHES),
        ("window-scaling", SWITCHES),
        ("receiver-bandwidth", RECEIVER),
    ];
    assert_eq!(
        CHOICES.each_ref().map(|choice| choice.key),
        given.map(|(key, _)| key),
        "a row for each choice"
    );
    for (key, words) in given {
        let choice = Choice::find(key).unwrap();
        let names = choice.names();
        page.line(
            key,
            choice.grammar,
            format!("{} names, {choice} {}", names.len(), choice.is_one_of_names()),
        );
        for named in &names {
            page.line(key, named.name, named.summary);
        }
        for words in names.iter().map(|named| named.name).chain(words.iter().copied()) {
            let mut chosen = Choices::default();
            let set = choice.set(&mut chosen, words).map(|()| choice.get(&chosen));
            page.parsed(key, words, set);
            page.line(key, words, format!("for simulations: {}", chosen.for_simulations_only()));
        }
    }
    page.parsed("choice", "sacks", Choice::find("sacks").map(|_| ()));
    let mut chosen = Choices::default();
    page.parsed("choice", "ecn", chosen.choose("ecn", "classic"));
    page.line("choice", "ecn", format!("{:?}", chosen.ecn));
}

fn overrides(page: &mut Page) {
    let mut low = Overrides::default();
    page.line("overrides", "none", format!("{} {low:?}", low.is_empty()));
    page.parsed("overrides", "sack off", low.set("sack", "off"));
    page.parsed("overrides", "sack x", low.set("sack", "x"));
    page.parsed("overrides", "x on", low.set("x", "on"));
    let mut high = Overrides::default();
    high.set_unchecked("ecn", "accurate");
    high.set_unchecked("sack", "on");
    let both = high.over(&low);
    page.line("overrides", "both", format!("{:?} {:?} {:?}", both, both.get("sack"), both.get("x")));
    page.line("overrides", "iter", format!("{:?} {}", both.iter().collect::<Vec<_>>(), both.is_empty()));
    let mut made = Choices::default();
    page.parsed("overrides", "both", both.apply(&mut made));
    page.line("overrides", "both", format!("{:?} {}", made.ecn, made.sack));
    let mut wrong = Overrides::default();
    wrong.set_unchecked("ecn", "x");
    page.parsed("overrides", "wrong", wrong.apply(&mut made));
}

/// Every way in which a name is read to a type.
fn types(page: &mut Page) {
    macro_rules! read {
        ($($type:ident: $words:expr;)*) => {$(
            for words in $words.into_iter().chain(["?"]) {
                let found = <$type>::find(words);
                page.parsed(stringify!($type), words, found.clone());
                assert_eq!(words.parse::<$type>(), found);
                assert_eq!(<$type>::try_from(words), found);
                assert_eq!(<$type>::try_from(&words.to_owned()), found);
            }
        )*};
    }
    read! {
        Profile: Profile::all().map(|profile| profile.name);
        Recovery: Recovery::ALL.map(|(name, _)| name);
        IdlePolicy: IdlePolicy::ALL.map(|(name, _)| name);
        Ecn: Ecn::ALL.map(|(name, _)| name);
        UndoChoice: UNDO.iter().copied();
        AckPolicy: ACKS.iter().copied();
        RtoConfig: RTO.iter().copied();
        SenderEstimatorKind: START_UP.iter().copied();
    }
    for (name, policy) in Recovery::ALL {
        page.line("recovery", name, format!("{} {}", policy.name(), policy.summary()));
    }
    for (name, policy) in IdlePolicy::ALL {
        page.line("idle", name, format!("{} {}", policy.name(), policy.summary()));
    }
    for (name, form) in Ecn::ALL {
        page.line("ecn", name, format!("{} {}", form.name(), form.summary()));
    }
    for (name, kind) in SenderEstimatorKind::ALL {
        page.line("estimator", name, format!("{} {} {kind}", kind.name(), kind.summary()));
    }
    for preset in presets::all() {
        let found = presets::find(preset.name).map(|found| found.config.preset_name());
        page.parsed("preset", preset.name, found);
    }
    for (n, nu) in [(1, 1), (2, 1), (2, 0), (100, 10_000), (100, 10_001), (101, 1)] {
        page.parsed("csa", &format!("{n} {nu}"), CsaConfig::new(n, nu).map(|config| config.n()));
    }
    let gains = [Gain::ZERO, Gain::ONE, Gain::one_in(0), Gain::one_in(2), Gain::one_in(8)];
    page.line("gains", "", format!("{gains:?} {:?} {:?}", gains.map(Gain::divisor), gains.map(Gain::as_f64)));
}

fn acknowledgements(page: &mut Page) {
    let ms = Duration::from_millis;
    let policies = [
        AckPolicy::EVERY_SECOND,
        AckPolicy::BSD_4_3,
        AckPolicy::EverySecondSegment { delay_max: ms(501) },
        AckPolicy::EverySecondByTick { tick: ms(200) },
        AckPolicy::EverySecondByTick { tick: Duration::ZERO },
        AckPolicy::WindowShare { percent: 0, delay_max: ms(1) },
        AckPolicy::WindowShare { percent: 100, delay_max: ms(500) },
    ];
    for policy in policies {
        let times = [0, 1, 199_999_999, 200_000_000, 200_000_001, u64::MAX].map(Instant::from_nanos);
        let deadlines = times.map(|now| policy.deadline(now).as_nanos());
        page.line("acks", &policy.to_string(), format!("{:?} {deadlines:?}", policy.delay_max()));
        page.parsed("acks", &policy.to_string(), policy.check());
    }
}

fn controllers(page: &mut Page) {
    let registry = Registry::with_experiments();
    page.line("registry", "names", registry.names().collect::<Vec<_>>().join(" "));
    let described = |factory: &dyn ControllerFactory| {
        let start = Start { smss: 1000, initial_window: 10_000, now: Instant::ZERO };
        let made = factory.create(&start).name();
        let parameters: Vec<_> = factory.parameters().iter().map(ToString::to_string).collect();
        format!("{} {made} {factory:?} {:?} {parameters:?}", factory.words(), factory.about())
    };
    for words in registry.names().chain(CONTROLLERS.iter().copied()) {
        match registry.find(words) {
            Ok(factory) => page.line("controller", words, described(factory.as_ref())),
            Err(error) => page.line("controller", words, format!("refused: {error}")),
        }
    }
    let mut mine = Registry::default();
    let taken = registry.find("reno").unwrap();
    page.parsed("register", "reno", mine.register(taken));
    page.parsed("register", "none-1987", mine.register(registry.find("none-1987").unwrap()));
    page.line("registry", "names", mine.names().collect::<Vec<_>>().join(" "));
}

fn numbers(page: &mut Page) {
    let numbers = [
        "0",
        "1",
        "0.5",
        "1.50",
        "01",
        "1.",
        "1.000000000000000000",
        "1.0000000000000000001",
        "0.000000000000000001",
        "18446744073709551615",
        "18446744073709551616",
        "9999999999999999999999999999999999999999",
        ".5",
        "1..5",
        "-1",
        "1e3",
        "",
        "1.5x",
        "x1.5",
        "0.123456789",
    ];
    for number in numbers {
        let read = [1, 2, 1000, 1_000_000_000, u64::MAX].map(|unit| exact(number, unit));
        page.line("exact", number, format!("{read:?}"));
    }
    let nanos =
        [0, 1, 999, 1000, 1001, 1_000_000, 1_500_000, 1_000_000_000, 1_500_000_000, 60_000_000_000, u64::MAX];
    for nanos in nanos {
        page.line("time", &nanos.to_string(), Span(nanos));
    }
    let times = [0, 1, 2, 1_500_000, 999_999, 1_000_000, u64::MAX - 1, u64::MAX].map(Instant::from_nanos);
    for at in times {
        let moved = times.map(|other| (at.saturating_since(other), at.nanos_since(other)));
        let ends = [0, 1, 5, u64::MAX]
            .map(|by| (at.plus_nanos(by), at + Duration::from_nanos(by), at - Duration::from_nanos(by)));
        page.line(
            "instant",
            &format!("{at:?}"),
            format!("{} {} {moved:?} {ends:?}", at.as_nanos(), at.as_millis()),
        );
    }
    let made = [
        Instant::from_micros(7),
        Instant::from_millis(7),
        Instant::default(),
        Instant::from_micros(u64::MAX),
    ];
    page.line("instant", "made", format!("{made:?}"));
    let names = ["reno", "newreno", "cubic", "vegas", "vegas-star"];
    for found in ["ren", "nwreno", "cubi", "vegas-sta", "", "vegaz", "qubic", "erno"] {
        page.line("nearest", found, format!("{:?}", nearest(found, names)));
    }
    let invalid: InvalidParameter = Ecn::find("?").unwrap_err();
    page.line("invalid", &invalid.given, &invalid.valid);
}

#[test]
fn every_grammar_reads_as_recorded() {
    let mut page = Page(String::new());
    for part in [choices, overrides, types, acknowledgements, controllers, numbers] {
        part(&mut page);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/answers/words.txt");
    snapshot::compare(path, &page.0);
}

#[cfg(feature = "serde")]
#[test]
fn snapshot_is_serialised_as_a_map() {
    let snapshot = ackclock_control::congestion::Snapshot::default().with("alpha", -3).with("beta", 7);
    assert_eq!(serde_json::to_string(&snapshot).unwrap(), r#"{"alpha":-3,"beta":7}"#);
}
