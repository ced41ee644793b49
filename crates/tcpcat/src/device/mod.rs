//! The devices that a stack can use, one file each.
//!
//! A new one is a file with a [`Backend`], and a row of [`NAMED`].

mod ethernet;
mod passed;
mod raw;
mod replay;
mod tun;
mod unix;

use std::fmt;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::time::Duration;

use ackclock::Cidr;
use ackclock_cli::{Exit, Failure};
use ackclock_device::Device;

use crate::args::{DeviceArgs, DeviceFlag};
use crate::doctor::Finding;

pub(crate) use ethernet::Remarks;
pub(crate) use tun::{kernel_address, owned_by_kernel};

/// The devices that have a word.
const NAMED: [&dyn Backend; 5] = [&tun::Tun, &raw::Raw, &ethernet::Packet, &ethernet::Tap, &ethernet::Xdp];

/// The device that `--device` names.
#[derive(Clone, Debug)]
pub(crate) enum DeviceChoice {
    /// One of [`NAMED`].
    Named(&'static dyn Backend),
    /// Descriptors that another process opened.
    Passed(passed::Passed),
    /// A Unix socket with Ethernet frames.
    Unix(unix::Unix),
    /// A capture file.
    Recording(replay::Recording),
}

/// A kind of device.
pub(crate) trait Backend: fmt::Debug + Sync {
    /// The word after `--device`.
    fn word(&self) -> &'static str;

    /// The flags that it understands.
    fn takes(&self) -> &'static [DeviceFlag];

    /// Its name in messages.
    fn name(&self, args: &DeviceArgs) -> String;

    /// Its link's name in commands.
    fn link(&self, args: &DeviceArgs) -> String {
        self.name(args)
    }

    /// The remedy for a failure of it: a command that diagnoses it, or advice.
    fn diagnosis(&self, _: &DeviceArgs) -> String {
        format!("tcpcat doctor --device {}", self.word())
    }

    /// Opens it.
    fn open<'a>(&'a self, args: &'a DeviceArgs, verbose: bool) -> Later<'a, Result<Opened, Failure>>;

    /// Checks a transfer with these arguments.
    fn findings<'a>(&'a self, args: &'a DeviceArgs) -> Later<'a, Vec<Finding>>;

    /// How long a peer may take to answer the end of the stack's stream.
    fn close_within(&self) -> Duration {
        CLOSE_TIME_MAX
    }

    /// Whether its link is known to be up without asking the device.
    fn is_up(&self, _: &DeviceArgs) -> bool {
        false
    }
}

/// Work to wait for: an address may have to be requested first.
pub(crate) type Later<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// An open device.
#[derive(Debug)]
pub(crate) struct Opened {
    /// One device, or the queues of one.
    pub devices: Vec<Box<dyn Device>>,
    /// The stack's addresses.
    pub addresses: Vec<Cidr>,
    /// The only ports that a stack on it may take.
    pub ports: Option<RangeInclusive<u16>>,
    /// Remarks of its link while it is in use.
    pub remarks: Option<Remarks>,
}

/// A device's name in messages, the command that diagnoses it, and how long a peer on it may take to close.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub name: String,
    pub diagnosis: String,
    pub close_within: Duration,
    /// There is no stack of this program: the kernel's TCP carries all.
    pub is_kernel: bool,
}

impl Opened {
    fn new(device: Box<dyn Device>, args: &DeviceArgs) -> Self {
        Self::with_queues(vec![device], args)
    }

    fn with_queues(devices: Vec<Box<dyn Device>>, args: &DeviceArgs) -> Self {
        Self { devices, addresses: args.addr.clone(), ports: None, remarks: None }
    }
}

impl Label {
    pub fn new(name: &str, diagnosis: &str) -> Self {
        Self {
            name: name.to_owned(),
            diagnosis: diagnosis.to_owned(),
            close_within: CLOSE_TIME_MAX,
            is_kernel: false,
        }
    }

    /// For the kernel's own TCP.
    pub fn kernel() -> Self {
        Self { is_kernel: true, ..Self::new("kernel", "tcpcat doctor") }
    }

    /// For a TUN device.
    pub fn tun(name: &str) -> Self {
        Self::new(name, &format!("tcpcat doctor --tun {name}"))
    }
}

impl DeviceChoice {
    /// Addresses of this host.
    pub const RAW: Self = Self::Named(&raw::Raw);

    /// Parses the word after `--device`.
    pub fn parse(word: &str) -> Result<Self, String> {
        if word.ends_with(".pcap") || word.ends_with(".pcapng") {
            return Ok(Self::Recording(replay::Recording(word.into())));
        }
        if let Some(passed) = passed::Passed::parse(word) {
            return passed.map(Self::Passed);
        }
        if let Some(unix) = unix::Unix::parse(word) {
            return unix.map(Self::Unix);
        }
        NAMED.into_iter().find(|named| named.word() == word).map(Self::Named).ok_or_else(|| {
            let words = NAMED.map(|named| named.word()).join(", ");
            format!(
                "{word:?} is not a device: use {words}, fd:N for an open descriptor, unix:PATH or \
                 unixgram:PATH, or a capture FILE.pcap or FILE.pcapng"
            )
        })
    }

    /// The words that `--device` takes, for the help.
    pub fn forms() -> String {
        format!("{}|fd:N|unix:PATH|FILE.pcapng", NAMED.map(|named| named.word()).join("|"))
    }

    /// The words of those that have one, for completions.
    pub fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
        NAMED.into_iter().map(|named| (named.word(), ""))
    }

    /// The backend that the word names.
    pub fn backend(&self) -> &dyn Backend {
        match self {
            Self::Named(backend) => *backend,
            Self::Passed(passed) => passed,
            Self::Unix(unix) => unix,
            Self::Recording(recording) => recording,
        }
    }

    /// How many queues the word itself names.
    pub fn queues(&self) -> usize {
        if let Self::Passed(passed) = self { passed.queues() } else { 1 }
    }
}

/// Opens the device that the arguments name, and waits for its link; returns its name too.
pub(crate) async fn open(args: &DeviceArgs, verbose: bool) -> Result<(Label, Opened), Failure> {
    let backend = args.device.backend();
    refuse(args, backend)?;
    if args.addr.is_empty() && !args.autoconf {
        return Err(Failure::usage("the stack needs an address on the device").remedy(
            "add --addr 10.9.0.2/24 (and --configure to give the kernel 10.9.0.1); or use --kernel; or run \
             tcpcat demo",
        ));
    }
    let opened = backend.open(args, verbose).await?;
    if let Some(device) = opened.devices.first() {
        wait_for_link(backend, args, &**device).await?;
    }
    let label = Label {
        close_within: backend.close_within(),
        ..Label::new(&backend.name(args), &backend.diagnosis(args))
    };
    Ok((label, opened))
}

/// Refuses flags that mean nothing to the device.
fn refuse(args: &DeviceArgs, backend: &dyn Backend) -> Result<(), Failure> {
    let idle = args.given().find(|(flag, _)| !backend.takes().contains(flag));
    match idle {
        Some((_, flag)) => {
            Err(Failure::usage(format!("{flag} has no effect with --device {}", backend.word()))
                .remedy("leave it out, or see the flags of each device: tcpcat --help"))
        }
        None => Ok(()),
    }
}

/// Waits a moment for an interface that another program brings up.
async fn wait_for_link(backend: &dyn Backend, args: &DeviceArgs, device: &dyn Device) -> Result<(), Failure> {
    let name = backend.link(args);
    let deadline = tokio::time::Instant::now() + LINK_WAIT;
    let mut told = false;
    while !backend.is_up(args) && !device.link_up() {
        if tokio::time::Instant::now() >= deadline {
            return Err(Failure::new(Exit::Device, format!("{name} is down"))
                .remedy(format!("sudo ip link set {name} up (and give it an address), or add --configure")));
        }
        if !std::mem::replace(&mut told, true) {
            say!("tcpcat: {name} is down; waiting {} s for: sudo ip link set {name} up", LINK_WAIT.as_secs());
        }
        tokio::time::sleep(LINK_POLL).await;
    }
    Ok(())
}

/// How long a peer may take to answer the end of a stream.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long an interface may take to come up.
const LINK_WAIT: Duration = Duration::from_secs(5);
const LINK_POLL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn device_is_a_word_or_a_capture_file() {
        for word in ["tun", "raw", "packet", "tap", "xdp"] {
            let choice = DeviceChoice::parse(word).unwrap();
            assert!(matches!(choice, DeviceChoice::Named(backend) if backend.word() == word), "{choice:?}");
        }
        for file in ["a.pcap", "dir/b.pcapng"] {
            let choice = DeviceChoice::parse(file).unwrap();
            assert!(
                matches!(&choice, DeviceChoice::Recording(recording) if recording.0 == Path::new(file)),
                "{choice:?}"
            );
        }
        for (word, queues) in [("fd", 1), ("fd:3", 1), ("fd:3,4", 2)] {
            assert_eq!(DeviceChoice::parse(word).unwrap().queues(), queues, "{word}");
        }
        for word in ["fd:", "fd:x", "fd:3,", "fd:-1"] {
            assert!(DeviceChoice::parse(word).unwrap_err().contains("fd:3"), "{word}");
        }
        for word in ["unix:/tmp/guest", "unixgram:guest"] {
            let choice = DeviceChoice::parse(word).unwrap();
            assert!(word.starts_with(&format!("{}:", choice.backend().word())), "{choice:?}");
        }
        assert!(DeviceChoice::parse("unix:").unwrap_err().contains("path"));
        assert!(DeviceChoice::parse("eth0").unwrap_err().contains("tun, raw"));
    }
}
