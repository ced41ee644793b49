//! [`Setup`]: a small world before its first move. [`SETUPS`] lists them all.

use std::time::Duration;

use ackclock_core::profile::Recovery;
use ackclock_core::{Keepalive, TcpConfig};
use ackclock_test_script::script::{self, untimed};

use crate::step::Call;

/// A world before its first move.
#[derive(Debug)]
pub struct Setup {
    /// Its name.
    pub name: &'static str,
    /// Its purpose.
    pub what: &'static str,
    /// Faults of the network that may strike in all.
    pub faults: u8,
    /// How many of the server's answers may be those of a Linux where it differs.
    pub variations: u8,
    /// The calls of each application, in any order, once each. Reading is always possible.
    pub calls: [&'static [Call]; 2],
    /// Whether the connection is open at the start.
    pub open: bool,
    /// Whether the listener defers the decision on each SYN.
    pub deferred: bool,
    /// Whether the hosts may sleep.
    pub sleeps: bool,
    /// The room of each receive buffer in bytes.
    pub receive_buffer: usize,
    /// Changes to the settings of both ends.
    pub tcp: Changes,
}

/// Changes to settings, which [`changes!`](crate::changes) makes.
#[derive(Clone, Copy, Debug)]
pub struct Changes {
    /// Makes them.
    pub apply: fn(&mut TcpConfig),
    /// Their text, in which the settings are called `tcp`.
    pub code: &'static str,
}

/// Changes to settings, with their text for printed tests: `changes!(|tcp| tcp.mss_max = Some(2))`.
#[macro_export]
macro_rules! changes {
    (|$tcp:ident| $($change:tt)*) => {
        $crate::Changes { apply: |$tcp| { $($change)* }, code: stringify!($($change)*) }
    };
}

impl Setup {
    /// An open connection, two faults and no calls. The table and the tests begin with it.
    pub const PLAIN: Self = Self {
        name: "",
        what: "",
        faults: 2,
        variations: 0,
        calls: [&[], &[]],
        open: true,
        deferred: false,
        sleeps: false,
        receive_buffer: 64,
        tcp: Changes { apply: |_| {}, code: "" },
    };

    /// The row with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        SETUPS.iter().find(|setup| setup.name == name)
    }

    /// The settings of both ends: without what only clocks tell apart.
    pub(crate) fn settings(&self) -> TcpConfig {
        let mut tcp = untimed(self.receive_buffer);
        (self.tcp.apply)(&mut tcp);
        tcp
    }

    /// The setup of a protocol test for either end.
    pub(crate) fn of_protocol_test(&self) -> script::Setup {
        script::Setup { tcp: self.settings(), deferred: self.deferred, ..script::Setup::default() }
    }

    /// The statements that make this setup in a protocol test, as [`Self::of_protocol_test`] does.
    pub(crate) fn code(&self) -> Vec<String> {
        let deferred = if self.deferred { "deferred: true, " } else { "" };
        let untimed = format!("untimed({})", self.receive_buffer);
        if self.tcp.code.is_empty() {
            return vec![format!("let setup = Setup {{ tcp: {untimed}, {deferred}..Setup::default() }};")];
        }
        let words: Vec<_> = self.tcp.code.split_whitespace().collect();
        let change = words.join(" ");
        vec![
            format!("let mut tcp = {untimed};"),
            format!("{};", change.trim_end_matches(';')),
            format!("let setup = Setup {{ tcp, {deferred}..Setup::default() }};"),
        ]
    }
}

/// The small worlds.
pub static SETUPS: [Setup; 12] = [
    Setup {
        name: "transfer",
        what: "four writes one way, then the end of the stream",
        calls: [
            &[Call::Write(1), Call::Write(1), Call::Write(2), Call::Write(3), Call::Shutdown],
            &[Call::Close],
        ],
        ..Setup::PLAIN
    },
    Setup {
        name: "losses",
        what: "one byte and the end of the stream, among many losses",
        calls: [&[Call::Write(1), Call::Shutdown], &[Call::Close]],
        faults: 4,
        ..Setup::PLAIN
    },
    Setup {
        name: "gaps",
        what: "three writes without SACK, so that what is sent again covers what has arrived",
        calls: [&[Call::Write(1), Call::Write(1), Call::Write(1)], &[]],
        tcp: changes!(|tcp| (tcp.choices.sack, tcp.choices.recovery) = (false, Recovery::NewReno)),
        ..Setup::PLAIN
    },
    Setup {
        name: "segments",
        what: "writes of several segments of two bytes each, with SACK",
        calls: [&[Call::Write(8), Call::Write(3)], &[]],
        tcp: changes!(|tcp| tcp.mss_max = Some(2)),
        ..Setup::PLAIN
    },
    Setup {
        name: "both-ways",
        what: "two writes each way, then both close",
        calls: [
            &[Call::Write(1), Call::Write(2), Call::Close],
            &[Call::Write(1), Call::Write(2), Call::Close],
        ],
        ..Setup::PLAIN
    },
    Setup {
        name: "window",
        what: "a buffer of four bytes, so that the window closes, and a writer the other way",
        calls: [&[Call::Write(3), Call::Write(5), Call::Shutdown], &[Call::Write(1), Call::Write(5)]],
        receive_buffer: 4,
        ..Setup::PLAIN
    },
    Setup {
        name: "linux",
        what: "writes of several segments each way, to a server that answers as Linux does where it differs",
        calls: [&[Call::Write(4), Call::Write(1), Call::Close], &[Call::Write(1), Call::Close]],
        variations: 2,
        tcp: changes!(|tcp| tcp.mss_max = Some(2)),
        ..Setup::PLAIN
    },
    Setup {
        name: "closing",
        what: "every way to end, at both ends",
        calls: [
            &[Call::Write(1), Call::Shutdown, Call::Close, Call::Abort],
            &[Call::Write(2), Call::Shutdown, Call::Close, Call::Abort],
        ],
        ..Setup::PLAIN
    },
    Setup {
        name: "opening",
        what: "the handshake, a byte each way, the end",
        calls: [&[Call::Connect, Call::Write(1), Call::Close], &[Call::Write(1), Call::Close]],
        open: false,
        ..Setup::PLAIN
    },
    Setup {
        name: "crossing",
        what: "both ends open at once, or one",
        calls: [&[Call::Connect, Call::Write(1), Call::Close], &[Call::Connect, Call::Write(1), Call::Close]],
        open: false,
        faults: 1,
        ..Setup::PLAIN
    },
    Setup {
        name: "deferred",
        what: "a listener that decides on each SYN",
        calls: [&[Call::Connect, Call::Write(1), Call::Close], &[Call::Decide, Call::Close]],
        open: false,
        deferred: true,
        ..Setup::PLAIN
    },
    Setup {
        name: "silence",
        what: "keep-alive probes, and hosts that sleep",
        calls: [&[Call::Write(1), Call::Write(1), Call::Close], &[Call::Write(1), Call::Close]],
        sleeps: true,
        tcp: changes!(|tcp| tcp.keepalive =
            Some(Keepalive { idle: Duration::from_secs(60), interval: Duration::from_secs(10), probes: 4 })),
        ..Setup::PLAIN
    },
];
