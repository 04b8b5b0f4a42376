//! Short texts that match a pattern.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Longest text.
const MAX_LENGTH: usize = 10_000;

/// A short text that matches `pattern`; none where it cannot be read.
pub(super) fn matching(pattern: &str) -> Option<String> {
    let mut text = String::new();
    write_match(&regex_syntax::parse(pattern).ok()?, &mut text)?;
    Some(text)
}

fn write_match(hir: &Hir, out: &mut String) -> Option<()> {
    if out.len() > MAX_LENGTH {
        return None;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => out.push(one_of(class)?),
        // What can be empty is.
        HirKind::Repetition(repeated) if repeated.sub.properties().minimum_len() == Some(0) => {}
        HirKind::Repetition(repeated) => {
            for _ in 0..repeated.min {
                write_match(&repeated.sub, out)?;
            }
        }
        HirKind::Capture(group) => write_match(&group.sub, out)?,
        HirKind::Concat(all) => {
            for part in all {
                write_match(part, out)?;
            }
        }
        HirKind::Alternation(any) => write_match(any.first()?, out)?,
    }
    Some(())
}

/// A character of the class, a plain one where it has any.
fn one_of(class: &Class) -> Option<char> {
    let Class::Unicode(class) = class else {
        return None;
    };
    let has = |c: char| {
        class
            .iter()
            .any(|range| (range.start()..=range.end()).contains(&c))
    };
    ['a', 'A', '0', '-', ' ']
        .into_iter()
        .find(|c| has(*c))
        .or_else(|| Some(class.iter().next()?.start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_match_is_found_and_no_pattern_takes_long() {
        for (pattern, expected) in [
            ("^[A-Z]{2}-\\d+$", Some("AA-0")),
            ("(x|y)?z{3}", Some("zzz")),
            ("[^a]", Some("A")),
            ("[\u{e9}-\u{ff}]", Some("\u{e9}")),
            ("((a?){1000}){1000}b", Some("b")),
            ("(a{1000}){1000}", None),
            ("(?=lookahead)", None),
            ("(", None),
        ] {
            assert_eq!(matching(pattern).as_deref(), expected, "{pattern}");
        }
    }
}
