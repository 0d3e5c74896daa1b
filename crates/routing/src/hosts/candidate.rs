//! The paths that the key `try` names, for requests whose own path names nothing. Other modules
//! look these paths up. Tested in `tests.rs`.

use std::{fmt, str::FromStr};
use vermeil_http::path;

/// The placeholder of the request's path.
const PATH: &str = "{path}";

/// A path to look up: a fixed path, or the request's path with a text behind it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Candidate {
    /// The request's path, followed by this text.
    Path(Box<str>),
    /// This path.
    Fixed(Box<str>),
}

/// Why a text is no [`Candidate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CandidateError {
    /// The text is neither a path nor the placeholder.
    #[error(
        "write {{path}}, {{path}} with a text behind it such as \"{{path}}.html\", or a path such as \"/index.php\""
    )]
    Form,
    /// A query would have no effect, because files have none and programs get the request's query.
    #[error("leave out the query, because a program gets the query of the request")]
    Query,
    /// A dot segment, an empty segment or an escape.
    #[error("write the path as it is when decoded, without dot segments and empty segments")]
    Segments,
    /// A fixed path with a name that is never served.
    #[error("names that begin with a dot are never served; name another file")]
    Hidden,
}

impl Candidate {
    /// The request's own path.
    pub fn own() -> Self {
        Self::Path("".into())
    }

    /// Whether the path is the request's own, perhaps with a text behind it.
    pub fn has_own(&self) -> bool {
        matches!(self, Self::Path(_))
    }

    /// The path for a request with the path `own`, decoded. The path of a folder, which ends in a
    /// slash, stands without this slash before a text.
    pub fn of(&self, own: &[u8]) -> Vec<u8> {
        match self {
            Self::Fixed(path) => path.as_bytes().to_vec(),
            Self::Path(text) if text.is_empty() => own.to_vec(),
            Self::Path(text) => [own.strip_suffix(b"/").unwrap_or(own), text.as_bytes()].concat(),
        }
    }
}

impl FromStr for Candidate {
    type Err = CandidateError;

    fn from_str(text: &str) -> Result<Self, CandidateError> {
        let (candidate, behind) = match text.strip_prefix(PATH) {
            Some(behind) => (Self::Path(behind.into()), behind),
            None if text.starts_with('/') => (Self::Fixed(text.into()), text),
            None => return Err(CandidateError::Form),
        };
        if behind.contains(['{', '}']) {
            return Err(CandidateError::Form);
        }
        if behind.contains(['?', '#']) {
            return Err(CandidateError::Query);
        }
        let is_odd = |segment: &str| matches!(segment, "." | "..");
        if behind.contains("//") || behind.contains('%') || behind.split('/').any(is_odd) {
            return Err(CandidateError::Segments);
        }
        if let Self::Fixed(path) = &candidate
            && path::decode(path.as_bytes(), &mut Vec::new()).is_ok_and(|path| path.has_dotfile)
        {
            return Err(CandidateError::Hidden);
        }
        Ok(candidate)
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(text) => write!(f, "{PATH}{text}"),
            Self::Fixed(path) => f.write_str(path),
        }
    }
}
