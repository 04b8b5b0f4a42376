//! Networks of addresses, as operators write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network in CIDR form: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// Leading bits that an address shares with it.
    prefix: u32,
}

/// What is no network, and what it might have been meant as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no network: {expected}")]
pub struct InvalidNetwork {
    /// What was written.
    pub text: String,
    /// What is expected.
    pub expected: String,
}

impl Network {
    /// This machine's own addresses: `127.0.0.0/8` and `::1`.
    pub const LOOPBACK: [Self; 2] = [
        Self {
            address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)),
            prefix: 8,
        },
        Self {
            address: IpAddr::V6(Ipv6Addr::LOCALHOST),
            prefix: 128,
        },
    ];

    /// Whether `address` lies in it; an IPv4 address mapped into IPv6 counts as
    /// the IPv4 address that it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.prefix) == self.address
    }
}

const fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => Ipv4Addr::BITS,
        IpAddr::V6(_) => Ipv6Addr::BITS,
    }
}

/// The address with all but its first `prefix` bits cleared.
fn masked(address: IpAddr, prefix: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(Ipv4Addr::BITS - prefix).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(Ipv6Addr::BITS - prefix).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |expected: String| InvalidNetwork {
            text: text.to_owned(),
            expected,
        };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let parsed = address.parse::<IpAddr>();
        let address = parsed.map_err(|_| wrong("write e.g. `10.0.0.0/8` or `fd00::/8`".into()))?;
        if address != address.to_canonical() {
            let own = address.to_canonical();
            return Err(wrong(format!(
                "write it as IPv4, `{own}` with its own prefix"
            )));
        }
        let most = width(address);
        let digits = |p: &str| (1..=3).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit());
        let prefix = match prefix {
            None => most,
            Some(prefix) => Some(prefix)
                .filter(|p| digits(p))
                .and_then(|p| p.parse().ok())
                .filter(|p| *p <= most)
                .ok_or_else(|| wrong(format!("the prefix must be 0 to {most}")))?,
        };
        let network = Self {
            address: masked(address, prefix),
            prefix,
        };
        if network.address != address {
            return Err(wrong(format!(
                "bits are set behind the prefix; did you mean `{network}`?"
            )));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lie_within_their_networks() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("192.168.4.0/22", "192.168.7.255", "192.168.8.0"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::/0", "ffff::", "10.0.0.1"),
            ("::1", "::1", "::2"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(
                network.contains(inside.parse().unwrap()),
                "{network} {inside}"
            );
            assert!(
                !network.contains(outside.parse().unwrap()),
                "{network} {outside}"
            );
        }
        let ten: Network = "10.0.0.0/8".parse().unwrap();
        assert!(ten.contains("::ffff:10.0.0.1".parse().unwrap()));
        assert!(Network::LOOPBACK[0].contains("127.9.9.9".parse().unwrap()));
        assert!(Network::LOOPBACK[1].contains("::1".parse().unwrap()));
    }

    #[test]
    fn what_is_no_network_is_refused_with_what_it_might_be() {
        for (text, expected) in [
            ("", "10.0.0.0/8"),
            ("localhost", "10.0.0.0/8"),
            ("10.0.0.0/", "0 to 32"),
            ("10.0.0.0/33", "0 to 32"),
            ("10.0.0.0/+8", "0 to 32"),
            ("::/129", "0 to 128"),
            ("10.0.0.1/8", "did you mean `10.0.0.0/8`?"),
            ("fd00::1/8", "did you mean `fd00::/8`?"),
            ("::ffff:10.0.0.0/104", "`10.0.0.0`"),
        ] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
