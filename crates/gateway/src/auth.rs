//! Who may call.

use http::{HeaderMap, HeaderValue, header};
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret, SecretString};
use std::fmt::Write as _;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Who calls, as far as its key tells.
#[derive(Debug, Clone)]
pub(crate) struct Caller(Option<Arc<str>>);

impl Caller {
    /// An opaque id of the caller's key; none where no key is asked for.
    pub(crate) fn id(&self) -> Option<&Arc<str>> {
        self.0.as_ref()
    }
}

/// The keys that clients authenticate with, and what each is known by. None:
/// everyone may call.
#[derive(Debug, Clone)]
pub(crate) struct ClientKeys(Vec<(SecretString, Arc<str>)>);

impl ClientKeys {
    pub(crate) fn new(keys: Vec<SecretString>) -> Self {
        let known = |key: SecretString| {
            let id = id_of(&key);
            (key, id)
        };
        Self(keys.into_iter().map(known).collect())
    }

    /// Whether no key is asked for.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// Who calls, where `headers` carry one of the keys, as `Authorization:
    /// Bearer …` or `x-api-key`. Takes the same time whichever key is meant and
    /// however much of it is right; only a key's length may show.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Option<Caller> {
        if self.is_open() {
            return Some(Caller(None));
        }
        let offered = [
            bearer(headers),
            headers.get("x-api-key").map(HeaderValue::as_bytes),
        ];
        let mut caller = None;
        for offer in offered.into_iter().flatten() {
            for (key, id) in &self.0 {
                if key.expose_secret().as_bytes().ct_eq(offer).into() {
                    caller = Some(Caller(Some(id.clone())));
                }
            }
        }
        caller
    }
}

/// A part of a key's hash, in hex: it stays with the key, also in the next process,
/// whose tickets are those of this one, and is of no use to find the key.
fn id_of(key: &SecretString) -> Arc<str> {
    let hash = digest(
        &SHA256,
        format!("evenkeel caller {}", key.expose_secret()).as_bytes(),
    );
    let mut id = String::with_capacity(16);
    for byte in &hash.as_ref()[..8] {
        let _ = write!(id, "{byte:02x}");
    }
    Arc::from(id)
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
            let caller = keys().admit(&headers(name, value));
            assert!(caller.is_some(), "{name}: {value}");
        }
    }

    #[test]
    fn a_caller_is_known_by_its_key_and_the_id_tells_nothing_of_it() {
        let id = |keys: &ClientKeys, key| {
            let caller = keys.admit(&headers("x-api-key", key)).unwrap();
            caller.id().unwrap().to_string()
        };
        let one = id(&keys(), "evk-one");
        assert_ne!(one, id(&keys(), "evk-two"));
        // Read again, in another order.
        let again = ClientKeys::new(vec!["evk-two".into(), "evk-one".into()]);
        assert_eq!(one, id(&again, "evk-one"));
        assert!(!one.contains("one") && !one.contains("evk"));
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
            let caller = keys().admit(&headers(name, value));
            assert!(caller.is_none(), "{name}: {value}");
        }
    }

    #[test]
    fn without_keys_everyone_may_call() {
        let caller = ClientKeys::new(vec![]).admit(&HeaderMap::new());
        assert!(caller.unwrap().id().is_none());
    }
}
