//! The builder's choices of name servers: given one by one, or in the form of resolv.conf(5).

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use super::StackBuilder;
use crate::name_servers::HappyEyeballs;

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
    /// The stack sends the queries itself, so it must reach the servers. It cannot reach the host's loopback.
    /// If the host runs a resolver there, `/run/systemd/resolve/resolv.conf` lists the servers behind it.
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

#[cfg(test)]
mod tests {
    use super::*;

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
