//! The feature `quinn`: datagrams with what QUIC wants to know of them, waiting, time, and ends.

use std::future::poll_fn;
use std::io::{ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ackclock::device::memory;
use ackclock::quinn::{Runtime, Socket, endpoint};
use ackclock::{Stack, UdpTransmit};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, Runtime as _, ServerConfig};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::time::timeout;

use super::{SOON, addr};

/// A client at 10.0.0.1 and fd00::1, a server at 10.0.0.2, 10.0.0.3 and fd00::2.
fn hosts() -> (Stack, Stack) {
    let (left, right) = memory::pair(memory::Config::default());
    let host = |addresses: &[&str], device| {
        let addresses = addresses.iter().map(|text| text.parse().unwrap());
        addresses.fold(Stack::builder().device(device), |to, addr| to.address(addr)).spawn().unwrap()
    };
    let client = host(&["10.0.0.1/24", "fd00::1/64"], left);
    (client, host(&["10.0.0.2/24", "10.0.0.3/24", "fd00::2/64"], right))
}

fn socket(stack: &Stack, at: &str) -> Arc<Socket> {
    Arc::new(Socket::bind(stack, addr(at)).unwrap())
}

fn transmit(contents: &[u8], destination: SocketAddr) -> Transmit<'_> {
    Transmit { destination, ecn: None, contents, segment_size: None, src_ip: None }
}

/// The datagrams that one call receives in buffers of this many bytes, after waiting for them.
async fn receive(socket: &Socket, buffers: usize, len: usize) -> Vec<(RecvMeta, Vec<u8>)> {
    let mut memory = vec![vec![0; len]; buffers];
    let mut metas = vec![RecvMeta::default(); buffers];
    let mut bufs: Vec<_> = memory.iter_mut().map(|buf| IoSliceMut::new(buf)).collect();
    let receiving = poll_fn(|cx| socket.poll_recv(cx, &mut bufs, &mut metas));
    let filled = timeout(SOON, receiving).await.expect("datagrams are there").unwrap();
    metas.iter().zip(&memory).take(filled).map(|(meta, buf)| (*meta, buf[..meta.len].to_vec())).collect()
}

#[tokio::test]
async fn several_datagrams_go_and_come_in_one_call_with_their_ecn_field_and_addresses() {
    let (client, server) = hosts();
    let (ours, theirs) = (socket(&client, "10.0.0.1:0"), socket(&server, "0.0.0.0:443"));
    assert_eq!((ours.max_transmit_segments(), ours.may_fragment()), (UdpTransmit::SEGMENTS_MAX, false));
    let data: Vec<u8> = (0..5500).map(|n| (n % 251) as u8).collect();
    for (ecn, to) in [
        (Some(EcnCodepoint::Ect0), "10.0.0.2:443"),
        (Some(EcnCodepoint::Ect1), "10.0.0.3:443"),
        (Some(EcnCodepoint::Ce), "10.0.0.2:443"),
        (None, "10.0.0.3:443"),
    ] {
        let sent = Transmit { ecn, segment_size: Some(1200), ..transmit(&data, addr(to)) };
        ours.try_send(&sent).unwrap();
        // Another kind, and so in a buffer of its own.
        let other = Some(if ecn == Some(EcnCodepoint::Ce) { EcnCodepoint::Ect0 } else { EcnCodepoint::Ce });
        ours.try_send(&Transmit { ecn: other, ..transmit(b"other", addr(to)) }).unwrap();
        let mut received = Vec::new();
        while received.iter().map(|(_, bytes): &(RecvMeta, Vec<u8>)| bytes.len()).sum::<usize>() < 5505 {
            received.extend(receive(&theirs, 4, 8 * 1472).await);
        }
        let (last, whole) = received.split_last().unwrap();
        assert_eq!((last.0.ecn, &last.1[..]), (other, &b"other"[..]));
        assert_eq!(whole.iter().flat_map(|(_, bytes)| bytes).copied().collect::<Vec<_>>(), data);
        for (meta, _) in whole {
            assert_eq!((meta.addr, meta.dst_ip), (ours.local_addr().unwrap(), Some(addr(to).ip())));
            assert_eq!(meta.ecn, ecn, "{to}");
            assert!(meta.stride == 1200 || meta.len == meta.stride, "{meta:?}");
        }
        // And back from the address that was dialled.
        let (peer, from) = (whole[0].0.addr, whole[0].0.dst_ip);
        theirs.try_send(&Transmit { src_ip: from, ..transmit(b"answer", peer) }).unwrap();
        let answer = receive(&ours, 1, 100).await.remove(0);
        assert_eq!((answer.0.addr, &answer.1[..]), (addr(to), &b"answer"[..]));
    }
}

/// As quinn compares addresses: it maps those of IPv4 for a socket of IPv6.
#[tokio::test]
async fn a_socket_for_both_families_gives_ipv4_peers_as_mapped_ones() {
    let (client, server) = hosts();
    let (ours, theirs) = (socket(&client, "[::]:0"), socket(&server, "[::]:443"));
    assert!(ours.local_addr().unwrap().is_ipv6());
    for (to, from) in [
        ("[::ffff:10.0.0.2]:443", "[::ffff:10.0.0.1]"),
        ("10.0.0.2:443", "[::ffff:10.0.0.1]"),
        ("[fd00::2]:443", "[fd00::1]"),
    ] {
        ours.try_send(&transmit(b"question", addr(to))).unwrap();
        let (meta, _) = receive(&theirs, 1, 100).await.remove(0);
        let port = ours.local_addr().unwrap().port();
        assert_eq!(meta.addr, addr(&format!("{from}:{port}")), "to {to}");
        theirs.try_send(&Transmit { src_ip: meta.dst_ip, ..transmit(b"answer", meta.addr) }).unwrap();
        let (answer, _) = receive(&ours, 1, 100).await.remove(0);
        assert_eq!(answer.addr.ip().to_canonical(), addr(to).ip().to_canonical());
        assert!(answer.addr.is_ipv6());
    }
}

/// quinn ends a connection without a word to its user if sending fails.
#[tokio::test]
async fn a_datagram_that_cannot_be_sent_is_lost_and_no_error() {
    let (client, server) = hosts();
    let (ours, theirs) = (socket(&client, "10.0.0.1:0"), socket(&server, "10.0.0.2:443"));
    let longest = ours.as_ref().as_ref().payload_max("10.0.0.2".parse().unwrap());
    ours.try_send(&transmit(&vec![0; longest + 1], addr("10.0.0.2:443"))).unwrap();
    ours.try_send(&transmit(b"to no host", addr("0.0.0.0:443"))).unwrap();
    ours.try_send(&transmit(&vec![0; longest], addr("10.0.0.2:443"))).unwrap();
    let received = receive(&theirs, 2, 8 * 1472).await;
    assert!(received.len() == 1 && received[0].1.len() == longest);
}

/// A device that takes nothing fills the send buffer; each poller's task is woken when there is room.
#[tokio::test]
async fn any_number_of_tasks_wait_for_room_to_send() {
    let (client, _server) = hosts();
    let ours = socket(&client, "10.0.0.1:0");
    let to = addr("10.0.0.2:443");
    // The driver does not run before the first `await`, and 256 KiB are more than one call sends.
    let mut sent = 0;
    while let Ok(()) = ours.try_send(&Transmit { segment_size: Some(1000), ..transmit(&[7; 60_000], to) }) {
        sent += 60;
        assert!(sent < 100_000, "the send buffer has a bound");
    }
    let waiting = (0..3).map(|_| {
        let mut poller = Arc::clone(&ours).create_io_poller();
        tokio::spawn(poll_fn(move |cx| poller.as_mut().poll_writable(cx)))
    });
    for task in waiting.collect::<Vec<_>>() {
        timeout(SOON, task).await.expect("the device takes them").unwrap().unwrap();
    }
    ours.try_send(&transmit(b"again", to)).unwrap();
}

#[tokio::test]
async fn a_socket_of_the_kernel_is_refused_with_what_to_call() {
    let (client, _server) = hosts();
    let quic = endpoint(&client, addr("0.0.0.0:0"), EndpointConfig::default(), None).unwrap();
    let kernels = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = quic.rebind(kernels).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("ackclock::quinn::endpoint"), "{error}");
    let before = quic.local_addr().unwrap();
    quic.rebind_abstract(socket(&client, "0.0.0.0:0")).unwrap();
    assert_ne!(quic.local_addr().unwrap(), before);
    let taken = endpoint(&client, quic.local_addr().unwrap(), EndpointConfig::default(), None).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
}

#[tokio::test(start_paused = true)]
async fn the_runtimes_time_and_timers_are_the_stacks() {
    let (client, _server) = hosts();
    let runtime = Runtime::new(&client);
    let began = runtime.now();
    let mut timer = runtime.new_timer(began + Duration::from_secs(3600));
    let waited = async |timer: &mut Pin<Box<dyn quinn::AsyncTimer>>| {
        poll_fn(|cx| timer.as_mut().poll(cx)).await;
        runtime.now() - began
    };
    assert_eq!(waited(&mut timer).await, Duration::from_secs(3600));
    timer.as_mut().reset(began + Duration::from_secs(3700));
    assert!(poll_fn(|cx| Poll::Ready(timer.as_mut().poll(cx))).await.is_pending());
    timer.as_mut().reset(began + Duration::from_secs(3601));
    assert_eq!(waited(&mut timer).await, Duration::from_secs(3601), "reset while it waits");
    timer.as_mut().reset(began);
    assert_eq!(waited(&mut timer).await, Duration::from_secs(3601), "what is past is due at once");
}

/// A server at 10.0.0.2:443 and a client that trusts it.
fn endpoints(client: &Stack, server: &Stack, local: &str) -> (Endpoint, Endpoint) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["server.test".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![cert.der().clone()], key.into()).unwrap();
    let mut trusted = RootCertStore::empty();
    trusted.add(cert.der().clone()).unwrap();
    let server = endpoint(server, addr("[::]:443"), EndpointConfig::default(), Some(config)).unwrap();
    let mut client = endpoint(client, addr(local), EndpointConfig::default(), None).unwrap();
    client.set_default_client_config(ClientConfig::with_root_certificates(Arc::new(trusted)).unwrap());
    (client, server)
}

/// Both families from a socket for both; the connection then survives that its client moves to another port.
#[tokio::test]
async fn connections_echo_and_move_with_their_endpoint() {
    let (client_stack, server_stack) = hosts();
    let (client, server) = endpoints(&client_stack, &server_stack, "[::]:0");
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            let connection = incoming.await.unwrap();
            tokio::spawn(async move {
                while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                    send.write_all(&receive.read_to_end(1 << 20).await.unwrap()).await.unwrap();
                    send.finish().unwrap();
                }
            });
        }
    });
    let data: Vec<u8> = (0..200_000).map(|n| (n % 251) as u8).collect();
    for to in ["10.0.0.2:443", "10.0.0.3:443", "[fd00::2]:443"] {
        let connecting = client.connect(addr(to), "server.test").unwrap();
        let connection = timeout(SOON, connecting).await.expect("the server answers").unwrap();
        assert_eq!(connection.remote_address().ip().to_canonical(), addr(to).ip());
        for moved in [false, true] {
            if moved {
                client.rebind_abstract(socket(&client_stack, "[::]:0")).unwrap();
            }
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            let sent = data.clone();
            tokio::spawn(async move {
                send.write_all(&sent).await.unwrap();
                send.finish().unwrap();
            });
            let echoed = timeout(SOON, receive.read_to_end(1 << 20)).await.expect("an echo").unwrap();
            assert!(echoed == data, "{to}, moved: {moved}");
        }
    }
}

#[tokio::test]
async fn connections_end_with_their_stack() {
    let (client_stack, server_stack) = hosts();
    let (client, server) = endpoints(&client_stack, &server_stack, "0.0.0.0:0");
    let accepting = tokio::spawn(async move { server.accept().await.unwrap().await.unwrap() });
    let connection = client.connect(addr("10.0.0.2:443"), "server.test").unwrap().await.unwrap();
    let _accepted = accepting.await.unwrap();
    client_stack.shutdown().await;
    timeout(SOON, connection.closed()).await.expect("its endpoint has no stack any more");
    assert!(timeout(SOON, client.accept()).await.expect("the endpoint has ended").is_none());
    let refused = client.connect(addr("10.0.0.2:443"), "server.test");
    assert!(refused.is_err(), "no connection begins on a stack that is gone");
    let unbound: IpAddr = "0.0.0.0".parse().unwrap();
    let bound = endpoint(&client_stack, (unbound, 0).into(), EndpointConfig::default(), None);
    assert_eq!(bound.unwrap_err().kind(), ErrorKind::NetworkDown);
}
