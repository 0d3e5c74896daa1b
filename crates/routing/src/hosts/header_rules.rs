//! Fields that the operator sets, adds or removes in answers: the keys `headers` and `add_headers`.
//!
//! The lines are made once, when a configuration is read. An answer whose own fields stay as they
//! are gets the ready block before its empty line. Otherwise the head is filtered first. A value
//! cannot hold a line end, because a client would read the rest as a field. Tested below, and
//! through the binary (`crates/e2e/tests/e2e/headers.rs`).

use vermeil_files::forbids_transformation;
use vermeil_http::gateway::{field_lines, field_name, has_parts};

/// Fields that the server needs for the connection, the framing and the content. No rule changes
/// these fields.
const OF_SERVER: [&str; 12] = [
    "accept-ranges",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that the server writes itself, in at least one kind of answer. The page in place of a
/// program's error has some fields of the program. A rule with another name needs no filter.
const WRITTEN: [&str; 13] = [
    "allow",
    "cache-control",
    "content-type",
    "endpoint-load-metrics",
    "location",
    "proxy-authenticate",
    "retry-after",
    "server",
    "set-cookie",
    "strict-transport-security",
    "vary",
    "www-authenticate",
    "expires",
];

/// Fields about keeping an answer. Rules with these names apply to answers below 400 only, because
/// no cache should keep an error for as long as a page.
const CACHING: [&str; 2] = ["cache-control", "expires"];

/// The longest value of a field, in bytes. nginx and Apache accept fields of this length in a
/// request by default, and a long Content-Security-Policy has a third.
const VALUE_BYTES_MAX: usize = 8 * 1024;

/// The first status of an error.
const ERRORS_FROM: u16 = 400;

/// What happens to a field of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HeaderRule {
    /// The answer has exactly these values: a line each. Without values, the field is removed.
    Set(Vec<Box<str>>),
    /// The answer gets these values beside its own.
    Add(Vec<Box<str>>),
}

/// Why a rule is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderRuleError {
    /// The name of a field has letters, digits and hyphens, among others.
    #[error("\"{0}\" is no name of a field; write one such as X-Frame-Options")]
    Name(Box<str>),
    /// The server decides about this field.
    #[error("the server decides about {0}, because the connection depends on it")]
    OfServer(Box<str>),
    /// The tag belongs to the content.
    #[error("a tag belongs to the content of a file; write etag = false to send none")]
    Tag,
    /// The server's own values of `Vary` must stay.
    #[error("write Vary in add_headers, because the server's own Vary must stay")]
    Vary,
    /// A line end or another control character would begin a new field.
    #[error("{0:?} cannot stand in a field, because a client would take the rest for another field")]
    Control(char),
    /// Fields are ASCII.
    #[error("{0:?} is not ASCII; write the value in ASCII")]
    NotAscii(char),
    /// An answer has one type.
    #[error("an answer has one Content-Type; write it in headers")]
    Type,
    /// Too long.
    #[error("the value has {0} bytes, more than {VALUE_BYTES_MAX}")]
    Long(usize),
    /// The value is empty, or begins or ends with a space.
    #[error("write a value without spaces around it, or false to remove the field")]
    Empty,
}

impl HeaderRuleError {
    /// Whether the value is refused, and not the name.
    pub fn is_about_value(&self) -> bool {
        matches!(self, Self::Control(_) | Self::NotAscii(_) | Self::Long(_) | Self::Empty)
    }
}

/// The rules for the fields of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeaderRules {
    rules: Vec<(Box<str>, HeaderRule)>,
    /// The lines of all answers.
    block: Box<[u8]>,
    /// Further lines of answers below 400.
    caching_block: Box<[u8]>,
    /// The line with the type of the content, for answers whose [own type](keeps_type) may go.
    type_block: Box<[u8]>,
    /// The lower-case names of fields that are replaced or removed.
    replaced: Vec<Box<str>>,
    /// Whether a file's head may have a field that is replaced, or the status decides.
    needs_filter: bool,
}

impl HeaderRules {
    /// Makes the rules ready. A later rule for the same field replaces an earlier one; `Add` does
    /// not replace.
    ///
    /// # Errors
    /// The index of the first rule that is refused, and why.
    pub fn new(rules: Vec<(Box<str>, HeaderRule)>) -> Result<Self, (usize, HeaderRuleError)> {
        for (index, (name, rule)) in rules.iter().enumerate() {
            check(name, rule).map_err(|why| (index, why))?;
        }
        let mut made = Self::default();
        for (name, rule) in rules {
            if matches!(rule, HeaderRule::Set(_)) {
                made.rules.retain(|(known, before)| {
                    matches!(before, HeaderRule::Add(_)) || !known.eq_ignore_ascii_case(&name)
                });
            }
            made.rules.push((name, rule));
        }
        made.prepare();
        Ok(made)
    }

    /// These rules, with the rules of `inner` first for the same field.
    pub fn with(&self, inner: &Self) -> Self {
        let rules = [self.rules.as_slice(), &inner.rules].concat();
        Self::new(rules).expect("each rule was checked")
    }

    fn prepare(&mut self) {
        let (mut block, mut caching_block, mut type_block) = (Vec::new(), Vec::new(), Vec::new());
        for (name, rule) in &self.rules {
            let lower = name.to_ascii_lowercase();
            let (HeaderRule::Set(values) | HeaderRule::Add(values)) = rule;
            let out = match &*lower {
                name if CACHING.contains(&name) => &mut caching_block,
                "content-type" => &mut type_block,
                _ => &mut block,
            };
            for value in values {
                for piece in [name.as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                    out.extend_from_slice(piece);
                }
            }
            if let HeaderRule::Set(_) = rule {
                self.needs_filter |= WRITTEN.contains(&&*lower);
                self.replaced.push(lower.into());
            }
        }
        self.needs_filter |= !caching_block.is_empty();
        (self.block, self.caching_block) = (block.into(), caching_block.into());
        self.type_block = type_block.into();
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a rule sets `Cache-Control: no-transform`, which forbids compression.
    pub fn forbid_transformation(&self) -> bool {
        self.rules.iter().any(|(name, rule)| {
            let (HeaderRule::Set(values) | HeaderRule::Add(values)) = rule;
            name.eq_ignore_ascii_case("cache-control")
                && values.iter().any(|value| forbids_transformation(value.as_bytes()))
        })
    }

    /// The lines to append to a head of the server, if nothing in the head is replaced.
    #[inline]
    pub fn plain_block(&self) -> Option<&[u8]> {
        (!self.needs_filter).then_some(&*self.block)
    }

    /// Whether the field `name` of the answer is replaced or removed.
    fn replaces(&self, name: &[u8], of: EditedAnswer) -> bool {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let is_kept = of.is_error() && CACHING.into_iter().any(is) || of.keeps_type && is("content-type");
        !is_kept && self.replaced.iter().any(|known| is(known))
    }

    /// Appends the lines of `own` that stay, each with its line end, for an answer with `status`.
    pub fn keep(&self, own: &[u8], status: u16, out: &mut Vec<u8>) {
        self.keep_of(own, EditedAnswer::new(own, status), out);
    }

    fn keep_of(&self, own: &[u8], of: EditedAnswer, out: &mut Vec<u8>) {
        for line in field_lines(own) {
            if !self.replaces(field_name(line), of) {
                out.extend_from_slice(line);
            }
        }
    }

    /// Appends the operator's lines.
    fn append(&self, of: EditedAnswer, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.block);
        if !of.is_error() {
            out.extend_from_slice(&self.caching_block);
        }
        if !of.keeps_type {
            out.extend_from_slice(&self.type_block);
        }
    }

    /// Applies the rules to the head that begins at `start` of `out`. The head ends with an empty
    /// line, or with `out`.
    pub fn edit(&self, out: &mut Vec<u8>, start: usize) {
        let head = &out[start..];
        let end = memchr::memmem::find(head, b"\r\n\r\n").map_or(head.len(), |at| at + 2);
        let Some(first) = memchr::memchr(b'\n', head).map(|at| at + 1) else { return };
        let status = head.get(9..12).map_or(200, |code| {
            code.iter().fold(0, |code, digit| code * 10 + u16::from(digit.wrapping_sub(b'0') % 10))
        });
        let of = EditedAnswer::new(&head[first..end], status);
        let added = self.block.len() + self.caching_block.len() + self.type_block.len();
        let mut made = Vec::with_capacity(head.len() + added);
        made.extend_from_slice(&head[..first]);
        self.keep_of(&head[first..end], of, &mut made);
        self.append(of, &mut made);
        made.extend_from_slice(&head[end..]);
        out.truncate(start);
        out.extend_from_slice(&made);
    }
}

/// An answer whose fields are edited.
#[derive(Clone, Copy)]
struct EditedAnswer {
    status: u16,
    /// Whether the type of its content stays as it is.
    keeps_type: bool,
}

impl EditedAnswer {
    /// An answer with the lines `own`.
    fn new(own: &[u8], status: u16) -> Self {
        Self { status, keeps_type: keeps_type(own, status) }
    }

    fn is_error(self) -> bool {
        self.status >= ERRORS_FROM
    }
}

/// Whether the type of an answer stays as it is, because the content is not the one that the
/// operator means: a page of the server (from 300), no content, or the parts of a file.
fn keeps_type(own: &[u8], status: u16) -> bool {
    match status {
        204 | 300.. => true,
        206 => has_parts(own),
        _ => false,
    }
}

fn check(name: &str, rule: &HeaderRule) -> Result<(), HeaderRuleError> {
    if name.is_empty() || !name.bytes().all(vermeil_http::is_token) {
        return Err(HeaderRuleError::Name(name.into()));
    }
    let lower = name.to_ascii_lowercase();
    match (&*lower, rule) {
        (known, _) if OF_SERVER.contains(&known) => return Err(HeaderRuleError::OfServer(name.into())),
        ("etag" | "last-modified", _) => return Err(HeaderRuleError::Tag),
        ("content-type", HeaderRule::Add(_)) => return Err(HeaderRuleError::Type),
        ("vary", HeaderRule::Set(_)) => return Err(HeaderRuleError::Vary),
        _ => {}
    }
    let (HeaderRule::Set(values) | HeaderRule::Add(values)) = rule;
    values.iter().try_for_each(|value| check_value(value))
}

/// Refuses a value that would end its line, or that clients read differently.
pub fn check_value(value: &str) -> Result<(), HeaderRuleError> {
    if let Some(wrong) = value.chars().find(|&c| c.is_ascii_control() && c != '\t') {
        return Err(HeaderRuleError::Control(wrong));
    }
    if let Some(wrong) = value.chars().find(|c| !c.is_ascii()) {
        return Err(HeaderRuleError::NotAscii(wrong));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(HeaderRuleError::Long(value.len()));
    }
    if value.is_empty() || value.trim() != value {
        return Err(HeaderRuleError::Empty);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, values: &[&str]) -> (Box<str>, HeaderRule) {
        (name.into(), HeaderRule::Set(values.iter().map(|value| (*value).into()).collect()))
    }

    fn add(name: &str, value: &str) -> (Box<str>, HeaderRule) {
        (name.into(), HeaderRule::Add(vec![value.into()]))
    }

    fn edited(rules: &HeaderRules, head: &str) -> String {
        let mut out = format!("before{head}").into_bytes();
        rules.edit(&mut out, 6);
        String::from_utf8(out).unwrap()["before".len()..].to_owned()
    }

    #[test]
    fn rules_replace_add_and_remove_fields() {
        let rules = HeaderRules::new(vec![
            set("X-Frame-Options", &["DENY"]),
            set("server", &[]),
            set("Link", &["</a>", "</b>"]),
            add("Vary", "Origin"),
        ]);
        let rules = rules.unwrap();
        assert_eq!(
            edited(
                &rules,
                "HTTP/1.1 200 OK\r\nServer: vermeil\r\nVary: Accept-Encoding\r\nlink: </c>\r\n\r\nServer: x\r\n"
            ),
            "HTTP/1.1 200 OK\r\nVary: Accept-Encoding\r\nX-Frame-Options: DENY\r\nLink: </a>\r\nLink: </b>\r\n\
             Vary: Origin\r\n\r\nServer: x\r\n"
        );
        assert_eq!(rules.plain_block(), None);
        let plain = HeaderRules::new(vec![set("X-A", &["b"])]).unwrap();
        assert_eq!(plain.plain_block(), Some(&b"X-A: b\r\n"[..]));
    }

    /// Regression: a line of the server, or of a program's error, stayed beside the line of a rule.
    #[test]
    fn rule_replaces_line_of_the_server() {
        for name in ["Strict-Transport-Security", "Set-Cookie", "Proxy-Authenticate"] {
            let rules = HeaderRules::new(vec![set(name, &["own"])]).unwrap();
            assert_eq!(rules.plain_block(), None, "{name}");
            let head = format!("HTTP/1.1 200 OK\r\n{name}: other\r\n");
            assert_eq!(edited(&rules, &head), format!("HTTP/1.1 200 OK\r\n{name}: own\r\n"));
        }
    }

    #[test]
    fn caching_rules_leave_errors_alone() {
        let rules = HeaderRules::new(vec![set("Cache-Control", &["max-age=60"])]).unwrap();
        let error = "HTTP/1.1 404 Not Found\r\nCache-Control: no-store\r\n\r\n";
        assert_eq!(edited(&rules, error), error);
        let kept = edited(&rules, "HTTP/1.1 304 Not Modified\r\nCache-Control: no-store\r\n");
        assert_eq!(kept, "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n");
    }

    #[test]
    fn type_of_other_content_stays() {
        let rules = HeaderRules::new(vec![set("Content-Type", &["text/x"])]).unwrap();
        for (head, becomes) in [
            ("200 OK\r\nContent-Type: text/plain\r\n", "200 OK\r\nContent-Type: text/x\r\n"),
            (
                "206 Partial Content\r\nContent-Type: text/plain\r\n",
                "206 Partial Content\r\nContent-Type: text/x\r\n",
            ),
            ("304 Not Modified\r\n", "304 Not Modified\r\n"),
        ] {
            assert_eq!(edited(&rules, &format!("HTTP/1.1 {head}")), format!("HTTP/1.1 {becomes}"));
        }
        for kept in [
            "404 Not Found\r\nContent-Type: text/html\r\n",
            "301 Moved Permanently\r\nContent-Type: text/html\r\n",
            "206 Partial Content\r\ncontent-type:Multipart/Byteranges; boundary=x\r\n",
        ] {
            let kept = format!("HTTP/1.1 {kept}");
            assert_eq!(edited(&rules, &kept), kept);
        }
    }

    #[test]
    fn inner_rules_come_first() {
        let outer = HeaderRules::new(vec![set("X-A", &["outer"]), set("X-B", &["outer"])]).unwrap();
        let inner = HeaderRules::new(vec![set("x-a", &["inner"])]).unwrap();
        let both = outer.with(&inner);
        assert_eq!(both.plain_block(), Some(&b"X-B: outer\r\nx-a: inner\r\n"[..]));
    }

    #[test]
    fn no_value_ends_its_line() {
        for (name, value, says) in [
            ("X A", "b", "no name of a field"),
            ("", "b", "no name of a field"),
            ("X-A:", "b", "no name of a field"),
            ("X-A", "b\r\nSet-Cookie: c=d", "another field"),
            ("X-A", "b\nc", "another field"),
            ("X-A", "b\0", "another field"),
            ("X-A", "caf\u{e9}", "not ASCII"),
            ("X-A", "", "write a value"),
            ("X-A", " b", "write a value"),
            ("Content-Length", "4", "the server decides"),
            ("transfer-encoding", "chunked", "the server decides"),
            ("ETag", "\"x\"", "etag = false"),
            ("Vary", "Origin", "add_headers"),
        ] {
            let (index, why) =
                HeaderRules::new(vec![set("X-Fit", &["y"]), set(name, &[value])]).expect_err(name);
            assert_eq!(index, 1);
            assert!(why.to_string().contains(says), "{name}: {why}");
        }
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        assert!(HeaderRules::new(vec![set("X-A", &[&long])]).is_err());
    }
}
