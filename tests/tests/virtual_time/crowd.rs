//! Ten thousand hosts, each with a stack and a program.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ackclock::{Stack, TcpStream};
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario, VirtualNetwork};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

const CLIENTS: u32 = 10_000;

#[test]
fn ten_thousand_hosts_ask_a_server_by_its_name() {
    let path = Direction::new(Rate::mbit(10), Span::millis(5));
    let scenario = Scenario::new(Span::seconds(60)).host("server").router("r");
    let scenario = scenario.link("server", "r", Direction::new(Rate::mbit(10_000), Span::millis(5)));
    let scenario = (0..CLIENTS)
        .map(|client| format!("client-{client}"))
        .fold(scenario, |scenario, name| scenario.host(name.clone()).link(&name, "r", path.clone()));
    let mut net = VirtualNetwork::new(&scenario).unwrap();
    let server = net.stack("server").unwrap();
    let (answered, all) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    for client in 0..CLIENTS {
        let (answered, all) = (Arc::clone(&answered), Arc::clone(&all));
        net.start(&format!("client-{client}"), move |stack| {
            let (answered, all) = (Arc::clone(&answered), Arc::clone(&all));
            async move {
                // Ten thousand a second.
                tokio::time::sleep(Duration::from_micros(100) * client).await;
                assert_eq!(asked(&stack, client).await, client);
                if answered.fetch_add(1, Ordering::Relaxed) + 1 == CLIENTS {
                    all.notify_one();
                }
            }
        })
        .unwrap();
    }
    net.run(async move {
        let listener = server.listen((Ipv4Addr::UNSPECIFIED, 80).into()).unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let question = stream.read_u32().await.unwrap();
                    stream.write_u32(question).await.unwrap();
                });
            }
        });
        all.notified().await;
    })
    .unwrap();
    assert_eq!(answered.load(Ordering::Relaxed), CLIENTS);
    // The last begins after a second, and has two round trips of 20 ms.
    let took = net.now().as_nanos() / 1_000_000;
    assert!((1039..1045).contains(&took), "{took} ms");
}

async fn asked(stack: &Stack, client: u32) -> u32 {
    let mut stream = TcpStream::connect(stack, "server:80").await.unwrap();
    stream.write_u32(client).await.unwrap();
    stream.read_u32().await.unwrap()
}
