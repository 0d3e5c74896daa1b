//! A client of an application: curl with a cookie jar, which trusts the test's certificate.
//!
//! Knows requests, answers and the hidden fields of forms; leaves out their meaning.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};

/// Maximum time of a request: the first request starts the pool on a busy machine.
const PATIENCE_SECONDS: &str = "120";

/// A client with its cookies.
pub(super) struct AppClient {
    jar: PathBuf,
    authority: PathBuf,
}

/// An answer.
pub(super) struct AppAnswer {
    /// The address of the request.
    address: String,
    /// The status.
    pub(super) status: u16,
    /// The head, in lines.
    pub(super) head: String,
    /// The content.
    pub(super) body: Vec<u8>,
}

impl AppClient {
    /// A client with its files in `folder`, which trusts `authority`.
    pub(super) fn new(folder: &Path, authority: &Path) -> Self {
        Self { jar: folder.join("cookies"), authority: authority.to_owned() }
    }

    /// The answer to a GET.
    pub(super) fn get(&self, address: &str) -> Result<AppAnswer> {
        self.send(address, &[])
    }

    /// The answer to a POST of form fields.
    pub(super) fn post(&self, address: &str, fields: &[(&str, &str)]) -> Result<AppAnswer> {
        let fields =
            fields.iter().flat_map(|(name, value)| ["--data-urlencode".into(), format!("{name}={value}")]);
        let arguments: Vec<String> = fields.collect();
        self.send(address, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The answer to a request with further arguments of curl.
    pub(super) fn send(&self, address: &str, arguments: &[&str]) -> Result<AppAnswer> {
        let mut command = Command::new("curl");
        command.args(["-s", "-S", "-i", "--max-time", PATIENCE_SECONDS, "--cacert"]).arg(&self.authority);
        command.arg("-b").arg(&self.jar).arg("-c").arg(&self.jar).args(arguments).arg(address);
        let output = command.output().map_err(Error::path("start", Path::new("curl")))?;
        if !output.status.success() {
            return Err(Error::form(address, String::from_utf8_lossy(&output.stderr).trim()));
        }
        AppAnswer::parse(address, &output.stdout)
            .ok_or_else(|| Error::form(address, "the answer has no head"))
    }
}

impl AppAnswer {
    /// Reads the output of `curl -i`. Heads with a status below 200 come before the answer.
    fn parse(address: &str, mut bytes: &[u8]) -> Option<Self> {
        loop {
            let end = bytes.windows(4).position(|part| part == b"\r\n\r\n")?;
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            bytes = &bytes[end + 4..];
            let status = head.split(' ').nth(1)?.parse().ok()?;
            if status >= 200 {
                return Some(Self { address: address.into(), status, head, body: bytes.to_owned() });
            }
        }
    }

    /// The content as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of a field of the head.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(':'));
        fields.filter(|(this, _)| this.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    /// The answer, if it has this status.
    pub(super) fn expect(self, status: u16) -> Result<Self> {
        if self.status == status {
            return Ok(self);
        }
        Err(self.wrong(&format!("the status is {}, not {status}", self.status)))
    }

    /// The answer, if its content has this text.
    pub(super) fn expect_text(self, text: &str) -> Result<Self> {
        if self.text().contains(text) { Ok(self) } else { Err(self.wrong(&format!("no {text:?}"))) }
    }

    /// The content as JSON.
    pub(super) fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body).map_err(|error| self.wrong(&error.to_string()))
    }

    /// The value of the attribute `value` in the first tag with `mark`.
    pub(super) fn form_value(&self, mark: &str) -> Result<String> {
        let text = self.text();
        let mut tags = text.split('<').filter_map(|tag| tag.split('>').next());
        let tag =
            tags.find(|tag| tag.contains(mark)).ok_or_else(|| self.wrong(&format!("no tag with {mark}")))?;
        let value = tag.split_once("value=\"").and_then(|(_, rest)| rest.split('"').next());
        value.map(str::to_owned).ok_or_else(|| self.wrong(&format!("no value in <{tag}>")))
    }

    /// An error about this answer.
    pub(super) fn wrong(&self, problem: &str) -> Error {
        let start: String = self.text().chars().take(600).collect();
        Error::form(&self.address, format!("{problem}; {}\n{start}", self.head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> AppAnswer {
        AppAnswer::parse("/", text.as_bytes()).expect("a head")
    }

    #[test]
    fn client_reads_last_head() {
        let answer = answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nLocation: /a\r\n\r\nbody");
        assert_eq!(
            (answer.status, answer.field("location"), answer.text().as_str()),
            (201, Some("/a"), "body")
        );
    }

    #[test]
    fn client_finds_values_of_forms() {
        let answer =
            answer("HTTP/1.1 200 OK\r\n\r\n<p><input type=\"hidden\" name=\"nonce\" value=\"a1\" /></p>");
        assert_eq!(answer.form_value("name=\"nonce\"").expect("a value"), "a1");
        assert!(answer.form_value("name=\"other\"").is_err());
    }
}
