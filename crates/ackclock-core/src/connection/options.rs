//! Options that the application sets on a connection.

use std::sync::Arc;
use std::time::Duration;

use super::{Connection, State};
use crate::{Instant, Keepalive, OptionError, TcpConfig, WriteError};

impl Connection {
    /// Whether Nagle's algorithm is off.
    #[must_use]
    pub fn nodelay(&self) -> bool {
        self.tcp.nodelay
    }

    /// Switches Nagle's algorithm off (`true`) or on. RFC 9293 MUST-17: per connection.
    pub fn set_nodelay(&mut self, now: Instant, nodelay: bool) {
        self.own_tcp().nodelay = nodelay;
        self.update_send_timer(now);
    }

    /// Whether everything that arrives is acknowledged at once.
    #[must_use]
    pub fn quickack(&self) -> bool {
        self.rcv.is_quick()
    }

    /// Acknowledges everything that arrives at once, including what already waits; or follows the policy.
    pub fn set_quickack(&mut self, quickack: bool) {
        self.rcv.set_quick(quickack);
    }

    /// Holds partial segments back until uncorked, or for 200 ms each (RFC 9293 MUST-60: never indefinitely).
    pub fn set_cork(&mut self, now: Instant, cork: bool) {
        if cork != self.cork.is_in() {
            self.cork.set(cork);
            self.time_cork(now);
        }
    }

    /// Announces that the writer is about to write more. While it is, and one of the device's largest packets
    /// is in flight, the next leaves whole or not at all. If the device cuts nothing it has no effect. It
    /// lasts until the caller takes it back.
    pub fn set_more_follows(&mut self, more: bool) {
        self.pending.more_follows = more;
    }

    /// Starts the 200 ms of data held by a cork, unless they are running already.
    pub(super) fn time_cork(&mut self, now: Instant) {
        if self.unsent() > 0 {
            self.cork.hold(now);
        }
    }

    /// Keep-alive settings; `None`: off.
    #[must_use]
    pub fn keepalive(&self) -> Option<Keepalive> {
        self.tcp.keepalive
    }

    /// Switches keep-alive probes on or off. RFC 9293 MUST-24, RFC 9293 MUST-27: per connection, with its
    /// interval.
    ///
    /// # Errors
    /// An interval of zero, or no probe at all.
    pub fn set_keepalive(&mut self, now: Instant, keepalive: Option<Keepalive>) -> Result<(), OptionError> {
        if let Some(Keepalive { idle, interval, probes }) = keepalive
            && (idle.is_zero() || interval.is_zero() || probes == 0)
        {
            let range = "an idle time and an interval above zero and at least one probe";
            return Err(OptionError::OutOfRange { option: "keepalive", range });
        }
        self.own_tcp().keepalive = keepalive;
        self.silence.restart();
        self.arm_keepalive(now);
        Ok(())
    }

    /// RFC 5482's user timeout; `None`: R2 decides.
    #[must_use]
    pub fn user_timeout(&self) -> Option<Duration> {
        self.tcp.user_timeout
    }

    /// Sets the user timeout. RFC 9293 MUST-21: R2 of one connection; `Duration::MAX` stands for never.
    ///
    /// # Errors
    /// A timeout of zero.
    pub fn set_user_timeout(&mut self, now: Instant, timeout: Option<Duration>) -> Result<(), OptionError> {
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(OptionError::OutOfRange { option: "user timeout", range: "a duration above zero" });
        }
        self.own_tcp().user_timeout = timeout;
        self.fix_user_timeout(timeout);
        self.restart_send_timer(now);
        Ok(())
    }

    /// Time to live, or hop limit.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.tcp.ttl
    }

    /// Sets time to live, or hop limit (RFC 9293 MUST-49): 1 to 255.
    ///
    /// # Errors
    /// Zero.
    pub fn set_ttl(&mut self, ttl: u8) -> Result<(), OptionError> {
        if ttl == 0 {
            return Err(OptionError::OutOfRange { option: "ttl", range: "1 to 255" });
        }
        self.own_tcp().ttl = ttl;
        self.template.set_ttl(ttl);
        Ok(())
    }

    /// Differentiated services code point.
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.tcp.dscp
    }

    /// Sets the differentiated services code point (RFC 9293 MUST-48, RFC 9293 SHLD-21: also while the
    /// connection is open): 0 to
    /// 63. It goes to IP unchanged (RFC 9293 SHLD-22). Applications generally should not change it in
    ///     midstream (RFC 9293 SHLD-23).
    ///
    /// # Errors
    /// More than 63.
    pub fn set_dscp(&mut self, dscp: u8) -> Result<(), OptionError> {
        if dscp > 63 {
            return Err(OptionError::OutOfRange { option: "dscp", range: "0 to 63" });
        }
        self.own_tcp().dscp = dscp;
        self.template.set_traffic_class(dscp << 2);
        Ok(())
    }

    /// Largest send and receive buffers in bytes.
    #[must_use]
    pub fn buffer_max(&self) -> (usize, usize) {
        (self.snd.buffer_max, self.rcv.limit_max())
    }

    /// Sets the largest send buffer in bytes. Data already in it stays.
    pub fn set_send_buffer_max(&mut self, bytes: usize) {
        self.snd.buffer_max = bytes.max(1);
    }

    /// Sets the largest receive buffer in bytes. A window already offered is not reduced.
    pub fn set_receive_buffer_max(&mut self, bytes: usize) {
        self.own_tcp().receive_buffer_max = bytes.max(1);
        if self.established {
            self.rcv.set_limit_max(bytes);
        }
    }

    /// The bound on the sending rate, in bytes a second; `None` without one.
    #[must_use]
    pub fn max_pacing_rate(&self) -> Option<u64> {
        self.tcp.pacing_rate_max
    }

    /// Bounds the sending rate, in bytes of payload a second, at least 1 (as Linux's `SO_MAX_PACING_RATE`),
    /// whether or not the connection paces otherwise. `None` removes the bound.
    ///
    /// # Errors
    /// A rate of zero.
    pub fn set_max_pacing_rate(&mut self, now: Instant, rate: Option<u64>) -> Result<(), OptionError> {
        if rate == Some(0) {
            return Err(OptionError::OutOfRange {
                option: "max pacing rate",
                range: "at least 1 byte a second",
            });
        }
        self.own_tcp().pacing_rate_max = rate;
        self.flight.restart_pacing(now);
        Ok(())
    }

    /// Bytes until the end of the peer's urgent data (RFC 9293 MUST-33); 0 if none is known to remain.
    #[must_use]
    pub fn urgent_remaining(&self) -> u32 {
        u32::try_from(self.rcv.urgent_remaining()).unwrap_or(u32::MAX)
    }

    /// Writes `data`, whose last byte ends urgent data. RFC 9293 SHLD-13: new applications should not.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_urgent(&mut self, now: Instant, data: &[u8]) -> Result<usize, WriteError> {
        let written = self.write(now, data)?;
        self.snd.up = Some(self.snd.data_end());
        Ok(written)
    }

    /// The settings, now separate from those of other connections.
    pub(super) fn own_tcp(&mut self) -> &mut TcpConfig {
        Arc::make_mut(&mut self.tcp)
    }

    /// Whether keep-alive probes make sense in this state.
    pub(super) fn keeps_alive(&self) -> bool {
        self.state.is_synchronized() && self.state != State::TimeWait
    }
}
