//! A TUN device, opened or created; its other end is the kernel's.

use std::net::IpAddr;
use std::process::Command;

use ackclock::Cidr;
use ackclock_cli::{Exit, Failure};
use ackclock_device::configure::{self, Configure};
use ackclock_device::{Device, open, open_queues};

use super::{Backend, Label, Later, Opened};
use crate::args::{DeviceArgs, DeviceFlag};
use crate::doctor::{self, Finding};
use crate::exit::OrFail;

/// `--device tun`.
#[derive(Debug)]
pub(super) struct Tun;

impl Backend for Tun {
    fn word(&self) -> &'static str {
        "tun"
    }

    fn takes(&self) -> &'static [DeviceFlag] {
        use DeviceFlag::{Configure, Mtu, OffloadOn, Peer, Queues, Tun};
        &[Tun, Queues, Peer, Mtu, OffloadOn, Configure]
    }

    fn name(&self, args: &DeviceArgs) -> String {
        args.tun().to_owned()
    }

    fn diagnosis(&self, args: &DeviceArgs) -> String {
        Label::tun(args.tun()).diagnosis
    }

    fn open<'a>(&'a self, args: &'a DeviceArgs, verbose: bool) -> Later<'a, Result<Opened, Failure>> {
        Box::pin(async move { Ok(Opened::with_queues(open_devices(args, verbose)?, args)) })
    }

    fn findings<'a>(&'a self, args: &'a DeviceArgs) -> Later<'a, Vec<Finding>> {
        Box::pin(async { doctor::tun_findings(args) })
    }

    /// Another user may have to bring it up.
    fn is_up(&self, args: &DeviceArgs) -> bool {
        configure::link_state(args.tun()).is_ok_and(|state| state.up)
    }
}

/// Checks the addresses, opens the device or its queues, and sets up the kernel's end if asked to.
fn open_devices(args: &DeviceArgs, verbose: bool) -> Result<Vec<Box<dyn Device>>, Failure> {
    for address in &args.addr {
        if configure::kernel_has(address.addr()) {
            return Err(owned_by_kernel(*address));
        }
    }
    let (devices, fell_back) = match args.queues() {
        Some(queues) => open_queues(args.tun(), args.offload.into(), queues).or_fail()?,
        None => open(args.tun(), args.offload.into())
            .map(|(device, fell_back)| (vec![device], fell_back))
            .or_fail()?,
    };
    if let (Some(why), true) = (fell_back, verbose) {
        say!("tcpcat: no segmentation offload: {why}");
    }
    set_up_kernel_end(args, args.tun())?;
    Ok(devices)
}

/// Gives the kernel's end its addresses and brings it up, if asked to; sets its MTU.
pub(super) fn set_up_kernel_end(args: &DeviceArgs, name: &str) -> Result<(), Failure> {
    if !args.configure {
        return args.mtu.map_or(Ok(()), |mtu| configure::set_mtu(name, mtu).or_fail());
    }
    let mut end = args.mtu.into_iter().fold(configure::configure(name), Configure::mtu);
    for &address in &args.addr {
        end = end.address(kernel_address(args, address)?);
    }
    end.apply().or_fail()
}

/// The kernel's address in the network of `address`: the given one, or the first host other than the stack.
pub(crate) fn kernel_address(args: &DeviceArgs, address: Cidr) -> Result<Cidr, Failure> {
    let given = args.peer.filter(|peer| peer.is_ipv4() == address.addr().is_ipv4());
    let other = || configure::kernel_address(address).map(|other| other.addr());
    let peer = given.or_else(other).ok_or_else(|| {
        Failure::usage(format!("the network {address} has no room for the kernel's address"))
            .remedy("give it with --peer ADDR")
    })?;
    if peer == address.addr() {
        return Err(Failure::usage(format!("--peer {peer} is the stack's own address"))
            .remedy("give the kernel's end another address of the same network"));
    }
    Cidr::new(peer, address.prefix_len()).map_err(|error| Failure::usage(error.to_string()))
}

/// The kernel's interface with this address, if `ip` can say.
pub(crate) fn interface_of(addr: IpAddr) -> Option<String> {
    let listed = Command::new("ip").args(["-o", "addr", "show", "to", &addr.to_string()]).output().ok()?;
    // 2: eth0    inet 192.0.2.7/24 ..
    String::from_utf8_lossy(&listed.stdout).split_whitespace().nth(1).map(str::to_owned)
}

/// The failure to report if the kernel has the stack's address, and would answer in its place.
pub(crate) fn owned_by_kernel(address: Cidr) -> Failure {
    let addr = address.addr();
    let holder = interface_of(addr);
    let on = holder.as_ref().map_or_else(String::new, |name| format!(" (on {name})"));
    let name = holder.as_deref().unwrap_or("NAME");
    Failure::new(
        Exit::Device,
        format!("{addr} belongs to this machine's kernel{on}, which would answer in the stack's place"),
    )
    .remedy(format!(
        "choose another address of the network for --addr, or: sudo ip addr del {address} dev {name}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_loopback() {
        assert!(configure::kernel_has([127, 0, 0, 1].into()));
        assert!(!configure::kernel_has([192, 0, 2, 77].into()));
    }
}
