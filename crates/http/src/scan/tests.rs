//! The loops against their one-line definitions.

use proptest::prelude::*;

use super::*;

fn prefix_len(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|&&b| belongs(b)).count()
}

proptest! {
    #![proptest_config(crate::fixed_cases(1000))]

    #[test]
    fn text_excludes_control_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        prop_assert_eq!(text_len(&bytes), prefix_len(&bytes, is_text));
    }

    /// Mostly text, so that the loops over words and blocks run.
    #[test]
    fn text_with_few_exceptions(
        mut bytes in prop::collection::vec(0x20..0x7fu8, 0..120),
        exceptions in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        for (index, byte) in exceptions {
            if !bytes.is_empty() {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
        }
        prop_assert_eq!(text_len(&bytes), prefix_len(&bytes, is_text));
    }

    #[test]
    fn tokens_and_targets(bytes in prop::collection::vec(0x18..0x88u8, 0..40)) {
        let is_tchar = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        prop_assert_eq!(token_len(&bytes), prefix_len(&bytes, is_tchar));
        prop_assert_eq!(target_len(&bytes), prefix_len(&bytes, |b| !b.is_ascii() || (b.is_ascii_graphic() && b != b'#')));
    }
}

#[test]
fn every_byte_alone_and_behind_every_offset() {
    for byte in 0..=255u8 {
        for offset in 0..40 {
            let mut bytes = vec![b'a'; 48];
            bytes[offset] = byte;
            let expected = if is_text(byte) { 48 } else { offset };
            assert_eq!(text_len(&bytes), expected, "byte {byte:#x} at {offset}");
        }
    }
}

#[test]
fn trimming_takes_spaces_and_tabs_only() {
    assert_eq!(trim(b" \ta b\t "), b"a b");
    assert_eq!(trim(b" \t "), b"");
    assert_eq!(trim(b"\x0ba"), b"\x0ba");
}

#[test]
fn numbers_are_digits_only() {
    assert_eq!(decimal_saturating(b"18446744073709551614"), Some(u64::MAX - 1));
    assert_eq!(decimal_saturating(b"99999999999999999999"), Some(u64::MAX));
    for text in [&b""[..], b"+1", b"-1", b" 1", b"1 ", b"0x1"] {
        assert_eq!(decimal_saturating(text), None, "{}", text.escape_ascii());
    }
}
