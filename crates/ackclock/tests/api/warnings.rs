//! What a stack warns of.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use ackclock::{Stack, Warning};
use ackclock_device::memory::{self, MemoryDevice};
use ackclock_device::{Capabilities, Device, ReceiveBatch};
use ackclock_wire::{RxMeta, TxPacket};
use tokio::time::Instant;

use crate::support::{SERVER, addr, host, hosts};

/// Hands over packets whose checksums are unfinished and says that they are whole.
#[derive(Debug)]
struct Lying(MemoryDevice);

impl Device for Lying {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let mut honest = ReceiveBatch::new(64, 0);
        let received = std::task::ready!(self.0.poll_receive(cx, &mut honest))?;
        honest.iter().for_each(|(packet, _)| assert!(batch.push(packet, RxMeta::default())));
        Poll::Ready(Ok(received))
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        self.0.send(packet)
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_that_hides_unfinished_checksums_is_reported_within_a_second() {
    let (left, right) = memory::pair(memory::Config { gso: true, ..memory::Config::default() });
    let client = host("10.0.0.1/24", "fd00::1/64").device(left).spawn().unwrap();
    let server = host("10.0.0.2/24", "fd00::2/64").device(Lying(right)).spawn().unwrap();
    let _listener = server.listen(addr(SERVER)).unwrap();
    let mut warnings = server.warnings();
    let began = Instant::now();
    let connecting = tokio::spawn({
        let client: Stack = client.clone();
        async move { client.connect(addr(SERVER)).await }
    });
    let warning = warnings.next().await.unwrap();
    assert!(matches!(warning, Warning::Checksums { dropped: 1.., delivered: 0 }), "{warning:?}");
    assert!(began.elapsed() <= Duration::from_secs(1), "after {:?}", began.elapsed());
    assert!(warning.to_string().contains("ethtool"));
    connecting.abort();
}

#[tokio::test(start_paused = true)]
async fn warnings_end_with_the_stack_and_do_not_keep_it() {
    let hosts = hosts();
    let mut warnings = hosts.client.warnings();
    drop(hosts.client);
    assert_eq!(warnings.next().await, None);
}
