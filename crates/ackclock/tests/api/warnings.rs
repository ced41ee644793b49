//! Warnings of a stack.

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

/// A device of this machine's kernel, or not.
#[derive(Debug)]
struct LeadsTo {
    kernel: bool,
    device: MemoryDevice,
}

impl Device for LeadsTo {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        self.device.poll_receive(cx, batch)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.device.poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        self.device.send(packet)
    }

    fn leads_to_kernel(&self) -> bool {
        self.kernel
    }
}

#[tokio::test(start_paused = true)]
async fn address_that_the_kernel_has_too_is_reported_once_where_the_device_leads_to_the_kernel() {
    for kernel in [true, false] {
        let (device, _other) = memory::pair(memory::Config::default());
        // Every kernel has the first; 203.0.113.0/24 is for documentation (RFC 5737).
        let builder = host("127.0.0.1/8", "fd00::1/64").address("203.0.113.1/24".parse().unwrap());
        let stack = builder.device(LeadsTo { kernel, device }).spawn().unwrap();
        let mut warnings = stack.warnings();
        let mut told = Vec::new();
        while let Ok(Some(warning)) = tokio::time::timeout(Duration::from_secs(5), warnings.next()).await {
            told.push(warning);
        }
        let addr = "127.0.0.1".parse().unwrap();
        let expected = if kernel { vec![Warning::KernelHasAddress(addr)] } else { Vec::new() };
        assert_eq!(told, expected);
        assert!(told.iter().all(|warning| warning.to_string().contains("another address")), "{told:?}");
    }
}
