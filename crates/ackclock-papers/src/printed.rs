//! The numbers that the papers print of what the pictures draw, each with its place in its paper
//! (`printed.tsv`). Values that are judged and pictures that are drawn read them from here.

/// A table, a figure or a section of a paper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(pub(crate) &'static str);

pub(crate) const JACOBSON_3: Place = Place("Jacobson & Karels 1988, fig. 3");
pub(crate) const JACOBSON_4: Place = Place("Jacobson & Karels 1988, fig. 4");
/// The paper does not say which conversation got which rate: here, the first of them the most.
pub(crate) const JACOBSON_8: Place = Place("Jacobson & Karels 1988, fig. 8");
pub(crate) const JACOBSON_9: Place = Place("Jacobson & Karels 1988, fig. 9");
pub(crate) const JACOBSON_10: Place = Place("Jacobson & Karels 1988, fig. 10");
pub(crate) const JACOBSON_11: Place = Place("Jacobson & Karels 1988, fig. 11");
pub(crate) const VEGAS_5: Place = Place("Brakmo & Peterson 1995, fig. 5");
pub(crate) const VEGAS_7: Place = Place("Brakmo & Peterson 1995, fig. 7");
pub(crate) const VEGAS_11: Place = Place("Brakmo & Peterson 1995, fig. 11");
pub(crate) const TABLE_I: Place = Place("Brakmo & Peterson 1995, table I");
pub(crate) const TABLE_II: Place = Place("Brakmo & Peterson 1995, table II");
pub(crate) const TABLE_III: Place = Place("Brakmo & Peterson 1995, table III");
pub(crate) const TABLE_IV: Place = Place("Brakmo & Peterson 1995, table IV");
pub(crate) const VEGAS_FAIRNESS: Place = Place("Brakmo & Peterson 1995, §V-A");
pub(crate) const VEGAS_LATENCY: Place = Place("Brakmo & Peterson 1995, §V-C");
pub(crate) const BFA_FAIRNESS: Place = Place("Awadallah & Rai 1998, §4.3");
pub(crate) const BFA_TRANSATLANTIC: Place = Place("Awadallah & Rai 1998, figs. 13 to 25");

impl Place {
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
        assert_eq!(TABLE_III.words("KB sent again", "Reno/Vegas, 1 MB"), "1.8");
        assert_eq!(BFA_TRANSATLANTIC.number("kbit/s²", "low: BFA"), 54.68);
        assert_eq!(TABLE_III.words("KB sent again", "Reno/Vegas, 2 MB"), "");
        assert!(TABLE_III.number("KB sent again", "Reno/Vegas, 2 MB").is_nan());
        assert_eq!(TABLE_III.legend(), "the paper's (table III)");
    }
}
