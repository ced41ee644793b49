//! State as data: a value is written to bytes, and read back from bytes that may be anything.
//!
//! A type that owns state implements [`Form`], nearly always by [`form!`], which names every field: a field
//! that is added and not named does not compile. The bytes depend on the value alone, so that equal states
//! have equal bytes: hash tables are written in the order of their keys.
//!
//! Bytes from outside are input. Reading them checks each length against what is left before it allocates,
//! each number against its range, and each owner against its own invariant.
//!
//! ```
//! use ackclock_form::{Form, FormError, Reader, Writer, form};
//!
//! #[derive(Debug, PartialEq)]
//! struct Window { cwnd: u64, ssthresh: Option<u64> }
//!
//! form! {
//!     struct Window { cwnd, ssthresh } => |window| window.cwnd > 0;
//! }
//!
//! let window = Window { cwnd: 14_600, ssthresh: None };
//! let mut out = Writer::default();
//! window.write(&mut out);
//! assert_eq!(Window::read(&mut Reader::new(out.bytes())), Ok(window));
//! assert_eq!(Window::read(&mut Reader::new(&[0, 0])), Err(FormError::Invariant("Window")));
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
// Tests index and cast freely: there a panic fails the test.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::indexing_slicing))]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod declare;
mod plain;
mod reader;
mod tables;
mod writer;

pub use self::reader::Reader;
pub use self::tables::{byte_string, lent, lifetime, shared, with_capacity};
pub use self::writer::Writer;

/// Something that can be written to bytes and read back.
pub trait Form: Sized {
    /// Appends the value to `out`.
    fn write(&self, out: &mut Writer);

    /// Reads the value back.
    ///
    /// # Errors
    /// The bytes are not what [`write`](Self::write) makes of any value.
    fn read(input: &mut Reader<'_>) -> Result<Self, FormError>;
}

/// Why bytes cannot be read as a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormError {
    /// The bytes end too early.
    #[error("it is shorter than what it says")]
    Short,
    /// Something follows the end.
    #[error("it is longer than what it says")]
    Long,
    /// A number is out of its range.
    #[error("a number is out of its range")]
    Number,
    /// A code has no meaning in this place.
    #[error("unknown code {0}")]
    Code(u8),
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// A choice has a name that this version does not know.
    #[error("a choice has a name that this version does not know")]
    Name,
    /// A congestion controller cannot be found, or does not take its parameters.
    #[error("{0}")]
    Controller(String),
    /// A part is not in its place, such as a result without its call.
    #[error("it is not where it belongs")]
    Misplaced,
    /// The parts of the named type contradict each other.
    #[error("the parts of its {0} contradict each other")]
    Invariant(&'static str),
    /// The value has state that bytes cannot hold.
    #[error("{0}")]
    Unsupported(&'static str),
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};
    use std::fmt::Debug;
    use std::net::{IpAddr, SocketAddr};
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn read<T: Form>(bytes: &[u8]) -> Result<T, FormError> {
        let mut input = Reader::new(bytes);
        let value = T::read(&mut input)?;
        input.end().map(|()| value)
    }

    /// The value is read back from its whole form, and from no part of it.
    fn comes_back<T: Form + PartialEq + Debug>(value: T) {
        let mut out = Writer::default();
        value.write(&mut out);
        for len in 0..out.len() {
            assert!(read::<T>(&out.bytes()[..len]).is_err(), "{value:?} from {len} of {} bytes", out.len());
        }
        assert_eq!(read::<T>(out.bytes()), Ok(value));
    }

    #[test]
    fn plain_values_come_back() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::MAX - 1, u64::MAX] {
            comes_back(number);
            comes_back(number.cast_signed());
        }
        comes_back((7_u8, 65_535_u16, u32::MAX));
        comes_back([Some(true), None, Some(false)]);
        comes_back(Duration::new(u64::MAX, 999_999_999));
        comes_back("a text with ü".to_owned());
        comes_back("10.0.0.1".parse::<IpAddr>().unwrap());
        comes_back("[fd00::1%7]:80".parse::<SocketAddr>().unwrap());
    }

    #[test]
    fn tables_come_back() {
        comes_back(vec![1_u32, 2, 3]);
        comes_back(VecDeque::from([vec![], vec![7_u64]]));
        comes_back(BTreeMap::from([(3_u16, true), (1, false)]));
    }

    #[test]
    fn what_no_value_has_is_refused() {
        assert_eq!(read::<u16>(&[0x80, 0x80, 4]), Err(FormError::Number), "65,536");
        assert_eq!(read::<u64>(&[0xff; 10]), Err(FormError::Number), "more than 64 bits");
        assert_eq!(read::<bool>(&[2]), Err(FormError::Code(2)));
        assert_eq!(read::<u8>(&[1, 2]), Err(FormError::Long));
        assert_eq!(read::<String>(&[1, 0xff]), Err(FormError::Text));
        assert_eq!(read::<Vec<u64>>(&[0xff, 0xff, 0xff, 0x7f]), Err(FormError::Short), "a list of 2^28");
        assert_eq!(
            read::<BTreeMap<u8, u8>>(&[2, 1, 1, 1, 2]),
            Err(FormError::Invariant("table")),
            "a key twice"
        );
    }

    #[test]
    fn shared_value_is_written_once_and_shared_again() {
        let value = Arc::new(vec![5_u64, 6]);
        let mut out = Writer::default();
        let before = [Arc::clone(&value), Arc::new(vec![]), value];
        before.iter().for_each(|value| shared::write(value, &mut out));
        assert_eq!(out.bytes(), [0, 2, 5, 6, 1, 0, 0]);
        let mut input = Reader::new(out.bytes());
        let [first, second, third] = [(); 3].map(|()| shared::read::<Vec<u64>>(&mut input).unwrap());
        assert!(Arc::ptr_eq(&first, &third) && !Arc::ptr_eq(&first, &second));
        assert_eq!((&*first, &*second), (&vec![5, 6], &vec![]));
        let misplaced = shared::read::<Vec<u64>>(&mut Reader::new(&[1, 0]));
        assert_eq!(misplaced, Err(FormError::Misplaced), "the second value without a first");
    }

    #[test]
    fn compared_states_differ_by_what_is_to_come_alone() {
        let bytes_at = |now: u64, due: u64, count: u64| {
            let mut out = Writer::relative_to(now);
            out.instant(due, u64::MAX);
            lifetime::write(&count, &mut out);
            shared::write(&Arc::new(count), &mut out);
            out.into_bytes()
        };
        assert_eq!(bytes_at(1000, 1200, 3), bytes_at(77_000, 77_200, 9));
        assert_ne!(bytes_at(1000, 1200, 3), bytes_at(1000, 1201, 3));
        assert_eq!(bytes_at(1000, 0, 3), bytes_at(2000, 0, 3), "zero is none, and stays");
        assert_eq!(bytes_at(1000, u64::MAX, 3), bytes_at(2000, u64::MAX, 3), "so does the far future");
    }

    #[test]
    fn capacity_comes_back_as_far_as_the_length_accounts_for_it() {
        let mut deque = VecDeque::with_capacity(100);
        deque.push_back(1_u8);
        let mut out = Writer::default();
        with_capacity::write(&deque, &mut out);
        let read = with_capacity::read::<u8>(&mut Reader::new(out.bytes())).unwrap();
        assert_eq!((&read, read.capacity()), (&deque, deque.capacity()));
        let read = with_capacity::read::<u8>(&mut Reader::new(&[0xff, 0xff, 0xff, 0x7f, 1, 7])).unwrap();
        assert!(read.capacity() < 2000, "{} of a capacity of 2^28", read.capacity());
    }
}
