//! Routes: what of a host's paths is no file, and where redirects lead.
//!
//! Works on decoded paths, so no spelling of a path gets around a route. Leaves out giving the answer. Tested in
//! `tests.rs`.

use super::Network;
use crate::files::{has_segment, rest};
use std::{fmt, net::IpAddr, str::FromStr};
use vermeil_http::{
    Status,
    path::{escaped, percent_encode_path},
};

/// A part of a host's paths, and what is done there. Without prefix and suffix it is all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// How the path begins, in whole segments.
    pub prefix: Option<Box<str>>,
    /// How one of its segments ends, in any case of letters.
    pub suffix: Option<Box<str>>,
    /// The clients that it is for; without any, all clients. For others the answer is 404, whatever
    /// routes follow, because a file behind a route may be the text of a program.
    pub from: Vec<Network>,
    /// What is done.
    pub action: Action,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Files are served, as without a route.
    Files,
    /// CGI programs answer.
    Cgi,
    /// The status of the server, as text, or as JSON for the query `json`.
    Status,
    /// Whether the server may be sent requests: 200, or 503 once it was told to stop.
    Ready,
    /// The client is sent elsewhere.
    Redirect {
        /// Where to.
        to: Template,
        /// With which status.
        status: Status,
    },
}

/// What of a request a redirect may use.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    /// `Host` as it came, or a name of the host that the request is for; nothing in HTTP/1.0 if that has none.
    pub host: Option<&'a [u8]>,
    /// Decoded, without dot segments and empty segments.
    pub decoded: &'a [u8],
    /// Without its question mark.
    pub query: Option<&'a [u8]>,
}

impl Route {
    /// Whether it is for the client `peer`; an address that is not known is in no network.
    pub fn lets_in(&self, peer: Option<IpAddr>) -> bool {
        self.from.is_empty()
            || peer.is_some_and(|peer| self.from.iter().any(|network| network.contains(peer)))
    }

    /// Whether `path`, decoded, is one of these.
    pub fn matches(&self, path: &[u8]) -> bool {
        let begins = self.prefix.as_ref().is_none_or(|prefix| rest(prefix.as_bytes(), path).is_some());
        begins && self.suffix.as_ref().is_none_or(|suffix| has_segment(suffix.as_bytes(), path))
    }
}

/// A text with places for parts of the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template(Box<[Part]>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    Text(Box<str>),
    Host,
    Path,
    Rest,
    Query,
}

/// Why a text is no [`Template`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It would lead to a place that depends on the request, or to a file.
    #[error("write a path that begins with one slash, or an address that begins with http:// or https://")]
    Start,
    /// Braces that do not match, or a word that stands for nothing.
    #[error("`{{{0}` stands for nothing; {{host}}, {{path}}, {{rest}} and {{query}} do")]
    Place(String),
    /// The name of a host that is none, or that a part of the request would go on with.
    #[error("write the whole name of a host before the path, such as https://new.example{{rest}}")]
    Host,
    /// A character that no address has.
    #[error("{0:?} cannot stand in an address; write it percent-encoded")]
    Character(char),
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let is_path = text.starts_with('/') && !text.starts_with("//");
        let address = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
        if !is_path && !text.starts_with("{path}") && address.is_none_or(str::is_empty) {
            return Err(TemplateError::Start);
        }
        let mut parts = Vec::new();
        let mut left = text;
        while let Some((before, after)) = left.split_once('{') {
            push_text(&mut parts, before)?;
            let Some((word, behind)) = after.split_once('}') else {
                return Err(TemplateError::Place(after.to_owned()));
            };
            parts.push(match word {
                "host" => Part::Host,
                "path" => Part::Path,
                "rest" => Part::Rest,
                "query" => Part::Query,
                other => return Err(TemplateError::Place(format!("{other}}}"))),
            });
            left = behind;
        }
        push_text(&mut parts, left)?;
        if address.is_some_and(|address| !is_whole(host(address))) {
            return Err(TemplateError::Host);
        }
        Ok(Self(parts.into()))
    }
}

/// What an address begins with.
const SCHEMES: [&str; 2] = ["http://", "https://"];

/// The part of an address, without its scheme, that names the host.
fn host(address: &str) -> &str {
    let ends = ["/", "?", "#", "{path}", "{rest}", "{query}"];
    let end = ends.iter().filter_map(|end| address.find(end)).min();
    &address[..end.unwrap_or(address.len())]
}

/// Whether a host is named, and by something that ends there: a path behind `new.` or `user@` was meant to go on with it.
fn is_whole(host: &str) -> bool {
    host.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '}' | ']'))
}

/// Whether `rest` needs a slash before it, behind `written`: where it would go on with the name of a host, and where the
/// prefix, which ends in a slash, has taken its own. A query is no path, and takes it as it is.
fn needs_slash(written: &[u8], prefix: &[u8], rest: &[u8]) -> bool {
    if written.ends_with(b"/") || rest.starts_with(b"/") || written.iter().any(|byte| b"?#".contains(byte)) {
        return false;
    }
    let address = SCHEMES.iter().find_map(|scheme| written.strip_prefix(scheme.as_bytes()));
    prefix.ends_with(b"/") || address.is_some_and(|address| !address.contains(&b'/'))
}

fn push_text(parts: &mut Vec<Part>, text: &str) -> Result<(), TemplateError> {
    let allowed = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '}');
    if let Some(wrong) = text.chars().find(|&c| !allowed(c)) {
        return Err(TemplateError::Character(wrong));
    }
    if !text.is_empty() {
        parts.push(Part::Text(text.into()));
    }
    Ok(())
}

impl Template {
    /// Appends the address for a request that a route with `prefix` took; nothing if it asks for a host that has no name.
    pub fn write(&self, prefix: Option<&str>, path: &Path<'_>, out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Host => out.extend_from_slice(path.host?),
                Part::Path => percent_encode_path(path.decoded, out),
                Part::Rest => {
                    let prefix = prefix.unwrap_or_default().as_bytes();
                    let rest = rest(prefix, path.decoded).unwrap_or(path.decoded);
                    if needs_slash(&out[start..], prefix, rest) {
                        out.push(b'/');
                    }
                    percent_encode_path(rest, out);
                }
                Part::Query => {
                    if let Some(query) = path.query {
                        out.push(b'?');
                        out.extend_from_slice(&escaped(query));
                    }
                }
            }
        }
        // Two slashes at the start would be another host (RFC 3986 §4.2).
        while out[start..].starts_with(b"//") {
            out.remove(start);
        }
        Some(())
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| {
            f.write_str(match part {
                Part::Text(text) => text,
                Part::Host => "{host}",
                Part::Path => "{path}",
                Part::Rest => "{rest}",
                Part::Query => "{query}",
            })
        })
    }
}
