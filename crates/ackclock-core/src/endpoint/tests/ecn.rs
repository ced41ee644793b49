//! ECN negotiations that pass through half-open records and cookies.

use ackclock_control::profile::{Choices, Ecn};

use super::*;

/// The agreement of a connection whose SYN has the first of these ECN flags, and the last acknowledgement of
/// its handshake the second.
fn agreed(
    host: &mut Host,
    listener: ListenerId,
    port: u16,
    timestamps: bool,
    offer: u8,
    third: u8,
) -> Option<Ecn> {
    let mut syn = if timestamps { syn_with_all_options(1000, 77) } else { syn(1000) };
    syn.flags = syn.flags | Flags::from_ace(offer);
    let syn_ack = host.from(port, syn).remove(0);
    let mut last = ack(1001, syn_ack.seq + 1);
    last.flags = last.flags | Flags::from_ace(third);
    if let Some((value, _)) = syn_ack.options.timestamps {
        last = with_timestamps(last, 80, value);
    }
    host.from(port, last);
    let id = host.endpoint.accept(host.now, listener).unwrap();
    host.endpoint.connection(id).unwrap().info(host.now).ecn.map(|ecn| ecn.form)
}

/// RFC 9768 §3.2.2.1: the form need not be in the cookie, since the acknowledgement carries it. Without
/// timestamps there is no room for any of it.
#[test]
fn cookie_with_timestamps_carries_the_agreement() {
    let tcp = TcpConfig { choices: Choices { ecn: Ecn::Accurate, ..tcp_config().choices }, ..tcp_config() };
    for (timestamps, flood) in [(true, false), (false, false), (true, true), (false, true)] {
        let options = ListenOptions { tcp: Some(tcp.clone()), syn_backlog: 1, ..on_port(PORT) };
        let (mut host, listener) = Host::listening(options);
        if flood {
            host.from(3000, syn(1));
        }
        let room = timestamps || !flood;
        let mut agreed = |port, offer, third| agreed(&mut host, listener, port, timestamps, offer, third);
        assert_eq!(agreed(4000, 0b111, 0b010), room.then_some(Ecn::Accurate));
        assert_eq!(agreed(4001, 0b011, 0b000), room.then_some(Ecn::Classic));
        assert_eq!(agreed(4002, 0b000, 0b000), None);
        assert_eq!(host.endpoint.counters().cookies_accepted, if flood { 3 } else { 0 });
    }
}

#[test]
fn cookie_of_a_listener_without_ecn_agrees_on_none() {
    let (mut host, listener) = Host::listening(ListenOptions { syn_backlog: 1, ..on_port(PORT) });
    host.from(3000, syn(1));
    assert_eq!(agreed(&mut host, listener, 4000, true, 0b111, 0b010), None);
}
