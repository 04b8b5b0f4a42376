//! Text that is one line, whatever is in it.

use std::fmt;

/// Writes text on, its control characters as Rust writes them in a literal (`\n`,
/// `\u{1b}`): what strangers said breaks no line and commands no terminal.
#[derive(Debug)]
pub struct Plain<W>(pub W);

impl<W: fmt::Write> fmt::Write for Plain<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, sign)) = rest.char_indices().find(|(_, sign)| sign.is_control()) {
            self.0.write_str(&rest[..at])?;
            write!(self.0, "{}", sign.escape_default())?;
            rest = &rest[at + sign.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    #[test]
    fn control_characters_are_escaped_and_nothing_else_is() {
        for (text, plain) in [
            ("a \"b\" \\ ä", "a \"b\" \\ ä"),
            ("a\nb\r\t", "a\\nb\\r\\t"),
            ("\u{1b}[2J\u{9b}\u{7f}", "\\u{1b}[2J\\u{9b}\\u{7f}"),
            ("", ""),
        ] {
            let mut written = Plain(String::new());
            write!(written, "{text}").unwrap();
            assert_eq!(written.0, plain);
        }
    }
}
