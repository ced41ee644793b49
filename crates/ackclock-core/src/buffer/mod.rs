//! The buffers of one connection: allocated on demand, bounded, freed when idle.

mod block;
mod block_order;
mod queue;
mod ranges;
mod receive;
mod store;

pub(crate) use queue::Queue;
pub(crate) use ranges::RangeSet;
pub(crate) use receive::ReceiveBuffer;

#[cfg(test)]
mod tests {
    mod walks;
}
