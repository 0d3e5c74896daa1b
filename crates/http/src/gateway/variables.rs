//! The meta-variables of a request (RFC 3875 §4.1), and the few more that PHP programs rely on.
//!
//! What a client sends reaches a program as `HTTP_*` only under names that nothing else can have: letters, digits and
//! hyphens. An underscore would make two fields one variable, and `Proxy` one that libraries take for their own
//! (CVE-2016-5385), so both are dropped. Fields about the connection are dropped as well (§4.1.18).
//! Tested in `gateway/tests/variables.rs`.

use crate::{
    path,
    request::{Request, Target},
};
use std::net::{IpAddr, SocketAddr};

/// How the client's connection is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Not at all.
    Http,
    /// By TLS.
    Https,
}

impl Scheme {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Http => b"http",
            Self::Https => b"https",
        }
    }
}

/// The two ends of the client's connection, as programs are told of them: made once for all its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    local: End,
    remote: End,
    /// Ours, where a name is wanted.
    name: String,
    scheme: Scheme,
}

/// One end, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    address: String,
    port: String,
}

impl From<SocketAddr> for End {
    fn from(end: SocketAddr) -> Self {
        Self { address: end.ip().to_canonical().to_string(), port: end.port().to_string() }
    }
}

impl Link {
    /// The connection between `local`, our end, and `remote`, the client's, secured as `scheme` says.
    pub fn new(local: SocketAddr, remote: SocketAddr, scheme: Scheme) -> Self {
        let name = match local.ip().to_canonical() {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => format!("[{v6}]"),
        };
        Self { local: local.into(), remote: remote.into(), name, scheme }
    }
}

/// The program a request is for. All are bytes as the file system has them, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script<'a> {
    /// Its path in the site, such as `/app/index.php`.
    pub name: &'a [u8],
    /// Its file, absolute.
    pub filename: &'a [u8],
    /// What of the path follows it; empty, or starts with a slash.
    pub path_info: &'a [u8],
    /// The folder of the site, absolute, without a slash at its end.
    pub document_root: &'a [u8],
}

/// One call of a program.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// The program.
    pub script: Script<'a>,
    /// The connection it came by.
    pub link: &'a Link,
    /// Bytes of the content that the program will get; nothing if the request has none. Content that came in chunks
    /// must have been counted before: programs read by length.
    pub content_length: Option<u64>,
    /// Name and version of this server.
    pub software: &'a str,
}

impl Invocation<'_> {
    /// Hands each variable to `put`, by name and value, each name once.
    pub fn variables(&self, mut put: impl FnMut(&[u8], &[u8])) {
        let Self { request, script, .. } = self;
        put(b"GATEWAY_INTERFACE", b"CGI/1.1");
        put(b"SERVER_SOFTWARE", self.software.as_bytes());
        put(b"SERVER_PROTOCOL", request.version.as_str().as_bytes());
        put(b"REQUEST_METHOD", request.method.as_bytes());
        put(b"REQUEST_URI", &request_uri(&request.target));
        put(b"QUERY_STRING", &path::escaped(request.target.query.unwrap_or_default()));
        put(b"DOCUMENT_ROOT", script.document_root);
        put(b"SCRIPT_NAME", script.name);
        put(b"SCRIPT_FILENAME", script.filename);
        if !script.path_info.is_empty() {
            put(b"PATH_INFO", script.path_info);
            put(b"PATH_TRANSLATED", &[script.document_root, script.path_info].concat());
        }
        // Without it php-cgi takes itself for a program that a client called directly.
        put(b"REDIRECT_STATUS", b"200");
        self.connection(&mut put);
        self.content(&mut put);
        fields(request, &mut put);
    }

    fn connection(&self, put: &mut impl FnMut(&[u8], &[u8])) {
        let Link { local, remote, name, scheme } = self.link;
        put(b"SERVER_ADDR", local.address.as_bytes());
        put(b"REMOTE_ADDR", remote.address.as_bytes());
        // The name is not looked up; the address may stand in for it (§4.1.9).
        put(b"REMOTE_HOST", remote.address.as_bytes());
        put(b"SERVER_NAME", self.request.host.map_or(name.as_bytes(), without_port));
        put(b"SERVER_PORT", local.port.as_bytes());
        put(b"REMOTE_PORT", remote.port.as_bytes());
        put(b"REQUEST_SCHEME", scheme.name());
        if *scheme == Scheme::Https {
            put(b"HTTPS", b"on");
        }
    }

    fn content(&self, put: &mut impl FnMut(&[u8], &[u8])) {
        if let Some(length) = self.content_length {
            put(b"CONTENT_LENGTH", itoa::Buffer::new().format(length).as_bytes());
        }
        let mut fields = self.request.fields;
        if let Some((_, media_type)) = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"content-type")) {
            put(b"CONTENT_TYPE", media_type);
        }
    }
}

/// The path and query as they came, but escaped; without the host that an absolute target names.
fn request_uri(target: &Target<'_>) -> Vec<u8> {
    let mut uri = path::escaped(target.path).into_owned();
    if let Some(query) = target.query {
        uri.push(b'?');
        uri.extend_from_slice(&path::escaped(query));
    }
    uri
}

/// A valid host without its port; an IPv6 address keeps its brackets (§4.1.14).
fn without_port(host: &[u8]) -> &[u8] {
    let address_end = host.iter().position(|&byte| byte == b']').map_or(0, |at| at + 1);
    let colon = host[address_end..].iter().position(|&byte| byte == b':');
    &host[..colon.map_or(host.len(), |at| address_end + at)]
}

/// Fields that no program is told of under `HTTP_`: those with a variable of their own, those about the connection, and
/// `Proxy`.
const WITHHELD: [&[u8]; 11] = [
    b"connection",
    b"content-length",
    b"content-type",
    b"host",
    b"keep-alive",
    b"proxy",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"transfer-encoding",
    b"upgrade",
];

fn fields(request: &Request<'_>, put: &mut impl FnMut(&[u8], &[u8])) {
    if let Some(host) = request.host {
        put(b"HTTP_HOST", host);
    }
    let mut variable = Vec::with_capacity(64);
    let mut fields = request.fields;
    let mut seen: Vec<&[u8]> = Vec::with_capacity(32);
    while let Some((name, value)) = fields.next() {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        let is_plain = name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_plain || WITHHELD.into_iter().any(is) || seen.iter().any(|&other| is(other)) {
            continue;
        }
        seen.push(name);
        variable.clear();
        variable.extend_from_slice(b"HTTP_");
        variable.extend(name.iter().map(|&b| if b == b'-' { b'_' } else { b.to_ascii_uppercase() }));
        match joined(name, value, fields) {
            Some(joined) => put(&variable, &joined),
            None => put(&variable, value),
        }
    }
}

/// `value` and those of later lines of the same name, as one value; nothing if there are none.
fn joined<'a>(
    name: &[u8],
    value: &[u8],
    later: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Option<Vec<u8>> {
    // A comma would be part of a cookie's value.
    let separator: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
    let mut joined = None;
    for (_, more) in later.filter(|(other, _)| other.eq_ignore_ascii_case(name)) {
        let all = joined.get_or_insert_with(|| value.to_vec());
        all.extend_from_slice(separator);
        all.extend_from_slice(more);
    }
    joined
}
