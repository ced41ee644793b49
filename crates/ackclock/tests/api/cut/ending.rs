//! Calls of the stack itself.

use std::io::ErrorKind;
use std::time::Duration;

use ackclock::State;
use ackclock::trace::{Batch, Entry, TraceConfig, TraceKeep};
use ackclock_device::memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::{a_little_later, all_tasks_end, at_every_poll, joined, leaves_nothing, talk};
use crate::support::{addr, between, host, hosts, kind};

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn lookup_leaves_nothing() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let found = cut.at("stack::lookup", hosts.client.lookup("10.0.0.2")).await;
        assert!(found.is_none_or(|found| found.unwrap() == [addr("10.0.0.2:0").ip()]));
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn drain_goes_on_when_nobody_waits() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let (ours, mut theirs) = joined(&hosts).await;
        let reset = cut.at("stack::drain", hosts.server.drain(SHORT)).await;
        assert!(reset.is_none_or(|reset| reset.unwrap() == 1), "the one connection");
        if cut.polls == 0 {
            drop(hosts.server.listen(addr("10.0.0.2:82")).unwrap());
        } else {
            assert_eq!(kind(hosts.server.listen(addr("10.0.0.2:82"))), ErrorKind::NetworkDown);
            sleep(2 * SHORT).await;
            assert_eq!(kind(theirs.write(b"x").await), ErrorKind::NetworkDown);
            let states = hosts.server.connections().into_iter().map(|(_, info)| info.state);
            assert!(states.eq([State::Closed]), "reset in time, and known until its stream is dropped");
        }
        drop((ours, theirs));
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn closing_is_told_again() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let stack = hosts.server.clone();
        let draining = tokio::spawn(async move {
            a_little_later().await;
            stack.drain(SHORT).await
        });
        cut.at("stack::closing", hosts.server.closing()).await;
        timeout(LONG, hosts.server.closing()).await.expect("it drains");
        draining.await.unwrap().unwrap();
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_goes_on_when_nobody_waits() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let (mut ours, mut theirs) = joined(&hosts).await;
        if cut.polls == 0 {
            cut.at("stack::shutdown", hosts.client.shutdown()).await;
            talk(&mut ours, &mut theirs).await;
            drop((ours, theirs));
        } else {
            ours.write_all(&[7; 100_000]).await.unwrap();
            let reading = tokio::spawn(async move {
                let mut all = Vec::new();
                theirs.read_to_end(&mut all).await.unwrap();
                all.len()
            });
            cut.at("stack::shutdown", hosts.client.shutdown()).await;
            assert_eq!(timeout(LONG, reading).await.expect("the stream ends").unwrap(), 100_000);
            timeout(LONG, hosts.client.shutdown()).await.expect("it closes");
            assert_eq!(kind(ours.write(b"x").await), ErrorKind::NetworkDown);
            drop(ours);
        }
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn next_warning_keeps_no_stack() {
    at_every_poll(async |cut| {
        let hosts = hosts();
        let mut warnings = hosts.client.warnings();
        let stack = hosts.client.clone();
        let closing = tokio::spawn(async move {
            sleep(SHORT).await;
            stack.shutdown().await;
        });
        cut.at("warnings::next", warnings.next()).await;
        assert_eq!(timeout(LONG, warnings.next()).await.expect("the stack is down"), None);
        closing.await.unwrap();
        leaves_nothing(hosts).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn next_trace_loses_no_record() {
    at_every_poll(async |cut| {
        let (left, right) = memory::pair(memory::Config::default());
        let small = TraceConfig { records: 64, keep: TraceKeep::All };
        let client = host("10.0.0.1/24", "fd00::1/64").trace(small).device(left).spawn().unwrap();
        let server = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
        let (mut ours, mut theirs) = between(&client, &server).await;
        let talking = tokio::spawn(async move {
            a_little_later().await;
            ours.write_all(&[7; LEN as usize]).await.unwrap();
            ours.shutdown().await.unwrap();
            ours
        });
        let first = cut.at("stack::next_trace", client.next_trace()).await;
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).await.unwrap();
        drop((talking.await.unwrap(), theirs));
        let stack = client.clone();
        let closing = tokio::spawn(async move { stack.shutdown().await });
        let mut batches: Vec<Batch> = first.flatten().into_iter().collect();
        while let Some(batch) = timeout(LONG, client.next_trace()).await.expect("the trace ends") {
            batches.push(batch);
        }
        assert!(batches.iter().all(|batch| batch.missed == 0));
        let entries =
            batches.iter().flat_map(|batch| &batch.records).map(|&record| Entry::decode(record).unwrap());
        let sent = entries.map(|entry| if let Entry::Sent { len, .. } = entry { u64::from(len) } else { 0 });
        assert_eq!(sent.sum::<u64>(), LEN);
        closing.await.unwrap();
        drop((client, server));
        all_tasks_end().await;
    })
    .await;
}

const LEN: u64 = 200_000;
