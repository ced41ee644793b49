//! The flow label of IPv6 (RFC 6437).

/// A flow label: 20 bits by which routers distinguish flows without looking beyond the IPv6 header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowLabel(u32);

impl FlowLabel {
    /// No label: the packet does not belong to a labelled flow (RFC 6437 §2).
    pub const NONE: Self = Self(0);

    /// The largest label.
    pub const MAX: u32 = (1 << 20) - 1;

    /// The label in the low 20 bits.
    #[must_use]
    pub const fn new(bits: u32) -> Self {
        Self(bits & Self::MAX)
    }

    /// The 20 bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

ackclock_form::form! {
    struct FlowLabel(bits) => |label| label.0 <= Self::MAX;
}
