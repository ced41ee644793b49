//! The user timeout as an option (RFC 5482): sent to the peer, and received from it.
//!
//! Off unless `TcpConfig::user_timeout_option` turns it on (the RFC's ENABLED). The RFC's names: ADV_UTO is
//! the value that this end sends, REMOTE_UTO the peer's, L_LIMIT and U_LIMIT are the user's bounds,
//! CHANGEABLE says whether the peer's counts. The option goes on SYN and SYN-ACK, on an immediate
//! acknowledgement after the handshake (a SYN cookie keeps no option), and on another one whenever the
//! application sets the timeout. It is advisory and is not retransmitted when lost. The third SYN goes
//! without, in case a middlebox drops unknown options.

use std::time::Duration;

use ackclock_wire::UserTimeout;

use super::R2_DATA;
use crate::TcpConfig;

/// Both ends' values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UserTimeouts {
    /// ADV_UTO, if it differs from the value in force.
    pub told: Option<Duration>,
    /// REMOTE_UTO.
    pub heard: Option<Duration>,
}

/// The option of a connection with these settings whose application requested `own`.
pub(crate) fn told_user_timeout(tcp: &TcpConfig, own: Option<Duration>) -> Option<UserTimeout> {
    tcp.user_timeout_option.as_ref().map(|_| UserTimeout::at_least(own.unwrap_or(R2_DATA)))
}

ackclock_form::form! {
    struct UserTimeouts { told, heard }
}
