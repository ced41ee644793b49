//! Several queues of one TUN interface: a stack on each, all with the same address, and one stack on all.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use ackclock::{Counters, Stack, TcpConfig, TcpListener, TcpStream};
use ackclock_device::{OffloadMode, configure, open_queues};
use ackclock_tests::kernel::program::eventually;
use ackclock_tests::kernel::scene::{Family, TUN, stack_on, within};
use ackclock_tests::netns::in_namespace;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net;

#[test]
fn a_stack_on_each_queue_serves_the_connections_that_the_kernel_gives_it() {
    in_namespace(|| async {
        let (queues, fell_back) = open_queues(TUN, OffloadMode::On, 2).unwrap();
        assert_eq!(fell_back, None);
        configure::configure(TUN).address("10.9.0.1/24".parse().unwrap()).apply().unwrap();
        let stacks: Vec<Stack> =
            queues.into_iter().map(|queue| stack_on(queue, TcpConfig::default())).collect();
        for stack in &stacks {
            let listener = stack.listen(Family::V4.stack(80)).unwrap();
            tokio::spawn(serve(listener));
        }
        let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(echo(number))).collect();
        for client in clients {
            within(LIMIT, &stacks[0], client).await.unwrap();
        }
        let opened: Vec<u64> = stacks.iter().map(|stack| stack.counters().opened_passively).collect();
        assert_eq!(opened.iter().sum::<u64>(), u64::from(CLIENTS), "{opened:?}");
        assert!(opened.iter().all(|&opened| opened > 4), "{opened:?}");
        for stack in &stacks {
            assert_eq!(stack.counters().resets_sent, 0, "no segment came to the other stack");
        }
    });
}

#[test]
fn one_stack_on_two_queues_keeps_each_flow_at_its_queue() {
    in_namespace(|| async {
        let stack = two_queues(OffloadMode::On);
        tokio::spawn(serve(stack.listen(Family::V4.stack(80)).unwrap()));
        let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(echo(number))).collect();
        for client in clients {
            within(LIMIT, &stack, client).await.unwrap();
        }
        let opened = each(&stack, |counters| counters.opened_passively);
        assert_eq!(opened.iter().sum::<u64>(), u64::from(CLIENTS), "{opened:?}");
        assert!(opened.iter().all(|&opened| opened > 4), "{opened:?}");
        let counters = stack.counters();
        // The SYN arrived on the queue of the flow's hash, and the answer keeps it there.
        assert_eq!(counters.strays_handed_over, 0, "of {} packets", counters.packets_received);
        assert_eq!((counters.dropped_strays, counters.resets_sent), (0, 0));
    });
}

#[test]
fn a_flow_stays_at_its_queue_until_it_is_silent_and_then_all_of_it_arrives() {
    in_namespace(|| async {
        let stack = two_queues(OffloadMode::Off);
        let listener = net::TcpListener::bind(Family::V4.kernel(90)).await.unwrap();
        let mut pairs = Vec::new();
        for _ in 0..FLOWS {
            let (stream, accepted) = tokio::join!(stack.connect(Family::V4.kernel(90)), listener.accept());
            pairs.push((stream.unwrap(), accepted.unwrap().0));
        }
        assert_eq!(each(&stack, |counters| counters.opened_actively), [FLOWS / 2; 2]);
        // Linux `drivers/net/tun.c` records the queue of a packet after it has handled it: the answer to a
        // SYN still goes by the hash.
        let begun = stack.counters().strays_handed_over;
        assert!(begun <= FLOWS, "{begun}");

        for _ in 0..20 {
            ask_all(&stack, &mut pairs).await;
        }
        assert_eq!(stack.counters().strays_handed_over, begun, "flows stay where they are");

        // After three seconds without a packet sent the flow is forgotten, and the hash decides.
        tokio::time::sleep(Duration::from_secs(5)).await;
        ask_all(&stack, &mut pairs).await;
        // The last acknowledgement may still be on its way from one queue to the other.
        let counters = eventually(|| async {
            let counters = stack.counters();
            let is_taken = counters.strays_taken == counters.strays_handed_over;
            if is_taken { Ok(counters) } else { Err(io::Error::other(format!("{counters:?}"))) }
        });
        let counters = counters.await;
        let handed = counters.strays_handed_over - begun;
        // Half of them, until they are answered; by chance none, once in 65,536 times.
        assert!((1..=3 * FLOWS).contains(&handed), "{handed}");
        assert_eq!((counters.strays_taken, counters.dropped_strays), (begun + handed, 0));
        assert_eq!(counters.resets_sent, 0);
    });
}

#[test]
fn datagrams_by_either_queue_come_to_one_socket() {
    in_namespace(|| async {
        let stack = two_queues(OffloadMode::On);
        let socket = stack.udp(Family::V4.stack(53)).unwrap();
        let flow = || {
            let flow = UdpSocket::bind(Family::V4.kernel(0)).unwrap();
            flow.connect(Family::V4.stack(53)).unwrap();
            flow.set_read_timeout(Some(LIMIT)).unwrap();
            flow
        };
        let flows: Vec<UdpSocket> = (0..FLOWS).map(|_| flow()).collect();
        for turn in 0..2 {
            for flow in &flows {
                flow.send(b"question").unwrap();
                let (len, from) = within(LIMIT, &stack, socket.recv_from(&mut [0; 100])).await.unwrap();
                assert_eq!((len, from), (8, flow.local_addr().unwrap()), "turn {turn}");
                socket.send_to(b"answer", from).await.unwrap();
                assert_eq!(flow.recv(&mut [0; 100]).unwrap(), 6);
            }
        }
        assert_eq!(each(&stack, |counters| counters.udp_received), [2 * FLOWS, 0]);
        let handed = stack.counters().strays_handed_over;
        assert!(
            (1..FLOWS).contains(&handed),
            "the first of some flows, and then the answer has the way: {handed}"
        );
    });
}

/// One stack on both queues of `tun0`, on which only the test sends.
fn two_queues(mode: OffloadMode) -> Stack {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let (queues, fell_back) = open_queues(TUN, mode, 2).unwrap();
    assert_eq!(fell_back, None);
    configure::configure(TUN).address("10.9.0.1/24".parse().unwrap()).apply().unwrap();
    Stack::builder().queues(queues).address("10.9.0.2/24".parse().unwrap()).spawn().unwrap()
}

/// The kernel's end of each connection asks, and the stack's answers.
async fn ask_all(stack: &Stack, pairs: &mut [(TcpStream, net::TcpStream)]) {
    for (stream, accepted) in pairs {
        accepted.write_all(b"are you there").await.unwrap();
        within(LIMIT, stack, stream.read_exact(&mut [0; 13])).await.unwrap();
        stream.write_all(b"yes").await.unwrap();
        within(LIMIT, stack, accepted.read_exact(&mut [0; 3])).await.unwrap();
    }
}

fn each<T>(stack: &Stack, count: impl Fn(&Counters) -> T) -> Vec<T> {
    stack.queue_counters().iter().map(count).collect()
}

/// Sends back what each client sends.
async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let (mut reader, mut writer) = stream.into_split();
            tokio::io::copy(&mut reader, &mut writer).await.unwrap();
            writer.shutdown().await.unwrap();
        });
    }
}

/// One of the kernel's clients: it gets back all that it sends.
async fn echo(number: u8) {
    let mut stream = net::TcpStream::connect(Family::V4.stack(80)).await.unwrap();
    let data = vec![number; 200_000];
    let (mut reader, mut writer) = stream.split();
    let mut back = Vec::new();
    let (written, read) = tokio::join!(
        async {
            writer.write_all(&data).await?;
            writer.shutdown().await
        },
        reader.read_to_end(&mut back)
    );
    written.unwrap();
    read.unwrap();
    assert!(back == data);
}

const CLIENTS: u8 = 48;
const FLOWS: u64 = 16;
const LIMIT: Duration = Duration::from_secs(60);
