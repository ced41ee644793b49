//! The user timeout as an option (RFC 5482): sent to the peer, and received from it.
//!
//! Off unless `TcpConfig::user_timeout_option` turns it on (the RFC's ENABLED). The RFC's names: ADV_UTO is
//! the value that this end sends, REMOTE_UTO the peer's, L_LIMIT and U_LIMIT are the user's bounds,
//! CHANGEABLE says whether the peer's counts. The option goes on SYN and SYN-ACK, on an immediate
//! acknowledgement after the handshake (a SYN cookie keeps no option), and on another one whenever the
//! application sets the timeout. It is advisory and is not retransmitted when lost. The third SYN goes
//! without, in case a middlebox drops unknown options.
//!
//! The text of RFC 5482 was read in excerpts only; the arithmetic and the option's form are the RFC's.

use std::time::Duration;

use ackclock_wire::UserTimeout;

use super::timeouts::R2_DATA;
use super::{Connection, Reply};
use crate::trace::{Entry, Extension};
use crate::{Instant, TcpConfig};

/// Both ends' values.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UserTimeouts {
    /// ADV_UTO, if it differs from the value in force.
    told: Option<Duration>,
    /// REMOTE_UTO.
    heard: Option<Duration>,
}

impl Connection {
    /// The peer's user timeout, if it sent one and this end accepts it.
    #[must_use]
    pub fn peer_user_timeout(&self) -> Option<Duration> {
        self.cold.rest()?.user_timeouts?.heard
    }

    /// The option that this end sends; `None`: none.
    pub(super) fn told_user_timeout(&self) -> Option<UserTimeout> {
        told_user_timeout(&self.tcp, self.own_user_timeout())
    }

    /// ESTABLISHED is reached, or the timeout was set: the next acknowledgement, which leaves at once, has
    /// the option.
    #[inline]
    pub(super) fn tell_user_timeout(&mut self) {
        if self.tcp.user_timeout_option.is_some() && self.reply.is_none() {
            self.reply = Some(Reply::UserTimeout);
        }
    }

    /// The application set the timeout of an open connection. That value stands and is sent to the peer.
    pub(super) fn fix_user_timeout(&mut self, timeout: Option<Duration>) {
        if let Some(option) = &mut self.own_tcp().user_timeout_option {
            option.changeable = false;
            let timeouts = self.cold.need_rest().user_timeouts.get_or_insert_default();
            timeouts.told = timeout;
            if self.established {
                self.tell_user_timeout();
            }
        }
    }

    /// The peer sent its user timeout in an acceptable segment.
    #[cold]
    pub(super) fn hear_user_timeout(&mut self, now: Instant, option: Option<UserTimeout>) {
        let Some(bounds) = self.tcp.user_timeout_option.as_deref().copied() else { return };
        let Some(heard) = option.and_then(UserTimeout::duration) else { return };
        let told = self.own_user_timeout();
        let timeouts = UserTimeouts { told, heard: Some(heard) };
        self.cold.need_rest().user_timeouts = Some(timeouts);
        // USER_TIMEOUT = min(U_LIMIT, max(ADV_UTO, REMOTE_UTO, L_LIMIT))
        let adopted = told.unwrap_or(R2_DATA).max(heard).max(bounds.least).min(bounds.most);
        if bounds.changeable && self.tcp.user_timeout != Some(adopted) {
            self.own_tcp().user_timeout = Some(adopted);
            let value = u32::try_from(adopted.as_secs()).unwrap_or(u32::MAX);
            self.trace.note(now, Entry::Extension { what: Extension::UserTimeoutAdopted, value });
        }
    }

    /// The application's value, before the peer's changed it.
    fn own_user_timeout(&self) -> Option<Duration> {
        match self.cold.rest().and_then(|rest| rest.user_timeouts) {
            Some(timeouts) => timeouts.told,
            None => self.tcp.user_timeout,
        }
    }
}

/// The option of a connection with these settings whose application requested `own`.
pub(crate) fn told_user_timeout(tcp: &TcpConfig, own: Option<Duration>) -> Option<UserTimeout> {
    tcp.user_timeout_option.as_ref().map(|_| UserTimeout::at_least(own.unwrap_or(R2_DATA)))
}
