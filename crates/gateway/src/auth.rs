//! Who may call.

use http::{HeaderMap, HeaderValue, header};
use secrecy::{ExposeSecret, SecretString};
use subtle::{Choice, ConstantTimeEq};

/// The keys that clients authenticate with. None: everyone may call.
#[derive(Debug)]
pub(crate) struct ClientKeys(Vec<SecretString>);

impl ClientKeys {
    pub(crate) fn new(keys: Vec<SecretString>) -> Self {
        Self(keys)
    }

    /// Whether no key is asked for.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `headers` carry one of the keys, as `Authorization: Bearer …`
    /// or `x-api-key`. Takes the same time whichever key is meant and however
    /// much of it is right; only a key's length may show.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> bool {
        if self.is_open() {
            return true;
        }
        let offered = [
            bearer(headers),
            headers.get("x-api-key").map(HeaderValue::as_bytes),
        ];
        let mut found = Choice::from(0);
        for offer in offered.into_iter().flatten() {
            for key in &self.0 {
                found |= key.expose_secret().as_bytes().ct_eq(offer);
            }
        }
        found.into()
    }
}

/// The token of an `Authorization: Bearer` header; the scheme's case is free.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        headers
    }

    fn keys() -> ClientKeys {
        ClientKeys::new(vec!["evk-one".into(), "evk-two".into()])
    }

    #[test]
    fn any_of_the_keys_is_taken_from_either_header() {
        for (name, value) in [
            ("authorization", "Bearer evk-one"),
            ("authorization", "bearer  evk-two"),
            ("x-api-key", "evk-two"),
        ] {
            assert!(keys().admit(&headers(name, value)), "{name}: {value}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for (name, value) in [
            ("authorization", "Bearer evk-on"),
            ("authorization", "Bearer evk-one2"),
            ("authorization", "Bearer "),
            ("authorization", "Basic evk-one"),
            ("authorization", "evk-one"),
            ("x-api-key", ""),
            ("x-other", "evk-one"),
        ] {
            assert!(!keys().admit(&headers(name, value)), "{name}: {value}");
        }
    }

    #[test]
    fn without_keys_everyone_may_call() {
        assert!(ClientKeys::new(vec![]).admit(&HeaderMap::new()));
    }
}
