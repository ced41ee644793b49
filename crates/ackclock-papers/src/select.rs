//! Experiments by their ids.

use crate::{Experiment, experiments};

/// A word names no experiment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no experiment is called `{word}`; choose of: {}", .ids.join(", "))]
pub struct UnknownExperiment {
    /// The word.
    pub word: String,
    /// The ids of all experiments.
    pub ids: Vec<&'static str>,
}

/// The experiments named by one of `words`, in the order of the papers; all of them without words. A word is
/// an id, a number of one, or the letters of several: `VE5/7`, `VE7`, `VE`.
///
/// # Errors
/// [`UnknownExperiment`]; its message lists the ids.
pub fn select(words: &[String]) -> Result<Vec<&'static Experiment>, UnknownExperiment> {
    select_from(&experiments(), words)
}

fn select_from<'a>(
    all: &[&'a Experiment],
    words: &[String],
) -> Result<Vec<&'a Experiment>, UnknownExperiment> {
    if let Some(wrong) = words.iter().find(|word| !all.iter().any(|one| matches(one.id, word))) {
        return Err(UnknownExperiment { word: wrong.clone(), ids: all.iter().map(|one| one.id).collect() });
    }
    let chosen = |one: &&Experiment| words.is_empty() || words.iter().any(|word| matches(one.id, word));
    Ok(all.iter().copied().filter(chosen).collect())
}

/// Whether a word names an experiment: its id (`VE5/7`), one of the figures or tables in it (`VE5`, `VE7`,
/// `JE9` of `JE7-12`), or a prefix that does not end within a number (`VE`). Case is ignored.
fn matches(id: &str, word: &str) -> bool {
    let (id, word) = (id.to_lowercase(), word.to_lowercase());
    let Some(rest) = id.strip_prefix(&word) else { return has_number(&id, &word) };
    let within_a_number = word.ends_with(digit) && rest.starts_with(digit);
    !word.is_empty() && !within_a_number
}

/// Whether `word` is the letters of `id` and one of its numbers: single, after a slash, or in a range.
fn has_number(id: &str, word: &str) -> bool {
    let letters = id.find(digit).unwrap_or(id.len());
    let (series, numbers) = id.split_at(letters);
    let Some(Ok(number)) = word.strip_prefix(series).map(str::parse::<u32>) else { return false };
    numbers.split('/').any(|part| match part.split_once('-') {
        Some((first, last)) => {
            first.parse().is_ok_and(|first: u32| first <= number)
                && last.parse().is_ok_and(|last: u32| number <= last)
        }
        None => part.parse() == Ok(number),
    })
}

fn digit(c: char) -> bool {
    c.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Findings;

    #[test]
    fn a_word_is_an_id_a_number_of_it_or_a_series() {
        for (id, word) in [
            ("VE5/7", "VE5/7"),
            ("VE5/7", "ve5"),
            ("VE5/7", "VE7"),
            ("VE11", "ve"),
            ("JE7-12", "JE9"),
            ("JE7-12", "JE12"),
            ("VE-2way", "VE-2way"),
            ("VE-2way", "ve"),
            ("VF", "vf"),
        ] {
            assert!(matches(id, word), "{word} names {id}");
        }
        for (id, word) in
            [("VE11", "VE1"), ("VE5/7", "VE6"), ("JE7-12", "JE13"), ("VT1/2", "VT12"), ("VE11", "")]
        {
            assert!(!matches(id, word), "{word} does not name {id}");
        }
    }

    #[test]
    fn a_wrong_word_is_named_with_what_would_do() {
        let one = |id| Experiment { id, source: "", title: "", set_up: "", run: || Ok(Findings::default()) };
        let (first, second) = (one("VE5/7"), one("BE4-6"));
        let all = [&first, &second];
        let ids = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            select_from(&all, &words).map(|chosen| chosen.iter().map(|one| one.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["be5", "VE7"]).unwrap(), ["VE5/7", "BE4-6"]);
        assert_eq!(ids(&[]).unwrap(), ["VE5/7", "BE4-6"]);
        let error = ids(&["VE5", "VE99"]).unwrap_err().to_string();
        assert!(error.contains("`VE99`") && error.contains("VE5/7, BE4-6"), "{error}");
    }
}
