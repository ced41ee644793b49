//! The choices of a profile, changed while the connection is open.

use std::sync::Arc;

use ackclock_control::congestion::{ControllerFactory, Start};
use ackclock_control::profile::{AckPolicy, Recovery, UndoChoice};
use ackclock_control::rtt::RtoConfig;

use super::Connection;
use crate::{Instant, OptionError};

impl Connection {
    /// Replaces the congestion controller; the new one starts from the present window.
    pub fn set_congestion(&mut self, now: Instant, factory: Arc<dyn ControllerFactory>) {
        let initial_window = self.congestion.cwnd();
        self.congestion = factory.create(&Start { smss: self.smss(), initial_window, now });
        self.own_tcp().congestion = factory;
    }

    /// Chooses how losses are found and repaired from here on, as far as the peer's options allow.
    pub fn set_recovery(&mut self, recovery: Recovery) {
        self.own_tcp().recovery = recovery;
    }

    /// Replaces the estimator of the retransmission timeout. What was measured stays, as does the backoff.
    ///
    /// # Errors
    /// No estimator can have these parameters.
    pub fn set_rto(&mut self, now: Instant, rto: RtoConfig) -> Result<(), OptionError> {
        rto.check()?;
        self.rtt.set_config(&rto);
        self.own_tcp().rto = rto;
        self.restart_send_timer(now);
        Ok(())
    }

    /// Chooses which proofs take a wrong reduction back.
    pub fn set_undo(&mut self, undo: UndoChoice) {
        self.own_tcp().undo = undo;
    }

    /// Chooses when received data is acknowledged.
    ///
    /// # Errors
    /// A delay of more than 500 ms (RFC 9293 MUST-40), or a share outside 1 to 100 %.
    pub fn set_acks(&mut self, acks: AckPolicy) -> Result<(), OptionError> {
        acks.check()?;
        self.own_tcp().acks = acks;
        Ok(())
    }
}
