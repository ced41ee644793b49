//! The forms of what holds other values. A length is compared with what is left before room is made.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use crate::{Form, FormError, Reader, Writer};

impl<T: Form> Form for Option<T> {
    fn write(&self, out: &mut Writer) {
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok(if bool::read(input)? { Some(T::read(input)?) } else { None })
    }
}

/// The length of a table. Each value takes at least a byte, so the length is at most what is left.
fn read_len(input: &mut Reader<'_>) -> Result<usize, FormError> {
    let len = usize::read(input)?;
    if len > input.len() { Err(FormError::Short) } else { Ok(len) }
}

/// Tables that are their length and their values in order.
macro_rules! sequences {
    ($($type:ident)*) => {
        $(impl<T: Form> Form for $type<T> {
            fn write(&self, out: &mut Writer) {
                self.len().write(out);
                for value in self {
                    value.write(out);
                }
            }

            fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
                // It grows as values are read: a short text cannot make room for many large ones.
                (0..read_len(input)?).map(|_| T::read(input)).collect()
            }
        })*
    };
}

sequences!(Vec VecDeque);

impl<T: Form> Form for Box<[T]> {
    fn write(&self, out: &mut Writer) {
        self.len().write(out);
        for value in self {
            value.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Vec::read(input).map(Vec::into_boxed_slice)
    }
}

impl<T: Form, const N: usize> Form for [T; N] {
    fn write(&self, out: &mut Writer) {
        for value in self {
            value.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let values = (0..N).map(|_| T::read(input)).collect::<Result<Vec<_>, _>>()?;
        values.try_into().map_err(|_| FormError::Number)
    }
}

impl<K: Form + Ord, V: Form> Form for BTreeMap<K, V> {
    fn write(&self, out: &mut Writer) {
        self.len().write(out);
        for (key, value) in self {
            key.write(out);
            value.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let len = read_len(input)?;
        let table = (0..len).map(|_| Form::read(input)).collect::<Result<Self, _>>()?;
        if table.len() == len { Ok(table) } else { Err(FormError::Invariant("table")) }
    }
}

impl<T: Form + Ord> Form for BTreeSet<T> {
    fn write(&self, out: &mut Writer) {
        self.len().write(out);
        for value in self {
            value.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let len = read_len(input)?;
        let table = (0..len).map(|_| T::read(input)).collect::<Result<Self, _>>()?;
        if table.len() == len { Ok(table) } else { Err(FormError::Invariant("table")) }
    }
}

impl<K: Form + Ord + Hash, V: Form, S: Form + BuildHasher> Form for HashMap<K, V, S> {
    fn write(&self, out: &mut Writer) {
        self.hasher().write(out);
        self.len().write(out);
        let mut entries: Vec<_> = self.iter().collect();
        entries.sort_unstable_by_key(|&(key, _)| key);
        for (key, value) in entries {
            key.write(out);
            value.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let mut table = Self::with_hasher(S::read(input)?);
        for _ in 0..read_len(input)? {
            if table.insert(K::read(input)?, V::read(input)?).is_some() {
                return Err(FormError::Invariant("table"));
            }
        }
        Ok(table)
    }
}

/// Pointers that own what they point to.
macro_rules! pointers {
    ($($type:ident)*) => {
        $(impl<T: Form> Form for $type<T> {
            #[inline]
            fn write(&self, out: &mut Writer) {
                T::write(self, out);
            }

            #[inline]
            fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
                T::read(input).map(Self::new)
            }
        })*
    };
}

pointers!(Box Arc);

/// Tuples that are their parts.
macro_rules! tuples {
    ($(($($type:ident $at:tt),*))*) => {
        $(impl<$($type: Form),*> Form for ($($type,)*) {
            fn write(&self, out: &mut Writer) {
                $(self.$at.write(out);)*
            }

            fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
                Ok(($($type::read(input)?,)*))
            }
        })*
    };
}

tuples!((A 0, B 1) (A 0, B 1, C 2));

/// A string of bytes, written and read at once.
pub mod byte_string {
    use super::{Form, FormError, Reader, Writer};

    /// Appends the length and the bytes.
    pub fn write(bytes: impl AsRef<[u8]>, out: &mut Writer) {
        bytes.as_ref().len().write(out);
        out.extend_from_slice(bytes.as_ref());
    }

    /// Reads the bytes.
    ///
    /// # Errors
    /// Fewer are left than the length says.
    pub fn read<T: From<Vec<u8>>>(input: &mut Reader<'_>) -> Result<T, FormError> {
        let len = usize::read(input)?;
        Ok(input.bytes(len)?.to_vec().into())
    }
}

/// A value that several owners share: it is written once, and shared again when it is read. It must not hold
/// another shared value.
pub mod shared {
    use std::any::Any;

    use super::{Arc, Form, FormError, Reader, Writer};

    /// Appends the value's number, and the value at its first use.
    pub fn write<T: Form>(value: &Arc<T>, out: &mut Writer) {
        // An address only tells whether two pointers share a value; it is not written.
        let (number, is_first) = out.share(Arc::as_ptr(value).addr());
        number.write(out);
        if is_first && !out.is_relative() {
            T::write(value, out);
        }
    }

    /// Reads the value, or finds it.
    ///
    /// # Errors
    /// The value cannot be read, or its number is that of something else.
    pub fn read<T: Form + Any + Send + Sync>(input: &mut Reader<'_>) -> Result<Arc<T>, FormError> {
        let number = usize::read(input)?;
        if let Some(known) = input.find(number)? {
            return Ok(known);
        }
        let value = Arc::new(T::read(input)?);
        input.keep(Arc::<T>::clone(&value));
        Ok(value)
    }
}

/// A count over a lifetime that is only reported. It does not distinguish two states
/// ([`Writer::relative_to`]).
pub mod lifetime {
    use super::{Form, FormError, Reader, Writer};

    /// Appends the count, unless states are compared.
    pub fn write<T: Form>(count: &T, out: &mut Writer) {
        if !out.is_relative() {
            count.write(out);
        }
    }

    /// Reads the count.
    ///
    /// # Errors
    /// The count cannot be read.
    pub fn read<T: Form>(input: &mut Reader<'_>) -> Result<T, FormError> {
        T::read(input)
    }
}

/// A value that is lent to what is read after it ([`Reader::lend`]).
pub mod lent {
    use std::any::Any;

    use super::{Arc, Form, FormError, Reader, Writer};

    /// Appends the value.
    pub fn write<T: Form>(value: &T, out: &mut Writer) {
        value.write(out);
    }

    /// Reads the value, and lends it.
    ///
    /// # Errors
    /// The value cannot be read.
    pub fn read<T: Form + Any + Clone + Send + Sync>(input: &mut Reader<'_>) -> Result<T, FormError> {
        let value = T::read(input)?;
        input.lend(Arc::new(value.clone()));
        Ok(value)
    }
}

/// A deque whose capacity counts: what it may grow to before it moves is part of the state.
pub mod with_capacity {
    use super::{Form, FormError, Reader, VecDeque, Writer};

    /// Appends the capacity and the deque.
    pub fn write<T: Form>(deque: &VecDeque<T>, out: &mut Writer) {
        deque.capacity().write(out);
        deque.write(out);
    }

    /// Reads the deque. Of a capacity that is far above the length only a part is allocated.
    ///
    /// # Errors
    /// The deque cannot be read.
    pub fn read<T: Form>(input: &mut Reader<'_>) -> Result<VecDeque<T>, FormError> {
        let capacity = usize::read(input)?;
        let values = VecDeque::<T>::read(input)?;
        let most = values.len().saturating_add(LEN_MIN).saturating_mul(TIMES_MAX);
        let mut deque = VecDeque::with_capacity(capacity.clamp(values.len(), most));
        deque.extend(values);
        Ok(deque)
    }

    /// The most that a capacity may be of the length, or of this length for a shorter deque.
    const TIMES_MAX: usize = 16;
    const LEN_MIN: usize = 64;
}
