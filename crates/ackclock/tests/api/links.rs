//! A stack with several devices: the MTU of each, and the address at each.

use std::io::ErrorKind;
use std::net::IpAddr;

use ackclock::Stack;
use ackclock_device::memory;
use ackclock_device::several::{Several, SeveralHandle};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{addr, kind, settle};

/// A stack with a device of 1,280 bytes to `10.1.0.0/16` and one of 1,500 to all else, and a peer behind
/// each.
struct Fork {
    middle: Stack,
    narrow: Stack,
    wide: Stack,
    handle: SeveralHandle,
}

fn fork() -> Fork {
    let (narrow, to_narrow) = memory::pair(memory::Config { mtu: 1280, ..memory::Config::default() });
    let (wide, to_wide) = memory::pair(memory::Config::default());
    let devices = Several::new()
        .device("narrow", to_narrow)
        .device("wide", to_wide)
        .route("narrow", "10.1.0.0/16".parse().unwrap())
        .route("wide", "0.0.0.0/0".parse().unwrap());
    let handle = devices.handle();
    let stack = |address: &str| Stack::builder().address(address.parse().unwrap()).seed(7);
    Fork {
        middle: stack("10.1.0.1/16").address("10.2.0.1/16".parse().unwrap()).device(devices).spawn().unwrap(),
        narrow: stack("10.1.0.9/16").device(narrow).spawn().unwrap(),
        wide: stack("10.2.0.9/16").device(wide).spawn().unwrap(),
        handle,
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_has_the_mtu_of_the_device_that_it_goes_by() {
    let fork = fork();
    for (peer, to, mtu) in [(&fork.narrow, "10.1.0.9:80", 1280), (&fork.wide, "10.2.0.9:80", 1500)] {
        let listener = peer.listen(addr(to)).unwrap();
        let (client, server) = tokio::join!(fork.middle.connect(addr(to)), listener.accept());
        let (mut client, mut server) = (client.unwrap(), server.unwrap().0);
        let info = client.info().unwrap();
        assert_eq!((info.pmtu, info.snd_mss + 40 + 12), (mtu, mtu), "timestamps take twelve bytes");
        // The peer's segments are as long as the SYN's option allows.
        assert_eq!(server.info().unwrap().snd_mss + 40 + 12, mtu);
        client.write_all(&[1; 100_000]).await.unwrap();
        server.write_all(&[2; 100_000]).await.unwrap();
        let mut read = vec![0; 100_000];
        server.read_exact(&mut read).await.unwrap();
        client.read_exact(&mut read).await.unwrap();
        // And of a connection that the peer opens.
        let own = format!("{}:81", client.local_addr().unwrap().ip());
        let listener = fork.middle.listen(addr(&own)).unwrap();
        let (client, server) = tokio::join!(peer.connect(addr(&own)), listener.accept());
        assert_eq!(
            (client.unwrap().info().unwrap().snd_mss + 52, server.unwrap().0.info().unwrap().pmtu),
            (mtu, mtu)
        );
    }
    let socket = fork.middle.udp(addr("0.0.0.0:0")).unwrap();
    let max = |to: &str| socket.payload_max(to.parse::<IpAddr>().unwrap());
    assert_eq!((max("10.1.0.9"), max("192.0.2.1")), (1252, 1472));
    assert_eq!(kind(socket.try_send_to(&[0; 1253], addr("10.1.0.9:7"))), ErrorKind::InvalidInput);
    socket.try_send_to(&[0; 1472], addr("10.2.0.9:7")).unwrap();
    assert_eq!(fork.middle.info().mtu, 1280, "what every device carries");
}

#[tokio::test(start_paused = true)]
async fn a_connection_follows_when_its_route_or_its_device_changes() {
    let fork = fork();
    let listener = fork.wide.listen(addr("10.2.0.9:80")).unwrap();
    let (client, _server) =
        tokio::join!(fork.middle.connect(addr("10.2.0.9:80")), async { listener.accept().await.unwrap() });
    let client = client.unwrap();
    let pmtu = || client.info().unwrap().pmtu;
    assert_eq!(pmtu(), 1500);
    fork.handle.add_route("narrow", "10.2.0.0/16".parse().unwrap());
    settle().await;
    assert_eq!(pmtu(), 1280, "heard at once, without any traffic");
    assert!(fork.handle.remove_route("narrow", "10.2.0.0/16".parse().unwrap()));
    settle().await;
    assert_eq!(pmtu(), 1500);
    let (jumbo, _end) = memory::pair(memory::Config { mtu: 9000, ..memory::Config::default() });
    fork.handle.add_device("wide", jumbo);
    settle().await;
    assert_eq!(pmtu(), 9000, "another device has taken its name");
    fork.middle.set_mtu(Some(1400)).unwrap();
    assert_eq!(pmtu(), 1400, "the stack's own bound holds for every device");
    fork.middle.set_mtu(None).unwrap();
    assert_eq!(pmtu(), 9000);
}

#[tokio::test]
async fn an_address_at_the_outgoing_device_is_preferred_and_follows_the_routes() {
    let fork = fork();
    let socket = fork.middle.udp(addr("0.0.0.0:0")).unwrap();
    let source = async |to: &str| {
        socket.connect(addr(to)).await.unwrap();
        socket.local_addr().unwrap().ip().to_string()
    };
    // RFC 6724 §5 rule 5: by the others the first address, 10.1.0.1, would do as well.
    assert_eq!(source("192.0.2.1:7").await, "10.2.0.1");
    assert_eq!(source("10.1.7.7:7").await, "10.1.0.1");
    fork.handle.add_route("narrow", "192.0.2.0/24".parse().unwrap());
    settle().await;
    assert_eq!(source("192.0.2.1:7").await, "10.1.0.1");
    // A route of the stack's own that names its source decides before any rule.
    fork.middle.add_route_from("192.0.2.0/24".parse().unwrap(), "10.2.0.1".parse().unwrap()).unwrap();
    assert_eq!(source("192.0.2.1:7").await, "10.2.0.1");
    assert_eq!(kind(socket.connect(addr("[fd00::1]:7")).await), ErrorKind::NetworkUnreachable);
}
