//! [`form!`](crate::form): the forms of structs and enums, declared by naming their fields.

/// Implements [`Form`](crate::Form) for structs and enums.
///
/// Every field is named, in the order in which it is written. `field as module` writes it by
/// `module::write(&field, out)` and reads it by `module::read(input)`, `field = value` does not write it and
/// begins again with `value`. The variants of an enum have numbers that must not change. After `=>` stands
/// what must hold of a value that was read.
///
/// ```
/// # use ackclock_form::form;
/// struct Probe { sent: u64, scratch: Vec<u8> }
/// enum Phase { Open, Recovery(u64), Waiting { since: u64 } }
///
/// form! {
///     struct Probe { sent, scratch = Vec::new() } => |probe| probe.sent < 1 << 40;
///     enum Phase { 0 Open, 1 Recovery(until), 2 Waiting { since } }
/// }
/// ```
#[macro_export]
macro_rules! form {
    () => {};
    (
        struct $name:ident $(<$($generic:ident),*>)? {
            $($(#[$meta:meta])* $field:ident $(as $how:ident)? $(= $begins:expr)?),* $(,)?
        } $(=> |$value:ident| $holds:expr;)?
        $($next:ident $($rest:tt)*)?
    ) => {
        impl $(<$($generic: $crate::Form),*>)? $crate::Form for $name $(<$($generic),*>)? {
            fn write(&self, out: &mut $crate::Writer) {
                let Self { $($(#[$meta])* $field),* } = self;
                $($(#[$meta])* { $crate::write_field!(out $field $(as $how)? $(= $begins)?); })*
                let _ = out;
            }

            fn read(input: &mut $crate::Reader<'_>) -> Result<Self, $crate::FormError> {
                $($(#[$meta])* let $field = $crate::read_field!(input $(as $how)? $(= $begins)?);)*
                let _ = input;
                let read = Self { $($(#[$meta])* $field),* };
                $(
                    let $value = &read;
                    if !$holds {
                        return Err($crate::FormError::Invariant(stringify!($name)));
                    }
                )?
                Ok(read)
            }
        }
        $($crate::form! { $next $($rest)* })?
    };
    (
        struct $name:ident $(<$($generic:ident),*>)? ($($field:ident $(as $how:ident)?),* $(,)?)
        $(=> |$value:ident| $holds:expr;)?
        $($next:ident $($rest:tt)*)?
    ) => {
        impl $(<$($generic: $crate::Form),*>)? $crate::Form for $name $(<$($generic),*>)? {
            fn write(&self, out: &mut $crate::Writer) {
                let Self($($field),*) = self;
                $($crate::write_field!(out $field $(as $how)?);)*
                let _ = out;
            }

            fn read(input: &mut $crate::Reader<'_>) -> Result<Self, $crate::FormError> {
                $(let $field = $crate::read_field!(input $(as $how)?);)*
                let _ = input;
                let read = Self($($field),*);
                $(
                    let $value = &read;
                    if !$holds {
                        return Err($crate::FormError::Invariant(stringify!($name)));
                    }
                )?
                Ok(read)
            }
        }
        $($crate::form! { $next $($rest)* })?
    };
    (
        enum $name:ident {
            $($code:literal $variant:ident $(($($tuple:ident),*))? $({ $($field:ident),* })?),* $(,)?
        }
        $($next:ident $($rest:tt)*)?
    ) => {
        impl $crate::Form for $name {
            fn write(&self, out: &mut $crate::Writer) {
                match self {
                    $(Self::$variant $(($($tuple),*))? $({ $($field),* })? => {
                        out.push($code);
                        $($($crate::Form::write($tuple, out);)*)?
                        $($($crate::Form::write($field, out);)*)?
                    })*
                }
            }

            fn read(input: &mut $crate::Reader<'_>) -> Result<Self, $crate::FormError> {
                match input.byte()? {
                    $($code => {
                        $($(let $tuple = $crate::Form::read(input)?;)*)?
                        $($(let $field = $crate::Form::read(input)?;)*)?
                        Ok(Self::$variant $(($($tuple),*))? $({ $($field),* })?)
                    })*
                    code => Err($crate::FormError::Code(code)),
                }
            }
        }
        $($crate::form! { $next $($rest)* })?
    };
}

/// Writes one field of [`form!`](crate::form).
#[doc(hidden)]
#[macro_export]
macro_rules! write_field {
    ($out:ident $field:ident) => {
        $crate::Form::write($field, $out)
    };
    ($out:ident $field:ident as $how:ident) => {
        $how::write($field, $out)
    };
    ($out:ident $field:ident = $begins:expr) => {
        let _ = $field;
    };
}

/// Reads one field of [`form!`](crate::form).
#[doc(hidden)]
#[macro_export]
macro_rules! read_field {
    ($input:ident) => {
        $crate::Form::read($input)?
    };
    ($input:ident as $how:ident) => {
        $how::read($input)?
    };
    ($input:ident = $begins:expr) => {
        $begins
    };
}

/// The methods `freeze` and `thaw` of a controller or estimator that is a [`Form`](crate::Form). Call it in
/// the implementation of the trait.
#[macro_export]
macro_rules! frozen {
    () => {
        fn freeze(&self, out: &mut $crate::Writer) -> bool {
            $crate::Form::write(self, out);
            true
        }

        fn thaw(&mut self, input: &mut $crate::Reader<'_>) -> Result<(), $crate::FormError> {
            *self = $crate::Form::read(input)?;
            Ok(())
        }
    };
}
