//! A program with TCP in user space, over a TUN device to the kernel's TCP in the same private network.
//!
//! Each program serves the same four ports: it discards what is sent to 5001, sends without end to a client
//! of 5002, echoes on 5003, and closes on 5004 when its client has. The clients are the kernel's sockets
//! ([`Client`]). Besides this stack ([`Program`]) there is a responder that looks like a TCP and does nothing
//! else ([`Null`]): its result is what the device, the kernel and the client leave to any stack. The kernel's
//! own TCP is a program, too ([`serve_kernel`]), over a pair of virtual Ethernet devices.

mod beside;
mod client;
mod crowd;
mod kernel;
mod null;
mod program;

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};

pub use beside::{Beside, Latencies};
pub use client::{Client, Measured};
pub use crowd::{Crowd, CrowdMeasured};
pub use kernel::serve_kernel;
pub use null::Null;
pub use program::{CpuTime, Ground, Program, Running, Settings, resident};

/// The TUN device.
pub const DEVICE: &str = "pft0";
/// The kernel's address on it.
pub const KERNEL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
/// The program's address.
pub const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));

/// A service of a program; the number is its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Service {
    /// The kernel sends, the program reads.
    Sink = 5001,
    /// The program sends, the kernel reads.
    Source = 5002,
    /// One-byte round trips, one after the other.
    Echo = 5003,
    /// Connections without data, several at once.
    Close = 5004,
}

impl Service {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sink, Self::Source, Self::Echo, Self::Close];

    /// The port on which a program offers it.
    #[must_use]
    pub const fn port(self) -> u16 {
        self as u16
    }
}

/// Ends this process when its standard input ends, as it does when the parent process ends.
pub fn end_with_input() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}
