//! The `--progress` bar: bytes, rate, congestion window, time left. It shows only on a terminal.

use std::sync::Mutex;

use ackclock::{ConnectionInfo, FourTuple};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Look;
use crate::units::{bits_per_second, show_bytes, show_rate};

/// A bar on stderr.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    last: Mutex<(Look, f64)>,
}

impl Progress {
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(style("{spinner} {bytes} {msg}"));
        Self { bar, last: Mutex::default() }
    }

    pub fn show(&self, look: &Look, total: Option<u64>, connections: &[(FourTuple, ConnectionInfo)]) {
        if self.bar.is_hidden() {
            return;
        }
        if let Some(total) = total.filter(|_| self.bar.length().is_none()) {
            self.bar.set_length(total);
            self.bar.set_style(style("{bar:30} {bytes}/{total_bytes} {msg} {eta} left"));
        }
        let rate = self.smoothed_rate(look);
        let cwnd: u64 = connections.iter().map(|(_, info)| info.cwnd).sum();
        let srtt = connections.first().map_or(0.0, |(_, info)| info.srtt.as_secs_f64() * 1e3);
        self.bar.set_position(look.sent.max(look.received));
        self.bar.set_message(format!("{} cwnd {} rtt {srtt:.2} ms", show_rate(rate), show_bytes(cwnd)));
    }

    /// Prints a line above the bar.
    pub fn say(&self, text: &str) {
        if self.bar.is_hidden() {
            say!("{text}");
        } else {
            self.bar.println(text);
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// The rate of the last moments, one quarter of it from the last look.
    fn smoothed_rate(&self, look: &Look) -> f64 {
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (before, rate) = *last;
        let moved = (look.sent + look.received).saturating_sub(before.sent + before.received);
        let now = bits_per_second(moved, look.at.saturating_sub(before.at));
        let smoothed = if rate == 0.0 { now } else { rate * 0.75 + now * 0.25 };
        *last = (*look, smoothed);
        smoothed
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("█▉▊▋▌▍▎▏ ")
}
