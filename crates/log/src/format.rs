//! The formats of access-log lines, and the writer of each.
//!
//! Leaves out the combined form itself (`combined.rs`). Tested in `combined/tests.rs` and below.

use super::combined::LineWriter;
use super::record::{KeptField, KeptRecord};
use super::template::{LogField, LogTemplate, LogTemplateError, seconds};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use vermeil_address::Client;

/// The form of a line of the access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// The combined format of NCSA and Apache.
    #[default]
    Combined,
    /// The combined format behind `HOST:PORT `, as in Apache's `vhost_combined`. Host and port are
    /// the ones that the client asked for.
    VhostCombined,
    /// One JSON object for each line.
    Json,
    /// A text with fields.
    Template(Arc<LogTemplate>),
}

/// The formats of the common log and of the logs of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFormats {
    /// Of the common log.
    pub common: LogFormat,
    /// Of the logs of hosts.
    pub of_hosts: LogFormat,
}

impl LogFormats {
    /// Whether lines have the host of the request.
    pub(super) fn have_host(&self) -> bool {
        self.common.has_host() || self.of_hosts.has_host()
    }

    /// Whether lines have the name of the request.
    pub(super) fn have_request_id(&self) -> bool {
        self.common.has_request_id() || self.of_hosts.has_request_id()
    }
}

/// The formats with names.
const NAMED: [(&str, LogFormat); 3] = [
    ("combined", LogFormat::Combined),
    ("vhost_combined", LogFormat::VhostCombined),
    ("json", LogFormat::Json),
];

impl FromStr for LogFormat {
    type Err = LogTemplateError;

    fn from_str(text: &str) -> Result<Self, LogTemplateError> {
        match NAMED.into_iter().find(|(name, _)| *name == text) {
            Some((_, format)) => Ok(format),
            None => Ok(Self::Template(Arc::new(text.parse()?))),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Combined => f.write_str("combined"),
            Self::VhostCombined => f.write_str("vhost_combined"),
            Self::Json => f.write_str("json"),
            Self::Template(template) => template.fmt(f),
        }
    }
}

impl LogFormat {
    /// Whether lines have the host of the request.
    fn has_host(&self) -> bool {
        match self {
            Self::Combined => false,
            Self::VhostCombined | Self::Json => true,
            Self::Template(template) => template.has(LogField::Host),
        }
    }

    /// Whether lines have the name of the request.
    fn has_request_id(&self) -> bool {
        match self {
            Self::Combined | Self::VhostCombined => false,
            Self::Json => true,
            Self::Template(template) => template.has(LogField::RequestId),
        }
    }
}

/// Writes lines in one format.
#[derive(Debug)]
pub(super) struct Formatter {
    format: LogFormat,
    combined: LineWriter,
}

impl Formatter {
    pub(super) fn new(format: LogFormat) -> Self {
        Self { format, combined: LineWriter::new() }
    }

    /// Appends the line of `record` to `out`, line end included.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, record: &KeptRecord<'_>) {
        match &self.format {
            LogFormat::Combined => self.combined.write(out, record),
            LogFormat::VhostCombined => {
                LineWriter::write_host(out, record.host, record.peer.default_port);
                self.combined.write(out, record);
            }
            LogFormat::Json => Self::write_json(out, record),
            LogFormat::Template(template) => template.write(out, record),
        }
    }

    fn write_json(out: &mut Vec<u8>, record: &KeptRecord<'_>) {
        let line = JsonLine {
            time: LineWriter::time_rfc3339(record.unix_seconds),
            client: record.peer.client,
            host: record.host.map(text),
            user: record.user.map(text),
            request: text(record.request_line),
            status: record.status,
            body_bytes: record.body_bytes,
            referer: record.referer.map(text),
            user_agent: record.user_agent.map(text),
            request_id: format!("{:016x}", record.request_id),
            time_taken: JsonTime {
                duration_s: seconds(record.time.duration_ns),
                program_s: record.time.program_ns.map(seconds),
            },
            end: record.end_word(),
        };
        serde_json::to_writer(&mut *out, &line).expect("a vector takes every byte");
        out.push(b'\n');
    }
}

/// A line of the JSON format. Fields that the client did not send are null.
#[derive(Serialize)]
struct JsonLine<'a> {
    /// When the response ended, RFC 3339, UTC.
    time: String,
    client: Client,
    host: Option<Cow<'a, str>>,
    /// The name that the client sent with a password, where passwords are asked for.
    user: Option<Cow<'a, str>>,
    /// Method, target and version.
    request: Cow<'a, str>,
    status: u16,
    body_bytes: u64,
    referer: Option<Cow<'a, str>>,
    user_agent: Option<Cow<'a, str>>,
    /// The name of the request in notices.
    request_id: String,
    #[serde(flatten)]
    time_taken: JsonTime,
    /// `complete` or `aborted`.
    end: &'static str,
}

/// The time of an answer, in seconds.
#[derive(Serialize)]
struct JsonTime {
    /// From the complete head to the end of the answer.
    duration_s: f64,
    /// The part of a program.
    program_s: Option<f64>,
}

/// A field as text. Bytes that are no UTF-8 become U+FFFD, because JSON has no other bytes. So do
/// control characters that JSON does not escape (U+007F to U+009F), because a terminal may obey
/// them. A field that was cut at its bound ends in an ellipsis.
fn text(field: KeptField<'_>) -> Cow<'_, str> {
    let is_obeyed = |character: char| character >= '\u{7f}' && character.is_control();
    let mut text = String::from_utf8_lossy(field.bytes);
    if text.contains(is_obeyed) {
        text = Cow::Owned(text.replace(is_obeyed, "\u{fffd}"));
    }
    if field.cut { Cow::Owned(format!("{text}…")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::record::{AnswerTime, LogRecord, LoggedClient, decode, encode};
    use super::*;

    fn line(format: LogFormat, host: Option<&[u8]>) -> String {
        line_at(80, format, host)
    }

    fn line_at(default_port: u16, format: LogFormat, host: Option<&[u8]>) -> String {
        let client = std::net::IpAddr::from([192, 0, 2, 1]).into();
        let record = LogRecord {
            peer: LoggedClient { client, default_port },
            unix_seconds: 971_186_136,
            host,
            request_line: b"GET /\"\xc3\xa9\xff HTTP/1.1",
            status: 200,
            body_bytes: 7,
            referer: None,
            user_agent: Some(b"a\nb"),
            time: AnswerTime { duration_ns: 2_500_000, program_ns: None },
            ..LogRecord::EMPTY
        };
        let mut batch = Vec::new();
        encode(&mut batch, &record, None);
        let mut out = Vec::new();
        Formatter::new(format).write(&mut out, &decode(&batch).unwrap().record);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn vhost_line_begins_with_host_and_port() {
        let begins = |host, start: &str| {
            let line = line(LogFormat::VhostCombined, host);
            assert!(
                line.starts_with(&format!("{start} 192.0.2.1 - - [10/Oct/2000:13:55:36 +0000] \"GET ")),
                "{line}"
            );
        };
        begins(Some(b"b.example"), "b.example:80");
        begins(Some(b"b.example:8080"), "b.example:8080");
        begins(Some(b"[2001:db8::1]"), "[2001:db8::1]:80");
        begins(Some(b"[2001:db8::1]:81"), "[2001:db8::1]:81");
        begins(None, "-:80");
        begins(Some(b""), "-:80");
    }

    #[test]
    fn host_without_port_has_port_of_scheme() {
        let line = line_at(443, LogFormat::VhostCombined, Some(b"b.example"));
        assert!(line.starts_with("b.example:443 192.0.2.1 "), "{line}");
    }

    #[test]
    fn host_forges_neither_fields_nor_lines() {
        let line = line(LogFormat::VhostCombined, Some(b"a b\n\"c"));
        assert!(line.starts_with(r"a\x20b\x0A\x22c:80 192.0.2.1 "), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
    }

    #[test]
    fn json_line_is_one_object() {
        let line = line(LogFormat::Json, Some(b"b.example"));
        assert_eq!(line.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let expected = serde_json::json!({
            "time": "2000-10-10T13:55:36Z", "client": "192.0.2.1", "host": "b.example", "user": null,
            "request": "GET /\"é\u{fffd} HTTP/1.1", "status": 200, "body_bytes": 7,
            "referer": null, "user_agent": "a\nb", "request_id": "0000000000000000",
            "duration_s": 0.0025, "program_s": null, "end": "complete",
        });
        assert_eq!(value, expected);
    }
}
