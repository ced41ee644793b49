//! The messages as on the wire, and every rule that one can break.

use proptest::prelude::*;

use super::*;

fn mac() -> MacAddr {
    "02:00:00:00:00:09".parse().unwrap()
}

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// A message of this kind, for the tests of the link.
pub(crate) fn packet_of(src: Ipv6Addr, dst: Ipv6Addr, kind: u8, body: &[u8]) -> Vec<u8> {
    message(src, dst, kind, body)
}

/// A router advertisement with these options behind its fixed part.
fn router_advertisement(src: &str, options: &[u8]) -> Vec<u8> {
    let mut body = vec![64, 0, 0x07, 0x08, 0, 0, 0x75, 0x30, 0, 0, 0x03, 0xe8];
    body.extend_from_slice(options);
    message(ip(src), ALL_NODES, 134, &body)
}

/// The packet with byte `at` changed to `value` and the checksum right again.
fn changed(packet: &[u8], at: usize, value: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[at] = value;
    packet[42..44].fill(0);
    let (src, dst): ([u8; 16], [u8; 16]) =
        (packet[8..24].try_into().unwrap(), packet[24..40].try_into().unwrap());
    let sum = pseudo_header(Ipv6Addr::from(src).into(), Ipv6Addr::from(dst).into(), 58, packet.len() - 40);
    let checksum = sum.plus_bytes(&packet[40..]).checksum();
    packet[42..44].copy_from_slice(&checksum.to_be_bytes());
    packet
}

#[test]
fn questions_and_answers_survive_their_bytes() {
    let (src, target) = (ip("fe80::1"), ip("fd09::2"));
    let question = solicit(src, solicited_node(target), target, mac());
    assert!(Nd::is_in(&question));
    assert_eq!(Nd::parse(&question), Ok(Nd::Solicitation { src, target, source_mac: Some(mac()) }));

    let probe = solicit(Ipv6Addr::UNSPECIFIED, solicited_node(target), target, mac());
    let expected = Nd::Solicitation { src: Ipv6Addr::UNSPECIFIED, target, source_mac: None };
    assert_eq!(Nd::parse(&probe), Ok(expected));

    let answer = advertise(src, target, mac(), true);
    let told =
        Advertisement { target, target_mac: Some(mac()), is_router: false, solicited: true, overrides: true };
    assert_eq!(Nd::parse(&answer), Ok(Nd::Advertisement(told)));
    assert_eq!(Nd::parse(&solicit_routers(src, mac())), Ok(Nd::Ignored));
}

#[test]
fn a_router_advertisement_is_read_with_its_options() {
    let mut options = mac_option(SOURCE_MAC, mac()).to_vec();
    options.extend([5, 1, 0, 0, 0, 0, 0x05, 0x78]);
    options.extend([3, 4, 64, 0xc0, 0, 0, 0x0e, 0x10, 0, 0, 0x07, 0x08, 0, 0, 0, 0]);
    options.extend(ip("2001:db8::").octets());
    options.extend([200, 1, 0, 0, 0, 0, 0, 0]);
    let prefix = AdvertisedPrefix {
        prefix: ip("2001:db8::"),
        len: 64,
        on_link: true,
        autonomous: true,
        valid_s: 3600,
        preferred_s: 1800,
    };
    let expected = RouterAdvertisement {
        src: ip("fe80::1"),
        source_mac: Some(mac()),
        lifetime_s: 1800,
        reachable_ms: 30_000,
        retransmit_ms: 1000,
        mtu: Some(1400),
        prefixes: vec![prefix],
    };
    assert_eq!(Nd::parse(&router_advertisement("fe80::1", &options)), Ok(Nd::Router(expected)));
}

#[test]
fn a_message_that_a_router_has_forwarded_is_malformed() {
    // RFC 4861 §7.1.1: the hop limit is 255, or the message comes from off the link.
    let question = solicit(ip("fe80::1"), solicited_node(ip("fd09::2")), ip("fd09::2"), mac());
    for hop_limit in [0, 1, 64, 254] {
        assert_eq!(Nd::parse(&changed(&question, 7, hop_limit)), Err(Malformed), "{hop_limit}");
    }
    assert!(Nd::parse(&changed(&question, 7, 255)).is_ok());
}

#[test]
fn wrong_checksums_codes_and_lengths_are_malformed() {
    let question = solicit(ip("fe80::1"), solicited_node(ip("fd09::2")), ip("fd09::2"), mac());
    let mut damaged = question.clone();
    damaged[50] ^= 1;
    assert_eq!(Nd::parse(&damaged), Err(Malformed), "checksum");
    assert_eq!(Nd::parse(&changed(&question, 41, 1)), Err(Malformed), "code");
    assert_eq!(Nd::parse(&changed(&question, 65, 0)), Err(Malformed), "an option of no length");
    assert_eq!(Nd::parse(&changed(&question, 65, 2)), Err(Malformed), "an option beyond the end");
    for len in 0..question.len() {
        assert_eq!(Nd::parse(&question[..len]), Err(Malformed), "{len} bytes");
    }
}

#[test]
fn addresses_that_cannot_be_are_malformed() {
    let group = ip("ff02::1");
    let refused = |packet: &[u8], why: &str| assert_eq!(Nd::parse(packet), Err(Malformed), "{why}");
    refused(&solicit(ip("fe80::1"), group, group, mac()), "a question for a group");
    refused(&advertise(ip("fe80::1"), group, mac(), true), "an answer for a group");
    refused(&advertise(ALL_NODES, ip("fd09::2"), mac(), true), "an answer to all that was asked for");
    refused(&solicit(Ipv6Addr::UNSPECIFIED, ALL_NODES, ip("fd09::2"), mac()), "a probe to all");
    let mut told = vec![0; 4];
    told.extend(ip("fd09::2").octets());
    told.extend(mac_option(SOURCE_MAC, mac()));
    let probe = message(Ipv6Addr::UNSPECIFIED, solicited_node(ip("fd09::2")), NEIGHBOUR_SOLICITATION, &told);
    refused(&probe, "a probe with an address");
    refused(&advertise(ip("fe80::1"), ip("fd09::2"), MacAddr::BROADCAST, true), "the address of a group");
    refused(
        &router_advertisement("2001:db8::1", &[]),
        "a router that does not speak from its link-local address",
    );
}

#[test]
fn an_advertisement_with_many_prefixes_is_read_up_to_the_bound() {
    let mut options = Vec::new();
    for network in 0..100u8 {
        options.extend([3, 4, 64, 0xc0, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 0]);
        options.extend(Ipv6Addr::new(0x2001, 0xdb8, 0, network.into(), 0, 0, 0, 0).octets());
    }
    let Ok(Nd::Router(told)) = Nd::parse(&router_advertisement("fe80::1", &options)) else { panic!() };
    assert_eq!(told.prefixes.len(), PREFIXES_MAX);
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(kind in 133u8..=137, body in prop::collection::vec(any::<u8>(), 0..200)) {
        // With a valid checksum, so that the parser gets past it.
        let packet = message(ip("fe80::1"), ALL_NODES, kind, &body);
        prop_assert!(Nd::is_in(&packet));
        let _ = Nd::parse(&packet);
    }

    #[test]
    fn no_damage_makes_the_parser_panic(at in 0usize..72, value: u8, len in 0usize..=72) {
        let question = solicit(ip("fe80::1"), solicited_node(ip("fd09::2")), ip("fd09::2"), mac());
        let damaged = changed(&question, at, value);
        let _ = Nd::parse(&damaged[..len]);
    }
}
