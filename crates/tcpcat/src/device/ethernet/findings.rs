//! The doctor's findings about a packet socket and a TAP device.

use ackclock::Cidr;
use ackclock_cli::Failure;
use ackclock_device::{
    Device, EthernetDevice, EthernetOptions, FrameDevice, LinkHandle, OpenError, configure,
};

use super::{Packet, Tap, check, check_mtu, conflict, from_routers, no_router, options, ready};
use crate::args::DeviceArgs;
use crate::device::Backend;
use crate::doctor::{self, CAP_NET_RAW, Finding, has_capability, note, ok, problem};

/// What a transfer with `--device packet` would need.
pub(super) async fn packet(args: &DeviceArgs) -> Vec<Finding> {
    let mut findings = vec![if has_capability(CAP_NET_RAW) {
        ok("privilege", "CAP_NET_RAW for the packet socket")
    } else {
        problem(
            "privilege",
            "packet sockets take CAP_NET_RAW",
            "sudo setcap cap_net_raw+ep $(command -v tcpcat), or run as root",
        )
    }];
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
    let opened = chosen(args).and_then(|options| options.open_packet(name).map_err(|error| refused(&error)));
    findings.extend(opened_device(args, &Packet, opened).await);
    if findings.iter().any(Finding::is_problem) {
        return findings;
    }
    findings.push(ok(
        "sets up",
        format!("a socket for which {name} receives one more Ethernet address; it ends with the process"),
    ));
    findings.push(note(
        "this host",
        format!("and the stack do not reach each other over {name}: what one sends leaves by the wire"),
        "to talk to this host use --device tun or tap, or a veth pair",
    ));
    findings
}

/// What a transfer with `--device tap` would need.
pub(super) async fn tap(args: &DeviceArgs) -> Vec<Finding> {
    let name = Tap.name(args);
    let mut findings = vec![doctor::tun_driver(), doctor::capability("tap")];
    findings.extend(doctor::made_link(args, &name));
    if findings.iter().any(Finding::is_problem) {
        return findings;
    }
    if let Err(failure) = check(args) {
        findings.push(of_failure("address", &failure));
        return findings;
    }
    let existed = configure::link_state(&name).is_ok();
    let opened = chosen(args).and_then(|options| options.open_tap(&name).map_err(|error| refused(&error)));
    findings.extend(opened_device(args, &Tap, opened).await);
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

/// Whether the device opened, with offload, and whether its addresses are free on the link.
async fn opened_device<F: FrameDevice>(
    args: &DeviceArgs,
    backend: &dyn Backend,
    opened: Result<(EthernetDevice<F>, Option<String>), Finding>,
) -> Vec<Finding> {
    let name = backend.name(args);
    let (mut device, fell_back) = match opened {
        Ok(opened) => opened,
        Err(finding) => return vec![finding],
    };
    let mac = device.handle().mac();
    let mut findings = vec![
        ok("device", format!("the stack can be the station {mac} on {name}")),
        doctor::offload(fell_back, device.capabilities()),
    ];
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

/// What the link's routers offer.
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
