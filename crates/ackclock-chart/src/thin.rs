//! Thins points without a visible difference: it drops what a pixel cannot show, never an extreme.

use std::collections::HashSet;

/// Which points of a joined series to draw, given their positions and a column width in pixels.
///
/// Of neighbours in one column, the first, the lowest, the highest and the last are kept in order, so the
/// line covers the same pixels. A point without a position breaks the line: `None`.
pub(crate) fn joined(places: &[Option<(f64, f64)>], column: f64) -> Vec<Option<usize>> {
    let mut kept = Vec::new();
    let mut index = 0;
    while index < places.len() {
        let Some((x, _)) = places[index] else {
            if !matches!(kept.last(), None | Some(None)) {
                kept.push(None);
            }
            index += 1;
            continue;
        };
        let here = (x / column).floor();
        let same = |place: &Option<(f64, f64)>| place.is_some_and(|(x, _)| (x / column).floor() == here);
        let end = index + places[index..].iter().take_while(|place| same(place)).count();
        let height = |at: &usize| places[*at].map_or(0.0, |(_, y)| y);
        let lowest = (index..end).min_by(|one, other| height(one).total_cmp(&height(other)));
        let highest = (index..end).max_by(|one, other| height(one).total_cmp(&height(other)));
        let mut column = vec![index, lowest.unwrap_or(index), highest.unwrap_or(index), end - 1];
        column.sort_unstable();
        column.dedup();
        kept.extend(column.into_iter().map(Some));
        index = end;
    }
    kept
}

/// Which single marks of a series to draw: one in each cell of `cell` by `cell` pixels, and the lowest and
/// the highest in each column of cells.
pub(crate) fn scattered(places: &[Option<(f64, f64)>], cell: f64) -> Vec<usize> {
    let at = |place: (f64, f64)| ((place.0 / cell).floor() as i64, (place.1 / cell).floor() as i64);
    let known = || places.iter().enumerate().filter_map(|(index, place)| place.map(|place| (index, place)));
    let mut extremes = std::collections::HashMap::new();
    for (index, place) in known() {
        let entry = extremes.entry(at(place).0).or_insert(((index, place.1), (index, place.1)));
        if place.1 < entry.0.1 {
            entry.0 = (index, place.1);
        }
        if place.1 > entry.1.1 {
            entry.1 = (index, place.1);
        }
    }
    let chosen: HashSet<usize> = extremes.values().flat_map(|(low, high)| [low.0, high.0]).collect();
    // An extreme represents its cell.
    let mut taken: HashSet<(i64, i64)> = chosen.iter().filter_map(|&index| places[index]).map(at).collect();
    known()
        .filter(|&(index, place)| chosen.contains(&index) || taken.insert(at(place)))
        .map(|(index, _)| index)
        .collect()
}

/// Which vertical lines to draw: each that is at least `least` pixels to the right of the one before it, or
/// anywhere to its left.
pub(crate) fn apart(places: &[Option<(f64, f64)>], least: f64) -> Vec<usize> {
    let mut last = f64::NEG_INFINITY;
    let known = places.iter().enumerate().filter_map(|(index, place)| place.map(|(x, _)| (index, x)));
    let far = known.filter(|&(_, x)| {
        let far = !(0.0..least).contains(&(x - last));
        if far {
            last = x;
        }
        far
    });
    far.map(|(index, _)| index).collect()
}

/// The finest result of `thin` with at most `budget` entries, from steps of one pixel on.
pub(crate) fn within<T>(budget: usize, thin: impl Fn(f64) -> Vec<T>) -> Vec<T> {
    let mut step = 1.0;
    loop {
        let kept = thin(step);
        if kept.len() <= budget || step > 64.0 {
            return kept;
        }
        step *= 1.5;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sine over 800 pixels with two spikes.
    fn spiky(count: usize) -> Vec<Option<(f64, f64)>> {
        let mut places: Vec<_> = (0..count)
            .map(|index| index as f64 / count as f64)
            .map(|share| Some((share * 800.0, 100.0 + 50.0 * (share * 9.0).sin())))
            .collect();
        places[count / 3] = places[count / 3].map(|(x, _)| (x, 0.25));
        places[count / 2] = places[count / 2].map(|(x, _)| (x, 199.75));
        places
    }

    #[test]
    fn thinned_lines_keep_extremes_of_each_column_and_order() {
        let places = spiky(100_000);
        let kept: Vec<usize> = joined(&places, 1.0).into_iter().flatten().collect();
        assert!(kept.len() <= 4 * 801, "{}", kept.len());
        assert!(kept.is_sorted());
        for index in [0, 33_333, 50_000, 99_999] {
            assert!(kept.contains(&index), "{index}");
        }
    }

    #[test]
    fn short_lines_are_kept_whole() {
        let places: Vec<_> = (0..50).map(|index| Some((f64::from(index) * 3.0, 1.0))).collect();
        assert_eq!(joined(&places, 1.0), (0..50).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn a_point_without_place_breaks_the_line_once() {
        let places = [None, Some((1.0, 1.0)), None, None, Some((5.0, 1.0)), None];
        assert_eq!(joined(&places, 1.0), [Some(1), None, Some(4), None]);
    }

    #[test]
    fn scattered_marks_keep_extremes_and_one_in_each_cell() {
        let places = spiky(100_000);
        let kept = scattered(&places, 2.0);
        assert!(kept.len() < 5_000, "{}", kept.len());
        assert!(kept.contains(&33_333) && kept.contains(&50_000));
        let cell =
            |index: usize| places[index].map(|(x, y)| ((x / 2.0).floor() as i64, (y / 2.0).floor() as i64));
        let shown: HashSet<_> = kept.iter().map(|&index| cell(index)).collect();
        assert!((0..places.len()).all(|index| shown.contains(&cell(index))));
    }

    #[test]
    fn lines_that_would_touch_are_drawn_once() {
        let places = [0.0, 1.0, 2.9, 3.0, 4.0, 50.0, 51.0, 1.0].map(|x| Some((x, 0.0)));
        assert_eq!(apart(&places, 3.0), [0, 3, 5, 7]);
        assert_eq!(apart(&places, 0.0).len(), places.len());
    }

    #[test]
    fn a_budget_is_kept_by_coarser_steps() {
        let places = spiky(100_000);
        let kept = within(500, |step| scattered(&places, step));
        assert!(kept.len() <= 500);
        assert!(kept.contains(&33_333) && kept.contains(&50_000));
    }
}
