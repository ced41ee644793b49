//! The command line.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use ackclock::Cidr;
use anyhow::{Context, anyhow};
use clap::Parser;

use crate::socks5::{Credentials, Proxy};
use crate::udp;

/// Sends everything that is routed into a TUN device through a SOCKS5 proxy: TCP and UDP, to any address. A
/// client is answered as its destination answers the proxy: accepted, refused or unreachable.
///
/// Takes CAP_NET_ADMIN. The device is gone when this ends: at SIGINT, SIGTERM, or if someone takes the device
/// away.
#[derive(Debug, Parser)]
#[command(name = "tun2socks", after_help = EXAMPLES)]
pub(crate) struct Tun2socksArgs {
    /// The TUN device, which is made if it does not exist
    #[arg(long, value_name = "NAME", default_value = "tun0")]
    pub(crate) device: String,
    /// Where the proxy is; the way there must not lead into the device
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) proxy: SocketAddr,
    /// A file with USER:PASSWORD for the proxy
    #[arg(long, value_name = "FILE")]
    credentials_file: Option<PathBuf>,
    /// An address of the kernel's end, from which its clients dial; can be repeated
    #[arg(long, value_name = "ADDRESS/PREFIX", default_value = "198.18.0.1/30")]
    pub(crate) address: Vec<Cidr>,
    /// A network that is routed into the device; can be repeated (default: what its addresses' prefixes say)
    #[arg(long, value_name = "NETWORK/PREFIX")]
    pub(crate) route: Vec<Cidr>,
    /// The largest IP packet, in bytes; datagrams that do not fit are dropped on their way back
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub(crate) mtu: u32,
    /// Leave UDP out: datagrams are dropped
    #[arg(long)]
    pub(crate) no_udp: bool,
    /// After how many seconds without a datagram a client's relay ends
    #[arg(long, value_name = "SECONDS", default_value_t = udp::IDLE_SECONDS)]
    pub(crate) udp_timeout: u64,
    /// How many seconds connections may take to finish at the end, before they are reset
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    pub(crate) grace: u64,
    /// Say what becomes of each connection
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

impl Tun2socksArgs {
    /// The proxy, and the credentials for it.
    pub(crate) fn proxy(&self) -> anyhow::Result<Proxy> {
        let read = |path: &PathBuf| -> anyhow::Result<Credentials> {
            let text =
                fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
            text.parse().map_err(|why| anyhow!("{}: {why}", path.display()))
        };
        Ok(Proxy { addr: self.proxy, credentials: self.credentials_file.as_ref().map(read).transpose()? })
    }
}

const EXAMPLES: &str = "\
Examples:
  ssh -N -D 127.0.0.1:1080 host.example.org &
  tun2socks --device tun0 --proxy 127.0.0.1:1080 --route 203.0.113.0/24 --no-udp   # ssh carries TCP alone
  curl http://203.0.113.7/

Everything but the way to the proxy itself (192.0.2.1 behind eth0):
  ip route add 192.0.2.1 via GATEWAY dev eth0
  tun2socks --device tun0 --proxy 192.0.2.1:1080 --route 0.0.0.0/1 --route 128.0.0.0/1";
