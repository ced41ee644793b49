//! What applications call.

use std::net::SocketAddr;
use std::time::Duration;

use ackclock_control::profile::Recovery;
use ackclock_core::{Decision, Keepalive, ListenAddr, ListenOptions, UdpOptions, UdpTransmit, Unreachable};
use ackclock_wire::Codepoint;

use super::{Conn, World, addr_of, scene};

impl World {
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
        let local = (None, if local < 64 { 4000 + u16::from(local % 4) } else { 0 });
        self.with(side, |end, now| {
            if end.conns.len() < CONNS_MAX
                && let Ok(id) = end.endpoint.connect(now, remote, local, None)
            {
                end.conns.push(Conn { id, read: 0, written: 0 });
            }
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
        self.with(side, |end, now| {
            let Some(at) = nth(which, end.listeners.len()) else { return };
            if end.conns.len() < CONNS_MAX
                && let Some(id) = end.endpoint.accept(now, end.listeners[at])
            {
                end.conns.push(Conn { id, read: 0, written: 0 });
            }
        });
    }

    pub(super) fn decide(&mut self, side: bool, which: u8, how: u8) {
        let decision = match how % 8 {
            0 => Decision::Reset,
            1 => Decision::Unreachable(Unreachable::Host),
            2 => Decision::Drop,
            _ => Decision::Accept,
        };
        self.with(side, |end, now| {
            if let Some(at) = nth(which, end.incoming.len()) {
                end.endpoint.decide(now, end.incoming.swap_remove(at), decision);
            }
        });
    }

    pub(super) fn write(&mut self, side: bool, which: u8, len: u16) {
        self.with(side, |end, now| {
            let Some(at) = nth(which, end.conns.len()) else { return };
            let conn = &mut end.conns[at];
            if conn.written > WRITTEN_MAX {
                return;
            }
            let data = pattern(conn.written, usize::from(len) >> (len % 4));
            let written = end.endpoint.update(now, conn.id, |connection, now| connection.write(now, &data));
            if let Some(Ok(count)) = written {
                conn.written = conn.written.wrapping_add(count as u32);
            }
        });
    }

    pub(super) fn read(&mut self, side: bool, which: u8, len: u16) {
        let noisy = self.noisy;
        self.with(side, |end, now| {
            let Some(at) = nth(which, end.conns.len()) else { return };
            let conn = &mut end.conns[at];
            let mut into = vec![0; usize::from(len)];
            let read = end.endpoint.update(now, conn.id, |connection, now| connection.read(now, &mut into));
            if let Some(Ok(count)) = read {
                let right = noisy || into[..count] == pattern(conn.read, count);
                assert!(right, "other bytes at {} of {:?}", conn.read, conn.id);
                conn.read = conn.read.wrapping_add(count as u32);
            }
        });
    }

    /// Whatever else an application calls.
    pub(super) fn call(&mut self, side: bool, which: u8, what: u8, by: u8) {
        let span = scene::duration(by);
        let on = by.is_multiple_of(2);
        self.with(side, |end, now| {
            let Some(at) = nth(which, end.conns.len()) else { return };
            end.endpoint.update(now, end.conns[at].id, |connection, now| match what % 20 {
                0..3 => ignore(connection.shutdown(now)),
                3 => connection.abort(now),
                4 => connection.set_nodelay(now, on),
                5 => connection.set_cork(now, on),
                6 => ignore(connection.set_user_timeout(now, on.then_some(span))),
                7 => connection.set_send_buffer_max(span.as_micros() as usize),
                8 => connection.set_receive_buffer_max(span.as_micros() as usize),
                9 => {
                    let keepalive = Keepalive { idle: span, interval: span, probes: 1 + u32::from(by % 4) };
                    ignore(connection.set_keepalive(now, on.then_some(keepalive)));
                }
                10 => connection.set_quickack(on),
                11 => {
                    let (_, recovery) = Recovery::ALL[usize::from(by) % Recovery::ALL.len()];
                    connection.set_recovery(now, recovery);
                }
                12 => ignore(connection.set_max_pacing_rate(now, on.then_some(u64::from(by) << 8))),
                13 => ignore(connection.write_urgent(now, &[])),
                14 => ignore(connection.take_error().map(|_| connection.take_soft_error())),
                15 => connection.set_more_follows(on),
                16 => connection.await_room(),
                17 => ignore(connection.set_ttl(by)),
                18 => ignore(connection.set_dscp(by % 64)),
                _ => ignore(connection.peek(&mut [0; 100])),
            });
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
        let contents = vec![7; usize::from(len % 4000)];
        self.with(side, |end, now| {
            let Some(&id) = end.udp.first() else { return };
            let transmit = UdpTransmit {
                contents: &contents,
                to: Some(to),
                from: None,
                segment_size: None,
                ecn: Codepoint::NotEct,
            };
            ignore(end.endpoint.udp_send(now, id, &transmit));
            ignore(end.endpoint.udp_receive(id, &mut [0; 500], len.is_multiple_of(2)));
            ignore(end.endpoint.udp_take_error(id));
        });
    }

    /// The device of a side changes.
    pub(super) fn device(&mut self, side: bool, what: u8) {
        let own = addr_of(self.v6, if side { 2 } else { 1 });
        let second = addr_of(self.v6, 7);
        self.with(side, |end, now| match what % 4 {
            0 => end.endpoint.set_addresses(vec![own]),
            1 => end.endpoint.set_addresses(vec![own, second]),
            _ => {
                end.mtu = [1280, 1500, 4000, 9000][usize::from(what / 64)];
                end.endpoint.set_mtu(now, end.mtu);
            }
        });
    }

    /// What the endpoints tell their applications.
    pub(super) fn events(&mut self) {
        for end in &mut self.ends {
            while let Some(event) = end.endpoint.poll_event() {
                match event {
                    ackclock_core::Event::Incoming(_, id) => end.incoming.push(id),
                    ackclock_core::Event::IncomingGone(_, id) => end.incoming.retain(|one| *one != id),
                    _ => {}
                }
            }
        }
    }
}

/// Whatever comes of a call is one of the things that may.
fn ignore<T>(_: T) {}

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

/// What an application writes to a connection, and one write more: segments of it are to be paid for.
const WRITTEN_MAX: u32 = 200_000;
const CONNS_MAX: usize = 12;
const LISTENERS_MAX: usize = 6;
/// Longer than any timer of a connection that is left alone.
pub(super) const LONG: Duration = Duration::from_secs(1 << 20);
