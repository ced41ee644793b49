//! ARP for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use etherparse::{ArpEthIpv4Packet, ArpHardwareId, ArpOperation, ArpPacketSlice, EtherType};

use crate::MacAddr;

/// A well-formed ARP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arp {
    pub is_reply: bool,
    pub sender_mac: MacAddr,
    /// Unspecified in a probe (RFC 5227 §1.1).
    pub sender: Ipv4Addr,
    pub target_mac: MacAddr,
    pub target: Ipv4Addr,
}

impl Arp {
    /// `None` if it is malformed, for other kinds of addresses and operations, and for a sender that is not
    /// one station: RFC 1812 §3.3.2 forbids accepting a group's address for a host.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let arp = ArpPacketSlice::from_slice(bytes).ok()?;
        if arp.hw_addr_type() != ArpHardwareId::ETHERNET || arp.proto_addr_type() != EtherType::IPV4 {
            return None;
        }
        let is_reply = match arp.operation() {
            ArpOperation::REQUEST => false,
            ArpOperation::REPLY => true,
            _ => return None,
        };
        let mac = |bytes: &[u8]| bytes.try_into().ok().map(MacAddr::new);
        let ip = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from);
        let arp = Self {
            is_reply,
            sender_mac: mac(arp.sender_hw_addr())?,
            sender: ip(arp.sender_protocol_addr())?,
            target_mac: mac(arp.target_hw_addr())?,
            target: ip(arp.target_protocol_addr())?,
        };
        let sender_possible =
            !arp.sender.is_multicast() && !arp.sender.is_broadcast() && !arp.sender.is_loopback();
        (arp.sender_mac.is_unicast() && sender_possible).then_some(arp)
    }

    /// Its bytes, as they follow the Ethernet header.
    pub fn to_bytes(self) -> [u8; ArpEthIpv4Packet::LEN] {
        let packet = ArpEthIpv4Packet {
            operation: if self.is_reply { ArpOperation::REPLY } else { ArpOperation::REQUEST },
            sender_mac: self.sender_mac.octets(),
            sender_ipv4: self.sender.octets(),
            target_mac: self.target_mac.octets(),
            target_ipv4: self.target.octets(),
        };
        packet.to_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REQUEST: Arp = Arp {
        is_reply: false,
        sender_mac: MacAddr::new([2, 0, 0, 0, 0, 9]),
        sender: Ipv4Addr::new(10, 0, 0, 9),
        target_mac: MacAddr::ZERO,
        target: Ipv4Addr::new(10, 0, 0, 1),
    };

    #[test]
    fn a_message_survives_its_bytes_and_padding() {
        for is_reply in [false, true] {
            let arp = Arp { is_reply, ..REQUEST };
            let mut bytes = arp.to_bytes().to_vec();
            bytes.resize(46, 0);
            assert_eq!(Arp::parse(&bytes), Some(arp));
        }
    }

    #[test]
    fn what_names_no_single_station_is_not_believed() {
        let refused = |arp: Arp| assert_eq!(Arp::parse(&arp.to_bytes()), None, "{arp:?}");
        refused(Arp { sender_mac: MacAddr::BROADCAST, ..REQUEST });
        refused(Arp { sender_mac: MacAddr::new([1, 0, 0x5e, 0, 0, 1]), ..REQUEST });
        refused(Arp { sender_mac: MacAddr::ZERO, ..REQUEST });
        refused(Arp { sender: Ipv4Addr::BROADCAST, ..REQUEST });
        refused(Arp { sender: Ipv4Addr::new(224, 0, 0, 1), ..REQUEST });
        refused(Arp { sender: Ipv4Addr::LOCALHOST, ..REQUEST });
    }

    #[test]
    fn other_kinds_of_addresses_and_lengths_are_refused() {
        let bytes = REQUEST.to_bytes();
        for (at, value) in [(1, 6), (2, 0x86), (4, 8), (5, 16), (7, 3), (7, 0)] {
            let mut changed = bytes;
            changed[at] = value;
            assert_eq!(Arp::parse(&changed), None, "byte {at} is {value}");
        }
        assert!((0..bytes.len()).all(|len| Arp::parse(&bytes[..len]).is_none()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(arp) = Arp::parse(&bytes) {
                prop_assert_eq!(Arp::parse(&arp.to_bytes()), Some(arp));
            }
        }
    }
}
