//! The moments that are kept: all of the latest, and ever fewer of the older ones, so that a run may last for
//! days.

use std::sync::Arc;

use super::frame::Frame;

#[derive(Debug)]
pub(super) struct Record {
    frames: Vec<Arc<Frame>>,
    /// The values of all frames.
    size: usize,
}

impl Record {
    pub fn new() -> Self {
        Self { frames: Vec::new(), size: 0 }
    }

    /// Adds the next moment. If there are too many then, every second of the older half goes.
    pub fn push(&mut self, frame: Arc<Frame>) {
        self.size += frame.size();
        self.frames.push(frame);
        while (self.frames.len() > FRAMES_MAX || self.size > SIZE_MAX) && self.frames.len() >= FRAMES_MIN {
            let half = self.frames.len() / 2;
            let mut index = 0;
            self.frames.retain(|_| {
                index += 1;
                // The first one stays: rates count from it.
                index > half || index % 2 == 1
            });
            self.size = self.frames.iter().map(|frame| frame.size()).sum();
        }
    }

    pub fn frames(&self) -> &[Arc<Frame>] {
        &self.frames
    }
}

/// The most frames.
const FRAMES_MAX: usize = 1200;
/// The fewest that stay, however large the network is.
const FRAMES_MIN: usize = 50;
/// The most values, some 100 bytes each on the page.
const SIZE_MAX: usize = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(at: f64) -> Arc<Frame> {
        Arc::new(Frame {
            at,
            links: Vec::new(),
            flows: Vec::new(),
            connections: Vec::new(),
            connections_left_out: 0,
            down: Vec::new(),
            cuts: Vec::new(),
            late: None,
        })
    }

    #[test]
    fn a_long_run_keeps_its_ends_and_stays_bounded() {
        let mut record = Record::new();
        for number in 0..100_000 {
            record.push(frame(f64::from(number)));
            assert!(record.frames().len() <= FRAMES_MAX);
        }
        let times: Vec<f64> = record.frames().iter().map(|frame| frame.at).collect();
        assert!(times.len() >= FRAMES_MAX / 2, "{}", times.len());
        assert!(times.is_sorted());
        assert_eq!((times[0], times[times.len() - 1]), (0.0, 99_999.0));
        // The latest quarter is whole.
        let late = &times[times.len() - FRAMES_MAX / 4..];
        assert!(late.windows(2).all(|pair| pair[1] - pair[0] == 1.0), "{late:?}");
    }
}
