//! Snapshots of the controllers: tables of their windows by round trip, which a change of behaviour must
//! update, and the page of choices for the documentation.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p ackclock-control --test snapshots` rewrites both.

use std::fmt::Write as _;
use std::path::Path as FilePath;
use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::congestion::{
    About, Ack, Bbr, Controller, ControllerFactory, DraftRow, IdleRestart, LossCause, LossEpisode, Lost,
    Registry, Sent, Standing, Start, Timeout, Undo,
};
use ackclock_control::kit::{Flow, Path};
use ackclock_control::profile::{CHOICES, Choice, Named, Profile, System};
use ackclock_control::rtt::{Formula, Gain, RtoConfig, Sampling, presets};
use ackclock_test_support::snapshot;

/// 2 Mbit/s, 100 ms, segments of 1000 bytes: 25 segments fill the path, 20 more its queue.
const PATH: Path = Path { rate: 250_000, buffer: 20_000, ..Path::TYPICAL };
const ROUNDS: usize = 60;

fn windows_by_round() -> String {
    let mut table = String::from(
        "Window in segments after each of 60 round trips; 25 fill the path, 20 its queue; initial window 4.\n\
         The last column: KB/s delivered, KB dropped, timeouts and mean KB queued, over 60 s.\n",
    );
    let registry = Registry::builtin();
    for name in registry.names() {
        let factory = registry.find(name).unwrap();
        let windows = Flow::with_initial_window(factory.as_ref(), PATH, 4).rounds(ROUNDS);
        let windows: Vec<String> = windows.iter().map(u64::to_string).collect();
        let mut flow = Flow::with_initial_window(factory.as_ref(), PATH, 4);
        let mut queued = 0;
        for _ in 0..600 {
            flow.run(Duration::from_millis(100));
            queued += flow.queue();
        }
        let totals = flow.totals();
        let figures = [totals.delivered / 60_000, totals.dropped / 1000, totals.timeouts, queued / 600_000];
        writeln!(table, "{name}: {} | {figures:?}", windows.join(" ")).unwrap();
    }
    table
}

/// The effect of each event on a controller's window, in tenths of a segment: growth from ten segments, then
/// a loss and three round trips, its undo, a timeout and four round trips, its undo, idleness, and a mark.
fn windows_by_event() -> String {
    let mut table = String::from(
        "Window in segments, ssthresh behind the slash (-: none yet), after what the column says; a round \
         trip acknowledges the\nwhole window, and takes 100 ms. Undone are the loss and the timeout of the \
         columns before.\n\n",
    );
    let columns =
        ["start", "3 rounds", "loss", "3 rounds", "undone", "timeout", "4 rounds", "undone", "idle", "mark"];
    write!(table, "{:<16}", "").unwrap();
    columns.iter().for_each(|column| write!(table, "{column:>14}").unwrap());
    let registry = Registry::builtin();
    for name in registry.names() {
        write!(table, "\n{name:<16}").unwrap();
        let mut driven = Driven::new(registry.find(name).unwrap().as_ref());
        let steps: [fn(&mut Driven); 10] = [
            |_| (),
            |driven| driven.rounds(3),
            |driven| driven.lose(LossCause::DuplicateAcks),
            |driven| driven.rounds(3),
            |driven| driven.controller.on_undo(&Undo { now: driven.now }),
            Driven::expire,
            |driven| driven.rounds(4),
            |driven| driven.controller.on_undo(&Undo { now: driven.now }),
            Driven::idle,
            |driven| driven.lose(LossCause::EcnEcho),
        ];
        for step in steps {
            step(&mut driven);
            write!(table, "{:>14}", driven.window()).unwrap();
        }
    }
    table.push('\n');
    table
}

/// A controller, and the simulated state of its connection.
struct Driven {
    controller: Box<dyn Controller>,
    now: Instant,
    delivered: u64,
}

impl Driven {
    fn new(factory: &dyn ControllerFactory) -> Self {
        let now = Instant::from_millis(1000);
        let controller = factory.create(&Start { smss: 1000, initial_window: 10_000, now });
        let mut driven = Self { controller, now, delivered: 0 };
        driven.send(10);
        driven
    }

    fn window(&self) -> String {
        let tenths = |bytes: u64| format!("{}.{}", bytes / 1000, bytes % 1000 / 100);
        let ssthresh = self.controller.ssthresh();
        let ssthresh = if ssthresh == u64::MAX { "-".to_owned() } else { tenths(ssthresh) };
        format!("{}/{ssthresh}", tenths(self.controller.cwnd()))
    }

    fn send(&mut self, segments: u64) {
        for _ in 0..segments {
            let (now, in_flight) = (self.now, self.controller.cwnd());
            self.controller.on_sent(&Sent { now, bytes: 1000, in_flight, retransmission: false });
        }
    }

    fn rounds(&mut self, rounds: u32) {
        let rtt = Duration::from_millis(100);
        for _ in 0..rounds {
            let (prior_delivered, sent_at) = (self.delivered, self.now);
            self.now += rtt;
            let before = self.controller.cwnd() / 1000;
            for _ in 0..before {
                self.delivered += 1000;
                self.controller.on_ack(&Ack {
                    now: self.now,
                    bytes_acked: 1000,
                    bytes_cumulative: 1000,
                    rtt_ns: Some(100_000_000),
                    srtt_ns: 100_000_000,
                    rtt_min_ns: 100_000_000,
                    delivered: self.delivered,
                    prior_delivered,
                    sent_at,
                    delivery_interval_ns: 100_000_000,
                    app_limited: false,
                    tx_in_flight: before * 1000,
                    lost: 0,
                    prior_in_flight: before * 1000,
                    in_flight: before * 1000,
                    cwnd_limited: true,
                    in_recovery: false,
                    ecn_marked: 0,
                });
            }
            self.send(self.controller.cwnd() / 1000);
        }
    }

    fn lose(&mut self, cause: LossCause) {
        let (now, delivered, flight_size) = (self.now, self.delivered, self.controller.cwnd());
        let bytes_lost = if cause == LossCause::EcnEcho { 0 } else { 1000 };
        if bytes_lost > 0 {
            let (prior_delivered, app_limited) = (delivered, false);
            self.controller.on_lost(&Lost {
                now,
                bytes: bytes_lost,
                delivered,
                prior_delivered,
                app_limited,
                tx_in_flight: flight_size,
                lost: bytes_lost,
            });
        }
        self.controller.on_loss_episode(&LossEpisode {
            now,
            cause,
            flight_size,
            bytes_lost,
            delivered,
            repeated: false,
            peer_window: u64::MAX,
        });
    }

    fn expire(&mut self) {
        let (now, delivered, flight_size) = (self.now, self.delivered, self.controller.cwnd());
        self.controller.on_timeout(&Timeout {
            now,
            flight_size,
            expiries: 1,
            delivered,
            peer_window: u64::MAX,
        });
        self.send(1);
    }

    fn idle(&mut self) {
        let idle = Duration::from_secs(60);
        self.now += idle;
        let (now, rto) = (self.now, Duration::from_secs(1));
        self.controller.on_idle_restart(&IdleRestart { now, idle, rto, restart_window: 10_000 });
    }
}

/// The page of all choices, from the code's own descriptions.
fn page() -> String {
    let sections = [
        ("Choices", CHOICES_TEXT, choices()),
        ("Congestion controllers", CONTROLLERS, controllers()),
        ("BBR against its draft", BBR, bbr()),
        ("Loss recovery", RECOVERY, names_of("recovery")),
        ("Undo", UNDO, names_of("undo")),
        ("Retransmission timeouts", TIMEOUTS, timeouts()),
        ("Start-up estimators", START_UP, names_of("start-up")),
        ("Idleness", IDLE, names_of("idle")),
        ("Acknowledgements", ACKS, names_of("acks")),
        ("Explicit congestion notification", ECN, names_of("ecn")),
        ("Profiles", PROFILES, profiles()),
        ("Defaults of today's systems", SYSTEMS, systems()),
    ];
    let mut page = String::from(HEAD);
    for (title, text, table) in sections {
        write!(page, "\n## {title}\n\n{text}\n\n{table}").unwrap();
    }
    page
}

const HEAD: &str = "\
# What decides when to send

Made from the code's descriptions, by `UPDATE_SNAPSHOTS=1 cargo test -p ackclock-control --test snapshots`; do not edit. The
tests of each mechanism of the papers are in `docs/mechanisms.md`, the cost of an acknowledgement to each controller in
`benches/results/control.md`.
";
const CHOICES_TEXT: &str = "\
Every connection has a congestion controller and these choices. They are tcpcat's flags (`--ecn classic`), the keys of a
scenario's `[tcp]` (`ecn = \"classic\"`), and the fields of `Choices` in Rust. `on` and `off` are `true` and `false` in a scenario.";
const CONTROLLERS: &str = "\
By name, per connection; parameters follow a colon, as in `vegas:alpha=2,beta=4`. `none-1987` is for simulated networks
alone. Every signal except `none` includes losses.";
const BBR: &str = "\
Function by function, draft-ietf-ccwg-bbr-05. `resolved`: two parts of the draft disagree. The gain of the departures from its
answer to loss is tested by `cargo test -p tcplab --test theory bbr`; `bbr:loss=draft` runs without them.

By the letter, each round trip with a loss leaves (1 - p) of the rate, and the pacing margin 0.99 of that, until the next
probe: after n round trips of CRUISE the mean is (1 - q^n) / n(1 - q) with q = 0.99 (1 - p). On a path of 40 ms, where n is
about 60, the draft thus predicts 0.59 of the link at 1 % of loss, 0.52 at 1.5 % and 0.38 at 3 %; it follows the largest
sample of a round trip, which does somewhat better where few packets are in flight. Simulated for 20 s with a
queue of one bandwidth-delay product, mean share of the link (payload of ten seeds; 0.92 is the maximum without loss):

| packets that fill the path | 1 %, `loss=draft` | 1 % | 1.5 %, `loss=draft` | 1.5 % | 3 %, `loss=draft` | 3 % |
|---|---|---|---|---|---|---|
| 50 | 0.77 | 0.91 | 0.69 | 0.90 | 0.52 | 0.81 |
| 123 | 0.72 | 0.91 | 0.63 | 0.90 | 0.37 | 0.74 |
| 500 | 0.74 | 0.90 | 0.63 | 0.89 | 0.16 | 0.61 |
| 3333 | 0.66 | 0.89 | 0.33 | 0.88 | 0.03 | 0.32 |

3 % is beyond what either tolerates: with few packets in flight it is often within what chance explains.

What it costs others: at 10 Mbit/s and 40 ms one flow takes 72 % of the link beside one of Reno and 68 % beside one of CUBIC,
where the letter takes 58 % and 51 % (`docs/kit`, `tcplab kit bbr:loss=draft`).

Linux's BBR is version 1 and does not respond to loss. When the two share a queue of one bandwidth-delay product, both overflow
it, and only version 3 slows down. The table shows the share of version 3 at 100 Mbit/s, in one run of 30 s for each path:
`target/release/loss --rtt 2ms,20ms,100ms --loss 0% --rate 100Mbit/s --cc bbr --ours bbr:loss=ignored --receiver linux --sender
both --secs 30`. The first row is the same command without `--ours`.

| | 2 ms | 20 ms | 100 ms |
|---|---|---|---|
| `bbr` | 35 % | 32 % | 25 % |
| `bbr:loss=ignored` | 35 % | 56 % | 46 % |

At 20 and 100 ms, version 3 loses its share by its response to loss. To compete with version 1, choose `loss=ignored`; it then
retransmits 6 to 15 % of its packets in place of 2 to 3 %. At 2 ms the response to loss makes no difference, and the cause is not
known. Version 1 ends that run with a window of 58 packets, version 3 with 22.";
const RECOVERY: &str = "How losses are found and repaired: `crates/ackclock-core/src/sending`.";
const UNDO: &str =
    "Proofs that nothing was lost, which restore cwnd and ssthresh; any set of them, or `off`.";
const TIMEOUTS: &str = "\
One estimator with parameters: gains α1 and α2, the granularity G of its clock, bounds, and whether one segment a flight is
timed or all. The rows of the tables of Allman and Paxson begin with `ap-`.";
const START_UP: &str = "\
Estimators that set the first ssthresh from the times of acknowledgements (Allman and Paxson 1999, §3). At the receiver
`Receiver` estimates from arrivals; `pbm` and `pbm_prime` estimate from traces.";
const IDLE: &str =
    "What happens to the window when nothing was sent for longer than a retransmission timeout.";
const ACKS: &str = "When a receiver acknowledges; no delay is longer than 500 ms (RFC 9293 MUST-40).";
const ECN: &str = "What an end offers and accepts.";
const PROFILES: &str = "Named sets of the choices above.";
const SYSTEMS: &str = "\
The profiles of today's systems hold what the systems' documents say. Where no document gives a choice, the value is
`modern`'s, and the table says `not documented`. These profiles are models of the documents, not measurements: what a system
sends also depends on its code, on the network card and on its administrator.";

fn controllers() -> String {
    let mut table = String::from(
        "| name | year | source | signal | keeps in the queue | parameters | deviations \
         |\n|---|---|---|---|---|---|---|\n",
    );
    let registry = Registry::with_experiments();
    let mut factories: Vec<_> = registry.names().map(|name| registry.find(name).unwrap()).collect();
    factories.sort_by_key(|factory| factory.about().year);
    for factory in factories {
        let About { year, source, signal, keeps_in_queue, deviations, .. } = factory.about();
        let (name, signal) = (factory.name(), format!("{signal:?}").to_lowercase());
        let parameters: Vec<String> = factory.parameters().iter().map(ToString::to_string).collect();
        let parameters = parameters.join(", ");
        writeln!(
            table,
            "| `{name}` | {year} | {source} | {signal} | {keeps_in_queue} | {parameters} | {deviations} |"
        )
        .unwrap();
    }
    table
}

fn bbr() -> String {
    let mut table = String::from("| section | function | here | what of it |\n|---|---|---|---|\n");
    for DraftRow { section, name, standing, note } in Bbr::DRAFT {
        let here = match standing {
            Standing::Same => "same",
            Standing::Resolved => "resolved",
            Standing::Departs => "departs",
        };
        writeln!(table, "| {section} | {name} | {here} | {note} |").unwrap();
    }
    table
}

/// The table of choices.
fn choices() -> String {
    let mut table = String::from(
        "| flag and key | value | what it decides | `modern` | another | source |\n|---|---|---|---|---|---|\n",
    );
    let modern = Profile::modern().choices;
    for choice in &CHOICES {
        let Choice { key, grammar, example, help, source, .. } = choice;
        let (grammar, value) = (grammar.replace('|', "\\|"), choice.get(&modern));
        writeln!(table, "| `{key}` | {grammar} | {help} | `{value}` | `{example}` | {source} |").unwrap();
    }
    table
}

/// The values of a choice that have names.
fn names_of(key: &str) -> String {
    let mut table = String::from("| name | what it does, and where it is described |\n|---|---|\n");
    for Named { name, summary } in Choice::find(key).unwrap().names() {
        writeln!(table, "| `{name}` | {summary} |").unwrap();
    }
    table
}

fn timeouts() -> String {
    let mut table = String::from(
        "| name | source | α1 | α2 | timeout | G | bounds | timed |\n|---|---|---|---|---|---|---|---|\n",
    );
    for preset in presets::all() {
        let RtoConfig { srtt_gain, rttvar_gain, granularity, rto_min, rto_max, .. } = preset.config;
        let formula = match preset.config.formula {
            Formula::MeanDeviation { k, adapt: false } => format!("SRTT + {k} RTTVAR"),
            Formula::MeanDeviation { k, adapt: true } => format!("SRTT + {k} RTTVAR, the factor doubling"),
            Formula::SignedDeviation { k, k_falling } => {
                format!("SRTT + {k} RTTVAR, {k_falling} while srv < 0")
            }
            Formula::Multiple { beta } => format!("{beta} SRTT"),
            Formula::Static => format!("{:?}", preset.config.initial),
            other => panic!("no words for {other:?}"),
        };
        let timed = match preset.config.sampling {
            Sampling::EverySegment => "all",
            Sampling::OncePerFlight => "one a flight",
            other => panic!("no words for {other:?}"),
        };
        let (gain_1, gain_2) = (gain(srtt_gain), gain(rttvar_gain));
        let (name, source) = (preset.name, preset.source);
        writeln!(
            table,
            "| `{name}` | {source} | {gain_1} | {gain_2} | {formula} | {granularity:?} | {rto_min:?} to \
             {rto_max:?} | {timed} |"
        )
        .unwrap();
    }
    table
}

fn gain(gain: Gain) -> String {
    let weight = gain.as_f64();
    if weight == 0.0 { "0".to_owned() } else { format!("1/{}", weight.recip().round()) }
}

fn profiles() -> String {
    let mut table = String::from(
        "| name | what it is | controller | choices other than `modern`'s | source |\n|---|---|---|---|---|\n",
    );
    let modern = Profile::modern().choices;
    for Profile { name, summary, source, congestion, choices } in Profile::all() {
        let differing = CHOICES.iter().filter(|choice| choice.get(&choices) != choice.get(&modern));
        let differing: Vec<_> =
            differing.map(|choice| format!("{choice} {}", choice.get(&choices))).collect();
        let differing = differing.join("; ");
        writeln!(table, "| `{name}` | {summary} | `{congestion}` | {differing} | {source} |").unwrap();
    }
    table
}

fn systems() -> String {
    let mut page = String::new();
    for system in System::all() {
        let System { profile: Profile { name, congestion, choices, .. }, documents, deviations, .. } = system;
        write!(
            page,
            "### {name}\n\n{documents}\n\n| choice | value | where it is documented |\n|---|---|---|\n"
        )
        .unwrap();
        let congestion = ("congestion", congestion.to_owned());
        let rows = CHOICES.iter().map(|choice| (choice.key, choice.get(&choices)));
        for (key, value) in std::iter::once(congestion).chain(rows) {
            let document = system.document(key).unwrap_or("not documented");
            writeln!(page, "| {key} | `{value}` | {document} |").unwrap();
        }
        page.push_str("\nWhat these choices cannot express:\n\n");
        deviations.iter().for_each(|deviation| writeln!(page, "- {deviation}").unwrap());
        page.push('\n');
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// Compares with the file of this name in the crate.
fn compare(file: &str, table: &str) {
    snapshot::compare(FilePath::new(env!("CARGO_MANIFEST_DIR")).join(file), table);
}

#[test]
fn windows_by_round_are_those_of_the_table() {
    compare("tests/cwnd_by_round.txt", &windows_by_round());
}

#[test]
fn windows_by_event_are_those_of_the_table() {
    compare("tests/cwnd_by_event.txt", &windows_by_event());
}

#[test]
fn documentation_describes_what_there_is_to_choose() {
    compare("../../docs/control.md", &page());
}
