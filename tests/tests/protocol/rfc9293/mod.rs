//! RFC 9293's requirements, as far as a connection shows them: the test is the peer, in virtual time.
//!
//! Each test names the rows of `docs/rfc9293.md` that it proves.

mod closing;
mod header;
mod ip;
mod keepalive;
mod opening;
mod received;
mod receiving;
mod retransmission;
mod sending;
mod urgent;
mod window;

use ackclock_core::TcpConfig;
use ackclock_tests::script::Setup;

/// A connection whose endpoint sends small segments at once.
fn nodelay() -> Setup {
    Setup { tcp: TcpConfig { nodelay: true, ..TcpConfig::default() }, ..Setup::default() }
}
