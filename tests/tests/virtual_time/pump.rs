//! A proxy in virtual time: `pump::Pump` between two connections over lossy links. Every byte arrives, in
//! order, and each end arrives after them, whatever the sizes and whichever side ends first.

use std::io;
use std::time::Duration;

use ackclock::TcpStream;
use ackclock::pump::{End, Pump};
use ackclock_sim::scenario::Loss;
use ackclock_sim::units::{Rate, Share, Span};
use ackclock_sim::{Direction, Scenario, VirtualNetwork};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use crate::support::payload;

/// The script of one end: writes of these sizes with pauses between them, then its end.
#[derive(Clone, Debug)]
struct Script {
    writes: Vec<(usize, u64)>,
}

impl Script {
    fn bytes(&self) -> usize {
        self.writes.iter().map(|(len, _)| len).sum()
    }
}

fn script() -> impl Strategy<Value = Script> {
    let len = prop_oneof![1_usize..20, 1000_usize..3000, 30_000_usize..200_000];
    prop::collection::vec((len, 0_u64..300), 0..6).prop_map(|writes| Script { writes })
}

/// Plays a script while it reads to the end. Returns what it read.
async fn play(stream: TcpStream, script: Script) -> io::Result<Vec<u8>> {
    let (mut reader, mut writer) = stream.into_split();
    let all = payload(script.bytes());
    let writes = async {
        let mut rest = &all[..];
        for (len, pause_ms) in script.writes {
            let (part, others) = rest.split_at(len);
            writer.write_all(part).await?;
            rest = others;
            sleep(Duration::from_millis(pause_ms)).await;
        }
        writer.shutdown().await
    };
    let mut seen = Vec::new();
    let (written, read) = tokio::join!(writes, reader.read_to_end(&mut seen));
    written.and(read)?;
    Ok(seen)
}

/// Runs both scripts through a proxy. Returns what the client and the server read, and how the pump ended.
fn through_a_proxy(seed: u64, loss: u32, client: Script, server: Script) -> (Vec<u8>, Vec<u8>, (u64, u64)) {
    let link = |mbit| {
        let direction = Direction::new(Rate::mbit(mbit), Span::millis(10)).buffers(30);
        direction.loss(Loss::Independent(Share::percent(loss)))
    };
    let scenario = Scenario::new(Span::seconds(3600)).seed(seed);
    let scenario = ["client", "proxy", "server"].into_iter().fold(scenario, Scenario::host);
    // One side is slower than the other, so that the pump's receiver does not keep up.
    let scenario = scenario.link("client", "proxy", link(50)).link("proxy", "server", link(5));
    let mut net = VirtualNetwork::new(&scenario).unwrap();
    let [a, proxy, b] = ["client", "proxy", "server"].map(|host| net.stack(host).unwrap());
    let [proxy_addr, server_addr] = ["proxy", "server"].map(|host| (net.lookup(host).unwrap(), 80).into());
    net.run(async move {
        let (at_proxy, at_server) = (proxy.listen(proxy_addr)?, b.listen(server_addr)?);
        let pumped = tokio::spawn(async move {
            let (stream, _) = at_proxy.accept().await?;
            let socket = proxy.connect(server_addr).await?;
            io::Result::Ok(Pump::new(stream, socket).idle_timeout(Duration::from_secs(600)).await)
        });
        let served = tokio::spawn(async move { play(at_server.accept().await?.0, server).await });
        let client = play(a.connect(proxy_addr).await?, client).await?;
        let server = served.await??;
        let pumped = pumped.await??;
        assert!(matches!(pumped.end, End::Finished), "{pumped:?}");
        io::Result::Ok((client, server, (pumped.to_socket, pumped.to_stream)))
    })
    .unwrap()
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_and_each_end_arrive(
        seed in any::<u64>(),
        loss in prop_oneof![Just(0), Just(2)],
        client in script(),
        server in script(),
    ) {
        let (sent, answered) = (payload(client.bytes()), payload(server.bytes()));
        let (at_client, at_server, counts) = through_a_proxy(seed, loss, client, server);
        prop_assert!(at_server == sent && at_client == answered);
        prop_assert_eq!(counts, (sent.len() as u64, answered.len() as u64));
    }
}
