//! The PROXY protocol, versions 1 and 2: the bytes with which a proxy announces the client of a
//! connection, before the first request.
//!
//! The source is the specification of HAProxy, "The PROXY protocol, versions 1 & 2". A header is
//! valid or not by its own bytes, however the bytes were cut. Leaves out whether the sender may be
//! believed. Tested below and by the fuzz target `proxy-protocol`.

use crate::gateway::ClientScheme;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The longest header of version 1, with its line end (specification, §2.1).
const TEXT_BYTES_MAX: usize = 107;

/// The first bytes of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of version 2 before the addresses.
const FIXED_BYTES: usize = 16;

/// The most bytes behind the fixed part of a header of version 2. Proxies send 216 bytes of
/// addresses at most and a few short values, and the field could announce 64 KiB.
pub const BINARY_BYTES_MAX: usize = 4096;

/// The type of the values that describe TLS (§2.2.5).
const TYPE_TLS: u8 = 0x20;

/// The bit that says that the client came over TLS.
const CLIENT_TLS: u8 = 0x01;

/// The statement of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The connection is the proxy's own, such as a health check, or the proxy names no client.
    Local,
    /// The proxy speaks for a client at a unix socket.
    Unix {
        /// Whether the client came over TLS.
        scheme: ClientScheme,
    },
    /// The proxy speaks for a client.
    Client {
        /// The client's address.
        source: SocketAddr,
        /// The address that the client connected to.
        destination: SocketAddr,
        /// Whether the client came over TLS, as far as the proxy says so.
        scheme: ClientScheme,
    },
}

/// The result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderPart {
    /// More bytes are needed.
    Incomplete,
    /// The whole header, and its length in bytes.
    Complete(ProxyHeader, usize),
    /// The bytes are no header.
    Wrong,
}

/// Why reading stopped early.
enum Stop {
    More,
    Wrong,
}

/// Reads the header at the start of `bytes`.
pub fn parse(bytes: &[u8]) -> ProxyHeaderPart {
    let is_binary = bytes.first() == Some(&SIGNATURE[0]);
    match if is_binary { parse_binary(bytes) } else { parse_text(bytes) } {
        Ok((header, length)) => ProxyHeaderPart::Complete(header, length),
        Err(Stop::More) => ProxyHeaderPart::Incomplete,
        Err(Stop::Wrong) => ProxyHeaderPart::Wrong,
    }
}

/// Whether `bytes` begin with `text`. `More` if `bytes` are a part of `text`.
fn begins_with(bytes: &[u8], text: &[u8]) -> Result<(), Stop> {
    let known = bytes.len().min(text.len());
    match (bytes[..known] == text[..known], known == text.len()) {
        (false, _) => Err(Stop::Wrong),
        (true, false) => Err(Stop::More),
        (true, true) => Ok(()),
    }
}

fn parse_text(bytes: &[u8]) -> Result<(ProxyHeader, usize), Stop> {
    const START: &[u8] = b"PROXY ";
    begins_with(bytes, START)?;
    let cut = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    // A control character before the line end decides, wherever the rest of the line is cut.
    let Some(end) = cut.iter().position(|byte| byte.is_ascii_control()) else {
        return Err(if cut.len() == TEXT_BYTES_MAX { Stop::Wrong } else { Stop::More });
    };
    match &cut[end..] {
        [b'\r'] if end + 1 < TEXT_BYTES_MAX => return Err(Stop::More),
        [b'\r', b'\n', ..] => {}
        _ => return Err(Stop::Wrong),
    }
    let line = std::str::from_utf8(&cut[START.len()..end]).map_err(|_| Stop::Wrong)?;
    let length = end + 2;
    let mut words = line.split(' ');
    let is_ipv4 = match words.next() {
        Some("TCP4") => true,
        Some("TCP6") => false,
        // The rest of such a line has no meaning.
        Some("UNKNOWN") => return Ok((ProxyHeader::Local, length)),
        _ => return Err(Stop::Wrong),
    };
    let mut address = || -> Result<IpAddr, Stop> {
        let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
        address.filter(|address| address.is_ipv4() == is_ipv4).ok_or(Stop::Wrong)
    };
    let (source, destination) = (address()?, address()?);
    let mut port = || words.next().and_then(port_of).ok_or(Stop::Wrong);
    let (source_port, destination_port) = (port()?, port()?);
    if words.next().is_some() {
        return Err(Stop::Wrong);
    }
    let header = ProxyHeader::Client {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
        scheme: ClientScheme::Http,
    };
    Ok((header, length))
}

/// A port without sign and leading zeros (§2.1).
fn port_of(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

fn parse_binary(bytes: &[u8]) -> Result<(ProxyHeader, usize), Stop> {
    begins_with(bytes, SIGNATURE)?;
    let command = match *bytes.get(12).ok_or(Stop::More)? {
        0x20 => HeaderCommand::Local,
        0x21 => HeaderCommand::Proxy,
        _ => return Err(Stop::Wrong),
    };
    let family = *bytes.get(13).ok_or(Stop::More)?;
    let [high, low] = [14, 15].map(|at| bytes.get(at).copied());
    let behind = usize::from(u16::from_be_bytes([high.ok_or(Stop::More)?, low.ok_or(Stop::More)?]));
    if behind > BINARY_BYTES_MAX {
        return Err(Stop::Wrong);
    }
    let length = FIXED_BYTES + behind;
    let rest = bytes.get(FIXED_BYTES..length).ok_or(Stop::More)?;
    if command == HeaderCommand::Local {
        return Ok((ProxyHeader::Local, length));
    }
    let header = match family {
        // TCP over IPv4, TCP over IPv6, a stream of a unix socket, an unknown kind.
        0x11 => {
            let (addresses, values) = split(rest, 12)?;
            let ends = [0, 4].map(|at| Ipv4Addr::from(array::<4>(addresses, at)).into());
            client(ends, [8, 10].map(|at| u16::from_be_bytes(array(addresses, at))), values)?
        }
        0x21 => {
            let (addresses, values) = split(rest, 36)?;
            let ends = [0, 16].map(|at| Ipv6Addr::from(array::<16>(addresses, at)).into());
            client(ends, [32, 34].map(|at| u16::from_be_bytes(array(addresses, at))), values)?
        }
        0x31 => ProxyHeader::Unix { scheme: scheme(split(rest, 216)?.1)? },
        0x00 => ProxyHeader::Local,
        // Datagrams, and families that no specification has.
        _ => return Err(Stop::Wrong),
    };
    Ok((header, length))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HeaderCommand {
    Local,
    Proxy,
}

fn client(
    [source, destination]: [IpAddr; 2],
    [source_port, destination_port]: [u16; 2],
    values: &[u8],
) -> Result<ProxyHeader, Stop> {
    Ok(ProxyHeader::Client {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
        scheme: scheme(values)?,
    })
}

/// The first `count` bytes, and the others.
fn split(bytes: &[u8], count: usize) -> Result<(&[u8], &[u8]), Stop> {
    bytes.split_at_checked(count).ok_or(Stop::Wrong)
}

/// `N` bytes at `at`, which `bytes` has.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has this length")
}

/// The scheme from the further values, each with a type and a length (§2.2.1).
fn scheme(mut values: &[u8]) -> Result<ClientScheme, Stop> {
    let mut scheme = ClientScheme::Http;
    while let [kind, high, low, rest @ ..] = values {
        let (value, behind) = split(rest, usize::from(u16::from_be_bytes([*high, *low])))?;
        if *kind == TYPE_TLS && value.first().ok_or(Stop::Wrong)? & CLIENT_TLS != 0 {
            scheme = ClientScheme::Https;
        }
        values = behind;
    }
    if values.is_empty() { Ok(scheme) } else { Err(Stop::Wrong) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(command: u8, family: u8, behind: &[u8]) -> Vec<u8> {
        let length = u16::try_from(behind.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, behind].concat()
    }

    fn complete(bytes: &[u8]) -> (ProxyHeader, usize) {
        match parse(bytes) {
            ProxyHeaderPart::Complete(header, length) => (header, length),
            other => panic!("{}: {other:?}", bytes.escape_ascii()),
        }
    }

    fn client_of(source: &str, destination: &str, scheme: ClientScheme) -> ProxyHeader {
        ProxyHeader::Client {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            scheme,
        }
    }

    /// Headers of both versions.
    fn headers() -> Vec<(Vec<u8>, ProxyHeader)> {
        let ipv4 = [192, 0, 2, 7, 203, 0, 113, 1, 0x1f, 0x90, 0x01, 0xbb];
        let mut ipv6 = [0; 36];
        (ipv6[15], ipv6[31], ipv6[33], ipv6[35]) = (1, 2, 3, 4);
        let tls = [&ipv4[..], &[0x04, 0, 1, 9, TYPE_TLS, 0, 5, CLIENT_TLS, 0, 0, 0, 0]].concat();
        let no_tls = [&ipv4[..], &[TYPE_TLS, 0, 5, 0, 0, 0, 0, 0]].concat();
        let http = ClientScheme::Http;
        let plain = client_of("192.0.2.7:8080", "203.0.113.1:443", http);
        vec![
            (b"PROXY TCP4 192.0.2.7 203.0.113.1 8080 443\r\n".to_vec(), plain),
            (
                b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n".to_vec(),
                client_of("[2001:db8::1]:1", "[::1]:65535", http),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), ProxyHeader::Local),
            (b"PROXY UNKNOWN ff::1 ff::2 1 2\r\n".to_vec(), ProxyHeader::Local),
            (binary(0x20, 0x00, b""), ProxyHeader::Local),
            (binary(0x20, 0x11, &ipv4), ProxyHeader::Local),
            (binary(0x21, 0x00, b"xyz"), ProxyHeader::Local),
            (binary(0x21, 0x11, &ipv4), plain),
            (binary(0x21, 0x21, &ipv6), client_of("[::1]:3", "[::2]:4", http)),
            (binary(0x21, 0x11, &tls), client_of("192.0.2.7:8080", "203.0.113.1:443", ClientScheme::Https)),
            (binary(0x21, 0x11, &no_tls), plain),
            (binary(0x21, 0x31, &[0; 216]), ProxyHeader::Unix { scheme: http }),
        ]
    }

    #[test]
    fn headers_name_their_clients() {
        for (bytes, header) in headers() {
            assert_eq!(complete(&bytes), (header, bytes.len()), "{}", bytes.escape_ascii());
            let behind = [&bytes[..], b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(complete(&behind), (header, bytes.len()), "{}", behind.escape_ascii());
        }
    }

    #[test]
    fn cut_header_needs_more() {
        for (bytes, _) in headers() {
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]), ProxyHeaderPart::Incomplete, "{cut} of {bytes:?}");
            }
        }
    }

    #[test]
    fn other_bytes_are_no_header() {
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(TEXT_BYTES_MAX));
        let mut v2: Vec<Vec<u8>> = vec![
            binary(0x11, 0x11, &[0; 12]),
            binary(0x22, 0x11, &[0; 12]),
            binary(0x21, 0x11, &[0; 11]),
            binary(0x21, 0x12, &[0; 12]),
            binary(0x21, 0x21, &[0; 35]),
            binary(0x21, 0x31, &[0; 215]),
            binary(0x21, 0x11, &[0; 13]),
            binary(0x21, 0x11, &[&[0; 12][..], &[TYPE_TLS, 0, 2, 1]].concat()),
            binary(0x21, 0x11, &[&[0; 12][..], &[TYPE_TLS, 0, 0]].concat()),
            binary(0x21, 0x11, &vec![0; BINARY_BYTES_MAX + 1]),
        ];
        let texts = [
            "GET / HTTP/1.1\r\n",
            "proxy UNKNOWN\r\n",
            "PROXY  TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
            "PROXY TCP4 ::1 ::1 1 2\r\n",
            "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
            "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n",
            "PROXY UNKNOWN\n",
            "PROXY UNKNOWN\rx",
            "PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
            &long,
        ];
        v2.extend(texts.iter().map(|text| text.as_bytes().to_vec()));
        for bytes in v2 {
            assert_eq!(parse(&bytes), ProxyHeaderPart::Wrong, "{}", bytes.escape_ascii());
        }
    }
}
