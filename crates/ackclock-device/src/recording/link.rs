//! Link-layer headers in front of an IP packet: <https://www.tcpdump.org/linktypes.html>.

/// The IP packet in a frame of this link type.
///
/// # Errors
/// The frame does not contain one.
pub fn ip_packet(link_type: u16, frame: &[u8]) -> Result<&[u8], NoIp> {
    match link_type {
        RAW | RAW_OF_BSD | RAW_OF_OPENBSD | IPV4 | IPV6 => Ok(frame),
        // The address family, in either byte order. The packet's version gives the same information.
        NULL | LOOP => frame.get(4..).ok_or(NoIp::CutOff),
        ETHERNET => behind_ether_type(frame, 12),
        LINUX_SLL => behind_ether_type(frame, 14),
        // The protocol is first, the packet after 20 bytes.
        LINUX_SLL2 => match ether_type(frame, 0)? {
            VLAN | QINQ => behind_ether_type(frame, 22),
            kind => by_type(kind, frame.get(20..)),
        },
        other => Err(NoIp::LinkType(other)),
    }
}

/// Why a frame does not contain an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoIp {
    /// It contains something else.
    Other,
    /// It ends too early to tell.
    CutOff,
    /// Its link type is unknown.
    LinkType(u16),
}

/// Skips the EtherType at `at`, and any VLAN tags (IEEE 802.1Q, 802.1ad) that it announces.
fn behind_ether_type(frame: &[u8], mut at: usize) -> Result<&[u8], NoIp> {
    for _ in 0..=TAGS_MAX {
        match ether_type(frame, at)? {
            VLAN | QINQ | QINQ_OLD => at += 4,
            kind => return by_type(kind, frame.get(at + 2..)),
        }
    }
    Err(NoIp::Other)
}

fn by_type(kind: u16, rest: Option<&[u8]>) -> Result<&[u8], NoIp> {
    match kind {
        ETHER_IPV4 | ETHER_IPV6 => rest.ok_or(NoIp::CutOff),
        _ => Err(NoIp::Other),
    }
}

fn ether_type(frame: &[u8], at: usize) -> Result<u16, NoIp> {
    match frame.get(at..at + 2) {
        Some(&[high, low]) => Ok(u16::from_be_bytes([high, low])),
        _ => Err(NoIp::CutOff),
    }
}

const NULL: u16 = 0;
const ETHERNET: u16 = 1;
const RAW_OF_BSD: u16 = 12;
const RAW_OF_OPENBSD: u16 = 14;
const RAW: u16 = 101;
const LOOP: u16 = 108;
const LINUX_SLL: u16 = 113;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
const LINUX_SLL2: u16 = 276;

const ETHER_IPV4: u16 = 0x0800;
const ETHER_IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const QINQ: u16 = 0x88a8;
const QINQ_OLD: u16 = 0x9100;
const TAGS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(header: &[u8]) -> Vec<u8> {
        [header, b"packet"].concat()
    }

    #[test]
    fn packet_lies_behind_each_link_header() {
        let macs = [0; 12];
        let ethernet = |tail: &[u8]| [&macs[..], tail].concat();
        let sll = |kind: &[u8]| [&[0; 14][..], kind].concat();
        let sll2 = |kind: &[u8]| [kind, &[0; 18][..]].concat();
        for (link_type, header) in [
            (RAW, vec![]),
            (NULL, vec![2, 0, 0, 0]),
            (LOOP, vec![0, 0, 0, 2]),
            (ETHERNET, ethernet(&[0x08, 0x00])),
            (ETHERNET, ethernet(&[0x81, 0x00, 0x00, 0x07, 0x86, 0xdd])),
            (ETHERNET, ethernet(&[0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 7, 0x08, 0x00])),
            (LINUX_SLL, sll(&[0x08, 0x00])),
            (LINUX_SLL2, sll2(&[0x86, 0xdd])),
            (LINUX_SLL2, [sll2(&[0x81, 0x00]), vec![0, 7, 0x08, 0x00]].concat()),
        ] {
            let frame = framed(&header);
            assert_eq!(ip_packet(link_type, &frame), Ok(&b"packet"[..]), "{link_type}: {header:?}");
            for len in 0..header.len() {
                assert_eq!(
                    ip_packet(link_type, &frame[..len]),
                    Err(NoIp::CutOff),
                    "{link_type} cut to {len}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_ip_is_said_to_be_so() {
        let arp = framed(&[&[0; 12][..], &[0x08, 0x06]].concat());
        assert_eq!(ip_packet(ETHERNET, &arp), Err(NoIp::Other));
        assert_eq!(ip_packet(147, b"packet"), Err(NoIp::LinkType(147)));
        let tags = [&[0; 12][..], &[0x81, 0x00, 0, 7].repeat(9)].concat();
        assert_eq!(ip_packet(ETHERNET, &tags), Err(NoIp::Other));
    }
}
