//! Scenario files: reading, errors, and writing them back.

use std::collections::BTreeMap;

use ackclock_control::congestion::Registry;
use ackclock_control::profile::{CHOICES, Choice, Choices, Ecn, Profile};
use ackclock_sim::scenario::{
    Arrivals, Blackout, Change, Corruption, HostConfig, Isolation, Jitter, Loss, MtuProbingSetting,
    PolicerConfig, Reordering, Scripted, SizeOf, TcplibMix, TimeOf, Variation, Way,
};
use ackclock_sim::units::{Bytes, Limit, Rate, Share, Span};
use ackclock_sim::{Direction, QueueConfig, Scenario, Simulation, TcpSettings, TrafficConfig, TrafficKind};
use serde::de::DeserializeOwned;

/// Two hosts and a router. Each line is in a separate table, so that lines can be told apart.
const GOOD: &str = r#"seed = 3
duration = "2s"
routers = ["r"]

[[host]]
name = "client"
tcp = { profile = "vegas-1995" }

[[host]]
name = "server"
timer-granularity = "10ms"

[[link]]
between = ["client", "r"]
there = { rate = "10Mbit/s", delay = "1ms" }

[[link]]
name = "wan"
between = ["r", "server"]

[link.there]
rate = "200KB/s"
delay = "50ms"
mtu = "1400B"
loss = { independent = "0.1%" }

[link.there.queue.red]
limit = "60packets"
min = 5
max = 15

[link.back]
rate = "1.5Mbit/s"
delay = "60ms"
queue = { drop-tail = { limit = "16KiB" } }

[[traffic]]
name = "bulk"
from = "client"
to = "server"
start = "100ms"

[traffic.what.bulk]
bytes = "1MB"

[[change]]
at = "1s"
link = "wan"
way = "there"
rate = "100KB/s"
"#;

#[test]
fn a_file_is_what_rust_builds() {
    let red = QueueConfig::Red {
        limit: Limit::Packets(60),
        min: 5,
        max: 15,
        max_p: Share::percent(2),
        weight_shift: 9,
        gentle: false,
        mark: false,
    };
    let there = Direction::new(Rate::bytes_per_second(200_000), Span::millis(50)).mtu(1400).queue(red);
    let there = there.loss(Loss::Independent(Share::per_million(1000)));
    let back = Direction::new(Rate::bits_per_second(1_500_000), Span::millis(60))
        .queue(QueueConfig::drop_tail(Limit::Bytes(16 << 10)));
    let client = HostConfig { tcp: TcpSettings::profile("vegas-1995"), ..HostConfig::new("client") };
    let server = HostConfig { timer_granularity: Some(Span::millis(10)), ..HostConfig::new("server") };
    let rate = Some(Rate::bytes_per_second(100_000));
    let mut built = Scenario::new(Span::seconds(2))
        .seed(3)
        .router("r")
        .host(client)
        .host(server)
        .link("client", "r", Direction::new(Rate::mbit(10), Span::millis(1)))
        .asymmetric("r", "server", there, back)
        .traffic(
            TrafficConfig::bulk("bulk", "client", "server", Some(Bytes(1_000_000))).start(Span::millis(100)),
        )
        .change(Change { way: Way::There, rate, ..Change::new(Span::seconds(1), "wan") });
    built.links[1].name = Some("wan".into());
    let read = Scenario::from_toml("good.toml", GOOD).unwrap();
    assert_eq!(read, built);
    assert!(Simulation::new(&read).unwrap().run().flows[0].there.bytes > 10_000);
}

/// A scenario with every setting.
fn full() -> Scenario {
    let codel = QueueConfig::Codel {
        limit: Limit::Bytes(1 << 20),
        target: Span::millis(3),
        interval: Span::millis(50),
        mark: true,
    };
    let there = Direction {
        policer: Some(PolicerConfig { rate: Rate::mbit(3), burst: Bytes(10_000), mark: true }),
        jitter: Some(Jitter { by: Variation::Exponential(Span(1_500)), may_reorder: true }),
        drop: vec![Scripted { packets: vec![1, 7], data: true, of: Some("pages".into()) }],
        reorder: Some(Reordering { share: Share::percent(1), by: Span::millis(2) }),
        duplicate: Share::per_million(12),
        corrupt: Some(Corruption { found: Share::percent(1), unseen: Share::ZERO }),
        drop_above: Bytes(1300),
        blackout: vec![Blackout { from: Span::seconds(1), to: Span::seconds(2) }],
        ..Direction::new(Rate::UNLIMITED, Span::millis(4)).queue(codel)
    };
    let bursty = Loss::GilbertElliott {
        to_bad: Share::per_million(100),
        to_good: Share::percent(10),
        in_bad: Share::percent(50),
        in_good: Share::ZERO,
    };
    let back = Direction::new(Rate::mbit(1), Span(1))
        .loss(bursty)
        .queue(QueueConfig::fq_codel(Limit::Packets(9), true));
    let (time, size) =
        (TimeOf::Exponential(Span::millis(7)), SizeOf::Pareto { least: Bytes(9), shape_thousandths: 1100 });
    let probing = MtuProbingSetting { least: Some(Bytes(600)), raise_after: Some(Span::seconds(9)) };
    let tcp = TcpSettings {
        nodelay: Some(true),
        mss: Some(536),
        receive_buffer: Some(Bytes(200_000)),
        receive_buffer_initial: Some(Bytes(100_000)),
        mtu_probing: Some(Box::new(probing)),
        ..every_choice()
    };
    let pages = TrafficKind::RequestResponse {
        request: size,
        response: size,
        think: time,
        serve: time,
        requests: Some(4),
        per_connection: Some(2),
    };
    let calls = TrafficKind::OnOff { rate: Rate::mbit(1), write: Bytes(100), on: time, off: time };
    let library =
        TrafficKind::Tcplib { every: Span::millis(100), until: Some(Span(9)), mix: TcplibMix::default() };
    let mut scenario = Scenario::new(Span::seconds(1))
        .tcp(TcpSettings { congestion: Some("vegas".into()), ..TcpSettings::profile("modern") })
        .host("a")
        .host("b")
        .asymmetric("a", "b", there, back)
        .traffic(TrafficConfig::new("pages", "a", "b", pages).tcp(tcp))
        .traffic(TrafficConfig::new("calls", "a", "b", calls))
        .traffic(TrafficConfig::new("library", "b", "a", library))
        .traffic(TrafficConfig::new("short", "b", "a", TrafficKind::Arrivals(Arrivals { every: time, size })))
        .change(Change { drop_above: Some(Bytes(1400)), ..Change::new(Span(1), "a-b") })
        .change(Change { up: Some(false), cost: Some(2), ..Change::new(Span(1), "a-b") });
    scenario.sample_every = Some(Span::millis(3));
    scenario.full_packets = true;
    scenario
}

#[test]
fn a_scenario_written_and_read_is_the_same() {
    let written = full().to_toml().unwrap();
    assert_eq!(
        Scenario::from_toml("full.toml", &written).unwrap_or_else(|error| panic!("{error}\n{written}")),
        full()
    );
    let good = Scenario::from_toml("good.toml", GOOD).unwrap();
    assert_eq!(Scenario::from_toml("again.toml", &good.to_toml().unwrap()).unwrap(), good);
}

/// Each queue with as few keys as it takes, and with all.
#[test]
fn every_queue_is_read_with_its_defaults_and_with_every_key() {
    let limit = Limit::Packets(50);
    for (text, queue) in [
        ("drop-tail = { limit = '16KiB' }", QueueConfig::drop_tail(Limit::Bytes(16 << 10))),
        ("pie = { limit = '50packets' }", QueueConfig::pie(limit, false)),
        (
            "pie = { limit = '50packets', target = '10ms', update = '5ms', burst = '100ms', mark = true }",
            QueueConfig::Pie {
                limit,
                target: Span::millis(10),
                update: Span::millis(5),
                burst: Span::millis(100),
                mark: true,
            },
        ),
        ("dualpi2 = { limit = '50packets' }", QueueConfig::dual_pi2(limit)),
        (
            "dualpi2 = { limit = '50packets', target = '10ms', rtt-max = '50ms', coupling = 3, \
             min-th = '1ms', range = '0' }",
            QueueConfig::DualPi2 {
                limit,
                target: Span::millis(10),
                rtt_max: Span::millis(50),
                coupling: 3,
                min_th: Span::millis(1),
                range: Span(0),
            },
        ),
        ("cake = { limit = '50packets' }", QueueConfig::cake(limit, false)),
        (
            "cake = { limit = '50packets', bandwidth = '1Mbit/s', isolation = 'dual-dsthost', \
             ack-filter = true, target = '8ms', interval = '80ms', mark = true }",
            QueueConfig::Cake {
                limit,
                bandwidth: Rate::mbit(1),
                isolation: Isolation::DualDsthost,
                ack_filter: true,
                target: Span::millis(8),
                interval: Span::millis(80),
                mark: true,
            },
        ),
    ] {
        let file = GOOD.replace("drop-tail = { limit = \"16KiB\" }", text);
        let read = Scenario::from_toml("queue.toml", &file).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read.links[1].back().queue, queue, "{text}");
        assert_eq!(Scenario::from_toml("again.toml", &read.to_toml().unwrap()).unwrap(), read);
        assert!(Simulation::new(&read).unwrap().run().flows[0].there.bytes > 10_000, "{text}");
    }
}

#[test]
fn a_scenario_of_everything_runs() {
    Simulation::new(&full()).unwrap().run();
}

/// Every choice, with another value than the default's.
fn every_choice() -> TcpSettings {
    let make = |settings: TcpSettings, choice: &Choice| settings.choose(choice.key, choice.example);
    CHOICES.iter().fold(TcpSettings::default(), make)
}

#[test]
fn every_choice_is_a_key() {
    let written = full().to_toml().unwrap();
    for line in ["initial-window = 3\n", "sack = \"off\"\n", "ecn = \"classic\"\n"] {
        assert!(written.contains(line), "{line}: {written}");
    }
    let config = every_choice().config(&Registry::builtin()).unwrap();
    assert_eq!((config.choices.initial_window_segments, config.choices.receiver_bandwidth), (3, Some(50)));
    for choice in &CHOICES {
        assert_eq!(choice.get(&config.choices), choice.example);
    }
    let settings = |toml: &str| toml::from_str::<TcpSettings>(toml).unwrap();
    assert_eq!(
        settings("initial-window = 3\nsack = false"),
        settings("sack = \"false\"\ninitial-window = \"3\"")
    );
    let choices = settings("sack = false\npacing = \"on\"").config(&Registry::builtin()).unwrap().choices;
    assert!(!choices.sack && choices.pacing);
}

#[test]
fn profile_overrides_every_choice_below_it() {
    let config = |settings: &TcpSettings| settings.config(&Registry::builtin()).unwrap();
    let below = every_choice();
    let same = TcpSettings::default().choose("ecn", "accurate").over(&below);
    assert_eq!(config(&same).choices, Choices { ecn: Ecn::Accurate, ..config(&below).choices });
    let other = TcpSettings::profile("sack-2003").over(&below);
    assert_eq!(config(&other).choices, Profile::find("sack-2003").unwrap().choices);
}

/// Reads a quantity from the text that a file has for it.
fn in_file<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut table: BTreeMap<String, T> =
        toml::from_str(&format!("value = {text:?}")).map_err(|error| error.to_string())?;
    Ok(table.remove("value").expect("the only key"))
}

#[test]
fn quantities_are_read_as_on_the_command_line() {
    // Tests of control and of tcpcat go through the same list.
    let list = include_str!("../../../ackclock-control/tests/quantities.tsv");
    for line in list.lines().skip(1) {
        let [kind, text, value, refusal] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("four columns: {line}")
        };
        let read = match kind {
            "rate" => in_file(text).map(Rate::bits),
            "size" => in_file(text).map(|Bytes(bytes)| bytes),
            "time" => in_file(text).map(|Span(nanos)| nanos),
            "limit" => in_file(text).map(|(Limit::Packets(number) | Limit::Bytes(number))| number),
            "share" => in_file(text).map(|share: Share| share.parts_per_billion().into()),
            _ => panic!("a kind: {line}"),
        };
        match read {
            Ok(number) => assert_eq!(number.to_string(), value, "{line}"),
            Err(error) => assert!(!refusal.is_empty() && error.contains(refusal), "{line}: {error}"),
        }
    }
}

/// A change to the good file, and the error that it causes.
const WRONG: &[(&str, &str, &str)] = &[
    ("duration = \"2s\"", "duration = 2", "2: duration: `2` has no unit; write `2ms` or `2s`"),
    (
        "delay = \"50ms\"",
        "delay = \"50\"",
        "23: link[1].there.delay: `50` has no unit; write `50ms` or `50s`",
    ),
    (
        "delay = \"50ms\"",
        "delay = \"0.5ns\"",
        "23: link[1].there.delay: found `0.5ns`, which is not a whole number of nanoseconds; allowed is a time",
    ),
    (
        "delay = \"50ms\"",
        "delay = \"50 parsecs\"",
        "23: link[1].there.delay: found `50 parsecs`; allowed is a time",
    ),
    (
        "rate = \"200KB/s\"",
        "rate = \"0KB/s\"",
        "22: link[1].there.rate: found `0KB/s`; allowed is a rate from 1bit/s",
    ),
    ("mtu = \"1400B\"", "mtu = \"14B\"", "24: link[1].there.mtu: found `14B`; allowed is 68B to 65535B"),
    (
        "mtu = \"1400B\"",
        "drop-above = \"14B\"",
        "24: link[1].there.drop-above: found `14B`; allowed is 68B to 65535B",
    ),
    (
        "rate = \"100KB/s\"\n",
        "drop-above = \"70KB\"\n",
        "50: change[0].drop-above: found `70kB`; allowed is 68B to 65535B",
    ),
    (
        "profile = \"vegas-1995\"",
        "mtu-probing = { least = \"70KB\" }",
        "7: host[0].tcp.mtu-probing.least: found `70kB`; allowed is up to 65535B",
    ),
    (
        "independent = \"0.1%\"",
        "independent = \"101%\"",
        "25: link[1].there.loss.independent: found `101%`; allowed is a share",
    ),
    (
        "mtu = \"1400B\"",
        "mttu = \"1400B\"",
        "24: link[1].there.mttu: found `mttu`; allowed are `rate`, `delay`, `mtu`",
    ),
    (
        "queue.red]",
        "queue.ret]",
        "27: link[1].there.queue.ret: found `ret`; allowed are `drop-tail`, `red`, `codel`, `fq-codel`, \
         `cake`, `pie`, `dualpi2`; the nearest is `red`",
    ),
    (
        "limit = \"60packets\"",
        "limit = \"6 packages\"",
        "28: link[1].there.queue.red.limit: found `6 packages`; allowed is a number of packets or bytes",
    ),
    (
        "drop-tail = { limit = \"16KiB\" }",
        "pie = { limit = \"16KiB\", update = \"10us\" }",
        "35: link[1].back.queue.pie.update: found `10us`; allowed is at least 1ms",
    ),
    (
        "drop-tail = { limit = \"16KiB\" }",
        "cake = { limit = \"16KiB\", isolation = \"dual-srchosts\" }",
        "35: link[1].back.queue.cake.isolation: found `dual-srchosts`; allowed are `flows`, `dual-srchost`, \
         `dual-dsthost`, `triple-isolate`; the nearest is `dual-srchost`",
    ),
    (
        "rate = \"100KB/s\"\n",
        "queue = { drop-tail = { limit = \"16KiB\" } }\n",
        "50: change[0].queue: found `queue`; allowed are `at`, `link`, `way`, `rate`, `delay`, `loss`",
    ),
    (
        "drop-tail = { limit = \"16KiB\" }",
        "dualpi2 = { limit = \"16KiB\", coupling = 0 }",
        "35: link[1].back.queue.dualpi2.coupling: found 0; allowed is 1 to 1000",
    ),
    (
        "drop-tail = { limit = \"16KiB\" }",
        "dualpi2 = { limit = \"16KiB\", rtt-max = \"1min\" }",
        "35: link[1].back.queue.dualpi2.rtt-max: found `60s`; allowed is 1ms to 10s",
    ),
    ("max = 15", "max = 4", "30: link[1].there.queue.red.max: found 4; allowed is more than `min`, 5"),
    ("min = 5\n", "", "27: link[1].there.queue.red: lacks the key `min`"),
    (
        "between = [\"r\", \"server\"]",
        "between = [\"r\", \"sever\"]",
        "19: link[1].between[1]: found `sever`; allowed are `client`, `r`, `server`; the nearest is `server`",
    ),
    ("from = \"client\"", "from = \"r\"", "39: traffic[0].from: found `r`, a router; allowed are hosts"),
    (
        "to = \"server\"",
        "to = \"client\"",
        "40: traffic[0].to: found `client`; allowed is another host than `from`",
    ),
    (
        "bytes = \"1MB\"",
        "bytes = \"0B\"",
        "44: traffic[0].what.bulk.bytes: found `0B`; allowed is at least 1B",
    ),
    (
        "profile = \"vegas-1995\"",
        "profile = \"vegas-1996\"",
        "7: host[0].tcp.profile: found `vegas-1996`; allowed are `modern`",
    ),
    (
        "profile = \"vegas-1995\"",
        "recovery = \"go-back\"",
        "7: host[0].tcp.recovery: found `go-back`; allowed are `go-back-n`, `tahoe`",
    ),
    (
        "profile = \"vegas-1995\"",
        "inital-window = 3",
        "7: host[0].tcp.inital-window: found `inital-window`; allowed are `profile`, `congestion`",
    ),
    (
        "profile = \"vegas-1995\"",
        "initial-window = 0",
        "7: host[0].tcp.initial-window: found `0`: `0` is not an initial window: write 1 to 65535 segments",
    ),
    (
        "profile = \"vegas-1995\"",
        "initial-window = 1.5",
        "7: host[0].tcp.initial-window: found floating point `1.5`; allowed is a text, a whole number",
    ),
    (
        "profile = \"vegas-1995\"",
        "sack = \"yes\"",
        "7: host[0].tcp.sack: found `yes`; allowed are `on`, `off`",
    ),
    (
        "profile = \"vegas-1995\"",
        "idle = \"kept\"",
        "7: host[0].tcp.idle: found `kept`; allowed are `validated`",
    ),
    (
        "profile = \"vegas-1995\"",
        "acks = \"every-second:1s\"",
        "7: host[0].tcp.acks: found `every-second:1s`: ",
    ),
    (
        "profile = \"vegas-1995\"",
        "send-buffer = 5",
        "7: host[0].tcp.send-buffer: `5` has no unit; write `5B` or `5KiB`",
    ),
    (
        "profile = \"vegas-1995\"",
        "rto = \"rfc6297\"",
        "7: host[0].tcp.rto: found `rfc6297`; allowed are `rfc6298`",
    ),
    (
        "profile = \"vegas-1995\"",
        "rto = \"rfc6298,min=90s\"",
        "7: host[0].tcp.rto: found `rfc6298,min=90s`: the smallest timeout, 90s, is longer than the largest, \
         60s",
    ),
    ("profile = \"vegas-1995\"", "undo = \"rto\"", "7: host[0].tcp.undo: found `rto`: "),
    ("name = \"server\"", "name = \"client\"", "10: host[1].name: found `client`, which is taken"),
    (
        "link = \"wan\"",
        "link = \"wam\"",
        "48: change[0].link: found `wam`; allowed are `client-r`, `wan`; the nearest is `wan`",
    ),
    ("way = \"there\"\nrate = \"100KB/s\"\n", "", "46: change[0]: found nothing that changes"),
    ("seed = 3", "seed = -3", "1: seed: found integer `-3`; allowed is"),
    ("seed = 3", "seed == 3", "1: "),
    ("duration = \"2s\"\n", "", "1: lacks the key `duration`"),
];

#[test]
fn what_is_wrong_is_said_with_its_line_and_key() {
    let mut wrong = String::new();
    for (good, bad, said) in WRONG {
        let text = GOOD.replacen(good, bad, 1);
        assert_ne!(text, GOOD, "{good} is not in the file");
        let error = Scenario::from_toml("bad.toml", &text).expect_err(bad).to_string();
        if !error.starts_with(&format!("bad.toml:{said}")) {
            wrong += &format!("{bad}:\n  said   {error}\n  wanted bad.toml:{said}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_nearest_name_is_the_last_word() {
    let text = GOOD.replace("mtu = ", "mttu = ");
    let error = Scenario::from_toml("bad.toml", &text).unwrap_err();
    assert!(error.what.ends_with("the nearest is `mtu`"), "{error}");
    assert_eq!((error.file.as_str(), error.line), ("bad.toml", 24));
}
