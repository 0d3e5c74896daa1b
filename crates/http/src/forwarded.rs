//! The client of a request behind proxies, from the fields that proxies add: `X-Forwarded-For` and
//! `X-Forwarded-Proto`, or `Forwarded` (RFC 7239).
//!
//! Each proxy adds the address of its own client at the end of the list. So the list is read from
//! its end: an address counts only if the proxy that wrote the address is trusted. Text that a
//! client sends stands before the first address of a trusted proxy, and is never read. A proxy
//! passes on fields that it does not know, so only the fields of one kind count. Tested below.

use crate::{field_lines::FieldLines, gateway::ClientScheme, scan};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The most proxies that are followed. The bound limits the work for a field that a client fills;
/// common chains have two or three.
pub const HOPS_MAX: usize = 32;

/// The fields that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ForwardedBy {
    /// `X-Forwarded-For` and `X-Forwarded-Proto`.
    #[default]
    XForwarded,
    /// `Forwarded`.
    Forwarded,
}

/// The result of following the proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedClient {
    /// The client's address.
    pub address: ForwardedAddress,
    /// The scheme of the client's request, if the proxy names it.
    pub scheme: Option<ClientScheme>,
}

/// The address of a client behind proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedAddress {
    /// There is no list, so the proxy asks for itself.
    Unlisted,
    /// A trusted proxy names no valid address. The proxy is not the client, because then a client
    /// could get the rights of the proxy.
    Unknown,
    /// The address, and the port if the proxy names the port.
    Ip(IpAddr, Option<u16>),
}

/// Follows the proxies in `fields` back to the client. The caller has checked that the other end of
/// the connection is trusted. `is_trusted` says whether an address is one of the trusted proxies.
pub fn client(
    fields: FieldLines<'_>,
    by: ForwardedBy,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> ForwardedClient {
    match by {
        ForwardedBy::XForwarded => x_forwarded(fields, is_trusted),
        ForwardedBy::Forwarded => forwarded(fields, is_trusted),
    }
}

/// The last [`HOPS_MAX`] elements of the list `name`, from the end, as `elements` divides a line.
fn from_end<'a, E: Iterator<Item = &'a [u8]>>(
    fields: FieldLines<'a>,
    name: &[u8],
    elements: impl Fn(&'a [u8]) -> E,
) -> Vec<&'a [u8]> {
    let lines = fields.filter(|(found, _)| found.eq_ignore_ascii_case(name));
    let mut elements: Vec<&[u8]> =
        lines.flat_map(|(_, value)| elements(value)).filter(|element| !element.is_empty()).collect();
    elements.reverse();
    elements.truncate(HOPS_MAX);
    elements
}

/// The elements of a list without quoted strings. A quote of the client must not join its text with
/// the address that the proxy appends.
fn unquoted_elements(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b',').map(scan::trim)
}

fn x_forwarded(fields: FieldLines<'_>, is_trusted: impl Fn(IpAddr) -> bool) -> ForwardedClient {
    let mut client = ForwardedClient { address: ForwardedAddress::Unlisted, scheme: None };
    let mut followed = 0;
    for element in from_end(fields, b"x-forwarded-for", unquoted_elements) {
        let Some((address, port)) = std::str::from_utf8(element).ok().and_then(node) else {
            client.address = ForwardedAddress::Unknown;
            break;
        };
        client.address = ForwardedAddress::Ip(address, port);
        followed += 1;
        if !is_trusted(address) {
            break;
        }
    }
    // Some proxies write one scheme for the whole chain, some write one for each address.
    let schemes = from_end(fields, b"x-forwarded-proto", unquoted_elements);
    let at = followed.max(1).min(schemes.len());
    client.scheme = at.checked_sub(1).and_then(|at| scheme(schemes[at]));
    client
}

fn forwarded(fields: FieldLines<'_>, is_trusted: impl Fn(IpAddr) -> bool) -> ForwardedClient {
    let mut client = ForwardedClient { address: ForwardedAddress::Unlisted, scheme: None };
    for element in from_end(fields, b"forwarded", |line| Separated::new(line, b',')) {
        let hop = hop(element);
        client.scheme = hop.as_ref().and_then(|hop| hop.scheme).or(client.scheme);
        // `unknown` and the names that a proxy invents end the way back.
        let Some((address, port)) = hop.and_then(|hop| node(hop.node.as_deref()?)) else {
            client.address = ForwardedAddress::Unknown;
            break;
        };
        client.address = ForwardedAddress::Ip(address, port);
        if !is_trusted(address) {
            break;
        }
    }
    client
}

/// One element of `Forwarded`.
struct Hop {
    node: Option<String>,
    scheme: Option<ClientScheme>,
}

/// Reads `for=ADDRESS;proto=SCHEME`, with other parameters between. `None` if malformed.
fn hop(element: &[u8]) -> Option<Hop> {
    let mut hop = Hop { node: None, scheme: None };
    for pair in Separated::new(element, b';') {
        if pair.is_empty() {
            continue;
        }
        let equals = pair.iter().position(|&byte| byte == b'=')?;
        let (name, value) = (&pair[..equals], unquoted(&pair[equals + 1..])?);
        if name.eq_ignore_ascii_case(b"for") && hop.node.replace(value.clone()).is_some() {
            return None;
        }
        if name.eq_ignore_ascii_case(b"proto") {
            hop.scheme = scheme(value.as_bytes());
        }
    }
    Some(hop)
}

/// The text of a token or a quoted string (RFC 9110 §5.6.4).
fn unquoted(value: &[u8]) -> Option<String> {
    let Some(quoted) = value.strip_prefix(b"\"") else {
        return String::from_utf8(value.to_vec()).ok();
    };
    let quoted = quoted.strip_suffix(b"\"")?;
    let mut text = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter();
    while let Some(&byte) = bytes.next() {
        text.push(if byte == b'\\' { *bytes.next()? } else { byte });
    }
    String::from_utf8(text).ok()
}

/// An address with or without a port, and an IPv6 address with or without brackets.
fn node(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address.to_canonical(), None));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some((address.ip().to_canonical(), Some(address.port())));
    }
    let (address, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, behind) = rest.split_once(']')?;
            (address.parse::<Ipv6Addr>().ok()?.into(), behind)
        }
        None => {
            let (address, port) = text.split_once(':')?;
            (address.parse::<std::net::Ipv4Addr>().ok()?.into(), &text[text.len() - port.len() - 1..])
        }
    };
    // A port may be a name that the proxy invented (RFC 7239 §6).
    let is_known = port.is_empty() || port.starts_with(":_") && port.len() > 2;
    is_known.then(|| (IpAddr::to_canonical(&address), None))
}

fn scheme(text: &[u8]) -> Option<ClientScheme> {
    if text.eq_ignore_ascii_case(b"https") {
        Some(ClientScheme::Https)
    } else {
        text.eq_ignore_ascii_case(b"http").then_some(ClientScheme::Http)
    }
}

/// The parts of a text, between separators outside of quoted strings, without white space around
/// the parts. Where a quoted string does not end, the rest is divided at each separator, because a
/// client could otherwise hide the parts that a proxy appends.
struct Separated<'a> {
    rest: &'a [u8],
    separator: u8,
    /// Whether a quoted string does not end.
    is_plain: bool,
}

impl<'a> Separated<'a> {
    fn new(rest: &'a [u8], separator: u8) -> Self {
        Self { rest, separator, is_plain: false }
    }

    /// The end of the next part, or `None` if the rest is the next part.
    fn end(&mut self) -> Option<usize> {
        if self.is_plain {
            return self.rest.iter().position(|&byte| byte == self.separator);
        }
        let (mut is_quoted, mut is_escaped) = (false, false);
        let end = self.rest.iter().position(|&byte| {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_quoted => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                _ => return byte == self.separator && !is_quoted,
            }
            false
        });
        if is_quoted {
            self.is_plain = true;
            return self.end();
        }
        end
    }
}

impl<'a> Iterator for Separated<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.end();
        let part = &self.rest[..end.unwrap_or(self.rest.len())];
        self.rest = end.map_or(&[], |end| &self.rest[end + 1..]);
        Some(scan::trim(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(by: ForwardedBy, lines: &str) -> (Option<String>, Option<u16>, Option<ClientScheme>) {
        let head = format!("GET / HTTP/1.1\r\n{lines}\r\n");
        let is_trusted = |address: IpAddr| address.to_string().starts_with("10.");
        let client = client(FieldLines::of_refused(head.as_bytes()), by, is_trusted);
        let (address, port) = match client.address {
            ForwardedAddress::Unlisted => (None, None),
            ForwardedAddress::Unknown => (UNKNOWN.map(str::to_owned), None),
            ForwardedAddress::Ip(address, port) => (Some(address.to_string()), port),
        };
        (address, port, client.scheme)
    }

    const UNKNOWN: Option<&str> = Some("unknown");
    const HTTPS: Option<ClientScheme> = Some(ClientScheme::Https);
    const HTTP: Option<ClientScheme> = Some(ClientScheme::Http);

    #[test]
    fn x_forwarded_for_is_read_from_its_end() {
        for (lines, address, port, scheme) in [
            ("", None, None, None),
            ("X-Forwarded-For: 192.0.2.1\r\n", Some("192.0.2.1"), None, None),
            ("x-forwarded-for: 203.0.113.9, 192.0.2.1\r\n", Some("192.0.2.1"), None, None),
            ("X-Forwarded-For: 203.0.113.9, 192.0.2.1, 10.0.0.2\r\n", Some("192.0.2.1"), None, None),
            (
                "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For: 192.0.2.1,10.0.0.2\r\n",
                Some("192.0.2.1"),
                None,
                None,
            ),
            ("X-Forwarded-For: 10.0.0.9, 10.0.0.2\r\n", Some("10.0.0.9"), None, None),
            ("X-Forwarded-For: evil, 10.0.0.2\r\n", UNKNOWN, None, None),
            ("X-Forwarded-For: evil\r\n", UNKNOWN, None, None),
            ("X-Forwarded-For: , ,\r\n", None, None, None),
            ("X-Forwarded-For: 192.0.2.1:99\r\n", Some("192.0.2.1"), Some(99), None),
            ("X-Forwarded-For: [2001:db8::1]:99\r\n", Some("2001:db8::1"), Some(99), None),
            ("X-Forwarded-For: [2001:db8::1]\r\n", Some("2001:db8::1"), None, None),
            ("X-Forwarded-For: ::ffff:192.0.2.1\r\n", Some("192.0.2.1"), None, None),
            ("X-Forwarded-Proto: https\r\n", None, None, HTTPS),
            ("X-Forwarded-Proto: gopher\r\n", None, None, None),
            ("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: HTTPS\r\n", Some("192.0.2.1"), None, HTTPS),
            (
                "X-Forwarded-For: 192.0.2.1, 10.0.0.2\r\nX-Forwarded-Proto: https, http\r\n",
                Some("192.0.2.1"),
                None,
                HTTPS,
            ),
            // The client wrote the first scheme itself.
            (
                "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https, http\r\n",
                Some("192.0.2.1"),
                None,
                HTTP,
            ),
            (
                "X-Forwarded-For: 192.0.2.1, 10.0.0.2\r\nX-Forwarded-Proto: https\r\n",
                Some("192.0.2.1"),
                None,
                HTTPS,
            ),
            ("Forwarded: for=192.0.2.1;proto=https\r\n", None, None, None),
        ] {
            let expected = (address.map(str::to_owned), port, scheme);
            assert_eq!(followed(ForwardedBy::XForwarded, lines), expected, "{lines}");
        }
    }

    #[test]
    fn forwarded_is_read_from_its_end() {
        for (lines, address, port, scheme) in [
            ("Forwarded: for=192.0.2.1\r\n", Some("192.0.2.1"), None, None),
            ("Forwarded: For=192.0.2.1;Proto=https;by=10.0.0.1\r\n", Some("192.0.2.1"), None, HTTPS),
            ("Forwarded: for=203.0.113.9, for=192.0.2.1 ; proto=http\r\n", Some("192.0.2.1"), None, HTTP),
            (
                "Forwarded: for=192.0.2.1;proto=https, for=10.0.0.2;proto=http\r\n",
                Some("192.0.2.1"),
                None,
                HTTPS,
            ),
            ("Forwarded: for=192.0.2.1, for=10.0.0.2;proto=https\r\n", Some("192.0.2.1"), None, HTTPS),
            ("Forwarded: for=\"[2001:db8::1]:47\"\r\n", Some("2001:db8::1"), Some(47), None),
            ("Forwarded: for=\"[2001:db8::1]\"\r\n", Some("2001:db8::1"), None, None),
            ("Forwarded: for=\"192.0.2.1:_port\"\r\n", Some("192.0.2.1"), None, None),
            ("Forwarded: for=\"a,b\";proto=https\r\n", UNKNOWN, None, HTTPS),
            ("Forwarded: for=unknown;proto=https\r\n", UNKNOWN, None, HTTPS),
            ("Forwarded: proto=https\r\n", UNKNOWN, None, HTTPS),
            ("Forwarded: for=_hidden, for=10.0.0.2\r\n", UNKNOWN, None, None),
            ("Forwarded: for=1.1.1.1;for=192.0.2.1\r\n", UNKNOWN, None, None),
            ("Forwarded: for=\"192.0.2.1\r\n", UNKNOWN, None, None),
            ("Forwarded: gibberish\r\n", UNKNOWN, None, None),
            ("X-Forwarded-For: 192.0.2.1\r\n", None, None, None),
        ] {
            let expected = (address.map(str::to_owned), port, scheme);
            assert_eq!(followed(ForwardedBy::Forwarded, lines), expected, "{lines}");
        }
    }

    #[test]
    fn quote_of_client_hides_no_address() {
        for text in
            ["\"", "\"x", "x\"", "\", \"", "\"\\", "\"\\\"", "\"a\", \"", "for=\"x", "for=\"x;y, \"\\"]
        {
            for (appended, address) in [
                ("192.0.2.1", "192.0.2.1"),
                ("[2001:db8::1]:47, 10.0.0.2", "2001:db8::1"),
                ("2001:db8::1, 10.0.0.3, 10.0.0.2", "2001:db8::1"),
            ] {
                let (found, ..) =
                    followed(ForwardedBy::XForwarded, &format!("X-Forwarded-For: {text}, {appended}\r\n"));
                assert_eq!(found.as_deref(), Some(address), "{text}, {appended}");
            }
            for (appended, address) in [
                ("for=192.0.2.1;proto=http", "192.0.2.1"),
                ("for=\"[2001:db8::1]:47\"", "2001:db8::1"),
                ("for=\"[2001:db8::1]\", for=10.0.0.2", "2001:db8::1"),
                ("for=\"[2001:db8::1]\", for=\"10.0.0.2:_a\"", "2001:db8::1"),
            ] {
                let (found, ..) =
                    followed(ForwardedBy::Forwarded, &format!("Forwarded: {text}, {appended}\r\n"));
                assert_eq!(found.as_deref(), Some(address), "{text}, {appended}");
            }
            let (_, _, scheme) = followed(
                ForwardedBy::XForwarded,
                &format!("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: {text}, https\r\n"),
            );
            assert_eq!(scheme, HTTPS, "{text}");
        }
    }

    #[test]
    fn chain_is_followed_to_its_bound() {
        let many = "10.0.0.1, ".repeat(HOPS_MAX + 5);
        let (address, ..) =
            followed(ForwardedBy::XForwarded, &format!("X-Forwarded-For: 192.0.2.1, {many}\r\n"));
        assert_eq!(address.as_deref(), Some("10.0.0.1"));
    }
}
