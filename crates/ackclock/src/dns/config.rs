//! How a stack resolves names: the servers it asks, and the order in which it tries the addresses.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use crate::StackBuilder;

/// The name servers of a stack, and how it tries a name's addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) servers: Vec<SocketAddr>,
    pub(crate) eyeballs: HappyEyeballs,
}

/// How the addresses of a name are tried: the values that RFC 8305 §8 lets a client configure, for
/// [`StackBuilder::happy_eyeballs`]. The defaults are those recommended there.
///
/// ```
/// use std::time::Duration;
/// use ackclock::HappyEyeballs;
///
/// // A distant network: an attempt gets half a second before the next one starts beside it.
/// let patient = HappyEyeballs::default().attempt_delay(Duration::from_millis(500));
/// assert_ne!(patient, HappyEyeballs::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct HappyEyeballs {
    pub(super) resolution_delay: Duration,
    pub(super) attempt_delay: Duration,
    pub(super) first_family: usize,
}

impl Default for HappyEyeballs {
    fn default() -> Self {
        Self { resolution_delay: RESOLUTION_DELAY, attempt_delay: ATTEMPT_DELAY, first_family: FIRST_FAMILY }
    }
}

impl HappyEyeballs {
    /// How long IPv4 addresses wait for IPv6 ones (§3, Resolution Delay): 50 ms by default.
    pub fn resolution_delay(mut self, delay: Duration) -> Self {
        self.resolution_delay = delay;
        self
    }

    /// How long after the start of one attempt the next one starts, unless the attempt fails earlier (§5,
    /// Connection Attempt Delay): 250 ms by default. Values outside 100 ms to 2 s are clamped.
    pub fn attempt_delay(mut self, delay: Duration) -> Self {
        self.attempt_delay = delay.clamp(ATTEMPT_DELAY_MIN, ATTEMPT_DELAY_MAX);
        self
    }

    /// How many IPv6 addresses are tried before the families alternate (§4, First Address Family Count): 1 by
    /// default, 2 to favor IPv6 more; at least 1.
    pub fn first_family_count(mut self, count: usize) -> Self {
        self.first_family = count.max(1);
        self
    }
}

impl StackBuilder {
    /// Name servers, in the order in which they are asked, for the names passed to
    /// [`TcpStream::connect`](crate::TcpStream::connect) and other calls. The stack asks them itself, over
    /// UDP, and over TCP where an answer does not fit. Without any, names are not resolved, or the host's
    /// resolver does it (feature `resolve`). RFC 8305 §3.1 asks IPv6 servers first: list them first.
    /// [`resolv_conf`](Self::resolv_conf) reads them from a file.
    ///
    /// A connection to a name is opened as RFC 8305 says: both families are asked for at once, attempts begin
    /// 250 ms apart or when the last one has failed, IPv6 first and then by turns, and the first that
    /// succeeds is taken ([`happy_eyeballs`](Self::happy_eyeballs) changes the delays). Answers are
    /// remembered for as long as they are good, 1,024 of them.
    ///
    /// ```
    /// # use ackclock::{Stack, TcpStream};
    /// # use ackclock_device::memory;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (device, router) = memory::pair(memory::Config::default());
    /// # let router = Stack::builder().device(router).address("10.0.0.2/24".parse()?).spawn()?;
    /// let builder = Stack::builder().device(device).address("10.0.0.1/24".parse()?);
    /// let stack = builder.name_servers(["10.0.0.2:53".parse()?]).spawn()?;
    /// // An address needs no lookup.
    /// let refused = TcpStream::connect(&stack, ("10.0.0.2", 80)).await;
    /// assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    /// // No name server answers there.
    /// assert!(TcpStream::connect(&stack, ("example.com", 80)).await.is_err());
    /// # drop(router);
    /// # Ok(()) }
    /// ```
    pub fn name_servers(mut self, servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.names.servers.extend(servers);
        self
    }

    /// Adds the [name servers](Self::name_servers) of a file in the form of `/etc/resolv.conf`, which is read
    /// now: the addresses of its `nameserver` lines, at port 53. Other lines (`search`, `options`, ...) are
    /// ignored; a name is looked up as written.
    ///
    /// The stack asks by itself, so it has to reach them. The host's own loopback it does not reach: where
    /// the host runs a resolver of its own there, the servers behind that are in a file of its
    /// (`/run/systemd/resolve/resolv.conf`).
    ///
    /// # Errors
    /// The file cannot be read, has no line `nameserver`, has one without an address, or one that names the
    /// loopback: the error says which.
    pub fn resolv_conf(self, path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let within = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let servers = std::fs::read_to_string(path).and_then(|text| servers_of(&text)).map_err(within)?;
        Ok(self.name_servers(servers))
    }

    /// How a name's addresses are tried: the delays, and how much IPv6 is favored.
    pub fn happy_eyeballs(mut self, eyeballs: HappyEyeballs) -> Self {
        self.names.eyeballs = eyeballs;
        self
    }
}

/// The name servers of a file in the form of resolv.conf(5).
fn servers_of(text: &str) -> io::Result<Vec<SocketAddr>> {
    let mut servers = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let mut words = line.split_whitespace();
        if words.next() != Some("nameserver") {
            continue;
        }
        let word = words.next().unwrap_or_default();
        let invalid =
            |what: &str| io::Error::new(ErrorKind::InvalidData, format!("line {number}: `{line}`: {what}"));
        let ip: IpAddr = word.parse().map_err(|_| {
            invalid("no address follows, or one with a zone, which a stack of IP packets does not have")
        })?;
        if ip.is_loopback() {
            return Err(invalid(
                "the stack does not reach the host's loopback; name a server that it reaches, as in \
                 /run/systemd/resolve/resolv.conf",
            ));
        }
        servers.push(SocketAddr::new(ip, 53));
    }
    if servers.is_empty() {
        return Err(io::Error::new(ErrorKind::InvalidData, "there is no line `nameserver ADDRESS`"));
    }
    Ok(servers)
}

const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// RFC 8305 §8, Minimum and Maximum Connection Attempt Delay, as recommended.
const ATTEMPT_DELAY_MIN: Duration = Duration::from_millis(100);
const ATTEMPT_DELAY_MAX: Duration = Duration::from_secs(2);
const FIRST_FAMILY: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_rfc_8305_and_the_bounds_hold() {
        let ms = Duration::from_millis;
        let defaults = HappyEyeballs::default();
        assert_eq!(
            (defaults.resolution_delay, defaults.attempt_delay, defaults.first_family),
            (ms(50), ms(250), 1)
        );
        let delay = |delay| defaults.attempt_delay(delay).attempt_delay;
        assert_eq!(
            [ms(0), ms(100), ms(700), ms(2000), ms(2001)].map(delay),
            [100, 100, 700, 2000, 2000].map(ms)
        );
        assert_eq!(defaults.first_family_count(0).first_family, 1);
    }

    #[test]
    fn name_servers_are_read_in_their_order_and_all_else_is_passed_over() {
        let text = "# made by hand\nsearch example.com\n  nameserver\t2001:db8::53 \noptions ndots:2\n\
                    nameserver 192.0.2.53\n;nameserver 192.0.2.54\nnameservers 192.0.2.55\n";
        let servers = servers_of(text).unwrap();
        assert_eq!(servers, ["[2001:db8::53]:53".parse().unwrap(), "192.0.2.53:53".parse().unwrap()]);
    }

    #[test]
    fn a_file_that_does_not_help_says_why() {
        let wrong = [
            ("", "there is no line `nameserver"),
            ("search a\nnameserver\n", "line 2: `nameserver`: no address"),
            ("nameserver fe80::1%eth0", "zone"),
            ("nameserver 127.0.0.53", "/run/systemd/resolve/resolv.conf"),
        ];
        for (text, why) in wrong {
            let error = servers_of(text).unwrap_err();
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
        let error = crate::Stack::builder().resolv_conf("/no/such/file").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().starts_with("/no/such/file: "), "{error}");
    }
}
