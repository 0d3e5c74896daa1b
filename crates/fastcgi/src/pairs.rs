//! Names and values, each with a length before it (§3.4).
//!
//! A length below 128 takes one byte, any other four with the highest bit set. Tested below and,
//! across records, in `responder/tests.rs`.

use crate::FastcgiFault;

/// The first length that needs four bytes.
const SHORT_END: usize = 128;

/// Marks a length of four bytes.
const LONG_BIT: u32 = 1 << 31;

/// The encoded lengths of a pair, and their number of bytes.
///
/// # Panics
/// If the name or the value has 2 GiB or more; the caller must have refused such a request before.
pub fn lengths(name: &[u8], value: &[u8]) -> ([u8; 8], usize) {
    let mut bytes = [0; 8];
    let name_end = put_length(name.len(), &mut bytes);
    let end = name_end + put_length(value.len(), &mut bytes[name_end..]);
    (bytes, end)
}

fn put_length(length: usize, out: &mut [u8]) -> usize {
    if length < SHORT_END {
        out[0] = length as u8;
        return 1;
    }
    let length = u32::try_from(length).ok().filter(|length| length & LONG_BIT == 0);
    let length = length.expect("a name or value of a request is far below 2 GiB");
    out[..4].copy_from_slice(&(length | LONG_BIT).to_be_bytes());
    4
}

/// The pairs in `bytes`, in order; after an error the iterator ends.
pub fn read(bytes: &[u8]) -> Pairs<'_> {
    Pairs { rest: bytes }
}

/// An iterator of names and values.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), FastcgiFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let pair = self.pair();
        if pair.is_none() {
            self.rest = b"";
        }
        Some(pair.ok_or(FastcgiFault::Pair))
    }
}

impl<'a> Pairs<'a> {
    fn pair(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let name_length = self.length()?;
        let value_length = self.length()?;
        Some((self.take(name_length)?, self.take(value_length)?))
    }

    fn length(&mut self) -> Option<usize> {
        let &first = self.rest.first()?;
        if usize::from(first) < SHORT_END {
            self.rest = &self.rest[1..];
            return Some(usize::from(first));
        }
        let bytes = self.take(4)?.try_into().expect("four were taken");
        usize::try_from(u32::from_be_bytes(bytes) & !LONG_BIT).ok()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in pairs {
            let (head, length) = lengths(name, value);
            bytes.extend_from_slice(&head[..length]);
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(value);
        }
        bytes
    }

    #[test]
    fn any_length_comes_back() {
        let values: Vec<Vec<u8>> =
            [0, 1, 127, 128, 255, 256, 65_535, 65_536, 200_000].map(|length| vec![b'v'; length]).into();
        for name in &values {
            let pairs: Vec<_> = values.iter().map(|value| (&name[..], &value[..])).collect();
            let bytes = written(&pairs);
            let back: Vec<_> = read(&bytes).map(|pair| pair.expect("whole")).collect();
            assert!(back == pairs, "name of {} bytes", name.len());
        }
    }

    #[test]
    fn the_examples_of_the_specification() {
        assert_eq!(written(&[(b"FCGI_MAX_CONNS", b"")]), b"\x0e\x00FCGI_MAX_CONNS");
        let long = written(&[(b"A", &[b'b'; 128])]);
        assert_eq!(&long[..6], b"\x01\x80\x00\x00\x80A");
    }

    #[test]
    fn truncated_pairs_are_one_fault() {
        let bytes = written(&[(b"NAME", b"value"), (b"N", &[b'v'; 300])]);
        for end in 1..bytes.len() {
            let whole = read(&bytes[..end]).filter(|pair| pair.is_ok()).count();
            let faults = read(&bytes[..end]).filter(|pair| pair.is_err()).count();
            let first = written(&[(b"NAME", b"value")]).len();
            assert_eq!((whole, faults), (usize::from(end >= first), usize::from(end != first)), "{end}");
        }
    }
}
