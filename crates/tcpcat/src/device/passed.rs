//! TUN and TAP devices that another process opened and left open for this one.

use std::env;
use std::ops::RangeInclusive;

use ackclock_cli::{Exit, Failure};
use ackclock_device::{Capabilities, Device, Medium, PassedFd, QUEUES_MAX};

use super::{Backend, Later, Opened, ethernet};
use crate::args::{DeviceArgs, DeviceFlag};
use crate::doctor::{Finding, ok, problem, stands_in_the_way};
use crate::exit::OrFail;

/// `--device fd:3`, `fd:3,4`, or `fd`: the descriptors of `LISTEN_FDS`, for which none is kept here.
#[derive(Clone, Debug)]
pub(crate) struct Passed(Vec<i32>);

impl Passed {
    /// Parses the word after `--device`, if it speaks of descriptors.
    pub fn parse(word: &str) -> Option<Result<Self, String>> {
        if word == "fd" {
            return Some(Ok(Self(Vec::new())));
        }
        let numbers = word.strip_prefix("fd:")?.split(',').map(|number| number.parse::<i32>().ok());
        let numbers: Option<Vec<i32>> = numbers.map(|number| number.filter(|number| *number >= 0)).collect();
        Some(numbers.map(Self).ok_or_else(|| {
            format!("{word:?} does not name descriptors: write fd:3, or fd:3,4 for the queues of one device")
        }))
    }

    pub fn queues(&self) -> usize {
        self.0.len().max(1)
    }

    fn descriptors(&self) -> Result<Vec<PassedFd>, Failure> {
        let numbers = if self.0.is_empty() { listen_fds()? } else { self.0.clone() };
        numbers.into_iter().map(|number| PassedFd::inherited(number).or_fail()).collect()
    }

    async fn open_now(&self, args: &DeviceArgs, verbose: bool) -> Result<Opened, Failure> {
        ethernet::check(args)?;
        let mut rest = self.descriptors()?;
        let first = rest.remove(0);
        let name = first.name().to_owned();
        if first.medium() == Medium::Ip {
            if let Some((_, flag)) = args.given().find(|(flag, _)| *flag != DeviceFlag::Mtu) {
                return Err(Failure::usage(format!(
                    "{flag} has no effect on {name}, which carries IP packets"
                ))
                .remedy("leave it out, or pass a TAP device"));
            }
            let mtu = args.mtu.map(|mtu| mtu as usize);
            return Ok(Opened::with_queues(first.open_queues(rest, mtu).or_fail()?, args));
        }
        if !rest.is_empty() {
            return Err(Failure::usage(format!("{name} is a TAP device, of which one descriptor is used"))
                .remedy("give one number: --device fd:3"));
        }
        let device = ethernet::options(args)?.open_fd(first).or_fail()?;
        ethernet::settled(self, args, vec![device], verbose).await
    }

    async fn findings_now(&self, args: &DeviceArgs) -> Vec<Finding> {
        match self.open_now(args, false).await {
            Err(failure) => vec![match failure.help() {
                Some(fix) => problem("device", failure.message(), fix),
                None => stands_in_the_way(failure.message()),
            }],
            Ok(opened) => {
                let Capabilities { mtu, queues, tx_checksum, .. } =
                    opened.devices.first().map_or(Capabilities::ip(0), |device| device.capabilities());
                let whole = if tx_checksum { ", packets of 64 KB cross whole" } else { "" };
                vec![ok(
                    "device",
                    format!("{} is passed with {queues} queues, MTU {mtu}{whole}", self.name(args)),
                )]
            }
        }
    }
}

impl Backend for Passed {
    fn word(&self) -> &'static str {
        "fd"
    }

    fn takes(&self) -> &'static [DeviceFlag] {
        use DeviceFlag::{Autoconf, Gateway, Mac, Mtu};
        &[Autoconf, Gateway, Mac, Mtu]
    }

    /// The interface's, if the descriptor has one.
    fn name(&self, _: &DeviceArgs) -> String {
        let first = self.descriptors().ok().and_then(|fds| Some(fds.first()?.name().to_owned()));
        first.unwrap_or_else(|| "the descriptor".to_owned())
    }

    fn diagnosis(&self, _: &DeviceArgs) -> String {
        let numbers: Vec<String> = self.0.iter().map(i32::to_string).collect();
        let colon = if numbers.is_empty() { "" } else { ":" };
        format!("tcpcat doctor --device fd{colon}{}", numbers.join(","))
    }

    fn open<'a>(&'a self, args: &'a DeviceArgs, verbose: bool) -> Later<'a, Result<Opened, Failure>> {
        Box::pin(self.open_now(args, verbose))
    }

    fn findings<'a>(&'a self, args: &'a DeviceArgs) -> Later<'a, Vec<Finding>> {
        Box::pin(self.findings_now(args))
    }
}

/// The descriptors that a service manager passes: sd_listen_fds(3).
fn listen_fds() -> Result<Vec<i32>, Failure> {
    let number = |name: &str| env::var(name).ok()?.parse::<u32>().ok();
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    let passed: Option<RangeInclusive<i32>> = number("LISTEN_FDS")
        .filter(|count| is_ours && (1..=QUEUES_MAX).contains(&(*count as usize)))
        .map(|count| 3..=2 + count as i32); // at most 258
    passed.map(Iterator::collect).ok_or_else(|| {
        Failure::new(Exit::Device, "LISTEN_PID and LISTEN_FDS pass no descriptors to this process")
            .remedy("name the descriptor, as --device fd:3, or let a service manager start the program")
    })
}
