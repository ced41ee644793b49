//! Addresses of this host, through raw and packet sockets.

use std::fs;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ackclock::Cidr;
use ackclock_cli::{Exit, Failure};
use ackclock_device::{Device, Ports, RawConfig, RawDevice, RawError};

use super::{Backend, Later, Opened};
use crate::args::{DeviceArgs, DeviceFlag};
use crate::doctor::{self, CAP_NET_ADMIN, CAP_NET_RAW, Finding, has_capability, note, ok, problem};

/// `--device raw`.
#[derive(Debug)]
pub(super) struct Raw;

impl Backend for Raw {
    fn word(&self) -> &'static str {
        "raw"
    }

    fn takes(&self) -> &'static [DeviceFlag] {
        &[DeviceFlag::Interface, DeviceFlag::Ports]
    }

    fn name(&self, _: &DeviceArgs) -> String {
        "raw".to_owned()
    }

    fn link(&self, args: &DeviceArgs) -> String {
        args.interface.clone().unwrap_or_else(|| "NAME".to_owned())
    }

    fn open<'a>(&'a self, args: &'a DeviceArgs, _: bool) -> Later<'a, Result<Opened, Failure>> {
        Box::pin(async {
            let device = RawDevice::open(&config(args)).map_err(failure)?;
            Ok(Opened { ports: args.ports.clone(), ..Opened::new(Box::new(device), args) })
        })
    }

    fn findings<'a>(&'a self, args: &'a DeviceArgs) -> Later<'a, Vec<Finding>> {
        Box::pin(async { findings(args) })
    }
}

fn findings(args: &DeviceArgs) -> Vec<Finding> {
    let mut findings = vec![rights()];
    if args.addr.is_empty() {
        return findings;
    }
    match RawDevice::open(&config(args)) {
        Ok(device) => findings.extend(works(args, &device)),
        Err(error) => findings.push(stands_in_the_way(&error)),
    }
    findings.extend(args.ports.as_ref().and_then(reserved));
    findings
}

fn config(args: &DeviceArgs) -> RawConfig {
    let mut config = RawConfig::new(args.addr.iter().map(Cidr::addr).collect::<Vec<IpAddr>>());
    config.ports = args.ports.clone().map_or(Ports::All, Ports::Range);
    config.interface.clone_from(&args.interface);
    config
}

fn failure(error: RawError) -> Failure {
    let exit = match error {
        RawError::Addresses { .. } | RawError::Ports => Exit::Usage,
        _ => Exit::Device,
    };
    let failure = Failure::new(exit, error.to_string());
    match error {
        RawError::InUse { .. } => failure.remedy("leave the host its ports: --ports 40000-40999"),
        RawError::Resets { command, .. } => failure.remedy(command),
        _ => failure.remedy("tcpcat doctor --device raw with the same --addr"),
    }
}

fn rights() -> Finding {
    let what = "privilege";
    let mend = "sudo setcap cap_net_raw,cap_net_admin+ep $(command -v tcpcat), or run as root";
    match (has_capability(CAP_NET_RAW), has_capability(CAP_NET_ADMIN)) {
        (true, true) => ok(what, "CAP_NET_RAW for the sockets, CAP_NET_ADMIN for the rule against resets"),
        (true, false) => {
            problem(what, "without CAP_NET_ADMIN no rule against the kernel's resets can be set", mend)
        }
        (false, _) => problem(what, "raw and packet sockets take CAP_NET_RAW", mend),
    }
}

fn works(args: &DeviceArgs, device: &RawDevice) -> Vec<Finding> {
    let addresses: Vec<String> = args.addr.iter().map(|address| address.addr().to_string()).collect();
    let whose = match &args.ports {
        Some(ports) => format!("TCP ports {}-{} of {}", ports.start(), ports.end(), addresses.join(", ")),
        None => format!("all TCP and UDP of {}", addresses.join(", ")),
    };
    let mtu = device.capabilities().mtu;
    let link = if device.link_up() {
        ok("link", format!("up, MTU {mtu}"))
    } else {
        problem("link", "the interface is down", "sudo ip link set NAME up")
    };
    vec![
        ok("device", format!("{whose} can be the stack's")),
        link,
        ok(
            "sets up",
            "raw and packet sockets, and a rule of nftables against the kernel's answers; all end with the \
             process",
        ),
        ok("resets", "the kernel is kept from answering while a transfer runs; nothing is left behind"),
        ok("checksums", "the kernel says which are unfinished (veth, loopback) and which it has verified"),
        ok("coalescing", format!("packets above {mtu} bytes come in whole; what leaves is cut in software")),
    ]
}

fn stands_in_the_way(error: &RawError) -> Finding {
    let text = error.to_string();
    match error {
        RawError::Resets { command, source } => problem(
            "resets",
            format!("the rule against the kernel's resets is refused: {source}"),
            command.clone(),
        ),
        _ => doctor::stands_in_the_way(&text),
    }
}

/// The host may use ports of the device's range for its own connections.
fn reserved(ports: &RangeInclusive<u16>) -> Option<Finding> {
    let read = |name| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    let range = read("ip_local_port_range");
    let mut ends = range.split_whitespace().filter_map(|word| word.parse::<u16>().ok());
    let (first, last) = (ends.next()?, ends.next()?);
    let overlaps = *ports.start() <= last && first <= *ports.end();
    let is_reserved = |list: &str| {
        list.trim().split(',').any(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let covers = |from: u16, to: u16| from <= *ports.start() && *ports.end() <= to;
            from.parse().ok().zip(to.parse().ok()).is_some_and(|(from, to)| covers(from, to))
        })
    };
    let wanted = format!("{}-{}", ports.start(), ports.end());
    (overlaps && !is_reserved(&read("ip_local_reserved_ports"))).then(|| {
        note(
            "ports",
            format!("the kernel may use {wanted} for its own connections, too"),
            format!("sudo sysctl -w net.ipv4.ip_local_reserved_ports={wanted}"),
        )
    })
}
