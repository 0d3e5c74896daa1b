//! Basic authentication (RFC 7617): the name and the password of a request.
//!
//! Leaves out whether the password is right. Tested below.

use crate::request::Request;
use base64::{Engine as _, engine::general_purpose};

/// The scheme in `Authorization` and in `AUTH_TYPE` of programs.
pub const SCHEME: &str = "Basic";

/// Name and password, as the client sent them.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicCredentials {
    decoded: Vec<u8>,
    /// Where the colon stands.
    colon: usize,
}

impl BasicCredentials {
    /// The credentials of `request`. `None` without the field, with several of them, and with a
    /// malformed one.
    pub fn of(request: &Request<'_>) -> Option<Self> {
        let mut values = request.fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"authorization"));
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Self::parse(value),
            _ => None,
        }
    }

    /// Reads the value of `Authorization`. Control characters are refused (RFC 7617 §2).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
        if !scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) || !rest.starts_with(b" ") {
            return None;
        }
        let decoded = general_purpose::STANDARD.decode(rest.trim_ascii_start()).ok()?;
        let colon = decoded.iter().position(|&byte| byte == b':')?;
        let is_clean = !decoded.iter().any(u8::is_ascii_control);
        is_clean.then_some(Self { decoded, colon })
    }

    /// The name.
    pub fn user(&self) -> &[u8] {
        &self.decoded[..self.colon]
    }

    /// The password.
    pub fn password(&self) -> &[u8] {
        &self.decoded[self.colon + 1..]
    }
}

impl std::fmt::Debug for BasicCredentials {
    /// Without the password, because debug texts reach logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BasicCredentials").field("user", &self.user().escape_ascii().to_string()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_end_at_the_first_colon() {
        let read = |value: &[u8]| {
            let credentials = BasicCredentials::parse(value)?;
            Some((credentials.user().to_vec(), credentials.password().to_vec()))
        };
        let both = |user: &str, password: &str| Some((user.into(), password.into()));
        assert_eq!(read(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), both("Aladdin", "open sesame"));
        assert_eq!(read(b"bAsIc   YTpiOmM="), both("a", "b:c"));
        assert_eq!(read(b"Basic Og=="), both("", ""));
        for wrong in [
            &b""[..],
            b"Basic",
            b"Basic ",
            b"BasicYTpi",
            b"Bearer YTpi",
            b"Basic YTpi!",
            b"Basic YWI=",
            b"Basic YToK",
            b"Basic YTpi YTpi",
            b"Basic YTpi=",
        ] {
            assert_eq!(read(wrong), None, "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn several_fields_are_no_credentials() {
        let of = |fields: &str| {
            let head = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            match crate::parse(head.as_bytes(), &crate::ConnectionLimits::default()) {
                crate::ParsedPart::Complete { request, .. } => BasicCredentials::of(&request),
                other => panic!("{other:?}"),
            }
        };
        assert!(of("Authorization: Basic YTpi\r\n").is_some());
        assert!(of("Authorization: Basic YTpi\r\nauthorization: Basic YTpi\r\n").is_none());
        assert!(of("").is_none());
        let text = format!("{:?}", of("Authorization: Basic YTpi\r\n"));
        assert!(text.contains('a') && !text.contains("password"), "{text}");
    }
}
