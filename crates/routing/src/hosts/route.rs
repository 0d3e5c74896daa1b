//! Routes: the paths of a host that are not files, and the targets of redirects.
//!
//! Routes match decoded paths, so no spelling of a path gets around a route. Other modules give the
//! answer. Tested in `tests.rs`.

use super::{
    AnswerRules, Asked, Candidate, Conditions, Guard, HostId, Network, TextPattern, name::without_port,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};
use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};
use vermeil_address::Client;
use vermeil_files::{has_segment, rest};
use vermeil_http::{
    Status,
    gateway::ClientScheme,
    path::{escaped, percent_encode_path},
};

/// A part of a host's paths, and the action there. Without a path, a prefix, a suffix and a
/// pattern, the part is all paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The whole path.
    pub path: Option<Box<str>>,
    /// Start of the path, in whole segments.
    pub prefix: Option<Box<str>>,
    /// End of a segment of the path, in any case of letters.
    pub suffix: Option<Box<str>>,
    /// A pattern that is found in the path.
    pub pattern: Option<TextPattern>,
    /// The other conditions. If one does not hold, later routes are tried.
    pub conditions: Conditions,
    /// The clients of the route; an empty list means all clients. Other clients get 404, whatever
    /// routes follow, because a file behind a route may be the text of a program.
    pub from: Vec<Network>,
    /// The action for matching requests.
    pub action: Action,
    /// Of [`Action::Files`]: the paths to look up when the request's own path names nothing. `None`
    /// means those of the host.
    pub tries: Option<Vec<Candidate>>,
    /// The rules about clients. `None` means those of the host.
    pub guard: Option<Arc<Guard>>,
    /// How the answers differ; `None` means as for the host.
    pub answers: Option<AnswerRules>,
}

/// The action of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The server sends files, as without a route.
    Files,
    /// CGI programs answer.
    Cgi,
    /// The status of the server, as text, or as JSON for the query `json`.
    Status,
    /// The status of the server as metrics, in the OpenMetrics text format.
    Metrics,
    /// The readiness of the server for requests: 200, or 503 after a request to stop.
    Ready,
    /// The server sends the files of another folder, which the table knows by this number. The path
    /// in the folder is the path behind the prefix.
    Alias(HostId),
    /// The server answers as for another path. Later routes are tried for that path, and earlier
    /// routes that refuse it.
    Rewrite {
        /// The path.
        to: TextTemplate,
    },
    /// The server answers with a text.
    Fixed {
        /// The status of the answer.
        status: Status,
        /// The content.
        body: Box<str>,
        /// The value of `Content-Type`.
        content_type: Box<str>,
    },
    /// The server refuses the request with this status.
    Deny(Status),
    /// The server redirects the client.
    Redirect {
        /// The target.
        to: TextTemplate,
        /// The status of the answer.
        status: Status,
    },
}

/// The parts of a request that a redirect may use.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    /// The scheme by which the client asked. A believed proxy may name the scheme.
    pub scheme: ClientScheme,
    /// `Host` as received, or a name of the request's host. `None` for HTTP/1.0 without `Host` if
    /// the host has no name.
    pub host: Option<&'a [u8]>,
    /// Decoded, without dot segments and empty segments.
    pub decoded: &'a [u8],
    /// Without its question mark.
    pub query: Option<&'a [u8]>,
}

impl Route {
    /// A route for all paths and all clients.
    pub fn new(action: Action) -> Self {
        Self {
            path: None,
            prefix: None,
            suffix: None,
            pattern: None,
            conditions: Conditions::default(),
            from: Vec::new(),
            action,
            tries: None,
            guard: None,
            answers: None,
        }
    }

    /// Whether the route is for the client `peer`. An unknown client is in no network.
    pub fn lets_in(&self, peer: Option<Client>) -> bool {
        self.from.is_empty()
            || peer.is_some_and(|peer| self.from.iter().any(|network| network.contains(peer)))
    }

    /// Whether the route answers no request of the client `peer`.
    pub fn refuses(&self, peer: Option<Client>) -> bool {
        matches!(self.action, Action::Deny(_)) || !self.lets_in(peer)
    }

    /// Whether the route refuses some clients, or has rules about clients.
    pub(super) fn may_refuse(&self) -> bool {
        matches!(self.action, Action::Deny(_)) || !self.from.is_empty() || self.guard.is_some()
    }

    /// Whether the route covers `path`, decoded.
    pub fn covers(&self, path: &[u8]) -> bool {
        self.path.as_ref().is_none_or(|whole| whole.as_bytes() == path)
            && self.prefix.as_ref().is_none_or(|prefix| rest(prefix.as_bytes(), path).is_some())
            && self.suffix.as_ref().is_none_or(|suffix| has_segment(suffix.as_bytes(), path))
            && self.pattern.as_ref().is_none_or(|pattern| pattern.is_found_in(path))
    }

    /// The path in the folder of [`Action::Alias`] for a request with the path `decoded`. Returns
    /// `None` for the folder without a slash at its end.
    pub fn below(&self, decoded: &[u8]) -> Option<Vec<u8>> {
        let prefix = self.prefix.as_deref().unwrap_or("/").as_bytes();
        let rest = rest(prefix, decoded).unwrap_or(decoded);
        (!rest.is_empty()).then(|| [b"/", rest.strip_prefix(b"/").unwrap_or(rest)].concat())
    }

    /// Whether the route covers `path`, and its conditions hold.
    pub fn matches(&self, path: &[u8], asked: Asked<'_>) -> bool {
        self.covers(path) && self.conditions.hold(asked)
    }
}

/// A text with placeholders for parts of the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TextTemplate(Box<[PathPart]>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PathPart {
    Text(Box<str>),
    Scheme,
    /// With the port.
    Host,
    /// The host without the port.
    Name,
    Path,
    Rest,
    Query,
    /// A group of the route's pattern.
    Group(usize),
}

/// Why a text is no [`TextTemplate`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The target depends on the request, is a relative path or has another scheme.
    #[error(
        "write a path that begins with one slash, or an address that begins with http://, https:// or {{scheme}}://"
    )]
    Start,
    /// Braces that do not match, or an unknown placeholder.
    #[error(
        "`{{{0}` stands for nothing; {{scheme}}, {{host}}, {{name}}, {{path}}, {{rest}}, {{query}} and the groups of a \
         pattern, such as {{1}}, do"
    )]
    Place(String),
    /// The host name is invalid, or a part of the request would continue the name.
    #[error(
        "write the whole name of a host before the path, such as https://new.example{{rest}}; {{name}} is the host without \
         its port"
    )]
    Host,
    /// A character that no address has.
    #[error("{0:?} cannot stand in an address; write it percent-encoded")]
    Character(char),
}

impl FromStr for TextTemplate {
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
                "scheme" => PathPart::Scheme,
                "host" => PathPart::Host,
                "name" => PathPart::Name,
                "path" => PathPart::Path,
                "rest" => PathPart::Rest,
                "query" => PathPart::Query,
                digits if digits.parse::<usize>().is_ok_and(|group| (1..=GROUPS_MAX).contains(&group)) => {
                    PathPart::Group(digits.parse().expect("checked"))
                }
                other => return Err(TemplateError::Place(format!("{other}}}"))),
            });
            left = behind;
        }
        push_text(&mut parts, left)?;
        let has_group = |text: &str| (1..=GROUPS_MAX).any(|group| text.contains(&format!("{{{group}}}")));
        let names_group =
            |address: &str| has_group(address.split(['/', '?', '#']).next().unwrap_or_default());
        // `{host}` may have a port already.
        let has_two_ports = |address| host(address).contains("{host}:");
        let is_unfit = |address| !is_whole(host(address)) || names_group(address) || has_two_ports(address);
        if address.is_some_and(is_unfit) {
            return Err(TemplateError::Host);
        }
        Ok(Self(parts.into()))
    }
}

/// Bytes that are encoded in a parameter of a query, so that no group adds a parameter.
const IN_QUERY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The highest number of a group in a text.
const GROUPS_MAX: usize = 9;

/// The schemes of an address.
const SCHEMES: [&str; 3] = ["http://", "https://", "{scheme}://"];

/// The part of an address, without its scheme, that names the host.
fn host(address: &str) -> &str {
    let ends = ["/", "?", "#", "{path}", "{rest}", "{query}"];
    let end = ends.iter().filter_map(|end| address.find(end)).min();
    &address[..end.unwrap_or(address.len())]
}

/// Whether the host name is complete. A path behind `new.` or `user@` would continue the name.
fn is_whole(host: &str) -> bool {
    host.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '}' | ']'))
}

/// Whether `rest` needs a slash before it, behind `written`. Without the slash, `rest` would
/// continue the host name, or the prefix, which ends in a slash, has taken the slash. A query is no
/// path and takes `rest` unchanged.
fn needs_slash(written: &[u8], prefix: &[u8], rest: &[u8]) -> bool {
    if written.ends_with(b"/") || rest.starts_with(b"/") || written.iter().any(|byte| b"?#".contains(byte)) {
        return false;
    }
    let address = SCHEMES.iter().find_map(|scheme| written.strip_prefix(scheme.as_bytes()));
    prefix.ends_with(b"/") || address.is_some_and(|address| !address.contains(&b'/'))
}

fn push_text(parts: &mut Vec<PathPart>, text: &str) -> Result<(), TemplateError> {
    let allowed = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '}');
    if let Some(wrong) = text.chars().find(|&c| !allowed(c)) {
        return Err(TemplateError::Character(wrong));
    }
    if !text.is_empty() {
        parts.push(PathPart::Text(text.into()));
    }
    Ok(())
}

impl TextTemplate {
    /// Whether the target depends on the scheme of the request.
    pub(crate) fn has_scheme(&self) -> bool {
        self.0.contains(&PathPart::Scheme)
    }

    /// The highest number of a group that the template uses.
    pub fn groups(&self) -> usize {
        let group = |part: &PathPart| if let PathPart::Group(group) = part { *group } else { 0 };
        self.0.iter().map(group).max().unwrap_or(0)
    }

    /// The target that takes the place of the target of a request that matched `route`. `None` if
    /// the target would have a dot segment, or would need a host name and the host has no name.
    pub fn target(&self, route: &Route, path: &Path<'_>) -> Option<Vec<u8>> {
        let mut target = Vec::new();
        self.write(route, path, &mut target)?;
        (!climbs(&target)).then_some(target)
    }

    /// Appends the address for a request that matched `route`. Returns `None` if the template uses
    /// a host and the host has no name.
    pub fn write(&self, route: &Route, path: &Path<'_>, out: &mut Vec<u8>) -> Option<()> {
        let prefix = route.prefix.as_deref();
        let captures = route.pattern.as_ref().filter(|_| self.groups() > 0);
        let captures = captures.and_then(|pattern| pattern.captures(path.decoded));
        let start = out.len();
        for part in &self.0 {
            match part {
                PathPart::Text(text) => out.extend_from_slice(text.as_bytes()),
                PathPart::Scheme => out.extend_from_slice(path.scheme.name()),
                PathPart::Host => out.extend_from_slice(path.host?),
                PathPart::Name => out.extend_from_slice(without_port(path.host?)),
                PathPart::Path => percent_encode_path(path.decoded, out),
                PathPart::Rest => {
                    let prefix = prefix.unwrap_or_default().as_bytes();
                    let rest = rest(prefix, path.decoded).unwrap_or(path.decoded);
                    if needs_slash(&out[start..], prefix, rest) {
                        out.push(b'/');
                    }
                    percent_encode_path(rest, out);
                }
                PathPart::Group(group) => {
                    if let Some(found) = captures.as_ref().and_then(|captures| captures.get(*group)) {
                        match out[start..].contains(&b'?') {
                            true => {
                                out.extend(percent_encode(found.as_bytes(), IN_QUERY).flat_map(str::bytes))
                            }
                            false => percent_encode_path(found.as_bytes(), out),
                        }
                    }
                }
                PathPart::Query => {
                    if let Some(query) = path.query {
                        out.push(b'?');
                        out.extend_from_slice(&escaped(query));
                    }
                }
            }
        }
        // Two slashes at the start would name another host (RFC 3986 §4.2).
        while out[start..].starts_with(b"//") {
            out.remove(start);
        }
        Some(())
    }
}

/// Whether a segment of the path of `target` is a dot segment. A group of a pattern may hold such a
/// segment, which would lead out of the folder that the operator wrote.
fn climbs(target: &[u8]) -> bool {
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    let is_dots = |segment| matches!(&*Cow::from(percent_decode(segment)), b"." | b"..");
    path.split(|&byte| byte == b'/').any(is_dots)
}

impl fmt::Display for TextTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            PathPart::Text(text) => f.write_str(text),
            PathPart::Scheme => f.write_str("{scheme}"),
            PathPart::Host => f.write_str("{host}"),
            PathPart::Name => f.write_str("{name}"),
            PathPart::Path => f.write_str("{path}"),
            PathPart::Rest => f.write_str("{rest}"),
            PathPart::Query => f.write_str("{query}"),
            PathPart::Group(group) => write!(f, "{{{group}}}"),
        })
    }
}
