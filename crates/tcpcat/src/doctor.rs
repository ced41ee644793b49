//! `tcpcat doctor`: what a transfer needs, one line each: ok, a note, or a problem with the command that
//! fixes it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;

use ackclock::Cidr;
use ackclock_cli::Exit;
use ackclock_device::{Capabilities, configure, netns, open};

use crate::args::{DeviceArgs, DoctorArgs};
use crate::device::{DeviceChoice, kernel_address};

/// One line of the diagnosis.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    level: Level,
    what: &'static str,
    detail: String,
    mend: Option<String>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Ok,
    /// Some transfers need more; the one asked about does not.
    Note,
    Problem,
}

/// Prints the diagnosis; the exit code is 0 only if a transfer with the same device flags would work.
pub(crate) async fn run(args: DoctorArgs) -> Exit {
    let choice = if args.raw { DeviceChoice::RAW } else { args.device.device.clone() };
    let mut findings = choice.backend().findings(&args.device).await;
    if args.device.addr.is_empty() && !args.device.autoconf {
        findings.push(problem("address", "the stack needs one", "--addr 10.9.0.2/24"));
    }
    findings.push(namespaces());
    let problems = findings.iter().filter(|finding| finding.is_problem()).count();
    for finding in &findings {
        show!("{}", finding.line());
    }
    match problems {
        0 => show!("a transfer would work"),
        1 => show!("1 problem stands in the way of a transfer"),
        _ => show!("{problems} problems stand in the way of a transfer"),
    }
    let commands: Vec<&str> = findings.iter().filter_map(Finding::command).collect();
    if commands.len() > 1 {
        show!("run these, in this order:\n    {}", commands.join("\n    "));
    }
    if problems == 0 { Exit::Done } else { Exit::Device }
}

/// Checks a transfer over a TUN device.
pub(crate) fn tun_findings(args: &DeviceArgs) -> Vec<Finding> {
    let name = args.tun();
    let mut findings = vec![tun_driver()];
    let has_driver = !findings.iter().any(Finding::is_problem);
    // Checked before opening the device, which may create it.
    let existed = configure::link_state(name).is_ok();
    findings.push(capability(existed));
    findings.push(made_link(args, name, "tun"));
    // Without the privilege a device that does not exist cannot be attached, which the line above says.
    if has_driver && (existed || has_net_admin()) {
        findings.extend(attach(args));
    }
    findings.extend(args.addr.iter().flat_map(|&address| addresses(args, name, address)));
    findings.push(kernel_end(args, name, existed));
    findings.push(forwarding());
    findings
}

/// The task of the process that [`namespaces`] starts.
pub(crate) fn probe_namespaces() -> Exit {
    match netns::enter_private() {
        Ok(_) => Exit::Done,
        Err(error) => {
            say!("{error}");
            Exit::Device
        }
    }
}

/// Whether the kernel's TUN driver exists and may be used.
pub(crate) fn tun_driver() -> Finding {
    let what = "TUN driver";
    match File::options().read(true).write(true).open(TUN) {
        Ok(_) => ok(what, format!("{TUN} can be opened")),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            problem(what, format!("{TUN} may not be opened by this user"), format!("sudo chmod 0666 {TUN}"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => problem(
            what,
            format!("there is no {TUN}"),
            format!("sudo modprobe tun; in a container: docker run --device {TUN} --cap-add NET_ADMIN"),
        ),
        Err(error) => problem(what, format!("{TUN}: {error}"), "sudo modprobe tun"),
    }
}

/// Whether devices of the TUN driver can be created and configured. One that was made for this
/// user beforehand needs no privilege.
pub(crate) fn capability(existed: bool) -> Finding {
    let what = "privilege";
    if has_net_admin() {
        return ok(what, "CAP_NET_ADMIN is present: devices can be made and configured");
    }
    if existed {
        return ok(what, "none; a device made for this user needs none, except for --configure");
    }
    let detail = "without CAP_NET_ADMIN only devices made for this user work, and --configure does not";
    note(what, detail, "sudo setcap cap_net_admin+ep $(command -v tcpcat) lets it make its own")
}

fn has_net_admin() -> bool {
    has_capability(CAP_NET_ADMIN)
}

/// Whether this process has a capability, by its number in `linux/capability.h`.
pub(crate) fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    set >> number & 1 == 1
}

/// Whether the interface, of a `kind` of the TUN driver, exists and is up. A transfer may create it.
pub(crate) fn made_link(args: &DeviceArgs, name: &str, kind: &str) -> Finding {
    let what = "link";
    let up = format!("sudo ip link set {name} up");
    let configures = args.configure && has_net_admin();
    match configure::link_state(name) {
        Ok(state) if state.up => ok(what, format!("{name} is up, MTU {}", state.mtu)),
        Ok(_) if configures => ok(what, format!("{name} is down; --configure brings it up")),
        Ok(_) => problem(what, format!("{name} is down"), up),
        Err(_) if configures => {
            ok(what, format!("{name} does not exist; a transfer makes it and brings it up"))
        }
        Err(_) if has_net_admin() => note(
            what,
            format!("{name} does not exist; a transfer makes it"),
            "add --configure to the transfer's flags",
        ),
        Err(_) => problem(
            what,
            format!("{name} does not exist, and this user may not make it"),
            format!("sudo ip tuntap add dev {name} mode {kind} user $USER && {up}"),
        ),
    }
}

/// Whether this process can attach to the device, and with offload.
fn attach(args: &DeviceArgs) -> Vec<Finding> {
    let name = args.tun();
    match open(name, args.offload.into()) {
        Ok((device, fell_back)) => {
            vec![ok("device", format!("{name} can be attached")), offload(fell_back, device.capabilities())]
        }
        Err(error) => vec![stands_in_the_way(&error.to_string())],
    }
}

/// Whether the kernel exchanges packets of 64 KB.
pub(crate) fn offload(fell_back: Option<String>, capabilities: Capabilities) -> Finding {
    match fell_back {
        Some(why) => note("offload", format!("none: {why}"), "nothing to do: transfers work, slower"),
        // A device that only cuts packets itself finishes no checksums.
        None if capabilities.tx_checksum => ok("offload", "packets of 64 KB cross whole"),
        None => ok("offload", "off, as --offload asks"),
    }
}

/// Why a device cannot be opened. The driver's message ends with its advice.
pub(crate) fn stands_in_the_way(error: &str) -> Finding {
    let advice = error.split_once(": ").or_else(|| error.split_once("; "));
    let (detail, mend) = advice.unwrap_or((error, "see above"));
    problem("device", detail, mend)
}

/// The settings that a transfer makes at the kernel's end of the device `name`, and takes back.
pub(crate) fn kernel_end(args: &DeviceArgs, name: &str, existed: bool) -> Finding {
    let device = if existed {
        format!("{name} exists and stays")
    } else {
        format!("{name}, which ends with the process")
    };
    let rest = if !args.configure {
        "; nothing at the kernel's end without --configure"
    } else if existed {
        "; --configure's addresses and MTU stay, too"
    } else {
        ", and so do the addresses of --configure"
    };
    ok("sets up", format!("{device}{rest}"))
}

/// Whether an address is free for the stack, and whether the kernel would send to it through the device.
pub(crate) fn addresses(args: &DeviceArgs, name: &str, address: Cidr) -> Vec<Finding> {
    let what = "address";
    let own = address.addr();
    if configure::kernel_has(own) {
        let mend = format!("choose another address of the network, or sudo ip addr del {address} dev NAME");
        return vec![problem(
            what,
            format!("{own} belongs to the kernel, which would answer in the stack's place"),
            mend,
        )];
    }
    let kernel = match kernel_address(args, address) {
        Ok(kernel) => kernel,
        Err(failure) => return vec![problem(what, failure.to_string(), "--peer ADDR")],
    };
    let or = if has_net_admin() { ", or add --configure" } else { "" };
    let mend = format!("sudo ip addr add {kernel} dev {name}{or}");
    let route = match source_towards(own) {
        Some(source) if address.contains(source) => {
            ok("route", format!("the kernel reaches {own} from {source}"))
        }
        _ if args.configure && has_net_admin() => {
            ok("route", format!("--configure gives the kernel {kernel}"))
        }
        Some(source) => {
            problem("route", format!("the kernel would reach {own} from {source}, not through {name}"), mend)
        }
        None => problem("route", format!("the kernel has no route to {own}"), mend),
    };
    vec![ok(what, format!("{own} is free for the stack")), route]
}

/// The address from which the kernel would send to `addr`. Connecting a UDP socket sends nothing.
fn source_towards(addr: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if addr.is_ipv4() {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    socket.connect(SocketAddr::new(addr, 9)).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

/// Whether the kernel forwards between devices.
pub(crate) fn forwarding() -> Finding {
    let on = |path: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() != "0");
    match (on("/proc/sys/net/ipv4/ip_forward"), on("/proc/sys/net/ipv6/conf/all/forwarding")) {
        (true, true) => ok("forwarding", "IPv4 and IPv6"),
        (true, false) => ok("forwarding", "IPv4"),
        (false, _) => note(
            "forwarding",
            "off: two such devices reach neither each other nor other networks",
            "sudo sysctl -w net.ipv4.ip_forward=1 (and net.ipv6.conf.all.forwarding=1)",
        ),
    }
}

/// Whether the demo could have its own network. Another process tries it, because it cannot be undone.
fn namespaces() -> Finding {
    let what = "namespaces";
    let tried = std::env::current_exe()
        .and_then(|program| Command::new(program).args(["doctor", "--probe-namespaces"]).output());
    match tried {
        Ok(output) if output.status.success() => ok(what, "tcpcat demo can make its private network"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let (detail, mend) =
                said.trim().split_once(": ").unwrap_or((said.trim(), "run tcpcat demo as root"));
            note(what, detail, mend)
        }
        Err(error) => note(what, format!("cannot be tried: {error}"), "run tcpcat demo to see"),
    }
}

impl Finding {
    pub fn is_problem(&self) -> bool {
        self.level == Level::Problem
    }

    /// The command that solves the problem, if it is one.
    fn command(&self) -> Option<&str> {
        let mend = self.mend.as_deref().filter(|mend| self.is_problem() && mend.starts_with("sudo "))?;
        // Other ways may follow.
        mend.split([',', ';']).next()
    }

    fn line(&self) -> String {
        let mark = match self.level {
            Level::Ok => "ok     ",
            Level::Note => "note   ",
            Level::Problem => "PROBLEM",
        };
        let mend = self.mend.as_ref().map_or(String::new(), |mend| format!("\n{:20} -> {mend}", ""));
        format!("{mark} {:12} {}{mend}", self.what, self.detail)
    }
}

pub(crate) fn ok(what: &'static str, detail: impl Into<String>) -> Finding {
    Finding { level: Level::Ok, what, detail: detail.into(), mend: None }
}

pub(crate) fn note(what: &'static str, detail: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { level: Level::Note, what, detail: detail.into(), mend: Some(mend.into()) }
}

pub(crate) fn problem(what: &'static str, detail: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { level: Level::Problem, what, detail: detail.into(), mend: Some(mend.into()) }
}

const TUN: &str = "/dev/net/tun";

/// Capability numbers of `linux/capability.h`.
pub(crate) const CAP_NET_ADMIN: u32 = 12;
pub(crate) const CAP_NET_RAW: u32 = 13;
pub(crate) const CAP_SYS_ADMIN: u32 = 21;
pub(crate) const CAP_BPF: u32 = 39;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_followed_by_what_mends_it() {
        let line = problem("link", "tun0 is down", "sudo ip link set tun0 up").line();
        let (first, second) = line.split_once('\n').unwrap();
        assert!(first.starts_with("PROBLEM link"));
        assert!(second.trim_start().starts_with("-> sudo ip link set tun0 up"));
        assert!(!ok("link", "up").line().contains('\n'));
    }

    #[test]
    fn the_kernel_reaches_itself_from_loopback() {
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        assert_eq!(source_towards(loopback), Some(loopback));
    }
}
