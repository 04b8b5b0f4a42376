//! Whose word about earlier answers is taken.

use crate::auth::Caller;
use evenkeel_core::Baggage;
use evenkeel_roster::{Network, ServerConfig};
use http::header::HeaderMap;
use http::{Extensions, HeaderName, HeaderValue};
use std::net::{IpAddr, SocketAddr};

const BAGGAGE: HeaderName = HeaderName::from_static("baggage");

/// The other end of the connection that a request came on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Whose baggage is believed.
#[derive(Debug)]
pub(crate) struct Trust {
    networks: Vec<Network>,
    keys: bool,
}

impl Trust {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self {
            networks: config.trusted_networks.clone(),
            keys: config.trust_client_keys,
        }
    }

    /// Whether a request of `caller` with these extensions may say what
    /// earlier answers have lost. A request without a known peer may not.
    pub(crate) fn covers(&self, caller: &Caller, extensions: &Extensions) -> bool {
        if self.keys && caller.id().is_some() {
            return true;
        }
        let peer = extensions.get::<Peer>();
        peer.is_some_and(|Peer(peer)| self.networks.iter().any(|n| n.contains(*peer)))
    }
}

/// Whether everyone in reach could use a server at that address.
pub(crate) fn is_open(config: &ServerConfig, address: SocketAddr) -> bool {
    config.client_keys.is_empty() && !config.allow_open && !is_loopback(address.ip())
}

/// Loopback in either family, IPv4 mapped into IPv6 included.
fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// The baggage that a request carries; a header with bytes that no baggage has
/// is passed over.
pub(crate) fn baggage(headers: &HeaderMap) -> Baggage {
    let values = headers.get_all(&BAGGAGE).into_iter();
    Baggage::read(values.filter_map(|value| value.to_str().ok()))
}

/// Writes the `baggage` of an answer; none where there is nothing to carry.
pub(crate) fn put_baggage(headers: &mut HeaderMap, baggage: Option<String>) {
    if let Some(Ok(value)) = baggage.map(HeaderValue::try_from) {
        headers.insert(BAGGAGE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::ClientKeys;

    // Conformance 10: loopback is trusted without configuration, another address is not.
    #[test]
    fn by_default_this_machine_is_believed_and_no_other() {
        let trust = Trust::new(&ServerConfig::default());
        let anybody = ClientKeys::new(Vec::new())
            .admit(&HeaderMap::new())
            .unwrap();
        let covers = |peer: &str| {
            let mut extensions = Extensions::new();
            extensions.insert(Peer(peer.parse().unwrap()));
            trust.covers(&anybody, &extensions)
        };
        for near in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(covers(near), "{near}");
        }
        for far in [
            "10.0.0.1",
            "192.168.1.7",
            "203.0.113.9",
            "fe80::1",
            "::ffff:10.0.0.1",
            "0.0.0.0",
        ] {
            assert!(!covers(far), "{far}");
        }
        assert!(
            !trust.covers(&anybody, &Extensions::new()),
            "nobody knows who"
        );
    }
}
