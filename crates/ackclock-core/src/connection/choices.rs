//! The choices of a profile, changed while the connection is open.

use std::sync::Arc;

use ackclock_control::congestion::{ControllerFactory, Start};
use ackclock_control::profile::{AckPolicy, Recovery, UndoChoice};
use ackclock_control::rtt::RtoConfig;

use super::Connection;
use crate::trace::WindowCause;
use crate::{Instant, OptionError};

impl Connection {
    /// Replaces the congestion controller; the new one starts from the present window.
    pub fn set_congestion(&mut self, now: Instant, factory: Arc<dyn ControllerFactory>) {
        let initial_window = self.congestion.cwnd();
        self.congestion = factory.create(&Start { smss: self.smss(), initial_window, now });
        self.own_tcp().congestion = factory;
        self.trace_window(now, WindowCause::Start);
    }

    /// How losses are to be found and repaired; [`info`](Self::info) names the policy in force, which is another where
    /// the peer sends no SACKs.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.tcp.recovery
    }

    /// Chooses another policy of loss recovery, at any time. An episode under way ends by the new policy's rule.
    pub fn set_recovery(&mut self, now: Instant, policy: Recovery) {
        let heeded_sack = self.heeds_sack();
        self.own_tcp().recovery = policy;
        self.on_policy_change(now, heeded_sack);
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
