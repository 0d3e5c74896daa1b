//! Reasons why a program's output is no answer: the causes of a 502.

use std::fmt;

/// The error in the head of a program's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BadHead {
    /// The program ended before the head was complete.
    Truncated,
    /// A line without a colon, or with white space in the name: text in place of the head.
    FieldName,
    /// A line that starts with white space, as the rest of a folded line does.
    LineFolding,
    /// `HTTP/1.1 200 OK`, which is the server's to say, or a program's that writes the whole
    /// answer.
    StatusLine,
    /// A control character in a value: a way to write lines that the program did not mean to.
    FieldValue,
    /// A repeated field that may occur only once, where no value can be preferred.
    Repeated,
    /// `Status` is not a final status code and its reason.
    Status,
    /// `Location` that is not allowed in an answer, or is no path of this site where a path is
    /// required.
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
    /// A sentence without a full stop, for the author of the program.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Truncated => "it ended before its head did",
            Self::FieldName => "a line of its head is not a name, a colon and a value",
            Self::LineFolding => "a line of its head starts with white space",
            Self::StatusLine => "its head begins with a status line: write \"Status: 200 OK\" instead",
            Self::FieldValue => "a value in its head holds a control character",
            Self::Repeated => {
                "Content-Length, X-Sendfile or X-Accel-Redirect stands in its head twice with two values"
            }
            Self::Status => "Status is not a number from 200 to 599 and a reason",
            Self::Location => "Location is empty, or no path that this server can answer",
            Self::Length => "Content-Length is not a decimal number",
            Self::TransferCoding => "Transfer-Encoding is not the program's to choose",
            Self::TooLong => "its head is longer than 64 KiB, a bound that no key changes",
            Self::TooManyFields => "its head has more than 200 fields, a bound that no key changes",
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
