//! The door for a page's worker.

use std::sync::Arc;

use wasm_bindgen::prelude::wasm_bindgen;

use crate::{Lab, Script, ScriptEvent, ScriptState, Windows};

#[wasm_bindgen]
extern "C" {
    /// The worker defines this function, which calls the reader's `onAck`. It returns a pair of numbers for
    /// each of cwnd, ssthresh and the pacing rate: 1 and the new value, or two zeros to keep the old one.
    #[wasm_bindgen(js_name = labOnEvent, catch)]
    fn lab_on_event(connection: u32, event: u8, state: &[f64]) -> Result<Box<[f64]>, wasm_bindgen::JsValue>;
}

/// A laboratory in a page.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Page(Lab);

#[wasm_bindgen]
impl Page {
    /// A laboratory; `scripted` if the worker has a controller of the reader's.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(scripted: bool) -> Self {
        let mut lab = Lab::new();
        if scripted {
            // The name is free in a new laboratory.
            let _ = lab.add_script(Arc::new(OfWorker));
        }
        Self(lab)
    }

    /// As [`Lab::answer`].
    #[must_use]
    pub fn answer(&mut self, request: &str) -> String {
        self.0.answer(request)
    }

    /// As [`Lab::push`].
    #[must_use]
    pub fn push(&mut self, chunk: &[u8]) -> String {
        self.0.push(chunk)
    }
}

/// The controller that the worker has.
#[derive(Debug)]
struct OfWorker;

impl Script for OfWorker {
    fn answer(&self, connection: u32, event: ScriptEvent, state: &ScriptState) -> Result<Windows, String> {
        let answer = lab_on_event(connection, event as u8, &state.values());
        let answer = answer.map_err(|error| error.as_string().unwrap_or_else(|| format!("{error:?}")))?;
        let value = |at: usize| match answer.get(2 * at..2 * at + 2) {
            Some([given, value]) if *given > 0.0 => Some(*value),
            _ => None,
        };
        Ok(Windows { cwnd: value(0), ssthresh: value(1), pacing_rate: value(2) })
    }
}
