//! How a congestion controller is chosen: by name or by value.

use std::io;
use std::sync::Arc;

use ackclock_core::congestion::{ControllerFactory, Registry, UnknownController};

/// What [`TcpStream::set_congestion_control`](crate::TcpStream::set_congestion_control) and
/// [`StackBuilder::congestion_control`](crate::StackBuilder::congestion_control) take: the name of a built-in controller
/// (`"cubic"`), or a factory.
pub trait IntoController {
    /// The factory that is meant.
    ///
    /// # Errors
    /// No built-in controller has the name.
    fn into_factory(self) -> Result<Arc<dyn ControllerFactory>, UnknownController>;
}

impl IntoController for &str {
    fn into_factory(self) -> Result<Arc<dyn ControllerFactory>, UnknownController> {
        Registry::builtin().find(self)
    }
}

impl IntoController for &String {
    fn into_factory(self) -> Result<Arc<dyn ControllerFactory>, UnknownController> {
        self.as_str().into_factory()
    }
}

impl IntoController for Arc<dyn ControllerFactory> {
    fn into_factory(self) -> Result<Arc<dyn ControllerFactory>, UnknownController> {
        Ok(self)
    }
}

/// The factory that is meant, or an error for a caller of sockets.
pub(crate) fn resolve(controller: impl IntoController) -> io::Result<Arc<dyn ControllerFactory>> {
    controller.into_factory().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
