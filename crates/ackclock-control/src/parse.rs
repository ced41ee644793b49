//! Choices found by name, as strings and as values.

use crate::InvalidParameter;

/// Implements `FromStr` by `find(&str)`, so that setters take a name or a value alike.
macro_rules! found_by_name {
    ($($type:ty, $error:ty;)*) => {$(
        impl std::str::FromStr for $type {
            type Err = $error;

            fn from_str(name: &str) -> Result<Self, $error> {
                Self::find(name)
            }
        }

        impl TryFrom<&str> for $type {
            type Error = $error;

            fn try_from(name: &str) -> Result<Self, $error> {
                Self::find(name)
            }
        }

        impl TryFrom<&String> for $type {
            type Error = $error;

            fn try_from(name: &String) -> Result<Self, $error> {
                Self::find(name)
            }
        }
    )*};
}

found_by_name! {
    crate::profile::Profile, crate::profile::UnknownProfile;
    crate::profile::Recovery, crate::profile::UnknownRecovery;
    crate::profile::UndoChoice, InvalidParameter;
    crate::profile::AckPolicy, InvalidParameter;
    crate::profile::Ecn, InvalidParameter;
    crate::congestion::IdlePolicy, InvalidParameter;
    crate::rtt::RtoConfig, crate::rtt::InvalidRto;
    crate::bandwidth::SenderEstimatorKind, crate::bandwidth::InvalidEstimator;
}
