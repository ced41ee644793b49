//! Networks that several experiments use.

pub(crate) use ackclock_sim::dumbbell::{BOTTLENECK, Dumbbell};
pub(crate) use ackclock_sim::papers::vegas::FIG6_PACKET_BYTES;
#[cfg(test)]
pub(crate) use ackclock_sim::papers::vegas::network as fig6;
