//! Host names, in the configuration and in requests.
//!
//! This file normalises names: letters in lower case, no dot at the end, no port (RFC 9110 §4.2.3,
//! RFC 1034 §3.1), and a single spelling of each IPv6 address. `vermeil-http` decides whether a
//! request's `Host` is valid. Tested in `tests.rs`.

use std::{fmt, io::Write as _, net::Ipv6Addr, str::FromStr};

/// Longest name, in bytes (RFC 1035 §2.3.4). A longer name in a request matches no host.
pub const NAME_BYTES_MAX: usize = 255;

/// Longest part between dots, in bytes (RFC 1035 §2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// A name as configured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostName {
    /// This name alone.
    Exact(Box<str>),
    /// All names that end in a dot and this text.
    Below(Box<str>),
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Below(name) => write!(f, "*.{name}"),
        }
    }
}

/// Why a text is no [`HostName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("a name has at least one letter; the default host needs no name")]
    Empty,
    /// The text has a port, a scheme or a path.
    #[error("write the name alone, without `http://`, port or path, such as example.org")]
    NotAlone,
    /// A star that is not the first part.
    #[error("a star stands for the first part of a name only, such as *.example.org")]
    Star,
    /// The text is not ASCII.
    #[error("write an international name as it is on the wire, beginning with xn--")]
    NotAscii,
    /// A part between dots is empty or longer than 63 bytes, or the whole name is longer than 255.
    #[error("the parts between dots have 1 to 63 letters, and the whole at most 255")]
    Length,
    /// The text has a character that no name has.
    #[error("a name has letters, digits, `-` and `_` between dots; an IPv6 address stands in brackets")]
    Character,
}

impl FromStr for HostName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text == "." {
            return Err(NameError::Empty);
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if let Some(below) = name.strip_prefix("*.") {
            check(below)?;
            return Ok(Self::Below(below.into()));
        }
        if let Some(rest) = name.strip_prefix('[') {
            return Ok(Self::Exact(format!("[{}]", ip_literal(rest)?).into()));
        }
        check(&name)?;
        Ok(Self::Exact(name.into()))
    }
}

fn check(name: &str) -> Result<(), NameError> {
    if name.contains(['/', ':', '?', '#', '@']) {
        return Err(NameError::NotAlone);
    }
    if name.contains('*') {
        return Err(NameError::Star);
    }
    if !name.is_ascii() {
        return Err(NameError::NotAscii);
    }
    let is_length = |label: &str| (1..=LABEL_BYTES_MAX).contains(&label.len());
    if name.len() > NAME_BYTES_MAX || !name.split('.').all(is_length) {
        return Err(NameError::Length);
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.bytes().all(allowed) { Ok(()) } else { Err(NameError::Character) }
}

fn ip_literal(rest: &str) -> Result<Ipv6Addr, NameError> {
    let Some((address, after)) = rest.split_once(']') else { return Err(NameError::Character) };
    match (address.parse(), after) {
        (Ok(address), "") => Ok(address),
        (Ok(_), _) => Err(NameError::NotAlone),
        (Err(_), _) => Err(NameError::Character),
    }
}

/// Room for the name of a request.
pub(super) type Buffer = [u8; NAME_BYTES_MAX];

/// The normalised name in `host`, a valid value of `Host`: without port, in lower case, without a
/// dot at the end. `None` if the name is longer than any valid name.
#[inline]
pub(super) fn normalised<'b>(host: &[u8], buffer: &'b mut Buffer) -> Option<&'b [u8]> {
    if let [b'[', rest @ ..] = host {
        return normalised_address(&rest[..rest.iter().position(|&byte| byte == b']')?], buffer);
    }
    let name = &host[..host.iter().position(|&byte| byte == b':').unwrap_or(host.len())];
    let name = name.strip_suffix(b".").unwrap_or(name);
    let normalised = buffer.get_mut(..name.len())?;
    normalised.copy_from_slice(name);
    normalised.make_ascii_lowercase();
    Some(normalised)
}

/// An IPv6 address in brackets, in the spelling of [`HostName`]. Clients spell an address in
/// several ways (RFC 4291, section 2.2).
#[cold]
fn normalised_address<'b>(address: &[u8], buffer: &'b mut Buffer) -> Option<&'b [u8]> {
    let address: Ipv6Addr = std::str::from_utf8(address).ok()?.parse().ok()?;
    let mut room = &mut buffer[..];
    write!(room, "[{address}]").ok()?;
    let length = NAME_BYTES_MAX - room.len();
    Some(&buffer[..length])
}

/// The name of a valid host, without its port.
pub fn without_port(host: &[u8]) -> &[u8] {
    let address_end = host.iter().position(|&byte| byte == b']').map_or(0, |at| at + 1);
    let colon = host[address_end..].iter().position(|&byte| byte == b':');
    &host[..colon.map_or(host.len(), |at| address_end + at)]
}
