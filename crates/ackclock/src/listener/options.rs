//! The initial options of a listener's streams: all that a [`TcpSocket`](crate::TcpSocket) can set, and the
//! hop limit.

use std::error::Error;
use std::io;
use std::time::Duration;

use ackclock_core::choice_doc;
use ackclock_core::profile::{AckPolicy, Ecn, Profile, Recovery, UndoChoice};
use ackclock_core::rtt::RtoConfig;
use ackclock_core::trace::TraceConfig;
use ackclock_core::{Experiment, Keepalive, TcpConfig, UserTimeoutOption};

use super::ListenerBuilder;
use crate::choices::{self, IntoController, choice};
use crate::error;

/// Settings of the accepted connections. They start as the stack's own, including its profile. `tcpcat
/// profiles` lists the names.
impl ListenerBuilder {
    /// The present settings, to be changed and passed to [`tcp`](Self::tcp).
    #[must_use]
    pub fn config(&self) -> TcpConfig {
        self.options.tcp.clone().unwrap_or_else(|| self.shared.look(|state| state.tcp.clone()))
    }

    /// All settings at once; the stack's by default. Start from [`config`](Self::config) to change some:
    /// `TcpConfig`'s default does not include the stack's profile.
    ///
    /// ```
    /// # use ackclock::{Stack, TcpConfig};
    /// # use ackclock_device::memory;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (device, _other) = memory::pair(memory::Config::default());
    /// let stack = Stack::builder().device(device).address("10.0.0.1/24".parse()?).profile("reno-1990")?.spawn()?;
    /// let builder = stack.listener().addr("10.0.0.1:80".parse()?);
    /// let tcp = TcpConfig { nodelay: true, ..builder.config() };
    /// assert_eq!(tcp.profile, "reno-1990");
    /// let _listener = builder.tcp(tcp).bind()?;
    /// # Ok(()) }
    /// ```
    pub fn tcp(mut self, tcp: TcpConfig) -> Self {
        self.options.tcp = Some(tcp);
        self
    }

    /// Sets everything that a profile chooses, by name or by value: see
    /// [`TcpSocket::set_profile`](crate::TcpSocket::set_profile). Call it before setting single choices,
    /// which it overrides.
    ///
    /// # Errors
    /// As [`TcpSocket::set_profile`](crate::TcpSocket::set_profile).
    pub fn profile<P>(self, profile: P) -> io::Result<Self>
    where
        P: TryInto<Profile>,
        P::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let choices = self.shared.look(|state| state.choices());
        self.try_with(|tcp| choices.apply(profile, tcp))
    }

    /// The congestion controller, by name or by value.
    ///
    /// # Errors
    /// As [`TcpSocket::set_congestion_control`](crate::TcpSocket::set_congestion_control).
    pub fn congestion_control(self, controller: impl IntoController) -> io::Result<Self> {
        let factory = self.shared.look(|state| state.choices()).controller(controller)?;
        Ok(self.with(|tcp| tcp.congestion = factory))
    }

    /// Makes a choice by its key: see [`TcpSocket::choose`](crate::TcpSocket::choose).
    ///
    /// # Errors
    /// No choice has the key, or it does not take the value; the error lists what is valid.
    pub fn choose(self, key: &str, value: &str) -> io::Result<Self> {
        self.try_with(|tcp| choices::choose(tcp, key, value))
    }

    #[doc = choice_doc!("recovery")]
    /// See [`TcpSocket::set_recovery`](crate::TcpSocket::set_recovery).
    ///
    /// # Errors
    /// No policy has the name.
    pub fn recovery<R>(self, recovery: R) -> io::Result<Self>
    where
        R: TryInto<Recovery>,
        R::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let recovery = choice(recovery)?;
        Ok(self.with(|tcp| tcp.choices.recovery = recovery))
    }

    #[doc = choice_doc!("rto")]
    /// See [`TcpSocket::set_rto`](crate::TcpSocket::set_rto).
    ///
    /// # Errors
    /// No preset has the name, or no estimator can have the parameters.
    pub fn rto<R>(self, rto: R) -> io::Result<Self>
    where
        R: TryInto<RtoConfig>,
        R::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.try_with(|tcp| choices::rto(tcp, rto))
    }

    #[doc = choice_doc!("undo")]
    /// See [`TcpSocket::set_undo`](crate::TcpSocket::set_undo).
    ///
    /// # Errors
    /// No proof has the name.
    pub fn undo<U>(self, undo: U) -> io::Result<Self>
    where
        U: TryInto<UndoChoice>,
        U::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let undo = choice(undo)?;
        Ok(self.with(|tcp| tcp.choices.undo = undo))
    }

    #[doc = choice_doc!("acks")]
    /// See [`TcpSocket::set_acks`](crate::TcpSocket::set_acks).
    ///
    /// # Errors
    /// No policy has the name.
    pub fn acks<A>(self, acks: A) -> io::Result<Self>
    where
        A: TryInto<AckPolicy>,
        A::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.try_with(|tcp| choices::acks(tcp, acks))
    }

    #[doc = choice_doc!("start-up")]
    /// See [`TcpSocket::set_start_up`](crate::TcpSocket::set_start_up).
    ///
    /// # Errors
    /// No estimator has the name.
    pub fn start_up(self, estimator: &str) -> io::Result<Self> {
        self.try_with(|tcp| choices::choose(tcp, "start-up", estimator))
    }

    #[doc = choice_doc!("receiver-bandwidth")]
    /// See [`TcpSocket::set_receiver_bandwidth`](crate::TcpSocket::set_receiver_bandwidth).
    pub fn receiver_bandwidth(self, samples_max: Option<usize>) -> Self {
        self.with(|tcp| tcp.choices.receiver_bandwidth = samples_max)
    }

    #[doc = choice_doc!("pacing")]
    pub fn pacing(self, pacing: bool) -> Self {
        self.with(|tcp| tcp.choices.pacing = pacing)
    }

    #[doc = choice_doc!("ecn")]
    /// See [`TcpSocket::set_ecn`](crate::TcpSocket::set_ecn).
    ///
    /// # Errors
    /// No form has the name.
    pub fn ecn<E>(self, ecn: E) -> io::Result<Self>
    where
        E: TryInto<Ecn>,
        E::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let ecn = choice(ecn)?;
        Ok(self.with(|tcp| tcp.choices.ecn = ecn))
    }

    /// Traces the connections from their start: see [`Stack::next_trace`](crate::Stack::next_trace).
    pub fn trace(self, trace: Option<TraceConfig>) -> Self {
        self.with(|tcp| tcp.trace = trace)
    }

    /// Takes part in an experiment (RFC 6994): sends its option on each SYN-ACK and keeps the clients' data.
    /// See [`TcpSocket::set_experiment`](crate::TcpSocket::set_experiment).
    pub fn experiment(self, experiment: Option<Experiment>) -> Self {
        self.with(|tcp| tcp.experiment = experiment)
    }

    /// Whether Nagle's algorithm is off.
    pub fn nodelay(self, nodelay: bool) -> Self {
        self.with(|tcp| tcp.nodelay = nodelay)
    }

    /// Keep-alive probes, with the default times, or none.
    pub fn keepalive(self, keepalive: bool) -> Self {
        self.with(|tcp| tcp.keepalive = keepalive.then(Keepalive::default))
    }

    /// The user timeout (RFC 5482).
    pub fn user_timeout(self, timeout: Option<Duration>) -> Self {
        self.with(|tcp| tcp.user_timeout = timeout)
    }

    /// Resets accepted connections once no data has moved in either direction for this long: see
    /// [`TcpStream::set_idle_timeout`](crate::TcpStream::set_idle_timeout).
    pub fn idle_timeout(self, timeout: Option<Duration>) -> Self {
        self.with(|tcp| tcp.idle_timeout = timeout)
    }

    /// Sends the user timeout as an option: see
    /// [`TcpSocket::set_user_timeout_option`](crate::TcpSocket::set_user_timeout_option).
    pub fn user_timeout_option(self, option: Option<UserTimeoutOption>) -> Self {
        self.with(|tcp| tcp.user_timeout_option = option.map(Box::new))
    }

    /// The most bytes that wait in the send buffer. Values below 4,608 are raised to it.
    pub fn send_buffer_size(self, size: u32) -> Self {
        self.with(|tcp| tcp.send_buffer_max = error::send_buffer(size))
    }

    /// The most bytes that wait to be read. Values below 2,304 are raised to it.
    pub fn recv_buffer_size(self, size: u32) -> Self {
        self.with(|tcp| tcp.receive_buffer_max = error::receive_buffer(size))
    }

    /// Time to live (IPv4) or hop limit (IPv6), 1 to 255; also
    /// [`TcpListener::set_ttl`](crate::TcpListener::set_ttl).
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] outside that range.
    pub fn ttl(self, ttl: u32) -> io::Result<Self> {
        let ttl = error::ttl(ttl)?;
        Ok(self.with(|tcp| tcp.ttl = ttl))
    }

    /// Type of service of IPv4 packets and traffic class of IPv6 packets: see
    /// [`TcpSocket::set_tos_v4`](crate::TcpSocket::set_tos_v4).
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] above 255.
    pub fn tos(self, tos: u32) -> io::Result<Self> {
        self.try_with(|tcp| choices::tos(tcp, tos))
    }

    /// Sets how dropping an accepted stream ends it, as
    /// [`TcpStream::set_linger`](crate::TcpStream::set_linger).
    pub fn linger(mut self, linger: Option<Duration>) -> Self {
        self.linger = linger;
        self
    }

    fn with(self, change: impl FnOnce(&mut TcpConfig)) -> Self {
        let mut tcp = self.config();
        change(&mut tcp);
        self.tcp(tcp)
    }

    fn try_with(self, change: impl FnOnce(&mut TcpConfig) -> io::Result<()>) -> io::Result<Self> {
        let mut tcp = self.config();
        change(&mut tcp)?;
        Ok(self.tcp(tcp))
    }
}
