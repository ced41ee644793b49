//! Interest and readiness: tokio's types where it has them.
//!
//! They come with tokio's feature `net`, which no WebAssembly target has. There, types with the same names
//! have the same methods, so one program works with both through `ackclock::{Interest, Ready}`.

#[cfg(not(target_family = "wasm"))]
pub use tokio::io::{Interest, Ready};

#[cfg(target_family = "wasm")]
pub use self::own::{Interest, Ready};

/// Whether it includes urgent data, which tokio's type knows on these systems.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const fn is_priority(interest: Interest) -> bool {
    interest.is_priority()
}

/// Whether it includes urgent data, which it never does here.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const fn is_priority(_: Interest) -> bool {
    false
}

#[cfg(any(target_family = "wasm", test))]
mod own {
    use std::fmt;
    use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

    /// The events to wait for. Replaces tokio's `Interest`, which is missing here.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct Interest(u8);

    /// The events that are ready. Replaces tokio's `Ready`, which is missing here.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Ready(u8);

    impl Interest {
        /// Something to read, or the end of the stream.
        pub const READABLE: Self = Self(1);
        /// Room to write, or the end of writing.
        pub const WRITABLE: Self = Self(1 << 1);
        /// An error.
        pub const ERROR: Self = Self(1 << 5);

        /// Whether it includes reading.
        #[must_use]
        pub const fn is_readable(self) -> bool {
            self.0 & Self::READABLE.0 != 0
        }

        /// Whether it includes writing.
        #[must_use]
        pub const fn is_writable(self) -> bool {
            self.0 & Self::WRITABLE.0 != 0
        }

        /// Whether it includes errors.
        #[must_use]
        pub const fn is_error(self) -> bool {
            self.0 & Self::ERROR.0 != 0
        }

        /// Both together.
        #[must_use]
        #[cfg_attr(
            target_family = "wasm",
            expect(clippy::should_implement_trait, reason = "tokio's type has a method of this name")
        )]
        pub const fn add(self, other: Self) -> Self {
            Self(self.0 | other.0)
        }

        /// This one without the other; `None` if nothing is left.
        #[must_use]
        pub fn remove(self, other: Self) -> Option<Self> {
            Some(Self(self.0 & !other.0)).filter(|left| left.0 != 0)
        }
    }

    impl Ready {
        /// Nothing.
        pub const EMPTY: Self = Self(0);
        /// There is something to read.
        pub const READABLE: Self = Self(1);
        /// There is room to write.
        pub const WRITABLE: Self = Self(1 << 1);
        /// No more data will arrive.
        pub const READ_CLOSED: Self = Self(1 << 2);
        /// No more data can be written.
        pub const WRITE_CLOSED: Self = Self(1 << 3);
        /// There is an error.
        pub const ERROR: Self = Self(1 << 5);
        /// All of these.
        pub const ALL: Self = Self(0b10_1111);

        /// Whether nothing is ready.
        #[must_use]
        pub fn is_empty(self) -> bool {
            self == Self::EMPTY
        }

        /// Whether a read would return at once, even with the end of the stream.
        #[must_use]
        pub fn is_readable(self) -> bool {
            self & (Self::READABLE | Self::READ_CLOSED) != Self::EMPTY
        }

        /// Whether a write would return at once, even with an error.
        #[must_use]
        pub fn is_writable(self) -> bool {
            self & (Self::WRITABLE | Self::WRITE_CLOSED) != Self::EMPTY
        }

        /// Whether no more data will arrive.
        #[must_use]
        pub fn is_read_closed(self) -> bool {
            self & Self::READ_CLOSED != Self::EMPTY
        }

        /// Whether no more data can be written.
        #[must_use]
        pub fn is_write_closed(self) -> bool {
            self & Self::WRITE_CLOSED != Self::EMPTY
        }

        /// Whether there is an error.
        #[must_use]
        pub fn is_error(self) -> bool {
            self & Self::ERROR != Self::EMPTY
        }
    }

    impl BitOr for Interest {
        type Output = Self;
        fn bitor(self, other: Self) -> Self {
            self.add(other)
        }
    }

    impl BitOrAssign for Interest {
        fn bitor_assign(&mut self, other: Self) {
            *self = *self | other;
        }
    }

    impl BitOr for Ready {
        type Output = Self;
        fn bitor(self, other: Self) -> Self {
            Self(self.0 | other.0)
        }
    }

    impl BitOrAssign for Ready {
        fn bitor_assign(&mut self, other: Self) {
            *self = *self | other;
        }
    }

    impl BitAnd for Ready {
        type Output = Self;
        fn bitand(self, other: Self) -> Self {
            Self(self.0 & other.0)
        }
    }

    impl Sub for Ready {
        type Output = Self;
        fn sub(self, other: Self) -> Self {
            Self(self.0 & !other.0)
        }
    }

    impl fmt::Debug for Interest {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let named = [(Self::READABLE, "READABLE"), (Self::WRITABLE, "WRITABLE"), (Self::ERROR, "ERROR")];
            let of_this = named.iter().filter(|(interest, _)| self.0 & interest.0 != 0);
            f.write_str(&of_this.map(|(_, name)| *name).collect::<Vec<_>>().join(" | "))
        }
    }

    impl fmt::Debug for Ready {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Ready")
                .field("is_readable", &self.is_readable())
                .field("is_writable", &self.is_writable())
                .field("is_read_closed", &self.is_read_closed())
                .field("is_write_closed", &self.is_write_closed())
                .field("is_error", &self.is_error())
                .finish()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::own;
    use tokio::io::{Interest, Ready};

    #[test]
    fn interest_says_what_tokios_says() {
        let tokios = [Interest::READABLE, Interest::WRITABLE, Interest::ERROR];
        let owns = [own::Interest::READABLE, own::Interest::WRITABLE, own::Interest::ERROR];
        for (&tokio, &own) in tokios.iter().zip(&owns) {
            for (&other_tokio, &other_own) in tokios.iter().zip(&owns) {
                let (tokio, own) = (tokio | other_tokio, own | other_own);
                assert_eq!(format!("{tokio:?}"), format!("{own:?}"));
                assert_eq!(
                    [tokio.is_readable(), tokio.is_writable(), tokio.is_error()],
                    [own.is_readable(), own.is_writable(), own.is_error()]
                );
                let (left, own_left) = (tokio.remove(other_tokio), own.remove(other_own));
                assert_eq!(format!("{left:?}"), format!("{own_left:?}"));
            }
        }
    }

    #[test]
    fn readiness_says_what_tokios_says() {
        let tokios =
            [Ready::READABLE, Ready::WRITABLE, Ready::READ_CLOSED, Ready::WRITE_CLOSED, Ready::ERROR];
        let owns = [
            own::Ready::READABLE,
            own::Ready::WRITABLE,
            own::Ready::READ_CLOSED,
            own::Ready::WRITE_CLOSED,
            own::Ready::ERROR,
        ];
        for chosen in 0..1_u32 << tokios.len() {
            let is_chosen = |place: &usize| chosen & 1 << place != 0;
            let places = || (0..tokios.len()).filter(is_chosen);
            let tokio = places().fold(Ready::EMPTY, |all, place| all | tokios[place]);
            let own = places().fold(own::Ready::EMPTY, |all, place| all | owns[place]);
            // tokio's on Linux knows priority, which needs a kernel.
            let tokio_says = format!("{tokio:?}").replace(", is_priority: false", "");
            assert_eq!((tokio_says, tokio.is_empty()), (format!("{own:?}"), own.is_empty()));
            assert_eq!(own - own, own::Ready::EMPTY);
            assert_eq!(own & own::Ready::ALL, own);
        }
    }
}
