//! The data of SVG's `<path>`, kept short: relative, in tenths of a pixel, without needless spaces.

use std::fmt::Write;

/// A path under construction.
#[derive(Debug, Default)]
pub(crate) struct PathData {
    data: String,
    /// The pen's position in tenths, as a reader of the data computes it, so that rounding does not
    /// accumulate.
    pen: (i64, i64),
    command: char,
}

impl PathData {
    /// Moves the pen without drawing.
    pub fn move_to(&mut self, x: f64, y: f64) {
        let to = (tenths(x), tenths(y));
        if self.data.is_empty() {
            self.write('M', &[to.0, to.1]);
        } else {
            self.write('m', &[to.0 - self.pen.0, to.1 - self.pen.1]);
        }
        self.pen = to;
    }

    /// Draws a line to a position; nothing if the pen is there already.
    pub fn line_to(&mut self, x: f64, y: f64) {
        let to = (tenths(x), tenths(y));
        let by = (to.0 - self.pen.0, to.1 - self.pen.1);
        match by {
            (0, 0) => return,
            (_, 0) => self.write('h', &[by.0]),
            (0, _) => self.write('v', &[by.1]),
            _ => self.write('l', &[by.0, by.1]),
        }
        self.pen = to;
    }

    /// Draws lines by these offsets, one after the other.
    pub fn lines_by(&mut self, steps: &[(f64, f64)]) {
        for (x, y) in steps {
            let to = (self.pen.0 + tenths(*x), self.pen.1 + tenths(*y));
            self.line_to(to.0 as f64 / 10.0, to.1 as f64 / 10.0);
        }
    }

    /// Draws a dot at the pen, for a pen with round caps.
    pub fn dot(&mut self) {
        self.write('h', &[0]);
    }

    /// Draws a circle around a position.
    pub fn circle(&mut self, x: f64, y: f64, radius: f64) {
        self.move_to(x - radius, y);
        for way in [2, -2] {
            let _ = write!(self.data, "a{radius} {radius} 0 1 0 {} 0", f64::from(way) * radius);
        }
        self.command = 'a';
    }

    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    pub fn data(&self) -> &str {
        &self.data
    }

    fn write(&mut self, command: char, numbers: &[i64]) {
        // Further numbers repeat the last command, except that numbers after `m` are lines.
        let repeats = command == self.command && !matches!(command, 'm' | 'M');
        if !repeats {
            self.data.push(command);
            self.command = command;
        }
        for (index, &number) in numbers.iter().enumerate() {
            if (repeats || index > 0) && number >= 0 {
                self.data.push(' ');
            }
            push_tenths(&mut self.data, number);
        }
    }
}

/// A distance in tenths of a pixel.
fn tenths(distance: f64) -> i64 {
    (distance * 10.0).round() as i64
}

/// A distance in pixels as SVG writes it.
pub(crate) fn pixels(distance: f64) -> String {
    let mut text = String::new();
    push_tenths(&mut text, tenths(distance));
    text
}

fn push_tenths(text: &mut String, number: i64) {
    let (whole, tenth) = (number.abs() / 10, number.abs() % 10);
    if number < 0 {
        text.push('-');
    }
    // Writing to a String does not fail.
    let _ = match (whole, tenth) {
        (_, 0) => write!(text, "{whole}"),
        (0, _) => write!(text, ".{tenth}"),
        _ => write!(text, "{whole}.{tenth}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_relative_and_without_needless_signs() {
        let mut path = PathData::default();
        path.move_to(10.0, 20.5);
        path.line_to(12.0, 20.5);
        path.line_to(12.0, 18.25);
        path.line_to(13.0, 18.0);
        path.line_to(14.0, 20.0);
        path.line_to(14.0, 20.0);
        path.move_to(0.0, 0.0);
        path.dot();
        assert_eq!(path.data(), "M10 20.5h2v-2.2l1-.3 1 2m-14-20h0");
    }

    #[test]
    fn rounding_does_not_add_up() {
        let mut path = PathData::default();
        path.move_to(0.0, 0.0);
        for index in 1..=1000 {
            path.line_to(f64::from(index) * 0.04, 0.0);
        }
        let sum: f64 = path
            .data()
            .trim_start_matches("M0 0h")
            .split(' ')
            .map(|by| by.parse::<f64>().expect("a number"))
            .sum();
        assert!((sum - 40.0).abs() < 0.05, "{sum}");
    }

    #[test]
    fn a_circle_ends_where_it_began() {
        let mut path = PathData::default();
        path.circle(10.0, 10.0, 4.0);
        path.move_to(6.0, 11.0);
        assert_eq!(path.data(), "M6 10a4 4 0 1 0 8 0a4 4 0 1 0 -8 0m0 1");
    }
}
