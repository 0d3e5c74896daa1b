//! A number of bytes: `4096`, `32K`, `256M`, `2G`.
//!
//! Units are powers of 1024. Tested below.

use super::split_unit;
use std::fmt;
use std::str::FromStr;

const UNITS: [(&str, u64); 4] = [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// The number.
    pub bytes: u64,
}

impl Size {
    /// A size of `bytes`.
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes }
    }
}

/// Why a text is no [`Size`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// The text has no known form.
    #[error("write bytes such as 4096, or a whole number with a unit of 1024: 32K, 256M, 2G, 1T")]
    Form,
    /// 2^64 or more.
    #[error("more bytes than can be counted")]
    TooLarge,
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let (number, unit) = split_unit(text);
        if number.is_empty() || number.contains('.') {
            return Err(SizeError::Form);
        }
        let unit = unit.to_ascii_uppercase();
        let unit = unit.strip_suffix("IB").unwrap_or(&unit);
        let unit_bytes = match UNITS.iter().find(|(name, _)| *name == unit) {
            Some(&(_, bytes)) => bytes,
            None if unit.is_empty() && text == number => 1,
            None => return Err(SizeError::Form),
        };
        let number: u64 = number.parse().map_err(|_| SizeError::TooLarge)?;
        number.checked_mul(unit_bytes).map(Self::bytes).ok_or(SizeError::TooLarge)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS.iter().find(|(_, unit)| self.bytes >= *unit && self.bytes.is_multiple_of(*unit));
        match exact {
            Some((name, unit)) => write!(f, "{}{name}", self.bytes / unit),
            None => write!(f, "{}", self.bytes),
        }
    }
}

/// A clap parser of sizes from `least` to `most`.
pub fn between(least: u64, most: u64) -> impl Fn(&str) -> Result<Size, String> + Clone {
    let (least, most) = (Size::bytes(least), Size::bytes(most));
    move |text| {
        let size: Size = text.parse().map_err(|error: SizeError| error.to_string())?;
        match size {
            _ if size < least => Err(format!("at least {least}")),
            _ if size > most => Err(format!("at most {most}")),
            _ => Ok(size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn common_spellings_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("32K", 32 << 10),
            ("32k", 32 << 10),
            ("256M", 256 << 20),
            ("256MiB", 256 << 20),
            ("2G", 2 << 30),
            ("1T", 1 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Size { bytes }), "{text}");
        }
    }

    #[test]
    fn wrong_value_is_refused_with_reason() {
        use SizeError::{Form, TooLarge};
        for (text, why) in [
            ("", Form),
            ("K", Form),
            ("-1", Form),
            ("+1", Form),
            ("1.5G", Form),
            ("1 K", Form),
            ("1KB", Form),
            ("1iB", Form),
            ("1B", Form),
            ("1P", Form),
            ("٣K", Form),
            ("18446744073709551616", TooLarge),
            ("16777216T", TooLarge),
        ] {
            assert_eq!(text.parse::<Size>(), Err(why), "{text}");
        }
    }

    #[test]
    fn refusal_names_bounds() {
        let parse = between(1024, 32 << 10);
        assert_eq!(parse("1K"), Ok(Size::bytes(1024)));
        assert_eq!(parse("32K"), Ok(Size::bytes(32 << 10)));
        assert_eq!(parse("1023"), Err("at least 1K".to_owned()));
        assert_eq!(parse("33K"), Err("at most 32K".to_owned()));
    }

    proptest! {
        #[test]
        fn printed_value_reads_back(bytes: u64, shift in 0..63_u32) {
            for bytes in [bytes, (bytes >> shift) << shift] {
                let size = Size { bytes };
                prop_assert_eq!(size.to_string().parse(), Ok(size));
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,12}|[0-9]{0,30}[KMGTiB]{0,3}") {
            let _ = text.parse::<Size>();
        }
    }
}
