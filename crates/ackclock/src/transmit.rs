//! How packets leave: from the endpoint to the device, under both locks. The driver sends this way in its
//! turn, and a caller while the driver sleeps.

use std::io;
use std::task::{Context, Poll};

use ackclock_core::{Instant, Limits};
use ackclock_device::{Capabilities, Device};

use crate::clock::ShardClock;
use crate::state::StackState;

/// Where sending stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmitted {
    pub packets: usize,
    pub more: bool,
    /// Whether the stack sent packets to itself, for whose effects tasks may wait.
    pub looped: bool,
}

/// Sends what the endpoint has until it has no more, the device is full, or enough was sent for one turn.
pub(crate) fn transmit(
    stack: &mut StackState,
    device: &mut Box<dyn Device>,
    cx: &mut Context<'_>,
    now: Instant,
    clock: &ShardClock,
) -> io::Result<Transmitted> {
    let sent = hand_over(stack, device, cx, now, clock)?;
    if sent.packets > 0 {
        device.flush()?;
    }
    Ok(sent)
}

fn hand_over(
    stack: &mut StackState,
    device: &mut Box<dyn Device>,
    cx: &mut Context<'_>,
    now: Instant,
    clock: &ShardClock,
) -> io::Result<Transmitted> {
    if let Some(groups) = stack.endpoint.take_groups() {
        device.listen_to(&groups);
    }
    let looped = stack.endpoint.packets_looped();
    let mut now = now;
    let mut bytes = 0;
    for packets in 0..TRANSMIT_PACKETS {
        if bytes >= TRANSMIT_BYTES {
            return Ok(Transmitted { more: true, ..Transmitted::all(stack, packets, looped) });
        }
        match device.poll_send_ready(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Err(error),
            // The device wakes the driver once there is room.
            Poll::Pending => return Ok(Transmitted::all(stack, packets, looped)),
        }
        let Some(packet) = stack.endpoint.poll_transmit(now, stack.limits) else {
            return Ok(Transmitted::all(stack, packets, looped));
        };
        bytes += packet.header.len() + packet.payload_len();
        match device.send(&packet) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if stack.endpoint.is_traced() {
            // A trace shows how long the device took.
            now = now.max(clock.now());
        }
        if let Some(addr) = stack.endpoint.take_reached() {
            device.reached(addr);
        }
    }
    Ok(Transmitted { more: true, ..Transmitted::all(stack, TRANSMIT_PACKETS, looped) })
}

impl Transmitted {
    /// All that could be sent now was sent; `looped`: how many packets the stack had sent to itself before.
    fn all(stack: &StackState, packets: usize, looped: u64) -> Self {
        Self { packets, more: false, looped: stack.endpoint.packets_looped() != looped }
    }

    /// Whether nothing is left to send now, and no task waits to be notified of sent data.
    pub fn is_complete(self) -> bool {
        !self.more && !self.looped
    }
}

pub(crate) fn limits(capabilities: &Capabilities) -> Limits {
    Limits {
        gso_max_v4: capabilities.gso_max_v4,
        gso_max_v6: capabilities.gso_max_v6,
        tx_checksum: capabilities.tx_checksum,
    }
}

/// Packets sent under one lock.
const TRANSMIT_PACKETS: usize = 64;
/// After this many bytes the driver looks at the device again, because a request may have arrived.
const TRANSMIT_BYTES: usize = 256 << 10;
