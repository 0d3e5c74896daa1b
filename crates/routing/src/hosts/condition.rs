//! The conditions of a route beside the path: methods, fields, the query and clients.
//!
//! A route whose conditions do not hold is passed over, and the next route is tried. Tested below,
//! and through the binary (`crates/e2e/tests/e2e/routes.rs`).

use super::{Network, TextPattern, pattern::PatternError};
use percent_encoding::percent_decode;
use std::{borrow::Cow, fmt, str::FromStr};
use vermeil_address::Client;
use vermeil_http::{Method, Request};

/// What a route is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The request. Without a request, every condition on the request holds.
    pub request: Option<&'a Request<'a>>,
    /// The client, if known.
    pub peer: Option<Client>,
    /// The number of the first route to try.
    pub first: usize,
}

impl Asked<'_> {
    /// A question about a path alone.
    pub const PATH_ONLY: Self = Self { request: None, peer: None, first: 0 };
}

/// The conditions of a route beside the path. All must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// The methods; an empty list means all. `GET` includes `HEAD`.
    pub methods: Vec<Box<str>>,
    /// Conditions on the fields of the request.
    pub headers: Vec<RequestCondition>,
    /// Conditions on the parameters of the query.
    pub query: Vec<RequestCondition>,
    /// The clients; an empty list means all.
    pub clients: Vec<Network>,
}

impl Conditions {
    /// Whether there is no condition.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether all conditions hold.
    pub fn hold(&self, asked: Asked<'_>) -> bool {
        let Some(request) = asked.request else { return true };
        self.method_holds(request.method)
            && self.headers.iter().all(|condition| condition.holds_for_field(request))
            && self.query.iter().all(|condition| condition.holds_for_query(request.target.query))
            && (self.clients.is_empty()
                || asked.peer.is_some_and(|peer| self.clients.iter().any(|network| network.contains(peer))))
    }

    fn method_holds(&self, method: Method<'_>) -> bool {
        let is_known =
            |method: Method<'_>| self.methods.iter().any(|known| known.as_bytes() == method.as_bytes());
        self.methods.is_empty() || is_known(method) || (method == Method::Head && is_known(Method::Get))
    }
}

/// A condition on a field or a parameter: `NAME`, `!NAME`, `NAME=VALUE`, `NAME!=VALUE`,
/// `NAME~PATTERN` or `NAME!~PATTERN`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestCondition {
    name: Box<str>,
    test: Test,
    /// Whether the test must fail for every value.
    is_negated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Test {
    Present,
    Is(Box<str>),
    Like(TextPattern),
}

/// Why a text is no [`RequestCondition`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// Not in one of the forms.
    #[error("write NAME, !NAME, NAME=VALUE, NAME!=VALUE, NAME~PATTERN or NAME!~PATTERN")]
    Form,
    /// The pattern is wrong.
    #[error("{0}")]
    Pattern(#[from] PatternError),
}

impl RequestCondition {
    fn holds<'v>(&self, mut values: impl Iterator<Item = Cow<'v, [u8]>>) -> bool {
        let is_met = values.any(|value| match &self.test {
            Test::Present => true,
            Test::Is(wanted) => *value == *wanted.as_bytes(),
            Test::Like(pattern) => pattern.is_found_in(&value),
        });
        is_met != self.is_negated
    }

    fn holds_for_field<'v>(&'v self, request: &'v Request<'v>) -> bool {
        if self.name.eq_ignore_ascii_case("host") {
            // The case of letters does not count in a host.
            let spelled = |host: &[u8]| match &self.test {
                Test::Is(wanted) if wanted.as_bytes().eq_ignore_ascii_case(host) => {
                    Cow::Borrowed(wanted.as_bytes())
                }
                _ => Cow::Owned(host.to_ascii_lowercase()),
            };
            return self.holds(request.host.into_iter().map(spelled));
        }
        let is_named = |name: &[u8]| name.eq_ignore_ascii_case(self.name.as_bytes());
        self.holds(request.fields.filter(|(name, _)| is_named(name)).map(|(_, value)| Cow::Borrowed(value)))
    }

    fn holds_for_query(&self, query: Option<&[u8]>) -> bool {
        let parts = query.unwrap_or_default().split(|&byte| byte == b'&').filter(|part| !part.is_empty());
        let named = parts.filter_map(|part| {
            let at = part.iter().position(|&byte| byte == b'=');
            let (name, value) = at.map_or((part, &b""[..]), |at| (&part[..at], &part[at + 1..]));
            (form_decoded(name)[..] == *self.name.as_bytes()).then(|| form_decoded(value))
        });
        self.holds(named)
    }
}

/// The text of a part of a form: percent-decoded, with a space for each plus sign.
fn form_decoded(part: &[u8]) -> Cow<'_, [u8]> {
    if part.contains(&b'+') {
        let spaced: Vec<u8> = part.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
        return Cow::Owned(percent_decode(&spaced).collect());
    }
    percent_decode(part).into()
}

impl FromStr for RequestCondition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.[]".contains(&byte))
        };
        let (is_absent, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let end = rest.find(['=', '~', '!']).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        if !is_name(name) || (is_absent && !behind.is_empty()) {
            return Err(ConditionError::Form);
        }
        let (is_unequal, behind) = match behind.strip_prefix('!') {
            Some(behind) => (true, behind),
            None => (false, behind),
        };
        let test = match behind.split_at_checked(1) {
            None if !is_unequal => Test::Present,
            Some(("=", value)) => Test::Is(value.into()),
            Some(("~", pattern)) => Test::Like(pattern.parse()?),
            _ => return Err(ConditionError::Form),
        };
        Ok(Self { name: name.into(), test, is_negated: is_absent || is_unequal })
    }
}

impl fmt::Display for RequestCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, test, is_negated } = self;
        let not = if *is_negated { "!" } else { "" };
        match test {
            Test::Present => write!(f, "{not}{name}"),
            Test::Is(value) => write!(f, "{name}{not}={value}"),
            Test::Like(pattern) => write!(f, "{name}{not}~{pattern}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use vermeil_http::{ConnectionLimits, ParsedPart};

    fn holds(conditions: &Conditions, head: &str) -> bool {
        let head = format!("{head}\r\n\r\n");
        match vermeil_http::parse(head.as_bytes(), &ConnectionLimits::default()) {
            ParsedPart::Complete { request, .. } => conditions.hold(Asked {
                request: Some(&request),
                peer: Some(IpAddr::from([127, 0, 0, 1]).into()),
                first: 0,
            }),
            other => panic!("{head}: {other:?}"),
        }
    }

    #[test]
    fn conditions_look_at_fields_and_parameters() {
        let get = "GET /x?a=1&b=two+words&c&d=%41 HTTP/1.1\r\nHost: H.example\r\nX-Test: one\r\nX-Test: two";
        for (header, is_met) in [
            ("X-Test", true),
            ("!X-Test", false),
            ("x-test=two", true),
            ("x-test=three", false),
            ("x-test!=two", false),
            ("x-test!=three", true),
            ("X-Test~^o", true),
            ("X-Test!~^o", false),
            ("X-Other!=x", true),
            ("Host=h.example", true),
            ("host=H.Example", true),
            ("Host~^h[.]", true),
            ("Host!=h.example", false),
        ] {
            let conditions = Conditions { headers: vec![header.parse().unwrap()], ..Conditions::default() };
            assert_eq!(holds(&conditions, get), is_met, "{header}");
            assert_eq!(conditions.headers[0].to_string(), header);
        }
        for (query, is_met) in [
            ("a", true),
            ("a=1", true),
            ("a=2", false),
            ("b=two words", true),
            ("c=", true),
            ("d=A", true),
            ("!e", true),
        ] {
            let conditions = Conditions { query: vec![query.parse().unwrap()], ..Conditions::default() };
            assert_eq!(holds(&conditions, get), is_met, "{query}");
        }
        for (methods, line, is_met) in [
            ("GET", "HEAD", true),
            ("GET", "POST", false),
            ("POST", "POST", true),
            ("HEAD", "GET", false),
            ("HEAD", "HEAD", true),
        ] {
            let conditions = Conditions { methods: vec![methods.into()], ..Conditions::default() };
            assert_eq!(
                holds(&conditions, &format!("{line} / HTTP/1.1\r\nHost: h")),
                is_met,
                "{methods} {line}"
            );
        }
        for (network, is_met) in [("127.0.0.0/8", true), ("10.0.0.0/8", false)] {
            let conditions = Conditions { clients: vec![network.parse().unwrap()], ..Conditions::default() };
            assert_eq!(holds(&conditions, get), is_met, "{network}");
        }
    }

    #[test]
    fn wrong_condition_is_refused_with_reason() {
        for (text, says) in [
            ("", "write NAME"),
            ("=x", "write NAME"),
            ("a b", "write NAME"),
            ("!a=b", "write NAME"),
            ("a!", "write NAME"),
            ("a!b", "write NAME"),
            ("a~(", "unclosed group"),
        ] {
            let why = text.parse::<RequestCondition>().expect_err(text).to_string();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
