//! Finds the file set of a server: a single request for the manifest before a run, without the
//! runtime.
//!
//! Tested here.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use crate::error::LoadError;
use crate::files::{MANIFEST, Manifest};
use crate::preflight::{connect, of_tls};
use crate::protocol::Protocol;
use crate::tls_verify::{Tls, TlsSessions, TlsVerify};
use crate::url::Url;
use crate::wire::{AnswerReader, AnswerSink, FinalHead, LastHead, LoadRequest, MalformedAnswer, Reuse};

/// Requests the manifest of the file set from the server of `url` at `addr`; `None` if there is no
/// manifest.
///
/// # Errors
/// The server cannot be reached, or the answer is not a manifest.
pub fn manifest(url: &Url, addr: SocketAddr, trust: &TlsVerify) -> Result<Option<Manifest>, LoadError> {
    let place = format!("{}/{MANIFEST}", url.authority());
    let wrong = |why: String| LoadError::Plan(format!("{place}: {why}"));
    let request = LoadRequest::default().bytes(&url.authority(), &format!("/{MANIFEST}"), Reuse::Close);
    let tls = Tls::new(url, trust, TlsSessions::Full, Protocol::Http1)?;
    let page = connect(addr, tls.as_ref()).and_then(|stream| ask(stream, &request));
    let page = page.map_err(|source| match tls.as_ref().and_then(|tls| of_tls(&source, tls, addr)) {
        Some(error) => error,
        None if source.get_ref().is_some_and(|inner| inner.is::<MalformedAnswer>()) => {
            wrong(source.to_string())
        }
        None => LoadError::Ask { place: place.clone(), source },
    })?;
    match page.status {
        200 => {
            let text = String::from_utf8_lossy(&page.content);
            Manifest::from_json(&text).map(Some).map_err(|error| wrong(format!("it is no manifest: {error}")))
        }
        _ => Ok(None),
    }
}

#[derive(Default)]
struct DiscoveredPage {
    status: u16,
    content: Vec<u8>,
}

impl AnswerSink for DiscoveredPage {
    fn head(&mut self, head: &FinalHead<'_>) {
        self.status = head.status;
    }
    fn content(&mut self, bytes: &[u8]) {
        self.content.extend_from_slice(bytes);
    }
}

fn ask(mut stream: impl Read + Write, request: &[u8]) -> io::Result<DiscoveredPage> {
    stream.write_all(request)?;
    let (mut reader, mut page) = (AnswerReader::default(), DiscoveredPage::default());
    let (mut pending, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            let answer = reader.close().map_err(io::Error::other)?;
            return answer.map(|_| page).ok_or_else(|| io::ErrorKind::UnexpectedEof.into());
        }
        pending.extend_from_slice(&buffer[..count]);
        let read =
            reader.read(&pending, false, &mut page, &mut LastHead::default()).map_err(io::Error::other)?;
        pending.drain(..read.consumed);
        if read.answer.is_some() {
            return Ok(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{SetKind, SetPages};
    use std::net::TcpListener;

    fn asked(answer: &str) -> Result<Option<Manifest>, LoadError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let answer = answer.to_owned();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _request = stream.read(&mut [0; 1000]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let result = manifest(&format!("http://{addr}/").parse().unwrap(), addr, &TlsVerify::System);
        server.join().unwrap();
        result
    }

    #[test]
    fn a_manifest_is_found_or_not() {
        let manifest = Manifest { files: SetKind::Webstone, directories: 1, pages: SetPages::None };
        let text = manifest.to_json();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        assert_eq!(asked(&answer).unwrap(), Some(manifest));
        assert_eq!(asked(&format!("HTTP/1.1 200 OK\r\n\r\n{text}")).unwrap().unwrap().directories, 1);
        assert_eq!(asked("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n").unwrap(), None);
        assert!(
            asked("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                .unwrap_err()
                .to_string()
                .contains("no manifest")
        );
    }
}
