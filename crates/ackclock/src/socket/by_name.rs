//! The choices of a profile, before the connection exists: by name or by value.

use std::error::Error;
use std::io;

use ackclock_core::choice_doc;
use ackclock_core::profile::{AckPolicy, Ecn, Profile, Recovery, UndoChoice};
use ackclock_core::rtt::RtoConfig;
use ackclock_core::trace::TraceConfig;

use super::TcpSocket;
use crate::choices::{self, IntoController, choice};

/// How the connection sends and acknowledges. `tcpcat profiles` lists the names. The error for an unknown
/// name is of kind [`io::ErrorKind::InvalidInput`] and lists the valid ones.
impl TcpSocket {
    /// Sets everything that a profile chooses, by name (`"vegas-1995"`) or by value. Call it before setting
    /// single choices, which it overrides.
    ///
    /// ```
    /// # use ackclock::Stack;
    /// # use ackclock_device::memory;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (left, right) = memory::pair(memory::Config::default());
    /// # let stack = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
    /// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
    /// # let _listener = server.listen("10.0.0.2:80".parse()?)?;
    /// let socket = stack.socket();
    /// socket.set_profile("vegas-1995")?;
    /// socket.set_rto("rfc6298,min=1s")?;
    /// let stream = socket.connect("10.0.0.2:80".parse()?).await?;
    /// assert_eq!((stream.info()?.profile, stream.info()?.congestion), ("vegas-1995", "vegas"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No profile has the name, no controller has the name in the profile, or the controller is for simulated
    /// networks only ([`SimulatedOnly`](crate::SimulatedOnly)).
    pub fn set_profile<P>(&self, profile: P) -> io::Result<()>
    where
        P: TryInto<Profile>,
        P::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.choices().apply(profile, &mut self.settings().tcp)
    }

    /// Chooses the congestion controller, by value or by the name of one that is built in or registered with
    /// the stack.
    ///
    /// # Errors
    /// No controller has the name, or it is for simulated networks only.
    pub fn set_congestion_control(&self, controller: impl IntoController) -> io::Result<()> {
        let factory = self.choices().controller(controller)?;
        self.settings().tcp.congestion = factory;
        Ok(())
    }

    /// Makes a choice by its key, as in `choose("idle", "keep")`: the keys are the flags of tcpcat, and
    /// [`CHOICES`](crate::profile::CHOICES) has them. Some have a method of their own below, which also takes
    /// a value.
    ///
    /// # Errors
    /// No choice has the key, or it does not take the value; the error lists what is valid.
    pub fn choose(&self, key: &str, value: &str) -> io::Result<()> {
        choices::choose(&mut self.settings().tcp, key, value)
    }

    #[doc = choice_doc!("recovery")]
    ///
    /// # Errors
    /// No policy has the name.
    pub fn set_recovery<R>(&self, recovery: R) -> io::Result<()>
    where
        R: TryInto<Recovery>,
        R::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.settings().tcp.choices.recovery = choice(recovery)?;
        Ok(())
    }

    #[doc = choice_doc!("rto")]
    /// Takes words, for which see [`RtoConfig::find`], or parameters.
    ///
    /// # Errors
    /// No preset has the name, or no estimator can have the parameters.
    pub fn set_rto<R>(&self, rto: R) -> io::Result<()>
    where
        R: TryInto<RtoConfig>,
        R::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        choices::rto(&mut self.settings().tcp, rto)
    }

    #[doc = choice_doc!("undo")]
    /// For the words see [`UndoChoice::find`].
    ///
    /// # Errors
    /// No proof has the name.
    pub fn set_undo<U>(&self, undo: U) -> io::Result<()>
    where
        U: TryInto<UndoChoice>,
        U::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.settings().tcp.choices.undo = choice(undo)?;
        Ok(())
    }

    #[doc = choice_doc!("acks")]
    /// For the words see [`AckPolicy::find`].
    ///
    /// # Errors
    /// No policy has the name.
    pub fn set_acks<A>(&self, acks: A) -> io::Result<()>
    where
        A: TryInto<AckPolicy>,
        A::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        choices::acks(&mut self.settings().tcp, acks)
    }

    #[doc = choice_doc!("start-up")]
    /// For the words see [`SenderEstimatorKind::find`](crate::bandwidth::SenderEstimatorKind::find).
    ///
    /// # Errors
    /// No estimator has the name.
    pub fn set_start_up(&self, estimator: &str) -> io::Result<()> {
        self.choose("start-up", estimator)
    }

    #[doc = choice_doc!("receiver-bandwidth")]
    /// The paper takes 50. [`ConnectionInfo::bandwidth`](crate::ConnectionInfo::bandwidth) has the estimate.
    /// `None` turns it off.
    ///
    /// # Errors
    /// None.
    pub fn set_receiver_bandwidth(&self, samples_max: Option<usize>) -> io::Result<()> {
        self.settings().tcp.choices.receiver_bandwidth = samples_max;
        Ok(())
    }

    #[doc = choice_doc!("pacing")]
    ///
    /// # Errors
    /// None.
    pub fn set_pacing(&self, pacing: bool) -> io::Result<()> {
        self.settings().tcp.choices.pacing = pacing;
        Ok(())
    }

    #[doc = choice_doc!("ecn")]
    ///
    /// # Errors
    /// No form has the name.
    pub fn set_ecn<E>(&self, ecn: E) -> io::Result<()>
    where
        E: TryInto<Ecn>,
        E::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.settings().tcp.choices.ecn = choice(ecn)?;
        Ok(())
    }

    /// Traces the connection from its start, or does not: see
    /// [`Stack::next_trace`](crate::Stack::next_trace).
    ///
    /// # Errors
    /// None.
    pub fn set_trace(&self, trace: Option<TraceConfig>) -> io::Result<()> {
        self.settings().tcp.trace = trace;
        Ok(())
    }
}
