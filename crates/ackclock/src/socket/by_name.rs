//! The choices of a profile, before the connection exists: by name or by value.

use std::error::Error;
use std::io;

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

    /// Chooses how losses are found and repaired (`recovery`).
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

    /// Chooses the estimator of the retransmission timeout (`rto`): a preset's name with its changes
    /// (`"rfc6298,min=1s,g=500ms"`, see [`RtoConfig::find`]), or parameters.
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

    /// Chooses which proofs undo a wrong reduction (`undo`: `"timestamps,dsack"`, `"off"`, see
    /// [`UndoChoice::find`]).
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

    /// Chooses when received data is acknowledged (`acks`: `"every-second:100ms"`, see [`AckPolicy::find`]).
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

    /// Chooses the bandwidth estimator that ends the first slow start (`start-up`: `"csa:3,0.1"`, see
    /// [`SenderEstimatorKind::find`](crate::bandwidth::SenderEstimatorKind::find)); `"off"`: none.
    ///
    /// # Errors
    /// No estimator has the name.
    pub fn set_start_up(&self, estimator: &str) -> io::Result<()> {
        self.choose("start-up", estimator)
    }

    /// Makes the receiver estimate the bandwidth from up to this many samples (50 in the paper, at most 256)
    /// while the peer starts up (`receiver-bandwidth`): see
    /// [`ConnectionInfo::bandwidth`](crate::ConnectionInfo::bandwidth). `None`: it does not.
    ///
    /// # Errors
    /// None.
    pub fn set_receiver_bandwidth(&self, samples_max: Option<usize>) -> io::Result<()> {
        self.settings().tcp.choices.receiver_bandwidth = samples_max;
        Ok(())
    }

    /// Whether segments are paced (`pacing`).
    ///
    /// # Errors
    /// None.
    pub fn set_pacing(&self, pacing: bool) -> io::Result<()> {
        self.settings().tcp.choices.pacing = pacing;
        Ok(())
    }

    /// Chooses the form of explicit congestion notification that is offered (`ecn`: `"off"`, `"classic"`,
    /// `"accurate"`).
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
