//! The numbers that the papers print of what the pictures draw, each with its place in its paper
//! (`printed.tsv`). Values that are judged and pictures that are drawn read them from here.

use ackclock_chart::{Series, Style};

use crate::draw::series;

/// A table, a figure or a section of a paper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(&'static str);

impl Place {
    pub const JACOBSON_3: Self = Self("Jacobson & Karels 1988, fig. 3");
    pub const JACOBSON_4: Self = Self("Jacobson & Karels 1988, fig. 4");
    /// The paper does not say which conversation got which rate: here, the first of them the most.
    pub const JACOBSON_8: Self = Self("Jacobson & Karels 1988, fig. 8");
    pub const JACOBSON_9: Self = Self("Jacobson & Karels 1988, fig. 9");
    pub const JACOBSON_10: Self = Self("Jacobson & Karels 1988, fig. 10");
    pub const JACOBSON_11: Self = Self("Jacobson & Karels 1988, fig. 11");
    pub const VEGAS_5: Self = Self("Brakmo & Peterson 1995, fig. 5");
    pub const VEGAS_7: Self = Self("Brakmo & Peterson 1995, fig. 7");
    pub const VEGAS_11: Self = Self("Brakmo & Peterson 1995, fig. 11");
    pub const TABLE_I: Self = Self("Brakmo & Peterson 1995, table I");
    pub const TABLE_II: Self = Self("Brakmo & Peterson 1995, table II");
    pub const TABLE_III: Self = Self("Brakmo & Peterson 1995, table III");
    pub const TABLE_IV: Self = Self("Brakmo & Peterson 1995, table IV");
    pub const VEGAS_FAIRNESS: Self = Self("Brakmo & Peterson 1995, §V-A");
    pub const VEGAS_LATENCY: Self = Self("Brakmo & Peterson 1995, §V-C");
    pub const BFA_FAIRNESS: Self = Self("Awadallah & Rai 1998, §4.3");
    pub const BFA_TRANSATLANTIC: Self = Self("Awadallah & Rai 1998, figs. 13 to 25");

    /// The number as the paper prints it. Empty if the table has none, which no band holds.
    pub fn words(self, quantity: &str, of: &str) -> &'static str {
        let wanted = [self.0, quantity, of];
        rows().find(|row| row[..3] == wanted).map_or("", |row| row[3])
    }

    /// The number.
    pub fn number(self, quantity: &str, of: &str) -> f64 {
        self.words(quantity, of).parse().unwrap_or(f64::NAN)
    }

    /// Its name in a legend: `the paper's (table III)`.
    pub fn legend(self) -> String {
        let place = self.0.split_once(", ").map_or(self.0, |(_, place)| place);
        format!("the paper's ({place})")
    }

    /// Its numbers as rings beside what is measured, in the same colours. The legend names them once.
    pub fn rings(self, series: impl IntoIterator<Item = (u8, Vec<(f64, f64)>)>) -> Vec<Series> {
        self.beside(Style::Rings, series)
    }

    /// Values that it states for a whole picture, as dotted lines in the colours of the measured series.
    pub fn dotted(self, series: impl IntoIterator<Item = (u8, Vec<(f64, f64)>)>) -> Vec<Series> {
        self.beside(Style::Dotted, series)
    }

    fn beside(self, style: Style, all: impl IntoIterator<Item = (u8, Vec<(f64, f64)>)>) -> Vec<Series> {
        let name = |first: usize| if first == 0 { self.legend() } else { String::new() };
        let drawn = |(index, (colour, points))| series(&name(index), style, colour, points);
        all.into_iter().enumerate().map(drawn).collect()
    }
}

/// The rows below the head: place, quantity, subject, number.
fn rows() -> impl Iterator<Item = [&'static str; 4]> {
    TABLE.lines().skip(1).filter_map(|line| line.split('\t').collect::<Vec<_>>().try_into().ok())
}

const TABLE: &str = include_str!("printed.tsv");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_number_is_there_once_and_is_one() {
        assert_eq!(rows().count(), TABLE.lines().count() - 1, "each row has four cells");
        let keys: BTreeSet<_> = rows().map(|[place, quantity, of, _]| (place, quantity, of)).collect();
        assert_eq!(keys.len(), rows().count());
        assert!(rows().all(|[.., number]| number.parse::<f64>().is_ok_and(f64::is_finite)));
    }

    #[test]
    fn a_number_is_found_as_the_paper_prints_it() {
        assert_eq!(Place::TABLE_III.words("KB sent again", "Reno/Vegas, 1 MB"), "1.8");
        assert_eq!(Place::BFA_TRANSATLANTIC.number("kbit/s²", "low: BFA"), 54.68);
        assert_eq!(Place::TABLE_III.words("KB sent again", "Reno/Vegas, 2 MB"), "");
        assert!(Place::TABLE_III.number("KB sent again", "Reno/Vegas, 2 MB").is_nan());
        assert_eq!(Place::TABLE_III.legend(), "the paper's (table III)");
    }
}
