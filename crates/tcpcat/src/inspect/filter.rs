//! The filters of `tcpcat ss`, as ss(8) has them: `state established dst 10.0.0.0/8 and dport = :443`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ackclock::Cidr;

use super::{Seen, SeenListener};

/// A filter of connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    State(Vec<&'static str>),
    Host(End, Host),
    Port(End, Order, u16),
}

/// The end that an address or port belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Local,
    Remote,
}

/// A host: an address, a prefix or any; and a port or any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    network: Option<Cidr>,
    port: Option<u16>,
}

/// How a port is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Equal,
    Unequal,
    Less,
    More,
    AtMost,
    AtLeast,
}

impl Filter {
    /// Parses the words of a command line.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let spaced = words.join(" ").replace('(', " ( ").replace(')', " ) ");
        let mut words = Words { words: spaced.split_whitespace().collect(), at: 0 };
        let filter = words.any()?;
        match words.peek() {
            None => Ok(filter),
            Some(word) => Err(format!("{word:?} is out of place in a filter; {EXAMPLES}")),
        }
    }

    /// Whether a connection passes.
    pub fn takes(&self, seen: &Seen) -> bool {
        self.takes_socket(seen.info.state(), seen.local, seen.remote)
    }

    /// Whether a listener passes.
    pub fn takes_listener(&self, seen: &SeenListener) -> bool {
        let local = seen.local();
        let none = SocketAddr::new(if local.is_ipv4() { V4.into() } else { V6.into() }, 0);
        self.takes_socket("LISTEN", local, none)
    }

    /// Whether it names a state, so that none is left out by default.
    pub fn names_a_state(&self) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().any(Self::names_a_state),
            Self::Not(part) => part.names_a_state(),
            Self::State(_) => true,
            Self::Host(..) | Self::Port(..) => false,
        }
    }

    fn takes_socket(&self, state: &str, local: SocketAddr, remote: SocketAddr) -> bool {
        let takes = |part: &Self| part.takes_socket(state, local, remote);
        let end = |end: End| if end == End::Local { local } else { remote };
        match self {
            Self::All(parts) => parts.iter().all(takes),
            Self::Any(parts) => parts.iter().any(takes),
            Self::Not(part) => !takes(part),
            Self::State(states) => states.contains(&state),
            Self::Host(of, Host { network, port }) => {
                let addr = end(*of);
                network.is_none_or(|network| network.contains(addr.ip()))
                    && port.is_none_or(|port| port == addr.port())
            }
            Self::Port(of, order, port) => {
                let found = end(*of).port();
                match order {
                    Order::Equal => found == *port,
                    Order::Unequal => found != *port,
                    Order::Less => found < *port,
                    Order::More => found > *port,
                    Order::AtMost => found <= *port,
                    Order::AtLeast => found >= *port,
                }
            }
        }
    }
}

struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self, after: &str) -> Result<&'a str, String> {
        let word = self.peek().ok_or_else(|| format!("something is missing after {after:?}; {EXAMPLES}"))?;
        self.at += 1;
        Ok(word)
    }

    fn take(&mut self, words: &[&str]) -> bool {
        let is = self.peek().is_some_and(|word| words.contains(&word));
        self.at += usize::from(is);
        is
    }

    fn any(&mut self) -> Result<Filter, String> {
        let mut parts = vec![self.all()?];
        while self.take(&["or", "|", "||"]) {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Filter::Any(parts) })
    }

    /// Terms in a row must all hold, with or without "and" between them.
    fn all(&mut self) -> Result<Filter, String> {
        let mut parts = Vec::new();
        while self.peek().is_some_and(|word| !["or", "|", "||", ")"].contains(&word)) {
            parts.push(self.one()?);
            self.take(&["and", "&", "&&"]);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Filter::All(parts) })
    }

    fn one(&mut self) -> Result<Filter, String> {
        let word = self.next("it")?;
        Ok(match word {
            "(" => {
                let inner = self.any()?;
                if !self.take(&[")"]) {
                    return Err(
                        "a parenthesis is not closed: quote it for the shell, as in '( ... )'".to_owned()
                    );
                }
                inner
            }
            "not" | "!" => Filter::Not(Box::new(self.one()?)),
            "state" => Filter::State(states(self.next(word)?)?),
            "exclude" => Filter::Not(Box::new(Filter::State(states(self.next(word)?)?))),
            "src" | "dst" => {
                self.take(&["=", "==", "eq"]);
                Filter::Host(end(word), host(self.next(word)?)?)
            }
            "sport" | "dport" => {
                let order = self.order();
                Filter::Port(end(word), order, port(self.next(word)?)?)
            }
            other => return Err(format!("{other:?} is not known in a filter; {EXAMPLES}")),
        })
    }

    fn order(&mut self) -> Order {
        let orders = [
            (Order::Equal, ["=", "==", "eq"]),
            (Order::Unequal, ["!=", "ne", "neq"]),
            (Order::Less, ["<", "lt", "lt"]),
            (Order::More, [">", "gt", "gt"]),
            (Order::AtMost, ["<=", "le", "leq"]),
            (Order::AtLeast, [">=", "ge", "geq"]),
        ];
        orders.into_iter().find(|(_, words)| self.take(words)).map_or(Order::Equal, |(order, _)| order)
    }
}

fn end(word: &str) -> End {
    if word.starts_with('s') { End::Local } else { End::Remote }
}

/// The names that `ss` prints for the states that a word of ss(8) covers.
fn states(word: &str) -> Result<Vec<&'static str>, String> {
    let connected = [
        "ESTAB",
        "SYN-SENT",
        "SYN-RECV",
        "FIN-WAIT-1",
        "FIN-WAIT-2",
        "TIME-WAIT",
        "CLOSE-WAIT",
        "LAST-ACK",
        "CLOSING",
    ];
    Ok(match word {
        "established" => vec!["ESTAB"],
        "syn-sent" => vec!["SYN-SENT"],
        "syn-recv" => vec!["SYN-RECV"],
        "fin-wait-1" => vec!["FIN-WAIT-1"],
        "fin-wait-2" => vec!["FIN-WAIT-2"],
        "time-wait" => vec!["TIME-WAIT"],
        "closed" => vec!["CLOSED"],
        "close-wait" => vec!["CLOSE-WAIT"],
        "last-ack" => vec!["LAST-ACK"],
        "listening" => vec!["LISTEN"],
        "closing" => vec!["CLOSING"],
        "connected" => connected.to_vec(),
        "synchronized" => connected.into_iter().filter(|&state| state != "SYN-SENT").collect(),
        "bucket" => vec!["SYN-RECV", "TIME-WAIT"],
        "big" => connected.into_iter().filter(|state| !["SYN-RECV", "TIME-WAIT"].contains(state)).collect(),
        "all" => connected.into_iter().chain(["CLOSED", "LISTEN"]).collect(),
        other => {
            return Err(format!(
                "{other:?} is not a state: there are established, syn-sent, syn-recv, fin-wait-1, \
                 fin-wait-2, time-wait, closed, close-wait, last-ack, listening, closing, all, connected, \
                 synchronized, bucket and big"
            ));
        }
    })
}

/// `ADDR`, `ADDR/BITS`, `ADDR:PORT`, `[ADDR]:PORT`, `:PORT` or `*:PORT`.
fn host(word: &str) -> Result<Host, String> {
    let wrong = || {
        format!("{word:?} is not an address: write 10.0.0.1, 10.0.0.0/8, 10.0.0.1:80, [fd00::1]:80 or :80")
    };
    // An IPv6 address without brackets has colons of its own, and cannot have a port.
    let bare = word.ends_with(']')
        || word.parse::<IpAddr>().is_ok()
        || word.contains('/') && word.matches(':').count() > 1;
    let (addr, port_word) = match word.rsplit_once(':') {
        Some((addr, port_word)) if !bare => (addr, Some(port_word)),
        _ => (word, None),
    };
    let found = port_word.filter(|&word| word != "*").map(port).transpose()?;
    let addr = addr.trim_start_matches('[').trim_end_matches(']');
    if addr.is_empty() || addr == "*" {
        return Ok(Host { network: None, port: found });
    }
    let network = match addr.split_once('/') {
        Some((addr, bits)) => format!("{}/{bits}", addr.trim_end_matches(']')).parse().ok(),
        None => addr.parse().ok().map(|addr: IpAddr| addr.into()),
    };
    Ok(Host { network: Some(network.ok_or_else(wrong)?), port: found })
}

fn port(word: &str) -> Result<u16, String> {
    let digits = word.trim_start_matches('*').trim_start_matches(':');
    digits.parse().map_err(|_| format!("{word:?} is not a port: write :80 or 80"))
}

const V4: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const V6: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

const EXAMPLES: &str =
    "filters are those of ss(8): state established, dst 10.0.0.0/8, sport = :443, not, and, or, ( )";

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(state: &str, local: &str, remote: &str) -> Seen {
        let mut seen = crate::inspect::ss::tests::seen();
        seen.info.state = state.to_owned();
        (seen.local, seen.remote) = (local.parse().unwrap(), remote.parse().unwrap());
        seen
    }

    fn filter(line: &str) -> Result<Filter, String> {
        Filter::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn filters_take_what_ss_takes() {
        let v4 = seen("established", "10.0.0.1:80", "10.9.0.2:40000");
        let v6 = seen("fin-wait-2", "[fd00::1]:443", "[fd00::2]:40001");
        for (line, takes) in [
            ("", [true, true]),
            ("state established", [true, false]),
            ("exclude established", [false, true]),
            ("state connected", [true, true]),
            ("state bucket", [false, false]),
            ("dst 10.9.0.2", [true, false]),
            ("dst 10.9.0.2:40000", [true, false]),
            ("dst 10.9.0.2:4", [false, false]),
            ("dst 10.0.0.0/8", [true, false]),
            ("dst 0.0.0.0/0", [true, false]),
            ("src fd00::/16", [false, true]),
            ("src fd00::1", [false, true]),
            ("src [fd00::1]:443", [false, true]),
            ("src :80", [true, false]),
            ("sport = :80", [true, false]),
            ("sport :80", [true, false]),
            ("sport != :80", [false, true]),
            ("dport > 40000", [false, true]),
            ("dport >= :40000", [true, true]),
            ("dport lt 40001", [true, false]),
            ("sport = :80 or sport = :443", [true, true]),
            ("sport = :80 and dport = :40001", [false, false]),
            ("state established sport = :80", [true, false]),
            ("not (sport = :80 or dst 10.9.0.2)", [false, true]),
        ] {
            let filter = filter(line).expect(line);
            assert_eq!([filter.takes(&v4), filter.takes(&v6)], takes, "{line}");
        }
    }

    #[test]
    fn what_is_wrong_in_a_filter_is_named() {
        for (line, says) in [
            ("state open", "\"open\" is not a state"),
            ("state", "something is missing after \"state\""),
            ("dst 10.0.0", "\"10.0.0\" is not an address"),
            ("dst 10.0.0.0/33", "not an address"),
            ("sport = :http", "is not a port"),
            ("(sport = :80", "not closed"),
            ("sport = :80 )", "\")\" is out of place"),
            ("estab", "\"estab\" is not known in a filter"),
        ] {
            let error = filter(line).expect_err(line);
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
