//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ackclock::Cidr;
use ackclock_wireguard::keys::{self, Key};
use ackclock_wireguard::{Config, MTU};
use anyhow::{Context, ensure};
use clap::{ArgGroup, Parser};

/// Reaches hosts behind a WireGuard peer over TCP, without a TUN device, privileges or a route of the
/// kernel's: forwards local ports to them, or joins one connection with stdin and stdout.
///
/// SIGHUP has it send from another UDP port, as after a change of the network; SIGINT and SIGTERM end it, and
/// it says what went by.
#[derive(Debug, Parser)]
#[command(name = "wireguard", after_help = EXAMPLES, group(ArgGroup::new("what").required(true).multiple(false)))]
pub(crate) struct WireguardArgs {
    /// The file with this end's private key, as `wg genkey` writes it
    #[arg(long, value_name = "FILE")]
    private_key_file: PathBuf,
    /// The peer's public key, as `wg pubkey` writes it
    #[arg(long, value_name = "KEY", value_parser = keys::parse)]
    peer_public_key: Key,
    /// The file with a key that both ends have beside those
    #[arg(long, value_name = "FILE")]
    preshared_key_file: Option<PathBuf>,
    /// Where the peer is
    #[arg(long, value_name = "HOST:PORT")]
    endpoint: String,
    /// This end's address within the tunnel, with its prefix; can be repeated
    #[arg(long, value_name = "ADDRESS/PREFIX", required = true)]
    pub(crate) address: Vec<Cidr>,
    /// The networks behind the peer; can be repeated
    #[arg(long, value_name = "NETWORK/PREFIX", default_values = ["0.0.0.0/0", "::/0"])]
    pub(crate) allowed_ips: Vec<Cidr>,
    /// Send something at least so often, in seconds, so that a NAT in between does not forget this end
    #[arg(long, value_name = "SECONDS")]
    keepalive: Option<u16>,
    /// The largest IP packet within the tunnel, 1280 to 65455 bytes
    #[arg(long, default_value_t = MTU, value_parser = mtu)]
    pub(crate) mtu: usize,
    /// The UDP port to send from; another one is taken if the network changes (default: any)
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) listen_port: u16,
    /// Accept connections at LOCAL, an address and port of this host, and carry them to REMOTE; can be
    /// repeated
    #[arg(long, value_name = "LOCAL=REMOTE", group = "what")]
    pub(crate) forward: Vec<Forward>,
    /// Connect to REMOTE, and join the connection with stdin and stdout
    #[arg(long, value_name = "REMOTE", group = "what")]
    pub(crate) connect: Option<SocketAddr>,
}

/// Which local port leads where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forward {
    /// Of this host.
    pub(crate) local: SocketAddr,
    /// Behind the peer.
    pub(crate) remote: SocketAddr,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (local, remote) = text.split_once('=').ok_or("write it as 127.0.0.1:8080=10.9.0.1:80")?;
        let parse = |text: &str| {
            text.parse().map_err(|_| format!("{text:?} is not an address and port, such as 10.9.0.1:80"))
        };
        Ok(Self { local: parse(local)?, remote: parse(remote)? })
    }
}

impl WireguardArgs {
    /// The peer, whose name is resolved by the kernel's resolver.
    pub(crate) async fn peer(&self) -> anyhow::Result<Config> {
        let mut found = tokio::net::lookup_host(&self.endpoint)
            .await
            .with_context(|| format!("--endpoint {}", self.endpoint))?;
        let endpoint =
            found.next().with_context(|| format!("--endpoint {}: there is no address", self.endpoint))?;
        let secret = |path: &PathBuf| -> anyhow::Result<Key> {
            let (key, readable) = keys::read(path)?;
            if readable {
                eprintln!(
                    "{0} can be read by users other than its owner; fix that with `chmod 600 {0}`",
                    path.display()
                );
            }
            Ok(key)
        };
        ensure!(self.keepalive != Some(0), "--keepalive 0: leave it out for none");
        Ok(Config {
            private_key: secret(&self.private_key_file)?,
            peer_public_key: self.peer_public_key,
            preshared_key: self.preshared_key_file.as_ref().map(secret).transpose()?,
            endpoint: Some(endpoint),
            allowed: self.allowed_ips.clone(),
            keepalive: self.keepalive.map(|seconds| Duration::from_secs(seconds.into())),
        })
    }
}

fn mtu(text: &str) -> Result<usize, String> {
    let mtu = text.parse().map_err(|_| "not a number of bytes")?;
    // RFC 8200 §5 asks for 1,280 bytes; the longest datagram takes the rest.
    if (1280..=65_455).contains(&mtu) { Ok(mtu) } else { Err("1280 to 65455 bytes".into()) }
}

const EXAMPLES: &str = "\
Examples:
  wg genkey >private.key && chmod 600 private.key
  wireguard --private-key-file private.key --peer-public-key KEY --endpoint vpn.example.org:51820 \\
      --address 10.9.0.2/24 --forward 127.0.0.1:8080=10.9.0.1:80
  curl http://127.0.0.1:8080/";
