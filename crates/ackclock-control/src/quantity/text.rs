//! Quantities as text in files.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::ser::{Serialize, Serializer};

use super::{Bytes, Limit, Rate, Share, Span, units};

/// Reading and writing as text.
macro_rules! as_text {
    ($($kind:ty: $allowed:expr;)*) => {$(
        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Text($allowed))?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}

as_text! {
    Rate: units::RATES.allowed;
    Bytes: units::SIZES.allowed;
    Span: units::TIMES.allowed;
    Limit: units::LIMITS.allowed;
    Share: units::SHARES.allowed;
}

/// Reads a text. A bare number is kept as text, to be refused for its missing unit.
struct Text(&'static str);

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}
