//! A network of clients: an address, an address and the number of its leading bits that count, or
//! `unix` for the processes of this machine that come through unix sockets.
//!
//! In networks and clients alike, an IPv4 address mapped into IPv6 counts as the IPv4 address.
//! Tested below.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};
use vermeil_address::Client;

/// Leading bits of an IPv4 address mapped into IPv6.
const MAPPED_BITS: u8 = 96;

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Ip { addr: IpAddr, prefix: u8 },
    Unix,
}

/// How the clients of unix sockets are written.
const UNIX: &str = "unix";

/// Why a text is no [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The text has none of the forms.
    #[error(
        "write an address such as 192.0.2.7 or ::1, a network such as 10.0.0.0/8 or 2001:db8::/32, or unix for the clients of unix sockets"
    )]
    Form,
    /// The prefix is longer than the address.
    #[error("the number behind the slash is from 0 to {bits} for an address like this")]
    Prefix {
        /// Bits of the address.
        bits: u8,
    },
    /// The address has bits behind its prefix, so another network is probably meant.
    #[error("the address has bits behind the first {prefix}; write {network}")]
    HostBits {
        /// Length of the prefix.
        prefix: u8,
        /// The network without these bits.
        network: Network,
    },
}

impl Network {
    /// Whether `client` is in the network.
    pub fn contains(self, client: Client) -> bool {
        match (self.0, client) {
            (Kind::Unix, Client::Unix) => true,
            (Kind::Ip { addr: network, prefix }, Client::Ip(addr)) => {
                let addr = addr.to_canonical();
                addr.is_ipv4() == network.is_ipv4() && masked(addr, prefix) == network
            }
            _ => false,
        }
    }
}

/// `addr` with zeros behind its first `prefix` bits.
fn masked(addr: IpAddr, prefix: u8) -> IpAddr {
    match addr {
        IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            Ipv4Addr::from_bits(addr.to_bits() & mask).into()
        }
        IpAddr::V6(addr) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            Ipv6Addr::from_bits(addr.to_bits() & mask).into()
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        if text == UNIX {
            return Ok(Self(Kind::Unix));
        }
        let (addr, prefix) = match text.split_once('/') {
            Some((addr, prefix)) => (addr, Some(prefix)),
            None => (text, None),
        };
        let written: IpAddr = addr.parse().map_err(|_| NetworkError::Form)?;
        let bits = if written.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= bits).ok_or(NetworkError::Prefix { bits })?
            }
            Some(_) => return Err(NetworkError::Form),
        };
        let (addr, prefix) = match written.to_canonical() {
            mapped if mapped.is_ipv4() && written.is_ipv6() && prefix >= MAPPED_BITS => {
                (mapped, prefix - MAPPED_BITS)
            }
            _ => (written, prefix),
        };
        let whole = masked(addr, prefix);
        let network = Self(Kind::Ip { addr: whole, prefix });
        if whole == addr { Ok(network) } else { Err(NetworkError::HostBits { prefix, network }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Ip { addr, prefix } => write!(f, "{addr}/{prefix}"),
            Kind::Unix => f.write_str(UNIX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_contains_its_addresses() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", vec!["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"], vec!["11.0.0.0", "::1"]),
            ("192.0.2.7", vec!["192.0.2.7"], vec!["192.0.2.6"]),
            ("0.0.0.0/0", vec!["0.0.0.0", "255.255.255.255", "::ffff:1.2.3.4"], vec!["::", "::1"]),
            ("::1", vec!["::1"], vec!["::2", "127.0.0.1"]),
            ("2001:db8::/32", vec!["2001:db8::", "2001:db8:ffff::1"], vec!["2001:db9::"]),
            ("::/0", vec!["::", "ffff::"], vec!["127.0.0.1", "::ffff:127.0.0.1"]),
            ("::ffff:10.0.0.0/104", vec!["10.1.2.3", "::ffff:10.1.2.3"], vec!["11.0.0.0"]),
            ("::ffff:192.0.2.7", vec!["192.0.2.7"], vec!["192.0.2.8"]),
        ] {
            let network: Network = network.parse().unwrap();
            for (addrs, is_inside) in [(inside, true), (outside, false)] {
                for addr in addrs {
                    assert_eq!(
                        network.contains(addr.parse::<IpAddr>().unwrap().into()),
                        is_inside,
                        "{addr} in {network}"
                    );
                }
            }
        }
    }

    #[test]
    fn client_of_unix_socket_is_in_no_network_of_addresses() {
        let contains = |network: &str, client| network.parse::<Network>().unwrap().contains(client);
        assert!(contains("unix", Client::Unix));
        assert!(!contains("unix", IpAddr::from([127, 0, 0, 1]).into()));
        assert!(!contains("0.0.0.0/0", Client::Unix) && !contains("::/0", Client::Unix));
    }

    #[test]
    fn wrong_network_is_refused_with_reason() {
        for (text, why) in [
            ("", "write an address"),
            ("localhost", "write an address"),
            ("10.0.0.0/", "write an address"),
            ("10.0.0.0/-1", "write an address"),
            ("10.0.0.0/x", "write an address"),
            ("10.0.0.0/255.0.0.0", "write an address"),
            ("10.0.0.0/33", "from 0 to 32"),
            ("::/129", "from 0 to 128"),
            ("::/999999", "from 0 to 128"),
            ("10.0.0.1/8", "write 10.0.0.0/8"),
            ("2001:db8::1/32", "write 2001:db8::/32"),
        ] {
            let error = text.parse::<Network>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
