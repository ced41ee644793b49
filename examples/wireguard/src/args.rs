//! The command line.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ackclock::Cidr;
use ackclock_wireguard::keys::{self, Key};
use ackclock_wireguard::{Config, MTU, parse_mtu, quick};
use anyhow::{Context, bail, ensure};
use clap::{ArgGroup, Parser};

/// Reaches hosts behind a WireGuard peer over TCP, without a TUN device, privileges or a route of the
/// kernel's: forwards local ports to them, or joins one connection with stdin and stdout.
///
/// SIGHUP has it send from another UDP port, as after a change of the network; SIGINT and SIGTERM end it, and
/// it says what went by.
#[derive(Debug, Parser)]
#[command(name = "wireguard", after_help = EXAMPLES, group(ArgGroup::new("what").required(true).multiple(false)))]
pub(crate) struct WireguardArgs {
    /// A file as wg-quick(8) has it, in place of all the flags of the tunnel below
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "private_key_file", "peer_public_key", "preshared_key_file", "endpoint", "address", "allowed_ips",
        "keepalive", "mtu", "listen_port", "name_server",
    ])]
    config: Option<PathBuf>,
    /// The file with this end's private key, as `wg genkey` writes it
    #[arg(long, value_name = "FILE", required_unless_present = "config")]
    private_key_file: Option<PathBuf>,
    /// The peer's public key, as `wg pubkey` writes it
    #[arg(long, value_name = "KEY", value_parser = keys::parse, required_unless_present = "config")]
    peer_public_key: Option<Key>,
    /// The file with a key that both ends have beside those
    #[arg(long, value_name = "FILE")]
    preshared_key_file: Option<PathBuf>,
    /// Where the peer is
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "config")]
    endpoint: Option<String>,
    /// This end's address within the tunnel, with its prefix; can be repeated
    #[arg(long, value_name = "ADDRESS/PREFIX", required_unless_present = "config")]
    address: Vec<Cidr>,
    /// The networks behind the peer; can be repeated
    #[arg(long, value_name = "NETWORK/PREFIX", default_values = ["0.0.0.0/0", "::/0"])]
    allowed_ips: Vec<Cidr>,
    /// Send something at least so often, in seconds, so that a NAT in between does not forget this end
    #[arg(long, value_name = "SECONDS")]
    keepalive: Option<u16>,
    /// The largest IP packet within the tunnel, 1280 to 65455 bytes
    #[arg(long, default_value_t = MTU, value_parser = mtu)]
    mtu: usize,
    /// The UDP port to send from; another one is taken if the network changes (default: any)
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    listen_port: u16,
    /// A name server behind the peer, which resolves the names of REMOTE; can be repeated
    #[arg(long, value_name = "ADDRESS")]
    name_server: Vec<IpAddr>,
    /// Accept connections at LOCAL, an address and port of this host, and carry them to REMOTE, an address or
    /// name behind the peer and a port; can be repeated
    #[arg(long, value_name = "LOCAL=REMOTE", group = "what")]
    pub forward: Vec<Forward>,
    /// Connect to REMOTE, and join the connection with stdin and stdout
    #[arg(long, value_name = "REMOTE", group = "what")]
    pub connect: Option<Remote>,
}

/// The tunnel that the command line, or the file that it names, describes.
pub(crate) struct Settings {
    pub peer: Config,
    /// Where the peer is at first.
    pub endpoint: SocketAddr,
    pub addresses: Vec<Cidr>,
    pub mtu: usize,
    pub listen_port: u16,
    pub name_servers: Vec<IpAddr>,
}

/// A host behind the peer, by address or by name, and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remote(String);

/// Which local port leads where.
#[derive(Clone, Debug)]
pub(crate) struct Forward {
    /// Of this host.
    pub local: SocketAddr,
    /// Behind the peer.
    pub remote: Remote,
}

impl Remote {
    /// As `TcpStream::connect` takes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_name(&self) -> bool {
        self.0.parse::<SocketAddr>().is_err()
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Remote {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |host: &str| !host.is_empty() && !host.contains([':', '[', ']', '=', ' ']);
        let named =
            text.rsplit_once(':').is_some_and(|(host, port)| is_name(host) && port.parse::<u16>().is_ok());
        if named || text.parse::<SocketAddr>().is_ok() {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("{text:?} is not a host and port, such as 10.9.0.1:80 or wiki.example.org:80"))
    }
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (local, remote) = text.split_once('=').ok_or("write it as 127.0.0.1:8080=10.9.0.1:80")?;
        let local = local.parse().map_err(|_| {
            format!("{local:?} is not an address and port of this host, such as 127.0.0.1:8080")
        })?;
        Ok(Self { local, remote: remote.parse()? })
    }
}

impl WireguardArgs {
    /// The tunnel, its endpoint resolved by the kernel's resolver. Says on standard error what of a file has
    /// no effect, and which secrets others can read.
    pub async fn settings(&self) -> anyhow::Result<Settings> {
        let settings = match &self.config {
            Some(path) => from_file(path).await.with_context(|| path.display().to_string())?,
            None => self.by_flags().await?,
        };
        let remotes = self.forward.iter().map(|forward| &forward.remote).chain(&self.connect);
        if let (Some(name), true) =
            (remotes.into_iter().find(|to| to.is_name()), settings.name_servers.is_empty())
        {
            bail!(
                "{name} is a name, and the tunnel has no name server: give one (--name-server, or DNS in the file)"
            );
        }
        Ok(settings)
    }

    async fn by_flags(&self) -> anyhow::Result<Settings> {
        let secret = |path: &PathBuf| -> anyhow::Result<Key> {
            let (key, readable) = keys::read(path)?;
            if readable {
                warn_of_readers(path);
            }
            Ok(key)
        };
        ensure!(self.keepalive != Some(0), "--keepalive 0: leave it out for none");
        // clap asks for these three where there is no file.
        let (private_key, peer_public_key) = (self.private_key_file.as_ref(), self.peer_public_key);
        let endpoint = resolved(self.endpoint.as_deref().context("--endpoint is required")?).await?;
        let peer = Config {
            private_key: secret(private_key.context("--private-key-file is required")?)?,
            peer_public_key: peer_public_key.context("--peer-public-key is required")?,
            preshared_key: self.preshared_key_file.as_ref().map(secret).transpose()?,
            endpoint: Some(endpoint),
            allowed: self.allowed_ips.clone(),
            keepalive: self.keepalive.map(|seconds| Duration::from_secs(seconds.into())),
        };
        Ok(Settings {
            peer,
            endpoint,
            addresses: self.address.clone(),
            mtu: self.mtu,
            listen_port: self.listen_port,
            name_servers: self.name_server.clone(),
        })
    }
}

async fn from_file(path: &Path) -> anyhow::Result<Settings> {
    let (file, readable) = quick::read(path)?;
    if readable {
        warn_of_readers(path);
    }
    file.notes.iter().for_each(|note| eprintln!("{}: {note}", path.display()));
    let endpoint = resolved(&file.endpoint).await?;
    let peer = Config {
        private_key: file.private_key,
        peer_public_key: file.peer_public_key,
        preshared_key: file.preshared_key,
        endpoint: Some(endpoint),
        allowed: file.allowed,
        keepalive: file.keepalive,
    };
    Ok(Settings {
        peer,
        endpoint,
        addresses: file.addresses,
        mtu: file.mtu.unwrap_or(MTU),
        listen_port: file.listen_port.unwrap_or(0),
        name_servers: file.name_servers,
    })
}

async fn resolved(endpoint: &str) -> anyhow::Result<SocketAddr> {
    let mut found =
        tokio::net::lookup_host(endpoint).await.with_context(|| format!("endpoint {endpoint}"))?;
    found.next().with_context(|| format!("endpoint {endpoint}: there is no address"))
}

fn warn_of_readers(path: &Path) {
    let path = path.display();
    eprintln!("{path} can be read by users other than its owner; fix that with `chmod 600 {path}`");
}

fn mtu(text: &str) -> Result<usize, String> {
    parse_mtu(text).ok_or_else(|| "1280 to 65455 bytes".into())
}

const EXAMPLES: &str = "\
Examples:
  wireguard --config wg0.conf --forward 127.0.0.1:8080=10.9.0.1:80
  wg genkey >private.key && chmod 600 private.key
  wireguard --private-key-file private.key --peer-public-key KEY --endpoint vpn.example.org:51820 \\
      --address 10.9.0.2/24 --forward 127.0.0.1:8080=10.9.0.1:80
  curl http://127.0.0.1:8080/";
