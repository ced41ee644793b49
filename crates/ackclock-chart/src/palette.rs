//! Colours that readers with any kind of colour vision can tell apart.

/// Colours on white, in the order in which series use them.
///
/// These are the eight of Okabe and Ito, "Color Universal Design" (2008), except that yellow, too pale for
/// lines on white, is replaced by a dark yellow, and black by grey.
const ON_LIGHT: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5f6368", "#8c7a00"];

/// These hues, light enough for a dark background.
const ON_DARK: [&str; 8] =
    ["#4fa8e0", "#ff8a3d", "#2fc79a", "#e5a0c6", "#f2b633", "#8ed0f7", "#a8adb3", "#e8dc5a"];

/// The colour number `colour` on white.
pub(crate) fn on_light(colour: u8) -> &'static str {
    pick(&ON_LIGHT, colour)
}

/// The custom properties `--c0`, `--c1`, … of a style sheet, for a light or a dark background.
pub(crate) fn properties(dark: bool) -> String {
    let palette = if dark { &ON_DARK } else { &ON_LIGHT };
    palette.iter().enumerate().map(|(index, colour)| format!("--c{index}:{colour};")).collect()
}

/// The number of colours before they repeat.
pub(crate) const fn colours() -> u8 {
    COLOURS
}

const COLOURS: u8 = 8;

fn pick(palette: &[&'static str; 8], colour: u8) -> &'static str {
    palette[usize::from(colour % COLOURS)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_colour_and_the_first_eight_differ() {
        let distinct: std::collections::BTreeSet<_> = (0..COLOURS).map(on_light).collect();
        assert_eq!(distinct.len(), usize::from(COLOURS));
        assert_eq!(on_light(255), on_light(255 % COLOURS));
    }

    #[test]
    fn each_ground_has_every_colour() {
        for dark in [false, true] {
            let properties = properties(dark);
            assert!(
                (0..COLOURS).all(|colour| properties.contains(&format!("--c{colour}:#"))),
                "{properties}"
            );
        }
    }

    /// WCAG 2.2, success criterion 1.4.11: graphical objects have a contrast of 3:1 to their background.
    /// Orange and sky blue are the exceptions; Okabe and Ito chose them for their difference from the others.
    #[test]
    fn colours_stand_out_from_their_ground() {
        for (palette, ground) in [(&ON_LIGHT, "#ffffff"), (&ON_DARK, "#14171a")] {
            for colour in palette {
                let (one, other) = (luminance(colour), luminance(ground));
                let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                let least = if ["#e69f00", "#56b4e9"].contains(colour) { 2.0 } else { 3.0 };
                assert!(contrast >= least, "{colour} on {ground}: {contrast}");
            }
        }
    }

    fn luminance(colour: &str) -> f64 {
        let channel = |index: usize| {
            let value = u8::from_str_radix(&colour[index..index + 2], 16).expect("two hexadecimal digits");
            let share = f64::from(value) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }
}
