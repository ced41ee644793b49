//! Colours that readers with any kind of colour vision can tell apart.

/// Colours on white, in the order in which series use them.
///
/// The first eight are those of Okabe and Ito, "Color Universal Design" (2008), except that yellow, too pale
/// for lines on white, is replaced by a dark yellow, and black by grey. The others serve figures with more
/// kinds than eight, and differ from the first in lightness, too.
const ON_LIGHT: [&str; 16] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5f6368", "#8c7a00", "#7f4f24",
    "#6a3d9a", "#8a9097", "#a31545", "#1b5e3b", "#1f3a6e", "#9c7bd6", "#c0504d",
];

/// These hues, light enough for a dark background.
const ON_DARK: [&str; 16] = [
    "#4fa8e0", "#ff8a3d", "#2fc79a", "#e5a0c6", "#f2b633", "#8ed0f7", "#a8adb3", "#e8dc5a", "#c69a6d",
    "#b18ae6", "#737b83", "#f0708f", "#6fae86", "#7f9bd8", "#cdb8f5", "#e58a86",
];

/// The colours of a picture besides those of its series: on white, and on a dark background.
const GROUND: [&str; 2] = ["#fff", "#14171a"];
const INK: [&str; 2] = ["#24292f", "#e6e8ea"];
const PALE: [&str; 2] = ["#57606a", "#a2a9b0"];
const GRID: [&str; 2] = ["#e4e7eb", "#272c31"];
const FRAME: [&str; 2] = ["#8c959f", "#5a636c"];

/// Those of a picture that is drawn for white.
pub(crate) struct OnLight;

impl OnLight {
    pub const GROUND: &str = GROUND[0];
    pub const INK: &str = INK[0];
    pub const PALE: &str = PALE[0];
    pub const GRID: &str = GRID[0];
    pub const FRAME: &str = FRAME[0];
}

/// The colour number `colour` on white.
pub(crate) fn on_light(colour: u8) -> &'static str {
    ON_LIGHT[usize::from(colour % COLOURS)]
}

/// The custom properties `--c0`, `--c1`, … of a style sheet, for a light or a dark background.
pub(crate) fn properties(dark: bool) -> String {
    let palette = if dark { &ON_DARK } else { &ON_LIGHT };
    palette.iter().enumerate().map(|(index, colour)| format!("--c{index}:{colour};")).collect()
}

/// Rules of a style sheet that turn a picture drawn for white into one for a dark background: each colour
/// that its attributes name becomes the other.
pub(crate) fn dark_rules() -> String {
    let others = [GROUND, INK, PALE, GRID, FRAME];
    let pairs = ON_LIGHT.into_iter().zip(ON_DARK).chain(others.map(|[light, dark]| (light, dark)));
    let rule = |(light, dark): (&str, &str)| {
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
    };
    pairs.map(rule).collect()
}

/// The number of colours before they repeat.
pub(crate) const fn colours() -> u8 {
    COLOURS
}

const COLOURS: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_colour_and_the_first_sixteen_differ() {
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

    /// A reader tells the greys of one figure apart by their lightness.
    #[test]
    fn the_greys_differ_in_lightness() {
        for palette in [&ON_LIGHT, &ON_DARK] {
            let [dark, pale] = [6, 10].map(|grey| luminance(palette[grey]));
            let contrast = (dark.max(pale) + 0.05) / (dark.min(pale) + 0.05);
            assert!(contrast >= 1.5, "{contrast}");
        }
    }

    #[test]
    fn the_dark_rules_name_each_colour_of_a_picture() {
        let rules = dark_rules();
        let drawn = [OnLight::GROUND, OnLight::INK, OnLight::PALE, OnLight::GRID, OnLight::FRAME];
        for colour in (0..COLOURS).map(on_light).chain(drawn) {
            assert!(rules.contains(&format!("[fill=\"{colour}\"]{{fill:#")), "{colour} in {rules}");
        }
        for [light, dark] in [INK, PALE] {
            for (colour, ground) in [(light, "#ffffff"), (dark, GROUND[1])] {
                let (one, other) = (luminance(colour), luminance(ground));
                // WCAG 2.2, success criterion 1.4.3: text has a contrast of 4.5:1.
                assert!((one.max(other) + 0.05) / (one.min(other) + 0.05) >= 4.5, "{colour} on {ground}");
            }
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
