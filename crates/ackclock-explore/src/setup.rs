//! [`Setup`]: a small world before its first move. [`SETUPS`] lists them all.

use std::time::Duration;

use ackclock_core::profile::Recovery;
use ackclock_core::{Keepalive, TcpConfig};
use ackclock_test_script::script::{self, untimed};

use crate::linux::Variation;
use crate::step::{Call, Side};

/// A world before its first move.
#[derive(Debug)]
pub struct Setup {
    /// Its name.
    pub name: &'static str,
    /// Its purpose.
    pub what: &'static str,
    /// Faults of the network that may strike in all.
    pub faults: u8,
    /// How often the server may act as a Linux where it differs.
    pub variations: u8,
    /// The ways in which it may do so; all if it is empty.
    pub only: &'static [Variation],
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
    /// Further changes to the settings of the client.
    pub client_tcp: Changes,
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
        only: &[],
        calls: [&[], &[]],
        open: true,
        deferred: false,
        sleeps: false,
        receive_buffer: 64,
        tcp: Changes { apply: |_| {}, code: "" },
        client_tcp: Changes { apply: |_| {}, code: "" },
    };

    /// The row with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        SETUPS.iter().find(|setup| setup.name == name)
    }

    /// The settings of an end: without what only clocks tell apart.
    pub(crate) fn settings(&self, of: Side) -> TcpConfig {
        let mut tcp = untimed(self.receive_buffer);
        self.changes(of).for_each(|change| (change.apply)(&mut tcp));
        tcp
    }

    /// The changes for an end.
    fn changes(&self, of: Side) -> impl Iterator<Item = Changes> {
        let client = (of == Side::Client).then_some(self.client_tcp);
        std::iter::once(self.tcp).chain(client)
    }

    /// The setup of a protocol test for this end.
    pub(crate) fn of_protocol_test(&self, of: Side) -> script::Setup {
        script::Setup { tcp: self.settings(of), deferred: self.deferred, ..script::Setup::default() }
    }

    /// The statements that make this setup in a protocol test, as [`Self::of_protocol_test`] does.
    pub(crate) fn code(&self, of: Side) -> Vec<String> {
        let deferred = if self.deferred { "deferred: true, " } else { "" };
        let untimed = format!("untimed({})", self.receive_buffer);
        let codes =
            self.changes(of).map(|change| change.code.split_whitespace().collect::<Vec<_>>().join(" "));
        let codes: Vec<_> = codes.filter(|code| !code.is_empty()).collect();
        if codes.is_empty() {
            return vec![format!("let setup = Setup {{ tcp: {untimed}, {deferred}..Setup::default() }};")];
        }
        let mut lines = vec![format!("let mut tcp = {untimed};")];
        lines.extend(codes.iter().map(|code| format!("{};", code.trim_end_matches(';'))));
        lines.push(format!("let setup = Setup {{ tcp, {deferred}..Setup::default() }};"));
        lines
    }
}

/// The small worlds.
pub static SETUPS: [Setup; 18] = [
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
    Setup {
        name: "linux",
        what: "writes of several segments each way, to a server that may act as Linux does where it differs",
        calls: [&[Call::Write(4), Call::Write(1), Call::Close], &[Call::Write(1), Call::Close]],
        variations: 2,
        tcp: changes!(|tcp| tcp.mss_max = Some(2)),
        ..Setup::PLAIN
    },
    Setup {
        name: "linux-nagle",
        what: "as `linux`, with the Nagle algorithm at both ends",
        calls: [&[Call::Write(3), Call::Close], &[Call::Write(3), Call::Write(2), Call::Close]],
        variations: 2,
        tcp: changes!(|tcp| (tcp.mss_max, tcp.nodelay) = (Some(2), false)),
        ..Setup::PLAIN
    },
    Setup {
        name: "linux-window",
        what: "as `linux`, with buffers of four bytes, and a client that aborts",
        calls: [
            &[Call::Write(4), Call::Shutdown, Call::Abort],
            &[Call::Write(4), Call::Write(2), Call::Shutdown],
        ],
        faults: 1,
        variations: 2,
        receive_buffer: 4,
        ..Setup::PLAIN
    },
    Setup {
        name: "linux-late",
        what: "as `linux`: a client repeats what has arrived, and acknowledges more than before",
        calls: [&[Call::Write(2), Call::Shutdown], &[Call::Write(1)]],
        variations: 1,
        only: &[Variation::LateAck, Variation::AckOneBefore, Variation::OldSegmentsWindow],
        ..Setup::PLAIN
    },
    Setup {
        name: "linux-time-wait",
        what: "as `linux`, where the server ends first",
        calls: [&[Call::Write(1), Call::Shutdown], &[Call::Shutdown]],
        variations: 1,
        only: &[Variation::FinUnreported, Variation::TimeWaitUnreported],
        ..Setup::PLAIN
    },
    Setup {
        name: "linux-closing",
        what: "as `linux`, where the server ends in every way",
        calls: [
            &[Call::Write(1), Call::Shutdown],
            &[Call::Write(1), Call::Shutdown, Call::Close, Call::Abort],
        ],
        faults: 1,
        variations: 1,
        only: &[Variation::OrphanResets, Variation::AbortUnsaid, Variation::AbortInTimeWait],
        ..Setup::PLAIN
    },
    Setup {
        name: "linux-crossing",
        what: "as `linux`: both ends open at once, or one, and the client knows no SACK",
        calls: [
            &[Call::Connect, Call::Write(1), Call::Close],
            &[Call::Connect, Call::Write(1), Call::Shutdown, Call::Close],
        ],
        variations: 1,
        open: false,
        client_tcp: changes!(|tcp| tcp.choices.sack = false),
        ..Setup::PLAIN
    },
];
