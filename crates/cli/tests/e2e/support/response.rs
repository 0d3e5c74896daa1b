//! A response, read strictly: a violation of RFC 9112 by the server fails the test.

/// Whether content follows the head: not after HEAD, independent of `Content-Length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedContent {
    Follows,
    Omitted,
}

/// One whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// A head, and the length of its content.
pub(crate) struct TestHead {
    status: u16,
    fields: Vec<(String, String)>,
    pub(crate) content_bytes: usize,
}

impl TestHead {
    /// Reads the head at the start of `bytes`; also returns the length of the head. `None` if the
    /// head is incomplete.
    #[track_caller]
    pub(crate) fn read(bytes: &[u8], content: ExpectedContent) -> Option<(Self, usize)> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let text = std::str::from_utf8(&bytes[..end - 4]).expect("a head of ASCII");
        assert!(text.is_ascii() && !text.replace("\r\n", "").contains(['\r', '\n', '\0']), "{text:?}");
        let mut lines = text.split("\r\n");
        let status = status(lines.next().expect("split gives one at least"));
        let fields: Vec<_> = lines.map(field).collect();
        let head = Self { status, content_bytes: content_bytes(status, &fields, content), fields };
        Some((head, end))
    }

    pub(crate) fn with(self, body: Vec<u8>) -> Response {
        Response { status: self.status, fields: self.fields, body }
    }
}

#[track_caller]
fn status(line: &str) -> u16 {
    let rest = line.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("status line {line:?}"));
    let (code, reason) = rest.split_once(' ').unwrap_or_else(|| panic!("status line {line:?}"));
    assert!(code.len() == 3 && !reason.is_empty(), "status line {line:?}");
    code.parse().expect("a number")
}

#[track_caller]
fn field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("field line {line:?}"));
    let is_token = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    assert!(is_token && value.trim() == value, "field line {line:?}");
    (name.to_ascii_lowercase(), value.to_owned())
}

#[track_caller]
fn content_bytes(status: u16, fields: &[(String, String)], content: ExpectedContent) -> usize {
    let mut names: Vec<_> = fields.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|two| two[0] != two[1]), "a field twice: {fields:?}");
    assert!(!names.iter().any(|name| *name == "transfer-encoding"), "{fields:?}");
    assert!(names.iter().any(|name| *name == "date"), "no Date: {fields:?}");
    let length = fields.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value);
    let has_none = matches!(status, 204 | 304);
    assert_eq!(length.is_none(), has_none, "Content-Length of {status}: {fields:?}");
    match (length, content) {
        (Some(length), ExpectedContent::Follows) => length.parse().expect("a number of bytes"),
        _ => 0,
    }
}

impl Response {
    /// The field's value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The field's value, which must be there.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> &str {
        self.get(name).unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }

    /// Whether the response says that the connection closes.
    pub(crate) fn closes(&self) -> bool {
        self.get("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    /// Whether both responses have the same fields, except the date.
    pub(crate) fn has_head_of(&self, other: &Self) -> bool {
        let lasting = |response: &Self| {
            let fields = response.fields.iter().filter(|(name, _)| name != "date");
            fields.cloned().collect::<Vec<_>>()
        };
        self.status == other.status && lasting(self) == lasting(other)
    }
}
