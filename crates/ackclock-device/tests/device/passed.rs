//! Descriptors of the TUN driver that another part of the program opened and attached. That another process
//! does so is in `tests/tests/devices/passed.rs`.

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use ackclock_device::{EthernetOptions, FdError, Medium, PassedFd, configure};
use tun_tap::{Iface, Mode};

use super::common::packets::udp;
use super::common::{NAME, in_namespace, ip, receive, send};

/// A descriptor attached to `tun0`, as the `tun-tap` crate opens it. A child that another test is just
/// starting may hold the last one until its `exec`.
#[expect(unsafe_code, reason = "the crate gives up a bare descriptor")]
fn attached(mode: fn() -> Mode) -> OwnedFd {
    let again = (0..100).find_map(|_| {
        let interface = Iface::without_packet_info(NAME, mode());
        interface.inspect_err(|_| std::thread::sleep(Duration::from_millis(10))).ok()
    });
    // SAFETY: `into_raw_fd` gives up the only ownership of an open descriptor.
    unsafe { OwnedFd::from_raw_fd(again.expect("the interface is made").into_raw_fd()) }
}

fn tun() -> OwnedFd {
    attached(|| Mode::Tun)
}

fn tap() -> OwnedFd {
    attached(|| Mode::Tap)
}

#[test]
fn a_descriptor_that_is_passed_exchanges_packets_with_the_kernel() {
    in_namespace(|| async {
        let fd = PassedFd::new(tun()).unwrap();
        assert_eq!((fd.name(), fd.medium()), (NAME, Medium::Ip));
        configure::configure(NAME).address("10.9.0.1/24".parse().unwrap()).mtu(1300).apply().unwrap();
        let mut device = fd.open(None).unwrap();
        assert_eq!((device.capabilities().mtu, device.capabilities().queues), (1300, 1));
        let socket = UdpSocket::bind("10.9.0.1:7000").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.send_to(b"forth", "10.9.0.2:7000").unwrap();
        receive(&mut *device, |bytes, _| bytes.ends_with(b"forth").then_some(())).await;
        send(&mut *device, &udp("10.9.0.2", "10.9.0.1", b"back")).await;
        assert_eq!(socket.recv(&mut [0; 9]).unwrap(), 4);
    });
}

#[test]
fn an_mtu_that_is_given_stays_and_the_link_is_taken_as_up() {
    in_namespace(|| async {
        let device = PassedFd::new(tun()).unwrap().open(Some(1400)).unwrap();
        ip("link set tun0 mtu 1300");
        assert!(device.capabilities().mtu == 1400 && device.link_up());
    });
}

#[test]
fn a_descriptor_of_the_parent_is_taken_over_by_its_number() {
    in_namespace(|| async {
        let parents = tap();
        let fd = PassedFd::inherited(parents.as_raw_fd()).unwrap();
        assert_eq!((fd.name(), fd.medium()), (NAME, Medium::Link { header_len: 14 }));
        let device = EthernetOptions::new().address("10.9.0.2/24".parse().unwrap()).open_fd(fd).unwrap();
        let kernels = device.frame_device().kernel_mac().to_string();
        let shown = Command::new("ip").args(["link", "show", NAME]).output().unwrap();
        assert!(String::from_utf8_lossy(&shown.stdout).contains(&kernels), "{kernels}: {shown:?}");
        assert_ne!(device.handle().mac().to_string(), kernels);
    });
}

#[test]
fn what_is_no_device_is_refused_with_what_to_do() {
    in_namespace(|| async {
        let told = |error: FdError| error.to_string();
        let not_open = PassedFd::inherited(999_999).unwrap_err();
        assert!(told(not_open).contains("descriptor 999999 is not open"));
        let null = File::options().read(true).write(true).open("/dev/null").unwrap();
        assert!(told(PassedFd::new(null.into()).unwrap_err()).contains("opened at /dev/net/tun"));
        let unattached = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
        assert!(told(PassedFd::new(unattached.into()).unwrap_err()).contains("TUNSETIFF"));
        let ip_packets = PassedFd::new(tun()).unwrap();
        assert!(told(EthernetOptions::new().open_fd(ip_packets).unwrap_err()).contains("PassedFd::open"));
        let frames = PassedFd::new(tap()).unwrap();
        assert!(told(frames.open(None).map(drop).unwrap_err()).contains("EthernetOptions::open_fd"));
        let gone = tun();
        ip("link del tun0");
        assert!(matches!(PassedFd::new(gone), Err(FdError::NotAttached)));
    });
}
