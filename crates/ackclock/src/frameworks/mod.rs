//! The listener, stream and connector traits of other crates, each behind a feature with the crate's name.

#[cfg(any(feature = "axum", feature = "hyper"))]
mod addresses;
#[cfg(feature = "axum")]
mod axum;
#[cfg(any(feature = "hyper", feature = "tower"))]
mod connector;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "stream")]
mod stream;
#[cfg(feature = "tonic")]
mod tonic;

#[cfg(any(feature = "axum", feature = "hyper"))]
pub use self::addresses::Addresses;
#[cfg(any(feature = "hyper", feature = "tower"))]
pub use self::connector::Connector;
#[cfg(feature = "stream")]
pub use self::stream::TcpListenerStream;
