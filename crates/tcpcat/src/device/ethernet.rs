//! A station on an Ethernet: a packet socket or AF_XDP on an interface of this host, or a TAP device whose
//! other end is the kernel's.

mod findings;
mod remarks;

use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use ackclock::Cidr;
use ackclock_cli::{Exit, Failure};
use ackclock_device::link::{AddressState, Detection};
use ackclock_device::{Device, EthernetDevice, EthernetOptions, FrameDevice, LinkHandle, XdpMode, configure};

use super::{Backend, Later, Opened, kernel_address, owned_by_kernel, tun, wait_for_link};
use crate::args::{DeviceArgs, DeviceFlag, MacChoice};
use crate::doctor::Finding;
use crate::exit::OrFail;

pub(crate) use remarks::Remarks;

/// `--device packet`.
#[derive(Debug)]
pub(super) struct Packet;

/// `--device xdp`.
#[derive(Debug)]
pub(super) struct Xdp;

/// `--device tap`.
#[derive(Debug)]
pub(super) struct Tap;

impl Backend for Packet {
    fn word(&self) -> &'static str {
        "packet"
    }

    fn takes(&self) -> &'static [DeviceFlag] {
        use DeviceFlag::{Autoconf, Gateway, Interface, Mac, Mtu, NoProbe, OffloadOn, Promiscuous, Queues};
        &[Interface, Queues, Autoconf, Gateway, Mac, Mtu, OffloadOn, Promiscuous, NoProbe]
    }

    fn name(&self, args: &DeviceArgs) -> String {
        args.interface.clone().unwrap_or_else(|| "NAME".to_owned())
    }

    fn diagnosis(&self, args: &DeviceArgs) -> String {
        format!("tcpcat doctor --device packet --interface {}", self.name(args))
    }

    fn open<'a>(&'a self, args: &'a DeviceArgs, verbose: bool) -> Later<'a, Result<Opened, Failure>> {
        Box::pin(async move {
            let name = interface(args)?;
            let count = args.queues().unwrap_or(1);
            let (queues, fell_back) = options(args)?.open_packet_queues(name, count).or_fail()?;
            tell_of_offload(fell_back, verbose);
            settled(self, args, queues, verbose).await
        })
    }

    fn findings<'a>(&'a self, args: &'a DeviceArgs) -> Later<'a, Vec<Finding>> {
        Box::pin(findings::packet(args))
    }

    fn is_up(&self, args: &DeviceArgs) -> bool {
        configure::link_state(&self.name(args)).is_ok_and(|state| state.up)
    }
}

impl Backend for Xdp {
    fn word(&self) -> &'static str {
        "xdp"
    }

    fn takes(&self) -> &'static [DeviceFlag] {
        use DeviceFlag::{Autoconf, Gateway, Interface, Mac, Mtu, NoProbe, Queues};
        &[Interface, Queues, Autoconf, Gateway, Mac, Mtu, NoProbe]
    }

    fn name(&self, args: &DeviceArgs) -> String {
        Packet.name(args)
    }

    fn diagnosis(&self, args: &DeviceArgs) -> String {
        format!("tcpcat doctor --device xdp --interface {}", self.name(args))
    }

    fn open<'a>(&'a self, args: &'a DeviceArgs, verbose: bool) -> Later<'a, Result<Opened, Failure>> {
        Box::pin(async move {
            let name = interface(args)?;
            let count = args.queues().unwrap_or(1);
            let (queues, fell_back) = options(args)?.open_xdp(name, XdpMode::Auto, count).or_fail()?;
            match (fell_back, queues.first().and_then(|first| first.frame_device().mode())) {
                (Some(why), _) => say!("tcpcat: a packet socket on {name}, not AF_XDP: {why}"),
                (None, Some(XdpMode::Generic)) if verbose => {
                    say!(
                        "tcpcat: AF_XDP on {name}, before the kernel; its driver has no place for a program"
                    );
                }
                (None, _) if verbose => say!("tcpcat: AF_XDP on {name}, in its driver"),
                (None, _) => {}
            }
            settled(self, args, queues, verbose).await
        })
    }

    fn findings<'a>(&'a self, args: &'a DeviceArgs) -> Later<'a, Vec<Finding>> {
        Box::pin(findings::xdp(args))
    }

    fn is_up(&self, args: &DeviceArgs) -> bool {
        Packet.is_up(args)
    }
}

impl Backend for Tap {
    fn word(&self) -> &'static str {
        "tap"
    }

    fn takes(&self) -> &'static [DeviceFlag] {
        use DeviceFlag::{Autoconf, Configure, Gateway, Interface, Mac, Mtu, OffloadOn, Peer};
        &[Interface, Autoconf, Gateway, Mac, Peer, Mtu, OffloadOn, Configure]
    }

    fn name(&self, args: &DeviceArgs) -> String {
        args.interface.clone().unwrap_or_else(|| "tap0".to_owned())
    }

    fn diagnosis(&self, args: &DeviceArgs) -> String {
        format!("tcpcat doctor --device tap --interface {}", self.name(args))
    }

    fn open<'a>(&'a self, args: &'a DeviceArgs, verbose: bool) -> Later<'a, Result<Opened, Failure>> {
        Box::pin(async move {
            check(args)?;
            let name = self.name(args);
            if args.mac == Some(MacChoice::Interface) {
                return Err(Failure::usage(format!(
                    "the Ethernet address of {name} belongs to the kernel's end"
                ))
                .remedy("give the stack another, such as --mac 02:00:5e:10:00:01, or leave --mac out"));
            }
            let (device, fell_back) = options(args)?.open_tap(&name).or_fail()?;
            tell_of_offload(fell_back, verbose);
            tun::set_up_kernel_end(args, &name)?;
            settled(self, args, vec![device], verbose).await
        })
    }

    fn findings<'a>(&'a self, args: &'a DeviceArgs) -> Later<'a, Vec<Finding>> {
        Box::pin(findings::tap(args))
    }

    fn is_up(&self, args: &DeviceArgs) -> bool {
        configure::link_state(&self.name(args)).is_ok_and(|state| state.up)
    }
}

/// The Ethernet interface of the host that the flags name, on which they can work.
fn interface(args: &DeviceArgs) -> Result<&str, Failure> {
    let Some(name) = &args.interface else {
        return Err(Failure::usage("the stack needs an Ethernet interface to be a station on")
            .remedy("name it with --interface eth0 (ip link lists them)"));
    };
    check(args)?;
    check_mtu(args, name)?;
    Ok(name)
}

/// The options that the flags ask for.
pub(super) fn options(args: &DeviceArgs) -> Result<EthernetOptions, Failure> {
    let mut options = EthernetOptions::new()
        .promiscuous(args.promiscuous)
        .autoconfigure(args.autoconf)
        .offload(args.offload.into());
    for &address in &args.addr {
        options = options.address(address);
    }
    for gateway in gateways(args)? {
        options = options.gateway(gateway);
    }
    if let Some(mtu) = args.mtu {
        options = options.mtu(mtu as usize);
    }
    if args.no_probe {
        options = options.detection(Detection::Announce);
    }
    Ok(match args.mac {
        None => options,
        Some(MacChoice::Interface) => options.interface_mac(),
        Some(MacChoice::Given(mac)) => options.mac(mac),
    })
}

/// The gateways that were given. If the kernel's end is set up, it routes families without a gateway.
fn gateways(args: &DeviceArgs) -> Result<Vec<IpAddr>, Failure> {
    let mut gateways = args.gateway.clone();
    for &address in args.addr.iter().filter(|_| args.configure) {
        let is_same_family = |gateway: &IpAddr| gateway.is_ipv4() == address.addr().is_ipv4();
        if !gateways.iter().any(is_same_family) {
            gateways.push(kernel_address(args, address)?.addr());
        }
    }
    Ok(gateways)
}

/// Refuses addresses and gateways that cannot work.
pub(super) fn check(args: &DeviceArgs) -> Result<(), Failure> {
    for &address in &args.addr {
        if configure::kernel_has(address.addr()) {
            return Err(owned_by_kernel(address));
        }
    }
    let given = &args.gateway;
    for (index, gateway) in given.iter().enumerate() {
        if given.iter().take(index).any(|earlier| earlier.is_ipv4() == gateway.is_ipv4()) {
            return Err(Failure::usage("--gateway is given twice for the same family")
                .remedy("give one for IPv4 and one for IPv6"));
        }
        check_gateway(*gateway, &args.addr)?;
    }
    Ok(())
}

fn check_gateway(gateway: IpAddr, addresses: &[Cidr]) -> Result<(), Failure> {
    if addresses.iter().any(|own| own.addr() == gateway) {
        return Err(Failure::usage(format!("--gateway {gateway} is the stack's own address"))
            .remedy("give the router's"));
    }
    let is_link_local = matches!(gateway, IpAddr::V6(v6) if v6.is_unicast_link_local());
    if is_link_local || addresses.iter().any(|own| own.contains(gateway)) {
        return Ok(());
    }
    let mut networks: Vec<String> = addresses.iter().map(|own| own.network().to_string()).collect();
    if networks.is_empty() {
        networks.push("a network of --addr".to_owned());
    }
    Err(Failure::usage(format!(
        "the gateway {gateway} cannot be reached: it is not in {}",
        networks.join(" or ")
    ))
    .remedy("name a router in the network of --addr, or widen the prefix of --addr"))
}

/// The interface belongs to the host: a packet device takes no larger packets than the interface does.
fn check_mtu(args: &DeviceArgs, name: &str) -> Result<(), Failure> {
    let (Some(mtu), Ok(link)) = (args.mtu, configure::link_state(name)) else { return Ok(()) };
    if mtu <= link.mtu {
        return Ok(());
    }
    Err(Failure::usage(format!("--mtu {mtu} is more than the {} bytes of {name}", link.mtu))
        .remedy(format!("give less, or: sudo ip link set {name} mtu {mtu}")))
}

fn tell_of_offload(fell_back: Option<String>, verbose: bool) {
    if let (Some(why), true) = (fell_back, verbose) {
        say!("tcpcat: no segmentation offload: {why}");
    }
}

/// Waits until the link is up and duplicate-address detection is over.
pub(super) async fn settled<F: FrameDevice + Send + 'static>(
    backend: &dyn Backend,
    args: &DeviceArgs,
    mut queues: Vec<EthernetDevice<F>>,
    verbose: bool,
) -> Result<Opened, Failure> {
    let name = backend.name(args);
    let Some(first) = queues.first() else {
        return Err(Failure::new(Exit::Device, format!("{name} has no queue")));
    };
    wait_for_link(backend, args, first).await?;
    let link = first.handle();
    ready(&mut queues, &name).await.map_err(|error| conflict(&error, &name))?;
    let mut addresses = args.addr.clone();
    addresses.extend(from_routers(&link));
    if addresses.is_empty() {
        return Err(no_router(&name));
    }
    if verbose {
        let all: Vec<String> = addresses.iter().map(Cidr::to_string).collect();
        say!("tcpcat: on {name} as {} with {}", link.mac(), all.join(", "));
    }
    let remarks = Remarks::new(link, name);
    let devices = queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Device>).collect();
    Ok(Opened { addresses, remarks: Some(remarks), ..Opened::with_queues(devices, args) })
}

/// The addresses made from routers' prefixes.
fn from_routers(link: &LinkHandle) -> Vec<Cidr> {
    let is_local = |addr: IpAddr| matches!(addr, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let own = link.addresses().into_iter();
    own.filter(|own| own.automatic && own.state == AddressState::Preferred && !is_local(own.prefix.addr()))
        .map(|own| own.prefix)
        .collect()
}

fn no_router(name: &str) -> Failure {
    Failure::new(Exit::Device, format!("no router on {name} offers an IPv6 prefix to take an address from"))
        .remedy("give the stack an address: --addr 2001:db8::7/64")
}

/// Waits until the addresses may be used, and reports a long wait.
async fn ready<F: FrameDevice>(queues: &mut [EthernetDevice<F>], name: &str) -> io::Result<()> {
    let mut ready = pin!(EthernetDevice::ready_queues(queues));
    if let Ok(result) = tokio::time::timeout(NOTICE_AFTER, &mut ready).await {
        return result;
    }
    say!("tcpcat: asking on {name} whether another station has the stack's addresses, for up to 7 s");
    ready.await
}

/// Why the device did not become ready.
fn conflict(error: &io::Error, name: &str) -> Failure {
    if error.kind() != io::ErrorKind::AddrInUse {
        return Failure::new(Exit::Device, ackclock_device::explain(error, name));
    }
    let text = error.to_string();
    let (what, mend) = text.split_once("; ").unwrap_or((&text, "give the stack another address"));
    Failure::new(Exit::Device, format!("{name}: {what}")).remedy(mend)
}

/// A wait longer than this is explained to the user.
const NOTICE_AFTER: Duration = Duration::from_millis(1500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_another_station_of_the_network() {
        let own: Vec<Cidr> = vec!["192.0.2.7/24".parse().unwrap(), "2001:db8::7/64".parse().unwrap()];
        let judge = |gateway: &str| {
            check_gateway(gateway.parse().unwrap(), &own).map_err(|failure| failure.to_string())
        };
        for good in ["192.0.2.1", "2001:db8::1", "fe80::1"] {
            assert_eq!(judge(good), Ok(()));
        }
        assert!(judge("192.0.2.7").unwrap_err().contains("own address"));
        assert!(judge("198.51.100.1").unwrap_err().contains("not in 192.0.2.0/24 or 2001:db8::/64"));
    }
}
