//! Opening: RFC 9293 §3.4.1, §3.5, §3.9.1.1.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ackclock_core::{
    ConnectError, ConnectionError, EndpointConfig, Instant, ListenAddr, ListenError, ListenOptions,
    ReadError, State, TcpConfig,
};
use ackclock_tests::host::{Host, host_addr};
use ackclock_tests::script::{Script, Setup, modern_options, peer_syn};
use ackclock_tests::segment::{ACK, Frame, Opt, PSH, RST, SYN, seg};

// Tests: RFC 9293 MUST-8
#[test]
fn initial_sequence_number_of_a_tuple_grows_every_4_microseconds() {
    let iss = |at| Script::connecting(&Setup { start: at, ..Setup::default() }).iss.unwrap();
    let first = Instant::from_millis(1_000);
    for micros in [4, 1_000, 1_000_000, 3_600_000_000, 40_000_000_000] {
        let later = iss(first + Duration::from_micros(micros));
        assert_eq!(later.wrapping_sub(iss(first)), (micros / 4) as u32, "after {micros} µs");
    }
}

// Tests: RFC 9293 MUST-9
// Tests: RFC 9293 SHLD-1
#[test]
fn initial_sequence_numbers_depend_on_secret_and_tuple() {
    let base = Setup::default();
    let with_secret =
        |config: fn(&mut EndpointConfig)| Script::connecting(&Setup { config, ..base.clone() }).iss.unwrap();
    let first = with_secret(|c| c.secret = [1; 32]);
    let second = with_secret(|c| c.secret = [2; 32]);
    assert!(first.abs_diff(second) > 1 << 16, "{first} and {second} for different secrets");

    let config = EndpointConfig::new(vec![host_addr(false, 1)], [7; 32]);
    let mut host = Host::new(config, base.start);
    let mut numbers: Vec<u32> = (0..64)
        .map(|port| {
            let remote = SocketAddr::new(host_addr(false, 2), 1000 + port);
            host.endpoint.connect(host.now, remote, (None, 5000), None).expect("a tuple of its own");
            host.transmit()[0].seg.seq
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 64);
    let spread = numbers[63] - numbers[0];
    assert!(spread > 1 << 30, "numbers of 64 tuples within {spread}");
}

// Tests: RFC 9293 MUST-9
#[test]
fn secret_is_not_printed() {
    let printed = |secret| {
        let config = EndpointConfig::new(vec![host_addr(false, 1)], [secret; 32]);
        (format!("{config:?}"), format!("{:?}", Host::new(config, Instant::ZERO).endpoint))
    };
    // An endpoint keeps keys derived from the secret, so what must not be seen cannot be named.
    assert_eq!(printed(0xa7), printed(0x7a));
}

// Tests: RFC 9293 MUST-10
#[test]
fn simultaneous_open_reaches_established() {
    let setup = Setup::default();
    let mut s = Script::connecting(&setup);
    assert_eq!(s.sent().flags, SYN);
    s.peer(peer_syn(&setup));
    let answer = s.sent();
    assert_eq!((answer.flags, answer.seq, answer.ack), (SYN | ACK, 0, 1));
    assert_eq!(s.state(), State::SynReceived);
    // RFC 9293 Figure 7: the peer's SYN-ACK crosses ours; its SYN is old, its ACK counts or is asked for
    // again.
    s.peer(peer_syn(&setup).ack(1));
    s.peer_ack(1, 1);
    assert_eq!(s.state(), State::Established);
    assert!(s.take_sent().len() <= 1, "a packet war");
    s.peer(seg(PSH).seq(1).ack(1).data(b"hello"));
    assert_eq!(s.read(10), b"hello");
}

#[test]
fn windows_of_syns_are_never_shifted() {
    // RFC 7323 §2.2, of either end's: 3,000 bytes are 3,000, with whatever shift is agreed on.
    let tcp = TcpConfig { receive_buffer_initial: 30_000, ..TcpConfig::default() };
    let setup = Setup { peer_options: modern_options(7), peer_window: 3_000, tcp, ..Setup::default() };
    let mut s = Script::connecting(&setup);
    assert_eq!(s.sent().window, 30_000);
    s.peer(peer_syn(&setup));
    assert_eq!(s.sent().window, 30_000, "the SYN-ACK of a crossing");
    assert_eq!(s.info().snd_wnd, 3_000, "a SYN that crossed ours");
    let s = Script::connected(&setup);
    assert_eq!(s.info().snd_wnd, 3_000, "a SYN-ACK");
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup));
    assert_eq!(s.sent().window, 30_000, "the SYN-ACK of a listener");
    let s = Script::accepted(&setup);
    assert_eq!(s.info().snd_wnd, 3_000 << 7, "what follows the handshake is shifted");
}

#[test]
fn crossing_syn_that_shifts_by_zero_is_answered_with_our_shift() {
    // RFC 7323 §2.2: a shift of zero is an offer, too.
    for (options, agreed) in [(modern_options(0), true), (vec![Opt::Mss(1460)], false)] {
        let setup = Setup { peer_options: options, ..Setup::default() };
        let mut s = Script::connecting(&setup);
        let offered = s.sent().window_scale().filter(|&shift| shift > 0);
        assert!(offered.is_some(), "a buffer that needs a shift");
        s.peer(peer_syn(&setup));
        assert_eq!(s.sent().window_scale(), offered.filter(|_| agreed));
    }
}

// Tests: RFC 9293 MUST-10
#[test]
fn simultaneous_open_survives_the_loss_of_the_syn_ack() {
    let setup = Setup::default();
    let mut s = Script::connecting(&setup);
    s.sent();
    s.peer(peer_syn(&setup));
    assert_eq!(s.sent().flags, SYN | ACK);
    // Ours was lost; so was the peer's.
    let (after, again) = s.wait(Duration::from_secs(5)).expect("the SYN-ACK again");
    assert_eq!((again.flags, again.seq, again.ack), (SYN | ACK, 0, 1));
    assert!(after >= Duration::from_millis(900), "{after:?}");
    s.peer_ack(1, 1);
    assert_eq!(s.state(), State::Established);
}

/// RFC 9293 §3.10.7.4, first: a peer whose listener took our late SYN for a new connection answers with
/// another number. An acknowledgement without SYN shows the mistake, and draws a reset.
#[test]
fn another_syn_in_simultaneous_open_is_answered_without_a_syn() {
    let setup = Setup::default();
    for flags in [SYN | ACK, SYN] {
        let mut s = Script::connecting(&setup);
        s.peer(peer_syn(&setup));
        s.take_sent();
        s.peer(seg(flags).seq(5_000).ack(1));
        let answer = s.sent();
        assert_eq!((answer.flags, answer.seq, answer.ack), (ACK, 1, 1));
        assert_eq!(s.state(), State::SynReceived);
        s.peer(seg(RST).seq(1));
        assert_eq!((s.state(), s.error()), (State::Closed, Some(ConnectionError::Refused)));
    }
}

// Tests: RFC 9293 MUST-11
#[test]
fn reset_of_a_half_open_connection_returns_a_listener_to_listen() {
    let setup = Setup::default();
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup));
    s.sent();
    s.peer(seg(RST).seq(1));
    s.nothing();
    assert_eq!(s.try_accept(), None);
    // The endpoint has forgotten it: the last ACK of that handshake is refused, and a new handshake works.
    s.peer(seg(ACK).seq(1).ack(1));
    s.expect_rst(1);
    s.peer(peer_syn(&setup));
    assert!(s.sent().has(SYN | ACK));
    s.peer_ack(1, 1);
    s.accept();
}

// Tests: RFC 9293 MUST-11
#[test]
fn reset_in_simultaneous_open_is_a_refusal() {
    let setup = Setup::default();
    let mut s = Script::connecting(&setup);
    s.peer(peer_syn(&setup));
    s.take_sent();
    s.peer(seg(RST).seq(1));
    s.nothing();
    assert_eq!((s.state(), s.error()), (State::Closed, Some(ConnectionError::Refused)));
}

#[test]
fn reset_that_acknowledges_the_syn_refuses_the_connection() {
    let mut s = Script::connecting(&Setup::default());
    s.take_sent();
    s.peer(seg(RST).seq(0).ack(1));
    assert_eq!(s.error(), Some(ConnectionError::Refused));
    assert_eq!(s.try_read(), Err(ReadError::Connection(ConnectionError::Refused)));
    s.nothing();
}

// Tests: RFC 9293 MUST-41
#[test]
fn listening_does_not_touch_live_connections() {
    let mut s = Script::accepted(&Setup::default());
    let addr = ListenAddr { addr: Some(s.local.ip()), port: Some(s.local.port()) };
    let again = s.host.endpoint.listen(s.host.now, ListenOptions::new(addr));
    assert_eq!(again, Err(ListenError::AddressInUse));
    let elsewhere = ListenAddr { addr: Some(host_addr(false, 99)), port: Some(80) };
    let nowhere = s.host.endpoint.listen(s.host.now, ListenOptions::new(elsewhere));
    assert_eq!(nowhere, Err(ListenError::NotLocal(host_addr(false, 99))));
    let listener = s.listener.take().unwrap();
    s.host.endpoint.close_listener(s.host.now, listener);
    s.host.endpoint.listen(s.host.now, ListenOptions::new(addr)).expect("the port is free again");
    s.drain();
    s.nothing();
    s.peer(seg(PSH).seq(1).ack(1).data(b"still here"));
    assert_eq!(s.read(20), b"still here");
}

// Tests: RFC 9293 MUST-42
#[test]
fn port_of_a_connection_being_opened_can_be_listened_on() {
    let setup = Setup::default();
    let mut s = Script::connecting(&setup);
    s.take_sent();
    let addr = ListenAddr { addr: Some(s.local.ip()), port: Some(s.local.port()) };
    s.host.endpoint.listen(s.host.now, ListenOptions::new(addr)).expect("no other listener");
    s.peer(peer_syn(&setup).ack(1));
    s.expect_ack(1);
    assert_eq!(s.state(), State::Established);
}

// Tests: RFC 9293 MUST-43
// Tests: RFC 9293 MUST-44
// Tests: RFC 9293 MUST-45
#[test]
fn source_address_is_chosen_once_and_kept() {
    let addresses = vec![host_addr(true, 1), host_addr(false, 1), host_addr(false, 3)];
    let mut host = Host::new(EndpointConfig::new(addresses, [7; 32]), Instant::from_millis(1));
    let remote = SocketAddr::new(host_addr(false, 2), 80);
    host.endpoint.connect(host.now, remote, (Some(host_addr(false, 3)), 0), None).expect("a local address");
    assert_eq!(host.transmit()[0].src.ip(), host_addr(false, 3), "the address asked for");
    host.endpoint.connect(host.now, remote, (None, 0), None).expect("an address of the family");
    let syn = host.transmit().remove(0);
    assert!(syn.src.is_ipv4(), "an address of the peer's family");

    host.endpoint.set_addresses(vec![host_addr(false, 77)]);
    let answer = seg(SYN).seq(5).ack(syn.seg.seq.wrapping_add(1));
    host.receive(&Frame::new(syn.dst, syn.src, answer).to_bytes());
    assert_eq!(host.transmit()[0].src, syn.src, "a connection keeps its address");
}

// Tests: RFC 9293 MUST-46
#[test]
fn address_that_is_no_peer_is_refused_without_a_packet() {
    let mut config = EndpointConfig::new(vec![host_addr(false, 1), host_addr(true, 1)], [7; 32]);
    config.broadcast = vec!["10.0.0.255".parse().unwrap()];
    let mut host = Host::new(config, Instant::from_millis(1));
    let invalid = ["0.0.0.0:80", "224.0.0.1:80", "239.255.255.250:80", "255.255.255.255:80", "10.0.0.255:80"];
    for remote in invalid.into_iter().chain(["[::]:80", "[ff02::1]:80", "10.0.0.2:0"]) {
        let remote: SocketAddr = remote.parse().unwrap();
        let refused = host.endpoint.connect(host.now, remote, (None, 0), None);
        assert_eq!(refused, Err(ConnectError::InvalidRemote(remote)));
    }
    assert_eq!(host.transmit(), []);
    assert_eq!(host.endpoint.connections().count(), 0);
}

// Tests: RFC 9293 MUST-57
// Tests: RFC 9293 MUST-63
#[test]
fn syn_from_or_to_an_address_that_is_no_host_is_ignored() {
    let setup = Setup { config: |c| c.broadcast = vec!["10.0.0.255".parse().unwrap()], ..Setup::default() };
    let sources =
        ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "10.0.0.255"];
    let targets = ["224.0.0.1", "255.255.255.255", "10.0.0.255"];
    let v4 = sources.map(|src| (src, "10.0.0.1")).into_iter().chain(targets.map(|dst| ("10.0.0.2", dst)));
    let v6 = [("::", "fd00::1"), ("::1", "fd00::1"), ("ff02::1", "fd00::1"), ("fd00::2", "ff02::1")];
    for (src, dst) in v4.chain(v6) {
        let (src, dst): (IpAddr, IpAddr) = (src.parse().unwrap(), dst.parse().unwrap());
        let mut s = Script::listening(&Setup { v6: src.is_ipv6(), ..setup.clone() });
        let frame = Frame::new(SocketAddr::new(src, 4242), SocketAddr::new(dst, 80), seg(SYN).seq(9));
        s.host.receive(&frame.to_bytes());
        assert_eq!(s.host.transmit(), [], "{src} to {dst}");
    }
}

// Tests: RFC 9293 MUST-22
// Tests: RFC 9293 MUST-23
#[test]
fn unanswered_syn_is_sent_again_with_backoff_for_three_minutes_at_least() {
    let mut s = Script::connecting(&Setup::default());
    let start = s.now();
    s.sent();
    let mut gaps = Vec::new();
    while let Some((gap, syn)) = s.wait(Duration::from_secs(600)) {
        assert_eq!((syn.flags, syn.seq), (SYN, 0));
        gaps.push(gap);
        assert!(gaps.len() < 50);
    }
    // RFC 6298 §2.1: one second before the first measurement; then doubled each time up to the maximum.
    assert!((900..=1_500).contains(&gaps[0].as_millis()), "{gaps:?}");
    for pair in gaps.windows(2) {
        let doubled = pair[1] >= pair[0] * 19 / 10 || pair[1] >= Duration::from_secs(60);
        assert!(doubled, "no backoff: {gaps:?}");
    }
    assert_eq!((s.state(), s.error()), (State::Closed, Some(ConnectionError::TimedOut)));
    let until_last: Duration = gaps.iter().sum();
    assert!(until_last >= Duration::from_secs(60), "{gaps:?}");
    assert_eq!(s.host.next_timeout(), None, "nothing is left to do");
    assert!(s.now() >= start + Duration::from_secs(180));
}

// Tests: RFC 9293 MUST-23
#[test]
fn connect_is_not_given_up_before_three_minutes() {
    let mut s = Script::connecting(&Setup::default());
    s.advance(Duration::from_millis(179_900));
    assert_eq!((s.state(), s.error()), (State::SynSent, None));
}
