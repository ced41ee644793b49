//! A stream's options and statistics, and the choices of a profile that can change while the connection is
//! open.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ackclock_core::profile::{AckPolicy, Recovery, UndoChoice};
use ackclock_core::rtt::RtoConfig;
use ackclock_core::trace::{Record, TraceConfig};
use ackclock_core::{ConnectionInfo, Keepalive};

use super::{Notice, TcpStream};
use crate::choices::{IntoController, choice};
use crate::error;
use crate::state::Queue;

impl TcpStream {
    /// Whether Nagle's algorithm is off.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.look(|connection| connection.nodelay())
    }

    /// Switches Nagle's algorithm off (`true`) or on (RFC 9293 §3.7.4).
    ///
    /// # Errors
    /// The stack is gone.
    // RFC 9293 MUST-17: an application can disable Nagle's algorithm on a connection.
    #[doc(alias = "TCP_NODELAY")]
    #[doc(alias = "set_nagle_enabled")]
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.update(|connection, now| connection.set_nodelay(now, nodelay))
    }

    /// Whether every segment is acknowledged at once.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn quickack(&self) -> io::Result<bool> {
        self.look(|connection| connection.quickack())
    }

    /// Acknowledges at once what has arrived and everything that arrives from here on (`true`), or as the
    /// [policy](Self::set_acks) says. Unlike Linux's `TCP_QUICKACK`, the setting stays.
    ///
    /// # Errors
    /// The stack is gone.
    #[doc(alias = "TCP_QUICKACK")]
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        self.update(|connection, _| connection.set_quickack(quickack))
    }

    /// Holds partial segments back (`true`), for 200 ms at most, so that small writes leave together; `false`
    /// releases them.
    ///
    /// # Errors
    /// The stack is gone.
    #[doc(alias = "TCP_CORK")]
    pub fn set_cork(&self, cork: bool) -> io::Result<()> {
        self.update(|connection, now| connection.set_cork(now, cork))
    }

    /// The linger time: how dropping the stream treats data still in flight.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.shared.call(|state, _| {
            state.check_alive()?;
            Ok(state.streams.get_mut(self.id).and_then(|slot| slot.linger()))
        })
    }

    /// Sets what dropping the stream does to data still in flight.
    ///
    /// `None` (the default): it is delivered in the background, however long that takes. `Some(0)`: the
    /// connection is reset at once. `Some(d)`: it is delivered in the background for at most `d`, then the
    /// connection is reset. Dropping never blocks.
    ///
    /// # Errors
    /// The stack is gone.
    #[doc(alias = "SO_LINGER")]
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.shared.call(|state, _| {
            state.check_alive()?;
            state.streams.get_or_insert(self.id, &mut state.woken).rare_mut().linger = linger;
            Ok(())
        })
    }

    /// Makes dropping the stream reset the connection: `set_linger(Some(Duration::ZERO))`.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// Time to live (IPv4) or hop limit (IPv6) of outgoing packets.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn ttl(&self) -> io::Result<u32> {
        self.look(|connection| u32::from(connection.ttl()))
    }

    /// Sets the time to live or hop limit, 1 to 255.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] outside that range; the stack is gone.
    // RFC 9293 MUST-49: the TTL value used to send TCP segments is configurable.
    #[doc(alias = "IP_TTL")]
    #[doc(alias = "set_hop_limit")]
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let ttl = u8::try_from(ttl).map_err(|_| error::out_of_range("ttl", "1 to 255"))?;
        self.update(|connection, _| connection.set_ttl(ttl))?.map_err(error::option)
    }

    /// Differentiated services code point of outgoing packets, 0 to 63.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn dscp(&self) -> io::Result<u8> {
        self.look(|connection| connection.dscp())
    }

    /// Sets the differentiated services code point, 0 to 63. Leave it alone once data flows: segments of
    /// different classes overtake each other.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] outside that range; the stack is gone.
    // RFC 9293 MUST-48: the application can specify the Diffserv field.
    // RFC 9293 SHLD-21: it can change it during the connection.
    // RFC 9293 SHLD-23: it should not do so often, since segments of different classes overtake each other.
    pub fn set_dscp(&self, dscp: u8) -> io::Result<()> {
        self.update(|connection, _| connection.set_dscp(dscp))?.map_err(error::option)
    }

    /// Keep-alive settings; `None`: an idle peer is never probed.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn keepalive(&self) -> io::Result<Option<Keepalive>> {
        self.look(|connection| connection.keepalive())
    }

    /// Switches keep-alive probes on or off (RFC 9293 §3.8.4).
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for times or counts out of range; the stack is gone.
    // RFC 9293 MUST-24: keep-alives can be switched for each connection.
    // RFC 9293 MUST-27: its interval is configurable.
    #[doc(alias = "SO_KEEPALIVE")]
    #[doc(alias = "set_keep_alive")]
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) -> io::Result<()> {
        self.update(|connection, now| connection.set_keepalive(now, keepalive))?.map_err(error::option)
    }

    /// How long sent data may stay unacknowledged before the connection is given up; `None`: R2 alone
    /// decides.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn user_timeout(&self) -> io::Result<Option<Duration>> {
        self.look(|connection| connection.user_timeout())
    }

    /// Sets the user timeout (RFC 5482).
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] out of range; the stack is gone.
    // RFC 9293 MUST-21: an application can set R2 for a connection.
    #[doc(alias = "TCP_USER_TIMEOUT")]
    #[doc(alias = "set_timeout")]
    pub fn set_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.update(|connection, now| connection.set_user_timeout(now, timeout))?.map_err(error::option)
    }

    /// How long the connection may carry no data in either direction; `None`: as long as both ends wish.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn idle_timeout(&self) -> io::Result<Option<Duration>> {
        self.look(|connection| connection.idle_timeout())
    }

    /// Sets the idle timeout, which counts from now on: once no data has moved in either direction for so
    /// long, the connection is reset, and calls fail with
    /// [`ConnectionError::IdleTimedOut`](crate::ConnectionError::IdleTimedOut) of kind
    /// [`TimedOut`](io::ErrorKind::TimedOut). Keep-alive probes, retransmissions and acknowledgements of
    /// nothing new are not data. [`ConnectionInfo::idle_left`] shows what is left.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for zero; the stack is gone.
    pub fn set_idle_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.update(|connection, now| connection.set_idle_timeout(now, timeout))?.map_err(error::option)
    }

    /// Sets the size of the send buffer in bytes; less than 4,608 is raised to that.
    ///
    /// # Errors
    /// The stack is gone.
    #[doc(alias = "SO_SNDBUF")]
    pub fn set_send_buffer_size(&self, bytes: usize) -> io::Result<()> {
        self.update(|connection, _| connection.set_send_buffer_max(bytes.max(error::SEND_BUFFER_LEAST)))
    }

    /// Sets the size of the receive buffer in bytes; less than 2,304 is raised to that. A window already
    /// offered is not taken back.
    ///
    /// # Errors
    /// The stack is gone.
    #[doc(alias = "SO_RCVBUF")]
    pub fn set_recv_buffer_size(&self, bytes: usize) -> io::Result<()> {
        self.update(|connection, _| connection.set_receive_buffer_max(bytes.max(error::RECEIVE_BUFFER_LEAST)))
    }

    /// The limit of the sending rate in bytes of payload a second; `None`: no limit.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn max_pacing_rate(&self) -> io::Result<Option<u64>> {
        self.look(|connection| connection.max_pacing_rate())
    }

    /// Limits the sending rate, in bytes of payload a second, at least 1 (as Linux's `SO_MAX_PACING_RATE`
    /// does); `None` removes the limit. Segments are spaced, in bursts of two or of a millisecond's worth.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a rate of zero; the stack is gone.
    #[doc(alias = "SO_MAX_PACING_RATE")]
    pub fn set_max_pacing_rate(&self, rate: Option<u64>) -> io::Result<()> {
        self.update(|connection, now| connection.set_max_pacing_rate(now, rate))?.map_err(error::option)
    }

    /// The state of the connection: what `ss -ti` shows, typed.
    ///
    /// # Errors
    /// The stack is gone.
    #[doc(alias = "TCP_INFO")]
    #[doc(alias = "stats")]
    pub fn info(&self) -> io::Result<ConnectionInfo> {
        let now = self.shared.now();
        self.shared.look(|state| state.connection(self.id).map(|connection| state.info(now, connection)))
    }

    /// Bytes still to be read up to the end of urgent data; 0: none is announced. Urgent data stays in the
    /// stream.
    ///
    /// # Errors
    /// The stack is gone.
    // RFC 9293 MUST-33: the application can learn how much urgent data remains.
    pub fn urgent_remaining(&self) -> io::Result<u32> {
        self.look(|connection| connection.urgent_remaining())
    }

    /// Writes `buf` without waiting, and marks its last byte as the end of urgent data. New applications
    /// should not use urgent data (RFC 6093).
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write).
    // RFC 9293 MUST-30: the urgent mechanism is supported.
    // RFC 9293 SHLD-13: for old applications only, as the documentation says.
    #[doc(alias = "MSG_OOB")]
    pub fn try_write_urgent(&self, buf: &[u8]) -> io::Result<usize> {
        self.shared
            .call(|state, now| {
                state.update(now, self.id, |connection, now| connection.write_urgent(now, buf))
            })?
            .map_err(error::write)
    }

    /// Waits for an event apart from the data: urgent data, an ICMP error that does not end the connection, a
    /// peer that does not answer. An application that does not call this sees none of them (RFC 9293
    /// SHLD-20).
    ///
    /// # Cancel safety
    /// Cancel-safe: a notice is taken only when it is returned.
    ///
    /// # Errors
    /// The connection ended in an error.
    // RFC 9293 SHLD-20: an application that does not want these reports does not call this.
    pub async fn notice(&self) -> io::Result<Notice> {
        let id = self.id;
        self.shared.wait(Queue::Notice(id), |state, now| state.poll_notice(now, id)).await
    }
}

/// How it sends and acknowledges. Names are those that `tcpcat profiles` lists. An unknown name is an error
/// of kind [`io::ErrorKind::InvalidInput`], which lists the known ones.
impl TcpStream {
    /// Replaces the congestion controller, by the name of a built-in or registered one, or by value. The new
    /// controller starts from the present window and slow-start threshold.
    ///
    /// # Errors
    /// No controller has the name, or the controller is for simulated networks only
    /// ([`SimulatedOnly`](crate::SimulatedOnly)); the stack is gone.
    #[doc(alias = "TCP_CONGESTION")]
    pub fn set_congestion_control(&self, controller: impl IntoController) -> io::Result<()> {
        let choices = self.shared.look(|state| state.choices());
        let factory = choices.controller(controller)?;
        // If the call fails under the lock, the program's factory ends outside it.
        let _kept = Arc::clone(&factory);
        self.update(|connection, now| connection.set_congestion(now, factory))
    }

    /// Chooses how losses are detected and repaired from now on (`recovery`), as far as the peer's options
    /// allow.
    ///
    /// # Errors
    /// No policy has the name; the stack is gone.
    pub fn set_recovery<R>(&self, recovery: R) -> io::Result<()>
    where
        R: TryInto<Recovery>,
        R::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let recovery = choice(recovery)?;
        self.update(|connection, now| connection.set_recovery(now, recovery))
    }

    /// Chooses the estimator of the retransmission timeout (`rto`): a preset by name, with changes to it
    /// (`"rfc6298,min=1s,g=500ms"`, see [`RtoConfig::find`]), or parameters. Measurements so far are kept.
    ///
    /// # Errors
    /// No preset has the name, or the parameters are out of range; the stack is gone.
    pub fn set_rto<R>(&self, rto: R) -> io::Result<()>
    where
        R: TryInto<RtoConfig>,
        R::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let rto: RtoConfig = choice(rto)?;
        self.update(|connection, now| connection.set_rto(now, rto))?.map_err(error::option)
    }

    /// Chooses which proofs undo a wrong reduction (`undo`: `"timestamps,dsack"`, `"off"`, see
    /// [`UndoChoice::find`]).
    ///
    /// # Errors
    /// No proof has the name; the stack is gone.
    pub fn set_undo<U>(&self, undo: U) -> io::Result<()>
    where
        U: TryInto<UndoChoice>,
        U::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let undo = choice(undo)?;
        self.update(|connection, _| connection.set_undo(undo))
    }

    /// Chooses when received data is acknowledged (`acks`: `"every-second:100ms"`, see [`AckPolicy::find`]).
    ///
    /// # Errors
    /// No policy has the name; the stack is gone.
    pub fn set_acks<A>(&self, acks: A) -> io::Result<()>
    where
        A: TryInto<AckPolicy>,
        A::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let acks = choice(acks)?;
        self.update(|connection, _| connection.set_acks(acks))?.map_err(error::option)
    }

    /// Starts or stops tracing the connection: see [`Stack::next_trace`](crate::Stack::next_trace). Records
    /// that were not handed over are lost; call [`request_trace`](Self::request_trace) first to keep them.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn set_trace(&self, trace: Option<TraceConfig>) -> io::Result<()> {
        self.update(|connection, now| connection.set_trace(now, trace))
    }

    /// The records of the connection that were not handed over yet, oldest first. They stay there.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn trace(&self) -> io::Result<Vec<Record>> {
        self.shared.look(|state| Ok(state.connection(self.id)?.trace().collect()))
    }

    /// Hands the records over to [`Stack::next_trace`](crate::Stack::next_trace) now.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn request_trace(&self) -> io::Result<()> {
        self.shared.call(|state, now| state.update(now, self.id, |connection, _| connection.request_trace()))
    }
}

/// Keys of the TCP Authentication Option (RFC 5925).
#[cfg(feature = "tcp-ao")]
impl TcpStream {
    /// Asks the peer to sign with the key of this KeyID from now on (`receive_id` of one of the keys that it
    /// shares with this stack). Returns whether such a key exists. The next segment sent carries the request.
    pub fn request_key(&self, receive_id: u8) -> bool {
        self.shared.call(|state, _| state.endpoint.request_key(self.id, receive_id))
    }

    /// The KeyID that this stream signs with at present, and the one that it asks the peer to sign with;
    /// `None` without keys.
    #[must_use]
    pub fn key_ids(&self) -> Option<(u8, u8)> {
        self.shared.look(|state| state.endpoint.key_ids(self.id))
    }
}
