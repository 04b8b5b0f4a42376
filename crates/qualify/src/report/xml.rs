//! Text from outside, in XML and in the HTML that is XML too.

/// Text for an element or a quoted attribute. `special` gives what stands for a character
/// where it is written in its own way there. XML 1.0 has no place for most control
/// characters, not even escaped, and neither has HTML: they become U+FFFD.
pub(super) fn escaped(text: &str, special: impl Fn(char) -> Option<&'static str>) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => match special(c) {
                Some(written) => out.push_str(written),
                None if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                    out.push(char::REPLACEMENT_CHARACTER);
                }
                None => out.push(c),
            },
        }
    }
    out
}
