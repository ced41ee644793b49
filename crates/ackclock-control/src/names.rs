//! Names that a user gets nearly right.

/// The name with the fewest characters to change, insert or remove until it is `found`.
///
/// ```
/// use ackclock_control::names::nearest;
///
/// assert_eq!(nearest("rack", ["sack", "rack-tlp", "reno"]), Some("sack"));
/// ```
#[must_use]
pub fn nearest<'a>(found: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names.into_iter().min_by_key(|name| distance(found, name))
}

/// Levenshtein's distance (1966).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let (mut diagonal, mut left) = (i, i.saturating_add(1));
        for (j, y) in b.chars().enumerate() {
            let Some([current, above]) = row.get_mut(j..).and_then(<[usize]>::first_chunk_mut) else { break };
            let replaced = diagonal.saturating_add(usize::from(x != y));
            diagonal = *above;
            *current = left;
            left = replaced.min(diagonal.saturating_add(1)).min(left.saturating_add(1));
        }
        if let Some(last) = row.last_mut() {
            *last = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn distance_counts_changes_insertions_and_removals() {
        for (a, b, changes) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("µs", "us", 1),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (changes, changes), "{a} {b}");
        }
    }

    #[test]
    fn no_name_is_near_where_there_is_none() {
        assert_eq!(nearest("reno", []), None);
    }
}
