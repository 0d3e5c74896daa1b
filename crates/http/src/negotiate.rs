//! Which of the available content codings a client wants most (RFC 9110 §12.5.3).
//!
//! The highest weight wins; at equal weights Brotli before Zstandard before gzip before none, the
//! order of the sizes that sidecar files have. No answer is ever refused for its coding: without an
//! acceptable one, the identity is sent, as §12.5.3 allows. Cases: `negotiate/tests.rs`.

use crate::list::ListField;
use crate::scan;

#[cfg(test)]
mod tests;

/// The coding to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The representation itself.
    Identity,
    /// Brotli, `br`.
    Br,
    /// Zstandard, `zstd`.
    Zstd,
    /// gzip.
    Gzip,
}

impl Choice {
    /// The value of `Content-Encoding`; `None` for the identity, which has none.
    pub fn content_encoding(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Br => Some("br"),
            Self::Zstd => Some("zstd"),
            Self::Gzip => Some("gzip"),
        }
    }
}

/// The codings in which a representation is available, besides the identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodingSet(u8);

impl EncodingSet {
    /// Identity only.
    pub const NONE: Self = Self(0);

    /// This set and `coding`. The identity is always there.
    pub const fn with(self, coding: Choice) -> Self {
        match coding {
            Choice::Identity => self,
            Choice::Br => Self(self.0 | 1),
            Choice::Zstd => Self(self.0 | 2),
            Choice::Gzip => Self(self.0 | 4),
        }
    }

    /// Whether `coding` is available.
    pub const fn contains(self, coding: Choice) -> bool {
        matches!(coding, Choice::Identity) || self.with(coding).0 == self.0
    }

    /// Whether there is nothing to choose from.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Codings in the order of preference at equal weight.
const PREFERENCE: [Choice; 4] = [Choice::Br, Choice::Zstd, Choice::Gzip, Choice::Identity];

/// Chooses the coding of `available` with the highest weight in `Accept-Encoding`.
#[inline]
pub fn choose(accept_encoding: Option<ListField<'_>>, available: EncodingSet) -> Choice {
    match accept_encoding {
        Some(list) if !available.is_empty() => choose_some(list, available),
        _ => Choice::Identity,
    }
}

/// Chooses the coding of `order` with the highest weight in `Accept-Encoding`. At equal weights the
/// first in `order` wins, and each coding wins over the identity.
pub fn choose_in_order(accept_encoding: Option<ListField<'_>>, order: &[Choice]) -> Choice {
    let Some(list) = accept_encoding else { return Choice::Identity };
    let weights = Weights::parse(list);
    let mut best = (0, Choice::Identity);
    for &coding in order.iter().chain([&Choice::Identity]) {
        let weight = weights.of(coding);
        if weight > best.0 {
            best = (weight, coding);
        }
    }
    best.1
}

fn choose_some(list: ListField<'_>, available: EncodingSet) -> Choice {
    let ListField::Line(line) = list else { return heaviest(&Weights::parse(list), available) };
    match line {
        // The values of Chrome and Firefox, Safari, and older browsers: equal weights.
        b"gzip, deflate, br, zstd" => first_of(&PREFERENCE, available),
        b"gzip, deflate, br" => first_of(&[Choice::Br, Choice::Gzip], available),
        b"gzip, deflate" | b"gzip" => first_of(&[Choice::Gzip], available),
        _ => heaviest(&Weights::parse(list), available),
    }
}

fn first_of(wanted: &[Choice], available: EncodingSet) -> Choice {
    wanted.iter().copied().find(|&coding| available.contains(coding)).unwrap_or(Choice::Identity)
}

fn heaviest(weights: &Weights, available: EncodingSet) -> Choice {
    let mut best = (0, Choice::Identity);
    for coding in PREFERENCE {
        let weight = weights.of(coding);
        if available.contains(coding) && weight > best.0 {
            best = (weight, coding);
        }
    }
    best.1
}

/// Weights in thousandths, as far as the field has weights.
#[derive(Default)]
struct Weights {
    named: [Option<u16>; PREFERENCE.len()],
    any: Option<u16>,
}

impl Weights {
    /// Reads a list of codings with weights. Of a coding named twice the last weight counts; an
    /// element with a malformed weight counts as not there.
    fn parse(list: ListField<'_>) -> Self {
        let mut weights = Self::default();
        for element in list.lines().flat_map(scan::list) {
            let (name, parameter) = match element.iter().position(|&b| b == b';') {
                Some(at) => (scan::trim(&element[..at]), Some(scan::trim(&element[at + 1..]))),
                None => (element, None),
            };
            let Some(weight) = parameter.map_or(Some(WEIGHT_MAX), weight) else { continue };
            match coding(name) {
                Some(coding) => weights.named[coding as usize] = Some(weight),
                None if name == b"*" => weights.any = Some(weight),
                None => {}
            }
        }
        weights
    }

    /// An unnamed coding is not wanted; an unnamed identity is acceptable, but less than any coding
    /// that is wanted.
    fn of(&self, coding: Choice) -> u16 {
        self.named[coding as usize].or(self.any).unwrap_or(0)
    }
}

fn coding(name: &[u8]) -> Option<Choice> {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    match name.len() {
        2 if is(b"br") => Some(Choice::Br),
        4 if is(b"gzip") => Some(Choice::Gzip),
        4 if is(b"zstd") => Some(Choice::Zstd),
        6 if is(b"x-gzip") => Some(Choice::Gzip),
        8 if is(b"identity") => Some(Choice::Identity),
        _ => None,
    }
}

const WEIGHT_MAX: u16 = 1000;

/// Thousandths out of `q=0.5` (RFC 9110 §12.4.2: at most three decimals, at most 1).
fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', number @ ..] = parameter else { return None };
    let (whole, decimals) = match number {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut thousandths = u16::from(whole - b'0');
    for i in 0..3 {
        let digit = decimals.get(i).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        thousandths = thousandths * 10 + u16::from(digit - b'0');
    }
    (thousandths <= WEIGHT_MAX).then_some(thousandths)
}
