//! Writes a source with the mutants at its places.

use std::fmt::Write;
use std::ops::Range;

use crate::Mutant;
use crate::places::{Place, What};

/// The whole source, with each place as a choice among its mutants.
pub(crate) fn render(source: &str, mut places: Vec<Place>) -> String {
    // Outer places come before those within them, and insertions before code that begins at the same byte.
    places.sort_by_key(|place| (place.at.start, !place.at.is_empty(), usize::MAX - place.at.end));
    Writer { source, places: &places }.text(0..source.len())
}

struct Writer<'a> {
    source: &'a str,
    places: &'a [Place],
}

impl Writer<'_> {
    /// A part of the source with its places.
    fn text(&self, part: Range<usize>) -> String {
        let mut out = String::new();
        let mut at = part.start;
        let begin = self.places.partition_point(|place| place.at.start < part.start);
        for (index, place) in self.places.iter().enumerate().skip(begin) {
            if place.at.start >= part.end {
                break;
            }
            if place.at.start < at {
                continue;
            }
            out += &self.source[at..place.at.start];
            out += &Writer { source: self.source, places: &self.places[index + 1..] }.place(place);
            at = place.at.end;
        }
        out + &self.source[at..part.end]
    }

    fn place(&self, place: &Place) -> String {
        if matches!(place.what, What::Const) {
            return String::new();
        }
        let number = place.number();
        format!("/*p{number}*/{}/*p{number}.*/", self.choice(place, number))
    }

    fn choice(&self, place: &Place, number: u32) -> String {
        match &place.what {
            What::Const => String::new(),
            What::Body => place.mutants().fold(String::new(), |mut out, mutant| {
                let (n, value) = (mutant.number, &mutant.replacement);
                let _ = write!(
                    out,
                    "if crate::mutants::active({number}) == {n} {{ /*m{n}*/return ({value})/*m{n}.*/ }} "
                );
                out
            }),
            What::Arm => place.mutants().fold(String::new(), |mut out, mutant| {
                let n = mutant.number;
                let _ = write!(out, " if /*m{n}*/crate::mutants::active({number}) != {n}/*m{n}.*/");
                out
            }),
            What::Binary { left, operator, right } => {
                let original = format!(
                    "({}) {} ({})",
                    self.text(left.clone()),
                    &self.source[operator.clone()],
                    self.text(right.clone())
                );
                let (left, right) = (&self.source[left.clone()], &self.source[right.clone()]);
                choose(place, number, &original, |mutant| {
                    format!("({left}) {} ({right})", mutant.replacement)
                })
            }
            What::Unary { operand } => {
                let operator = &self.source[place.at.start..operand.start];
                let original = format!("{operator}{}", self.text(operand.clone()));
                choose(place, number, &original, |_| self.source[operand.clone()].to_owned())
            }
            What::Guard => {
                let original = self.text(place.at.clone());
                choose(place, number, &original, |mutant| mutant.replacement.clone())
            }
            What::Field { name, value, base, path, base_is_place } => {
                let (base, path) = (&self.source[base.clone()], &self.source[path.clone()]);
                let without = if *base_is_place {
                    format!("({base}).{name}")
                } else {
                    format!("{{ let base: {path} = {base}; base.{name} }}")
                };
                let chosen = choose(place, number, &self.text(value.clone()), |_| without.clone());
                format!("{name}: {chosen}")
            }
        }
    }
}

/// An expression that is `original` unless a mutant of the place is active.
fn choose(place: &Place, number: u32, original: &str, replaced: impl Fn(&Mutant) -> String) -> String {
    let mut out = format!("(match crate::mutants::active({number}) {{ ");
    for mutant in place.mutants() {
        let n = mutant.number;
        let _ = write!(out, "{n} => /*m{n}*/{}/*m{n}.*/, ", replaced(mutant));
    }
    out + "_ => " + original + " })"
}
