//! The numbers in a record's header: the request and the kind (§3.3, §8).

use std::{fmt, num::NonZero};

/// The number of a request on its connection (§3.3); never zero, because zero stands for the
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(NonZero<u16>);

impl RequestId {
    /// The first request of a connection.
    pub const FIRST: Self = Self(NonZero::<u16>::MIN);

    /// The next number; the first number again after the last.
    #[must_use]
    pub fn next(self) -> Self {
        self.0.checked_add(1).map_or(Self::FIRST, Self)
    }

    /// The number.
    pub(crate) const fn number(self) -> u16 {
        self.0.get()
    }

    pub(crate) fn new(number: u16) -> Option<Self> {
        NonZero::new(number).map(Self)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The kind of a record (§8).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum RecordKind {
            $($(#[$doc])* $name,)*
            /// A number outside of the specification.
            Unknown(u8),
        }

        impl RecordKind {
            pub(crate) const fn of(number: u8) -> Self {
                match number {
                    $($number => Self::$name,)*
                    number => Self::Unknown(number),
                }
            }

            pub(crate) const fn number(self) -> u8 {
                match self {
                    $(Self::$name => $number,)*
                    Self::Unknown(number) => number,
                }
            }
        }
    };
}

kinds! {
    /// `FCGI_BEGIN_REQUEST`, to the application.
    BeginRequest = 1,
    /// `FCGI_ABORT_REQUEST`, to the application.
    AbortRequest = 2,
    /// `FCGI_END_REQUEST`, from the application.
    EndRequest = 3,
    /// `FCGI_PARAMS`, a stream to the application.
    Params = 4,
    /// `FCGI_STDIN`, a stream to the application.
    Stdin = 5,
    /// `FCGI_STDOUT`, a stream from the application.
    Stdout = 6,
    /// `FCGI_STDERR`, a stream from the application.
    Stderr = 7,
    /// `FCGI_DATA`, a stream to an application in the filter role, which no application uses.
    Data = 8,
    /// `FCGI_GET_VALUES`, to the application.
    GetValues = 9,
    /// `FCGI_GET_VALUES_RESULT`, from the application.
    GetValuesResult = 10,
    /// `FCGI_UNKNOWN_TYPE`, from the application.
    UnknownType = 11,
}
