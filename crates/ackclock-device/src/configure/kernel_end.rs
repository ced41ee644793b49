//! [`Configure`]: all of the kernel's end at once.

use std::net::IpAddr;

use super::{ConfigureError, add_address, kernel_has, set_mtu, set_queue_len_min, set_up};
use ackclock_wire::Cidr;

/// The settings of the kernel's end of an interface, begun with [`configure`].
#[must_use = "`apply` makes the settings"]
#[derive(Clone, Debug)]
pub struct Configure {
    name: String,
    stack: Vec<Cidr>,
    addresses: Vec<(Cidr, Option<IpAddr>)>,
    mtu: Option<u32>,
}

/// Begins the settings of the kernel's end of the interface `name`, such as a TUN device. Nothing changes
/// before [`Configure::apply`].
///
/// ```no_run
/// use ackclock_device::configure::configure;
/// use ackclock_device::{OffloadMode, open};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (device, _why_no_offload) = open("tun0", OffloadMode::Auto)?;
/// // The stack on `device` will be 10.9.0.2. The kernel takes the first other address: 10.9.0.1.
/// configure("tun0").stack("10.9.0.2/24".parse()?).mtu(1400).apply()?;
/// # drop(device);
/// # Ok(()) }
/// ```
pub fn configure(name: &str) -> Configure {
    Configure { name: name.to_owned(), stack: Vec::new(), addresses: Vec::new(), mtu: None }
}

/// The address that the kernel's end gets by default beside a stack at `stack`: the first other host of its
/// network. `None` if the network has no other.
#[must_use]
pub fn kernel_address(stack: Cidr) -> Option<Cidr> {
    let other = stack.hosts().find(|host| *host != stack.addr())?;
    Cidr::new(other, stack.prefix_len()).ok()
}

impl Configure {
    /// An address of the stack at the other end, with the prefix of its network; can be repeated. Unless
    /// [`address`](Self::address) gives the kernel one of the same family, it takes the first other host of
    /// that network.
    pub fn stack(mut self, address: Cidr) -> Self {
        self.stack.push(address);
        self
    }

    /// An address of the kernel's; can be repeated. The kernel routes the whole prefix through the interface.
    #[doc(alias = "local")]
    pub fn address(mut self, local: Cidr) -> Self {
        self.addresses.push((local, None));
        self
    }

    /// An address of the kernel's for a link to the single address `peer`. The prefix is that of the peer's
    /// network.
    pub fn address_with_peer(mut self, local: Cidr, peer: IpAddr) -> Self {
        self.addresses.push((local, Some(peer)));
        self
    }

    /// The largest packet in bytes. Below 1,280 bytes, IPv6 stops on the interface.
    pub fn mtu(mut self, bytes: u32) -> Self {
        self.mtu = Some(bytes);
        self
    }

    /// Sets the MTU, the addresses and the length of the queue ([`set_queue_len_min`]), and brings the
    /// interface up. Repeating it is not an error.
    ///
    /// # Errors
    /// See [`ConfigureError`]; its messages name the command to run instead. Nothing is changed if the kernel
    /// has an address of the stack, or would get it here: it would answer in the stack's place.
    pub fn apply(&self) -> Result<(), ConfigureError> {
        let addresses = self.kernel_addresses()?;
        if let Some(mtu) = self.mtu {
            set_mtu(&self.name, mtu)?;
        }
        for (local, peer) in addresses {
            add_address(&self.name, local, peer)?;
        }
        set_queue_len_min(&self.name, QUEUE_LEN)?;
        set_up(&self.name, true)
    }

    /// The addresses of the kernel's end, none of which is the stack's.
    fn kernel_addresses(&self) -> Result<Vec<(Cidr, Option<IpAddr>)>, ConfigureError> {
        let mut all = self.addresses.clone();
        for &stack in &self.stack {
            let addr = stack.addr();
            if self.addresses.iter().any(|(local, _)| local.addr() == addr) {
                return Err(ConfigureError::StackAddress { addr });
            }
            if kernel_has(addr) {
                return Err(ConfigureError::KernelHas { addr });
            }
            if !self.addresses.iter().any(|(local, _)| local.addr().is_ipv4() == addr.is_ipv4()) {
                let local = kernel_address(stack).ok_or(ConfigureError::NoRoom { network: stack })?;
                if self.stack.iter().any(|other| other.addr() == local.addr()) {
                    return Err(ConfigureError::StackAddress { addr: local.addr() });
                }
                all.push((local, None));
            }
        }
        Ok(all)
    }
}

/// Packets that may wait in front of a configured device: 50 ms of 100,000 a second. A flood fills 4 MB, and
/// the senders of large packets wait for acknowledgements long before they fill it.
const QUEUE_LEN: u32 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn beside(stack: &str) -> Option<String> {
        kernel_address(cidr(stack)).map(|addr| addr.to_string())
    }

    fn of(end: &Configure) -> Vec<String> {
        end.kernel_addresses().unwrap().iter().map(|(local, _)| local.to_string()).collect()
    }

    #[test]
    fn the_kernel_takes_the_first_other_host() {
        assert_eq!(beside("10.9.0.2/24").as_deref(), Some("10.9.0.1/24"));
        assert_eq!(beside("10.9.0.1/24").as_deref(), Some("10.9.0.2/24"));
        assert_eq!(beside("fd00::2/64").as_deref(), Some("fd00::1/64"));
        assert_eq!(beside("10.9.0.7/31").as_deref(), Some("10.9.0.6/31"));
        assert_eq!([beside("10.9.0.2/32"), beside("fd00::2/128")], [None, None]);
    }

    #[test]
    fn an_address_of_the_same_family_takes_the_place_of_the_default() {
        let both = configure("tun0").stack(cidr("192.0.2.9/24")).stack(cidr("2001:db8::9/64"));
        assert_eq!(of(&both), ["192.0.2.1/24", "2001:db8::1/64"]);
        assert_eq!(of(&both.address(cidr("192.0.2.7/24"))), ["192.0.2.7/24", "2001:db8::1/64"]);
    }

    #[test]
    fn the_kernel_never_gets_the_address_of_the_stack() {
        let stack = cidr("192.0.2.9/24");
        let message = |end: Configure| end.kernel_addresses().unwrap_err().to_string();
        // One address twice, whatever its prefix and whichever comes first.
        let same = message(configure("tun0").address(cidr("192.0.2.9/32")).stack(stack));
        assert!(same.starts_with("192.0.2.9 is the stack's own address"), "{same}");
        // The default is an address of another stack.
        let taken = message(configure("tun0").stack(stack).stack(cidr("192.0.2.1/24")));
        assert!(taken.starts_with("192.0.2.1 is the stack's own address"), "{taken}");
        let kernels = message(configure("tun0").stack(cidr("127.0.0.1/8")));
        assert!(kernels.starts_with("127.0.0.1 is an address of this machine's kernel"), "{kernels}");
        let full = message(configure("tun0").stack(cidr("192.0.2.9/32")));
        assert!(full.contains("192.0.2.9/32 has no other address"), "{full}");
    }
}
