//! The scenes of the laboratory: set-ups of the papers first, then situations of today. Each is a scenario
//! and the words beside it.

use ackclock_control::names::nearest;
use ackclock_sim::dumbbell::shared;
use ackclock_sim::papers::{bfa, jacobson, vegas};
use ackclock_sim::scenario::{Jitter, Loss, Scripted, TimeOf, Variation};
use ackclock_sim::units::{Bytes, Limit, Rate, Share, Span};
use ackclock_sim::{Direction, QueueConfig, Scenario, TcpSettings, TrafficConfig};

/// A set-up with its words.
pub(crate) struct Scene {
    /// Its name in links.
    pub name: &'static str,
    pub title: &'static str,
    /// The paper and the figure, or the standard.
    pub source: &'static str,
    /// Five sentences.
    pub text: [&'static str; 5],
    /// The thing to look for in the graphs.
    pub look: &'static str,
    make: fn() -> Scenario,
}

/// All scenes in the order of the page.
pub(crate) const SCENES: &[Scene] = &[
    Scene {
        name: "vegas-7",
        title: "Vegas alone",
        source: "Brakmo and Peterson 1995, figure 7",
        text: [
            "A megabyte crosses a link of 200 KB/s with 50 ms of delay and ten buffers.",
            "Vegas compares the rate that it expects from its window with the rate that it gets.",
            "The difference is what waits in the queue, and Vegas keeps that between one and three segments.",
            "So the window becomes a straight line, the queue stays short, and nothing is lost.",
            "The paper measured 169 KB/s; this run comes within two per cent.",
        ],
        look: "The congestion window grows every other round trip in slow start, stops at once when the \
               queue shows, and then hardly moves. Set the controller to reno to see what it does with this path; the next scene is the paper's figure 5.",
        make: || vegas::alone(&vegas::fig6(200, 10), vegas::VEGAS, Span(0)),
    },
    Scene {
        name: "vegas-5",
        title: "Reno alone",
        source: "Brakmo and Peterson 1995, figure 5",
        text: [
            "The same megabyte crosses the same link as in figure 7, sent by Reno as BSD had it in 1990.",
            "Reno knows no other sign of a full queue than a loss, so it fills the queue until packets drop.",
            "Slow start doubles the window until it overflows the ten buffers and loses more than a dozen segments.",
            "Reno repairs one loss per round trip, and often has to wait for its timer, whose tick is 500 ms.",
            "The paper measured 123 KB/s, where Vegas had 169.",
        ],
        look: "Crosses in the queue's graph are drops. Click a cross in the sequence graph to read why that \
               segment was sent again, and look for silence that only a timer ends.",
        make: || vegas::alone(&vegas::fig6(200, 10), vegas::RENO, Span(0)),
    },
    Scene {
        name: "vegas-11",
        title: "How Vegas* starts",
        source: "Brakmo and Peterson 1995, figure 11",
        text: [
            "Slow start is where Vegas still loses packets on a fast path with few buffers.",
            "Vegas* therefore spaces four segments and measures how fast they arrive.",
            "From that rate and the round trip it knows which window the path holds.",
            "It stops doubling there instead of finding the limit by a loss.",
            "The link has 300 KB/s here, and the router sixteen buffers.",
        ],
        look: "The queue never holds more than a handful of packets. Choose vegas-usc as the controller and \
               lower the buffer to seven: now its slow start loses a packet.",
        make: || vegas::slow_start(vegas::VEGAS_STAR, 16),
    },
    Scene {
        name: "jacobson-3",
        title: "A start without slow start",
        source: "Jacobson and Karels 1988, figure 3",
        text: [
            "This is a 4.3BSD host of 1986 before congestion control was invented.",
            "It sends its whole window of 32 segments as soon as the connection is open.",
            "The gateway's buffer cannot take them all, since others send through it, too.",
            "Then the timer sends one segment, its acknowledgement releases another burst, and more is lost.",
            "Much of the link is spent on repetition.",
        ],
        look: "In the sequence graph the dots stand in columns, each a burst into the queue, and crosses \
               repeat them. Compare with the next scene, which differs in slow start alone.",
        make: || jacobson::slow_start(&jacobson::old(), jacobson::PATH, Span(0)),
    },
    Scene {
        name: "jacobson-4",
        title: "The same start with slow start",
        source: "Jacobson and Karels 1988, figure 4",
        text: [
            "The network is that of figure 3, and only the sender has changed.",
            "Slow start sends one segment first and one more for every acknowledgement.",
            "Acknowledgements come back as fast as the slowest link passes data, and so clock the sender.",
            "The window doubles in each round trip until it fills the path.",
            "Two seconds are lost at the start, and the rest is sent at nearly the full rate.",
        ],
        look: "The dots curve upwards and then follow the line of the link's rate. Hardly any cross is left.",
        make: || jacobson::slow_start(&jacobson::bsd_plus(), jacobson::PATH, Span(0)),
    },
    Scene {
        name: "jacobson-8",
        title: "Congestion collapse",
        source: "Jacobson and Karels 1988, figure 8",
        text: [
            "Four 4.3BSD hosts send a megabyte each over one link, begun three seconds apart.",
            "None of them slows down when the link is overloaded.",
            "Together they offer more than the link carries, and more than a third of that is sent again.",
            "Who gets how much is luck, and some conversations nearly stand still.",
            "The collapse of October 1986 looked like this on the whole Internet.",
        ],
        look: "Compare the rates of the four flows, and the share that was sent again in the table. Then \
               open figure 9, where the senders avoid congestion.",
        make: || {
            let later = Span(0);
            jacobson::conversations(&jacobson::old(), true, jacobson::DELAY_MS, later)
        },
    },
    Scene {
        name: "jacobson-9",
        title: "Congestion avoidance",
        source: "Jacobson and Karels 1988, figure 9",
        text: [
            "Four hosts send over the link of figure 8, now with slow start and congestion avoidance.",
            "Each takes a loss as a sign of congestion and halves its window.",
            "Without losses, a window grows by one segment in each round trip.",
            "The link is busy all the time, and about one per cent is sent again.",
            "This rule, published in 1988, still keeps the Internet from collapsing.",
        ],
        look: "The windows are saw teeth, and the queue is never empty for long once all four send.",
        make: || {
            let later = Span(0);
            jacobson::conversations(&jacobson::bsd_plus(), false, jacobson::DELAY_MS, later)
        },
    },
    Scene {
        name: "bfa-4",
        title: "Reno fills any buffer",
        source: "Awadallah and Rai 1998, figures 4 to 6",
        text: [
            "One Reno source sends over a line of 64 kbit/s whose router has 60 buffers.",
            "Eight packets a second pass, so a full queue delays each packet by more than seven seconds.",
            "Reno fills it until it overflows, whatever its size.",
            "More buffers give no more throughput and only a longer delay.",
            "Power, which is throughput over delay, falls with each buffer.",
        ],
        look: "The queue climbs to its limit again and again, and the round trips climb with it. Set the \
               controller to bfa: the queue stops growing, and the throughput is no less.",
        make: || Scenario { duration: HALF, ..bfa::alone(&bfa::ns(bfa::RENO), 60, bfa::DELAY_MS, Span(0)) },
    },
    Scene {
        name: "bfa-7",
        title: "BFA beside Reno",
        source: "Awadallah and Rai 1998, figures 7 to 10",
        text: [
            "BFA watches how fast the round trip varies, and stops growing while a queue fills.",
            "Here it shares a line of 64 kbit/s and 30 buffers with a Reno source.",
            "Two BFA sources share such a line without any loss.",
            "Reno fills the queue beside it and then loses a window's worth.",
            "In the long run BFA gets more, because its window is cut less often.",
        ],
        look: "Both windows in one graph: Reno's saw teeth, and BFA's steps. Change the buffer to 60 and see \
               the start decide who is ahead for hundreds of seconds.",
        make: || bfa::competing([bfa::BFA, bfa::RENO], 30, Span(0), 400),
    },
    Scene {
        name: "allman-paxson",
        title: "How long to wait for an acknowledgement",
        source: "Allman and Paxson 1999, after §2",
        text: [
            "A retransmission timer that is too short sends again what was only late.",
            "One that is too long leaves the path idle after a loss.",
            "Allman and Paxson found that the smallest timeout decides this far more than the estimator does.",
            "On this path the delay jumps now and then, and a packet in a hundred is lost.",
            "The timeout is at least 200 ms here, as most systems have it, where RFC 6298 asks for a second.",
        ],
        look: "The last graphs show each round trip and the timeout after it. In the sequence graph, a cross \
               named for the timeout was sent again because the timer ran out; click one, and one whose \
               first copy had not been lost was sent in vain.",
        make: late,
    },
    Scene {
        name: "reno-loss",
        title: "One lost packet, and its repair",
        source: "RFC 5681, section 3.2",
        text: [
            "Reno sends two megabytes, and the link loses exactly one packet, the two hundredth with data.",
            "Every later packet that arrives makes the receiver repeat its acknowledgement.",
            "After three of those the sender knows that a packet is missing, since mere reordering is rarer.",
            "It sends the packet again at once and halves its window.",
            "Then the window grows by a segment in each round trip until the transfer ends.",
        ],
        look: "Choose the circle in the sequence graph: the text says which rule declared the segment lost. \
               The cross at its height is the retransmission, about a round trip after the first copy.",
        make: one_loss,
    },
    Scene {
        name: "bufferbloat",
        title: "A buffer that is too large",
        source: "Gettys and Nichols 2012; RFC 7567",
        text: [
            "CUBIC sends over 10 Mbit/s and a round trip of 40 ms, into a queue of 400 packets.",
            "That is twelve times what the path holds, as in many home routers.",
            "CUBIC fills it, and packets then wait for up to half a second.",
            "The throughput is no better than with a short queue.",
            "A queue discipline such as CoDel drops early and keeps the wait at 5 ms.",
        ],
        look: "Watch the round trips rise to eleven times the empty path's. Set the queue to codel or \
               fq-codel and look again; or keep the queue and set the controller to vegas or bbr.",
        make: || modern(&["cubic"], Direction::new(Rate::mbit(10), Span::millis(20)).buffers(400)),
    },
    Scene {
        name: "bbr-cubic",
        title: "BBR beside CUBIC",
        source: "RFC 9438; draft-ietf-ccwg-bbr",
        text: [
            "Two flows share 10 Mbit/s with one bandwidth-delay product of buffer.",
            "CUBIC grows until a packet is lost.",
            "BBR estimates the bandwidth and the round trip, and sends at that rate.",
            "How they share depends on the buffer more than on either of them.",
            "With a shallow buffer BBR takes more, and with a deep one CUBIC does.",
        ],
        look: "The delivered rates of both flows. Move the buffer from 8 to 400 packets and see the shares turn.",
        make: || modern(&["bbr", "cubic"], Direction::new(Rate::mbit(10), Span::millis(20)).buffers(34)),
    },
    Scene {
        name: "ecn",
        title: "Marks instead of losses",
        source: "RFC 3168; RFC 8289",
        text: [
            "CUBIC sends over 10 Mbit/s into a queue of 267 packets, far more than the path holds.",
            "CoDel sees how long packets wait, and acts when that stays above 5 ms.",
            "Where both ends speak ECN it marks a packet instead of dropping it.",
            "The receiver echoes the mark, and the sender halves its rate as it would after a loss.",
            "Nothing is lost, nothing is sent again, and the queue stays short.",
        ],
        look: "The windows fall without a single cross in the sequence graph. Set the queue to drop-tail: \
               now the buffer fills, and the round trips with it.",
        make: || {
            let queue = QueueConfig::codel(Limit::Packets(267), true);
            let mut scenario =
                modern(&["cubic"], Direction::new(Rate::mbit(10), Span::millis(20)).queue(queue));
            for traffic in &mut scenario.traffic {
                traffic.tcp = traffic.tcp.clone().choose("ecn", "accurate");
                traffic.peer_tcp = traffic.peer_tcp.clone().choose("ecn", "accurate");
            }
            scenario
        },
    },
];

/// Half of the paper's time: the graphs repeat.
const HALF: Span = Span::seconds(200);
/// How long the situations of today run.
const MODERN: Span = Span::seconds(20);
/// Never limits.
const WINDOW_BYTES: u64 = 4 << 20;

/// Endless flows of today's TCP with these controllers over a bottleneck.
fn modern(controllers: &[&str], bottleneck: Direction) -> Scenario {
    let scenario = shared(bottleneck, controllers.len(), MODERN).seed(1);
    (1..).zip(controllers).fold(scenario, |scenario, (number, controller)| {
        let tcp = TcpSettings {
            congestion: Some((*controller).to_owned()),
            send_buffer: Some(Bytes(WINDOW_BYTES)),
            ..TcpSettings::profile("modern").fixed_window(WINDOW_BYTES)
        };
        let (from, to) = (format!("a{number}"), format!("b{number}"));
        let traffic = TrafficConfig::bulk(&format!("flow {number}"), &from, &to, None).tcp(tcp.clone());
        scenario.traffic(TrafficConfig { peer_tcp: tcp, ..traffic })
    })
}

fn one_loss() -> Scenario {
    let mut bottleneck = Direction::new(Rate::mbit(10), Span::millis(20)).buffers(100);
    bottleneck.drop = vec![Scripted { packets: vec![200], data: true, of: None }];
    let reno = TcpSettings::profile("reno-1990").choose("acks", "every-second:0s").fixed_window(60_000);
    let traffic = TrafficConfig::bulk("transfer", "a1", "b1", Some(Bytes(2_000_000))).tcp(reno.clone());
    shared(bottleneck, 1, MODERN).traffic(TrafficConfig { peer_tcp: reno, ..traffic })
}

/// A path whose delay jumps, to a receiver of the time, whose window leaves the queue empty.
fn late() -> Scenario {
    let mut bottleneck = Direction::new(Rate::bits_per_second(512_000), Span::millis(40)).buffers(20);
    bottleneck.loss = Some(Loss::Independent(Share::percent(1)));
    let held = Variation::Held {
        wait: TimeOf::Pareto { least: Span::millis(15), shape_thousandths: 1000 },
        lasting: TimeOf::Exponential(Span::seconds(1)),
    };
    bottleneck.jitter = Some(Jitter { by: held, may_reorder: false });
    let tcp = TcpSettings::profile("newreno-1999").choose("rto", "rfc6298,min=200ms").fixed_window(8000);
    let traffic = TrafficConfig::bulk("transfer", "a1", "b1", Some(Bytes(1_000_000))).tcp(tcp.clone());
    shared(bottleneck, 1, Span::seconds(60)).seed(9).traffic(TrafficConfig { peer_tcp: tcp, ..traffic })
}

/// The scenes, and scenarios of the reader's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scenes {
    given: Vec<(String, Scenario)>,
}

impl Scenes {
    /// Adds a scenario of the reader's.
    pub fn add(&mut self, name: String, scenario: Scenario) {
        self.given.retain(|(other, _)| *other != name);
        self.given.push((name, scenario));
    }

    /// The scenarios that were added.
    pub fn given(&self) -> impl Iterator<Item = &str> {
        self.given.iter().map(|(name, _)| name.as_str())
    }

    /// All names.
    pub fn names(&self) -> Vec<String> {
        let names = SCENES.iter().map(|scene| scene.name).chain(self.given());
        names.map(str::to_owned).collect()
    }

    /// The scenario of this name.
    pub fn scenario(&self, name: &str) -> Result<Scenario, String> {
        if let Some((_, scenario)) = self.given.iter().find(|(given, _)| given == name) {
            return Ok(scenario.clone());
        }
        let scene = SCENES.iter().find(|scene| scene.name == name).ok_or_else(|| {
            let names = self.names();
            let near = nearest(name, names.iter().map(String::as_str)).unwrap_or_default();
            format!("no scene is called `{name}`; the nearest is `{near}`")
        })?;
        Ok((scene.make)())
    }
}
