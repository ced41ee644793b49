//! This stack's side of a sequence, in virtual time.

use std::net::SocketAddr;
use std::time::Duration;

use ackclock_core::profile::{AckPolicy, Choices, Ecn, Recovery};
use ackclock_core::{
    ConnectionId, EndpointConfig, Instant, ListenAddr, ListenOptions, ListenerId, ReadError, State,
    TcpConfig, WriteError,
};

use super::Side;
use super::answer::Said;
use super::remote::text;
use super::sequence::Call;
use crate::host::Host;
use crate::segment::Frame;

/// An endpoint with a program's sockets.
#[derive(Debug)]
pub struct StackSide {
    host: Host,
    local: SocketAddr,
    remote: SocketAddr,
    active: bool,
    listener: Option<ListenerId>,
    stream: Option<ConnectionId>,
    written: u32,
}

impl StackSide {
    /// An endpoint at `local` that has done nothing yet.
    #[must_use]
    pub fn new(active: bool, local: SocketAddr, remote: SocketAddr) -> Self {
        let mut config = EndpointConfig::new(vec![local.ip()], [7; 32]);
        config.connections_max = 16;
        config.tcp = tcp().into();
        let host = Host::new(config, Instant::from_millis(3_600_000));
        Self { host, local, remote, active, listener: None, stream: None, written: 0 }
    }

    fn open(&mut self) -> Said {
        let (endpoint, now) = (&mut self.host.endpoint, self.host.now);
        if self.active {
            let name = (Some(self.local.ip()), self.local.port());
            self.stream = endpoint.connect(now, self.remote, name, None).ok();
        } else {
            let addr = ListenAddr { addr: Some(self.local.ip()), port: Some(self.local.port()) };
            self.listener = endpoint.listen(now, ListenOptions::new(addr)).ok();
        }
        Said::Done
    }

    fn accept(&mut self) -> Said {
        let Some(listener) = self.listener.filter(|_| self.stream.is_none()) else { return Said::NoSocket };
        self.stream = self.host.endpoint.accept(self.host.now, listener);
        if self.stream.is_some() { Said::Done } else { Said::Blocked }
    }

    fn read(&mut self, stream: ConnectionId) -> Said {
        let mut all = Vec::new();
        loop {
            let mut into = [0; 4096];
            let read = self.host.endpoint.update(self.host.now, stream, |c, now| c.read(now, &mut into));
            match read.expect("the stream is the program's") {
                Ok(0) => return Said::End(all),
                Ok(len) => all.extend_from_slice(&into[..len]),
                Err(ReadError::WouldBlock | ReadError::NotConnected) if all.is_empty() => {
                    return Said::Blocked;
                }
                Err(ReadError::WouldBlock | ReadError::NotConnected) => return Said::Bytes(all),
                Err(_) => return Said::Failed(all),
            }
        }
    }

    fn write(&mut self, stream: ConnectionId, len: u16) -> Said {
        let bytes = text(1 + self.written, usize::from(len));
        let wrote = self.host.endpoint.update(self.host.now, stream, |c, now| c.write(now, &bytes));
        match wrote.expect("the stream is the program's") {
            Ok(len) => {
                self.written += len as u32;
                Said::Done
            }
            Err(WriteError::WouldBlock | WriteError::NotConnected) => Said::Blocked,
            Err(_) => Said::Failed(Vec::new()),
        }
    }

    /// Advances the clock and lets timers expire.
    fn advance(&mut self, by: Duration) -> Vec<Frame> {
        let until = self.host.now + by;
        let mut frames = self.host.transmit();
        while let Some(at) = self.host.next_timeout().filter(|at| *at <= until) {
            self.host.wake(at.max(self.host.now + Duration::from_nanos(1)));
            frames.extend(self.host.transmit());
        }
        self.host.now = until.max(self.host.now);
        self.host.events();
        frames
    }
}

impl Side for StackSide {
    fn deliver(&mut self, packet: &[u8]) {
        self.host.receive(packet);
    }

    fn call(&mut self, call: Call) -> Said {
        let now = self.host.now;
        match call {
            Call::Open => return self.open(),
            Call::Accept => return self.accept(),
            Call::Unlisten => {
                let Some(listener) = self.listener.take() else { return Said::NoSocket };
                self.host.endpoint.close_listener(now, listener);
                return Said::Done;
            }
            _ => {}
        }
        let Some(stream) = self.stream else { return Said::NoSocket };
        let endpoint = &mut self.host.endpoint;
        match call {
            Call::Read => return self.read(stream),
            Call::Write(len) => return self.write(stream, len),
            Call::Shutdown => {
                // The tests of the calls compare the result on a stream that has ended.
                let _ = endpoint.update(now, stream, |c, now| c.shutdown(now));
            }
            Call::Nodelay(on) => {
                endpoint.update(now, stream, |c, now| c.set_nodelay(now, on));
            }
            Call::Abort => {
                endpoint.update(now, stream, |c, now| c.abort(now));
                endpoint.release(now, stream);
                self.stream = None;
            }
            _ => {
                endpoint.release(now, stream);
                self.stream = None;
            }
        }
        Said::Done
    }

    fn sent(&mut self) -> Vec<Frame> {
        self.advance(ACKS_WITHIN)
    }

    fn pause(&mut self) -> Vec<Frame> {
        self.advance(BETWEEN_STEPS)
    }

    fn status(&mut self) -> Option<State> {
        let connection = self.host.endpoint.connection(self.stream?)?;
        Some(if connection.state() == State::TimeWait { State::Closed } else { connection.state() })
    }

    fn inner(&self) -> Option<State> {
        self.host.endpoint.connections().last().map(|(_, connection)| connection.state())
    }
}

/// Nothing waits: acknowledgements leave at once, and no timer of the sender expires within a sequence.
fn tcp() -> TcpConfig {
    let mut tcp = TcpConfig {
        choices: Choices {
            acks: AckPolicy::EverySecondSegment { delay_max: Duration::from_micros(1) },
            recovery: Recovery::Sack,
            pacing: false,
            ecn: Ecn::Off,
            ..Choices::default()
        },
        ..TcpConfig::default()
    };
    tcp.choices.rto.initial = Duration::from_secs(60);
    tcp.choices.rto.rto_min = Duration::from_secs(60);
    tcp
}

/// Longer than the delay of any acknowledgement.
const ACKS_WITHIN: Duration = Duration::from_millis(1);
/// Challenge ACKs are 500 ms apart.
const BETWEEN_STEPS: Duration = Duration::from_millis(510);
