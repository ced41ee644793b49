//! Buffers of one connection: taken on demand, bounded, given back when idle.

mod block_order;
mod ranges;
mod receive;
mod ring;

pub(crate) use ranges::RangeSet;
pub(crate) use receive::ReceiveBuffer;
pub(crate) use ring::Ring;
