//! An endpoint as bytes: [`Endpoint::freeze`] and [`Endpoint::thaw`].
//!
//! The exact form holds everything on which a later packet, event or answer depends, so that the thawed
//! endpoint goes on as the frozen one would have. Each owner of state declares its own part beside itself
//! ([`ackclock_form::form!`]); this module adds the head, and what a form cannot hold.

use std::sync::Arc;

use ackclock_control::congestion::Registry;
use ackclock_form::{Form, FormError, Reader, Writer};

use super::Endpoint;
use super::demux::Target;
use crate::budget::MemoryMax;

impl Endpoint {
    /// Writes the endpoint to bytes, in the form of the [crate's documentation](crate#frozen-endpoints).
    /// This does not change the endpoint. Drop it before the thawed one sends: both speak for the same
    /// connections.
    ///
    /// The bytes hold the endpoint's secrets and its peers' data: keep them where no other user reads them.
    ///
    /// # Errors
    /// The endpoint is one of several of its host, or has keys of TCP-AO.
    ///
    /// ```
    /// use ackclock_core::congestion::Registry;
    /// use ackclock_core::{Endpoint, EndpointConfig, Instant};
    ///
    /// let now = Instant::from_millis(5);
    /// let config = EndpointConfig::new(vec!["10.0.0.1".parse()?], [7; 32]);
    /// let endpoint = Endpoint::new(config, now);
    /// let form = endpoint.freeze()?;
    /// let thawed = Endpoint::thaw(&form, &Registry::builtin(), 1 << 30)?;
    /// assert_eq!(thawed.endpoint.freeze()?, form);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn freeze(&self) -> Result<Vec<u8>, FreezeError> {
        let mut out = Writer::default();
        self.freeze_to(&mut out)?;
        Ok(out.into_bytes())
    }

    /// [`Self::freeze`] into a writer that is used again.
    ///
    /// # Errors
    /// As [`Self::freeze`].
    pub fn freeze_to(&self, out: &mut Writer) -> Result<(), FreezeError> {
        if self.tuples.is_sharded() {
            return Err(FreezeError::Sharded);
        }
        #[cfg(feature = "tcp-ao")]
        if self.authentication.is_some() {
            return Err(FreezeError::Keys);
        }
        out.clear();
        out.extend_from_slice(&MAGIC);
        VERSION.write(out);
        Form::write(self, out);
        Ok(())
    }

    /// The endpoint whose [`freeze`](Self::freeze) wrote `form`. Its clock is that of the frozen endpoint's
    /// driver: the first call must not be earlier than the last one before.
    ///
    /// Controllers are found in `registry`. A form whose memory budget exceeds `memory_max` bytes is refused,
    /// so the endpoint never holds more than that in buffers.
    ///
    /// # Errors
    /// The bytes are of another version or of something else, or contradict themselves.
    pub fn thaw(form: &[u8], registry: &Registry, memory_max: usize) -> Result<Thawed, FormError> {
        let mut input = Reader::new(form);
        if input.bytes(MAGIC.len())? != MAGIC {
            return Err(FormError::Unsupported("this is not a frozen endpoint"));
        }
        if u32::read(&mut input)? != VERSION {
            return Err(FormError::Unsupported(
                "the frozen endpoint is of another version; thaw it with the version that froze it",
            ));
        }
        input.lend(Arc::new(registry.clone()));
        input.lend(Arc::new(MemoryMax(memory_max)));
        let mut endpoint = Self::read(&mut input)?;
        input.end()?;
        endpoint.restore_tuples()?;
        Ok(Thawed { endpoint, begun_again: input.take_notes() })
    }

    /// Leads to the connections and records that were read.
    fn restore_tuples(&mut self) -> Result<(), FormError> {
        let connections = self.connections.iter().filter(|(_, _, slot)| slot.is_bound());
        let connections = connections.map(|(index, _, slot)| (Target::Connection(index), slot.tuple()));
        let half_open = self.listening.bound_records().map(|(index, tuple)| (Target::HalfOpen(index), tuple));
        let time_wait = self.time_wait.bound().map(|(index, tuple)| (Target::TimeWait(index), tuple));
        let all: Vec<_> = connections.chain(half_open).chain(time_wait).collect();
        for (target, tuple) in all {
            if self.find(&tuple).is_some_and(|found| found != target) {
                return Err(FormError::Invariant("Endpoint"));
            }
            self.tuples.restore(&tuple, target);
        }
        Ok(())
    }
}

/// An endpoint from its form.
#[derive(Debug)]
#[non_exhaustive]
pub struct Thawed {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The controllers that have no form: each stands for a connection whose controller began again with the
    /// window and threshold that it had.
    pub begun_again: Vec<&'static str>,
}

/// Why an endpoint cannot be frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreezeError {
    /// It shares tables with other endpoints.
    #[error("the endpoint is one of several of its host; freeze a host with one endpoint")]
    Sharded,
    /// It has keys of TCP-AO.
    #[error("the endpoint has keys of TCP-AO, which no form holds")]
    Keys,
}

/// The first bytes of a form.
const MAGIC: [u8; 16] = *b"ackclock: frozen";
/// The version of the format: one more with each change of any owner's form.
const VERSION: u32 = 1;
