//! An endpoint that listens, and many peers without a stack.

use std::net::SocketAddr;

use ackclock_core::{ConnectionId, EndpointConfig, Instant, ListenAddr, ListenOptions, ListenerId};
use ackclock_tests::host::{Host, host_addr};
use ackclock_tests::segment::{ACK, Frame, Opt, SYN, Seg, seg};

/// The peers' first port.
pub(crate) const FIRST_PORT: u16 = 2_000;

/// One peer's view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) addr: SocketAddr,
    pub(crate) id: ConnectionId,
    /// The next number that it expects.
    pub(crate) next: u32,
}

/// The endpoint and its peers, in order of arrival.
pub(crate) struct Crowd {
    pub(crate) host: Host,
    pub(crate) listener: ListenerId,
    pub(crate) peers: Vec<Peer>,
}

impl Crowd {
    pub(crate) fn new(configure: impl FnOnce(&mut EndpointConfig)) -> Self {
        let mut config = EndpointConfig::new(vec![local().ip()], [8; 32]);
        configure(&mut config);
        let mut host = Host::new(config, Instant::from_millis(1));
        let addr = ListenAddr { addr: None, port: Some(80) };
        let listener = host.endpoint.listen(host.now, ListenOptions::new(addr)).unwrap();
        Self { host, listener, peers: Vec::new() }
    }

    /// One more connection, whose peer has this MSS and offers this window, in units of 128 bytes.
    pub(crate) fn open(&mut self, mss: u16, window: u16) {
        let port = FIRST_PORT + u16::try_from(self.peers.len()).unwrap();
        let addr = SocketAddr::new(host_addr(false, 2), port);
        let options = vec![Opt::Mss(mss), Opt::SackPermitted, Opt::WindowScale(7)];
        self.say(addr, Seg { options, ..seg(SYN).seq(0).window(window) });
        let next = self.host.transmit().pop().expect("a SYN-ACK").seg.seq.wrapping_add(1);
        self.say(addr, seg(ACK).seq(1).ack(next).window(window));
        let id = self.host.endpoint.accept(self.host.now, self.listener).expect("a connection");
        self.peers.push(Peer { addr, id, next });
    }

    pub(crate) fn say(&mut self, from: SocketAddr, segment: Seg) {
        self.host.receive(&Frame::new(from, local(), segment).to_bytes());
    }

    /// Discards what the endpoint wants to send.
    pub(crate) fn drain(&mut self) {
        while self.host.transmit_one().is_some() {}
    }

    /// The application writes to a connection until its buffer is full.
    pub(crate) fn fill(&mut self, id: ConnectionId) {
        let now = self.host.now;
        let data = [1; 65_536];
        while let Some(Ok(_)) = self.host.endpoint.update(now, id, |c, now| c.write(now, &data)) {}
    }
}

pub(crate) fn local() -> SocketAddr {
    SocketAddr::new(host_addr(false, 1), 80)
}
