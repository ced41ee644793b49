//! Keeps the kernel from answering in the stack's place.
//!
//! The host's TCP does not know the stack's connections and would reset each of them. A netfilter rule drops
//! exactly the device's packets on their way to it; packet sockets have had their copy by then. The rule is
//! in a table that belongs to a netlink socket (`NFT_TABLE_F_OWNER`, Linux 5.12): the kernel deletes both
//! when the socket closes, even if the process is killed. So nothing is left over, and the next start has
//! nothing to clean up.
//!
//! Source: Linux `include/uapi/linux/netfilter/{nfnetlink,nf_tables}.h`. It does not need the nftables
//! programs.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Ports, sys};

/// The rules, which last as long as this value.
#[derive(Debug)]
pub(super) struct Guard {
    _socket: File,
}

impl Guard {
    /// Drops packets to `addresses` for `ports` before the kernel's transports see them: with ports only TCP,
    /// without them TCP and UDP.
    ///
    /// # Errors
    /// The process lacks `CAP_NET_ADMIN`, or the kernel lacks nftables with owners.
    pub fn set_up(addresses: &[IpAddr], ports: &Ports) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let table = format!("ackclock-{}-{number}\0", process::id());
        let mut batch = Batch::default();
        batch.message(BATCH_BEGIN, 0, AF_UNSPEC, SUBSYSTEM, Attributes::default());
        batch.message(
            kind(NEW_TABLE),
            libc::NLM_F_CREATE | libc::NLM_F_EXCL,
            FAMILY_INET,
            0,
            Attributes::default().bytes(1, table.as_bytes()).number(2, TABLE_OWNER),
        );
        let hook = Attributes::default().number(1, HOOK_LOCAL_IN).number(2, PRIORITY_RAW as u32);
        let chain = Attributes::default()
            .bytes(1, table.as_bytes())
            .bytes(3, CHAIN)
            .nested(4, hook)
            .number(5, ACCEPT)
            .bytes(7, b"filter\0");
        batch.message(kind(NEW_CHAIN), libc::NLM_F_CREATE, FAMILY_INET, 0, chain);
        let protocols: &[u8] = if matches!(ports, Ports::All) { &[TCP, UDP] } else { &[TCP] };
        for addr in addresses {
            for &protocol in protocols {
                let rule = Attributes::default()
                    .bytes(1, table.as_bytes())
                    .bytes(2, CHAIN)
                    .nested(4, expressions(*addr, protocol, ports));
                let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND;
                batch.message(kind(NEW_RULE), flags, FAMILY_INET, 0, rule);
            }
        }
        batch.message(BATCH_END, 0, AF_UNSPEC, SUBSYSTEM, Attributes::default());
        let mut socket = File::from(sys::netfilter_socket()?);
        socket.write_all(&batch.bytes)?;
        refusal(&mut socket)?;
        Ok(Self { _socket: socket })
    }
}

/// The command that does the same, for a process without the right.
pub(super) fn command(addresses: &[IpAddr], ports: &Ports) -> String {
    let mut command = "sudo nft 'add table inet ackclock; add chain inet ackclock raw \
                       { type filter hook input priority -300; }"
        .to_owned();
    for addr in addresses {
        let family = if addr.is_ipv4() { "ip" } else { "ip6" };
        let which = match ports {
            Ports::All => "meta l4proto { tcp, udp }".to_owned(),
            Ports::Range(range) => format!("tcp dport {}-{}", range.start(), range.end()),
        };
        command += &format!("; add rule inet ackclock raw {family} daddr {addr} {which} drop");
    }
    command + "' (and at the end: sudo nft delete table inet ackclock)"
}

/// The kernel has answered by the time the request is sent: it acknowledges or refuses each part.
fn refusal(socket: &mut File) -> io::Result<()> {
    let mut answer = [0; 8192];
    loop {
        let len = match socket.read(&mut answer) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut rest = answer.get(..len).unwrap_or_default();
        // A netlink header of 16 bytes, then the negated error code or 0.
        while let Some((header, behind)) = rest.split_first_chunk::<16>() {
            let [a, b, c, d, ..] = *header;
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            let code = behind.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
            if libc::c_int::from(kind) == libc::NLMSG_ERROR && code != 0 {
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            let len = (u32::from_ne_bytes([a, b, c, d]) as usize).next_multiple_of(4).max(16);
            rest = rest.get(len..).unwrap_or_default();
        }
    }
}

/// `meta nfproto .. daddr .. meta l4proto .. th dport .. drop`.
fn expressions(addr: IpAddr, protocol: u8, ports: &Ports) -> Attributes {
    let (family, offset, octets) = match addr {
        IpAddr::V4(addr) => (libc::NFPROTO_IPV4, 16, addr.octets().to_vec()),
        IpAddr::V6(addr) => (libc::NFPROTO_IPV6, 24, addr.octets().to_vec()),
    };
    let list = Attributes::default()
        .expression("meta\0", Attributes::default().number(1, REGISTER).number(2, META_NFPROTO))
        .expression("cmp\0", compare(EQUAL, &[family as u8])) // 2 or 10
        .expression("payload\0", payload(BASE_NETWORK, offset, octets.len() as u32)) // 4 or 16
        .expression("cmp\0", compare(EQUAL, &octets))
        .expression("meta\0", Attributes::default().number(1, REGISTER).number(2, META_L4PROTO))
        .expression("cmp\0", compare(EQUAL, &[protocol]));
    let list = match ports {
        Ports::All => list,
        Ports::Range(range) => list
            .expression("payload\0", payload(BASE_TRANSPORT, 2, 2))
            .expression("cmp\0", compare(AT_LEAST, &range.start().to_be_bytes()))
            .expression("cmp\0", compare(AT_MOST, &range.end().to_be_bytes())),
    };
    let verdict = Attributes::default().nested(2, Attributes::default().number(1, DROP));
    list.expression("immediate\0", Attributes::default().number(1, REGISTER_VERDICT).nested(2, verdict))
}

fn payload(base: u32, offset: u32, len: u32) -> Attributes {
    Attributes::default().number(1, REGISTER).number(2, base).number(3, offset).number(4, len)
}

fn compare(how: u32, value: &[u8]) -> Attributes {
    Attributes::default().number(1, REGISTER).number(2, how).nested(3, Attributes::default().bytes(1, value))
}

/// The messages of one transaction.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    fn message(&mut self, kind: u16, flags: libc::c_int, family: u8, resource: u16, attributes: Attributes) {
        let len = 20 + attributes.0.len() as u32; // some hundred bytes
        let acknowledged = if family == AF_UNSPEC { 0 } else { libc::NLM_F_ACK };
        self.bytes.extend(len.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(((flags | libc::NLM_F_REQUEST | acknowledged) as u16).to_ne_bytes()); // below 2^16
        self.bytes.extend([0; 8]); // sequence number and sender
        self.bytes.extend([family, 0]);
        self.bytes.extend(resource.to_be_bytes());
        self.bytes.extend(attributes.0);
    }
}

/// Attributes, whose numbers are in network order.
#[derive(Debug, Default)]
struct Attributes(Vec<u8>);

impl Attributes {
    fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let len = 4 + value.len() as u16; // some hundred bytes
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    fn nested(self, kind: u16, inner: Self) -> Self {
        self.bytes(kind | NESTED, &inner.0)
    }

    fn expression(self, name: &str, data: Self) -> Self {
        self.nested(1, Self::default().bytes(1, name.as_bytes()).nested(2, data))
    }
}

const fn kind(message: u16) -> u16 {
    SUBSYSTEM << 8 | message
}

const SUBSYSTEM: u16 = 10; // NFNL_SUBSYS_NFTABLES
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NEW_TABLE: u16 = 0;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const NESTED: u16 = 0x8000;
const AF_UNSPEC: u8 = 0;
const FAMILY_INET: u8 = 1;
const TABLE_OWNER: u32 = 2;
const HOOK_LOCAL_IN: u32 = 1;
/// Before connection tracking.
const PRIORITY_RAW: i32 = -300;
const ACCEPT: u32 = 1;
const DROP: u32 = 0;
const CHAIN: &[u8] = b"raw\0";
const REGISTER_VERDICT: u32 = 0;
const REGISTER: u32 = 1;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
const BASE_NETWORK: u32 = 1;
const BASE_TRANSPORT: u32 = 2;
const EQUAL: u32 = 0;
const AT_MOST: u32 = 3;
const AT_LEAST: u32 = 5;
const TCP: u8 = 6;
const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_names_exactly_what_is_the_devices() {
        let addresses = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let shared = command(&addresses, &Ports::Range(7000..=7009));
        assert!(shared.contains("ip daddr 10.0.0.1 tcp dport 7000-7009 drop"), "{shared}");
        assert!(shared.contains("ip6 daddr fd00::1 tcp dport 7000-7009 drop"), "{shared}");
        assert!(
            command(&addresses, &Ports::All).contains("ip daddr 10.0.0.1 meta l4proto { tcp, udp } drop")
        );
    }

    #[test]
    fn attributes_are_padded_and_nested() {
        let attributes = Attributes::default().nested(4, Attributes::default().number(1, 7).bytes(3, b"x"));
        let inner = [8, 0, 1, 0, 0, 0, 0, 7, 5, 0, 3, 0, b'x', 0, 0, 0];
        assert_eq!(attributes.0, [&[20, 0, 4, 0x80][..], &inner].concat());
    }
}
