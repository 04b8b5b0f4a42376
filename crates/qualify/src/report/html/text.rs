//! Text from outside, in a page.

use crate::report::xml;

/// Text for an element or a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    xml::escaped(text, |c| match c {
        '\'' => Some("&#39;"),
        '\n' => Some("\n"),
        '\t' => Some("\t"),
        _ => None,
    })
}
