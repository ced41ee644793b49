//! The doctor's findings about a packet socket, AF_XDP and a TAP device.

use ackclock::Cidr;
use ackclock_cli::Failure;
use ackclock_device::{
    Device, EthernetDevice, EthernetOptions, FrameDevice, LinkHandle, OpenError, XdpDevice, XdpMode,
    configure,
};

use super::{Packet, Tap, Xdp, check, check_mtu, conflict, from_routers, no_router, options, ready};
use crate::args::DeviceArgs;
use crate::device::Backend;
use crate::doctor::{
    self, CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN, Finding, has_capability, note, ok, problem,
};

/// Checks a transfer with `--device packet`.
pub(super) async fn packet(args: &DeviceArgs) -> Vec<Finding> {
    let open = |options: EthernetOptions, name: &str| options.open_packet(name);
    let tell = |fell_back, device: &EthernetDevice<_>| doctor::offload(fell_back, device.capabilities());
    on_interface(args, &Packet, vec![packet_right()], "a socket", open, tell).await
}

/// Checks a transfer with `--device xdp`.
pub(super) async fn xdp(args: &DeviceArgs) -> Vec<Finding> {
    let rights = [(CAP_NET_ADMIN, "CAP_NET_ADMIN"), (CAP_BPF, "CAP_BPF")].map(|(number, name)| {
        if has_capability(number) || has_capability(CAP_SYS_ADMIN) && number == CAP_BPF {
            return ok("privilege", format!("{name} for the program that redirects frames"));
        }
        note(
            "privilege",
            format!("the program that redirects frames takes {name}"),
            "sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep $(command -v tcpcat), or run as root",
        )
    });
    let findings = [packet_right()].into_iter().chain(rights).collect();
    let open = |options: EthernetOptions, name: &str| {
        let (mut queues, fell_back) = options.open_xdp(name, XdpMode::Auto, args.queues().unwrap_or(1))?;
        // There is at least one.
        Ok((queues.remove(0), fell_back))
    };
    let tell = |fell_back: Option<String>, device: &EthernetDevice<XdpDevice>| match fell_back {
        Some(why) => note("AF_XDP", why, "nothing to do: a packet socket takes its place"),
        None if device.frame_device().mode() == Some(XdpMode::Native) => ok("AF_XDP", "in the driver"),
        None => ok("AF_XDP", "before the kernel, because the driver has no place for a program"),
    };
    on_interface(args, &Xdp, findings, "a program on the interface, and a socket", open, tell).await
}

/// Checks a device on an interface of the host. `open` opens one, which sets up `what`, and `tell` judges its
/// features.
async fn on_interface<F: FrameDevice>(
    args: &DeviceArgs,
    backend: &dyn Backend,
    mut findings: Vec<Finding>,
    what: &str,
    open: impl FnOnce(EthernetOptions, &str) -> Result<(EthernetDevice<F>, Option<String>), OpenError>,
    tell: impl FnOnce(Option<String>, &EthernetDevice<F>) -> Finding,
) -> Vec<Finding> {
    let Some(name) = &args.interface else {
        findings.push(problem("link", "no interface is named", "--interface eth0 (ip link lists them)"));
        return findings;
    };
    findings.extend(link(name));
    if findings.iter().any(Finding::is_problem) {
        return findings;
    }
    if let Err(failure) = check(args).and_then(|()| check_mtu(args, name)) {
        findings.push(of_failure("address", &failure));
        return findings;
    }
    let opened = chosen(args).and_then(|options| open(options, name).map_err(|error| refused(&error)));
    findings.extend(opened_device(args, backend, opened, tell).await);
    if findings.iter().any(Finding::is_problem) {
        return findings;
    }
    findings.push(ok(
        "sets up",
        format!("{what} for which {name} receives one more Ethernet address; it ends with the process"),
    ));
    findings.push(note(
        "this host",
        format!("and the stack do not reach each other over {name}: what one sends leaves by the wire"),
        "to talk to this host use --device tun or tap, or a veth pair",
    ));
    findings
}

fn packet_right() -> Finding {
    if has_capability(CAP_NET_RAW) {
        return ok("privilege", "CAP_NET_RAW for the packet socket");
    }
    problem(
        "privilege",
        "packet sockets take CAP_NET_RAW",
        "sudo setcap cap_net_raw+ep $(command -v tcpcat), or run as root",
    )
}

/// Checks a transfer with `--device tap`.
pub(super) async fn tap(args: &DeviceArgs) -> Vec<Finding> {
    let name = Tap.name(args);
    let existed = configure::link_state(&name).is_ok();
    let mut findings = vec![doctor::tun_driver(), doctor::capability(existed)];
    findings.push(doctor::made_link(args, &name, "tap"));
    if findings.iter().any(Finding::is_problem) {
        return findings;
    }
    if let Err(failure) = check(args) {
        findings.push(of_failure("address", &failure));
        return findings;
    }
    let opened = chosen(args).and_then(|options| options.open_tap(&name).map_err(|error| refused(&error)));
    let tell = |fell_back, device: &EthernetDevice<_>| doctor::offload(fell_back, device.capabilities());
    findings.extend(opened_device(args, &Tap, opened, tell).await);
    findings.extend(args.addr.iter().flat_map(|&address| doctor::addresses(args, &name, address)));
    findings.push(doctor::kernel_end(args, &name, existed));
    findings.push(doctor::forwarding());
    findings
}

/// Whether the interface exists and is up.
fn link(name: &str) -> Option<Finding> {
    match configure::link_state(name) {
        Ok(state) if state.up => Some(ok("link", format!("{name} is up, MTU {}", state.mtu))),
        Ok(_) => Some(problem("link", format!("{name} is down"), format!("sudo ip link set {name} up"))),
        // Reported once, when it is opened.
        Err(_) => None,
    }
}

/// Whether the device opened, what `tell` says of it, and whether its addresses are free on the link.
async fn opened_device<F: FrameDevice>(
    args: &DeviceArgs,
    backend: &dyn Backend,
    opened: Result<(EthernetDevice<F>, Option<String>), Finding>,
    tell: impl FnOnce(Option<String>, &EthernetDevice<F>) -> Finding,
) -> Vec<Finding> {
    let name = backend.name(args);
    let (mut device, fell_back) = match opened {
        Ok(opened) => opened,
        Err(finding) => return vec![finding],
    };
    let mac = device.handle().mac();
    let mut findings =
        vec![ok("device", format!("the stack can be the station {mac} on {name}")), tell(fell_back, &device)];
    if (args.autoconf || !args.addr.is_empty()) && device.link_up() {
        findings.push(match ready(std::slice::from_mut(&mut device), &name).await {
            Ok(()) if args.no_probe => ok("addresses", "not probed on the link, because of --no-probe"),
            Ok(()) => ok("addresses", format!("no other station on {name} has them")),
            Err(error) => of_failure("addresses", &conflict(&error, &name)),
        });
        findings.extend(args.autoconf.then(|| autoconfigured(&device.handle(), args, &name)));
    }
    findings
}

fn chosen(args: &DeviceArgs) -> Result<EthernetOptions, Finding> {
    options(args).map_err(|failure| of_failure("address", &failure))
}

fn refused(error: &OpenError) -> Finding {
    doctor::stands_in_the_way(&error.to_string())
}

/// The offers of the link's routers.
fn autoconfigured(link: &LinkHandle, args: &DeviceArgs, name: &str) -> Finding {
    let taken: Vec<String> = from_routers(link).iter().map(Cidr::to_string).collect();
    if !taken.is_empty() {
        return ok("autoconf", format!("{} from a router", taken.join(", ")));
    }
    let failure = no_router(name);
    match args.addr.is_empty() {
        true => of_failure("autoconf", &failure),
        false => note("autoconf", failure.message(), "nothing to do: --addr gives an address"),
    }
}

fn of_failure(what: &'static str, failure: &Failure) -> Finding {
    problem(what, failure.message(), failure.help().unwrap_or("see above"))
}
