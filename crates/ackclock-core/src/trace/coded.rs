//! Values with a code in records and a name in tables.

/// Makes an enum without fields whose values are numbered in order. Records hold the number, so new values go
/// to the end.
macro_rules! coded {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$value_meta:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        $vis enum $name { $($(#[$value_meta])* $value,)+ }

        impl $name {
            /// All values, in order of their codes.
            pub const ALL: &[Self] = &[$(Self::$value,)+];

            /// The name in tables.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $text,)+ }
            }

            /// The number in records.
            #[inline]
            #[must_use]
            pub fn code(self) -> u8 {
                self as u8
            }

            /// The value with this number.
            #[must_use]
            pub fn from_code(code: u8) -> Option<Self> {
                Self::ALL.get(usize::from(code)).copied()
            }
        }

        impl ackclock_form::Form for $name {
            fn write(&self, out: &mut ackclock_form::Writer) {
                out.push(self.code());
            }

            fn read(input: &mut ackclock_form::Reader<'_>) -> Result<Self, ackclock_form::FormError> {
                let code = input.byte()?;
                Self::from_code(code).ok_or(ackclock_form::FormError::Code(code))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
