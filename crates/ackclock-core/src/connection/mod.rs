//! One TCP connection, sans-IO.

use std::time::Duration;

use ackclock_control::congestion::ControllerFactory;

use crate::{
    ConnectionError, ConnectionInfo, FourTuple, IcmpError, Instant, Keepalive, OptionError, ReadError,
    WriteError,
};

/// The states of RFC 9293 §3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No connection.
    Closed,
    /// Waiting for a SYN.
    Listen,
    /// SYN sent, none received.
    SynSent,
    /// SYN received, ours not acknowledged.
    SynReceived,
    /// Open in both directions.
    Established,
    /// FIN sent, not acknowledged.
    FinWait1,
    /// FIN acknowledged, the peer's direction open.
    FinWait2,
    /// The peer's FIN received, our direction open.
    CloseWait,
    /// Both FINs sent, ours not acknowledged.
    Closing,
    /// The peer's FIN received, then ours sent, not acknowledged.
    LastAck,
    /// Both FINs acknowledged, waiting for old segments to die.
    TimeWait,
}

/// One TCP connection.
#[derive(Debug)]
pub struct Connection {}

#[expect(unused_variables, reason = "signatures first")]
impl Connection {
    /// The two sockets.
    pub fn tuple(&self) -> FourTuple {
        unimplemented!()
    }
    /// The state of RFC 9293 §3.3.2.
    pub fn state(&self) -> State {
        unimplemented!()
    }
    /// Whether the handshake was completed at some time.
    pub fn is_established(&self) -> bool {
        unimplemented!()
    }
    /// How the connection ended, if it ended in error. Stays set.
    pub fn error(&self) -> Option<ConnectionError> {
        unimplemented!()
    }
    /// The error, given once (what `take_error` of a socket does); soft errors included only by `take_soft_error`.
    pub fn take_error(&mut self) -> Option<ConnectionError> {
        unimplemented!()
    }
    /// The last soft error that ICMP reported (RFC 9293 MUST-47), given once.
    pub fn take_soft_error(&mut self) -> Option<IcmpError> {
        unimplemented!()
    }
    /// Copies from `data` into the send buffer as much as there is room for.
    pub fn write(&mut self, now: Instant, data: &[u8]) -> Result<usize, WriteError> {
        unimplemented!()
    }
    /// Bytes that `write` would take now.
    pub fn write_room(&self) -> usize {
        unimplemented!()
    }
    /// Copies received bytes into `into`; `Ok(0)` for a non-empty `into` is the end of the stream.
    pub fn read(&mut self, now: Instant, into: &mut [u8]) -> Result<usize, ReadError> {
        unimplemented!()
    }
    /// Like `read`, leaving the bytes in the buffer.
    pub fn peek(&self, into: &mut [u8]) -> Result<usize, ReadError> {
        unimplemented!()
    }
    /// The bytes that wait to be read, where they lie; `consume` takes them out.
    pub fn read_slices(&self) -> (&[u8], &[u8]) {
        unimplemented!()
    }
    /// Takes `len` bytes out of the receive buffer (no more than `read_slices` shows).
    pub fn consume(&mut self, now: Instant, len: usize) {
        unimplemented!()
    }
    /// Whether `read` would not be `WouldBlock`.
    pub fn is_readable(&self) -> bool {
        unimplemented!()
    }
    /// Whether `write` would not be `WouldBlock`.
    pub fn is_writable(&self) -> bool {
        unimplemented!()
    }
    /// Whether the peer's FIN has been received and all before it read.
    pub fn is_read_closed(&self) -> bool {
        unimplemented!()
    }
    /// Whether this end's sending side is shut down.
    pub fn is_write_closed(&self) -> bool {
        unimplemented!()
    }
    /// Whether all bytes written, and the FIN if `shutdown` was called, have been acknowledged.
    pub fn is_flushed(&self) -> bool {
        unimplemented!()
    }
    /// Closes the sending side after the data in the send buffer (RFC 9293 §3.10.4 CLOSE). Reading goes on.
    pub fn shutdown(&mut self, now: Instant) -> Result<(), WriteError> {
        unimplemented!()
    }
    /// Resets the connection (RFC 9293 §3.10.5 ABORT).
    pub fn abort(&mut self, now: Instant) {
        unimplemented!()
    }
    /// What is known of the connection.
    pub fn info(&self, now: Instant) -> ConnectionInfo {
        unimplemented!()
    }
    /// Whether Nagle's algorithm is off.
    pub fn nodelay(&self) -> bool {
        unimplemented!()
    }
    /// Switches Nagle's algorithm off (`true`) or on.
    pub fn set_nodelay(&mut self, now: Instant, nodelay: bool) {
        unimplemented!()
    }
    /// Holds partial segments back until uncorked, or for 200 ms.
    pub fn set_cork(&mut self, now: Instant, cork: bool) {
        unimplemented!()
    }
    /// Keep-alive settings.
    pub fn keepalive(&self) -> Option<Keepalive> {
        unimplemented!()
    }
    /// Switches keep-alive probes on or off.
    pub fn set_keepalive(&mut self, now: Instant, keepalive: Option<Keepalive>) -> Result<(), OptionError> {
        unimplemented!()
    }
    /// RFC 5482's user timeout.
    pub fn user_timeout(&self) -> Option<Duration> {
        unimplemented!()
    }
    /// Sets the user timeout; `None`: R2 decides.
    pub fn set_user_timeout(&mut self, now: Instant, timeout: Option<Duration>) -> Result<(), OptionError> {
        unimplemented!()
    }
    /// Time to live, or hop limit.
    pub fn ttl(&self) -> u8 {
        unimplemented!()
    }
    /// Sets time to live, or hop limit: 1 to 255.
    pub fn set_ttl(&mut self, ttl: u8) -> Result<(), OptionError> {
        unimplemented!()
    }
    /// Differentiated services code point, 0 to 63.
    pub fn dscp(&self) -> u8 {
        unimplemented!()
    }
    /// Sets the differentiated services code point.
    pub fn set_dscp(&mut self, dscp: u8) -> Result<(), OptionError> {
        unimplemented!()
    }
    /// Largest send and receive buffers in bytes.
    pub fn buffer_max(&self) -> (usize, usize) {
        unimplemented!()
    }
    /// Sets the largest send buffer in bytes.
    pub fn set_send_buffer_max(&mut self, bytes: usize) {
        unimplemented!()
    }
    /// Sets the largest receive buffer in bytes. A window already offered is not taken back.
    pub fn set_receive_buffer_max(&mut self, bytes: usize) {
        unimplemented!()
    }
    /// Replaces the congestion controller; the new one starts from the present window.
    pub fn set_congestion(&mut self, now: Instant, factory: &dyn ControllerFactory) {
        unimplemented!()
    }
    /// Bytes of urgent data that remain to be read (RFC 9293 MUST-33); 0: none.
    pub fn urgent_remaining(&self) -> u32 {
        unimplemented!()
    }
    /// Writes `data`, the last byte of which ends urgent data. New applications should not (RFC 9293 SHLD-13).
    pub fn write_urgent(&mut self, now: Instant, data: &[u8]) -> Result<usize, WriteError> {
        unimplemented!()
    }
}
