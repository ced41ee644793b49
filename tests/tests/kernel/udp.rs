//! UDP and ICMP between the stack and the kernel: datagrams both ways, ports without sockets, echo,
//! fragments.

use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use ackclock::{PingPolicy, ReassemblyConfig, Stack, UdpTransmit};
use ackclock_device::OffloadMode;
use ackclock_tests::kernel::scene::{Family, open_tun, stack, within};
use ackclock_tests::netns::in_namespace;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net;

const LIMIT: Duration = Duration::from_secs(20);
const BOTH: [Family; 2] = [Family::V4, Family::V6];

#[test]
fn datagrams_go_both_ways_packet_by_packet() {
    in_namespace(|| both_ways(OffloadMode::Off));
}

#[test]
fn datagrams_go_both_ways_with_offload() {
    // There the kernel leaves the checksums of its datagrams incomplete.
    in_namespace(|| both_ways(OffloadMode::On));
}

async fn both_ways(mode: OffloadMode) {
    let stack = stack(mode);
    for family in BOTH {
        let kernel = net::UdpSocket::bind(family.kernel(7000)).await.unwrap();
        let ours = stack.udp(family.stack(7001)).unwrap();
        let mut buf = vec![0; 65_535];
        for len in [0, 1, 7, 512, ours.payload_max(family.kernel(0).ip())] {
            let data: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            ours.send_to(&data, family.kernel(7000)).await.unwrap();
            let (got, from) = within(LIMIT, &stack, kernel.recv_from(&mut buf)).await.unwrap();
            assert_eq!((&buf[..got], from), (&data[..], family.stack(7001)), "{len} bytes to the kernel");
            kernel.send_to(&data, family.stack(7001)).await.unwrap();
            let (got, from) = within(LIMIT, &stack, ours.recv_from(&mut buf)).await.unwrap();
            assert_eq!((&buf[..got], from), (&data[..], family.kernel(7000)), "{len} bytes from the kernel");
        }
        let data = vec![3; 20_000];
        let transmit =
            UdpTransmit { segment_size: Some(1200), ..UdpTransmit::new(&data, Some(family.kernel(7000))) };
        ours.send_transmit(&transmit).await.unwrap();
        let mut received = 0;
        while received < data.len() {
            let len = within(LIMIT, &stack, kernel.recv(&mut buf)).await.unwrap();
            assert!(len == 1200 || received + len == data.len(), "{len}");
            received += len;
        }
    }
    let counters = stack.counters();
    assert_eq!((counters.dropped_udp_checksum, counters.dropped_malformed_udp), (0, 0));
}

#[test]
fn what_the_kernel_cuts_into_datagrams_is_received_in_one_call_with_their_size() {
    for mode in [OffloadMode::Off, OffloadMode::On] {
        in_namespace(move || async move {
            let stack = stack(mode);
            for family in BOTH {
                let ours = stack.udp(family.stack(7001)).unwrap();
                let kernel = net::UdpSocket::bind(family.kernel(7000)).await.unwrap();
                for (len, size) in [(20_000, 1200), (7000, 1000), (900, 1200)] {
                    set_segment_size(&kernel, size).unwrap();
                    let data: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
                    kernel.send_to(&data, family.stack(7001)).await.unwrap();
                    let mut received = Vec::new();
                    let mut buf = vec![0; 65_535];
                    while received.len() < len {
                        let meta = within(LIMIT, &stack, ours.recv_meta(&mut buf)).await.unwrap();
                        assert_eq!(meta.from, family.kernel(7000));
                        let is_last = received.len() + meta.len == len;
                        assert!(meta.stride == usize::from(size) || is_last && meta.stride == meta.len);
                        assert!(meta.len % meta.stride == 0 || is_last, "a shorter one ends them");
                        received.extend_from_slice(&buf[..meta.len]);
                    }
                    assert_eq!(received, data, "{len} bytes by {size}");
                    // And back, cut here; the kernel reports what it has coalesced, if anything.
                    let to = Some(family.kernel(7000));
                    let transmit =
                        UdpTransmit { segment_size: Some(size.into()), ..UdpTransmit::new(&data, to) };
                    ours.send_transmit(&transmit).await.unwrap();
                    let mut lengths = Vec::new();
                    while lengths.iter().sum::<usize>() < len {
                        lengths.push(within(LIMIT, &stack, kernel.recv(&mut buf)).await.unwrap());
                    }
                    let expected = data.chunks(size.into()).map(<[u8]>::len);
                    assert!(lengths.into_iter().eq(expected), "{len} bytes by {size}");
                }
            }
            let counters = stack.counters();
            assert_eq!((counters.dropped_udp_checksum, counters.dropped_malformed_udp), (0, 0));
        });
    }
}

/// Has the kernel cut what a socket sends into datagrams of this many bytes (udp(7), `UDP_SEGMENT`).
#[expect(unsafe_code, reason = "setsockopt")]
fn set_segment_size(socket: &net::UdpSocket, size: u16) -> io::Result<()> {
    let value = libc::c_int::from(size);
    // SAFETY: the pointer is to a live int of the length given, which setsockopt(2) only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn a_port_without_a_socket_refuses_at_either_end() {
    in_namespace(|| async {
        let stack = stack(OffloadMode::Off);
        for family in BOTH {
            let kernel = net::UdpSocket::bind(family.kernel(0)).await.unwrap();
            kernel.connect(family.stack(9)).await.unwrap();
            kernel.send(b"anyone?").await.unwrap();
            let error = within(LIMIT, &stack, kernel.recv(&mut [0; 9])).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);

            let ours = stack.udp(family.stack(0)).unwrap();
            ours.connect(family.kernel(9)).await.unwrap();
            ours.send(b"anyone?").await.unwrap();
            let error = within(LIMIT, &stack, ours.recv(&mut [0; 9])).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
    });
}

#[test]
fn an_echo_request_of_the_kernel_is_answered() {
    in_namespace(|| async {
        let stack = stack(OffloadMode::On);
        for family in BOTH {
            for len in [0, 56, 1400] {
                let pinging = tokio::task::spawn_blocking(move || ping(family.stack(0), len));
                within(LIMIT, &stack, pinging).await.unwrap().unwrap();
            }
        }
        assert_eq!(stack.counters().echoes_answered, 6);
    });
}

#[test]
fn the_kernel_pings_addresses_that_are_not_the_stacks() {
    in_namespace(|| async {
        let stack = Stack::builder()
            .device(open_tun(OffloadMode::On))
            .address("10.9.0.2/24".parse().unwrap())
            .address("fd09::2/64".parse().unwrap())
            .pings(PingPolicy::Deferred)
            .spawn()
            .unwrap();
        let mut pings = stack.pings().unwrap();
        for to in ["10.9.0.77:0", "[fd09::77]:0"] {
            let to: SocketAddr = to.parse().unwrap();
            let pinging = tokio::task::spawn_blocking(move || ping(to, 56));
            let waiting = within(LIMIT, &stack, pings.recv()).await.unwrap();
            assert_eq!((waiting.local_addr(), waiting.data().len()), (to.ip(), 56));
            assert!(!pinging.is_finished(), "nothing has answered yet");
            assert!(waiting.reply());
            within(LIMIT, &stack, pinging).await.unwrap().unwrap();
        }
        assert_eq!(stack.counters().echoes_answered, 2);
    });
}

/// Pings once, with this many bytes.
fn ping(to: SocketAddr, len: usize) -> io::Result<()> {
    let is_v4 = to.is_ipv4();
    let (domain, protocol, request, reply) = match to {
        SocketAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, 8, 0),
        SocketAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, 128, 129),
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
    socket.set_read_timeout(Some(LIMIT))?;
    let data: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
    let mut message = [&[request, 0, 0, 0, 0x12, 0x34, 0, 1][..], &data].concat();
    if is_v4 {
        // The kernel does this for ICMPv6 only.
        let sum = ackclock_wire::checksum::sum(&message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    socket.send_to(&message, &to.into())?;
    let mut buf = vec![0; 2000];
    loop {
        let len = (&socket).read(&mut buf)?;
        // A raw socket of IPv4 shows the IP header, too.
        let got = &buf[if is_v4 { 20 } else { 0 }..len];
        if got[0] == reply {
            assert_eq!(got[4..], message[4..]);
            return Ok(());
        }
    }
}

#[test]
fn the_kernel_puts_the_stacks_fragments_together() {
    for mode in [OffloadMode::Off, OffloadMode::On] {
        in_namespace(move || async move {
            let stack = stack(mode);
            for family in BOTH {
                let kernel = net::UdpSocket::bind(family.kernel(7000)).await.unwrap();
                let ours = stack.udp(family.stack(7001)).unwrap();
                let refused = ours.send_to(&[1; 4000], family.kernel(7000)).await.unwrap_err();
                let max = ours.payload_max(family.kernel(0).ip()).to_string();
                assert!(refused.to_string().contains(&max), "{refused}");
                ours.set_fragments(true).unwrap();
                assert!(ours.fragments().unwrap());
                let mut buf = vec![0; 65_535];
                for len in [1472, 1473, 4000, 65_507] {
                    let data: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
                    ours.send_to(&data, family.kernel(7000)).await.unwrap();
                    let (got, from) = within(LIMIT, &stack, kernel.recv_from(&mut buf)).await.unwrap();
                    assert_eq!((&buf[..got], from), (&data[..], family.stack(7001)), "{len} bytes");
                }
            }
        });
    }
}

#[test]
fn what_the_kernel_fragments_is_put_together() {
    in_namespace(|| async {
        let stack = Stack::builder()
            .device(open_tun(OffloadMode::On))
            .address("10.9.0.2/24".parse().unwrap())
            .address("fd09::2/64".parse().unwrap())
            .reassembly(ReassemblyConfig::default())
            .spawn()
            .unwrap();
        for family in BOTH {
            let ours = stack.udp(family.stack(7001)).unwrap();
            let kernel = net::UdpSocket::bind(family.kernel(0)).await.unwrap();
            let mut buf = vec![0; 65_535];
            for len in [1500, 4000, 60_000] {
                let data: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
                kernel.send_to(&data, family.stack(7001)).await.unwrap();
                let got = within(LIMIT, &stack, ours.recv(&mut buf)).await.unwrap();
                assert_eq!(&buf[..got], &data[..]);
            }
        }
        assert_eq!(stack.counters().packets_reassembled, 6);
    });
}
