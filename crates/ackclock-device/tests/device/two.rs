//! Two of each device in one process: both work, one goes, the other goes on, and the name is free again.
//! Devices that clash are refused, and the error says what to do.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use ackclock_device::link::Detection;
use ackclock_device::{
    Device, EthernetOptions, OffloadMode, OpenError, Ports, RawConfig, RawDevice, RawError, configure, open,
};

use super::common::{self, in_namespace, ip};

/// The address of the stack on network `number`; the kernel's ends in 1.
fn stack(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, number, 0, 2)
}

/// The kernel sends a datagram to `to`, and `device` receives it.
async fn works(device: &mut dyn Device, to: Ipv4Addr) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.send_to(b"x", (to, 9)).unwrap();
    let here = |bytes: &[u8]| bytes.get(16..20) == Some(&to.octets()[..]) && bytes.get(9) == Some(&17);
    common::receive(device, |bytes, _| here(bytes).then_some(())).await;
}

/// Two devices, each of which `open` gives for its network.
async fn two(open: impl Fn(u8) -> Box<dyn Device>) {
    let (mut first, mut second) = (open(1), open(2));
    for _ in 0..2 {
        works(&mut *first, stack(1)).await;
        works(&mut *second, stack(2)).await;
    }
    drop(first);
    works(&mut *second, stack(2)).await;
    let mut first = open(1);
    works(&mut *first, stack(1)).await;
    works(&mut *second, stack(2)).await;
}

fn kernel_at(name: &str, number: u8) {
    configure::configure(name).address(format!("10.{number}.0.1/24").parse().unwrap()).apply().unwrap();
}

fn link(number: u8) -> EthernetOptions {
    EthernetOptions::new()
        .address(format!("{}/24", stack(number)).parse().unwrap())
        .detection(Detection::Announce)
}

#[test]
fn two_tun_devices() {
    in_namespace(|| async {
        for mode in [OffloadMode::Off, OffloadMode::Auto] {
            two(|number| {
                let name = format!("tun{number}");
                let (device, _) = open(&name, mode).unwrap();
                kernel_at(&name, number);
                device
            })
            .await;
        }
    });
}

#[test]
fn two_tap_devices() {
    in_namespace(|| async {
        for mode in [OffloadMode::Off, OffloadMode::Auto] {
            two(|number| {
                let name = format!("tap{number}");
                let (device, _) = link(number).offload(mode).open_tap(&name).unwrap();
                kernel_at(&name, number);
                let error = link(number).offload(mode).open_tap(&name).map(drop).unwrap_err();
                assert!(matches!(error, OpenError::Busy { .. }), "{error:?}");
                assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
                Box::new(device)
            })
            .await;
        }
    });
}

#[test]
fn two_packet_devices_on_two_interfaces_and_on_one() {
    in_namespace(|| async {
        for number in [1, 2] {
            ip(&format!("link add near{number} type veth peer name far{number}"));
            ip(&format!("link set near{number} up"));
            kernel_at(&format!("far{number}"), number);
        }
        two(|number| Box::new(link(number).open_packet(&format!("near{number}")).unwrap().0)).await;
        // Both on one interface: each has an Ethernet address of its own.
        let other = Ipv4Addr::new(10, 1, 0, 3);
        let mut first = link(1).open_packet("near1").unwrap().0;
        let options = EthernetOptions::new().address(format!("{other}/24").parse().unwrap());
        let mut second = options.detection(Detection::Announce).open_packet("near1").unwrap().0;
        assert_ne!(first.frame_device().mac(), second.frame_device().mac());
        works(&mut first, stack(1)).await;
        works(&mut second, other).await;
        drop(first);
        works(&mut second, other).await;
    });
}

/// A peer opens a connection to `to`, and `device` receives the SYN.
async fn takes(device: &mut dyn Device, to: u16) {
    let connects = tokio::spawn(tokio::net::TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], to))));
    let syn = |bytes: &[u8]| bytes.get(22..24) == Some(&to.to_be_bytes()[..]) && bytes.get(33) == Some(&2);
    common::receive(device, |bytes, _| syn(bytes).then_some(())).await;
    connects.abort();
}

#[test]
fn two_raw_devices_share_an_address_and_no_port() {
    in_namespace(|| async {
        ip("link set lo up");
        let config = |addr: Ipv4Addr, ports| {
            let mut config = RawConfig::new([IpAddr::V4(addr)]);
            config.ports = ports;
            config
        };
        let at = |ports| RawDevice::open(&config(Ipv4Addr::LOCALHOST, Ports::Range(ports)));
        let first = at(7000..=7009);
        if let Err(RawError::Resets { .. }) = first {
            // A kernel without nftables has no raw device.
            assert!(std::env::var_os("CI").is_none(), "{first:?}");
            return eprintln!("skipped: {first:?}");
        }
        let (mut first, mut second) = (first.unwrap(), at(7010..=7019).unwrap());
        // Each would reset the connections of the other.
        let all = RawDevice::open(&config(Ipv4Addr::LOCALHOST, Ports::All));
        for clash in [at(7009..=7009), at(7019..=7030), at(1..=65535), all] {
            let error = clash.map(drop).unwrap_err();
            assert!(matches!(error, RawError::Taken { .. }), "{error:?}");
            let said = error.to_string();
            assert!(said.contains("127.0.0.1") && said.contains("other ports"), "{said}");
        }
        takes(&mut first, 7000).await;
        takes(&mut second, 7019).await;
        let elsewhere = Ipv4Addr::new(127, 0, 0, 2);
        drop(RawDevice::open(&config(elsewhere, Ports::Range(7000..=7009))).unwrap());
        drop(first);
        takes(&mut second, 7010).await;
        let mut first = at(7000..=7009).unwrap();
        takes(&mut first, 7009).await;
    });
}
