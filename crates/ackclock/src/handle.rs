//! [`Stack`]: the handle of a TCP host. Its methods are in `stack.rs`, which imports what they make; those
//! modules know only the handle.

use std::fmt;

use crate::shards::Handle;

/// A TCP in user space: a device, addresses, and the connections between them and their peers. Cloning gives
/// another handle of the same stack.
///
/// ```no_run
/// use ackclock::device::{self, OffloadMode};
/// use ackclock::{Cidr, Stack};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (device, _why_no_offload) = device::open("tun0", OffloadMode::Auto)?;
/// let address: Cidr = "10.9.0.2/24".parse()?;
/// device::configure("tun0").stack(address).apply()?; // the kernel's end becomes 10.9.0.1
/// let stack = Stack::builder().device(device).address(address).spawn()?;
///
/// let stream = stack.connect("10.9.0.1:80".parse()?).await?;
/// println!("{:?} with {:?}", stream.info()?.srtt, stream.info()?.congestion);
/// stack.shutdown().await;
/// # Ok(()) }
/// ```
///
/// # End
///
/// The stack lives as long as one of its handles: stacks, listeners, and streams, even those being closed.
/// When the last one is dropped, connections that are still closing have the builder's
/// [`close_timeout`](crate::StackBuilder::close_timeout) to finish; then the device is dropped. TIME-WAIT
/// does not keep the device open: if the answer to a peer's last FIN was lost, the peer retransmits the FIN
/// unanswered until it gives up. Use [`shutdown`](Self::shutdown) to wait for the end. A program should do so
/// before its runtime ends, because the stack's driver ends with the runtime.
#[derive(Clone)]
pub struct Stack {
    pub(crate) shared: Handle,
}

impl Stack {
    pub(crate) fn new(shared: Handle) -> Self {
        Self { shared }
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.shared.look(|state| state.network.addresses().to_vec());
        f.debug_struct("Stack").field("addresses", &addresses).finish_non_exhaustive()
    }
}
