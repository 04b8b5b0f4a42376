//! An HTTP proxy that connections go through.

use crate::config::ProviderConfigError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::uri::Scheme;
use http::{HeaderValue, Uri};
use std::fmt;

/// An HTTP proxy: a tunnel (`CONNECT`) for `https` endpoints, requests in
/// absolute form for `http` ones. Its password is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub(crate) uri: Uri,
    /// `proxy-authorization`, where the address held a user name.
    pub(crate) authorization: Option<HeaderValue>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("address", &self.address())
            .field("has_credentials", &self.authorization.is_some())
            .finish_non_exhaustive()
    }
}

impl Proxy {
    /// The proxy at `http://[user[:password]@]host[:port]`; in user and
    /// password `%XX` stands for a byte, as in any address.
    ///
    /// # Errors
    /// Where the address cannot be used. It is not shown.
    pub fn new(url: &str) -> Result<Self, ProviderConfigError> {
        let wrong = ProviderConfigError::Proxy;
        let uri: Uri = url.trim().parse().map_err(|_| wrong("is not a URL"))?;
        if uri.scheme() != Some(&Scheme::HTTP) {
            return Err(wrong("must begin with http://"));
        }
        if !matches!(uri.path_and_query().map_or("/", |p| p.as_str()), "" | "/") {
            return Err(wrong("must be host and port without a path"));
        }
        let authority = uri.authority().ok_or(wrong("names no host"))?.as_str();
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let authorization = user.map(basic).transpose()?;
        let uri = format!("http://{host}/")
            .parse()
            .map_err(|_| wrong("is not a URL"))?;
        Ok(Self { uri, authorization })
    }

    /// Host and port, for messages.
    pub(crate) fn address(&self) -> &str {
        self.uri
            .authority()
            .map_or("", |authority| authority.as_str())
    }
}

fn basic(user: &str) -> Result<HeaderValue, ProviderConfigError> {
    let wrong = ProviderConfigError::Proxy("has a `%` that no two hexadecimal digits follow");
    let user = unescaped(user).ok_or(wrong)?;
    let credentials = format!("Basic {}", STANDARD.encode(user));
    let mut value = HeaderValue::try_from(credentials)
        .map_err(|_| ProviderConfigError::Proxy("has an unusable user name"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let value = digit(bytes.next())? * 16 + digit(bytes.next())?;
        out.push(u8::try_from(value).ok()?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_credentials_are_read_and_never_shown() {
        let proxy = Proxy::new("http://harbour:p%40ss@proxy.test:3128").unwrap();
        let sent = proxy.authorization.as_ref().unwrap();
        assert_eq!(sent, "Basic aGFyYm91cjpwQHNz");
        let shown = format!("{proxy:?}");
        assert!(shown.contains("proxy.test:3128"), "{shown}");
        assert!(!shown.contains("ss") || !shown.contains("p@"), "{shown}");
        assert!(
            !shown.contains("aGFy") && !shown.contains("harbour"),
            "{shown}"
        );
        assert!(
            Proxy::new("http://proxy.test:3128/")
                .unwrap()
                .authorization
                .is_none()
        );
    }

    #[test]
    fn what_is_no_proxy_is_told_without_being_shown() {
        for (url, said) in [
            ("https://secret@h:1", "http://"),
            ("socks5://h:1", "http://"),
            ("http://h:1/path", "without a path"),
            ("http://secret%zz@h:1", "%"),
            ("secret", "http://"),
        ] {
            let error = Proxy::new(url).unwrap_err().to_string();
            assert!(
                error.starts_with("proxy: ") && error.contains(said),
                "{url}: {error}"
            );
            assert!(!error.contains("secret"));
        }
    }
}
