//! Why what a program said is no answer: the reasons behind a 502.

use std::fmt;

/// What is wrong with the head of a program's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BadHead {
    /// The program ended before its head did.
    Truncated,
    /// None of `Content-Type`, `Location` and `Status`, of which one must be there (RFC 3875 §6.2).
    NoCgiField,
    /// A line without a colon, with white space before it, or whose name is no token; the rest of a folded line.
    FieldName,
    /// A control character in a value: a way to write lines that the program did not mean to.
    FieldValue,
    /// More than one of a field that can be there only once.
    Repeated,
    /// `Status` is not a final status code and its reason.
    Status,
    /// `Location` that cannot stand in an answer, or is no path of this site where it must be one.
    Location,
    /// `Content-Length` is not a decimal number.
    Length,
    /// `Transfer-Encoding`, which is the server's to choose (RFC 3875 §6.3.4).
    TransferCoding,
    /// More bytes than [`HeadLimits::bytes`](super::HeadLimits::bytes).
    TooLong,
    /// More fields than [`HeadLimits::fields`](super::HeadLimits::fields).
    TooManyFields,
    /// More local redirects in a row than the server follows.
    TooManyRedirects,
}

impl BadHead {
    /// One sentence without a full stop, for whoever wrote the program.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Truncated => "it ended before its head did",
            Self::NoCgiField => "it has neither Content-Type nor Location nor Status",
            Self::FieldName => "a line of its head is not a name, a colon and a value",
            Self::FieldValue => "a value in its head holds a control character",
            Self::Repeated => "Status, Location, Content-Type or Content-Length stands in its head twice",
            Self::Status => "Status is not a number from 200 to 599 and a reason",
            Self::Location => "Location is not valid",
            Self::Length => "Content-Length is not a decimal number",
            Self::TransferCoding => "Transfer-Encoding is not the program's to choose",
            Self::TooLong => "its head is too long",
            Self::TooManyFields => "its head has too many fields",
            Self::TooManyRedirects => "it redirects within this server again and again",
        }
    }
}

impl fmt::Display for BadHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reading a program's answer: {}", self.reason())
    }
}

impl std::error::Error for BadHead {}
