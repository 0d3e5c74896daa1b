//! A request as bytes: method, target, fields and content, checked once and sent many times.
//!
//! Rejects values that would change the meaning of the request (line breaks in fields, a second
//! `Content-Length`). Tested here.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use bytes::Bytes;

use crate::url::{Scheme, Url};

/// A request. Fields are sent in the order in which they were added, after `Host`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRequest {
    method: String,
    fields: Vec<(String, String)>,
    content: Bytes,
}

/// An HTTP/2 request that can be sent many times.
#[derive(Clone, Debug)]
pub(crate) struct Http2Request {
    pub(crate) head: http::Request<()>,
    pub(crate) content: Bytes,
}

/// Whether a request may be repeated after its connection ended without an answer (RFC 9110 section
/// 9.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Never, because the server may have executed the request, and would execute the request
    /// twice.
    Never,
    /// Once, because the method is idempotent.
    Once,
}

impl Repeats {
    /// The rule for `method`.
    pub fn of(method: &str) -> Self {
        match method {
            "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE" => Self::Once,
            _ => Self::Never,
        }
    }
}

/// The reason why a request cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The method is not a token.
    #[error("{0:?} is no HTTP method: write letters, such as GET or POST")]
    Method(String),
    /// The text has no colon, the name is not a token, or the value has line breaks.
    #[error("{0:?} is no header field: write \"Name: value\", in one line")]
    Field(String),
    /// The target cannot be requested over HTTP/2.
    #[error("{0} cannot be asked for over HTTP/2: {1}")]
    Target(String, String),
    /// The field is set by the injector, or is not allowed in a request.
    #[error("the field {0} cannot be given: {1}")]
    Reserved(String, &'static str),
}

/// Fields that HTTP/2 forbids, in addition to the reserved fields (RFC 9113 §8.2.2).
const OF_A_CONNECTION: [&str; 4] = ["keep-alive", "proxy-connection", "te", "upgrade"];

impl Default for LoadRequest {
    fn default() -> Self {
        Self { method: "GET".to_owned(), fields: Vec::new(), content: Bytes::new() }
    }
}

impl LoadRequest {
    /// Sets the method.
    ///
    /// # Errors
    /// [`RequestError::Method`] if the method is not a token (RFC 9110 §5.6.2).
    pub fn method(mut self, method: &str) -> Result<Self, RequestError> {
        if method.is_empty() || !method.bytes().all(is_token) {
            return Err(RequestError::Method(method.to_owned()));
        }
        self.method = method.to_owned();
        Ok(self)
    }

    /// Adds a field, written `Name: value`.
    ///
    /// # Errors
    /// The text is not a field, or the field frames the message.
    pub fn field(mut self, field: &str) -> Result<Self, RequestError> {
        let wrong = || RequestError::Field(field.to_owned());
        let (name, value) = field.split_once(':').ok_or_else(wrong)?;
        let value = value.trim_matches([' ', '\t']);
        let is_text = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7F);
        if name.is_empty() || !name.bytes().all(is_token) || !value.bytes().all(is_text) {
            return Err(wrong());
        }
        let reserved = [
            ("content-length", "it follows from --body"),
            ("transfer-encoding", "content is sent with its length"),
            ("connection", "use --no-keepalive"),
        ];
        if let Some((_, instead)) = reserved.iter().find(|(reserved, _)| name.eq_ignore_ascii_case(reserved))
        {
            return Err(RequestError::Reserved(name.to_owned(), instead));
        }
        self.fields.push((name.to_owned(), value.to_owned()));
        Ok(self)
    }

    /// Sets the content.
    pub fn content(mut self, content: impl Into<Bytes>) -> Self {
        self.content = content.into();
        self
    }

    /// Whether the request may be repeated.
    pub fn repeats(&self) -> Repeats {
        Repeats::of(&self.method)
    }

    /// Whether the answer has no content, whatever the answer's fields are.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// The request for HTTP/2, where `Host` is `:authority` (RFC 9113 §8.3.1).
    ///
    /// # Errors
    /// [`RequestError::Target`] for an invalid URL; [`RequestError::Reserved`] for fields of a
    /// connection.
    pub(crate) fn http2(&self, url: &Url) -> Result<Http2Request, RequestError> {
        let is_host = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("host");
        let host = self.fields.iter().find(is_host).map_or_else(|| url.authority(), |(_, host)| host.clone());
        let scheme = if url.scheme == Scheme::Https { "https" } else { "http" };
        let mut head = http::Request::builder()
            .version(http::Version::HTTP_2)
            .method(self.method.as_str())
            .uri(format!("{scheme}://{host}{}", url.target));
        for (name, value) in self.fields.iter().filter(|field| !is_host(field)) {
            if OF_A_CONNECTION.iter().any(|of| name.eq_ignore_ascii_case(of)) {
                return Err(RequestError::Reserved(name.clone(), "HTTP/2 has no fields of a connection"));
            }
            head = head.header(name.as_str(), value.as_str());
        }
        if self.has_length() {
            head = head.header("content-length", self.content.len());
        }
        let head = head.body(()).map_err(|error| RequestError::Target(url.to_string(), error.to_string()))?;
        Ok(Http2Request { head, content: self.content.clone() })
    }

    /// Whether requests of this method have content.
    pub(crate) fn has_content_by_method(&self) -> bool {
        matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }

    /// Whether the request has a `Content-Length`, also for empty content (RFC 9110 §8.6).
    fn has_length(&self) -> bool {
        !self.content.is_empty() || self.has_content_by_method()
    }

    /// The bytes on the wire, for `target` (path and query) at `host` (authority). `reuse` says
    /// whether the connection is kept.
    pub fn bytes(&self, host: &str, target: &str, reuse: super::Reuse) -> Bytes {
        self.line_and_rest(format!("{} {target} HTTP/1.1\r\n", self.method).as_bytes(), host, reuse)
    }

    /// The bytes with another request line, which is sent unchanged, including the line end.
    pub(crate) fn line_and_rest(&self, line: &[u8], host: &str, reuse: super::Reuse) -> Bytes {
        let mut head = String::new();
        if !self.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            let _infallible = write!(head, "Host: {host}\r\n");
        }
        for (name, value) in &self.fields {
            let _infallible = write!(head, "{name}: {value}\r\n");
        }
        if reuse == super::Reuse::Close {
            head.push_str("Connection: close\r\n");
        }
        if self.has_length() {
            let _infallible = write!(head, "Content-Length: {}\r\n", self.content.len());
        }
        head.push_str("\r\n");
        [line, head.as_bytes(), &self.content].concat().into()
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::super::Reuse;
    use super::*;

    #[test]
    fn request_has_given_fields() {
        let plain = LoadRequest::default();
        assert_eq!(plain.bytes("a:1", "/x?y", Reuse::Keep), "GET /x?y HTTP/1.1\r\nHost: a:1\r\n\r\n");
        let full = LoadRequest::default().method("POST").unwrap();
        let full = full.field("Host: other").unwrap().field("X-A:\t1 ").unwrap().content("abc");
        assert_eq!(
            full.bytes("a", "/", Reuse::Close),
            "POST / HTTP/1.1\r\nHost: other\r\nX-A: 1\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"
        );
    }

    #[test]
    fn field_that_breaks_request_is_refused() {
        assert!(LoadRequest::default().method("GET /x").is_err());
        for field in ["novalue", ": x", "a b: x", "a: x\r\nb: y", "Content-Length: 3", "connection: close"] {
            assert!(LoadRequest::default().field(field).is_err(), "{field}");
        }
    }
}
