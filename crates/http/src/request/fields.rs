//! The fields with a meaning here: their names, the syntax of their values, and their combined
//! result.
//!
//! [`CombinedFields`] takes the field lines of one head in order, and refuses a line as soon as the
//! line contradicts earlier lines. [`CombinedFields::finish`] refuses heads whose error shows only
//! at the end. Framing follows RFC 9112 §6; every "ought to" and "may" about request smuggling is
//! applied in the strict way.

use super::{Framing, host};
use crate::conditions::Preconditions;
use crate::field_lines::FieldLines;
use crate::list::{self, ListField};
use crate::rejection::Rejection;
use crate::scan;
use crate::version::Version;

/// The combined result of the field lines read so far.
#[derive(Default)]
pub(super) struct CombinedFields<'a> {
    pub(super) host: Option<&'a [u8]>,
    pub(super) preconditions: Preconditions<'a>,
    pub(super) range: Option<&'a [u8]>,
    pub(super) accept_encoding: Option<ListField<'a>>,
    pub(super) referer: Option<&'a [u8]>,
    pub(super) user_agent: Option<&'a [u8]>,
    /// Whether a list has several lines.
    several: bool,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

/// The framing and the persistence that the whole head asks for.
pub(super) struct HeadOutcome {
    pub(super) body: Framing,
    pub(super) keep_alive: bool,
    pub(super) expect_continue: bool,
}

impl<'a> CombinedFields<'a> {
    /// Takes one field line; `name` is not empty.
    #[inline]
    pub(super) fn take(&mut self, version: Version, name: &[u8], value: &'a [u8]) -> Result<(), Rejection> {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match (name.len(), name[0] | 0x20) {
            (4, b'h') if is(b"host") => return self.take_host(value),
            (5, b'r') if is(b"range") => keep_first(&mut self.range, value),
            (6, b'e') if is(b"expect") => return self.take_expect(version, value),
            (7, b'r') if is(b"referer") => keep_first(&mut self.referer, value),
            (8, b'i') if is(b"if-match") => {
                list::take(&mut self.preconditions.if_match, &mut self.several, value)
            }
            (8, b'i') if is(b"if-range") => keep_first(&mut self.preconditions.if_range, value),
            (10, b'c') if is(b"connection") => self.take_connection(value),
            (10, b'u') if is(b"user-agent") => keep_first(&mut self.user_agent, value),
            (13, b'i') if is(b"if-none-match") => {
                list::take(&mut self.preconditions.if_none_match, &mut self.several, value);
            }
            (14, b'c') if is(b"content-length") => return self.take_length(value),
            (15, b'a') if is(b"accept-encoding") => {
                list::take(&mut self.accept_encoding, &mut self.several, value);
            }
            (17, b'i') if is(b"if-modified-since") => {
                keep_first(&mut self.preconditions.if_modified_since, value);
            }
            (17, b't') if is(b"transfer-encoding") => return self.take_coding(version, value),
            (19, b'i') if is(b"if-unmodified-since") => {
                keep_first(&mut self.preconditions.if_unmodified_since, value);
            }
            _ => {}
        }
        Ok(())
    }

    /// Called at the end of the head, with all field lines.
    #[inline]
    pub(super) fn join_lists(&mut self, fields: FieldLines<'a>) {
        if !self.several {
            return;
        }
        let Preconditions { if_match, if_none_match, .. } = &mut self.preconditions;
        list::join(if_match, b"if-match", fields);
        list::join(if_none_match, b"if-none-match", fields);
        list::join(&mut self.accept_encoding, b"accept-encoding", fields);
    }

    /// Called at the end of the head.
    #[inline]
    pub(super) fn finish(&self, version: Version) -> Result<HeadOutcome, Rejection> {
        if self.host.is_none() && version == Version::Http11 {
            return Err(Rejection::HostMissing);
        }
        let body = match self.length {
            _ if self.chunked => Framing::Chunked,
            None | Some(0) => Framing::None,
            Some(length) => Framing::Length(length),
        };
        Ok(HeadOutcome {
            body,
            keep_alive: !self.close && (version == Version::Http11 || self.keep_alive),
            expect_continue: self.expects_continue && body != Framing::None,
        })
    }

    #[inline]
    fn take_host(&mut self, value: &'a [u8]) -> Result<(), Rejection> {
        if self.host.is_some() {
            return Err(Rejection::HostRepeated);
        }
        if !host::check(value) {
            return Err(Rejection::HostSyntax);
        }
        self.host = Some(value);
        Ok(())
    }

    fn take_connection(&mut self, value: &[u8]) {
        for option in scan::list(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// An expectation in HTTP/1.0 is ignored (RFC 9110 §10.1.1).
    fn take_expect(&mut self, version: Version, value: &[u8]) -> Result<(), Rejection> {
        if version == Version::Http11 {
            if !value.eq_ignore_ascii_case(b"100-continue") {
                return Err(Rejection::Expectation);
            }
            self.expects_continue = true;
        }
        Ok(())
    }

    /// One number on one line. Lists of equal numbers are refused, although RFC 9110 §8.6 lets a
    /// recipient repair such lists. Leading zeros are refused, because some programs read the
    /// number as octal.
    fn take_length(&mut self, value: &[u8]) -> Result<(), Rejection> {
        if self.length.is_some() {
            return Err(Rejection::LengthRepeated);
        }
        if self.chunked {
            return Err(Rejection::LengthAndCoding);
        }
        if value.len() > 1 && value[0] == b'0' {
            return Err(Rejection::LengthSyntax);
        }
        match scan::decimal_saturating(value) {
            Some(length) if length < u64::MAX => self.length = Some(length),
            _ => return Err(Rejection::LengthSyntax),
        }
        Ok(())
    }

    /// Only `chunked` is understood; a list that does not end in `chunked` has no detectable end
    /// (RFC 9112 §6.3).
    fn take_coding(&mut self, version: Version, value: &[u8]) -> Result<(), Rejection> {
        if version == Version::Http10 {
            return Err(Rejection::CodingInOldVersion);
        }
        if self.chunked {
            return Err(Rejection::CodingSyntax);
        }
        if self.length.is_some() {
            return Err(Rejection::LengthAndCoding);
        }
        let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
        if !is_chunked(value) {
            let codings = scan::list(value);
            let times_chunked = codings.filter(|coding| is_chunked(coding)).count();
            let ends_chunked = scan::list(value).last().is_some_and(is_chunked);
            let well_formed = scan::list(value).all(|coding| !coding.is_empty());
            return Err(match ends_chunked && times_chunked == 1 && well_formed {
                true => Rejection::CodingUnsupported,
                false => Rejection::CodingSyntax,
            });
        }
        self.chunked = true;
        Ok(())
    }
}

#[inline]
fn keep_first<'a>(slot: &mut Option<&'a [u8]>, value: &'a [u8]) {
    slot.get_or_insert(value);
}
