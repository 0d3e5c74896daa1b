//! Conditional requests: whether the client's copy is current, and whether the representation is
//! still the client's version.
//!
//! [`Preconditions::evaluate`] is the precedence of RFC 9110 §13.2.2 for methods that read
//! ([`Method::Get`] and [`Method::Head`]; other methods ignore these fields or never get here).
//! [`Preconditions::range_applies`] is `If-Range`. A weak tag of the server matches in weak
//! comparison only. The whole table of cases is in `conditions/tests.rs`.
//!
//! [`Method::Get`]: crate::Method::Get
//! [`Method::Head`]: crate::Method::Head

use std::time::UNIX_EPOCH;

use crate::date::HttpDate;
use crate::list::ListField;
use crate::scan;

#[cfg(test)]
mod tests;

/// The conditional fields of a request, as received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preconditions<'a> {
    /// `If-Match`
    pub if_match: Option<ListField<'a>>,
    /// `If-None-Match`
    pub if_none_match: Option<ListField<'a>>,
    /// `If-Modified-Since`
    pub if_modified_since: Option<&'a [u8]>,
    /// `If-Unmodified-Since`
    pub if_unmodified_since: Option<&'a [u8]>,
    /// `If-Range`
    pub if_range: Option<&'a [u8]>,
}

/// The validators of the representation that would be sent.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// The entity tag of the response, with its quotes, and with `W/` before the quotes if the tag
    /// is weak.
    pub etag: &'a [u8],
    /// The `Last-Modified` of the response, if the response has one. Two different contents never
    /// have the same date, unless the author of the contents gives both the same date.
    pub last_modified: Option<&'a HttpDate>,
}

/// The result of evaluating the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer as if there were no conditions.
    Proceed,
    /// 304: the client's copy is current.
    NotModified,
    /// 412: the representation is not the client's version.
    PreconditionFailed,
}

impl Preconditions<'_> {
    /// Whether there is nothing to evaluate (`If-Range` aside, which needs a range to matter).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.if_none_match.is_none()
            && self.if_modified_since.is_none()
            && self.if_match.is_none()
            && self.if_unmodified_since.is_none()
    }

    /// Evaluates the conditions of a `GET` or `HEAD` that would be answered with 200 without
    /// conditions. Fields with invalid dates are ignored, malformed tags match nothing.
    #[inline]
    pub fn evaluate(&self, current: &Validators<'_>) -> Verdict {
        if self.is_empty() { Verdict::Proceed } else { self.evaluate_some(current) }
    }

    fn evaluate_some(&self, current: &Validators<'_>) -> Verdict {
        let unchanged = match (self.if_match, self.if_unmodified_since) {
            (Some(tags), _) => has_tag(tags, current.etag, TagComparison::Strong),
            (None, Some(date)) => is_unmodified_since(date, current.last_modified).unwrap_or(true),
            (None, None) => true,
        };
        if !unchanged {
            return Verdict::PreconditionFailed;
        }
        let client_is_current = match (self.if_none_match, self.if_modified_since) {
            (Some(tags), _) => has_tag(tags, current.etag, TagComparison::Weak),
            (None, Some(date)) => current.last_modified.is_some_and(|sent| is_date(date, sent)),
            (None, None) => false,
        };
        if client_is_current { Verdict::NotModified } else { Verdict::Proceed }
    }

    /// Whether the server obeys `Range`: there is no `If-Range`, or the `If-Range` validator is
    /// exactly the response's validator. A date must equal the `Last-Modified` of the response (RFC
    /// 9110 §13.1.5). A later date does not match, and without `Last-Modified` no date matches. A
    /// weak tag never matches.
    pub fn range_applies(&self, current: &Validators<'_>) -> bool {
        let Some(validator) = self.if_range else { return true };
        (validator == current.etag && !is_weak(current.etag))
            || current.last_modified.is_some_and(|sent| is_date(validator, sent))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TagComparison {
    Strong,
    Weak,
}

fn is_weak(etag: &[u8]) -> bool {
    etag.starts_with(b"W/")
}

/// Whether the list `tags` is `*` or holds the tag `etag`. The rest of a line after a malformed
/// element is ignored.
fn has_tag(tags: ListField<'_>, etag: &[u8], comparison: TagComparison) -> bool {
    tags.lines().any(|line| line_has_tag(line, etag, comparison))
}

fn line_has_tag(tags: &[u8], etag: &[u8], comparison: TagComparison) -> bool {
    if tags == b"*" {
        return true;
    }
    if comparison == TagComparison::Strong && is_weak(etag) {
        return false;
    }
    if tags == etag {
        return true;
    }
    let etag = etag.strip_prefix(b"W/").unwrap_or(etag);
    let mut rest = tags;
    while let Some(element) = next_tag(&mut rest) {
        if element.tag == etag && (comparison == TagComparison::Weak || !element.weak) {
            return true;
        }
    }
    false
}

struct ListedTag<'a> {
    /// The tag with its quotes.
    tag: &'a [u8],
    weak: bool,
}

/// Takes the next entity tag off a list (RFC 9110 §8.8.3). Commas may stand inside the quotes,
/// quotes may not.
fn next_tag<'a>(rest: &mut &'a [u8]) -> Option<ListedTag<'a>> {
    while let [b' ' | b'\t' | b',', after @ ..] = *rest {
        *rest = after;
    }
    let (weak, quoted) = match rest.strip_prefix(b"W/") {
        Some(quoted) => (true, quoted),
        None => (false, *rest),
    };
    let opaque = quoted.strip_prefix(b"\"")?;
    let len = opaque.iter().position(|&b| b == b'"')?;
    let (tag, after) = quoted.split_at(len + 2);
    let after = scan::trim(after);
    if !matches!(after, [] | [b',', ..]) {
        return None;
    }
    *rest = after;
    Some(ListedTag { tag, weak })
}

/// Whether `text` is exactly the date in the response. For `If-Modified-Since` RFC 9110 §13.1.3
/// accepts a later date as well. But after a change back to older content, that rule would confirm
/// a copy of the newer content. Only clients without tags have such a copy.
fn is_date(text: &[u8], sent: &HttpDate) -> bool {
    text == sent.as_bytes() || parse_date(text) == Some(sent.seconds())
}

/// Whether nothing changed after `date`; `None` if `date` is invalid, or if there is no
/// `Last-Modified` for comparison.
fn is_unmodified_since(date: &[u8], last_modified: Option<&HttpDate>) -> Option<bool> {
    let last_modified = last_modified?;
    if date == last_modified.as_bytes() {
        return Some(true);
    }
    Some(last_modified.seconds() <= parse_date(date)?)
}

/// Seconds since 1970 of a date in any of the three forms of RFC 9110 §5.6.7; negative before.
fn parse_date(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    since_1970(text).or_else(|| before_1970(text))
}

fn since_1970(text: &str) -> Option<i64> {
    let time = httpdate::parse_http_date(text).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// A date with a year of four digits before 1970, which `httpdate` does not read: the same date
/// some periods of the calendar later, minus those periods.
#[cold]
fn before_1970(text: &str) -> Option<i64> {
    /// The Gregorian calendar, days of the week included, repeats itself after so many years.
    const PERIOD_YEARS: u32 = 400;
    const PERIOD_SECONDS: i64 = 146_097 * 86_400;
    let is_year = |word: &&str| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    let year = text.split(' ').find(is_year)?;
    let at = year.as_ptr().addr() - text.as_ptr().addr();
    let number: u32 = year.parse().ok().filter(|&number| number < 1970)?;
    let periods = (1970 - number).div_ceil(PERIOD_YEARS);
    let later = format!("{}{}{}", &text[..at], number + periods * PERIOD_YEARS, &text[at + 4..]);
    Some(since_1970(&later)? - i64::from(periods) * PERIOD_SECONDS)
}
