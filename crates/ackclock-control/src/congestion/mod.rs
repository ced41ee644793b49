//! Congestion controllers: how a window responds to acknowledgements, losses and timeouts.
//!
//! A [`Controller`] sees events and owns its window. It does not see sequence numbers. It counts round trips
//! by delivered bytes ([`Ack::delivered`] against [`Ack::prior_delivered`]). The recovery policy in
//! `ackclock-core` decides which segment is lost, what is retransmitted and when.
//!
//! Controllers are chosen by name from a [`Registry`]. A connection puts [`Validation`], [`StartUp`] and the
//! pacing of [`window_rate`] around any of them.
//!
//! # Writing a controller
//!
//! A controller only needs the trait; [`Window`] has the common arithmetic. This one halves its window on a
//! loss and grows by two segments a round trip:
//!
//! ```
//! use ackclock_control::congestion::{
//!     Ack, Controller, IdleRestart, LossEpisode, Registry, SlowStart, Start, Timeout, Undo, Window, factory,
//! };
//! use ackclock_control::kit;
//!
//! #[derive(Debug)]
//! struct Brisk(Window);
//!
//! impl Controller for Brisk {
//!     fn name(&self) -> &'static str {
//!         "brisk"
//!     }
//!     fn on_ack(&mut self, ack: &Ack) {
//!         if !Window::may_grow(ack) {
//!         } else if self.0.in_slow_start() {
//!             self.0.slow_start(ack.bytes_acked, SlowStart::Counted);
//!         } else {
//!             self.0.reno_step(2 * ack.bytes_acked.min(self.0.cwnd()));
//!         }
//!     }
//!     fn on_loss_episode(&mut self, loss: &LossEpisode) {
//!         self.0.reduce(self.0.half_of(loss.flight_size));
//!     }
//!     fn on_timeout(&mut self, timeout: &Timeout) {
//!         self.0.collapse(timeout, self.0.half_of(timeout.flight_size));
//!     }
//!     fn on_idle_restart(&mut self, idle: &IdleRestart) {
//!         self.0.restart(idle);
//!     }
//!     fn on_undo(&mut self, _: &Undo) {
//!         self.0.undo();
//!     }
//!     fn on_mss_change(&mut self, smss: u32) {
//!         self.0.set_smss(smss);
//!     }
//!     fn cwnd(&self) -> u64 {
//!         self.0.cwnd()
//!     }
//!     fn ssthresh(&self) -> u64 {
//!         self.0.ssthresh()
//!     }
//! }
//!
//! let brisk = factory("brisk", |start: &Start| Box::new(Brisk(Window::new(start))));
//! let report = kit::examine(brisk.as_ref());
//! assert!(report.passed(), "{report}");
//! Registry::builtin().register(brisk)?;
//! # Ok::<(), ackclock_control::congestion::NameTaken>(())
//! ```
//!
//! The table in the [crate's documentation](crate#congestion-controllers), made from each controller's
//! [`About`], lists the controllers, the queue that each keeps, and its departures from its source.

mod about;
mod bbr;
mod bfa;
mod card;
mod cubic;
mod dctcp;
mod dual;
mod event;
pub mod form;
mod htcp;
mod hystart;
mod idle;
mod illinois;
#[cfg(test)]
mod layer;
mod ledbat_plus_plus;
mod net2;
mod newreno;
mod pacing;
mod parameters;
mod registry;
mod reno;
mod round;
mod snapshot;
mod start_up;
mod tahoe;
#[cfg(test)]
mod testing;
mod tri_s;
mod uncontrolled;
#[cfg(test)]
mod undone;
mod vegas;
mod vegas_star;
mod window;

use std::fmt;

use ackclock_form::{FormError, Reader, Writer};

use self::form::registered_name;
pub use about::{About, Exception, Signal};
pub use bbr::{Bbr, BbrLoss, BbrV1, DraftRow, Standing};
pub use bfa::{Bfa, BfaConfig, BfaSampling, BfaThresholds};
pub use card::Card;
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use dual::Dual;
pub use event::{
    Ack, Ect, IdleRestart, LossCause, LossEpisode, Lost, RecoveryEnd, Sent, Start, Timeout, Undo,
};
pub use htcp::Htcp;
pub use hystart::HyStart;
pub use idle::{IdlePolicy, Validation};
pub use illinois::{Illinois, IllinoisThresholds};
pub use ledbat_plus_plus::LedbatPlusPlus;
pub use net2::Net2Reno;
pub use newreno::NewReno;
pub use pacing::window_rate;
pub use parameters::{Parameter, Settings, Values};
pub use registry::{
    ControllerFactory, NameTaken, Registry, UnknownController, configurable, default_factory, described,
    factory,
};
pub use reno::Reno;
pub use round::{RoundTimes, Rounds};
pub use snapshot::Snapshot;
pub use start_up::{StartUp, StartUpEstimate};
pub use tahoe::Tahoe;
pub use tri_s::TriS;
pub use uncontrolled::{AfterTimeout, Uncontrolled};
pub use vegas::{Thresholds, Vegas, VegasUsc};
pub use vegas_star::VegasStar;
pub use window::{Counting, SlowStart, Window};

/// A congestion controller: one per connection.
///
/// Byte counts are of payload. Every method must be deterministic in its arguments and must not panic,
/// whatever the sequence of events. A stack calls them under its lock, so they must not use the stack;
/// destructors may.
pub trait Controller: fmt::Debug + Send {
    /// The name under which the controller is registered, as `cubic`.
    fn name(&self) -> &'static str;

    /// New data was acknowledged, cumulatively or selectively. Called at most once for each arriving segment.
    fn on_ack(&mut self, ack: &Ack);

    /// A loss episode begins: the first loss found among segments sent after the last episode ended. Called
    /// once per episode, before any retransmission.
    fn on_loss_episode(&mut self, loss: &LossEpisode);

    /// More data was found to be lost. Called each time, before the episode that the loss may begin. Most
    /// controllers answer only episodes; those that answer the loss rate count here.
    fn on_lost(&mut self, lost: &Lost) {
        let _ = lost;
    }

    /// The retransmission timer expired. Called at every expiry, including those of a segment already
    /// retransmitted.
    fn on_timeout(&mut self, timeout: &Timeout);

    /// Data was sent, new or retransmitted.
    fn on_sent(&mut self, sent: &Sent) {
        let _ = sent;
    }

    /// All data outstanding when the episode began has been acknowledged.
    fn on_recovery_end(&mut self, end: &RecoveryEnd) {
        let _ = end;
    }

    /// Sending resumes after a pause of more than one retransmission timeout (RFC 5681 §4.1).
    fn on_idle_restart(&mut self, idle: &IdleRestart) {
        let _ = idle;
    }

    /// The last reduction was wrong: nothing had been lost. Restores the state before it.
    fn on_undo(&mut self, undo: &Undo) {
        let _ = undo;
    }

    /// The path's segment size changed (path-MTU discovery).
    fn on_mss_change(&mut self, smss: u32);

    /// An estimate of the path, or the controller before this one, says that slow start should end at this
    /// window. It only lowers the threshold; controllers without a threshold ignore it.
    fn limit_slow_start(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Whether a loss reduces the window itself, where use has validated it, instead of FlightSize
    /// (RFC 9438 §4.6). A connection that validates the window then passes it in
    /// [`LossEpisode::flight_size`].
    fn reduces_window(&self) -> bool {
        false
    }

    /// The congestion window in bytes; never below one segment.
    fn cwnd(&self) -> u64;

    /// The slow-start threshold in bytes; `u64::MAX` while it is unknown.
    fn ssthresh(&self) -> u64;

    /// The rate at which to space segments, in bytes a second; `None` to send as the window opens.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// The codepoint for its data on connections with ECN.
    fn ect(&self) -> Ect {
        Ect::Ect0
    }

    /// The controller's own numbers for traces and `info()`: at most [`Snapshot::MAX`] named values.
    fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    /// Writes the controller's state, for a connection that is frozen. `false`, and nothing is written, if it
    /// has none to write: the thawed connection gets a new controller with the same window and threshold.
    ///
    /// `ackclock_form::frozen!()` in the implementation supplies both methods for a controller that is a
    /// [`Form`](ackclock_form::Form).
    fn freeze(&self, out: &mut Writer) -> bool {
        let _ = out;
        false
    }

    /// Takes the state that [`Self::freeze`] wrote, into a controller that was just created.
    ///
    /// # Errors
    /// The bytes are not such a state, or the controller has no form.
    fn thaw(&mut self, input: &mut Reader<'_>) -> Result<(), FormError> {
        let _ = input;
        Err(FormError::Unsupported("the congestion controller has no form"))
    }
}
