//! What other crates expect of a listener, a stream or a connector, each behind a feature named for it.

#[cfg(any(feature = "axum", feature = "hyper"))]
mod addresses;
#[cfg(feature = "axum")]
mod axum;
#[cfg(any(feature = "hyper", feature = "tower"))]
mod connector;
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
