//! A stack on an endpoint that came from another process.

use std::sync::Arc;

use ackclock_core::Endpoint;
use ackclock_device::{Device, Medium};
use ackclock_journal::RecordedEndpoint;

use super::{Choices, ShardClock, StackBuilder};
use crate::clock::TokioClock;
use crate::driver::Driver;
use crate::shards::{Handle, ShardRef, Shards};
use crate::shared::Shared;
use crate::state::{Handed, Settings, StackState};
use crate::{BuildError, Stack, transmit};

/// A stack that nothing drives yet.
#[derive(Debug)]
pub(crate) struct Standing {
    pub stack: Stack,
    pub shard: ShardRef,
    driver: Driver,
}

impl Standing {
    /// Begins to drive it.
    pub fn start(self) {
        tokio::spawn(self.driver.run());
    }
}

impl StackBuilder {
    /// The names that a form may use, and the memory that it may claim.
    pub(crate) fn bounds(&self) -> (&ackclock_core::congestion::Registry, usize) {
        let memory_max = usize::try_from(MEMORY_MAX).unwrap_or(usize::MAX);
        let memory_max = self.adjust.memory_budget.unwrap_or(memory_max);
        (&self.choices.registry, memory_max)
    }

    /// The stack of another process, on its `device`.
    pub(crate) fn stand(
        self,
        clock: TokioClock,
        device: Box<dyn Device>,
        endpoint: Endpoint,
        handed: Handed,
    ) -> Result<Standing, BuildError> {
        let capabilities = device.capabilities();
        if capabilities.medium != Medium::Ip {
            return Err(BuildError::LinkLayer);
        }
        let choices = Choices { simulated: false, ..self.choices };
        choices.check(&*handed.tcp.congestion)?;
        let settings = Settings {
            tcp: handed.tcp.clone(),
            choices,
            network: handed.network.clone(),
            close_timeout: self.close_timeout,
            others: self.adjust.other_packets > 0,
            pings: self.adjust.pings == ackclock_core::PingPolicy::Deferred,
            hosts: self.hosts,
            #[cfg(feature = "dns")]
            names: self.names,
        };
        let limits = transmit::limits(&capabilities);
        let mut state = StackState::new(RecordedEndpoint::new(endpoint, None), limits, settings);
        let clock = ShardClock::Runtime(clock);
        state.take(clock.now(), handed);
        let shards = Shards::new(
            vec![Shared::new(clock, state, Some(device))],
            #[cfg(feature = "dns")]
            crate::hickory::name_lookup,
        );
        Self::standing(&shards, self.busy_poll)
    }

    fn standing(shards: &Arc<Shards>, busy_poll: std::time::Duration) -> Result<Standing, BuildError> {
        let shard = shards.refs().next().ok_or(BuildError::NoDevice)?;
        let stack = Stack::new(Handle::new(shard.clone()));
        Ok(Standing { stack, driver: Driver::new(shard.clone(), busy_poll), shard })
    }
}

/// The largest memory budget that is taken over, in bytes, if the builder names none.
const MEMORY_MAX: u64 = 4 << 30;
