//! A stack whose Ethernet is a Unix socket, as of a virtual machine. The guest is the kernel of another
//! namespace; a bridge and a TAP device join it to the hypervisor, which is two tasks here.
//!
//! ```text
//! stack ─── socket ─── hypervisor ─── tap0 ─── bridge ─── wire ═══ peer: the guest's kernel
//! ```

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ackclock::TcpConfig;
use ackclock_device::impair::{Impaired, Settings, Share};
use ackclock_device::over::{EthernetOver, PacketStream};
use ackclock_device::{Device, FrameDevice, OffloadMode, ReceiveBatch, TapDevice};
use ackclock_tests::devices::Needs;
use ackclock_tests::kernel::payload::receive;
use ackclock_tests::kernel::scene::{Family, stack_on, within};
use ackclock_tests::kernel::wire::{LIMIT, TAP, addressed, both_ways, joined, on_a_wire, open_when_free};
use ackclock_tests::netns::ip;
use ackclock_wire::TxPacket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixDatagram, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stream,
    Datagram,
}

#[test]
fn bulk_crosses_a_stream_with_losses() {
    bulk(Kind::Stream);
}

#[test]
fn bulk_crosses_datagrams_with_losses() {
    bulk(Kind::Datagram);
}

/// Both ways, both families, 1 % lost in each direction.
fn bulk(kind: Kind) {
    on_a_wire(Needs::Tap, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            let (device, _hypervisor) = open(kind, OffloadMode::Off, false).await;
            let settings = Settings { loss: Share::percent(1), ..Settings::default() };
            let lossy = Impaired::new(device, 7, settings, settings).unwrap();
            let network = lossy.handle();
            let stack = stack_on(lossy, TcpConfig::default());
            both_ways(&stack, &far, LEN).await;
            assert!(network.statistics_sent().lost > 0 && network.statistics_received().lost > 0);
            assert_eq!(stack.counters().dropped_tcp_checksum, 0);
        });
    });
}

#[test]
fn a_guest_that_leaves_checksums_unfinished_has_to_be_trusted() {
    on_a_wire(Needs::Tap, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            {
                let (device, _hypervisor) = open(Kind::Stream, OffloadMode::On, false).await;
                let stack = stack_on(device, TcpConfig::default());
                let answer = tokio::time::timeout(Duration::from_secs(1), joined(&stack, &far, Family::V4));
                assert!(answer.await.is_err(), "a SYN-ACK with a wrong checksum is dropped");
                assert!(stack.counters().dropped_tcp_checksum > 0);
                stack.shutdown().await;
            }
            ip("link del br0");
            let (device, _hypervisor) = open(Kind::Stream, OffloadMode::On, true).await;
            let stack = stack_on(device, TcpConfig::default());
            both_ways(&stack, &far, LEN).await;
        });
    });
}

#[test]
fn a_virtual_machine_that_ends_ends_its_connections() {
    on_a_wire(Needs::Tap, |near, far| {
        let far = far.handle().clone();
        near.run(async move {
            let (device, hypervisor) = open(Kind::Stream, OffloadMode::Off, false).await;
            let stack = stack_on(device, TcpConfig::default());
            let (mut ours, _theirs) = joined(&stack, &far, Family::V4).await;
            let reading = tokio::spawn(async move { receive(&mut ours).await });
            drop(hypervisor);
            let error = within(LIMIT, &stack, reading).await.unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NetworkDown, "{error}");
            assert!(error.to_string().contains("the other end has closed"), "{error}");
        });
    });
}

/// A device on one end of a socket whose other end is the hypervisor's, and that.
async fn open(kind: Kind, offload: OffloadMode, trusted: bool) -> (Box<dyn Device>, JoinSet<io::Result<()>>) {
    let tap = open_when_free(|| TapDevice::open(TAP, offload)).await.0;
    ip("link add br0 type bridge");
    for port in [TAP, "wire"] {
        ip(&format!("link set {port} master br0 up"));
    }
    ip("link set br0 up");
    let mut hypervisor = JoinSet::new();
    let (to_guest, from_stack) = mpsc::channel(64);
    let (to_stack, mut from_guest) = mpsc::channel::<Vec<u8>>(64);
    hypervisor.spawn(guest(tap, from_stack, to_stack));
    let device: Box<dyn Device> = match kind {
        Kind::Stream => {
            let (near, far) = UnixStream::pair().unwrap();
            let (mut reader, mut writer) = far.into_split();
            hypervisor.spawn(async move {
                loop {
                    let mut frame = vec![0; reader.read_u32().await? as usize];
                    reader.read_exact(&mut frame).await?;
                    to_guest.send(frame).await.map_err(io::Error::other)?;
                }
            });
            hypervisor.spawn(async move {
                while let Some(frame) = from_guest.recv().await {
                    writer.write_u32(frame.len() as u32).await?;
                    writer.write_all(&frame).await?;
                }
                Ok(())
            });
            let device = EthernetOver::new(PacketStream::prefixed(near), 1500);
            let device = if trusted { device.trusting_checksums() } else { device };
            Box::new(addressed().on(device).unwrap())
        }
        Kind::Datagram => {
            let (near, far) = UnixDatagram::pair().unwrap();
            let reader = Arc::new(far);
            let writer = Arc::clone(&reader);
            hypervisor.spawn(async move {
                let mut frame = vec![0; 1 << 16];
                loop {
                    let len = reader.recv(&mut frame).await?;
                    to_guest.send(frame[..len].to_vec()).await.map_err(io::Error::other)?;
                }
            });
            hypervisor.spawn(async move {
                while let Some(frame) = from_guest.recv().await {
                    writer.send(&frame).await?;
                }
                Ok(())
            });
            Box::new(addressed().on(EthernetOver::new(near, 1500)).unwrap())
        }
    };
    (device, hypervisor)
}

/// The TAP device's frames to the stack, and the stack's to the TAP device. The kernel's metadata of a frame
/// is not passed on, because such sockets have no place for it.
async fn guest(
    mut tap: TapDevice,
    mut from_stack: mpsc::Receiver<Vec<u8>>,
    to_stack: mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    let mut batch = ReceiveBatch::new(64, 1 << 20);
    loop {
        batch.clear();
        tokio::select! {
            received = poll_fn(|cx| tap.poll_receive(cx, &mut batch)) => {
                received?;
                for (frame, _) in batch.iter() {
                    // A guest's queue is as long as it is, and no longer.
                    let _ = to_stack.try_send(frame.to_vec());
                }
            }
            frame = from_stack.recv() => {
                let Some(frame) = frame else { return Ok(()) };
                let (header, packet) = frame.split_first_chunk::<14>().expect("a frame has a header");
                poll_fn(|cx| tap.poll_send_ready(cx)).await?;
                tap.send(header, &TxPacket::complete(packet))?;
            }
        }
    }
}

const LEN: u64 = 1 << 20;
