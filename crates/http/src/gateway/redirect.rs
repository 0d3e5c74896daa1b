//! Local redirects: the request that a program's `Location: /path` stands for (RFC 3875 §6.2.2).

use super::BadHead;
use crate::request::{Method, Request};
use crate::version::Version;
use percent_encoding::percent_encode_byte;

/// Local redirects followed in a row. Apache's `LimitInternalRecursion` is 10.
pub const LOCAL_REDIRECTS_MAX: u32 = 10;

/// Fields of the old request that describe its content.
fn is_about_content(name: &[u8]) -> bool {
    let starts = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-"));
    let others: [&[u8]; 4] = [b"transfer-encoding", b"expect", b"trailer", b"te"];
    starts || others.into_iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Appends the head of the request for `location`, to be parsed and judged like a client's request:
/// the fields of `request` without its content. HEAD stays HEAD; every other method becomes GET,
/// because the content has been read.
///
/// # Errors
///
/// [`BadHead::Location`] if `location` is no path, or has a fragment, which is not allowed in a
/// request.
pub fn write_request(request: &Request<'_>, location: &[u8], out: &mut Vec<u8>) -> Result<(), BadHead> {
    if !location.starts_with(b"/") || location.contains(&b'#') {
        return Err(BadHead::Location);
    }
    let location = escaped(location);
    let method: &[u8] = if request.method == Method::Head { b"HEAD " } else { b"GET " };
    let version: &[u8] = if request.version == Version::Http10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" };
    for piece in [method, &location, version] {
        out.extend_from_slice(piece);
    }
    let mut line = |name: &[u8], value: &[u8]| {
        for piece in [name, b": ", value, b"\r\n"] {
            out.extend_from_slice(piece);
        }
    };
    if let Some(host) = request.host {
        line(b"Host", host);
    }
    for (name, value) in request.fields {
        if !name.eq_ignore_ascii_case(b"host") && !is_about_content(name) {
            line(name, value);
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// `location` with all bytes escaped that are not allowed in a request line, because programs write
/// spaces and names unescaped.
fn escaped(location: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(location.len());
    for &byte in location {
        match byte.is_ascii_graphic() {
            true => escaped.push(byte),
            false => escaped.extend_from_slice(percent_encode_byte(byte).as_bytes()),
        }
    }
    escaped
}
