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

/// A head, and the framing of its content.
pub(crate) struct TestHead {
    status: u16,
    fields: Vec<(String, String)>,
    framing: TestFraming,
}

/// The framing of a content (RFC 9112, section 6).
enum TestFraming {
    /// As many bytes.
    Bytes(usize),
    /// Chunks, as a program's output whose length the server did not know in time.
    Chunks,
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
        let head = Self { status, framing: framing(status, &fields, content), fields };
        Some((head, end))
    }

    /// The content at the start of `bytes`, and the length with its framing; `None` if the content
    /// is incomplete.
    #[track_caller]
    pub(crate) fn content(&self, bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
        match self.framing {
            TestFraming::Bytes(count) => Some((bytes.get(..count)?.to_vec(), count)),
            TestFraming::Chunks => dechunked(bytes),
        }
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
fn framing(status: u16, fields: &[(String, String)], content: ExpectedContent) -> TestFraming {
    let mut names: Vec<_> = fields.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    // Each cookie has a field of its own (RFC 6265, section 3).
    let is_list = |name: &str| matches!(name, "set-cookie" | "vary" | "link");
    let is_twice = |two: &[&String]| two[0] == two[1] && !is_list(two[0]);
    assert!(!names.windows(2).any(is_twice), "a field twice: {fields:?}");
    assert!(names.iter().any(|name| *name == "date"), "no Date: {fields:?}");
    let value = |name| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let (coding, length) = (value("transfer-encoding"), value("content-length"));
    let has_none = matches!(status, 204 | 304);
    assert!(coding.is_none_or(|coding| coding == "chunked" && !has_none), "{fields:?}");
    assert_eq!(length.is_none(), has_none || coding.is_some(), "Content-Length of {status}: {fields:?}");
    match (length, content) {
        (_, ExpectedContent::Omitted) => TestFraming::Bytes(0),
        (Some(length), ExpectedContent::Follows) => {
            TestFraming::Bytes(length.parse().expect("a number of bytes"))
        }
        (None, ExpectedContent::Follows) if has_none => TestFraming::Bytes(0),
        (None, ExpectedContent::Follows) => TestFraming::Chunks,
    }
}

/// The content of the chunks at the start of `bytes`, and the length of the chunks; `None` if some
/// are missing.
#[track_caller]
pub(crate) fn dechunked(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let chunk = &bytes[at..];
        let line = chunk.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&chunk[..line]).expect("ASCII");
        let size = usize::from_str_radix(size, 16).expect("a size");
        let data = chunk.get(line + 2..line + 2 + size + 2)?;
        assert_eq!(&data[size..], b"\r\n", "the end of a chunk");
        content.extend_from_slice(&data[..size]);
        at += line + 2 + data.len();
        if size == 0 {
            return Some((content, at));
        }
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
