//! An address to listen on: `8080`, `:8080`, `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`,
//! `unix:/run/v.sock`.
//!
//! Reading has no side effects: a name stays a name until the resolution. Tested below.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use vermeil_address::UNIX;

/// Longest host name (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// An address, or a form that stands for several addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A single address. A port alone is a port of 127.0.0.1, because other machines get access
    /// only if the user writes so.
    Address(SocketAddr),
    /// A port of all interfaces, IPv4 and IPv6.
    Everywhere(u16),
    /// A port of every address of a name.
    Name(String, u16),
    /// A unix socket at a path.
    Unix(PathBuf),
}

impl Listen {
    /// The default address.
    pub const DEFAULT: Self = Self::Address(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080));

    /// The same, with the path of a unix socket below `folder` if it is relative.
    #[must_use]
    pub fn within(self, folder: &Path) -> Self {
        match self {
            Self::Unix(path) => Self::Unix(folder.join(path)),
            other => other,
        }
    }

    /// The addresses; `look_up` resolves names. A unix socket has no address.
    ///
    /// # Errors
    /// The errors of `look_up`.
    pub fn addresses<E>(
        &self,
        look_up: impl FnOnce(&str, u16) -> Result<Vec<SocketAddr>, E>,
    ) -> Result<Vec<SocketAddr>, E> {
        match self {
            Self::Address(addr) => Ok(vec![*addr]),
            Self::Everywhere(port) => Ok(vec![
                SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), *port),
                SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), *port),
            ]),
            Self::Name(name, port) => look_up(name, *port),
            Self::Unix(_) => Ok(Vec::new()),
        }
    }
}

/// Why a text is no [`Listen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenSyntaxError {
    /// The text has no known form.
    #[error(
        "write PORT, :PORT (all interfaces), ADDRESS:PORT, [IPV6]:PORT or NAME:PORT, such as 127.0.0.1:8080, or unix:PATH"
    )]
    Form,
    /// A host alone.
    #[error("the port is missing; write it behind a colon, such as localhost:8080")]
    NoPort,
    /// No port has this number.
    #[error("a port is a number from 0 to 65535; 0 takes any free port")]
    Port,
    /// Without brackets, the last group would be read as the port.
    #[error("write an IPv6 address in brackets, such as [::1]:8080")]
    NoBrackets,
    /// No file can have this path.
    #[error("write the path of the unix socket behind unix:, such as unix:/run/vermeil/web.sock")]
    UnixPath,
    /// A socket without a file.
    #[error("write a path behind unix:; abstract sockets, which every process may open, are not supported")]
    Abstract,
}

impl FromStr for Listen {
    type Err = ListenSyntaxError;

    fn from_str(text: &str) -> Result<Self, ListenSyntaxError> {
        if let Ok(addr) = text.parse() {
            return Ok(Self::Address(addr));
        }
        if let Some(path) = text.strip_prefix(UNIX) {
            return match path.as_bytes() {
                [] | [.., b'/'] => Err(ListenSyntaxError::UnixPath),
                [b'@', ..] => Err(ListenSyntaxError::Abstract),
                bytes if bytes.contains(&0) => Err(ListenSyntaxError::UnixPath),
                _ => Ok(Self::Unix(path.into())),
            };
        }
        if text.parse::<Ipv6Addr>().is_ok() {
            return Err(ListenSyntaxError::NoBrackets);
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (Some(host), port),
            None if is_number(text) => (None, text),
            None if is_name(text) => return Err(ListenSyntaxError::NoPort),
            None => return Err(ListenSyntaxError::Form),
        };
        let port = match port {
            "" => return Err(ListenSyntaxError::NoPort),
            _ if !is_number(port) => return Err(ListenSyntaxError::Form),
            number => number.parse().map_err(|_| ListenSyntaxError::Port)?,
        };
        match host {
            None => Ok(Self::Address(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port))),
            Some("") => Ok(Self::Everywhere(port)),
            Some(name) if is_name(name) => Ok(Self::Name(name.to_owned(), port)),
            Some(_) => Err(ListenSyntaxError::Form),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether `text` may be a host name. A text of digits and dots only is a mistyped address, and
/// some resolvers would read another address from it (`127.1`).
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(allowed)
        && !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(addr) => addr.fmt(f),
            Self::Everywhere(port) => write!(f, ":{port}"),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    fn address(text: &str) -> Listen {
        Listen::Address(text.parse().unwrap())
    }

    #[test]
    fn common_spellings_are_read() {
        for (text, listen) in [
            ("8080", address("127.0.0.1:8080")),
            ("0", address("127.0.0.1:0")),
            (":8080", Listen::Everywhere(8080)),
            ("127.0.0.1:8080", address("127.0.0.1:8080")),
            ("0.0.0.0:80", address("0.0.0.0:80")),
            ("[::1]:8080", address("[::1]:8080")),
            ("[::]:8080", address("[::]:8080")),
            ("localhost:8080", Listen::Name("localhost".to_owned(), 8080)),
            ("web-1.example.org:80", Listen::Name("web-1.example.org".to_owned(), 80)),
            ("unix:/run/v.sock", Listen::Unix("/run/v.sock".into())),
            ("unix:v.sock", Listen::Unix("v.sock".into())),
            ("unix:80", Listen::Unix("80".into())),
        ] {
            assert_eq!(text.parse(), Ok(listen), "{text}");
        }
    }

    #[test]
    fn wrong_value_is_refused_with_reason() {
        use ListenSyntaxError::{Abstract, Form, NoBrackets, NoPort, Port, UnixPath};
        for (text, why) in [
            ("", Form),
            (":", NoPort),
            ("localhost", NoPort),
            ("localhost:", NoPort),
            ("127.0.0.1", Form),
            ("127.1:80", Form),
            ("256.0.0.1:80", Form),
            ("::1", NoBrackets),
            ("::", NoBrackets),
            ("[::1]", Form),
            ("65536", Port),
            (":65536", Port),
            ("localhost:99999999999999999999", Port),
            ("localhost:+80", Form),
            ("localhost:http", Form),
            ("http://localhost:80", Form),
            ("local host:80", Form),
            ("a:b:80", Form),
            ("unix:", UnixPath),
            ("unix:/run/", UnixPath),
            ("unix:a\0b", UnixPath),
            ("unix:@vermeil", Abstract),
        ] {
            assert_eq!(text.parse::<Listen>(), Err(why), "{text}");
        }
    }

    #[test]
    fn everywhere_is_both_families() {
        let nothing = |_: &str, _| -> Result<_, Infallible> { unreachable!("no name to look up") };
        let addresses = Listen::Everywhere(80).addresses(nothing).unwrap();
        assert_eq!(addresses, ["0.0.0.0:80".parse().unwrap(), "[::]:80".parse().unwrap()]);
    }

    proptest! {
        #[test]
        fn printed_value_reads_back(addr: SocketAddr, port: u16, name in "[a-z][a-z0-9-]{0,20}(\\.[a-z]{2,5})?") {
            let addr = SocketAddr::new(addr.ip(), addr.port());
            for listen in [
                Listen::Address(addr), Listen::Everywhere(port),
                Listen::Unix(format!("/run/{name}").into()), Listen::Name(name, port),
            ] {
                prop_assert_eq!(listen.to_string().parse(), Ok(listen));
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,20}|[0-9a-f:.\\[\\]]{0,30}") {
            let _ = text.parse::<Listen>();
        }
    }
}
