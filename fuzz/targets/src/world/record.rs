//! A life that is recorded, and replayed.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use ackclock_control::congestion::Registry;
use ackclock_core::{EndpointConfig, Instant};
use ackclock_journal::{Changes, Journal, JournalEnd, JournalHeader, Replay};

/// The recordings of both ends.
#[derive(Debug, Default)]
pub(super) struct Recorder([Memory; 2]);

impl Recorder {
    pub(super) fn begin(&self, side: usize, config: &EndpointConfig, now: Instant) -> Journal {
        let header = JournalHeader {
            program: "a life".to_owned(),
            epoch_unix_nanos: None,
            start: now,
            config: config.clone(),
        };
        Journal::begin(Box::new(self.0[side].clone()), &header, u64::MAX).expect("memory takes it")
    }

    /// Replays what was recorded of both ends, which are no more, to its end. An endpoint is frozen and
    /// thawed before the calls that `cut` chooses by number. Returns the numbers of calls and of cuts.
    pub(super) fn check(&self, cut: impl Fn(u64) -> bool) -> (u64, u64) {
        let [(calls, cuts), (more_calls, more_cuts)] = self.0.each_ref().map(|memory| memory.check(&cut));
        (calls + more_calls, cuts + more_cuts)
    }
}

/// A file in memory.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn check(&self, cut: impl Fn(u64) -> bool) -> (u64, u64) {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An input too short for a scene has no ends.
        if file.is_empty() {
            return (0, 0);
        }
        let opened = Replay::open(&file[..], &Registry::with_experiments(), Changes::default());
        let mut replay = opened.unwrap_or_else(|why| panic!("{why}"));
        let mut cuts = 0;
        loop {
            if cut(replay.calls()) {
                cuts += 1;
                let call = replay.calls();
                let form = replay.thaw_in_place().unwrap_or_else(|why| panic!("before call {call}: {why}"));
                let again = replay.endpoint_mut().freeze().expect("it was frozen before");
                assert!(form == again, "before call {call} the thawed endpoint has another form");
            }
            let Some(step) = replay.step(|_, _| {}).unwrap_or_else(|why| panic!("{why}")) else { break };
            assert!(step.departure.is_none(), "{:?}", step.departure);
        }
        assert_eq!(replay.end(), Some(JournalEnd::Closed), "the recording breaks off");
        (replay.calls(), cuts)
    }
}

impl Write for Memory {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
