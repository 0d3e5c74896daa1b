//! The target of requests: a URL and its resolved address.
//!
//! Covers only the parts of RFC 3986 that an injector needs: scheme, authority, path and query.
//! Names are resolved once before a run, so that the run does not measure a resolver. Tested here.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scheme {
    /// Plain TCP.
    Http,
    /// TLS over TCP.
    Https,
}

/// The URL of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Url {
    /// Plain or TLS.
    pub scheme: Scheme,
    /// Name or address, without brackets.
    pub host: String,
    /// The given port, or the default port of the scheme.
    pub port: u16,
    /// Path and query, as sent; begins with `/`.
    pub target: String,
}

/// Why a text is not a loadable URL, or the URL has no address.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// The text is malformed.
    #[error("{text:?} is no URL that can be loaded: {why}; write one such as http://127.0.0.1:8080/page")]
    Form {
        /// The given text.
        text: String,
        /// The reason.
        why: &'static str,
    },
    /// The resolver failed.
    #[error("{host}: the name cannot be resolved: {source}; write an address instead")]
    Resolve {
        /// The host name.
        host: String,
        /// The resolver's error.
        source: io::Error,
    },
    /// The host has no address.
    #[error("{host}: the name has no address; write an address instead")]
    NoAddress {
        /// The host name.
        host: String,
    },
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let wrong = |why| UrlError::Form { text: text.to_owned(), why };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let (scheme, default_port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Scheme::Http, 80),
            "https" => (Scheme::Https, 443),
            _ => return Err(wrong("its scheme is neither http nor https")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err(wrong("it has a user name: use -H 'Authorization: …'"));
        }
        let (host, port) = authority_parts(authority, default_port).map_err(wrong)?;
        if target.bytes().any(|byte| byte <= b' ' || byte >= 0x7F) {
            return Err(wrong("its path has spaces or characters that must be percent-encoded"));
        }
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Self { scheme, host, port, target })
    }
}

fn authority_parts(authority: &str, default_port: u16) -> Result<(String, u16), &'static str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inner) => inner.split_once(']').ok_or("its bracket is not closed")?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|&port| port > 0).ok_or("its port is no number to 65535")?,
        None if rest.is_empty() => default_port,
        None => return Err("something stands behind its bracket"),
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:%".contains(&byte);
    if host.is_empty() {
        return Err("it has no host");
    }
    if !host.is_ascii() {
        return Err("its host has letters beyond ASCII: write the name in its form xn--…");
    }
    if !host.bytes().all(allowed) {
        return Err("its host has characters that no name has");
    }
    Ok((host.to_owned(), port))
}

impl Url {
    /// Host and port as in the `Host` field: without the default port of the scheme.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.scheme, self.port) {
            (Scheme::Http, 80) | (Scheme::Https, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// Resolves the host. Among several addresses, the first that accepts a connection is used, or
    /// the first of all if none does. The reason is `localhost`, which has two addresses on most
    /// machines, while a server often listens on one.
    ///
    /// # Errors
    /// The host has no address.
    pub fn resolve(&self) -> Result<SocketAddr, UrlError> {
        let host = || self.host.clone();
        let found = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|source| UrlError::Resolve { host: host(), source })?;
        first_that_answers(&found.collect::<Vec<_>>()).ok_or_else(|| UrlError::NoAddress { host: host() })
    }
}

/// Longest wait for a connection before the next address is tried. RFC 8305 section 5 allows up to
/// 2 s between attempts.
const ATTEMPT: Duration = Duration::from_secs(2);

/// The first of `addrs` that accepts a connection, or the first of all. A single address is not
/// tried.
fn first_that_answers(addrs: &[SocketAddr]) -> Option<SocketAddr> {
    let answers = |addr: &&SocketAddr| TcpStream::connect_timeout(addr, ATTEMPT).is_ok();
    match addrs {
        [] => None,
        [only] => Some(*only),
        many => many.iter().find(answers).or(many.first()).copied(),
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.scheme == Scheme::Https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, u16, String) {
        let url: Url = text.parse().unwrap();
        (url.host, url.port, url.target)
    }

    #[test]
    fn urls_come_apart() {
        assert_eq!(parts("http://a"), ("a".into(), 80, "/".into()));
        assert_eq!(parts("HTTPS://a.b?x#y"), ("a.b".into(), 443, "/?x".into()));
        assert_eq!(parts("http://[::1]:8080/p?q=/"), ("::1".into(), 8080, "/p?q=/".into()));
        for text in ["http://a:8080/", "https://[::1]/x?y", "http://a/"] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn wrong_url_is_refused_with_reason() {
        let wrong = [
            ("localhost:80", "no scheme"),
            ("ftp://a/", "neither http"),
            ("http://", "no host"),
            ("http://b\u{fc}cher.example/", "xn--"),
            ("http://a b/", "characters that no name has"),
            ("http://a:x/", "port"),
            ("http://a:0/", "port"),
            ("http://[::1/", "bracket"),
            ("http://u@a/", "user name"),
            ("http://a/b c", "percent-encoded"),
        ];
        for (text, why) in wrong {
            let said = text.parse::<Url>().unwrap_err().to_string();
            assert!(said.contains(why) && said.contains("such as http://"), "{text}: {said}");
        }
    }

    #[test]
    fn addresses_need_no_resolver() {
        let url: Url = "http://127.0.0.1:81/".parse().unwrap();
        assert_eq!(url.resolve().unwrap().to_string(), "127.0.0.1:81");
    }

    /// Regression: localhost resolved to ::1 first and the server listened on 127.0.0.1, so every
    /// request was refused.
    #[test]
    fn an_address_that_refuses_gives_way_to_the_next() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        // The port of tcpmux, on which no process listens.
        let silent = SocketAddr::from(([127, 0, 0, 1], 1));
        assert_eq!(first_that_answers(&[silent, addr]), Some(addr));
        assert_eq!(first_that_answers(&[addr, silent]), Some(addr));
        assert_eq!(first_that_answers(&[silent, silent]), Some(silent));
        assert_eq!(first_that_answers(&[]), None);
    }
}
