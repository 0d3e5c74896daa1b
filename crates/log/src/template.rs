//! A custom form of access-log lines: text with fields in braces, such as `{client} {status}`.
//!
//! Leaves out the values of the fields (`record.rs`). Tested below.

use super::combined::{LineWriter, write_escaped, write_word};
use super::record::{KeptField, KeptRecord};
use std::fmt;
use std::io::Write as _;
use std::str::FromStr;
use strsim::damerau_levenshtein;

/// A form of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTemplate {
    text: String,
    parts: Vec<TemplatePart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Field(LogField),
}

/// A field of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogField {
    Time,
    Client,
    Host,
    User,
    Request,
    Status,
    BodyBytes,
    Referer,
    UserAgent,
    RequestId,
    DurationS,
    ProgramS,
    End,
}

/// The names of the fields.
const FIELDS: [(&str, LogField); 13] = [
    ("time", LogField::Time),
    ("client", LogField::Client),
    ("host", LogField::Host),
    ("user", LogField::User),
    ("request", LogField::Request),
    ("status", LogField::Status),
    ("body_bytes", LogField::BodyBytes),
    ("referer", LogField::Referer),
    ("user_agent", LogField::UserAgent),
    ("request_id", LogField::RequestId),
    ("duration_s", LogField::DurationS),
    ("program_s", LogField::ProgramS),
    ("end", LogField::End),
];

/// The text is no form of lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogTemplateError {
    /// There is no field in the text.
    #[error(
        "write `combined`, `vhost_combined`, `json`, or a text with fields such as `{{client}} {{status}}`"
    )]
    NoField,
    /// A field has no name that is known.
    #[error("there is no field {{{0}}}; did you mean {{{1}}}?")]
    Unknown(String, &'static str),
    /// A brace has no counterpart.
    #[error("a brace has no counterpart; write {{{{ or }}}} for a brace in the line")]
    Brace,
    /// A control character would tear the line.
    #[error("a line has no control characters")]
    Control,
}

impl FromStr for LogTemplate {
    type Err = LogTemplateError;

    fn from_str(text: &str) -> Result<Self, LogTemplateError> {
        if text.chars().any(char::is_control) {
            return Err(LogTemplateError::Control);
        }
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '{' | '}' if characters.next_if_eq(&character).is_some() => plain.push(character),
                '}' => return Err(LogTemplateError::Brace),
                '{' => {
                    let mut name = String::new();
                    loop {
                        match characters.next() {
                            Some('}') => break,
                            Some('{') | None => return Err(LogTemplateError::Brace),
                            Some(character) => name.push(character),
                        }
                    }
                    if !plain.is_empty() {
                        parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(TemplatePart::Field(field(&name)?));
                }
                character => plain.push(character),
            }
        }
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(plain));
        }
        match parts.iter().any(|part| matches!(part, TemplatePart::Field(_))) {
            true => Ok(Self { text: text.to_owned(), parts }),
            false => Err(LogTemplateError::NoField),
        }
    }
}

fn field(name: &str) -> Result<LogField, LogTemplateError> {
    let known = FIELDS.iter().find(|(known, _)| *known == name);
    let nearest =
        || FIELDS.iter().map(|(known, _)| *known).min_by_key(|known| damerau_levenshtein(known, name));
    match known {
        Some((_, field)) => Ok(*field),
        None => Err(LogTemplateError::Unknown(name.to_owned(), nearest().unwrap_or_default())),
    }
}

impl fmt::Display for LogTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl LogTemplate {
    /// Whether lines have this field.
    pub(super) fn has(&self, field: LogField) -> bool {
        self.parts.contains(&TemplatePart::Field(field))
    }

    /// Appends the line of `record` to `out`, line end included. A value that is missing is `-`.
    pub(super) fn write(&self, out: &mut Vec<u8>, record: &KeptRecord<'_>) {
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => out.extend_from_slice(text.as_bytes()),
                TemplatePart::Field(field) => write_field(out, *field, record),
            }
        }
        out.push(b'\n');
    }
}

fn write_field(out: &mut Vec<u8>, field: LogField, record: &KeptRecord<'_>) {
    let expect = "a vector takes every byte";
    let mut sent = |kept: Option<KeptField<'_>>, write: fn(&mut Vec<u8>, KeptField<'_>)| match kept
        .filter(|kept| !kept.bytes.is_empty())
    {
        Some(kept) => write(out, kept),
        None => out.push(b'-'),
    };
    match field {
        // Formats write these without quotes, so a space must not begin another field.
        LogField::Host => sent(record.host, write_word),
        LogField::User => sent(record.user, write_word),
        LogField::Request => sent(Some(record.request_line), write_escaped),
        LogField::Referer => sent(record.referer, write_escaped),
        LogField::UserAgent => sent(record.user_agent, write_escaped),
        LogField::Time => {
            out.extend_from_slice(LineWriter::time_rfc3339(record.unix_seconds).as_bytes());
        }
        LogField::Client => write!(out, "{}", record.peer.client).expect(expect),
        LogField::Status => write!(out, "{}", record.status).expect(expect),
        LogField::BodyBytes => write!(out, "{}", record.body_bytes).expect(expect),
        LogField::RequestId => write!(out, "{:016x}", record.request_id).expect(expect),
        LogField::DurationS => write!(out, "{:.6}", seconds(record.time.duration_ns)).expect(expect),
        LogField::ProgramS => match record.time.program_ns {
            Some(ns) => write!(out, "{:.6}", seconds(ns)).expect(expect),
            None => out.push(b'-'),
        },
        LogField::End => out.extend_from_slice(record.end_word().as_bytes()),
    }
}

/// Nanoseconds as seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::super::record::{AnswerTime, LogRecord, decode, encode};
    use super::*;

    #[track_caller]
    fn line(template: &str, record: &LogRecord<'_>) -> String {
        let template: LogTemplate = template.parse().expect("a template");
        let (mut batch, mut out) = (Vec::new(), Vec::new());
        encode(&mut batch, record, None);
        template.write(&mut out, &decode(&batch).expect("a record").record);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn line_has_every_field() {
        let record = LogRecord {
            unix_seconds: 971_186_136,
            host: Some(b"a.example"),
            request_line: b"GET /\"x\" HTTP/1.1",
            status: 200,
            body_bytes: 7,
            user_agent: Some(b"a\nb"),
            request_id: 0xAB,
            time: AnswerTime { duration_ns: 1_500_000, program_ns: Some(2_000) },
            is_aborted: true,
            ..LogRecord::EMPTY
        };
        let all = FIELDS.map(|(name, _)| format!("{{{name}}}")).join(" ");
        assert_eq!(
            line(&all, &record),
            "2000-10-10T13:55:36Z 127.0.0.1 a.example - GET /\\x22x\\x22 HTTP/1.1 200 7 - a\\x0Ab 00000000000000ab \
             0.001500 0.000002 aborted\n"
        );
        let forged =
            LogRecord { host: Some(b"a.example 10.0.0.9"), user: Some(b"x 200:y"), ..LogRecord::EMPTY };
        assert_eq!(line("{host} {client} {user}", &forged), "a.example\\x2010.0.0.9 127.0.0.1 x\\x20200:y\n");
        let nothing = line("{{{host}}} \"{referer}\" {program_s} {end}", &LogRecord::EMPTY);
        assert_eq!(nothing, "{-} \"-\" - complete\n");
    }

    #[test]
    fn wrong_template_is_refused() {
        for (text, message) in [
            ("combind", "write `combined`, `vhost_combined`, `json`, or a text with fields"),
            ("{clinet}", "there is no field {clinet}; did you mean {client}?"),
            ("{client", "a brace has no counterpart"),
            ("client}", "a brace has no counterpart"),
            ("{client {host}}", "a brace has no counterpart"),
            ("{client}\n", "a line has no control characters"),
            ("{{client}}", "a text with fields"),
        ] {
            let error = text.parse::<LogTemplate>().expect_err(text).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
