//! The maximum over a sliding window of time, from three samples.
//!
//! K. Nichols's algorithm, which the draft names for its filters (§5.5.5). It keeps the best sample, the best
//! sample after it, and the best sample after that. When the best is too old, the next takes its place.

/// A windowed maximum; time is any count that does not fall.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxFilter {
    /// The best first. Each is no earlier than the one before it.
    best: [Sample; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    value: u64,
    at: u64,
}

impl MaxFilter {
    /// UpdateWindowedMaxFilter(): takes `value` at time `at` and returns the maximum of the last `window`.
    pub fn update(&mut self, value: u64, at: u64, window: u64) -> u64 {
        let new = Sample { value, at };
        let [first, second, third] = &mut self.best;
        if value >= first.value || at.saturating_sub(third.at) > window {
            self.best = [new; 3];
            return value;
        }
        if value >= second.value {
            (*second, *third) = (new, new);
        } else if value >= third.value {
            *third = new;
        }
        if at.saturating_sub(first.at) > window {
            (*first, *second, *third) = (*second, *third, new);
        } else if second.at == first.at && at.saturating_sub(first.at) > window / 4 {
            // A quarter of the window has passed without a second choice.
            (*second, *third) = (new, new);
        } else if third.at == second.at && at.saturating_sub(first.at) > window / 2 {
            *third = new;
        }
        first.value
    }
}

ackclock_form::form! {
    struct MaxFilter { best }
    struct Sample { value, at }
}

#[cfg(test)]
mod tests {
    use super::MaxFilter;

    #[test]
    fn maximum_lasts_for_the_window_and_the_next_best_follows() {
        let mut filter = MaxFilter::default();
        let samples = [(9, 0), (3, 1), (7, 3), (5, 6), (1, 8), (1, 10), (1, 11), (1, 13), (1, 14), (1, 17)];
        let found: Vec<u64> = samples.iter().map(|&(value, at)| filter.update(value, at, 10)).collect();
        assert_eq!(found, [9, 9, 9, 9, 9, 9, 7, 7, 5, 1]);
    }

    #[test]
    fn larger_value_takes_over_at_once_and_silence_forgets_all() {
        let mut filter = MaxFilter::default();
        assert_eq!(filter.update(5, 1, 10), 5);
        assert_eq!(filter.update(6, 2, 10), 6);
        assert_eq!(filter.update(1, 40, 10), 1);
    }
}
