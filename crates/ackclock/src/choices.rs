//! Chooses congestion controllers and profiles by name or by value, and checks which of them a device may
//! meet.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use ackclock_core::TcpConfig;
use ackclock_core::congestion::{ControllerFactory, Registry, Signal, UnknownController};
use ackclock_core::profile::{AckPolicy, Profile};
use ackclock_core::rtt::RtoConfig;

use crate::error;

/// The argument of [`TcpStream::set_congestion_control`](crate::TcpStream::set_congestion_control) and
/// [`StackBuilder::congestion_control`](crate::StackBuilder::congestion_control): the name of a controller
/// that is built in (`"cubic"`) or was registered with the stack, or a factory. The trait is sealed, so no
/// other type implements it.
pub trait IntoController: sealed::Find {}

impl<T: sealed::Find> IntoController for T {}

mod sealed {
    use super::{Arc, ControllerFactory, Registry, UnknownController};

    pub trait Find {
        /// The factory that this names. `registry` has the names.
        fn find_in(self, registry: &Registry) -> Result<Arc<dyn ControllerFactory>, UnknownController>;
    }
}

impl sealed::Find for &str {
    fn find_in(self, registry: &Registry) -> Result<Arc<dyn ControllerFactory>, UnknownController> {
        registry.find(self)
    }
}

impl sealed::Find for &String {
    fn find_in(self, registry: &Registry) -> Result<Arc<dyn ControllerFactory>, UnknownController> {
        registry.find(self)
    }
}

impl sealed::Find for Arc<dyn ControllerFactory> {
    fn find_in(self, _: &Registry) -> Result<Arc<dyn ControllerFactory>, UnknownController> {
        Ok(self)
    }
}

/// A sender without congestion control was chosen for a stack that has a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` sends without congestion control and exists for simulated networks only: a stack on a device \
     refuses it, one made by `StackBuilder::detached` takes it"
)]
pub struct SimulatedOnly(pub &'static str);

/// The choices that a stack offers.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub registry: Registry,
    /// Whether only simulated networks can be reached.
    pub simulated: bool,
}

impl Choices {
    /// The choices of a stack that is still being built; [`Self::check`] decides in the end.
    pub fn any() -> Self {
        Self { registry: Registry::builtin(), simulated: true }
    }

    /// The factory, or an error in the form that sockets return.
    pub fn controller(&self, controller: impl IntoController) -> io::Result<Arc<dyn ControllerFactory>> {
        let factory = controller.find_in(&self.registry).or_else(|unknown| match &unknown {
            UnknownController::Name { name, .. } => experiment(name).ok_or(unknown),
            _ => Err(unknown),
        });
        let factory = factory.map_err(invalid)?;
        self.check(&*factory).map_err(invalid)?;
        Ok(factory)
    }

    /// Sets everything that a profile chooses.
    pub fn apply<P>(&self, profile: P, tcp: &mut TcpConfig) -> io::Result<()>
    where
        P: TryInto<Profile>,
        P::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let profile = choice(profile)?;
        let mut applied = tcp.clone();
        if experiment(profile.congestion).is_some() && self.registry.find(profile.congestion).is_err() {
            applied.apply(&profile, &Registry::with_experiments()).map_err(invalid)?;
        } else {
            applied.apply(&profile, &self.registry).map_err(invalid)?;
        }
        self.check(&*applied.congestion).map_err(invalid)?;
        *tcp = applied;
        Ok(())
    }

    /// Whether the stack's network may meet the controller.
    pub fn check(&self, factory: &dyn ControllerFactory) -> Result<(), SimulatedOnly> {
        let uncontrolled = factory.about().signal == Signal::None;
        if uncontrolled && !self.simulated { Err(SimulatedOnly(factory.name())) } else { Ok(()) }
    }
}

/// A choice by name or by value.
pub(crate) fn choice<T, C>(choice: C) -> io::Result<T>
where
    C: TryInto<T>,
    C::Error: Into<Box<dyn Error + Send + Sync>>,
{
    choice.try_into().map_err(invalid)
}

/// A choice of [`CHOICES`](ackclock_core::profile::CHOICES), by key and value.
pub(crate) fn choose(tcp: &mut TcpConfig, key: &str, value: &str) -> io::Result<()> {
    let mut made = tcp.choices;
    made.choose(key, value).map_err(invalid)?;
    if made.for_simulations_only() && !tcp.choices.for_simulations_only() {
        return Err(invalid(format!("{key} `{value}` exists for simulated networks only")));
    }
    tcp.choices = made;
    Ok(())
}

/// The retransmission timeout's estimator, by name or by value.
pub(crate) fn rto<R>(tcp: &mut TcpConfig, rto: R) -> io::Result<()>
where
    R: TryInto<RtoConfig>,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let rto: RtoConfig = choice(rto)?;
    rto.check().map_err(invalid)?;
    tcp.choices.rto = rto;
    Ok(())
}

/// When received data is acknowledged, by name or by value.
pub(crate) fn acks<A>(tcp: &mut TcpConfig, acks: A) -> io::Result<()>
where
    A: TryInto<AckPolicy>,
    A::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let acks: AckPolicy = choice(acks)?;
    acks.check().map_err(invalid)?;
    tcp.choices.acks = acks;
    Ok(())
}

/// Type of service or traffic class; the connection sets the two bits of ECN itself.
pub(crate) fn tos(tcp: &mut TcpConfig, tos: u32) -> io::Result<()> {
    let tos = u8::try_from(tos).map_err(|_| error::out_of_range("tos", "0 to 255"))?;
    tcp.dscp = tos >> 2;
    Ok(())
}

/// The error of an unknown name.
pub(crate) fn invalid(error: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, error)
}

/// The controller of this name, if it is one for simulated networks only.
fn experiment(name: &str) -> Option<Arc<dyn ControllerFactory>> {
    Registry::with_experiments().find(name).ok().filter(|factory| factory.about().signal == Signal::None)
}
