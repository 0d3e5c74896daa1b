//! The status codes that this server answers with.

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal $reason:literal,)*) => {
        /// The status codes this server answers with (RFC 9110 §15).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Status {
            $($(#[$doc])* $name = $code,)*
        }

        impl Status {
            /// All status codes, ascending.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The phrase behind the code.
            pub const fn reason(self) -> &'static str {
                match self {
                    $(Self::$name => $reason,)*
                }
            }

            /// The code and the phrase.
            pub(crate) const fn title(self) -> &'static [u8] {
                match self {
                    $(Self::$name => concat!($code, " ", $reason).as_bytes(),)*
                }
            }

            /// The status line, with its line end.
            pub(crate) const fn line(self) -> &'static [u8] {
                match self {
                    $(Self::$name => concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n").as_bytes(),)*
                }
            }
        }
    };
}

statuses! {
    /// 100
    Continue = 100 "Continue",
    /// 200
    Ok = 200 "OK",
    /// 204
    NoContent = 204 "No Content",
    /// 206
    PartialContent = 206 "Partial Content",
    /// 301
    MovedPermanently = 301 "Moved Permanently",
    /// 302
    Found = 302 "Found",
    /// 303
    SeeOther = 303 "See Other",
    /// 304
    NotModified = 304 "Not Modified",
    /// 307
    TemporaryRedirect = 307 "Temporary Redirect",
    /// 308
    PermanentRedirect = 308 "Permanent Redirect",
    /// 400
    BadRequest = 400 "Bad Request",
    /// 401
    Unauthorized = 401 "Unauthorized",
    /// 403
    Forbidden = 403 "Forbidden",
    /// 404
    NotFound = 404 "Not Found",
    /// 405
    MethodNotAllowed = 405 "Method Not Allowed",
    /// 408
    RequestTimeout = 408 "Request Timeout",
    /// 410
    Gone = 410 "Gone",
    /// 412
    PreconditionFailed = 412 "Precondition Failed",
    /// 413
    ContentTooLarge = 413 "Content Too Large",
    /// 414
    UriTooLong = 414 "URI Too Long",
    /// 416
    RangeNotSatisfiable = 416 "Range Not Satisfiable",
    /// 417
    ExpectationFailed = 417 "Expectation Failed",
    /// 421
    MisdirectedRequest = 421 "Misdirected Request",
    /// 429
    TooManyRequests = 429 "Too Many Requests",
    /// 431
    RequestHeaderFieldsTooLarge = 431 "Request Header Fields Too Large",
    /// 451
    UnavailableForLegalReasons = 451 "Unavailable For Legal Reasons",
    /// 500
    InternalServerError = 500 "Internal Server Error",
    /// 501
    NotImplemented = 501 "Not Implemented",
    /// 502
    BadGateway = 502 "Bad Gateway",
    /// 503
    ServiceUnavailable = 503 "Service Unavailable",
    /// 504
    GatewayTimeout = 504 "Gateway Timeout",
    /// 505
    HttpVersionNotSupported = 505 "HTTP Version Not Supported",
}

impl Status {
    /// The number.
    pub const fn code(self) -> u16 {
        self as u16
    }
}
