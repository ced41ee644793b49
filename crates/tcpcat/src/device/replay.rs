//! A capture file; one of its sides answers.

use std::path::PathBuf;
use std::time::Duration;

use ackclock::Cidr;
use ackclock_cli::{Exit, Failure};
use ackclock_device::recording::CaptureFileError;
use ackclock_device::{Pace, Replay, ReplayConfig};

use super::{Backend, Later, Opened};
use crate::args::{DeviceArgs, DeviceFlag};
use crate::doctor::{Finding, note, ok, problem};

/// `--device FILE.pcapng`.
#[derive(Clone, Debug)]
pub(crate) struct Recording(pub(super) PathBuf);

impl Backend for Recording {
    fn word(&self) -> &'static str {
        "FILE"
    }

    fn takes(&self) -> &'static [DeviceFlag] {
        &[DeviceFlag::Mtu, DeviceFlag::AtOnce]
    }

    fn name(&self, _: &DeviceArgs) -> String {
        self.0.display().to_string()
    }

    fn diagnosis(&self, _: &DeviceArgs) -> String {
        "do here what the recorded end did, with its options; a transfer with --verify or -P cannot be \
         played, because each has a number of its own"
            .to_owned()
    }

    /// The other side was recorded, and answers nothing new.
    fn close_within(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn open<'a>(&'a self, args: &'a DeviceArgs, _: bool) -> Later<'a, Result<Opened, Failure>> {
        Box::pin(async { self.open_now(args) })
    }

    fn findings<'a>(&'a self, args: &'a DeviceArgs) -> Later<'a, Vec<Finding>> {
        Box::pin(async { self.findings_now(args) })
    }
}

impl Recording {
    fn open_now(&self, args: &DeviceArgs) -> Result<Opened, Failure> {
        let replay = self.replay(args).map_err(|error| {
            Failure::new(Exit::File, error.to_string())
                .remedy("capture one with --pcap FILE or tcpdump -w FILE")
        })?;
        for remark in replay.remarks() {
            say!("tcpcat: {}: {remark}", self.0.display());
        }
        if replay.packets() == 0 {
            return Err(Failure::new(Exit::File, format!("{} has nothing for the stack", self.0.display()))
                .remedy("give --addr the address that one side of the recording has"));
        }
        Ok(Opened::new(Box::new(replay), args))
    }

    fn findings_now(&self, args: &DeviceArgs) -> Vec<Finding> {
        let what = "recording";
        match self.replay(args) {
            Ok(replay) if replay.packets() == 0 && !args.addr.is_empty() => vec![problem(
                what,
                format!("{} has no packet to the stack's addresses", self.0.display()),
                "give --addr the address that one side of the recording has",
            )],
            Ok(replay) => {
                let remarks = replay.remarks().into_iter();
                let read = ok(
                    what,
                    format!("{} can be read: {} packets to play", self.0.display(), replay.packets()),
                );
                std::iter::once(read)
                    .chain(remarks.map(|remark| note(what, remark, "what is left out is not played")))
                    .collect()
            }
            Err(error) => {
                vec![problem(what, error.to_string(), "capture one with --pcap FILE or tcpdump -w FILE")]
            }
        }
    }

    fn replay(&self, args: &DeviceArgs) -> Result<Replay, CaptureFileError> {
        let mut config = ReplayConfig::new(args.addr.iter().map(Cidr::addr));
        config.pace = if args.at_once { Pace::AtOnce } else { Pace::Recorded };
        config.mtu = args.mtu.map_or(config.mtu, |mtu| mtu as usize);
        Replay::open(&self.0, config)
    }
}
