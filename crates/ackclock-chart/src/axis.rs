//! Axes: their ends, their ticks and labels, and the mapping from values to pixels.

use crate::{Axis, Scale};

/// An axis with known ends and length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    scale: Scale,
    low: f64,
    high: f64,
    /// Pixels.
    length: f64,
}

/// A labelled value on the axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: String,
}

/// How much room an axis leaves beyond the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// None: lines begin and end at the frame.
    Tight,
    /// Enough to show a mark at the end whole.
    Marks,
    /// From zero, if it is not far off; some room on the other side.
    Quantity,
    /// An axis that begins at zero: bars stand on it.
    FromZero,
}

impl Mapping {
    pub fn new(scale: Scale, ends: (f64, f64), length: f64) -> Self {
        Self { scale, low: ends.0, high: ends.1, length }
    }

    pub fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    pub fn length(&self) -> f64 {
        self.length
    }

    /// Pixels from the low end; `None` for a value without a position, such as NaN, or 0 on a logarithmic
    /// axis.
    pub fn position(&self, value: f64) -> Option<f64> {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log if value > 0.0 => (value / self.low).ln() / (self.high / self.low).ln(),
            Scale::Log => f64::NAN,
        };
        // Far outside, a position only needs to be on the right side.
        share.is_finite().then(|| (share * self.length).clamp(-1e6, 1e6))
    }

    /// The ticks, about one in `spacing` pixels.
    pub fn ticks(&self, spacing: f64) -> Vec<Tick> {
        let wanted = (self.length / spacing).clamp(2.0, 20.0);
        if self.scale == Scale::Log {
            let ticks = log_ticks(self.low, self.high, wanted);
            if ticks.len() > 1 {
                return ticks;
            }
        }
        linear_ticks(self.low, self.high, wanted)
    }
}

/// The ends of `axis` for these values, ignoring NaN and infinities.
pub(crate) fn ends(axis: &Axis, values: impl Iterator<Item = f64>, room: Room) -> (f64, f64) {
    let usable = |value: f64| value.abs() < 1e300 && (axis.scale == Scale::Linear || value > 0.0);
    if let Some((low, high)) = axis.range
        && usable(low)
        && usable(high)
        && low < high
    {
        return (low, high);
    }
    if !axis.categories.is_empty() {
        return (-0.5, axis.categories.len() as f64 - 0.5);
    }
    let found = values.filter(|&value| usable(value)).fold(None, |ends: Option<(f64, f64)>, value| {
        Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    match (axis.scale, found) {
        (Scale::Linear, None) => (0.0, 1.0),
        (Scale::Log, None) => (1.0, 10.0),
        (Scale::Linear, Some(ends)) => linear_ends(ends, room),
        (Scale::Log, Some(ends)) => log_ends(ends, room),
    }
}

fn linear_ends((low, high): (f64, f64), room: Room) -> (f64, f64) {
    // A quantity whose minimum is near zero, compared with its range, is drawn from zero.
    let (low, high) = match room {
        Room::FromZero => (low.min(0.0), high.max(0.0)),
        Room::Quantity if low > 0.0 && low < 0.6 * high => (0.0, high),
        Room::Tight | Room::Marks if low > 0.0 && low < 0.1 * high => (0.0, high),
        _ => (low, high),
    };
    let span = high - low;
    if span <= 1e-9 * high.abs().max(low.abs()) || span == 0.0 {
        let half = if low == 0.0 { 0.5 } else { low.abs() * 0.1 };
        return (low - half, high + half);
    }
    let free = match room {
        Room::Tight => 0.0,
        Room::Marks => 0.02 * span,
        Room::Quantity | Room::FromZero => 0.05 * span,
    };
    let edge =
        |value: f64, outwards: f64| if value == 0.0 && room != Room::Marks { 0.0 } else { value + outwards };
    (edge(low, -free), edge(high, free))
}

fn log_ends((low, high): (f64, f64), room: Room) -> (f64, f64) {
    if high / low < 1.0 + 1e-9 {
        return (low / 2.0, high * 2.0);
    }
    let free = if room == Room::Tight { 1.0 } else { (high / low).powf(0.04) };
    (low / free, high * free)
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64, wanted: f64) -> Vec<Tick> {
    let step = nice((high - low) / wanted);
    // Tolerate ends that miss a tick only by rounding.
    let (first, last) = ((low / step - 1e-6).ceil(), (high / step + 1e-6).floor());
    // `wanted` is at most 20, and a nice step at least half the distance wanted; anything beyond is rounding.
    let count = (last - first).clamp(0.0, 60.0) as u32;
    let values: Vec<f64> = (0..=count).map(|index| (first + f64::from(index)) * step).collect();
    let largest = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    let (unit, prefix) = prefix(largest, 1e4);
    let digits = (-(step / unit).log10() - 1e-9).ceil().clamp(0.0, 12.0) as usize;
    let label = |value: f64| match value {
        0.0 => "0".to_owned(),
        _ => format!("{:.digits$}{prefix}", value / unit).replace('-', "−"),
    };
    values.into_iter().map(|value| Tick { value, label: label(value) }).collect()
}

/// Powers of ten; where these are few, also 2 and 5 times them.
fn log_ticks(low: f64, high: f64, wanted: f64) -> Vec<Tick> {
    let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let every = (f64::from(to - from) / wanted).ceil().max(1.0) as usize;
    let multiples: &[f64] = if (high / low).log10() <= 0.5 * wanted { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let mut ticks = Vec::new();
    for decade in (from..=to).step_by(every) {
        for multiple in multiples {
            let value = multiple * 10_f64.powi(decade);
            if (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(&value) {
                let (unit, prefix) = prefix(value, 1e3);
                ticks.push(Tick { value, label: format!("{}{prefix}", trimmed(value / unit)) });
            }
        }
    }
    ticks
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `raw`.
fn nice(raw: f64) -> f64 {
    let power = 10_f64.powf(raw.log10().floor());
    let multiple = raw / power;
    let chosen = [1.0, 2.0, 5.0].into_iter().find(|&nice| multiple <= nice * (1.0 + 1e-9));
    chosen.unwrap_or(10.0) * power
}

/// The unit and prefix for numbers of this size; thousands get one from `kilo` on.
fn prefix(largest: f64, kilo: f64) -> (f64, &'static str) {
    let prefixes = [
        (1e15, 1e15, "P"),
        (1e12, 1e12, "T"),
        (1e9, 1e9, "G"),
        (1e6, 1e6, "M"),
        (kilo, 1e3, "k"),
        (1e-3, 1.0, ""),
        (1e-6, 1e-6, "µ"),
        (0.0, 1e-9, "n"),
    ];
    // Tolerates a power of ten missed only by rounding.
    let found = prefixes.into_iter().find(|&(from, _, _)| largest * (1.0 + 1e-9) >= from);
    found.map_or((1.0, ""), |(_, unit, prefix)| (unit, prefix))
}

/// At most four significant digits, without trailing zeros.
fn trimmed(value: f64) -> String {
    let digits = (3.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, ends: (f64, f64)) -> Vec<String> {
        Mapping::new(scale, ends, 500.0).ticks(100.0).into_iter().map(|tick| tick.label).collect()
    }

    fn linear(ends: (f64, f64)) -> Vec<String> {
        labels(Scale::Linear, ends)
    }

    #[test]
    fn linear_ticks_are_multiples_of_1_2_or_5() {
        assert_eq!(linear((0.0, 10.0)), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(linear((0.0, 0.5)), ["0", "0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(linear((-30.0, 70.0)), ["−20", "0", "20", "40", "60"]);
        assert_eq!(linear((0.0, 230_400.0)), ["0", "50k", "100k", "150k", "200k"]);
        assert_eq!(linear((0.0, 9_000.0)), ["0", "2000", "4000", "6000", "8000"]);
        assert_eq!(linear((0.0, 2.5e6)), ["0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"]);
        assert_eq!(linear((0.0, 1.2e7)), ["0", "5M", "10M"]);
        assert_eq!(linear((0.0, 4.0e-5)), ["0", "10µ", "20µ", "30µ", "40µ"]);
        assert_eq!(linear((1.0, 1.002)), ["1.0000", "1.0005", "1.0010", "1.0015", "1.0020"]);
    }

    #[test]
    fn log_ticks_are_decades_and_between_few_of_them_2_and_5() {
        assert_eq!(labels(Scale::Log, (1.0, 1e5)), ["1", "10", "100", "1k", "10k", "100k"]);
        assert_eq!(labels(Scale::Log, (0.5, 60.0)), ["0.5", "1", "2", "5", "10", "20", "50"]);
        assert_eq!(labels(Scale::Log, (1e-4, 1.0)), ["100µ", "0.001", "0.01", "0.1", "1"]);
        assert_eq!(labels(Scale::Log, (1e-9, 1e9)).len(), 5, "every fourth decade");
        // Less than an octave has the ticks of a linear axis.
        assert_eq!(labels(Scale::Log, (21.0, 29.0)), ["22", "24", "26", "28"]);
    }

    #[test]
    fn positions_are_shares_of_the_length() {
        let linear = Mapping::new(Scale::Linear, (10.0, 20.0), 400.0);
        assert_eq!(linear.position(10.0), Some(0.0));
        assert_eq!(linear.position(12.5), Some(100.0));
        assert_eq!(linear.position(f64::NAN), None);
        assert_eq!(linear.position(f64::INFINITY), None);
        let log = Mapping::new(Scale::Log, (1.0, 100.0), 400.0);
        assert!((log.position(10.0).expect("inside") - 200.0).abs() < 1e-9);
        assert_eq!(log.position(0.0), None);
        assert_eq!(log.position(-1.0), None);
    }

    #[test]
    fn ends_hold_all_values_and_ignore_what_is_none() {
        let plain = Axis::default();
        let of = |values: &[f64], room| ends(&plain, values.iter().copied(), room);
        assert_eq!(of(&[], Room::Quantity), (0.0, 1.0));
        assert_eq!(of(&[f64::NAN, f64::INFINITY], Room::Quantity), (0.0, 1.0));
        assert_eq!(of(&[2.0, 100.0], Room::Quantity), (0.0, 105.0));
        assert_eq!(of(&[90.0, 100.0], Room::Quantity), (89.5, 100.5));
        assert_eq!(of(&[90.0, 100.0], Room::FromZero), (0.0, 105.0));
        assert_eq!(of(&[90.0, 100.0], Room::Tight), (90.0, 100.0));
        assert_eq!(of(&[7.0, 7.0], Room::Tight), (6.3, 7.7));
        assert_eq!(of(&[0.0], Room::Marks), (-0.5, 0.5));
    }

    #[test]
    fn given_ends_are_kept_unless_they_are_none() {
        let given = |range| Axis { range: Some(range), ..Axis::default() };
        assert_eq!(ends(&given((1.0, 2.0)), [5.0].into_iter(), Room::Tight), (1.0, 2.0));
        for range in [(2.0, 1.0), (1.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            assert_eq!(ends(&given(range), [4.0, 5.0].into_iter(), Room::Tight), (4.0, 5.0), "{range:?}");
        }
        let log = Axis { scale: Scale::Log, range: Some((0.0, 9.0)), ..Axis::default() };
        assert_eq!(ends(&log, [4.0, 5.0, -1.0, 0.0].into_iter(), Room::Tight), (4.0, 5.0));
    }

    #[test]
    fn values_that_only_rounding_tells_apart_end_in_a_few_ticks() {
        for base in [1e16, 1e-300, 1e299, -4e15, f64::MIN_POSITIVE] {
            let ends = ends(&Axis::default(), [base, base * (1.0 + 4e-16)].into_iter(), Room::Quantity);
            assert!(ends.0 < ends.1, "{base}");
            assert!(Mapping::new(Scale::Linear, ends, 500.0).ticks(10.0).len() < 60, "{base}");
        }
    }
}
