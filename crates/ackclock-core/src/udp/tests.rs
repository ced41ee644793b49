use ackclock_wire::Codepoint;

use super::*;
use crate::budget::Budget;

const LOCAL: &str = "10.0.0.1:53";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn bound(addr: Option<&str>, port: Option<u16>) -> Socket {
    Socket::new(UdpOptions::new(ListenAddr { addr: addr.map(|addr| addr.parse().unwrap()), port }))
}

fn datagram(from: &str, payload: &[u8]) -> Datagram {
    let lease = Budget::new(1 << 20).try_lease(payload.len()).unwrap();
    Datagram { from: at(from), to: at(LOCAL), ecn: Codepoint::NotEct, payload: payload.to_vec(), lease }
}

#[test]
fn the_most_specific_name_takes_a_datagram() {
    let mut sockets = Sockets::default();
    let any = sockets.insert(bound(None, None)).unwrap();
    let port = sockets.insert(bound(None, Some(53))).unwrap();
    let addr = sockets.insert(bound(Some("10.0.0.1"), None)).unwrap();
    let both = sockets.insert(bound(Some("10.0.0.1"), Some(53))).unwrap();
    let find = |local| sockets.find(at(local), at("10.0.0.9:9"));
    assert_eq!(find("10.0.0.1:53"), Some(both));
    assert_eq!(find("10.0.0.1:54"), Some(addr));
    assert_eq!(find("10.0.0.2:53"), Some(port));
    assert_eq!(find("10.0.0.2:54"), Some(any));
    assert_eq!(sockets.insert(bound(None, Some(53))), Err(UdpSocketError::AddressInUse));
    sockets.remove(both);
    assert_eq!(sockets.find(at("10.0.0.1:53"), at("10.0.0.9:9")), Some(addr));
}

#[test]
fn a_connected_socket_leaves_others_datagrams_to_the_next() {
    let mut sockets = Sockets::default();
    let any = sockets.insert(bound(None, Some(53))).unwrap();
    let connected = sockets.insert(bound(Some("10.0.0.1"), Some(53))).unwrap();
    let peer = (at("10.0.0.9:9"), "10.0.0.1".parse().unwrap());
    sockets.update(connected, |socket| socket.connect(Some(peer)));
    assert_eq!(sockets.find(at(LOCAL), at("10.0.0.9:9")), Some(connected));
    assert_eq!(sockets.find(at(LOCAL), at("10.0.0.9:10")), Some(any));
    sockets.update(connected, |socket| socket.connect(None));
    assert_eq!(sockets.find(at(LOCAL), at("10.0.0.9:10")), Some(connected));
}

#[test]
fn a_full_socket_refuses_until_something_is_read() {
    let mut socket = bound(None, Some(53));
    let each = 1000 + UdpOptions::DATAGRAM_OVERHEAD;
    let fit = (256 << 10) / each;
    let taken = (0..fit + 10).filter(|_| socket.receive(datagram("10.0.0.9:9", &[0; 1000]))).count();
    assert_eq!(taken, fit);
    socket.read(&mut [0; 1000], false).unwrap();
    assert!(socket.receive(datagram("10.0.0.9:9", &[0; 1000])));
    assert!(!socket.receive(datagram("10.0.0.9:9", &[0; 1000])));
}

#[test]
fn empty_datagrams_are_bounded_too() {
    let mut socket = bound(None, Some(53));
    let taken = (0..100_000).filter(|_| socket.receive(datagram("10.0.0.9:9", b""))).count();
    assert_eq!(taken, (256 << 10) / UdpOptions::DATAGRAM_OVERHEAD);
    assert_eq!(socket.read(&mut [], false).unwrap().len, 0);
}

#[test]
fn datagrams_of_one_size_are_read_at_once_and_a_shorter_one_ends_them() {
    let mut socket = bound(None, Some(53));
    for (from, payload) in [
        ("10.0.0.9:9", &b"aaaa"[..]),
        ("10.0.0.9:9", b"bbbb"),
        ("10.0.0.9:9", b"cc"),
        ("10.0.0.9:9", b"dddd"),
        ("10.0.0.9:10", b"eeee"),
    ] {
        socket.receive(datagram(from, payload));
    }
    let mut buf = [0; 100];
    let mut read = |socket: &mut Socket| {
        let meta = socket.read(&mut buf, true).unwrap();
        (buf[..meta.len].to_vec(), meta.stride, meta.from)
    };
    assert_eq!(read(&mut socket), (b"aaaabbbbcc".to_vec(), 4, at("10.0.0.9:9")));
    assert_eq!(read(&mut socket), (b"dddd".to_vec(), 4, at("10.0.0.9:9")), "another peer's stays apart");
    assert_eq!(read(&mut socket), (b"eeee".to_vec(), 4, at("10.0.0.9:10")));
    assert_eq!(socket.read(&mut [0; 4], true), Err(UdpSocketError::WouldBlock));
}

#[test]
fn what_does_not_fit_stays_and_what_is_longer_than_the_buffer_is_cut() {
    let mut socket = bound(None, Some(53));
    assert!((0..3).all(|_| socket.receive(datagram("10.0.0.9:9", b"four"))));
    assert_eq!(socket.peek(&mut [0; 2]).map(|meta| (meta.len, meta.truncated)), Ok((2, true)));
    assert_eq!(socket.read(&mut [0; 9], true).map(|meta| meta.len), Ok(8));
    assert_eq!(socket.read(&mut [0; 3], true).map(|meta| (meta.len, meta.truncated)), Ok((3, true)));
    assert!(!socket.is_readable());
}

#[test]
fn an_error_is_told_once_and_readiness_of_each_socket_once() {
    let mut sockets = Sockets::default();
    let id = sockets.insert(bound(None, Some(53))).unwrap();
    sockets.update(id, |socket| socket.fail_once(UdpSocketError::Refused));
    sockets.update(id, |socket| socket.receive(datagram("10.0.0.9:9", b"x")));
    assert_eq!(sockets.poll_changed(), Some((id, UdpReadiness { readable: true, writable: true })));
    assert_eq!(sockets.poll_changed(), None);
    let read = |sockets: &mut Sockets| sockets.update(id, |socket| socket.read(&mut [0; 9], false)).unwrap();
    assert_eq!(read(&mut sockets), Err(UdpSocketError::Refused));
    assert_eq!(read(&mut sockets).map(|meta| meta.len), Ok(1));
}

#[test]
fn room_to_send_is_told_of_who_was_refused() {
    let mut socket = bound(None, Some(53));
    let mut queued = 0;
    while socket.is_writable() {
        socket.on_queued(1000);
        queued += 1;
    }
    assert_eq!(queued, (256_usize << 10).div_ceil(1000 + UdpOptions::DATAGRAM_OVERHEAD));
    assert!(socket.readiness().is_empty());
    socket.on_left(1000);
    assert!(socket.readiness().writable);
    assert!(socket.is_writable());
}

#[test]
fn a_socket_is_writable_again_as_soon_as_less_waits_than_its_buffer_holds() {
    let send_buffer_max = 2 * (100 + UdpOptions::DATAGRAM_OVERHEAD);
    let name = ListenAddr { addr: None, port: Some(53) };
    let mut socket = Socket::new(UdpOptions { send_buffer_max, ..UdpOptions::new(name) });
    socket.on_queued(100);
    assert!(socket.is_writable());
    socket.on_queued(100);
    assert!(!socket.is_writable(), "exactly as much as it holds");
    socket.on_queued(100);
    socket.on_left(100);
    assert!(!socket.take_readiness().writable);
    socket.on_left(100);
    assert!(socket.take_readiness().writable && socket.is_writable());
}
