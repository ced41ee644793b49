//! The user timeout as an option (RFC 5482): told to the peer, and heard from it.
//!
//! Off unless `TcpConfig::user_timeout_option` asks for it (the RFC's ENABLED). The names of the RFC: ADV_UTO is what this
//! end tells, REMOTE_UTO what the peer told, L_LIMIT and U_LIMIT the bounds that the user sets, CHANGEABLE whether
//! the peer's counts. The option goes on SYN and SYN-ACK, on an acknowledgement at once after the handshake (a SYN cookie
//! keeps no option), and on another one whenever the application sets the timeout. It is advice and is not sent again when
//! it is lost. The third SYN goes without, in case a middlebox drops what it does not know.
//!
//! The text of RFC 5482 was read in excerpts only; the arithmetic and the option's form are the RFC's.

use std::time::Duration;

use ackclock_wire::UserTimeout;

use super::timers::R2_DATA;
use super::{Connection, Reply};
use crate::trace::{Entry, Extension};
use crate::{Instant, TcpConfig};

/// What both ends said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UserTimeouts {
    /// ADV_UTO, once what is in force is another.
    told: Option<Duration>,
    /// REMOTE_UTO.
    heard: Option<Duration>,
}

impl Connection {
    /// The user timeout that the peer told, if it did and this end listens.
    #[must_use]
    pub fn peer_user_timeout(&self) -> Option<Duration> {
        self.rcv.extras.as_ref()?.user_timeouts?.heard
    }

    /// The option as this end sends it; `None`: it does not.
    pub(super) fn told_user_timeout(&self) -> Option<UserTimeout> {
        told_user_timeout(&self.tcp, self.own_user_timeout())
    }

    /// ESTABLISHED is reached, or the timeout was set: the peer is told by the next acknowledgement, which leaves at once.
    #[inline]
    pub(super) fn tell_user_timeout(&mut self) {
        if self.tcp.user_timeout_option.is_some() && self.reply.is_none() {
            self.reply = Some(Reply::UserTimeout);
        }
    }

    /// The application set the timeout of an open connection: that stands, and the peer is told.
    pub(super) fn fix_user_timeout(&mut self, timeout: Option<Duration>) {
        if let Some(option) = &mut self.own_tcp().user_timeout_option {
            option.changeable = false;
            let timeouts = self.rcv.extras.get_or_insert_default().user_timeouts.get_or_insert_default();
            timeouts.told = timeout;
            if self.established {
                self.tell_user_timeout();
            }
        }
    }

    /// The peer told its user timeout, in a segment that is acceptable.
    #[cold]
    pub(super) fn hear_user_timeout(&mut self, now: Instant, option: Option<UserTimeout>) {
        let Some(bounds) = self.tcp.user_timeout_option.as_deref().copied() else { return };
        let Some(heard) = option.and_then(UserTimeout::duration) else { return };
        let told = self.own_user_timeout();
        let timeouts = UserTimeouts { told, heard: Some(heard) };
        self.rcv.extras.get_or_insert_default().user_timeouts = Some(timeouts);
        // USER_TIMEOUT = min(U_LIMIT, max(ADV_UTO, REMOTE_UTO, L_LIMIT))
        let adopted = told.unwrap_or(R2_DATA).max(heard).max(bounds.least).min(bounds.most);
        if bounds.changeable && self.tcp.user_timeout != Some(adopted) {
            self.own_tcp().user_timeout = Some(adopted);
            let value = u32::try_from(adopted.as_secs()).unwrap_or(u32::MAX);
            self.trace.note(now, Entry::Extension { what: Extension::UserTimeoutAdopted, value });
        }
    }

    /// What the application asked for, before the peer's word changed it.
    fn own_user_timeout(&self) -> Option<Duration> {
        match self.rcv.extras.as_ref().and_then(|extras| extras.user_timeouts) {
            Some(timeouts) => timeouts.told,
            None => self.tcp.user_timeout,
        }
    }
}

/// The option of a connection with these settings whose application asked for `own`.
pub(crate) fn told_user_timeout(tcp: &TcpConfig, own: Option<Duration>) -> Option<UserTimeout> {
    tcp.user_timeout_option.as_ref().map(|_| UserTimeout::at_least(own.unwrap_or(R2_DATA)))
}
