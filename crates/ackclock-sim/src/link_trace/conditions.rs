//! Rate, delay and loss over time, as CSV.
//!
//! The first line names the columns: `time`, and at least one of `rate`, `delay` and `loss`, in any order. A
//! name may carry the unit of its column, as in `rate (Mbit/s)`; otherwise each value carries its own. Units
//! are those of scenarios, and 0 needs none. A rate of 0 is an outage. Digits beyond the smallest unit are
//! cut off. An empty cell repeats the one above it.
//!
//! The first row is at time 0, and each lasts until the next. The last lasts as long as the one before it.

use super::{Governed, LinkTraceError, wrong};
use crate::scenario::unknown;
use crate::units::{Rate, Share, Span, UnitError};

/// The rows, one after the other.
#[derive(Debug, PartialEq)]
pub(crate) struct Conditions {
    rows: Vec<Row>,
    /// When the last row ends, in nanoseconds.
    length: u64,
    governed: Governed,
    /// Bits times 10⁹ that a whole round carries, if there are rates.
    round: u128,
}

/// The conditions from a time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    from: u64,
    /// In bits a second.
    pub rate: u64,
    pub delay: u64,
    pub loss: Share,
}

/// A time in a trace: the row, and how long it still lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub row: Row,
    /// Nanoseconds; `None` for ever.
    pub left: Option<u64>,
}

impl Position {
    /// Outside of any row.
    pub const NONE: Self = Self { row: Row::NONE, left: None };
}

impl Row {
    const NONE: Self = Self { from: 0, rate: 0, delay: 0, loss: Share::ZERO };
}

/// A column, with its unit if the heading has one.
#[derive(Clone, Copy)]
struct Column<'a> {
    name: &'a str,
    unit: &'a str,
}

impl Conditions {
    pub fn parse<'a>(mut lines: impl Iterator<Item = (usize, &'a str)>) -> Result<Self, LinkTraceError> {
        let (number, heading) = lines.next().ok_or(LinkTraceError::Empty("a line of names"))?;
        let columns = columns(number, heading)?;
        let has = |name| columns.iter().any(|column| column.name == name);
        let governed = Governed { rate: has("rate"), delay: has("delay"), loss: has("loss") };
        let mut rows: Vec<Row> = Vec::new();
        for (number, line) in lines {
            if rows.len() == ROWS_MAX {
                return Err(LinkTraceError::TooLong(ROWS_MAX));
            }
            rows.push(row(number, line, &columns, rows.last().copied())?);
        }
        let length = match &rows[..] {
            [] => return Err(LinkTraceError::Empty("a row at time 0")),
            [.., before, last] => last.from.saturating_add(last.from - before.from),
            [_] => 1_000_000_000,
        };
        let mut conditions = Self { rows, length, governed, round: 0 };
        conditions.round = conditions.capacity(length);
        if governed.rate && conditions.round == 0 {
            return Err(LinkTraceError::Empty("a rate above 0"));
        }
        Ok(conditions)
    }

    pub fn governed(&self) -> Governed {
        self.governed
    }

    /// Bits times 10⁹ that a round carries.
    pub fn round(&self) -> u128 {
        self.round
    }

    /// How long a round is, in nanoseconds.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The row that holds at `now`. A trace that does not repeat keeps its last row.
    pub fn at(&self, now: u64, repeats: bool) -> Position {
        let now = if repeats { now % self.length } else { now };
        let next = self.rows.partition_point(|row| row.from <= now);
        let row = self.rows[next.saturating_sub(1)];
        let end = self.rows.get(next).map(|row| row.from).or(repeats.then_some(self.length));
        Position { row, left: end.map(|end| end - now) }
    }

    pub fn mean_rate(&self) -> Option<Rate> {
        let rate = u64::try_from(self.round / u128::from(self.length)).unwrap_or(u64::MAX);
        self.governed.rate.then(|| Rate::bits_per_second(rate))
    }

    /// Bits times 10⁹ that are carried until `until`.
    pub fn capacity_until(&self, until: u64, repeats: bool) -> u128 {
        let last = self.rows.last().map_or(0, |row| row.rate);
        if repeats {
            u128::from(until / self.length) * self.round + self.capacity(until % self.length)
        } else {
            let beyond = until.saturating_sub(self.length);
            self.capacity(until.min(self.length)) + u128::from(beyond) * u128::from(last)
        }
    }

    /// The capacity within the first round.
    fn capacity(&self, until: u64) -> u128 {
        let ends = self.rows.iter().skip(1).map(|row| row.from).chain([self.length]);
        let rows = self.rows.iter().zip(ends).take_while(|(row, _)| row.from < until);
        rows.map(|(row, end)| u128::from(end.min(until) - row.from) * u128::from(row.rate)).sum()
    }
}

fn columns(number: usize, heading: &str) -> Result<Vec<Column<'_>>, LinkTraceError> {
    let mut columns: Vec<Column<'_>> = Vec::new();
    for text in heading.split(',').map(str::trim) {
        let (name, unit) = match text.split_once('(') {
            Some((name, unit)) => (name.trim_end(), unit.trim_end_matches(')').trim()),
            None => (text, ""),
        };
        if !NAMES.contains(&name) {
            return Err(wrong(number, unknown(name, NAMES.into_iter())));
        }
        if columns.iter().any(|column| column.name == name) {
            return Err(wrong(number, format!("found `{name}` twice; allowed is one column of a name")));
        }
        columns.push(Column { name, unit });
    }
    if columns.len() < 2 {
        return Err(wrong(number, "found `time` alone; it needs a column `rate`, `delay` or `loss`"));
    }
    Ok(columns)
}

/// Reads a line. Its empty cells are those of `above`.
fn row(number: usize, line: &str, columns: &[Column<'_>], above: Option<Row>) -> Result<Row, LinkTraceError> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    if cells.len() != columns.len() {
        let what = format!("found {} cells; allowed are as many as names, {}", cells.len(), columns.len());
        return Err(wrong(number, what));
    }
    let mut row = above.unwrap_or(Row::NONE);
    for (cell, Column { name, unit }) in cells.into_iter().zip(columns) {
        if cell.is_empty() {
            if *name == "time" || above.is_none() {
                return Err(wrong(
                    number,
                    format!("lacks a value for `{name}`; the first row and each time need one"),
                ));
            }
            continue;
        }
        match *name {
            "time" => row.from = value(number, cell, unit, str::parse::<Span>)?.0,
            "delay" => row.delay = value(number, cell, unit, str::parse::<Span>)?.0,
            "loss" => row.loss = value(number, cell, unit, str::parse::<Share>)?,
            _ if is_zero(cell) => row.rate = 0,
            _ => row.rate = value(number, cell, unit, Rate::read_limited)?.bits(),
        }
    }
    match above {
        None if row.from > 0 => Err(wrong(number, "the first row must be at time 0")),
        Some(above) if row.from <= above.from => {
            let (from, before) = (Span(row.from), Span(above.from));
            Err(wrong(number, format!("found the time {from} after {before}; allowed are times that grow")))
        }
        _ if row.from > LONGEST.0 || row.delay > LONGEST.0 => {
            Err(wrong(number, format!("found a time beyond {LONGEST}")))
        }
        _ => Ok(row),
    }
}

/// Reads a cell. Measurements have more digits than a quantity: those beyond the smallest unit go.
fn value<T>(
    number: usize,
    cell: &str,
    unit: &str,
    read: impl Fn(&str) -> Result<T, UnitError>,
) -> Result<T, LinkTraceError> {
    let end = cell.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(cell.len());
    let (mut digits, own) = cell.split_at(end);
    let unit = if own.is_empty() { unit } else { own };
    loop {
        match read(&format!("{digits}{unit}")) {
            Err(UnitError::NotWhole { .. }) if digits.contains('.') => digits = &digits[..digits.len() - 1],
            read => return read.map_err(|error| wrong(number, error.to_string())),
        }
    }
}

/// Whether a cell is 0, with or without a unit.
fn is_zero(cell: &str) -> bool {
    let digits = cell.trim_end_matches(|c: char| !c.is_ascii_digit());
    digits.contains('0') && digits.chars().all(|c| c == '0' || c == '.')
}

const NAMES: [&str; 4] = ["time", "rate", "delay", "loss"];
/// The most rows, 40 MB of memory.
const ROWS_MAX: usize = 1_000_000;
/// A year.
const LONGEST: Span = Span::seconds(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    fn conditions(text: &str) -> Conditions {
        Conditions::parse(lines(text)).expect("a trace")
    }

    #[test]
    fn units_stand_in_the_heading_or_with_the_values() {
        let with_heading = "time (ms),rate (Mbit/s),delay (ms),loss (%)\n0,10,20,0\n500,0,25.5,1.5\n";
        let with_values = "time,loss,rate,delay\n0,0,10Mbit/s,20ms\n0.5s,1.5%,0,25.5ms\n";
        assert_eq!(conditions(with_heading).rows, conditions(with_values).rows);
        let row = conditions(with_values).at(600_000_000, true).row;
        assert_eq!((row.rate, row.delay), (0, 25_500_000));
        assert_eq!(row.loss, Share::per_million(15_000));
    }

    #[test]
    fn digits_beyond_the_smallest_unit_are_cut_off_and_empty_cells_repeat() {
        let trace = conditions("time (s),rate (Mbit/s)\n0,1.23456789\n0.25,\n0.5,3\n");
        let rates: Vec<u64> = trace.rows.iter().map(|row| row.rate).collect();
        assert_eq!(rates, [1_234_567, 1_234_567, 3_000_000]);
    }

    #[test]
    fn a_trace_repeats_or_holds_its_last_row() {
        let trace = conditions("time (s),rate (bit/s)\n0,10\n1,20\n3,30\n");
        // The last row lasts two seconds, as the one before it.
        let rate = |seconds: u64, repeats| trace.at(seconds * 1_000_000_000, repeats).row.rate;
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 8].map(|at| rate(at, true)), [10, 20, 20, 30, 30, 10, 20, 30]);
        assert_eq!([4, 5, 100].map(|at| rate(at, false)), [30, 30, 30]);
        assert_eq!(trace.at(4_999_999_999, true).left, Some(1));
        assert_eq!(trace.at(4_999_999_999, false).left, None);
        // 10 + 40 + 60 bits in five seconds.
        assert_eq!(trace.mean_rate(), Some(Rate::bits_per_second(22)));
        assert_eq!(trace.capacity_until(6_000_000_000, true) / 1_000_000_000, 120);
        assert_eq!(trace.capacity_until(6_000_000_000, false) / 1_000_000_000, 140);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_line() {
        for (text, what) in [
            ("time", "line 1: found `time` alone; it needs a column"),
            (
                "time,rte\n",
                "line 1: found `rte`; allowed are `time`, `rate`, `delay`, `loss`; the nearest is `rate`",
            ),
            ("time,rate,rate\n", "line 1: found `rate` twice"),
            ("time,rate\n", "the trace carries nothing; it needs a row at time 0"),
            ("time,rate\n1s,1Mbit/s\n", "line 2: the first row must be at time 0"),
            ("time,rate\n0,1Mbit/s\n# a second\n1s,5\n", "line 4: `5` has no unit; write `5Mbit/s`"),
            ("time,rate\n0,1Mbit/s\n1s\n", "line 3: found 1 cells; allowed are as many as names, 2"),
            ("time,rate\n0,\n", "line 2: lacks a value for `rate`"),
            ("time,rate\n0,1Mbit/s\n2s,1kbit/s\n2s,1kbit/s\n", "line 4: found the time 2s after 2s"),
            ("time,rate\n0,0\n1s,0\n", "the trace carries nothing; it needs a rate above 0"),
            ("time,rate\n0,unlimited\n", "line 2: found `unlimited`"),
            ("time,loss (%)\n0,101\n", "line 2: found `101%`"),
            ("time,delay (ms)\n0,-3\n", "line 2: found `-3`"),
        ] {
            let error = Conditions::parse(lines(text)).unwrap_err().to_string();
            assert!(error.starts_with(what), "{text:?}: {error}");
        }
    }
}
