//! The one door.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::capture::Captures;

/// The laboratory: what its runs and its capture left, and the answers to requests.
#[derive(Debug, Default)]
pub struct Lab {
    captures: Captures,
}

/// What a page asks.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
enum Request {
    /// What there is to choose from.
    Catalogue,
    /// A capture of this name and length in bytes follows, in pieces.
    CaptureBegin { name: String, length: u64 },
    /// It is complete.
    CaptureEnd,
    /// A capture that is made here, for a reader without one.
    CaptureExample,
    /// A connection of the capture.
    CaptureConnection { index: usize },
    /// What happened to the data with this byte of that connection; the first is 1.
    CaptureByte { index: usize, byte: u64 },
}

impl Lab {
    /// A laboratory in which nothing was run.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers a request in JSON. A wrong request is answered by `{"error": ".."}`, which says what was
    /// wrong and what to do.
    #[must_use]
    pub fn answer(&mut self, request: &str) -> String {
        let answer = match serde_json::from_str(request) {
            Ok(request) => self.of(request),
            Err(error) => Err(format!("unknown request: {error}")),
        };
        answer.unwrap_or_else(|error| json!({ "error": error })).to_string()
    }

    /// Takes the next bytes of a capture, and answers how far it is.
    #[must_use]
    pub fn push(&mut self, chunk: &[u8]) -> String {
        self.captures.push(chunk).unwrap_or_else(|error| json!({ "error": error })).to_string()
    }

    fn of(&mut self, request: Request) -> Result<Value, String> {
        match request {
            Request::Catalogue => Ok(json!({})),
            Request::CaptureBegin { name, length } => self.captures.begin(name, length),
            Request::CaptureEnd => self.captures.end(),
            Request::CaptureExample => self.captures.example(),
            Request::CaptureConnection { index } => self.captures.connection(index),
            Request::CaptureByte { index, byte } => self.captures.byte(index, byte),
        }
    }
}
