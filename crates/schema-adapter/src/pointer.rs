//! JSON pointers (RFC 6901).

use std::borrow::Cow;

use serde_json::Value;

/// The pointer of `at`'s member `name`.
pub(crate) fn child(at: &str, name: &str) -> String {
    let mut pointer = String::with_capacity(at.len() + name.len() + 1);
    pointer.push_str(at);
    pointer.push('/');
    if name.contains(['~', '/']) {
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    } else {
        pointer.push_str(name);
    }
    pointer
}

/// What a local reference (`#`, `#/…`) leads to.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(&decoded(reference.strip_prefix('#')?))
}

/// A URI fragment as a JSON pointer: without percent escapes.
pub(crate) fn decoded(fragment: &str) -> Cow<'_, str> {
    if !fragment.contains('%') {
        return Cow::Borrowed(fragment);
    }
    let bytes = fragment.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    match String::from_utf8(out) {
        Ok(text) => Cow::Owned(text),
        Err(_) => Cow::Borrowed(fragment),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_escaped_and_found_again() {
        let root = json!({"a/b": {"m~n": {"p q": 1}}});
        let at = child(&child("", "a/b"), "m~n");
        assert_eq!(at, "/a~1b/m~0n");
        assert_eq!(resolve(&root, "#/a~1b/m~0n/p%20q"), Some(&json!(1)));
        assert_eq!(resolve(&root, "#"), Some(&root));
        assert_eq!(resolve(&root, "name"), None);
        assert_eq!(decoded("50%"), "50%");
    }
}
