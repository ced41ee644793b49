//! The devices of the demonstration's hosts, and the kernel between them.
//!
//! ```text
//! tun, tap   A ─ tun-a, tap-a ─ kernel, which forwards ─ tun-b, tap-b ─ B
//! packet     A ─ eth-a ═ veth ═ wire-a ─ kernel, which forwards ─ wire-b ═ veth ═ eth-b ─ B
//! raw        A, B and the kernel on addresses of one host, over its loopback interface
//! ```
//!
//! All of it is in a network namespace that ends with the process, however the process ends.

use std::net::IpAddr;
use std::time::Duration;

use ackclock_cli::{Exit, Failure};
use ackclock_device::configure::Cidr;
use ackclock_device::link::Detection;
use ackclock_device::{
    Device, EthernetDevice, EthernetOptions, FrameDevice, OffloadMode, RawConfig, RawDevice, configure, open,
};

use super::network::{ADDR_A, ADDR_B, CONTROLLER, KERNEL_A, KERNEL_B, PREFIX};
use crate::args::DemoDevice;
use crate::exit::OrFail;

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    A,
    B,
}

/// The place of a host, in words.
pub(super) fn place(device: DemoDevice, end: End) -> String {
    match device {
        DemoDevice::Raw => "by raw sockets".to_owned(),
        _ => format!("on {}", interface(device, end)),
    }
}

/// Makes the devices of both hosts, and makes the kernel forward between them.
pub(super) async fn lay(device: DemoDevice) -> Result<(Box<dyn Device>, Box<dyn Device>), Failure> {
    configure::set_up(LOOPBACK, true).or_fail()?;
    if device == DemoDevice::Raw {
        // Packets as large as on other devices, so that the same losses have the same effect.
        configure::set_mtu(LOOPBACK, ETHERNET_MTU).or_fail()?;
    }
    let devices = (end(device, End::A).await?, end(device, End::B).await?);
    if device != DemoDevice::Raw {
        choose_kernels_controller(kernels_interface(device, End::A));
        forward()?;
    }
    Ok(devices)
}

/// Waits until the devices of an earlier round are gone: a driver that has finished still holds its device
/// for a moment.
pub(super) async fn gone() {
    let made =
        [DemoDevice::Tun, DemoDevice::Tap].map(|device| [End::A, End::B].map(|end| interface(device, end)));
    let gone = async {
        while made.iter().flatten().any(|name| configure::link_state(name).is_ok()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), gone).await;
}

async fn end(device: DemoDevice, end: End) -> Result<Box<dyn Device>, Failure> {
    let (own, kernel) = match end {
        End::A => (ADDR_A, KERNEL_A),
        End::B => (ADDR_B, KERNEL_B),
    };
    let (name, kernels) = (interface(device, end), kernels_interface(device, end));
    match device {
        DemoDevice::Tun => {
            let (device, _) = open(name, OffloadMode::Auto).or_fail()?;
            configure::configure(kernels).address(cidr(kernel)?).apply().or_fail()?;
            Ok(device)
        }
        DemoDevice::Tap => {
            let (device, _) = ethernet(own, kernel)?.open_tap(name).or_fail()?;
            configure::configure(kernels).address(cidr(kernel)?).apply().or_fail()?;
            ready(device).await
        }
        DemoDevice::Packet => {
            configure::add_veth(name, kernels).or_fail()?;
            configure::set_up(name, true).or_fail()?;
            configure::configure(kernels).address(cidr(kernel)?).apply().or_fail()?;
            let (device, _) = ethernet(own, kernel)?.open_packet(name).or_fail()?;
            ready(device).await
        }
        DemoDevice::Raw => {
            configure::add_address(LOOPBACK, host_cidr(kernel)?, None).or_fail()?;
            if let Err(error) = configure::add_local_route(own, Some(CONTROLLER)) {
                tell_of_controller(&error);
                configure::add_local_route(own, None).or_fail()?;
            }
            let device = RawDevice::open(&RawConfig::new([own]));
            let device = device.map_err(|error| Failure::new(Exit::Device, error.to_string()))?;
            Ok(Box::new(device))
        }
    }
}

/// The address `own`, and the way through the kernel, which is known not to have that address.
fn ethernet(own: IpAddr, kernel: IpAddr) -> Result<EthernetOptions, Failure> {
    Ok(EthernetOptions::new().address(cidr(own)?).gateway(kernel).detection(Detection::Announce))
}

async fn ready<F: FrameDevice + Send + 'static>(
    mut device: EthernetDevice<F>,
) -> Result<Box<dyn Device>, Failure> {
    let ready = device.ready().await;
    ready.map_err(|error| Failure::new(Exit::Device, error.to_string()))?;
    Ok(Box::new(device))
}

/// Makes the kernel's TCP send to host A with the controller that host A uses. If the kernel lacks that
/// controller, the table names the one that it used.
fn choose_kernels_controller(interface: &str) {
    if let Err(error) = configure::add_controlled_route(interface, ADDR_A.into(), CONTROLLER) {
        tell_of_controller(&error);
    }
}

fn tell_of_controller(error: &configure::ConfigureError) {
    say!("The kernel's TCP uses its own controller: {error}");
}

/// Makes the kernel forward between the devices of this namespace.
fn forward() -> Result<(), Failure> {
    std::fs::write(IP_FORWARD, "1").map_err(|error| {
        Failure::new(
            Exit::Device,
            format!("cannot make the kernel forward between them: {IP_FORWARD}: {error}"),
        )
    })
}

fn cidr(addr: IpAddr) -> Result<Cidr, Failure> {
    Cidr::new(addr, PREFIX).map_err(|error| Failure::usage(error.to_string()))
}

fn host_cidr(addr: IpAddr) -> Result<Cidr, Failure> {
    Cidr::new(addr, 32).map_err(|error| Failure::usage(error.to_string()))
}

/// The host's interface.
fn interface(device: DemoDevice, end: End) -> &'static str {
    match (device, end) {
        (DemoDevice::Tun, End::A) => "tun-a",
        (DemoDevice::Tun, End::B) => "tun-b",
        (DemoDevice::Tap, End::A) => "tap-a",
        (DemoDevice::Tap, End::B) => "tap-b",
        (DemoDevice::Packet, End::A) => "eth-a",
        (DemoDevice::Packet, End::B) => "eth-b",
        (DemoDevice::Raw, _) => LOOPBACK,
    }
}

/// The kernel's interface towards the host.
fn kernels_interface(device: DemoDevice, end: End) -> &'static str {
    match (device, end) {
        (DemoDevice::Packet, End::A) => "wire-a",
        (DemoDevice::Packet, End::B) => "wire-b",
        _ => interface(device, end),
    }
}

const LOOPBACK: &str = "lo";
const ETHERNET_MTU: u32 = 1500;
const IP_FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
