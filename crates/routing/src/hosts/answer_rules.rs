//! How the answers of a host or a route differ from those of the server.
//!
//! Leaves out the choice of the answer (`answer.rs`). Tested through the binary.

use super::{Action, Asked, CompressionRules, HeaderRules, Rules};
use std::{fmt, ops::RangeInclusive, str::FromStr, sync::Arc};
use vermeil_http::Status;

/// The rules for the answers of a host, or of a route. The rules of a route include the rules of
/// its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AnswerRules {
    /// Fields to set, to add and to remove.
    pub headers: HeaderRules,
    /// Pages of errors; the first match counts.
    pub error_pages: Vec<ErrorPagePath>,
    /// Whether these pages also replace the errors that programs answer.
    pub replaces_program_errors: bool,
    /// Which answers are compressed; `None` for none.
    pub compression: Option<Arc<CompressionRules>>,
}

/// The page of some errors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ErrorPagePath {
    /// The statuses of the page.
    pub statuses: StatusRange,
    /// The path of the page, decoded.
    pub path: Box<str>,
}

/// Statuses of errors: `404`, `4xx` or `5xx`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StatusRange(RangeInclusive<u16>);

/// The error for a text that names no status of an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no status of an error; write one such as 404, 4xx or 5xx")]
pub struct UnfitStatus(String);

impl FromStr for StatusRange {
    type Err = UnfitStatus;

    fn from_str(text: &str) -> Result<Self, UnfitStatus> {
        let unfit = || UnfitStatus(text.to_owned());
        match text {
            "4xx" => return Ok(Self(400..=499)),
            "5xx" => return Ok(Self(500..=599)),
            _ => {}
        }
        let code: u16 = text.parse().map_err(|_| unfit())?;
        let is_known = Status::ALL.iter().any(|status| status.code() == code);
        if is_known && code >= 400 { Ok(Self(code..=code)) } else { Err(unfit()) }
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.start(), self.0.end()) {
            (first, last) if first == last => write!(f, "{first}"),
            (first, _) => write!(f, "{}xx", first / 100),
        }
    }
}

impl StatusRange {
    /// Whether `other` has no status that is not in this range.
    pub fn includes(&self, other: &Self) -> bool {
        self.0.contains(other.0.start()) && self.0.contains(other.0.end())
    }
}

impl AnswerRules {
    /// Whether answers are those of the server.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.error_pages.is_empty() && self.compression.is_none()
    }

    /// The path of the page for `status`.
    pub fn error_page(&self, status: Status) -> Option<&str> {
        self.error_pages.iter().find(|page| page.statuses.0.contains(&status.code())).map(|page| &*page.path)
    }

    /// The status of a program's answer that a page replaces.
    pub fn replaced(&self, status: u16) -> Option<Status> {
        let known = *Status::ALL.iter().find(|known| known.code() == status)?;
        (self.replaces_program_errors && self.error_page(known).is_some()).then_some(known)
    }
}

impl Rules {
    /// The number of the route for the file or the program at `path`, decoded, if the route has
    /// rules for answers.
    pub fn route_with_answers(&self, path: &[u8], asked: Asked<'_>) -> Option<usize> {
        let (number, route) = self.route(path, asked)?;
        let is_of_file = matches!(route.action, Action::Files | Action::Cgi);
        (is_of_file && route.answers.is_some()).then_some(number)
    }

    /// Whether the route for `path`, decoded, has rules for answers without compression.
    pub fn forbid_compression(&self, path: &[u8], asked: Asked<'_>) -> bool {
        let answers = self.route(path, asked).and_then(|(_, route)| route.answers.as_ref());
        answers.is_some_and(|answers| answers.compression.is_none())
    }
}
