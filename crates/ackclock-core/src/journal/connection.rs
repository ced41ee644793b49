//! [`RecordedConnection`]: a connection within an update, whose calls are written down too.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Journal;
use super::calls::ConnectionCall;
use super::outcome::Outcome;
use crate::congestion::ControllerFactory;
use crate::profile::{AckPolicy, Recovery, UndoChoice};
use crate::rtt::RtoConfig;
use crate::trace::TraceConfig;
use crate::{Connection, ConnectionError, IcmpError, Instant, Keepalive, OptionError, ReadError, WriteError};

/// A connection of a [`RecordedEndpoint`](super::RecordedEndpoint). What only looks at the connection is
/// called on it directly.
#[derive(Debug)]
pub struct RecordedConnection<'a> {
    connection: &'a mut Connection,
    journal: Option<&'a mut Journal>,
}

impl Deref for RecordedConnection<'_> {
    type Target = Connection;

    #[inline]
    fn deref(&self) -> &Connection {
        self.connection
    }
}

/// Calls that pass their arguments on, with the time first if there is a `now`.
macro_rules! pass {
    ($(
        $(#[$doc:meta])*
        $method:ident $([$now:ident])? ($($arg:ident: $type:ty),*) $(-> $result:ty)? = $call:expr;
    )*) => {
        impl RecordedConnection<'_> {
            $(
                #[doc = concat!("See [`Connection::", stringify!($method), "`].")]
                $(#[$doc])*
                #[inline]
                pub fn $method(&mut self $(, $now: Instant)? $(, $arg: $type)*) $(-> $result)? {
                    if let Some(journal) = &mut self.journal {
                        journal.connection_call(&$call);
                    }
                    let result = self.connection.$method($($now,)? $($arg),*);
                    if let Some(journal) = &mut self.journal {
                        journal.outcome(result.code());
                    }
                    result
                }
            )*
        }
    };
}

pass! {
    ///
    /// # Errors
    /// As there.
    write[now](data: &[u8]) -> Result<usize, WriteError> = ConnectionCall::Write { len: data.len() };
    ///
    /// # Errors
    /// As there.
    write_bytes[now](data: &Bytes) -> Result<usize, WriteError> =
        ConnectionCall::WriteBytes { len: data.len() };
    ///
    /// # Errors
    /// As there.
    write_urgent[now](data: &[u8]) -> Result<usize, WriteError> =
        ConnectionCall::WriteUrgent { len: data.len() };
    await_room[now]() = ConnectionCall::AwaitRoom;
    ///
    /// # Errors
    /// As there.
    read[now](into: &mut [u8]) -> Result<usize, ReadError> = ConnectionCall::Read { len: into.len() };
    ///
    /// # Errors
    /// As there.
    read_bytes[now](max: usize) -> Result<Bytes, ReadError> = ConnectionCall::ReadBytes { max };
    consume[now](len: usize) = ConnectionCall::Consume { len };
    ///
    /// # Errors
    /// As there.
    shutdown[now]() -> Result<(), WriteError> = ConnectionCall::Shutdown;
    abort[now]() = ConnectionCall::Abort;
    await_delivered(upto: u64) -> Option<(u64, Instant)> = ConnectionCall::AwaitDelivered { upto };
    await_feedback(seen: u64) -> Option<u64> = ConnectionCall::AwaitFeedback { seen };
    take_error() -> Option<ConnectionError> = ConnectionCall::TakeError;
    take_soft_error() -> Option<IcmpError> = ConnectionCall::TakeSoftError;
    set_trace[now](config: Option<TraceConfig>) = ConnectionCall::SetTrace { config };
    request_trace() = ConnectionCall::RequestTrace;
    set_nodelay[now](nodelay: bool) = ConnectionCall::SetNodelay { nodelay };
    set_quickack(quickack: bool) = ConnectionCall::SetQuickack { quickack };
    set_cork[now](cork: bool) = ConnectionCall::SetCork { cork };
    set_more_follows(more: bool) = ConnectionCall::SetMoreFollows { more };
    ///
    /// # Errors
    /// As there.
    set_keepalive[now](keepalive: Option<Keepalive>) -> Result<(), OptionError> =
        ConnectionCall::SetKeepalive { keepalive };
    ///
    /// # Errors
    /// As there.
    set_user_timeout[now](timeout: Option<Duration>) -> Result<(), OptionError> =
        ConnectionCall::SetUserTimeout { timeout };
    ///
    /// # Errors
    /// As there.
    set_ttl(ttl: u8) -> Result<(), OptionError> = ConnectionCall::SetTtl { ttl };
    ///
    /// # Errors
    /// As there.
    set_dscp(dscp: u8) -> Result<(), OptionError> = ConnectionCall::SetDscp { dscp };
    set_send_buffer_max(bytes: usize) = ConnectionCall::SetSendBufferMax { bytes };
    set_receive_buffer_max(bytes: usize) = ConnectionCall::SetReceiveBufferMax { bytes };
    ///
    /// # Errors
    /// As there.
    set_max_pacing_rate[now](rate: Option<u64>) -> Result<(), OptionError> =
        ConnectionCall::SetMaxPacingRate { rate };
    set_congestion[now](factory: Arc<dyn ControllerFactory>) =
        ConnectionCall::SetCongestion { factory: Arc::clone(&factory) };
    set_recovery[now](policy: Recovery) = ConnectionCall::SetRecovery { policy };
    ///
    /// # Errors
    /// As there.
    set_rto[now](rto: RtoConfig) -> Result<(), OptionError> = ConnectionCall::SetRto { rto };
    set_undo(undo: UndoChoice) = ConnectionCall::SetUndo { undo };
    ///
    /// # Errors
    /// As there.
    set_acks(acks: AckPolicy) -> Result<(), OptionError> = ConnectionCall::SetAcks { acks };
    set_not_sent_lowat(lowat: Option<u32>) = ConnectionCall::SetNotSentLowat { lowat };
}

impl<'a> RecordedConnection<'a> {
    #[inline]
    pub(super) fn new(connection: &'a mut Connection, journal: Option<&'a mut Journal>) -> Self {
        Self { connection, journal }
    }
}
