//! The memory budget after many lives of every kind of end: what a connection had is free again.

use super::*;

const LIVES: u16 = 40;
const HOUR: Duration = Duration::from_secs(3600);

/// A connection that its peer opened: its id, and what the peer sends next and has seen.
struct Life {
    host: Host,
    id: ConnectionId,
    port: u16,
    seq: u32,
    seen: SeqNum,
}

impl Life {
    fn gives(&mut self, flags: Flags, text: &[u8]) -> Vec<SentSegment> {
        let fields = fields(flags, self.seq, self.seen);
        self.seq += text.len() as u32 + u32::from(flags.contains(Flags::FIN));
        let sent = self.host.give(client(self.port), server(), fields, text);
        self.sees(&sent);
        sent
    }

    fn sees(&mut self, sent: &[SentSegment]) {
        for segment in sent {
            let fin = u32::from(segment.flags.contains(Flags::FIN));
            self.seen = segment.seq + segment.payload.len() as u32 + fin;
        }
    }

    fn does<T>(&mut self, act: impl FnOnce(&mut crate::Connection, Instant) -> T) -> T {
        let done = self.host.endpoint.update(self.host.now, self.id, act).unwrap();
        let sent = self.host.sent();
        self.sees(&sent);
        done
    }

    fn writes(&mut self) {
        self.does(|connection, now| connection.write(now, &[5; 3000]).unwrap());
    }

    fn ends(&mut self) {
        self.does(|connection, now| connection.shutdown(now).unwrap());
    }

    fn released(&mut self) {
        self.host.endpoint.release(self.host.now, self.id);
        let sent = self.host.sent();
        self.sees(&sent);
    }
}

/// A kind of end, and how it comes.
type End = (&'static str, fn(&mut Life));

/// Every kind of end. All are released at last.
const ENDS: &[End] = &[
    ("the peer closes first", |life| {
        life.gives(Flags::FIN | Flags::ACK, &[7; 100]);
        life.writes();
        life.ends();
        life.gives(Flags::ACK, &[]);
    }),
    ("this end closes first", |life| {
        life.writes();
        life.ends();
        life.gives(Flags::ACK, &[]);
        life.gives(Flags::FIN | Flags::ACK, &[]);
    }),
    ("both close at once", |life| {
        let before = life.seen;
        life.ends();
        let after = std::mem::replace(&mut life.seen, before);
        life.gives(Flags::FIN | Flags::ACK, &[]);
        life.seen = after;
        life.gives(Flags::ACK, &[]);
    }),
    ("the peer resets, with data on both sides", |life| {
        life.writes();
        life.gives(Flags::ACK, &[7; 1000]);
        life.gives(Flags::RST, &[]);
    }),
    ("this end aborts", |life| {
        life.writes();
        life.gives(Flags::ACK, &[7; 1000]);
        life.does(|connection, now| connection.abort(now));
    }),
    ("released with unread data", |life| {
        life.gives(Flags::ACK, &[7; 1000]);
    }),
    ("released with data beyond a gap", |life| {
        life.seq += 1000;
        life.gives(Flags::ACK, &[7; 1000]);
    }),
    ("released with unacknowledged data", |life| life.writes()),
    ("the peer falls silent, and the user timeout ends it", |life| {
        life.does(|connection, now| connection.set_user_timeout(now, Some(Duration::from_secs(5))).unwrap());
        life.writes();
        life.host.wait(Duration::from_secs(60));
    }),
    ("the peer falls silent, and keep-alive ends it", |life| {
        let second = Duration::from_secs(1);
        let keepalive = crate::Keepalive { idle: second, interval: second, probes: 2 };
        life.does(|connection, now| connection.set_keepalive(now, Some(keepalive)).unwrap());
        life.host.wait(Duration::from_secs(60));
    }),
    ("the peer closes its window for ever", |life| {
        life.writes();
        let closed = Fields { window: 0, ..fields(Flags::ACK, life.seq, life.seen) };
        life.host.give(client(life.port), server(), closed, &[]);
        life.writes();
    }),
    ("the peer's half is closed, and this end never closes", |life| {
        life.gives(Flags::FIN | Flags::ACK, &[]);
    }),
    ("this end closes, and the peer never does", |life| {
        life.ends();
        life.gives(Flags::ACK, &[]);
    }),
];

#[test]
fn every_kind_of_end_gives_back_all_memory() {
    for (name, end) in ENDS {
        let (mut host, listener) = Host::listening(on_port(PORT));
        for port in 4000..4000 + LIVES {
            let (id, iss) = host.accepted(listener, port);
            let mut life = Life { host, id, port, seq: 1001, seen: iss + 1 };
            end(&mut life);
            life.released();
            host = life.host;
        }
        host.wait(3 * HOUR);
        assert_eq!(host.endpoint.memory().0, 0, "{name}: memory");
        assert_eq!((host.endpoint.connection_count(), host.endpoint.time_wait.len()), (0, 0), "{name}");
        assert_eq!(host.endpoint.poll_timeout(), None, "{name}: nothing waits");
        // The ports are free again.
        host.accepted(listener, 4000);
    }
}

/// Handshakes that come to nothing leave nothing either.
#[test]
fn handshakes_that_fail_give_back_all_memory() {
    let mut host = Host::new();
    for port in 5000..5000 + LIVES {
        host.endpoint.connect(host.now, client(9), (None, port), None).unwrap();
        let syn = host.sent().remove(0);
        match port % 3 {
            0 => drop(host.give(client(9), syn.src, fields(Flags::RST | Flags::ACK, 0, syn.seq + 1), &[])),
            1 => {
                host.wait(Duration::from_secs(1));
            }
            _ => drop(host.give(client(9), syn.src, fields(Flags::SYN, 77, SeqNum::new(0)), &[])),
        }
    }
    let listener = host.endpoint.listen(host.now, on_port(PORT)).unwrap();
    for port in 4000..4000 + LIVES {
        host.from(port, syn(1000));
    }
    host.wait(HOUR);
    let left: Vec<_> = host.endpoint.connections().map(|(id, _)| id).collect();
    for id in left {
        host.endpoint.release(host.now, id);
    }
    host.wait(3 * HOUR);
    host.endpoint.close_listener(host.now, listener);
    assert_eq!((host.endpoint.memory().0, host.endpoint.connection_count()), (0, 0));
    assert_eq!(host.endpoint.poll_timeout(), None);
}
