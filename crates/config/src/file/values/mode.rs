//! The mode of a file: `0660`. Tested below.

use std::{fmt, str::FromStr};

/// The rights of owner, group and others to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(pub u32);

/// Why a text is no [`FileMode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write the rights of owner, group and others as octal digits, such as \"0660\"")]
pub struct FileModeError;

impl FromStr for FileMode {
    type Err = FileModeError;

    fn from_str(text: &str) -> Result<Self, FileModeError> {
        let digits = text.strip_prefix('0').filter(|digits| digits.len() == 3).unwrap_or(text);
        match digits.len() == 3 && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
            true => u32::from_str_radix(digits, 8).map(Self).map_err(|_| FileModeError),
            false => Err(FileModeError),
        }
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_has_three_octal_digits() {
        for (text, mode) in [("0660", 0o660), ("666", 0o666), ("0000", 0), ("0777", 0o777)] {
            assert_eq!(text.parse(), Ok(FileMode(mode)), "{text}");
        }
        for text in ["", "0", "66", "0o660", "0680", "1777", "00660", "rw-rw----", "+66", "\u{e9}0"] {
            assert_eq!(text.parse::<FileMode>(), Err(FileModeError), "{text}");
        }
    }
}
