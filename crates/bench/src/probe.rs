//! One HTTP exchange before a measurement, to check a server's answer and to count its bytes.
//!
//! Sends the same request bytes as wrk. Understands a head and a Content-Length, which is enough
//! for the peers here; a chunked answer is an error, because its byte count would depend on the
//! chunks.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server under test answers in microseconds; after this time the server hangs.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a valid head.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A path and the header lines of its request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeTarget {
    /// The path, from `/`.
    pub path: String,
    /// `If-None-Match`, when the request is conditional.
    pub if_none_match: Option<String>,
    /// `Host`, if different from the address.
    pub host: Option<String>,
}

impl ProbeTarget {
    /// A plain request for `path`.
    pub fn to(path: &str) -> Self {
        Self { path: path.into(), ..Self::default() }
    }
}

/// The response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// The status code.
    pub status: u16,
    /// Bytes of the head, blank line included.
    pub head_bytes: usize,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// The entity tag, if there is one.
    pub etag: Option<String>,
}

/// Asks the server at `address` for `target` on a new connection.
///
/// # Errors
/// The server cannot be reached, closes early, or sends an answer that this client does not
/// understand.
pub fn fetch(address: SocketAddr, target: &ProbeTarget) -> io::Result<ProbeAnswer> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let condition =
        target.if_none_match.as_ref().map(|tag| format!("If-None-Match: {tag}\r\n")).unwrap_or_default();
    let host = target.host.clone().unwrap_or_else(|| address.to_string());
    let request = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n{condition}\r\n", target.path);
    stream.write_all(request.as_bytes())?;
    receive(&mut stream)
}

/// The whole response of the server at `address` for `path`. Uses HTTP/1.0, because then the
/// connection ends with the answer and there are no chunks.
///
/// # Errors
/// The server cannot be reached, or is silent for too long.
pub fn page(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut said = Vec::new();
    stream.read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn receive(stream: &mut impl Read) -> io::Result<ProbeAnswer> {
    let mut bytes = Vec::new();
    let head_bytes = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let mut part = [0; 4096];
        let count = stream.read(&mut part)?;
        if count == 0 || bytes.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other("no complete response head"));
        }
        bytes.extend_from_slice(&part[..count]);
    };
    let mut answer = parse_head(&String::from_utf8_lossy(&bytes[..head_bytes]))?;
    let mut received = (bytes.len() - head_bytes) as u64;
    let mut part = [0; 64 * 1024];
    while received < answer.body_bytes {
        match stream.read(&mut part)? {
            0 => break,
            count => received += count as u64,
        }
    }
    if received != answer.body_bytes {
        let problem = format!("Content-Length {} but {received} bytes of body", answer.body_bytes);
        return Err(io::Error::other(problem));
    }
    answer.head_bytes = head_bytes;
    Ok(answer)
}

fn parse_head(head: &str) -> io::Result<ProbeAnswer> {
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let status: u16 = status.ok_or_else(|| io::Error::other("no HTTP/1.1 status line"))?;
    let (mut length, mut etag) = (None, None);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok(),
            "etag" => etag = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    // RFC 9112, section 6.3: a 304 never has a body, even with a Content-Length.
    let length = if status == 304 { Some(0) } else { length };
    let body_bytes = length.ok_or_else(|| io::Error::other("no Content-Length"))?;
    Ok(ProbeAnswer { status, head_bytes: 0, body_bytes, etag })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_head_and_body() {
        let answer = receive(&mut &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"a\"\r\n\r\nabc"[..])
            .expect("whole");
        assert_eq!(
            answer,
            ProbeAnswer { status: 200, head_bytes: 49, body_bytes: 3, etag: Some("\"a\"".into()) }
        );
    }

    #[test]
    fn a_304_may_carry_a_length_and_has_no_body() {
        let answer =
            receive(&mut &b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"[..]).expect("whole");
        assert_eq!((answer.status, answer.body_bytes), (304, 0));
    }

    #[test]
    fn short_long_and_unframed_answers_are_refused() {
        let refused = [
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\n",
            "nonsense\r\n\r\n",
        ];
        for answer in refused {
            assert!(receive(&mut answer.as_bytes()).is_err(), "{answer}");
        }
    }
}
