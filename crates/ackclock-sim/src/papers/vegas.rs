//! Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC 13(8),
//! 1995: the network of fig. 6, the senders, and the transfers of figs. 5, 7 and 11.
//!
//! The paper leaves five points open. They are chosen once, to agree with its results, and hold for all
//! experiments:
//!
//! * The delay of 50 ms is one way (§V-B): a send buffer of 20 KB then just fills the pipe, as §IV-B3 says.
//! * Receivers acknowledge every segment. Only then does slow start reach 400 KB/s "at around 1 s" when it
//!   doubles every other round trip (fig. 11), and does Reno stall until "it times out at around 2 s"
//!   (§IV-B1).
//! * A packet holds one of the router's buffers while it is being sent. Only then does Vegas lose exactly "a
//!   packet" of the 32 that it sends into 300 KB/s and 16 buffers (fig. 11).
//! * A KB is 1,000 bytes and a packet of 1.4 KB an IP packet of 1,400; a megabyte is 1,024 KB, as in table
//!   II.
//! * Reno has the rules that the paper names: it halves the window (appendix), and "more than once for
//!   losses that occurred during one RTT interval" (§III-A), as the release of 1990 does. Only the timer's
//!   first round trip does not count a tick more, as it does there: with it, Reno's 300 KB beside Reno come
//!   to 45 KB/s instead of table III's 60, and with the eighth of a segment that §V-D mentions its megabyte
//!   to 70 instead of 109.

use crate::dumbbell::Dumbbell;
use crate::units::{Bytes, Rate, Span};
use crate::{Direction, Scenario, TcpSettings, TrafficConfig};

/// Bytes in a KB.
pub const KB: u64 = 1000;
/// KB in a megabyte.
pub const MEGABYTE: u64 = 1024;
/// The send buffer, and so the largest window, in KB (§IV-B3).
pub const SEND_BUFFER: u64 = 50;

/// A sender of the experiments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sender {
    /// Its name in the tables.
    pub name: &'static str,
    profile: &'static str,
    /// The controller; overrides the profile's.
    congestion: Option<&'static str>,
    /// The estimator of the timeout; overrides the profile's.
    rto: Option<&'static str>,
}

/// Reno by the rules of its release, and a timer whose first round trip counts no tick more.
pub const RENO: Sender =
    Sender { name: "Reno", profile: "net2-reno-1991", congestion: None, rto: Some("jacobson-1992") };
/// Other Renos: with the timer of the release, an eighth of a segment more for each acknowledgement, or RFC
/// 5681's rules.
pub const OTHER_RENOS: [Sender; 3] = [
    Sender { name: "Reno, the timer of the release", rto: None, ..RENO },
    Sender { name: "Reno, an eighth more", congestion: Some("net2-reno:eighth=yes"), ..RENO },
    Sender { name: "Reno, RFC 5681", profile: "reno-1990", rto: None, ..RENO },
];
/// Reno that recovers by RFC 2582.
pub const NEWRENO: Sender = Sender { name: "NewReno", profile: "newreno-1999", rto: None, ..RENO };
/// Vegas by the rules of the code that its authors distributed.
pub const VEGAS: Sender = Sender { name: "Vegas", profile: "vegas-usc-1995", rto: None, ..RENO };
/// Vegas that leaves slow start at two and at three buffers, where the paper says one (§III-C).
pub const VEGAS_LATE: [Sender; 2] = [
    Sender { name: "Vegas, γ = 2", congestion: Some("vegas-usc:gamma=2"), ..VEGAS },
    Sender { name: "Vegas, γ = 3", congestion: Some("vegas-usc:gamma=3"), ..VEGAS },
];
/// Vegas that keeps two to four buffers filled.
pub const VEGAS_2_4: Sender =
    Sender { name: "Vegas-2,4", congestion: Some("vegas-usc:alpha=2,beta=4"), ..VEGAS };
/// Vegas as in vegas-1995, which compares the smallest round trip of a round, as Linux does.
pub const VEGAS_LINUX_LIKE: Sender = Sender {
    name: "the controller vegas",
    profile: "vegas-1995",
    rto: None,
    congestion: Some("vegas:base=data"),
};
/// Vegas*, which estimates the bandwidth in slow start.
pub const VEGAS_STAR: Sender =
    Sender { name: "Vegas*", profile: "vegas-star-1995", rto: None, congestion: Some("vegas-star:base=any") };

impl Sender {
    /// Its settings. The receiver's window limits the sender instead of the send buffer, which has the effect
    /// of BSD's: the simulator's applications fill a send buffer in larger steps than BSD's did.
    pub fn tcp(self) -> TcpSettings {
        let settings = TcpSettings::profile(self.profile).choose("acks", "every-second:0s");
        let settings = match self.rto {
            Some(rto) => settings.choose("rto", rto),
            None => settings,
        };
        TcpSettings {
            congestion: self.congestion.map(str::to_owned),
            send_buffer: Some(Bytes(1_000_000)),
            receive_buffer: Some(Bytes(SEND_BUFFER * KB)),
            ..settings
        }
    }
}

/// The network of fig. 6 with `rate` in KB/s. `buffers` are the router's; the packet being sent holds one.
pub fn fig6(rate: u64, buffers: u64) -> Dumbbell {
    network(rate * KB, buffers - 1)
}

/// A transfer of this many KB between the hosts of a pair.
pub fn transfer(name: &str, pair: usize, kilobytes: u64, sender: Sender) -> TrafficConfig {
    let (from, to) = (format!("a{pair}"), format!("b{pair}"));
    TrafficConfig::bulk(name, &from, &to, Some(Bytes(kilobytes * KB))).tcp(sender.tcp())
}

/// A megabyte alone, begun at `start`: figs. 5 and 7 with `fig6(200, 10)`.
#[must_use]
pub fn alone(network: &Dumbbell, sender: Sender, start: Span) -> Scenario {
    let transfer = transfer("transfer", 2, MEGABYTE, sender).start(start);
    network.scenario(Span::seconds(60)).tcp(sender.tcp()).traffic(transfer)
}

/// The start of a megabyte over 300 KB/s: fig. 11 with 16 buffers.
#[must_use]
pub fn slow_start(sender: Sender, buffers: u64) -> Scenario {
    let transfer = transfer("transfer", 2, MEGABYTE, sender);
    fig6(300, buffers).scenario(Span::seconds(60)).tcp(sender.tcp()).traffic(transfer)
}

/// Brakmo and Peterson's figure 6: three pairs of hosts on Ethernets of 10 Mbit/s, and between the routers
/// 50 ms and this many bytes a second and buffers. The paper's packets are 1.4 KB, which is the MTU here.
pub fn network(bytes_per_second: u64, buffers: u64) -> Dumbbell {
    let access = Direction::new(Rate::mbit(10), Span(0)).mtu(FIG6_PACKET_BYTES);
    let bottleneck = Direction::new(Rate::bytes_per_second(bytes_per_second), Span::millis(50));
    let bottleneck = bottleneck.mtu(FIG6_PACKET_BYTES).buffers(buffers);
    Dumbbell { pairs: 3, access, bottleneck, back: None }
}

/// A packet of figure 6.
pub const FIG6_PACKET_BYTES: u64 = 1400;
