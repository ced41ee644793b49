//! Text in pictures: its width, its line breaks, and its escaping for XML.

/// The width of `text` in pixels at a font size in pixels; a few per cent too much rather than too little.
///
/// The reader's machine chooses the font, so this is the advance of DejaVu Sans, one of the widest usual
/// fonts.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let thousandths: u32 = text.chars().map(advance).sum();
    f64::from(thousandths) * size / 1000.0
}

/// The advance in thousandths of the font size, by class of character.
fn advance(character: char) -> u32 {
    match character {
        'i' | 'j' | 'l' | '\'' | '|' => 290,
        '.' | ',' | ':' | ';' | ' ' | 'I' | '/' | '\\' => 340,
        'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '!' | '-' => 420,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 990,
        'A'..='Z' => 720,
        '0'..='9' => 640,
        _ if (character as u32) < 0x2e80 => 640,
        _ => 1000,
    }
}

/// Breaks `text` between words into lines of at most `limit` pixels. A longer word has a separate line.
pub(crate) fn wrap(text: &str, size: f64, limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= limit => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `text` as XML or HTML element content or attribute value.
///
/// Control characters, which XML cannot express, become spaces.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            '\u{fffe}' | '\u{ffff}' => escaped.push(' '),
            _ if character.is_control() => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_lose_none() {
        let text =
            "Congestion window and bytes in transit of one Reno connection over the network of figure 6";
        let lines = wrap(text, 15.0, 300.0);
        assert!(lines.len() > 1);
        assert!(lines.iter().all(|line| width(line, 15.0) <= 300.0));
        assert_eq!(lines.join(" "), text);
    }

    #[test]
    fn a_word_wider_than_the_line_stays_whole() {
        assert_eq!(wrap("a incomprehensibilities b", 15.0, 20.0), ["a", "incomprehensibilities", "b"]);
        assert!(wrap("", 15.0, 20.0).is_empty());
    }

    #[test]
    fn what_xml_cannot_express_is_escaped_or_blank() {
        assert_eq!(escape("a<b & \"c\">\u{1}d\n"), "a&lt;b &amp; &quot;c&quot;&gt; d\n");
    }
}
