//! A capture, explained.

use serde_json::{Value, json};

/// The last capture.
#[derive(Debug, Default)]
pub(crate) struct Captures {}

impl Captures {
    /// A capture follows.
    pub(crate) fn begin(&mut self, _name: String, _length: u64) -> Result<Value, String> {
        Ok(json!({}))
    }

    /// The next bytes of it.
    pub(crate) fn push(&mut self, _chunk: &[u8]) -> Result<Value, String> {
        Err("no capture has begun; ask `capture-begin` first".to_owned())
    }

    /// The table of its connections.
    pub(crate) fn end(&mut self) -> Result<Value, String> {
        Err("no capture has begun; ask `capture-begin` first".to_owned())
    }

    /// One of its connections.
    pub(crate) fn connection(&self, _index: usize) -> Result<Value, String> {
        Err("no capture was read; ask `capture-begin` first".to_owned())
    }
}
