//! The request line (RFC 9112 §3): method, target, version, separated by single spaces, with CRLF
//! at the end.

use super::{METHOD_BYTES_MAX, Method, Target, TargetForm, host};
use crate::rejection::{ParseStop, Rejection};
use crate::scan;
use crate::version::Version;

/// A request line and the host in its target.
pub(super) struct RequestLine<'a> {
    pub(super) method: Method<'a>,
    pub(super) target: Target<'a>,
    pub(super) authority: Option<&'a [u8]>,
    pub(super) version: Version,
    /// Bytes with the line end.
    pub(super) len: usize,
}

/// Reads the request line at the start of `buf`.
#[inline]
pub(super) fn parse(buf: &[u8]) -> Result<RequestLine<'_>, ParseStop> {
    let (method, target_at) = method(buf)?;
    let rest = &buf[target_at..];
    let target_len = scan::target_len(rest);
    match rest.get(target_len) {
        None => return Err(ParseStop::More),
        Some(b' ') if target_len > 0 => {}
        Some(_) => return Err(Rejection::Target.into()),
    }
    let version_at = target_at + target_len + 1;
    let version = version(&buf[version_at..])?;
    let (target, authority) = split_target(method, &rest[..target_len])?;
    Ok(RequestLine { method, target, authority, version, len: version_at + VERSION_LINE_LEN })
}

/// The method and where the target starts.
#[inline]
fn method(buf: &[u8]) -> Result<(Method<'_>, usize), ParseStop> {
    if buf.starts_with(b"GET ") {
        return Ok((Method::Get, 4));
    }
    let len = scan::token_len(buf);
    if len > METHOD_BYTES_MAX {
        return Err(Rejection::Method.into());
    }
    match buf.get(len) {
        None => return Err(ParseStop::More),
        Some(b' ') if len > 0 => {}
        Some(_) => return Err(Rejection::Method.into()),
    }
    let method = match &buf[..len] {
        b"GET" => Method::Get,
        b"HEAD" => Method::Head,
        b"OPTIONS" => Method::Options,
        b"POST" => Method::Post,
        b"PUT" => Method::Put,
        b"DELETE" => Method::Delete,
        b"PATCH" => Method::Patch,
        b"TRACE" => Method::Trace,
        b"CONNECT" => Method::Connect,
        other => Method::Other(other),
    };
    Ok((method, len + 1))
}

const VERSION_LINE_LEN: usize = b"HTTP/1.1\r\n".len();

/// The version and its line end, at the start of `buf`.
#[inline]
fn version(buf: &[u8]) -> Result<Version, ParseStop> {
    match buf.first_chunk::<VERSION_LINE_LEN>() {
        Some(b"HTTP/1.1\r\n") => Ok(Version::Http11),
        Some(b"HTTP/1.0\r\n") => Ok(Version::Http10),
        _ => other_version(buf),
    }
}

/// A version that is not one of the usual two: a later minor version of HTTP/1, another major
/// version, no version, or an incomplete version.
#[cold]
fn other_version(buf: &[u8]) -> Result<Version, ParseStop> {
    const PATTERN: &[u8; VERSION_LINE_LEN] = b"HTTP/0.0\r\n";
    for (&byte, &pattern) in buf.iter().zip(PATTERN) {
        let matches = if pattern == b'0' { byte.is_ascii_digit() } else { byte == pattern };
        match (matches, pattern, byte) {
            (true, ..) => {}
            (false, b'\r', b'\n') => return Err(Rejection::BareLf.into()),
            (false, b'\n', _) => return Err(Rejection::BareCr.into()),
            (false, ..) => return Err(Rejection::VersionSyntax.into()),
        }
    }
    match buf.get(..VERSION_LINE_LEN) {
        None => Err(ParseStop::More),
        // 1.0 and 1.1 are known already.
        Some(line) if line.starts_with(b"HTTP/1.") => Ok(Version::Http11),
        Some(_) => Err(Rejection::VersionUnsupported.into()),
    }
}

/// Cuts a target into its parts; the second value is the authority in the target.
#[inline]
fn split_target<'a>(method: Method<'_>, raw: &'a [u8]) -> Result<(Target<'a>, Option<&'a [u8]>), Rejection> {
    if method == Method::Connect {
        return match host::check_with_port(raw) {
            true => Ok((Target { form: TargetForm::Authority, raw, path: b"", query: None }, Some(raw))),
            false => Err(Rejection::TargetForm),
        };
    }
    match raw {
        [b'/', ..] => {
            let (path, query) = split_query(raw);
            Ok((Target { form: TargetForm::Origin, raw, path, query }, None))
        }
        b"*" if method == Method::Options => {
            Ok((Target { form: TargetForm::Asterisk, raw, path: b"", query: None }, None))
        }
        _ => absolute(raw),
    }
}

/// Cuts `http://authority/path?query`. An empty path means `/` (RFC 9110 §4.2.3).
fn absolute(raw: &[u8]) -> Result<(Target<'_>, Option<&[u8]>), Rejection> {
    let rest = strip_scheme(raw).ok_or(Rejection::TargetForm)?;
    let authority_len = rest.iter().position(|&b| b == b'/' || b == b'?').unwrap_or(rest.len());
    let (authority, after) = rest.split_at(authority_len);
    if !host::check(authority) {
        return Err(Rejection::HostSyntax);
    }
    let (path, query) = split_query(after);
    let path = if path.is_empty() { b"/" } else { path };
    Ok((Target { form: TargetForm::Absolute, raw, path, query }, Some(authority)))
}

fn strip_scheme(raw: &[u8]) -> Option<&[u8]> {
    [b"http://".as_slice(), b"https://"].into_iter().find_map(|scheme| {
        let (start, rest) = raw.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

#[inline]
fn split_query(raw: &[u8]) -> (&[u8], Option<&[u8]>) {
    match raw.iter().position(|&b| b == b'?') {
        Some(at) => (&raw[..at], Some(&raw[at + 1..])),
        None => (raw, None),
    }
}
