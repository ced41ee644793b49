//! The command line.

use std::fs;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use ackclock::Cidr;
use anyhow::{Context, anyhow, bail};
use clap::{Parser, ValueEnum};

use crate::names::Names;
use crate::nat::Filtering;
use crate::outlet::Outlet;
use crate::proxy::{Credentials, Proxy, ProxyUrl};
use crate::routes::MARK;
use crate::timeouts::{Timeout, Timeouts};

/// Sends everything that is routed into a TUN device through a proxy: TCP and UDP, to any address or name. A
/// client gets the answer that its destination gives the proxy: accepted, refused or unreachable.
///
/// Takes CAP_NET_ADMIN. The device is gone when this ends: at SIGINT, SIGTERM, or if someone takes the device
/// away.
#[derive(Debug, Parser)]
#[command(name = "tun2socks", version, after_help = EXAMPLES)]
pub(crate) struct Tun2socksArgs {
    /// The TUN device, which is made if it does not exist
    #[arg(long, value_name = "NAME", default_value = "tun0")]
    pub(crate) device: String,
    /// The proxy: socks5://HOST:PORT, http://HOST:PORT (CONNECT, which carries no datagrams), or HOST:PORT
    /// for SOCKS5
    #[arg(long, value_name = "PROXY")]
    proxy: ProxyUrl,
    /// A file with USER:PASSWORD for the proxy
    #[arg(long, value_name = "FILE")]
    credentials_file: Option<PathBuf>,

    /// An address of the kernel's end, from which its clients dial; can be repeated
    #[arg(long, value_name = "ADDRESS/PREFIX", default_value = "198.18.0.1/30", help_heading = "Routes")]
    pub(crate) address: Vec<Cidr>,
    /// A network that is routed into the device; can be repeated (default: what its addresses' prefixes say;
    /// with --configure, everything of their families)
    #[arg(long, value_name = "NETWORK/PREFIX", help_heading = "Routes")]
    route: Vec<Cidr>,
    /// Sets rules and routes for the whole host, with a table of their own, and takes them back at the end.
    /// If this is killed, the next start takes them back first
    #[arg(long, help_heading = "Routes")]
    pub(crate) configure: bool,
    /// With --configure: a network that does not go into the device; can be repeated
    #[arg(long, value_name = "NETWORK/PREFIX", requires = "configure", help_heading = "Routes")]
    pub(crate) exclude: Vec<Cidr>,
    /// How to keep the way to the proxy out of the device. `mark` and `route` set it up with --configure;
    /// without, they leave that to you (the mark is 7426)
    #[arg(long, value_enum, default_value_t = Bypass::Mark, help_heading = "Routes")]
    bypass: Bypass,
    /// The interface towards the proxy, for `--bypass device`
    #[arg(long, value_name = "INTERFACE", required_if_eq("bypass", "device"), help_heading = "Routes")]
    via: Option<String>,
    /// The folder for the file that says what to take back after a crash
    #[arg(long, value_name = "FOLDER", default_value = "/run", help_heading = "Routes")]
    state: PathBuf,

    /// Answers queries of DNS with addresses of these networks, one of IPv4, one of IPv6 or both, and tells
    /// the proxy the names; can be repeated. They are routed into the device. 198.19.0.0/16 and
    /// fd74:2670::/64 are free in most networks
    #[arg(long, value_name = "NETWORK/PREFIX", help_heading = "Names")]
    names: Vec<Cidr>,
    /// How long a client may keep the address of a name
    #[arg(long, value_name = "SECONDS", default_value_t = 60, help_heading = "Names")]
    names_ttl: u32,
    /// A file in which names keep their addresses for the next start
    #[arg(long, value_name = "FILE", requires = "names", help_heading = "Names")]
    names_file: Option<PathBuf>,

    /// Leaves UDP out: datagrams are dropped, except queries of DNS that --names answers
    #[arg(long, help_heading = "Datagrams")]
    pub(crate) no_udp: bool,
    /// Who may answer a client's datagrams. It has one port at the proxy for all destinations in any case
    #[arg(long, value_enum, default_value_t = Filtering::Anyone, help_heading = "Datagrams")]
    pub(crate) nat: Filtering,
    /// After how many seconds without a datagram a client's relay ends; PORT=SECONDS for one port; can be
    /// repeated (default: 120, and 53=10)
    #[arg(long, value_name = "[PORT=]SECONDS", help_heading = "Datagrams")]
    udp_timeout: Vec<Timeout>,

    /// After how many seconds without a byte a connection is reset; PORT=SECONDS for one port; can be
    /// repeated (default: 7440)
    #[arg(long, value_name = "[PORT=]SECONDS", help_heading = "Connections")]
    tcp_timeout: Vec<Timeout>,
    /// Connections at one time. Half of them may wait for the proxy, and at most half of what is free for one
    /// destination
    #[arg(long, value_name = "COUNT", default_value_t = 16_384, help_heading = "Connections",
        value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub(crate) connections: u32,
    /// The most memory for what connections to the clients hold, in MB. Beside it, each connection takes some
    /// 5 kB, and up to 192 kB while its receiver does not keep up
    #[arg(long, value_name = "MB", default_value_t = 256, help_heading = "Connections",
        value_parser = clap::value_parser!(u32).range(4..=1_000_000))]
    memory: u32,
    /// The most that waits in each direction of a connection, in kB. Waiting data of a bulk transfer delays
    /// the client's other connections; less than the client's rate times its round trip slows the transfer
    /// down. The default suits clients on this host
    #[arg(long, value_name = "KB", default_value_t = 512, help_heading = "Connections",
        value_parser = clap::value_parser!(u32).range(16..=65_536))]
    buffer: u32,
    /// The largest IP packet, in bytes. Beyond 1500, datagrams up to this size come back whole (longer ones
    /// are dropped), and fewer packets carry the same bytes; packets never leave this host, so no network has
    /// to carry them. 1500 is right where other hosts route their packets through this one
    #[arg(long, value_name = "BYTES", default_value_t = 8500, help_heading = "Connections",
        value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub(crate) mtu: u32,
    /// Threads, each with a queue of the device (default: as many as there are processors). A device that
    /// exists must have been made with `multi_queue`, unless this is 1
    #[arg(long, value_name = "COUNT", help_heading = "Connections")]
    pub(crate) threads: Option<NonZero<usize>>,

    /// A socket for `tcpcat ss`, `top` and `trace`
    #[arg(long, value_name = "PATH", help_heading = "Watching")]
    pub(crate) control: Option<PathBuf>,
    /// Serves metrics in the format of Prometheus over HTTP
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Watching")]
    pub(crate) metrics: Option<SocketAddr>,
    /// How many seconds connections may take to finish at the end, before they are reset
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    pub(crate) grace: u64,
    /// Says what becomes of each connection
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// How the gateway's own sockets stay out of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bypass {
    /// A mark of the sockets, and a rule for it
    Mark,
    /// The interface of `--via`
    Device,
    /// A route to the proxy
    Route,
}

impl Tun2socksArgs {
    /// The proxy, and the credentials for it. Its name is looked up once, now.
    pub(crate) async fn proxy(&self) -> anyhow::Result<Proxy> {
        let ProxyUrl { kind, host } = &self.proxy;
        let mut found = tokio::net::lookup_host(host).await.with_context(|| format!("the proxy {host}"))?;
        let addr = found.next().with_context(|| format!("the proxy {host} has no address"))?;
        let read = |path: &PathBuf| -> anyhow::Result<Credentials> {
            let text =
                fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
            text.parse().map_err(|why| anyhow!("{}: {why}", path.display()))
        };
        let credentials = self.credentials_file.as_ref().map(read).transpose()?;
        Ok(Proxy { addr, kind: *kind, credentials, outlet: self.outlet() })
    }

    fn outlet(&self) -> Outlet {
        Outlet { mark: self.mark(), interface: self.via.clone().filter(|_| self.bypass == Bypass::Device) }
    }

    /// The mark of the gateway's sockets.
    pub(crate) fn mark(&self) -> Option<u32> {
        (self.bypass == Bypass::Mark).then_some(MARK)
    }

    pub(crate) fn routes_to_proxy(&self) -> bool {
        self.bypass == Bypass::Route
    }

    /// The pool of addresses for names, if it is asked for.
    pub(crate) fn names(&self) -> anyhow::Result<Option<Names>> {
        if self.names.is_empty() {
            return Ok(None);
        }
        let ttl = Duration::from_secs(self.names_ttl.into());
        Ok(Some(Names::new(&self.names, ttl, self.names_file.as_deref())?))
    }

    /// The networks that go into the device.
    pub(crate) fn networks(&self) -> anyhow::Result<Vec<Cidr>> {
        let mut networks = self.route.clone();
        if networks.is_empty() && self.configure {
            let families = self.address.iter().map(|address| address.addr().is_ipv4());
            let mut all: Vec<Cidr> = families
                .map(|is_v4| if is_v4 { "0.0.0.0/0" } else { "::/0" }.parse())
                .collect::<Result<_, _>>()?;
            all.sort_by_key(|network| network.addr());
            all.dedup();
            networks = all;
        }
        for network in &self.names {
            if !networks.contains(network) {
                networks.push(*network);
            }
        }
        if let Some(wrong) = self.names.iter().find(|network| !self.has_family(network)) {
            bail!("--names {wrong} needs an --address of its family, from which clients dial");
        }
        Ok(networks)
    }

    fn has_family(&self, network: &Cidr) -> bool {
        self.address.iter().any(|address| address.addr().is_ipv4() == network.addr().is_ipv4())
    }

    pub(crate) fn udp_timeouts(&self) -> Timeouts {
        // RFC 4787 §4.3: a mapping must not end before two minutes have passed, except for a port whose use
        // is known (read in quotations).
        Timeouts::new(&[(None, 120), (Some(53), 10)], &self.udp_timeout)
    }

    pub(crate) fn tcp_timeouts(&self) -> Timeouts {
        // RFC 5382 §5: 2 hours and 4 minutes at least (read in quotations).
        Timeouts::new(&[(None, 7440)], &self.tcp_timeout)
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer as usize * 1024
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory as usize * 1_000_000
    }

    /// The file that says what to take back.
    pub(crate) fn state_file(&self) -> PathBuf {
        self.state.join(format!("tun2socks-{}.undo", self.device))
    }
}

const EXAMPLES: &str = "\
Examples:
  ssh -N -D 127.0.0.1:1080 host.example.org &
  tun2socks --proxy 127.0.0.1:1080 --route 203.0.113.0/24 --no-udp   # ssh carries TCP alone
  curl http://203.0.113.7/

The whole host, names included; name servers hear nothing, and the proxy looks names up:
  tun2socks --proxy socks5://192.0.2.1:1080 --configure --address 198.18.0.1/30 --address fd74:2671::1/64 \\
    --names 198.19.0.0/16 --names fd74:2670::/64 --names-file /var/lib/tun2socks.names

What it does meanwhile:
  tun2socks .. --control /run/tun2socks.sock --metrics 127.0.0.1:9100
  tcpcat top --control /run/tun2socks.sock";
