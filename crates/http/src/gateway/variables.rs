//! The meta-variables of a request (RFC 3875 §4.1), and the few further variables that PHP programs
//! need.
//!
//! A client's field reaches a program as `HTTP_*` only if its name has letters, digits and hyphens
//! alone, so no two fields share a variable. An underscore would map two fields to one variable.
//! `Proxy` would become a variable that libraries read as their own setting (CVE-2016-5385). So
//! both are dropped. Fields about the connection are dropped as well (§4.1.18). Tested in
//! `gateway/tests/variables.rs`.

use crate::{
    basic, path,
    request::{Request, Target},
};
use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
};

/// How the client's connection is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientScheme {
    /// Not at all.
    Http,
    /// By TLS.
    Https,
}

impl ClientScheme {
    /// The scheme in an address.
    pub fn name(self) -> &'static [u8] {
        match self {
            Self::Http => b"http",
            Self::Https => b"https",
        }
    }

    /// The port of an address without one (RFC 9110, sections 4.2.1 and 4.2.2).
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The two ends of the client's connection, as shown to programs: made once for all requests of the
/// connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLink {
    local: EndText,
    remote: EndText,
    /// The server's end, where a name is wanted.
    name: String,
    scheme: ClientScheme,
    /// Further variables about the connection.
    more: Vec<(&'static str, String)>,
}

/// One end, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EndText {
    address: String,
    port: String,
}

impl From<SocketAddr> for EndText {
    fn from(end: SocketAddr) -> Self {
        Self { address: end.ip().to_canonical().to_string(), port: end.port().to_string() }
    }
}

impl ClientLink {
    /// The connection between `local`, our end, and `remote`, the client's, secured as `scheme`
    /// says.
    pub fn new(local: SocketAddr, remote: SocketAddr, scheme: ClientScheme) -> Self {
        let name = name_of(local.ip());
        Self { local: local.into(), remote: remote.into(), name, scheme, more: Vec::new() }
    }

    /// The same with further variables about the connection, such as the version of TLS.
    pub fn with_variables(self, more: Vec<(&'static str, String)>) -> Self {
        Self { more, ..self }
    }
}

impl ClientLink {
    /// The connection that came through the unix socket at `path`. Its client is a process of this
    /// machine, such as a proxy.
    pub fn unix(path: Option<&Path>, scheme: ClientScheme) -> Self {
        let of_socket = |path: &str| format!("{UNIX}{path}");
        let local = EndText {
            address: of_socket(&path.unwrap_or(Path::new("")).to_string_lossy()),
            // Programs make addresses of it (§4.1.15), so it is the port of `Host`.
            port: String::new(),
        };
        let remote = EndText { address: of_socket(""), port: String::new() };
        Self { local, remote, name: "localhost".to_owned(), scheme, more: Vec::new() }
    }
}

/// The client that a believed proxy names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxiedClient {
    /// An address, and the port if it is known.
    Ip(IpAddr, Option<u16>),
    /// A process of the proxy's machine, through a unix socket.
    Unix,
    /// The proxy names no valid address. Programs get an empty address.
    Unknown,
}

/// What a believed proxy says about the ends of a connection. Unset parts stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxiedEnds {
    /// The client.
    pub client: Option<ProxiedClient>,
    /// The address that the client connected to.
    pub destination: Option<SocketAddr>,
    /// The scheme of the client's request.
    pub scheme: Option<ClientScheme>,
}

impl ClientLink {
    /// The connection between the client and the proxy, for programs. If the proxy names a scheme
    /// but no address that the client connected to, the port is the one of `Host`.
    pub fn behind_proxy(&self, ends: &ProxiedEnds) -> Self {
        let mut link = self.clone();
        if let Some(client) = ends.client {
            let (address, port) = match client {
                ProxiedClient::Ip(address, port) => (address.to_canonical().to_string(), port),
                ProxiedClient::Unix => (UNIX.to_owned(), None),
                ProxiedClient::Unknown => (String::new(), None),
            };
            link.remote = EndText { address, port: port.map(|port| port.to_string()).unwrap_or_default() };
        }
        if let Some(scheme) = ends.scheme {
            link.scheme = scheme;
            link.local.port.clear();
        }
        if let Some(destination) = ends.destination {
            link.local = destination.into();
            link.name = name_of(destination.ip());
        }
        link
    }

    /// The port that the client connected to, for a request with this `Host`.
    fn server_port<'a>(&'a self, host: Option<&'a [u8]>) -> &'a [u8] {
        if !self.local.port.is_empty() {
            return self.local.port.as_bytes();
        }
        let port =
            host.map(|host| &host[without_port(host).len()..]).and_then(|port| port.strip_prefix(b":"));
        port.filter(|port| !port.is_empty()).unwrap_or(match self.scheme {
            ClientScheme::Http => b"80",
            ClientScheme::Https => b"443",
        })
    }
}

/// The address where a name is wanted.
fn name_of(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    }
}

/// What stands for the address of a client at a unix socket, as in nginx.
const UNIX: &str = "unix:";

/// The program of a request. All paths are decoded bytes, as in the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptPaths<'a> {
    /// The path in the site, such as `/app/index.php`.
    pub name: &'a [u8],
    /// The file, absolute.
    pub filename: &'a [u8],
    /// The rest of the path after the program; empty, or starts with a slash.
    pub path_info: &'a [u8],
    /// The folder of the site, absolute, without a trailing slash.
    pub document_root: &'a [u8],
}

/// One call of a program.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// The program.
    pub script: ScriptPaths<'a>,
    /// Path and query as the client sent them, if the server has rewritten the target of `request`.
    pub uri: Option<&'a [u8]>,
    /// The connection of the request.
    pub link: &'a ClientLink,
    /// Bytes of the content that the program will get; nothing if the request has none. Content
    /// that came in chunks must have been counted before: programs read by length.
    pub content_length: Option<u64>,
    /// The user whose password the server has checked. The program then gets no `Authorization`
    /// (RFC 3875 §4.1.18).
    pub user: Option<&'a [u8]>,
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
        match self.uri {
            Some(uri) => put(b"REQUEST_URI", &path::escaped(uri)),
            None => put(b"REQUEST_URI", &request_uri(&request.target)),
        }
        put(b"QUERY_STRING", &path::escaped(request.target.query.unwrap_or_default()));
        put(b"DOCUMENT_ROOT", script.document_root);
        put(b"SCRIPT_NAME", script.name);
        put(b"SCRIPT_FILENAME", script.filename);
        if !script.path_info.is_empty() {
            put(b"PATH_INFO", script.path_info);
            put(b"PATH_TRANSLATED", &[script.document_root, script.path_info].concat());
        }
        // Without this variable php-cgi assumes that a client called php-cgi directly.
        put(b"REDIRECT_STATUS", b"200");
        self.connection(&mut put);
        self.content(&mut put);
        if let Some(user) = self.user {
            put(b"AUTH_TYPE", basic::SCHEME.as_bytes());
            put(b"REMOTE_USER", user);
        }
        fields(request, self.user.is_some(), &mut put);
    }

    fn connection(&self, put: &mut impl FnMut(&[u8], &[u8])) {
        let ClientLink { local, remote, name, scheme, more } = self.link;
        let host = self.request.host;
        put(b"SERVER_ADDR", local.address.as_bytes());
        put(b"REMOTE_ADDR", remote.address.as_bytes());
        // The server does not look up the name; the address may replace the name (§4.1.9).
        put(b"REMOTE_HOST", remote.address.as_bytes());
        put(b"SERVER_NAME", host.map_or(name.as_bytes(), without_port));
        put(b"SERVER_PORT", self.link.server_port(host));
        put(b"REMOTE_PORT", remote.port.as_bytes());
        put(b"REQUEST_SCHEME", scheme.name());
        if *scheme == ClientScheme::Https {
            put(b"HTTPS", b"on");
        }
        for (name, value) in more {
            put(name.as_bytes(), value.as_bytes());
        }
    }

    fn content(&self, put: &mut impl FnMut(&[u8], &[u8])) {
        let mut fields = self.request.fields;
        if let Some(length) = self.content_length {
            put(b"CONTENT_LENGTH", itoa::Buffer::new().format(length).as_bytes());
        } else if fields.any(|(name, _)| name.eq_ignore_ascii_case(b"content-length")) {
            // A client that announces no bytes, as an empty POST does.
            put(b"CONTENT_LENGTH", b"0");
        }
        let mut fields = self.request.fields;
        if let Some((_, media_type)) = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"content-type")) {
            put(b"CONTENT_TYPE", media_type);
        }
    }
}

/// The path and query as received, but escaped; without the host of an absolute target.
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

/// Fields that become no `HTTP_` variable: fields with a variable of their own, fields about the
/// connection, and `Proxy`.
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

fn fields(request: &Request<'_>, is_authenticated: bool, put: &mut impl FnMut(&[u8], &[u8])) {
    if let Some(host) = request.host {
        put(b"HTTP_HOST", host);
    }
    let mut variable = Vec::with_capacity(64);
    let mut fields = request.fields;
    let mut seen: Vec<&[u8]> = Vec::with_capacity(32);
    while let Some((name, value)) = fields.next() {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        let is_plain = name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if is_authenticated && is(b"authorization") {
            continue;
        }
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

/// `value` and the values of later lines with the same name, as a single value; `None` if there are
/// no such lines.
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
