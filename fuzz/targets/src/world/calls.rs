//! The calls of applications.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock_control::congestion::Registry;
use ackclock_control::profile::{AckPolicy, Recovery, UndoChoice};
use ackclock_core::rtt::RtoConfig;
use ackclock_core::trace::{TraceConfig, TraceKeep};
use ackclock_core::{
    Decision, Instant, Keepalive, ListenAddr, ListenOptions, OtherPacket, UdpOptions, UdpTransmit,
    Unreachable,
};
use ackclock_journal::RecordedConnection;
use ackclock_tests::icmp::icmp_error;
use ackclock_wire::{Cidr, Codepoint, Egress, Route};

use super::{Conn, FuzzedPair, addr_of, scene};

impl FuzzedPair {
    pub(super) fn connect(&mut self, side: bool, port: u8, local: u8) {
        let remote = SocketAddr::new(addr_of(self.v6, if side { 1 } else { 2 }), port_of(port));
        // One in four is for a host that does not answer, one for itself.
        let remote = match port / 64 {
            0 => SocketAddr::new(addr_of(self.v6, 9), remote.port()),
            1 if port.is_multiple_of(16) => {
                SocketAddr::new(addr_of(self.v6, if side { 2 } else { 1 }), remote.port())
            }
            _ => remote,
        };
        let early = local >= 192;
        let local = (None, if local < 64 { 4000 + u16::from(local % 4) } else { 0 });
        self.call_with(side, "connect", |end, now| {
            if end.conns.len() >= CONNS_MAX {
                return None;
            }
            let opened = if early {
                end.endpoint.connect_with_data(now, remote, local, None, &pattern(0, EARLY))
            } else {
                end.endpoint.connect(now, remote, local, None).map(|id| (id, 0))
            };
            let conn = |&(id, written)| Conn { id, read: 0, written: written as u32 };
            end.conns.extend(opened.as_ref().ok().map(conn));
            Some(opened)
        });
    }

    pub(super) fn listen(&mut self, side: bool, port: u8, kind: u8) {
        let addr = ListenAddr { addr: None, port: Some(port_of(port)) };
        let mut options = ListenOptions::new(addr);
        options.backlog = [1024, 1, 2, 16][usize::from(kind % 4)];
        options.syn_backlog = [1024, 0, 1, 4][usize::from(kind / 4 % 4)];
        options.deferred = (kind / 16).is_multiple_of(4);
        options.decisions_max = 2;
        options.fast_open_max = if kind / 64 == 1 { 2 } else { 0 };
        options.reuse_port = kind / 64 == 2;
        self.with(side, |end, now| {
            if end.listeners.len() < LISTENERS_MAX {
                end.listen(now, options);
            }
        });
    }

    pub(super) fn close_listener(&mut self, side: bool, which: u8) {
        self.with(side, |end, now| {
            if let Some(at) = nth(which, end.listeners.len()) {
                end.endpoint.close_listener(now, end.listeners.swap_remove(at));
            }
        });
    }

    pub(super) fn accept(&mut self, side: bool, which: u8) {
        self.call_with(side, "accept", |end, now| {
            let at = nth(which, end.listeners.len()).filter(|_| end.conns.len() < CONNS_MAX)?;
            let (id, _) = end.endpoint.accept_decided(now, end.listeners[at])?;
            end.conns.push(Conn { id, read: 0, written: 0 });
            Some(id)
        });
    }

    pub(super) fn decide(&mut self, side: bool, which: u8, how: u8) {
        let decision = match how % 8 {
            0 => Decision::Reset,
            1 => Decision::Unreachable(Unreachable::Host),
            2 => Decision::Drop,
            _ => Decision::Accept,
        };
        self.call_with(side, "decide", |end, now| {
            let at = nth(which, end.incoming.len())?;
            Some(end.endpoint.decide(now, end.incoming.swap_remove(at), decision))
        });
    }

    pub(super) fn write(&mut self, side: bool, which: u8, len: u16) {
        let (most, urgent) = (self.written_max, len % 16 == 7);
        self.call_with(side, "write", |end, now| {
            let at = nth(which, end.conns.len())?;
            let conn = &mut end.conns[at];
            if conn.written > most {
                return None;
            }
            let data = pattern(conn.written, usize::from(len) >> (len % 4));
            let written = end.endpoint.update(now, conn.id, |connection, now| {
                if urgent { connection.write_urgent(now, &data) } else { connection.write(now, &data) }
            });
            if let Some(Ok(count)) = written {
                conn.written = conn.written.wrapping_add(count as u32);
            }
            written
        });
    }

    pub(super) fn read(&mut self, side: bool, which: u8, len: u16) {
        let noisy = self.noisy;
        self.call_with(side, "read", |end, now| {
            let at = nth(which, end.conns.len())?;
            let conn = &mut end.conns[at];
            let mut into = vec![0; usize::from(len)];
            let read = end.endpoint.update(now, conn.id, |connection, now| connection.read(now, &mut into));
            if let Some(Ok(count)) = read {
                let right = noisy || into[..count] == pattern(conn.read, count);
                assert!(right, "other bytes at {} of {:?}", conn.read, conn.id);
                conn.read = conn.read.wrapping_add(count as u32);
            }
            read
        });
    }

    /// Whatever else an application calls.
    pub(super) fn call(&mut self, side: bool, which: u8, what: u8, by: u8) {
        let call = Call { what: what % 32, by, span: scene::duration(by), on: by.is_multiple_of(2) };
        self.call_with(side, "call", |end, now| {
            let id = end.conns[nth(which, end.conns.len())?].id;
            end.endpoint.update(now, id, |connection, now| {
                call.set(connection, now)
                    .or_else(|| call.change(connection, now))
                    .unwrap_or_else(|| call.ask(connection))
            })
        });
    }

    pub(super) fn release(&mut self, side: bool, which: u8) {
        self.with(side, |end, now| {
            if let Some(at) = nth(which, end.conns.len()) {
                end.endpoint.release(now, end.conns.swap_remove(at).id);
            }
        });
    }

    pub(super) fn bind(&mut self, side: bool, port: u8) {
        self.with(side, |end, now| {
            if port < 32 && !end.udp.is_empty() {
                let id = end.udp.swap_remove(0);
                return end.endpoint.udp_close(id);
            }
            let addr = ListenAddr { addr: None, port: Some(port_of(port)) };
            let mut options = UdpOptions::new(addr);
            options.receive_buffer_max = 2000;
            if end.udp.len() < LISTENERS_MAX
                && let Ok(id) = end.endpoint.udp_bind(now, options)
            {
                end.udp.push(id);
            }
        });
    }

    pub(super) fn datagram(&mut self, side: bool, port: u8, len: u16) {
        let to = SocketAddr::new(addr_of(self.v6, if side { 1 } else { 2 }), port_of(port));
        let own = SocketAddr::new(addr_of(self.v6, if side { 2 } else { 1 }), port_of(len as u8));
        let contents = vec![7; usize::from(len % 4000)];
        let how = port / 16;
        self.call_with(side, "datagram", |end, now| {
            let &id = end.udp.get(usize::from(how & 1)).or(end.udp.first())?;
            let transmit = UdpTransmit {
                contents: &contents,
                to: (how != 10).then_some(to),
                from: (how == 13).then_some(own),
                segment_size: matches!(how, 8 | 9).then_some(100),
                ecn: if how == 13 { Codepoint::Ect0 } else { Codepoint::NotEct },
            };
            let asked = (
                end.endpoint.udp_names(id),
                end.endpoint.udp_is_readable(id),
                end.endpoint.udp_is_writable(id),
                end.endpoint.udp_has_error(id),
                end.endpoint.udp_payload_max(to.ip()),
            );
            let set = match how {
                11 => end.endpoint.udp_connect(id, Some(to)),
                12 => end.endpoint.udp_set_ttl(id, Some(len as u8)),
                14 => end.endpoint.udp_set_traffic_class(id, len as u8),
                15 => end.endpoint.udp_connect(id, None),
                _ => end.endpoint.udp_peek(id, &mut [0; 50]).map(|_| ()),
            };
            let sent = end.endpoint.udp_send(now, id, &transmit);
            let received = end.endpoint.udp_receive(id, &mut [0; 500], len.is_multiple_of(2));
            Some((asked, set, sent, received, end.endpoint.udp_take_error(id)))
        });
    }

    /// The device of a side changes.
    pub(super) fn device(&mut self, side: bool, what: u8) {
        let own = addr_of(self.v6, if side { 2 } else { 1 });
        let second = addr_of(self.v6, 7);
        if what % 4 == 3 {
            return self.surroundings(side, what / 4);
        }
        self.with(side, |end, now| match what % 4 {
            0 => end.endpoint.set_local_addresses(vec![own.into()], Vec::new()),
            1 => end.endpoint.set_local_addresses(vec![own.into(), second.into()], Vec::new()),
            _ => {
                end.mtu = [1280, 1500, 4000, 9000][usize::from(what / 64)];
                end.endpoint.set_mtu(now, end.mtu);
            }
        });
    }

    /// Routes, other packets, and what a driver asks for.
    fn surroundings(&mut self, side: bool, what: u8) {
        let (own, peer) = (addr_of(self.v6, 1 + u8::from(side)), addr_of(self.v6, 2 - u8::from(side)));
        let second = addr_of(self.v6, 7);
        let prefix_len = if self.v6 { 120 } else { 24 };
        let link = |network, link, prefix_len| {
            Route::new(Cidr::up_to(network, prefix_len), Egress { link, mtu: 1280 })
        };
        let about = self.wire.front().map(|flying| flying.bytes().to_vec()).filter(|bytes| bytes.len() >= 40);
        self.call_with(side, "surroundings", |end, now| {
            match what % 8 {
                0 => {
                    let routes = vec![link(peer, 0, prefix_len), link(second, 1, prefix_len + 8)];
                    end.endpoint.set_link_routes(now, routes);
                }
                1 => end.endpoint.set_link_routes(now, Vec::new()),
                2 => {
                    end.endpoint.set_local_addresses(vec![own.into(), second.into()], vec![peer]);
                    let route = Route::new(Cidr::up_to(peer, prefix_len), second);
                    end.endpoint.set_source_routes(vec![route]);
                }
                3 => end.endpoint.request_traces(),
                4 => end.endpoint.reset_orphans(now),
                5 => end.endpoint.set_source_routes(Vec::new()),
                6 => end.endpoint.close_others(),
                _ => {}
            }
            let mut remotes = [second, own, peer, addr_of(false, 9), addr_of(true, 9)];
            end.endpoint.sort_destinations(&mut remotes);
            let other = end.endpoint.poll_other();
            let sent = about.map(|about| {
                let request = icmp_error(own, (if own.is_ipv4() { 8 } else { 128 }, 0), 7, &about);
                end.endpoint.send_other(now, &OtherPacket::new(request))
            });
            (remotes, other, sent, end.endpoint.has_other_room(), end.endpoint.take_reached())
        });
    }

    /// Takes the events that the endpoints report to their applications.
    pub(super) fn events(&mut self) {
        for end in &mut self.ends {
            while let Some(event) = end.endpoint.poll_event() {
                self.answers.told("event", &event);
                match event {
                    ackclock_core::Event::Incoming(_, id) => end.incoming.push(id),
                    ackclock_core::Event::IncomingGone(_, id) => end.incoming.retain(|one| *one != id),
                    _ => {}
                }
            }
        }
    }
}

/// A call of a connection.
#[derive(Clone, Copy)]
struct Call {
    what: u8,
    by: u8,
    span: Duration,
    on: bool,
}

impl Call {
    /// A setting, and what it is then.
    fn set(self, connection: &mut RecordedConnection<'_>, now: Instant) -> Option<String> {
        let Self { what, by, span, on } = self;
        Some(match what {
            4 => {
                connection.set_nodelay(now, on);
                text(connection.nodelay())
            }
            6 => text((connection.set_user_timeout(now, on.then_some(span)), connection.user_timeout())),
            7 => {
                connection.set_send_buffer_max(span.as_micros() as usize);
                text(connection.buffer_max())
            }
            8 => {
                connection.set_receive_buffer_max(span.as_micros() as usize);
                text(connection.buffer_capacity())
            }
            9 => {
                let keepalive = Keepalive { idle: span, interval: span, probes: 1 + u32::from(by % 4) };
                text((connection.set_keepalive(now, on.then_some(keepalive)), connection.keepalive()))
            }
            10 => {
                connection.set_quickack(on);
                text(connection.quickack())
            }
            11 => {
                let (_, recovery) = Recovery::ALL[usize::from(by) % Recovery::ALL.len()];
                connection.set_recovery(now, recovery);
                text(connection.recovery())
            }
            12 => {
                let set = connection.set_max_pacing_rate(now, on.then_some(u64::from(by) << 8));
                text((set, connection.max_pacing_rate()))
            }
            17 => text((connection.set_ttl(by), connection.ttl())),
            18 => text((connection.set_dscp(by % 64), connection.dscp())),
            19 => {
                connection.set_not_sent_lowat(on.then_some(u32::from(by) << 4));
                text((connection.not_sent_lowat(), connection.is_writable()))
            }
            _ => return None,
        })
    }

    /// Anything else that changes the connection.
    fn change(self, connection: &mut RecordedConnection<'_>, now: Instant) -> Option<String> {
        let Self { what, by, on, .. } = self;
        match what {
            0..3 => return Some(text(connection.shutdown(now))),
            3 => connection.abort(now),
            5 => connection.set_cork(now, on),
            13 => {
                let keep = [TraceKeep::All, TraceKeep::Newest, TraceKeep::Changes][usize::from(by) % 3];
                connection.set_trace(now, on.then_some(TraceConfig { records: usize::from(by), keep }));
                return Some(text(connection.trace_config()));
            }
            14 => return Some(text((connection.take_error(), connection.take_soft_error()))),
            15 => connection.set_more_follows(on),
            16 => connection.await_room(now),
            20 => return Some(text(connection.set_acks(ACKS[usize::from(by) % ACKS.len()]))),
            21 => connection.set_undo(if on { UndoChoice::ALL } else { UndoChoice::OFF }),
            22 => {
                let registry = Registry::with_experiments();
                let names: Vec<_> = registry.names().collect();
                let found = registry.find(names[usize::from(by) % names.len()]);
                connection.set_congestion(now, found.expect("a name of the registry"));
            }
            28 => {
                let written = connection.written();
                return Some(text((connection.await_delivered(written), connection.await_feedback(0))));
            }
            29 => {
                let rto = RtoConfig::find(RTO[usize::from(by) % RTO.len()]).expect("its words");
                return Some(text(connection.set_rto(now, rto)));
            }
            30 => connection.request_trace(),
            _ => return None,
        }
        Some(String::new())
    }

    /// A question.
    fn ask(self, connection: &RecordedConnection<'_>) -> String {
        match self.what {
            23 => text((connection.written(), connection.acked(), connection.not_sent())),
            24 => text((connection.is_read_closed(), connection.is_write_closed(), connection.is_flushed())),
            25 => text((connection.is_readable(), connection.readable(), connection.write_room())),
            26 => text((connection.urgent_remaining(), connection.peer_user_timeout(), connection.error())),
            27 => text(connection.read_slices().map(<[u8]>::len).collect::<Vec<_>>()),
            _ => text(connection.peek(&mut [0; 100])),
        }
    }
}

/// The result of a call, as text.
fn text(value: impl Debug) -> String {
    format!("{value:?}")
}

/// One of few ports, most of them the one that is listened on from the beginning.
pub(super) fn port_of(byte: u8) -> u16 {
    if byte % 4 < 3 { 80 } else { 81 + u16::from(byte / 4 % 4) }
}

/// The one of this number, counted round.
pub(super) fn nth(which: u8, len: usize) -> Option<usize> {
    (len > 0).then(|| usize::from(which) % len)
}

/// The bytes of every stream from `offset` on.
pub(super) fn pattern(offset: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|number| (offset.wrapping_add(number) % 251) as u8).collect()
}

const CONNS_MAX: usize = 12;
/// Bytes that a connection with early data writes when it opens.
const EARLY: usize = 700;
const ACKS: [AckPolicy; 3] = [
    AckPolicy::EVERY_SECOND,
    AckPolicy::BSD_4_3,
    AckPolicy::EverySecondByTick { tick: Duration::from_millis(200) },
];
const RTO: [&str; 5] = [
    "rfc6298",
    "rfc6298,min=1s,g=500ms",
    "rfc6298,arithmetic=ticks,g=100ms",
    "rfc6298,a1=1/2,heartbeat=on",
    "rfc6298,sampling=flight,max=3s",
];
const LISTENERS_MAX: usize = 6;
/// Longer than any timer of a connection that is left alone.
pub(super) const LONG: Duration = Duration::from_secs(1 << 20);
