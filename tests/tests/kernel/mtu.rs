//! Links with another MTU than the stack's: reported by routers' ICMP, changed amid a transfer, changed on
//! the device itself.
//!
//! The scene: the kernel beside the stack is a router, a second router follows, then a host with the kernel's
//! TCP. Both ends see links of 1,500 bytes; the link between the routers is smaller.
//!
//! ```text
//! stack ─ tun0 ─ near router ═ small link ═ far router ─ 1500 ─ host
//! 10.9.0.2      10.9.0.1    10.9.1.1   10.9.1.2       10.9.2.1   10.9.2.2
//! ```

use std::net::SocketAddr;
use std::time::Duration;

use ackclock::{ConnectionInfo, Stack, TcpStream, UdpSocketError};
use ackclock_device::OffloadMode;
use ackclock_tests::kernel::payload::{Digest, receive, receive_some, send};
use ackclock_tests::kernel::scene::{Family, TUN, stack, within};
use ackclock_tests::netns::{Namespace, in_namespace, in_namespaces, ip};
use tokio::io::AsyncWriteExt;
use tokio::net;

#[test]
fn stack_learns_the_path_mtu_of_ipv4_from_a_router() {
    // Tests: RFC 9293 SHLD-24
    in_namespaces(|routed| learns(&routed, Family::V4, OffloadMode::Off));
}

#[test]
fn stack_learns_the_path_mtu_of_ipv4_with_offload() {
    in_namespaces(|routed| learns(&routed, Family::V4, OffloadMode::On));
}

#[test]
fn stack_learns_the_path_mtu_of_ipv6_from_a_router() {
    in_namespaces(|routed| learns(&routed, Family::V6, OffloadMode::Off));
}

#[test]
fn stack_learns_the_path_mtu_of_ipv6_with_offload() {
    in_namespaces(|routed| learns(&routed, Family::V6, OffloadMode::On));
}

#[test]
fn datagrams_learn_the_path_mtu_from_a_router() {
    in_namespaces(|[near, far, host]: [Namespace; 3]| {
        join(&near, &far, &host, 1400);
        let host = host.handle().clone();
        near.run(async move {
            let stack = stack(OffloadMode::Off);
            for (family, headers) in [(Family::V4, 28), (Family::V6, 48)] {
                let theirs = host.spawn(async move { net::UdpSocket::bind(host_addr(family)).await });
                let theirs = theirs.await.unwrap().unwrap();
                let ours = stack.udp("0.0.0.0:0".parse().unwrap()).unwrap();
                ours.connect(host_addr(family)).await.unwrap();
                let max = 1400 - headers;
                ours.send(&vec![1; 1500 - headers]).await.unwrap();
                let told = within(LIMIT, &stack, ours.recv(&mut [0; 9])).await.unwrap_err();
                let told: UdpSocketError = told.downcast().unwrap();
                assert_eq!(told, UdpSocketError::PathTooSmall { max });
                assert!(ours.try_send(&vec![1; max + 1]).is_err());
                ours.send(&vec![2; max]).await.unwrap();
                let mut buf = [0; 2000];
                let len = within(LIMIT, &stack, theirs.recv(&mut buf)).await.unwrap();
                assert!(len == max && buf[..len].iter().all(|&byte| byte == 2));
            }
        });
    });
}

#[test]
fn transfer_goes_on_when_a_link_on_the_way_becomes_smaller() {
    in_namespaces(|[near, far, host]: [Namespace; 3]| {
        join(&near, &far, &host, 1500);
        let shrink_far = far.handle().clone();
        near.run(async move {
            let stack = stack(OffloadMode::Off);
            let theirs = host.handle().spawn(take(Family::V4));
            let mut ours = dial(&stack, Family::V4).await;
            send(&mut ours, LEN, 1).await.unwrap();
            assert_eq!(ours.info().unwrap().pmtu, 1500);
            ip("link set near mtu 1300");
            shrink_far.spawn(async { ip("link set far mtu 1300") }).await.unwrap();
            let sent = send(&mut ours, LEN, 2).await.unwrap();
            ours.shutdown().await.unwrap();
            let (first, second) = within(LIMIT, &stack, theirs).await.unwrap();
            assert_eq!((first.bytes, second), (LEN, sent));
            assert_eq!(ours.info().unwrap().pmtu, 1300);
        });
    });
}

#[test]
fn device_whose_mtu_changes_is_followed_both_ways() {
    in_namespace(|| async {
        let stack = stack(OffloadMode::Off);
        let listener = net::TcpListener::bind(Family::V4.kernel(7)).await.unwrap();
        let (ours, theirs) = tokio::join!(stack.connect(Family::V4.kernel(7)), listener.accept());
        let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap().0);
        for mtu in [1500, 900, 4000] {
            ip(&format!("link set {TUN} mtu {mtu}"));
            within(LIMIT, &stack, async {
                while stack.info().mtu != mtu {
                    // The driver asks the device while there is traffic.
                    ours.write_all(b"x").await.unwrap();
                    receive_some(&mut theirs, 1).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
            .await;
            let there = async { tokio::join!(send(&mut ours, LEN, 1), receive_some(&mut theirs, LEN)) };
            let (sent, received) = within(LIMIT, &stack, there).await;
            assert_eq!(received.unwrap(), sent.unwrap());
            assert!(ours.info().unwrap().pmtu as usize <= mtu);
            let back = async { tokio::join!(send(&mut theirs, LEN, 2), receive_some(&mut ours, LEN)) };
            let (sent, received) = within(LIMIT, &stack, back).await;
            assert_eq!(received.unwrap(), sent.unwrap());
        }
    });
}

/// A transfer each way over a link of 1,400 bytes that neither end sees.
fn learns([near, far, host]: &[Namespace; 3], family: Family, mode: OffloadMode) {
    join(near, far, host, 1400);
    let theirs = host.handle().spawn(echo_digest(family));
    near.run(async move {
        let stack = stack(mode);
        let mut ours = dial(&stack, family).await;
        assert_eq!(ours.info().unwrap().pmtu, 1500);
        let sent = within(LIMIT, &stack, send(&mut ours, LEN, 1)).await.unwrap();
        let info: ConnectionInfo = ours.info().unwrap();
        assert_eq!(info.pmtu, 1400, "{info:?}");
        ours.shutdown().await.unwrap();
        let received = within(LIMIT, &stack, receive(&mut ours)).await.unwrap();
        assert_eq!((sent, received), within(LIMIT, &stack, theirs).await.unwrap());
    });
}

/// The host takes a transfer to its end, then sends one.
async fn echo_digest(family: Family) -> (Digest, Digest) {
    let listener = net::TcpListener::bind(host_addr(family)).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let received = receive(&mut stream).await.unwrap();
    let sent = send(&mut stream, LEN, 2).await.unwrap();
    (received, sent)
}

/// The host takes two transfers.
async fn take(family: Family) -> (Digest, Digest) {
    let listener = net::TcpListener::bind(host_addr(family)).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let first = receive_some(&mut stream, LEN).await.unwrap();
    (first, receive(&mut stream).await.unwrap())
}

/// Connects as soon as the host listens.
async fn dial(stack: &Stack, family: Family) -> TcpStream {
    within(LIMIT, stack, async {
        loop {
            if let Ok(stream) = stack.connect(host_addr(family)).await {
                return stream;
            }
        }
    })
    .await
}

/// Joins the three, with a link of `mtu` bytes between the routers.
fn join(near: &Namespace, far: &Namespace, host: &Namespace, mtu: u32) {
    near.cable("near", far, "far");
    far.cable("inner", host, "host");
    for router in [near, far] {
        router.sysctl("net/ipv4/ip_forward", "1");
        router.sysctl("net/ipv6/conf/all/forwarding", "1");
    }
    for (place, name, addresses) in [
        (near, "near", ["10.9.1.1/24", "fd09:1::1/64"]),
        (far, "far", ["10.9.1.2/24", "fd09:1::2/64"]),
        (far, "inner", ["10.9.2.1/24", "fd09:2::1/64"]),
        (host, "host", ["10.9.2.2/24", "fd09:2::2/64"]),
    ] {
        for addr in addresses {
            place
                .ip(&format!("addr add {addr} dev {name}{}", if addr.contains(':') { " nodad" } else { "" }));
        }
    }
    near.ip(&format!("link set near mtu {mtu}"));
    far.ip(&format!("link set far mtu {mtu}"));
    near.ip("route add 10.9.2.0/24 via 10.9.1.2");
    near.ip("-6 route add fd09:2::/64 via fd09:1::2");
    far.ip("route add 10.9.0.0/24 via 10.9.1.1");
    far.ip("-6 route add fd09::/64 via fd09:1::1");
    host.ip("route add default via 10.9.2.1");
    host.ip("-6 route add default via fd09:2::1");
}

fn host_addr(family: Family) -> SocketAddr {
    let addr = if family == Family::V4 { "10.9.2.2:7" } else { "[fd09:2::2]:7" };
    addr.parse().expect("an address")
}

const LEN: u64 = 8 << 20;
const LIMIT: Duration = Duration::from_secs(60);
