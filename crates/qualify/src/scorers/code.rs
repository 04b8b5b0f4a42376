//! `code`: source text that parses. It is never run.

use super::{Answered, Grade};
use crate::golden::Keys;
use std::ops::ControlFlow;
use tree_sitter::{Language, Node, ParseOptions, ParseState, Parser};

/// Most bytes of code that are parsed.
const LARGEST: usize = 1 << 20;
/// Progress reports after which a parse is given up; one comes every hundred steps
/// of the parser, and a file of a megabyte took some tens of thousands.
const MOST_REPORTS: u32 = 1_000_000;

/// The languages there are grammars for, by the names they go by after a fence.
const LANGUAGES: [(&str, Grammar, &[&str]); 4] = [
    ("python", Grammar::Python, &["python", "py", "python3"]),
    (
        "javascript",
        Grammar::JavaScript,
        &["javascript", "js", "jsx", "mjs", "node"],
    ),
    ("rust", Grammar::Rust, &["rust", "rs"]),
    ("go", Grammar::Go, &["go", "golang"]),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grammar {
    Python,
    JavaScript,
    Rust,
    Go,
}

/// The code in the answer parses: every fenced block of the language, else the
/// blocks without one, else the whole text where there is no fence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parses {
    grammar: Grammar,
    names: &'static [&'static str],
}

impl Parses {
    pub(super) fn read(keys: &mut Keys<'_>) -> Option<Self> {
        if !keys.has("language") {
            keys.fault("the scorer needs a `language`: python, javascript, rust or go");
        }
        let words = LANGUAGES.map(|(name, grammar, names)| (name, (grammar, names)));
        let (grammar, names) = keys.word("language", &words)?;
        Some(Self { grammar, names })
    }

    pub(super) fn grade(&self, answer: &Answered<'_>) -> Grade {
        let blocks = self.blocks(answer.text());
        if blocks.iter().all(|block| block.trim().is_empty()) {
            return Grade::wrong("no code in the answer");
        }
        let fault = blocks.iter().find_map(|block| self.fault(block));
        match fault {
            None => Grade::right(true),
            Some(fault) => Grade::wrong(fault),
        }
    }

    fn blocks<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let fenced = fences(text);
        if fenced.is_empty() {
            return vec![text];
        }
        let of = |names: &[&str]| -> Vec<&'t str> {
            let is_named = |info: &str| names.iter().any(|name| info.eq_ignore_ascii_case(name));
            let found = fenced.iter().filter(|(info, _)| is_named(info));
            found.map(|(_, code)| *code).collect()
        };
        let named = of(self.names);
        if named.is_empty() { of(&[""]) } else { named }
    }

    fn fault(&self, code: &str) -> Option<String> {
        if code.len() > LARGEST {
            return Some("more code than is parsed".into());
        }
        let mut parser = Parser::new();
        if let Err(error) = parser.set_language(&self.grammar.language()) {
            return Some(error.to_string());
        }
        let mut reports = 0;
        let mut give_up = |_: &ParseState| {
            reports += 1;
            if reports > MOST_REPORTS {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let options = ParseOptions::new().progress_callback(&mut give_up);
        let bytes = code.as_bytes();
        let mut rest = |at: usize, _| bytes.get(at..).unwrap_or_default();
        let Some(tree) = parser.parse_with_options(&mut rest, None, Some(options)) else {
            return Some("takes too long to parse".into());
        };
        let root = tree.root_node();
        root.has_error().then(|| {
            let line = first_fault(root).map_or(1, |node| node.start_position().row + 1);
            format!("does not parse at line {line} of the code")
        })
    }
}

impl Grammar {
    fn language(self) -> Language {
        match self {
            Self::Python => tree_sitter_python::LANGUAGE.into(),
            Self::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            Self::Rust => tree_sitter_rust::LANGUAGE.into(),
            Self::Go => tree_sitter_go::LANGUAGE.into(),
        }
    }
}

/// The first node that stands for a fault. Only nodes that hold one are followed,
/// on a stack of its own: nesting is up to the model.
fn first_fault(root: Node<'_>) -> Option<Node<'_>> {
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        if node.is_error() || node.is_missing() {
            return Some(node);
        }
        let mut cursor = node.walk();
        let faulty: Vec<Node<'_>> = node.children(&mut cursor).filter(Node::has_error).collect();
        open.extend(faulty.into_iter().rev());
    }
    None
}

/// The fenced blocks of a text (`CommonMark` 0.31, section 4.5): the first word
/// after the fence, and what is between. A fence that is never closed goes on to
/// the end.
fn fences(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut open: Option<(&str, &str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let begin = at;
        at += line.len();
        let trimmed = line.trim_start_matches(' ').trim_end();
        let fence = fence(trimmed);
        match open {
            None => {
                // No info string of a fence of backticks has one in it.
                if let Some(fence) = fence
                    && !(fence.starts_with('`') && trimmed[fence.len()..].contains('`'))
                {
                    let info = trimmed[fence.len()..].trim();
                    let info = info.split(|c: char| c.is_whitespace() || c == '{');
                    open = Some((fence, info.into_iter().next().unwrap_or_default(), at));
                }
            }
            Some((opening, info, from)) => {
                let closes = fence.is_some_and(|f| f.starts_with(opening) && f == trimmed);
                if closes {
                    found.push((info, &text[from..begin]));
                    open = None;
                }
            }
        }
    }
    found.extend(open.map(|(_, info, from)| (info, &text[from..])));
    found
}

/// Three or more backticks or tildes that a line begins with.
fn fence(line: &str) -> Option<&str> {
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == mark).count();
    (length >= 3).then(|| &line[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parses(language: &str, text: &str) -> bool {
        let (_, grammar, names) = LANGUAGES
            .into_iter()
            .find(|(name, ..)| *name == language)
            .unwrap();
        let scorer = Parses { grammar, names };
        let blocks = scorer.blocks(text);
        !blocks.is_empty() && blocks.iter().all(|block| scorer.fault(block).is_none())
    }

    #[test]
    fn each_language_is_told_from_what_it_is_not() {
        for (language, right, wrong) in [
            (
                "python",
                "def f(x):\n    return x + 1\n",
                "def f(x:\n    return",
            ),
            ("javascript", "const f = (x) => x + 1;", "const f = (x => ;"),
            ("rust", "fn f(x: u8) -> u8 { x + 1 }", "fn f(x: u8 -> { x"),
            (
                "go",
                "package a\nfunc F(x int) int { return x }",
                "func F(x int { return",
            ),
        ] {
            assert!(parses(language, right), "{language}");
            assert!(!parses(language, wrong), "{language}");
            let fenced = format!("Here:\n```{language}\n{right}\n```\nDone.");
            assert!(parses(language, &fenced), "{language} in a fence");
        }
    }

    #[test]
    fn blocks_of_the_language_count_and_others_do_not() {
        let text = "```sh\npip install (\n```\n```py\nx = 1\n```\n";
        assert!(parses("python", text));
        assert!(!parses(
            "python",
            "```py\nx = 1\n```\n~~~python\nx = (\n~~~"
        ));
        assert!(!parses("rust", "```py\nx = 1\n```"), "no block of it");
        assert!(
            parses("rust", "```\nfn a() {}\n```"),
            "a block of no language"
        );
        assert!(!parses("python", "```python\nx = ("), "cut off");
        assert!(parses("python", "````md\n```\n````\n```python\nx = 1\n```"));
    }

    #[test]
    fn no_code_is_too_deep_or_too_long() {
        assert!(!parses("python", &"(".repeat(200_000)));
        assert!(!parses("python", &"x=1\n".repeat(LARGEST)));
    }
}
