//! Byte classes of RFC 9110 §5.6.2 and the loops that skip over bytes of a class.
//!
//! All hot loops over input bytes are here. [`text_len`] reads eight bytes at a time, because field
//! values are most of a browser's request. Lists are split here too. `scan/tests.rs` compares each
//! loop with its one-line definition.

/// `tchar`: may stand in a method, a field name, a coding.
const TOKEN: u8 = 1;
/// Allowed in a request target: visible ASCII except `#`, which starts a fragment and is never
/// sent. Bytes beyond ASCII are allowed too, because some clients do not escape. Such bytes do not
/// affect the framing, so the parser treats them as escaped.
const TARGET: u8 = 2;
/// Allowed in a registered name or IPv4 address (RFC 3986 §3.2.2), except the comma. A comma is
/// legal, but no real host has a comma, and two hosts in one field look the same.
const REG_NAME: u8 = 4;
/// Allowed in an IP literal between the brackets.
const IP_LITERAL: u8 = 8;

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        let b = byte as u8;
        let alphanumeric = b.is_ascii_alphanumeric();
        let mut class = 0;
        if alphanumeric || in_set(b, b"!#$%&'*+-.^_`|~") {
            class |= TOKEN;
        }
        if b != b'#' {
            class |= TARGET;
        }
        if alphanumeric || in_set(b, b"-._~!$&'()*+;=") {
            class |= REG_NAME;
        }
        if b.is_ascii_hexdigit() || in_set(b, b":.") {
            class |= IP_LITERAL;
        }
        table[byte] = class;
        byte += 1;
    }
    byte = 0x80;
    while byte <= 0xff {
        table[byte] = TARGET;
        byte += 1;
    }
    table
}

const fn in_set(byte: u8, set: &[u8]) -> bool {
    let mut i = 0;
    while i < set.len() {
        if set[i] == byte {
            return true;
        }
        i += 1;
    }
    false
}

/// Whether `byte` may stand in a token, such as a method or the name of a field (RFC 9110 §5.6.2).
pub fn is_token(byte: u8) -> bool {
    CLASS[byte as usize] & TOKEN != 0
}

/// Whether `byte` may stand in a registered name.
pub(crate) fn is_reg_name(byte: u8) -> bool {
    CLASS[byte as usize] & REG_NAME != 0
}

/// Whether `byte` may stand in an IP literal.
pub(crate) fn is_ip_literal(byte: u8) -> bool {
    CLASS[byte as usize] & IP_LITERAL != 0
}

/// Whether `byte` may stand in a field value or a quoted string: everything but control bytes, with
/// the tab.
pub(crate) fn is_text(byte: u8) -> bool {
    (byte >= 0x20 && byte != 0x7f) || byte == b'\t'
}

/// How many bytes at the start of `bytes` are `tchar`s.
#[inline]
pub(crate) fn token_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|&b| !is_token(b)).unwrap_or(bytes.len())
}

/// How many bytes at the start of `bytes` may stand in a request target.
#[inline]
pub(crate) fn target_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|&b| CLASS[b as usize] & TARGET == 0).unwrap_or(bytes.len())
}

/// How many bytes at the start of `bytes` may stand in a field value.
#[inline]
pub(crate) fn text_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
            if has_control_byte(block) {
                break;
            }
            at += BLOCK;
        }
        let found = next_control(&bytes[at..]);
        at += found;
        match bytes.get(at) {
            Some(b'\t') => at += 1,
            _ => return at,
        }
    }
}

const BLOCK: usize = 16;

#[inline]
fn has_control_byte(block: &[u8; BLOCK]) -> bool {
    block.iter().fold(false, |found, &b| found | (b < 0x20) | (b == 0x7f))
}

#[inline]
fn next_control(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let found = control_bytes(u64::from_le_bytes(*word));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    bytes[at..].iter().position(|&b| b < 0x20 || b == 0x7f).map_or(bytes.len(), |i| at + i)
}

/// Marks the high bit of control bytes of `word`, tabs and DEL included. The lowest mark is exact;
/// a borrow may set false marks above the lowest mark (Hacker's Delight, chapter 6).
fn control_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let is_delete = word ^ (ONES * 0x7f);
    let deletes = is_delete.wrapping_sub(ONES) & !is_delete;
    (below_space | deletes) & HIGHS
}

/// `bytes` without surrounding spaces and tabs (OWS of RFC 9110 §5.6.3).
#[inline]
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The elements of a comma-separated list without quoted strings, trimmed; empty elements are given
/// too.
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(trim)
}

/// A decimal number of digits only, of any length; a number too large becomes `u64::MAX`. `None` if
/// there is any other byte.
pub(crate) fn decimal_saturating(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut number: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    }
    Some(number)
}

#[cfg(test)]
mod tests;
