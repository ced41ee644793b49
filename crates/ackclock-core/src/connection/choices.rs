//! The choices of a profile, changed while the connection is open.

use std::sync::Arc;

use ackclock_control::congestion::ControllerFactory;
use ackclock_control::profile::{AckPolicy, Recovery, UndoChoice};
use ackclock_control::rtt::RtoConfig;

use super::{Connection, lend};
use crate::later::{self, Kept};
use crate::{Instant, OptionError};

impl Connection {
    /// Replaces the congestion controller; the new one starts from the present window and slow-start
    /// threshold.
    pub fn set_congestion(&mut self, now: Instant, factory: Arc<dyn ControllerFactory>) {
        let old = std::mem::replace(&mut self.own_tcp().congestion, factory);
        later::keep(|| Kept::Factory(old));
        self.flight.replace_controller(lend!(self, now));
    }

    /// The configured loss recovery. [`info`](Self::info) has the policy in force, which differs if the peer
    /// sends no SACKs.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.tcp.choices.recovery
    }

    /// Chooses another loss recovery policy, at any time. An episode under way ends by the new policy's rule.
    pub fn set_recovery(&mut self, now: Instant, policy: Recovery) {
        self.own_tcp().choices.recovery = policy;
        self.flight.set_recovery(lend!(self, now));
    }

    /// Replaces the estimator of the retransmission timeout. The measurements and the backoff stay.
    ///
    /// # Errors
    /// No estimator can have these parameters.
    pub fn set_rto(&mut self, now: Instant, rto: RtoConfig) -> Result<(), OptionError> {
        rto.check()?;
        self.flight.set_rto(&rto);
        self.own_tcp().choices.rto = rto;
        self.restart_send_timer(now);
        Ok(())
    }

    /// Chooses the proofs that take a wrong reduction back.
    pub fn set_undo(&mut self, undo: UndoChoice) {
        self.own_tcp().choices.undo = undo;
    }

    /// Chooses when received data is acknowledged.
    ///
    /// # Errors
    /// A delay of more than 500 ms (RFC 9293 MUST-40), or a share outside 1 to 100 %.
    pub fn set_acks(&mut self, acks: AckPolicy) -> Result<(), OptionError> {
        acks.check()?;
        self.own_tcp().choices.acks = acks;
        Ok(())
    }
}
