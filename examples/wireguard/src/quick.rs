//! Configuration files in the form of wg-quick(8) and wg(8), with one peer.
//!
//! Lines that are about the kernel's interface (`PostUp`, `Table` and the like) have no meaning here: each is
//! skipped with a note. A key that neither program has is an error.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ackclock::Cidr;

use crate::keys::{self, Key};

/// The contents of a file.
#[derive(Clone)]
pub struct Quick {
    /// This end's private key.
    pub private_key: Key,
    /// This end's addresses within the tunnel.
    pub addresses: Vec<Cidr>,
    /// The UDP port to send from.
    pub listen_port: Option<u16>,
    /// The largest IP packet within the tunnel in bytes.
    pub mtu: Option<usize>,
    /// Name servers, asked through the tunnel.
    pub name_servers: Vec<IpAddr>,
    /// The peer's public key.
    pub peer_public_key: Key,
    /// A key that both ends share in addition to those.
    pub preshared_key: Option<Key>,
    /// The networks behind the peer.
    pub allowed: Vec<Cidr>,
    /// Where the peer is, as `HOST:PORT`.
    pub endpoint: String,
    /// How often this end sends something when it has no data.
    pub keepalive: Option<Duration>,
    /// The lines that were skipped, each with the reason.
    pub notes: Vec<String>,
}

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuickError {
    /// The file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    /// A line is wrong.
    #[error("line {line}: {why}")]
    Line {
        /// Its number, counted from 1.
        line: usize,
        /// The mistake in it.
        why: LineError,
    },
    /// A key is missing.
    #[error("[{section}] has no {key}: add a line `{key} = {example}`")]
    Missing {
        /// The section.
        section: &'static str,
        /// The key.
        key: &'static str,
        /// A value that may stand there.
        example: &'static str,
    },
}

/// A mistake in a line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// It is neither a section nor a setting.
    #[error("write a section, [Interface] or [Peer], or a setting as in `Address = 10.9.0.2/24`")]
    Form,
    /// The section does not exist.
    #[error("unknown section [{0}]: there are [Interface] and [Peer]")]
    Section(String),
    /// A second section of the same name.
    #[error("a second [{0}]: this tunnel has one, so give each peer a file of its own")]
    SecondSection(&'static str),
    /// A setting before the first section.
    #[error("{0} stands before [Interface] and [Peer]: put it below one of them")]
    NoSection(String),
    /// The section has no such key.
    #[error("unknown key {key} in [{section}], which takes {known}")]
    Key {
        /// The key.
        key: String,
        /// The section.
        section: &'static str,
        /// The keys that it takes.
        known: String,
    },
    /// A second value for a key that takes one.
    #[error("a second {0}: keep one of them")]
    Twice(&'static str),
    /// The value is not of the key's form. Secret values are not repeated.
    #[error("{key} takes {form}")]
    Value {
        /// The key.
        key: &'static str,
        /// The form of its value.
        form: &'static str,
    },
}

/// Reads a file, and whether others than its owner may read it.
///
/// # Errors
/// See [`QuickError`].
pub fn read(path: &Path) -> Result<(Quick, bool), QuickError> {
    let unreadable = |error| QuickError::Unreadable(path.to_owned(), error);
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let readable = keys::others_may_read(path).map_err(unreadable)?;
    Ok((text.parse()?, readable))
}

impl FromStr for Quick {
    type Err = QuickError;

    fn from_str(text: &str) -> Result<Self, QuickError> {
        let mut found = Found::default();
        for (line, content) in (1..).zip(text.lines()) {
            found.line(line, content).map_err(|why| QuickError::Line { line, why })?;
        }
        found.finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Interface,
    Peer,
}

impl Section {
    const ALL: [Self; 2] = [Self::Interface, Self::Peer];

    fn name(self) -> &'static str {
        match self {
            Self::Interface => "Interface",
            Self::Peer => "Peer",
        }
    }
}

/// The lines of a file that were read so far.
#[derive(Default)]
struct Found {
    section: Option<Section>,
    seen: Vec<Section>,
    private_key: Option<Key>,
    addresses: Vec<Cidr>,
    listen_port: Option<u16>,
    mtu: Option<usize>,
    name_servers: Vec<IpAddr>,
    peer_public_key: Option<Key>,
    preshared_key: Option<Key>,
    allowed: Vec<Cidr>,
    endpoint: Option<String>,
    keepalive: Option<Option<Duration>>,
    notes: Vec<String>,
}

/// The keys of the sections, and how each is taken.
type Taker = fn(&mut Found, &str) -> Result<(), LineError>;
const KEYS: [(Section, &str, Taker); 10] = [
    (Section::Interface, "PrivateKey", |found, value| once("PrivateKey", &mut found.private_key, key(value))),
    (Section::Interface, "Address", |found, value| {
        many(
            "Address",
            "addresses with a prefix, as in 10.9.0.2/24, fd09::2/64",
            &mut found.addresses,
            value,
            cidr,
        )
    }),
    (Section::Interface, "ListenPort", |found, value| {
        once("ListenPort", &mut found.listen_port, value.parse().map_err(|_| "a UDP port, 0 to 65535"))
    }),
    (Section::Interface, "MTU", |found, value| once("MTU", &mut found.mtu, mtu(value))),
    (Section::Interface, "DNS", Found::name_servers),
    (Section::Peer, "PublicKey", |found, value| once("PublicKey", &mut found.peer_public_key, key(value))),
    (Section::Peer, "PresharedKey", |found, value| {
        once("PresharedKey", &mut found.preshared_key, key(value))
    }),
    (Section::Peer, "AllowedIPs", |found, value| {
        many("AllowedIPs", "networks, as in 10.9.0.0/24, ::/0", &mut found.allowed, value, cidr)
    }),
    (Section::Peer, "Endpoint", |found, value| once("Endpoint", &mut found.endpoint, endpoint(value))),
    (Section::Peer, "PersistentKeepalive", |found, value| {
        once("PersistentKeepalive", &mut found.keepalive, keepalive(value))
    }),
];

/// Keys of wg and wg-quick that are about the kernel's interface, and why they have no effect here.
const SKIPPED: [(&str, &str); 7] = [
    ("PreUp", COMMAND),
    ("PostUp", COMMAND),
    ("PreDown", COMMAND),
    ("PostDown", COMMAND),
    ("Table", "the kernel's routes stay as they are"),
    ("FwMark", "packets leave without a mark"),
    ("SaveConfig", "the file is never written"),
];
const COMMAND: &str =
    "the command is not run, since there is no interface of the kernel's; run it yourself if you need it";

impl Found {
    fn line(&mut self, number: usize, content: &str) -> Result<(), LineError> {
        let content = content.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            return Ok(());
        }
        if let Some(name) = content.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return self.begin(name.trim());
        }
        let (key, value) = content.split_once('=').ok_or(LineError::Form)?;
        let (key, value) = (key.trim(), value.trim());
        let section = self.section.ok_or_else(|| LineError::NoSection(key.to_owned()))?;
        let of_section = || KEYS.iter().filter(|(of, ..)| *of == section);
        if let Some((.., take)) = of_section().find(|(_, name, _)| name.eq_ignore_ascii_case(key)) {
            return take(self, value);
        }
        let skipped = SKIPPED.iter().filter(|_| section == Section::Interface);
        if let Some((name, why)) = skipped.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(key)) {
            self.notes.push(format!("line {number}: {name} has no effect here: {why}"));
            return Ok(());
        }
        let known: Vec<&str> = of_section().map(|(_, name, _)| *name).collect();
        Err(LineError::Key { key: key.to_owned(), section: section.name(), known: known.join(", ") })
    }

    fn begin(&mut self, name: &str) -> Result<(), LineError> {
        let section = Section::ALL.into_iter().find(|section| section.name().eq_ignore_ascii_case(name));
        let section = section.ok_or_else(|| LineError::Section(name.to_owned()))?;
        if self.seen.contains(&section) {
            return Err(LineError::SecondSection(section.name()));
        }
        self.seen.push(section);
        self.section = Some(section);
        Ok(())
    }

    /// wg-quick takes whatever is not an address for a search domain.
    fn name_servers(&mut self, value: &str) -> Result<(), LineError> {
        for item in value.split(',').map(str::trim) {
            match item.parse() {
                Ok(addr) => self.name_servers.push(addr),
                Err(_) => {
                    self.notes.push(format!("DNS: {item} has no effect here: names are asked for as written"))
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Quick, QuickError> {
        let missing =
            |section: Section, key, example| QuickError::Missing { section: section.name(), key, example };
        let (interface, peer) = (Section::Interface, Section::Peer);
        if self.addresses.is_empty() {
            return Err(missing(interface, "Address", "10.9.0.2/24"));
        }
        if self.allowed.is_empty() {
            return Err(missing(peer, "AllowedIPs", "0.0.0.0/0, ::/0"));
        }
        Ok(Quick {
            private_key: self.private_key.ok_or(missing(
                interface,
                "PrivateKey",
                "the output of `wg genkey`",
            ))?,
            addresses: self.addresses,
            listen_port: self.listen_port,
            mtu: self.mtu,
            name_servers: self.name_servers,
            peer_public_key: self.peer_public_key.ok_or(missing(
                peer,
                "PublicKey",
                "the output of `wg pubkey`",
            ))?,
            preshared_key: self.preshared_key,
            allowed: self.allowed,
            endpoint: self.endpoint.ok_or(missing(peer, "Endpoint", "vpn.example.org:51820"))?,
            keepalive: self.keepalive.flatten(),
            notes: self.notes,
        })
    }
}

/// Takes the only value of a key.
fn once<T>(key: &'static str, slot: &mut Option<T>, value: Result<T, &'static str>) -> Result<(), LineError> {
    let value = value.map_err(|form| LineError::Value { key, form })?;
    if slot.replace(value).is_some() { Err(LineError::Twice(key)) } else { Ok(()) }
}

/// Takes the values of a key that may be repeated.
fn many<T>(
    key: &'static str,
    form: &'static str,
    all: &mut Vec<T>,
    values: &str,
    parse: fn(&str) -> Option<T>,
) -> Result<(), LineError> {
    for value in values.split(',') {
        all.push(parse(value.trim()).ok_or(LineError::Value { key, form })?);
    }
    Ok(())
}

fn key(text: &str) -> Result<Key, &'static str> {
    keys::parse(text).map_err(|_| "a key: 44 characters of base64, as `wg genkey` and `wg pubkey` write them")
}

/// An address without a prefix is a network of one.
fn cidr(text: &str) -> Option<Cidr> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(Cidr::from))
}

fn mtu(text: &str) -> Result<usize, &'static str> {
    crate::parse_mtu(text).ok_or("1280 to 65455 bytes")
}

fn endpoint(text: &str) -> Result<String, &'static str> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let port = port.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0);
    port.map(|_| text.to_owned()).ok_or("HOST:PORT, as in vpn.example.org:51820 or [2001:db8::1]:51820")
}

fn keepalive(text: &str) -> Result<Option<Duration>, &'static str> {
    if text.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let seconds: u16 = text.parse().map_err(|_| "seconds, 1 to 65535, or off")?;
    Ok(Some(Duration::from_secs(seconds.into())).filter(|span| !span.is_zero()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=";
    const THEIRS: &str = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=";

    fn whole() -> String {
        format!(
            "# from the provider\n[Interface]\nPrivateKey = {OWN}\nAddress = 10.9.0.2/24, fd09::2\n\
             ListenPort=4000\nMTU = 1400\nDNS = 10.9.0.1, 10.9.0.3, corp.example\n\
             PostUp = iptables -A FORWARD -i %i -j ACCEPT # and more\nTable = off\n\n\
             [Peer]\npublickey = {THEIRS}\nPresharedKey = {OWN}\nAllowedIPs = 10.9.0.0/24\n\
             AllowedIPs = 192.0.2.7, ::/0\nEndpoint = [2001:db8::1]:51820\nPersistentKeepalive = 25\n"
        )
    }

    /// The error of a file in which `from` is replaced.
    fn error(from: &str, to: &str) -> String {
        let text = whole();
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1).parse::<Quick>().map(drop).unwrap_err().to_string()
    }

    fn texts(all: &[Cidr]) -> Vec<String> {
        all.iter().map(Cidr::to_string).collect()
    }

    #[test]
    fn a_file_of_wg_quick_is_read_whole() {
        let quick: Quick = whole().parse().unwrap();
        assert_eq!(quick.private_key, keys::parse(OWN).unwrap());
        assert_eq!(quick.peer_public_key, keys::parse(THEIRS).unwrap());
        assert_eq!(quick.preshared_key, Some(keys::parse(OWN).unwrap()));
        assert_eq!(texts(&quick.addresses), ["10.9.0.2/24", "fd09::2/128"]);
        assert_eq!(texts(&quick.allowed), ["10.9.0.0/24", "192.0.2.7/32", "::/0"]);
        assert_eq!((quick.listen_port, quick.mtu), (Some(4000), Some(1400)));
        assert_eq!(quick.name_servers.len(), 2);
        assert_eq!(quick.endpoint, "[2001:db8::1]:51820");
        assert_eq!(quick.keepalive, Some(Duration::from_secs(25)));
        let skipped: Vec<&str> = quick.notes.iter().filter_map(|note| note.split(" has no").next()).collect();
        assert_eq!(skipped, ["DNS: corp.example", "line 8: PostUp", "line 9: Table"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        assert_eq!(
            error("MTU = 1400", "MTUU = 1400"),
            "line 6: unknown key MTUU in [Interface], which takes PrivateKey, Address, ListenPort, MTU, DNS"
        );
        // wg-quick has hooks in [Interface] alone.
        assert!(error("PersistentKeepalive", "PostUp").starts_with("line 17: unknown key PostUp in [Peer]"));
        assert!(error("MTU = 1400", "MTU = 100").ends_with("MTU takes 1280 to 65455 bytes"));
        assert!(error("4000", "66000").ends_with("ListenPort takes a UDP port, 0 to 65535"));
        assert!(error("[2001:db8::1]:51820", "vpn.example.org").contains("Endpoint takes HOST:PORT"));
        assert!(error("10.9.0.0/24", "10.9.0.0/33").contains("line 14: AllowedIPs takes networks"));
        assert!(error("= 25", "= often").ends_with("PersistentKeepalive takes seconds, 1 to 65535, or off"));
        assert!(error("[Peer]", "[Peers]").contains("unknown section [Peers]"));
        assert!(error("[Interface]", "").contains("PrivateKey stands before [Interface]"));
        assert!(error("MTU = 1400", "MTU 1400").contains("write a section"));
        assert!(error("AllowedIPs = 192", "[Peer]\nAllowedIPs = 192").contains("a second [Peer]"));
        assert!(error("MTU = 1400", "ListenPort = 5").contains("line 6: a second ListenPort"));
    }

    #[test]
    fn a_secret_is_never_repeated() {
        let said = error(OWN, "yAnz5TF+lXXJte14tji3zlMNq");
        assert!(said.starts_with("line 3: PrivateKey takes a key"), "{said}");
        assert!(!said.contains("yAnz5"), "{said}");
    }

    #[test]
    fn what_is_missing_is_named_with_an_example() {
        let missing = [
            ("PrivateKey", "[Interface] has no PrivateKey: add a line `PrivateKey = "),
            ("Address", "[Interface] has no Address"),
            ("publickey", "[Peer] has no PublicKey"),
            ("Endpoint", "[Peer] has no Endpoint: add a line `Endpoint = vpn.example.org:51820`"),
        ];
        for (key, begins) in missing {
            let text: String = whole()
                .lines()
                .filter(|line| !line.starts_with(key))
                .map(|line| format!("{line}\n"))
                .collect();
            let said = text.parse::<Quick>().map(drop).unwrap_err().to_string();
            assert!(said.starts_with(begins), "{said}");
        }
    }

    #[test]
    fn off_and_zero_are_no_keepalive() {
        for off in ["off", "0"] {
            let quick: Quick = whole().replace("= 25", &format!("= {off}")).parse().unwrap();
            assert_eq!(quick.keepalive, None);
        }
    }
}
