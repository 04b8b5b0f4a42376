//! Percent-encoding (RFC 3986, section 2.1).

use std::fmt::Write as _;

/// Whether a byte stands for itself in a name: letters, digits and `_.:/@-`.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.:/@-".contains(&byte)
}

/// `text` with everything encoded that is not plain.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The text that `encoded` stands for; none where a `%` is not followed by two
/// hex digits or the result is not UTF-8.
pub(super) fn decode(encoded: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let (high, low) = (hex(rest.next()?)?, hex(rest.next()?)?);
            bytes.push(high * 16 + low);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}
