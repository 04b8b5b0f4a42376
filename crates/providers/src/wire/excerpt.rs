//! Short, safe excerpts of what a provider wrote: one line, no markup, no keys.

use secrecy::{ExposeSecret, SecretString};

/// Longest excerpt, characters.
const MAX_CHARS: usize = 300;
/// Longest excerpt of a web page, characters: its title or first words.
const MAX_PAGE_CHARS: usize = 120;
/// What stands for a masked key.
const MASK: &str = "[masked]";
/// Starts of keys as providers issue them.
const KEY_STARTS: [&str; 12] = [
    "sk-", "sk_", "pk-", "rk-", "gsk_", "xai-", "aiza", "hf_", "ya29.", "eyj", "key-", "pplx-",
];
/// Shortest word after one of [`KEY_STARTS`] that is taken for a key.
const MIN_KEY_CHARS: usize = 8;
/// Unbroken runs of letters and digits from this length on are taken for keys
/// or their hashes: an MD5 in hex is the shortest in use.
const MIN_HASH_CHARS: usize = 32;
/// How much of a text is looked at.
const MAX_READ_BYTES: usize = 8 * 1024;

/// An excerpt of `text` in one line of at most 300 characters. What looks like
/// a key is masked, and so is every occurrence of `key`.
pub(crate) fn excerpt(text: &str, key: Option<&SecretString>) -> String {
    let text = head(text);
    let text = match key.map(ExposeSecret::expose_secret) {
        Some(key) if !key.is_empty() => text.replace(key, MASK),
        _ => text.to_owned(),
    };
    match page_text(&text) {
        Some(page) => cut(&mask(&page), MAX_PAGE_CHARS),
        None => cut(&mask(&text), MAX_CHARS),
    }
}

/// A provider's machine code, where it can be one: short, and of the
/// characters that codes are made of.
pub(crate) fn code(text: &str) -> Option<String> {
    let fits = (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':'))
        && mask(text) == text;
    fits.then(|| text.to_owned())
}

/// The path of a request's field, where it can be one.
pub(crate) fn path(text: &str) -> Option<String> {
    let fits = (1..=128).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-.:[]/'".contains(&b))
        && mask(text) == text;
    fits.then(|| text.to_owned())
}

fn head(text: &str) -> &str {
    let mut end = text.len().min(MAX_READ_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max - 1) {
        Some((end, _)) if text.chars().nth(max).is_some() => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}

/// The words of a web page (the title first, since it comes first); none where
/// the text is no page.
fn page_text(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let starts = ["<!doctype", "<html", "<head", "<body", "<title"];
    if !starts.iter().any(|s| lower.contains(s)) {
        return None;
    }
    let mut words = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('<') {
        words.push_str(&rest[..open]);
        words.push(' ');
        let tag = &rest[open..];
        let after = ["style", "script"]
            .iter()
            .find(|name| starts_with_tag(tag, name))
            .and_then(|name| tag.to_ascii_lowercase().find(&format!("</{name}")))
            .unwrap_or(0);
        rest = match tag[after..].find('>') {
            Some(close) => &tag[after + close + 1..],
            None => "",
        };
    }
    words.push_str(rest);
    Some(format!("web page: {words}"))
}

fn starts_with_tag(tag: &str, name: &str) -> bool {
    tag.get(1..=name.len())
        .is_some_and(|t| t.eq_ignore_ascii_case(name))
}

/// Joins the words with single spaces and masks those that look like keys.
fn mask(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last_names_key = false;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        mask_word(word, last_names_key, &mut out);
        last_names_key = word.trim_end_matches(':').eq_ignore_ascii_case("bearer");
    }
    out
}

/// Characters that keys, and masked keys, are made of.
fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*' | '…')
}

fn mask_word(word: &str, after_bearer: bool, out: &mut String) {
    let mut rest = word;
    let mut value_of_key = after_bearer;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_key_char(c)).unwrap_or(rest.len());
        let (piece, tail) = rest.split_at(end);
        if looks_like_key(piece) || (value_of_key && piece.len() >= MIN_KEY_CHARS) {
            out.push_str(MASK);
        } else {
            out.push_str(piece);
        }
        let separators = tail.find(is_key_char).unwrap_or(tail.len());
        let (between, next) = tail.split_at(separators);
        value_of_key = between.starts_with(['=', ':'])
            && piece.to_ascii_lowercase().ends_with("key")
            || value_of_key && piece.is_empty();
        out.push_str(between);
        rest = next;
    }
}

fn looks_like_key(piece: &str) -> bool {
    let trimmed = piece.trim_end_matches('.');
    let lower = trimmed.to_ascii_lowercase();
    let issued = trimmed.len() >= MIN_KEY_CHARS
        && KEY_STARTS.iter().any(|start| lower.starts_with(start))
        && trimmed
            .bytes()
            .any(|b| b.is_ascii_digit() || matches!(b, b'*' | b'.'));
    let shortened = lower.contains("***")
        || lower
            .split_once("...")
            .or_else(|| lower.split_once('…'))
            .is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
    let hash = trimmed.split(['-', '.']).any(|run| {
        run.len() >= MIN_HASH_CHARS
            && run.bytes().any(|b| b.is_ascii_digit())
            && run.bytes().any(|b| b.is_ascii_alphabetic())
    });
    issued || shortened || hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_their_traces_are_masked() {
        // C038 and trap 79.
        for (text, expected) in [
            (
                "Invalid key. Received API Key = sk-test-AAAA...DDDD, Key Hash = 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                "Invalid key. Received API Key = [masked], Key Hash = [masked]",
            ),
            (
                "Incorrect API key provided: sk-fx***0001.",
                "Incorrect API key provided: [masked]",
            ),
            (
                "Your api key: ****fx01 is invalid",
                "Your api key: [masked] is invalid",
            ),
            (
                "GET https://h/v1?key=AIzaTESTKEY0123456789&alt=sse",
                "GET https://h/v1?key=[masked]&alt=sse",
            ),
            ("sent Bearer abcdefghij", "sent Bearer [masked]"),
            ("api_key=hunter2hunter2", "api_key=[masked]"),
        ] {
            assert_eq!(excerpt(text, None), expected);
        }
    }

    #[test]
    fn ordinary_words_stay() {
        for text in [
            "The model `meta-llama/Llama-3.3-70B-Instruct-Turbo-Free-2026-06-01` does not exist",
            "request 123e4567-e89b-12d3-a456-426614174000 failed",
            "wait ... then try",
            "task-oriented sk-learn",
        ] {
            assert_eq!(excerpt(text, None), text);
        }
    }

    #[test]
    fn the_key_that_was_sent_is_masked_whatever_it_looks_like() {
        let key = SecretString::from("harbour");
        assert_eq!(
            excerpt("no such key: 'harbour'", Some(&key)),
            "no such key: '[masked]'"
        );
    }

    #[test]
    fn an_excerpt_is_one_short_line() {
        let long = excerpt(&"long\r\n\tword ".repeat(500), None);
        assert_eq!(long.chars().count(), 300);
        assert!(long.starts_with("long word long") && long.ends_with('…'));
        assert_eq!(excerpt(&"æ".repeat(10_000), None).chars().count(), 300);
    }

    #[test]
    fn a_web_page_is_cut_to_its_words() {
        // C106
        let page = "[HTTP 502] <!DOCTYPE html><style>a{b}</style><title>Error 502</title><p a=\"x\">Bad\n gateway";
        assert_eq!(
            excerpt(page, None),
            "web page: [HTTP 502] Error 502 Bad gateway"
        );
        assert!(
            excerpt(&format!("<html>{}", "word ".repeat(900)), None)
                .chars()
                .count()
                <= 120
        );
        assert_eq!(excerpt("<html", None), "web page:");
    }

    #[test]
    fn a_code_is_short_and_plain() {
        assert_eq!(
            code("rate_limit_exceeded").as_deref(),
            Some("rate_limit_exceeded")
        );
        assert_eq!(code("has a space"), None);
        assert_eq!(code(&"x".repeat(65)), None);
        assert_eq!(code("sk-live-1234567890"), None);
    }
}
