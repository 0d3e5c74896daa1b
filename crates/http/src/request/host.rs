//! The syntax of `Host` and of authorities: a host and an optional port (RFC 9110 §7.2, RFC 3986
//! §3.2.2).
//!
//! Stricter than the grammar in four points, each an old way to make two programs see two hosts: no
//! empty host, no comma, no user information, and a port is a number of at most 65,535 (or nothing
//! after the colon, as the grammar allows).

use crate::scan;

/// Whether `value` is a host with an optional port.
#[inline]
pub(super) fn check(value: &[u8]) -> bool {
    split(value).is_some()
}

/// Whether `value` is a host with a port, as `CONNECT` needs.
pub(super) fn check_with_port(value: &[u8]) -> bool {
    split(value).is_some_and(|port| port.is_some_and(|digits| !digits.is_empty()))
}

/// `None` if `value` is not a host with an optional port; else the digits after the colon, if there
/// is a colon.
#[inline]
fn split(value: &[u8]) -> Option<Option<&[u8]>> {
    let host_len = match value {
        [b'[', rest @ ..] => 2 + ip_literal_len(rest)?,
        _ => reg_name_len(value)?,
    };
    match &value[host_len..] {
        [] => Some(None),
        [b':', port @ ..] => is_port(port).then_some(Some(port)),
        _ => None,
    }
}

/// Bytes of the registered name or IPv4 address that `value` starts with, unless empty or with a
/// bad escape.
#[inline]
fn reg_name_len(value: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        if scan::is_reg_name(byte) {
            at += 1;
        } else if byte == b'%' {
            let digits = value.get(at + 1..at + 3)?;
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            at += 3;
        } else {
            break;
        }
    }
    (at > 0).then_some(at)
}

/// Bytes between the brackets of an IPv6 address; the resolver checks the grammar of the address.
fn ip_literal_len(rest: &[u8]) -> Option<usize> {
    let len = rest.iter().position(|&b| b == b']')?;
    (len >= 2 && rest[..len].iter().all(|&b| scan::is_ip_literal(b))).then_some(len)
}

fn is_port(digits: &[u8]) -> bool {
    digits.is_empty() || (digits.len() <= 5 && scan::decimal_saturating(digits).is_some_and(|n| n <= 65_535))
}
