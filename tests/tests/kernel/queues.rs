//! A stack on each queue of one TUN interface, all with the same address.

use std::time::Duration;

use ackclock::{Stack, TcpConfig};
use ackclock_device::{OffloadMode, configure, open_queues};
use ackclock_tests::kernel::scene::{Family, TUN, stack_on, within};
use ackclock_tests::netns::in_namespace;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net;

#[test]
fn a_stack_on_each_queue_serves_the_connections_that_the_kernel_gives_it() {
    in_namespace(|| async {
        let (queues, fell_back) = open_queues(TUN, OffloadMode::On, 2).unwrap();
        assert_eq!(fell_back, None);
        configure::configure(TUN, "10.9.0.1/24".parse().unwrap(), None, None).unwrap();
        let stacks: Vec<Stack> =
            queues.into_iter().map(|queue| stack_on(queue, TcpConfig::default())).collect();
        for stack in &stacks {
            let listener = stack.listen(Family::V4.stack(80)).unwrap();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(async move {
                        let (mut reader, mut writer) = stream.into_split();
                        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
                        writer.shutdown().await.unwrap();
                    });
                }
            });
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

/// One of the kernel's clients: what it sends comes back whole.
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
const LIMIT: Duration = Duration::from_secs(60);
