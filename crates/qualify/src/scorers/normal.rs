//! Text in a form in which only its words count.

use unicode_normalization::UnicodeNormalization as _;

/// The text in one form (NFKC), in lower case, without punctuation, words apart
/// by one space. What changes a meaning stays: a sign before a number, the point
/// in one, and symbols such as `%`, `$`, `+` and `#`.
pub(crate) fn text(text: &str) -> String {
    // Lower case may bring new compositions: once more into one form.
    let folded: String = text.nfkc().collect::<String>().to_lowercase();
    let folded: Vec<char> = folded.nfkc().collect();
    let mut out = String::with_capacity(folded.len());
    for (i, &c) in folded.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| folded.get(i)).copied();
        let after = folded.get(i + 1).copied();
        match place(before, c, after) {
            Place::Kept => out.push(c),
            Place::Space if out.ends_with(' ') || out.is_empty() => {}
            Place::Space => out.push(' '),
            Place::Nothing => {}
        }
    }
    if out.ends_with(' ') {
        out.pop();
    }
    out
}

enum Place {
    Kept,
    Space,
    Nothing,
}

fn place(before: Option<char>, c: char, after: Option<char>) -> Place {
    let is_digit = |c: Option<char>| c.is_some_and(char::is_numeric);
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    match c {
        // 3.5, 1,000 and -5, and neither an end of sentence nor a dash.
        '.' if is_digit(before) && is_digit(after) => Place::Kept,
        ',' if is_digit(before) && is_digit(after) => Place::Nothing,
        '-' | '\u{2212}' if is_digit(after) && !is_word(before) => Place::Kept,
        // don't is one word; the others join or direct and are not seen.
        '\''
        | '\u{2018}'
        | '\u{2019}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2060}'..='\u{2064}'
        | '\u{feff}'
        | '\u{ad}' => Place::Nothing,
        c if c.is_whitespace() || is_punctuation(c) => Place::Space,
        _ => Place::Kept,
    }
}

fn is_punctuation(c: char) -> bool {
    matches!(c,
        '!' | '"' | '(' | ')' | '*' | ',' | '-' | '.' | '/' | ':' | ';' | '?' | '[' | '\\' | ']'
        | '_' | '`' | '{' | '}' | '\u{a1}' | '\u{ab}' | '\u{b6}' | '\u{b7}' | '\u{bb}' | '\u{bf}'
        | '\u{2010}'..='\u{205e}' | '\u{2212}' | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}'
        | '\u{3014}'..='\u{301f}' | '\u{30fb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_count() {
        for (a, b) in [
            ("  The answer,\n is: **Paris**. ", "the answer is paris"),
            ("Cafe\u{301}", "CAFÉ"),
            ("ＦＵＬＬ　ｗｉｄｔｈ", "full width"),
            ("“well-known”", "well known"),
            ("don’t", "dont"),
            ("1,000 km", "1000 km"),
            ("\u{fb01}sh", "fish"),
            ("東京。", "東京"),
        ] {
            assert_eq!(text(a), text(b), "{a} {b}");
        }
    }

    #[test]
    fn what_changes_the_meaning_stays() {
        for (a, b) in [
            ("-5", "5"),
            ("3.5", "35"),
            ("C++", "C"),
            ("C#", "C"),
            ("5%", "5"),
            ("$5", "€5"),
            ("a b", "ab"),
        ] {
            assert_ne!(text(a), text(b), "{a} {b}");
        }
        assert_eq!(text("…"), "");
    }
}
