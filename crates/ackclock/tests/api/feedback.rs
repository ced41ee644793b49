//! Delivery feedback: delivered bytes, unsent bytes, figures that change.

use std::io::ErrorKind;
use std::time::Duration;

use ackclock::{Instant, Stack, TcpStream};
use ackclock_device::impair::{Impaired, Settings};
use ackclock_device::memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::support::{between, connection, host, hosts, hosts_with_network, kind, settle};

const DELAY: Duration = Duration::from_millis(20);

/// A connection over a path of 20 ms each way, and the stacks.
async fn far() -> (TcpStream, TcpStream, [Stack; 2]) {
    let (left, right) = memory::pair(memory::Config::default());
    let slow = || Settings { delay: DELAY, ..Settings::default() };
    let left = Impaired::new(left, 1, slow(), slow()).unwrap();
    // Both clocks begin now, so that what one stack says can be compared with what the other does.
    let client = host("10.0.0.1/24", "fd00::1/64").device(left).spawn().unwrap();
    let server = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
    let (ours, theirs) = between(&client, &server).await;
    (ours, theirs, [client, server])
}

#[tokio::test(start_paused = true)]
async fn delivered_waits_for_the_acknowledgement_and_says_when_it_came() {
    let began = tokio::time::Instant::now();
    let (mut ours, _theirs, _stacks) = far().await;
    ours.write_all(&[1; 1000]).await.unwrap();
    let wrote = began.elapsed();
    let delivered = ours.delivered().await.unwrap();
    let took = began.elapsed() - wrote;
    assert_eq!(delivered.bytes, 1000);
    // A round trip, and the peer's delayed acknowledgement of 40 ms.
    assert!((2 * DELAY..3 * DELAY + Duration::from_millis(60)).contains(&took), "{took:?}");
    let at = delivered.at.saturating_since(Instant::ZERO);
    assert!(at >= wrote + 2 * DELAY && at <= began.elapsed(), "{at:?} of {:?}", began.elapsed());
    // The time is that of the acknowledgement, not that of the call.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(ours.delivered().await.unwrap(), delivered);
}

#[tokio::test(start_paused = true)]
async fn each_waits_for_its_own_offset() {
    let (mut ours, mut theirs, _stacks) = far().await;
    ours.write_all(&[1; 100]).await.unwrap();
    {
        let (first, second) = (ours.delivered_to(100), ours.delivered_to(200));
        tokio::pin!(first, second);
        assert!(timeout(DELAY, &mut second).await.is_err());
        assert_eq!(first.await.unwrap().bytes, 100);
        assert!(timeout(Duration::from_secs(1), &mut second).await.is_err(), "200 bytes are not written yet");
    }
    let (reader, mut writer) = ours.into_split();
    let waiting =
        tokio::spawn(async move { (reader.as_ref().delivered_to(200).await.unwrap().bytes, reader) });
    settle().await;
    writer.write_all(&[2; 100]).await.unwrap();
    assert_eq!((waiting.await.unwrap().0, writer.not_sent().unwrap()), (200, 0));
    theirs.read_exact(&mut [0; 200]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_delivered_any_more_is_an_error() {
    let hosts = hosts();
    let (mut ours, theirs) = connection(&hosts).await;
    ours.write_all(&[1; 10]).await.unwrap();
    ours.delivered().await.unwrap();
    ours.shutdown().await.unwrap();
    assert_eq!(ours.delivered().await.unwrap().bytes, 10, "the FIN is not a byte");
    assert_eq!(kind(ours.delivered_to(11).await), ErrorKind::BrokenPipe);
    drop((ours, theirs));

    let (client, server, network) = hosts_with_network();
    let (mut ours, _theirs) = between(&client, &server).await;
    network.set_blackout(true);
    ours.write_all(&[1; 10]).await.unwrap();
    ours.set_user_timeout(Some(Duration::from_secs(3))).unwrap();
    let mut watch = ours.watch_delivery();
    assert_eq!(kind(ours.delivered().await), ErrorKind::TimedOut);
    assert_eq!(kind(ours.delivered().await), ErrorKind::TimedOut, "it stays: what was written is lost");
    while watch.changed().await.is_ok() {}
    assert_eq!(kind(watch.changed().await), ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn a_mark_bounds_what_is_written_and_not_sent() {
    let (mut ours, mut theirs, _stacks) = far().await;
    let mark = 16 << 10;
    assert_eq!(ours.not_sent_lowat().unwrap(), None);
    ours.set_not_sent_lowat(Some(mark)).unwrap();
    assert_eq!(ours.not_sent_lowat().unwrap(), Some(mark));
    let reading = tokio::spawn(async move {
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).await.unwrap();
        all.len()
    });
    let (mut most, mut written) = (0, 0);
    while written < 1 << 20 {
        ours.writable().await.unwrap();
        match ours.try_write(&[7; 100_000]) {
            Ok(len) => written += len,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        most = most.max(ours.not_sent().unwrap());
    }
    // The window is larger than the mark most of the time; at the start it is not.
    assert!((u64::from(mark) / 2..=u64::from(mark)).contains(&most), "{most}");
    ours.shutdown().await.unwrap();
    assert_eq!(reading.await.unwrap(), written);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_the_mark_holds_goes_on_when_something_leaves() {
    // A writer that waited for the acknowledgement, a round trip later, would send a window in two round
    // trips.
    let mut took = Vec::new();
    for mark in [None, Some(4 << 10)] {
        let (mut ours, mut theirs, _stacks) = far().await;
        ours.set_not_sent_lowat(mark).unwrap();
        let began = tokio::time::Instant::now();
        let writing = tokio::spawn(async move {
            ours.write_all(&vec![7; 4 << 20]).await.unwrap();
            ours
        });
        let mut read = vec![0; 4 << 20];
        theirs.read_exact(&mut read).await.unwrap();
        took.push(began.elapsed());
        drop(writing.await.unwrap());
    }
    assert!(took[1] <= took[0].mul_f64(1.25), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn to_take_the_mark_away_lets_a_writer_go_on() {
    let (client, server, network) = hosts_with_network();
    let (mut ours, _theirs) = between(&client, &server).await;
    ours.set_not_sent_lowat(Some(4096)).unwrap();
    network.set_blackout(true);
    ours.write_all(&[7; 14_600]).await.unwrap();
    let sent = ours.delivery().unwrap().written - ours.not_sent().unwrap();
    assert!(sent > 0 && ours.not_sent().unwrap() <= 4096, "{sent}");
    let waits = async {
        loop {
            match ours.try_write(&[7; 10_000]) {
                Ok(_) => {}
                Err(_) => ours.writable().await.unwrap(),
            }
            if ours.not_sent().unwrap() > 20_000 {
                return;
            }
        }
    };
    tokio::pin!(waits);
    assert!(timeout(Duration::from_millis(10), &mut waits).await.is_err());
    ours.set_not_sent_lowat(None).unwrap();
    timeout(Duration::from_millis(1), waits).await.expect("it was woken, and there is room");
}

#[tokio::test(start_paused = true)]
async fn figures_change_with_each_acknowledgement_and_not_between() {
    let (mut ours, mut theirs, _stacks) = far().await;
    let mut watch = ours.watch_delivery();
    let first = watch.changed();
    assert!(timeout(Duration::from_secs(1), first).await.is_err(), "nothing was acknowledged yet");
    ours.write_all(&[7; 100_000]).await.unwrap();
    let reading = tokio::spawn(async move {
        theirs.read_exact(&mut vec![0; 100_000]).await.unwrap();
        theirs
    });
    let (mut last, mut changes) = (watch.changed().await.unwrap(), 1);
    while last.acked < 100_000 {
        let now = watch.changed().await.unwrap();
        assert!(now != last && now.acked >= last.acked, "{now:?} after {last:?}");
        (last, changes) = (now, changes + 1);
    }
    // The first window alone is acknowledged in several steps.
    assert!((3..=100).contains(&changes), "{changes}");
    assert_eq!((last.written, last.not_sent), (100_000, 0));
    assert_eq!(watch.get().unwrap(), last);
    assert!(last.rtt_min >= 2 * DELAY && last.delivery_rate > 0, "{last:?}");
    assert_eq!(last.queueing_delay, last.srtt - last.rtt_min);
    assert!(timeout(Duration::from_secs(1), watch.changed()).await.is_err(), "no acknowledgement, no change");
    let other = watch.clone();
    drop(ours);
    assert_eq!(kind(watch.changed().await), ErrorKind::NotConnected);
    assert_eq!(kind(other.get().map(drop)), ErrorKind::NotConnected);
    drop(reading.await.unwrap());
}

#[test]
fn a_connection_is_no_larger_for_feedback_that_nobody_asks_for() {
    // The size before feedback existed, as in the test of an idle connection: the feedback is behind a
    // pointer that the connection already had.
    let bytes = size_of::<ackclock_core::Connection>();
    assert!((1000..=1128).contains(&bytes), "{bytes}");
}
