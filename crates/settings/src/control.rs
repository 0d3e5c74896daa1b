//! The place of the control socket. Tested below.

use std::{fmt, path::PathBuf, str::FromStr};

/// The place of the control socket. As text: `off` or a path. Write a file named `off` as `./off`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ControlTarget {
    /// In the first of these folders that exists, named after the process id:
    /// `$XDG_RUNTIME_DIR/vermeil`, `/run/vermeil` for the superuser, `/tmp/vermeil-UID`.
    #[default]
    Default,
    /// At this path.
    Path(PathBuf),
    /// No control socket.
    Off,
}

impl FromStr for ControlTarget {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Err("the control socket is `off` or a path"),
            "off" => Ok(Self::Off),
            path => Ok(Self::Path(path.into())),
        }
    }
}

impl fmt::Display for ControlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("a private folder"),
            Self::Path(path) => path.display().fmt(f),
            Self::Off => f.write_str("off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_as_they_are_written() {
        assert_eq!("off".parse(), Ok(ControlTarget::Off));
        assert_eq!("/run/x".parse(), Ok(ControlTarget::Path("/run/x".into())));
        assert!("".parse::<ControlTarget>().is_err());
    }
}
