//! Where a connection comes from or goes to: host and port, as they are written.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};

use clap::error::ErrorKind;

use super::{PeerArgs, usage};

/// Where a connection comes from or goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Connect { host: String, port: u16, local_port: u16 },
    Listen { host: Option<String>, port: u16 },
}

impl Target {
    /// The targets of each port from this one's to `last`.
    pub fn of_each_port(&self, last: Option<u16>) -> impl Iterator<Item = Self> {
        let first = match self {
            Self::Connect { port, .. } | Self::Listen { port, .. } => *port,
        };
        (first..=last.unwrap_or(first)).map(|at| {
            let mut target = self.clone();
            match &mut target {
                Self::Connect { port, .. } | Self::Listen { port, .. } => *port = at,
            }
            target
        })
    }
}

impl PeerArgs {
    /// Nothing is set but `--retry`.
    pub fn with_retry(retry: bool) -> Self {
        Self { retry, ..Self::default() }
    }

    /// Reads the words on the command line.
    pub fn target(&self, listen: bool) -> Result<Target, clap::Error> {
        let (host, port) = self.host_and_port(listen)?;
        let local_port = self.local_port.as_deref().map(self::port).transpose()?;
        match (host, port, local_port) {
            (host, Some(port), None) if listen => Ok(Target::Listen { host, port }),
            // nc has the port behind -p, too.
            (host, None, Some(port)) if listen && host.as_deref().is_none_or(|host| !is_number(host)) => {
                Ok(Target::Listen { host, port })
            }
            (_, _, Some(_)) if listen => Err(twice("as an argument and with -p")),
            (_, None, None) if listen => {
                Err(usage(ErrorKind::MissingRequiredArgument, "PORT to listen on is missing"))
            }
            (Some(host), Some(port), local_port) => {
                Ok(Target::Connect { host, port, local_port: local_port.unwrap_or(0) })
            }
            (Some(_), None, _) => {
                Err(usage(ErrorKind::MissingRequiredArgument, "PORT is missing after HOST"))
            }
            (None, ..) => {
                Err(usage(ErrorKind::MissingRequiredArgument, "HOST and PORT are missing, or -l PORT"))
            }
        }
    }

    fn host_and_port(&self, listen: bool) -> Result<(Option<String>, Option<u16>), clap::Error> {
        match self.words.as_slice() {
            [] => Ok((None, None)),
            [word] => match joined(word) {
                Some((host, word)) => Ok((Some(host.to_owned()), Some(port(word)?))),
                None if listen && self.local_port.is_none() => Ok((None, Some(port(word)?))),
                None => Ok((Some(word.clone()), None)),
            },
            [host, ..] if joined(host).is_some() => Err(twice("in HOST:PORT and after it")),
            [host, word, ..] => Ok((Some(host.clone()), Some(port(first_port(word))?))),
        }
    }

    /// The last port of the range that `-z` is to check, as in `HOST 7990-8001`.
    pub fn last_port(&self) -> Option<u16> {
        range(self.words.get(1)?).map(|(_, last)| last)
    }

    /// Refuses a range of ports where one is needed.
    pub fn refuse_range(&self) -> Result<(), clap::Error> {
        match self.words.get(1).filter(|word| range(word).is_some()) {
            Some(word) => Err(usage(
                ErrorKind::ValueValidation,
                &format!(
                    "{word} are several ports; only -z, which checks whether they answer, takes a range"
                ),
            )),
            None => Ok(()),
        }
    }
}

/// `FIRST-LAST`: two ports, the lower first.
fn range(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (0 < first && first <= last).then_some((first, last))
}

/// The word for the first port of a range, or the word itself.
fn first_port(word: &str) -> &str {
    range(word).and_then(|_| word.split('-').next()).unwrap_or(word)
}

/// `HOST:PORT` or `[HOST]:PORT`, taken apart. An IPv6 address has a port only behind brackets.
pub(super) fn joined(word: &str) -> Option<(&str, &str)> {
    let (host, port) = word.rsplit_once(':')?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bracketed.or_else(|| (!host.contains(':')).then_some(host))?;
    (!host.is_empty() && !port.is_empty()).then_some((host, port))
}

/// A number, or the name of a service.
pub(super) fn port(word: &str) -> Result<u16, clap::Error> {
    let number = word.parse().ok().or_else(|| {
        let services = fs::read_to_string(SERVICES).unwrap_or_default();
        (!is_number(word)).then(|| service(&services, word)).flatten()
    });
    number.filter(|&port| port > 0).ok_or_else(|| {
        usage(
            ErrorKind::ValueValidation,
            &format!(
                "{word:?} is not a port: a port is a number from 1 to 65535, or a service of TCP in \
                 {SERVICES} (with -z also a range, the lower first: 7990-8001)"
            ),
        )
    })
}

/// The port of a TCP service, by its name or another that services(5) has for it.
fn service(services: &str, name: &str) -> Option<u16> {
    let lines = services.lines().filter_map(|line| line.split('#').next());
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>()).find_map(|words| {
        let (first, number) = (*words.first()?, words.get(1)?.strip_suffix("/tcp")?);
        (first == name || words.iter().skip(2).any(|other| *other == name)).then(|| number.parse().ok())?
    })
}

/// `HOST%INTERFACE`, taken apart: an IPv6 address of a link, and the link.
pub(crate) fn scoped(host: &str) -> Option<(Ipv6Addr, &str)> {
    let (addr, link) = host.split_once('%')?;
    Some((addr.parse().ok()?, link))
}

/// Whether a host is this machine's loopback, without asking a name server.
pub(crate) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|addr| addr.is_loopback())
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn twice(how: &str) -> clap::Error {
    usage(ErrorKind::ArgumentConflict, &format!("PORT is given twice: {how}"))
}

/// Where the system keeps the names of services.
const SERVICES: &str = "/etc/services";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_by_each_of_its_names() {
        let services =
            "# a comment\nhttp\t80/tcp\twww # WorldWideWeb\nsyslog 514/udp\nshell 514/tcp cmd syslog\n";
        assert_eq!(service(services, "http"), Some(80));
        assert_eq!(service(services, "www"), Some(80));
        assert_eq!(service(services, "syslog"), Some(514));
        for name in ["WorldWideWeb", "htt", "80/tcp", "#"] {
            assert_eq!(service(services, name), None, "{name}");
        }
        assert_eq!(service("syslog 514/udp", "syslog"), None);
    }

    #[test]
    fn a_range_has_its_lower_port_first() {
        assert_eq!(range("7990-8001"), Some((7990, 8001)));
        assert_eq!(range("80-80"), Some((80, 80)));
        for word in ["80", "81-80", "0-80", "80-", "-80", "1-65536", "ftp-data"] {
            assert_eq!(range(word), None, "{word}");
        }
        let first = Target::Connect { host: "h".to_owned(), port: 65_534, local_port: 0 };
        let ports: Vec<_> = first.of_each_port(Some(65_535)).collect();
        assert_eq!(ports.len(), 2);
        assert_eq!(ports[1], Target::Connect { host: "h".to_owned(), port: 65_535, local_port: 0 });
        assert_eq!(first.of_each_port(None).collect::<Vec<_>>(), [first]);
    }

    #[test]
    fn only_brackets_part_an_ipv6_address_from_its_port() {
        assert_eq!(joined("example.org:80"), Some(("example.org", "80")));
        assert_eq!(joined("10.0.0.1:http"), Some(("10.0.0.1", "http")));
        assert_eq!(joined("[fe80::1%eth0]:80"), Some(("fe80::1%eth0", "80")));
        for word in ["fd00::1", "::1", "10.0.0.1", ":80", "host:", "[fd00::1]"] {
            assert_eq!(joined(word), None, "{word}");
        }
    }
}
