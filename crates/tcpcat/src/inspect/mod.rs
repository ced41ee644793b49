//! `tcpcat ss`, `top` and `trace`: a running stack, seen through its control socket.
//!
//! They run neither a stack nor a runtime. [`Client`] asks, and [`Seen`] is one connection as the stack
//! described it.

mod client;
mod filter;
mod ss;
mod top;
mod trace;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use serde::Deserialize;

use crate::observe::Facts;

pub(crate) use self::client::Client;
pub(crate) use self::ss::run as run_ss;
pub(crate) use self::top::{Sort, run as run_top};
pub(crate) use self::trace::run as run_trace;

/// A connection of the stack at one moment.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// Why it does not send more.
    pub(crate) waits_for: String,
    #[serde(default)]
    rto_estimator: Option<String>,
    /// Its figures, in the words of `ss -ti`.
    pub(crate) info: Facts,
}

impl Seen {
    /// Puts together what the socket reports in two places.
    fn whole(mut self) -> Self {
        self.info.rto_estimator = self.rto_estimator.take();
        self
    }
}

/// A listener of the stack at one moment.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SeenListener {
    /// `ADDR:PORT`, with `*` for any.
    pub(crate) local: String,
    waiting: u64,
    backlog: u64,
}

impl SeenListener {
    /// Its address and port, unspecified and 0 where it takes any.
    fn local(&self) -> SocketAddr {
        let (addr, port) = self.local.rsplit_once(':').unwrap_or(("*", "*"));
        let addr = addr.trim_start_matches('[').trim_end_matches(']');
        let any = IpAddr::from(Ipv6Addr::UNSPECIFIED);
        SocketAddr::new(addr.parse().unwrap_or(any), port.parse().unwrap_or(0))
    }
}

/// All connections at one moment.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Look {
    /// The stack's clock in microseconds.
    pub at_us: u64,
    pub connections: Vec<Seen>,
    /// Connections beyond those listed.
    pub left_out: u64,
}

impl Look {
    /// Takes a snapshot now.
    pub fn take(client: &mut Client) -> Result<Self, ackclock_cli::Failure> {
        let mut look: Self = client.ask("connections", None)?;
        look.connections = look.connections.into_iter().map(Seen::whole).collect();
        Ok(look)
    }
}
