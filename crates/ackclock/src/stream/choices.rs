//! The choices of a profile that can change while the connection is open, by name or by value.

use std::error::Error;
use std::io;
use std::sync::Arc;

use ackclock_core::profile::{AckPolicy, Recovery, UndoChoice};
use ackclock_core::rtt::RtoConfig;
use ackclock_core::trace::{Record, TraceConfig};

use super::TcpStream;
use crate::choices::{IntoController, choice};
use crate::error;

/// How it sends and acknowledges. Names are those that `tcpcat profiles` lists. An unknown name is an error
/// of kind [`io::ErrorKind::InvalidInput`], which lists the known ones.
impl TcpStream {
    /// Replaces the congestion controller, by the name of a built-in or registered one, or by value. The new
    /// controller starts from the present window and slow-start threshold.
    ///
    /// # Errors
    /// No controller has the name, or the controller is for simulated networks only
    /// ([`SimulatedOnly`](crate::SimulatedOnly)); the stack is gone.
    pub fn set_congestion_control(&self, controller: impl IntoController) -> io::Result<()> {
        let choices = self.shared.look(|state| state.choices());
        let factory = choices.controller(controller)?;
        // If the call fails under the lock, the program's factory ends outside it.
        let _kept = Arc::clone(&factory);
        self.update(|connection, now| connection.set_congestion(now, factory))
    }

    /// Chooses how losses are detected and repaired from now on (`recovery`), as far as the peer's options
    /// allow.
    ///
    /// # Errors
    /// No policy has the name; the stack is gone.
    pub fn set_recovery<R>(&self, recovery: R) -> io::Result<()>
    where
        R: TryInto<Recovery>,
        R::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let recovery = choice(recovery)?;
        self.update(|connection, now| connection.set_recovery(now, recovery))
    }

    /// Chooses the estimator of the retransmission timeout (`rto`): a preset by name, with changes to it
    /// (`"rfc6298,min=1s,g=500ms"`, see [`RtoConfig::find`]), or parameters. Measurements so far are kept.
    ///
    /// # Errors
    /// No preset has the name, or the parameters are out of range; the stack is gone.
    pub fn set_rto<R>(&self, rto: R) -> io::Result<()>
    where
        R: TryInto<RtoConfig>,
        R::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let rto: RtoConfig = choice(rto)?;
        self.update(|connection, now| connection.set_rto(now, rto))?.map_err(error::option)
    }

    /// Chooses which proofs undo a wrong reduction (`undo`: `"timestamps,dsack"`, `"off"`, see
    /// [`UndoChoice::find`]).
    ///
    /// # Errors
    /// No proof has the name; the stack is gone.
    pub fn set_undo<U>(&self, undo: U) -> io::Result<()>
    where
        U: TryInto<UndoChoice>,
        U::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let undo = choice(undo)?;
        self.update(|connection, _| connection.set_undo(undo))
    }

    /// Chooses when received data is acknowledged (`acks`: `"every-second:100ms"`, see [`AckPolicy::find`]).
    ///
    /// # Errors
    /// No policy has the name; the stack is gone.
    pub fn set_acks<A>(&self, acks: A) -> io::Result<()>
    where
        A: TryInto<AckPolicy>,
        A::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let acks = choice(acks)?;
        self.update(|connection, _| connection.set_acks(acks))?.map_err(error::option)
    }

    /// Starts or stops tracing the connection: see [`Stack::next_trace`](crate::Stack::next_trace). Records
    /// that were not handed over are lost; call [`request_trace`](Self::request_trace) first to keep them.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn set_trace(&self, trace: Option<TraceConfig>) -> io::Result<()> {
        self.update(|connection, now| connection.set_trace(now, trace))
    }

    /// The records of the connection that were not handed over yet, oldest first. They stay there.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn trace(&self) -> io::Result<Vec<Record>> {
        self.shared.look(|state| Ok(state.connection(self.id)?.trace().collect()))
    }

    /// Hands the records over to [`Stack::next_trace`](crate::Stack::next_trace) now.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn request_trace(&self) -> io::Result<()> {
        self.shared.call(|state, now| state.update(now, self.id, |connection, _| connection.request_trace()))
    }
}
