//! Checks of a server before a run. A fault that would fail every request is reported once, with
//! the cure, instead of a million times.
//!
//! Over TLS the check is a handshake, which finds untrusted certificates and missing protocols.
//! HTTP/2 over plain TCP has no negotiation (prior knowledge), so only a preface shows whether the
//! server speaks HTTP/2. A refused connection is no error here, because the run counts refused
//! connections. Leaves out the choice of trusted certificates (`tls_verify`). Tested here and in
//! `tests/nginx`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustls::{AlertDescription, CertificateError, ClientConnection, StreamOwned};

use crate::error::LoadError;
use crate::protocol::Protocol;
use crate::tls_verify::{Tls, is_of_tls};
use crate::wire::quoted;

/// Longest wait before a run. A server that needs longer for a handshake or a small file is not
/// ready for a load.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for the answer to a TLS handshake that only shows the server's protocol. A
/// lost packet may be sent again: a first retransmission comes after a second (RFC 6298 §2.1).
const TLS_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest wait for each further part of a line whose first bytes have come. The line is only for
/// the error message, so the value limits the delay of that message.
const REST_TIMEOUT: Duration = Duration::from_millis(200);

/// The first bytes of an HTTP/2 client: the preface and empty settings (RFC 9113 §3.4, §6.5).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Bytes of a frame header (RFC 9113 §4.1).
const FRAME_HEAD: usize = 9;
/// Maximum number of bytes of another answer in an error. A status line has fewer.
const ANSWER_BYTES_MAX: usize = 256;

/// Finds faults that would fail every request to the server at `addr`.
pub(crate) fn try_server(
    addr: SocketAddr,
    tls: Option<&Tls>,
    protocol: Protocol,
    timeout: Duration,
) -> Result<(), LoadError> {
    let timeout = timeout.min(TIMEOUT);
    match (tls, protocol) {
        (Some(tls), _) => try_handshake(addr, tls, protocol, timeout),
        (None, Protocol::Http2) => try_preface(addr, timeout),
        (None, Protocol::Http1) => Ok(()),
    }
}

fn try_handshake(
    addr: SocketAddr,
    tls: &Tls,
    protocol: Protocol,
    timeout: Duration,
) -> Result<(), LoadError> {
    let Ok(mut stream) = secure(addr, tls, timeout) else { return Ok(()) };
    while stream.conn.is_handshaking() {
        if let Err(error) = stream.conn.complete_io(&mut stream.sock) {
            return match alert(&error) {
                Some(AlertDescription::NoApplicationProtocol) if protocol == Protocol::Http2 => {
                    Err(LoadError::Http2 { addr, how: "it refused to in the TLS handshake (ALPN)".into() })
                }
                _ => {
                    Err(of_tls(&error, tls, addr).unwrap_or_else(|| no_handshake(&error, tls, addr, timeout)))
                }
            };
        }
    }
    let spoken = stream.conn.alpn_protocol();
    if protocol == Protocol::Http1 || spoken == Some(protocol.alpn()) {
        return Ok(());
    }
    let chosen = spoken.map_or_else(|| "nothing".to_owned(), |name| name.escape_ascii().to_string());
    Err(LoadError::Http2 { addr, how: format!("it chose {chosen} in the TLS handshake (ALPN)") })
}

/// Sends the client's first bytes of HTTP/2 over plain TCP. An HTTP/2 server answers with its
/// settings.
fn try_preface(addr: SocketAddr, timeout: Duration) -> Result<(), LoadError> {
    let wrong = |how| Err(LoadError::Http2 { addr, how });
    let Ok(mut stream) = plain(addr, timeout) else { return Ok(()) };
    let mut answer = Vec::new();
    let mut ended = stream.write_all(PREFACE).err();
    while ended.is_none() && answer.len() < FRAME_HEAD {
        ended = more(&mut stream, &mut answer).err();
    }
    // A SETTINGS frame on stream 0, without the acknowledgement flag.
    if let [_, _, _, 4, flags, 0, 0, 0, 0, ..] = answer[..]
        && flags & 1 == 0
    {
        return Ok(());
    }
    match ended.map(|error| error.kind()) {
        Some(io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) if answer.is_empty() => {
            wrong(format!("it said nothing for {timeout:?}"))
        }
        _ if answer.is_empty() => wrong("it ended the connection when it was spoken to".into()),
        _ => {
            // If this call fails, the wait is only longer.
            let _shorter = stream.set_read_timeout(Some(REST_TIMEOUT));
            while !answer.contains(&b'\n') && answer.len() < ANSWER_BYTES_MAX {
                if more(&mut stream, &mut answer).is_err() {
                    break;
                }
            }
            wrong(format!("it answered {}", quoted(&answer)))
        }
    }
}

/// Appends the next bytes. The end of the connection is an error.
fn more(stream: &mut TcpStream, answer: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; ANSWER_BYTES_MAX];
    match stream.read(&mut buffer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => {
            answer.extend_from_slice(&buffer[..count]);
            Ok(())
        }
    }
}

fn plain(addr: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(stream)
}

fn secure(
    addr: SocketAddr,
    tls: &Tls,
    timeout: Duration,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let connection = tls.connection().map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, plain(addr, timeout)?))
}

/// Connects, over TLS if `tls` is given.
pub(crate) fn connect(addr: SocketAddr, tls: Option<&Tls>) -> io::Result<Box<dyn Talk>> {
    Ok(match tls {
        None => Box::new(plain(addr, TIMEOUT)?),
        Some(tls) => Box::new(secure(addr, tls, TIMEOUT)?),
    })
}

/// Whether the server at `addr` answers the first bytes of a TLS handshake with TLS. Called after a
/// run over `http://` without a good answer.
pub(crate) fn speaks_tls(addr: SocketAddr) -> bool {
    /// A record with a ClientHello of TLS 1.2 that offers one cipher suite: enough for an answer or
    /// an alert.
    const HELLO: &[u8] = b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03vermeil-load-asks-whether-is-TLS\x00\x00\x02\xc0\x2f\x01\x00";
    let answer = || -> io::Result<[u8; 3]> {
        let mut stream = plain(addr, TLS_TIMEOUT)?;
        stream.write_all(HELLO)?;
        let mut answer = [0; 3];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    };
    // A handshake record or an alert record, of version 3.x.
    matches!(answer(), Ok([0x15 | 0x16, 3, 0..=4]))
}

/// The error for a handshake that ended without a TLS record.
fn no_handshake(error: &io::Error, tls: &Tls, addr: SocketAddr, timeout: Duration) -> LoadError {
    let what = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("the server did not answer the TLS handshake within {timeout:?}")
        }
        _ => format!("the server ended the TLS handshake: {error}"),
    };
    let name = tls.name.to_str();
    LoadError::Tls(format!("{name} at {addr}: {what}; is it http://, or another port?"))
}

/// A connection for reading and writing.
pub(crate) trait Talk: Read + Write {}

impl<T: Read + Write> Talk for T {}

fn of_rustls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn alert(error: &io::Error) -> Option<AlertDescription> {
    match of_rustls(error) {
        Some(rustls::Error::AlertReceived(alert)) => Some(*alert),
        _ => None,
    }
}

/// The fault that TLS found with the server at `addr`, with the cure; `None` for an error of
/// another kind.
pub(crate) fn of_tls(error: &io::Error, tls: &Tls, addr: SocketAddr) -> Option<LoadError> {
    if !is_of_tls(error) {
        return None;
    }
    // The verifier's error has no type to test for.
    if error.to_string().contains("CaUsedAsEndEntity") {
        return Some(LoadError::Tls(format!(
            "{} at {addr}: the TLS handshake failed: the server shows the certificate of a CA as its own, as `openssl req -x509` makes it: \
             let it show one that the CA has signed, or one made with -addext basicConstraints=critical,CA:FALSE, or give --insecure",
            tls.name.to_str()
        )));
    }
    let cure = match of_rustls(error) {
        Some(rustls::Error::InvalidCertificate(_)) => {
            "; give the certificate that vouches for it with --ca, or --insecure"
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "; the server there speaks no TLS: use http:// or another port"
        }
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
            "; it does not speak HTTP/1.1: try --http2"
        }
        _ => "",
    };
    let why = match of_rustls(error) {
        // rustls prints the bytes of both algorithms.
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
        )) => "no known root has a key that fits the signature of the certificate".to_owned(),
        _ => error.to_string(),
    };
    let name = tls.name.to_str();
    Some(LoadError::Tls(format!("{name} at {addr}: the TLS handshake failed: {why}{cure}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls_verify::{TlsSessions, TlsVerify};
    use std::net::TcpListener;

    /// The result of `find` for a server that answers the first bytes with `answer`, and then waits
    /// for the client to leave. With an empty `answer` the server closes at once.
    fn found(answer: &'static [u8], find: impl Fn(SocketAddr) -> Result<(), LoadError>) -> Option<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _first = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(answer).unwrap();
            // Waits until the client has read the answer, because a close with unread bytes would
            // reset the connection.
            while !answer.is_empty() && stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
        });
        let said = find(addr).err().map(|error| error.to_string());
        server.join().unwrap();
        assert!(said.as_ref().is_none_or(|said| said.contains(&addr.to_string())), "{said:?}");
        said
    }

    /// Regression: the message had the bytes of both algorithms.
    #[test]
    fn certificate_of_unknown_root_is_described() {
        let tls =
            Tls::new(&"https://a/".parse().unwrap(), &TlsVerify::Anyone, TlsSessions::Full, Protocol::Http1);
        let error = CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id: vec![6, 8, 42],
            public_key_algorithm_id: vec![6, 7, 42],
        };
        let error = io::Error::other(rustls::Error::InvalidCertificate(error));
        let said = of_tls(&error, &tls.unwrap().unwrap(), SocketAddr::from(([127, 0, 0, 1], 1))).unwrap();
        let said = said.to_string();
        assert!(said.contains("no known root") && said.contains("--ca") && !said.contains("42"), "{said}");
    }

    /// Regression: a user who wrote https for http was told of a corrupt message.
    #[test]
    fn server_without_tls_is_named() {
        let tls =
            Tls::new(&"https://a/".parse().unwrap(), &TlsVerify::Anyone, TlsSessions::Full, Protocol::Http1)
                .unwrap()
                .unwrap();
        let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
        let said =
            found(answer, |addr| try_server(addr, Some(&tls), Protocol::Http1, TIMEOUT)).expect("an error");
        assert!(said.contains("http://"), "{said}");
    }

    /// Regression: a run over HTTP/2 against such a server had only malformed answers, without a
    /// reason.
    #[test]
    fn server_without_http2_is_named() {
        let http2 = |addr| try_server(addr, None, Protocol::Http2, TIMEOUT);
        let said = found(b"HTTP/1.1 400 Bad Request\r\n\r\n", http2).expect("an error");
        assert!(said.contains("it answered \"HTTP/1.1 400 Bad Request\"; leave out --http2"), "{said}");
        let said = found(b"", http2).expect("an error");
        assert!(said.contains("it ended the connection"), "{said}");
        let said = found(b"\0\0\0\x04\x01\0\0\0\0", http2);
        assert!(said.is_some(), "settings are acknowledged after they are said");
        assert_eq!(found(b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x80", http2), None);
    }

    #[test]
    fn refused_connection_is_left_to_run() {
        // The port of tcpmux, on which no process listens, and which the system gives to no other
        // test.
        assert!(try_server(([127, 0, 0, 1], 1).into(), None, Protocol::Http2, TIMEOUT).is_ok());
    }

    /// Regression: a run over https against a silent port had only timeouts.
    #[test]
    fn silent_handshake_is_reported() {
        let tls =
            Tls::new(&"https://a/".parse().unwrap(), &TlsVerify::Anyone, TlsSessions::Full, Protocol::Http1)
                .unwrap()
                .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let patience = Duration::from_millis(50);
        let said = try_server(addr, Some(&tls), Protocol::Http1, patience).unwrap_err().to_string();
        assert!(said.contains("did not answer the TLS handshake") && said.contains("http://"), "{said}");
        let said = try_server(addr, None, Protocol::Http2, patience).unwrap_err().to_string();
        assert!(said.contains("it said nothing"), "{said}");
    }

    #[test]
    fn alert_identifies_tls_server() {
        let speaks = |answer| {
            let is_tls = std::cell::Cell::new(false);
            let find = |addr| {
                is_tls.set(speaks_tls(addr));
                Ok(())
            };
            found(answer, find);
            is_tls.get()
        };
        assert!(speaks(b"\x15\x03\x03\0\x02\x02\x28") && speaks(b"\x16\x03\x03\0\x02\x02\0"));
        assert!(!speaks(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    }
}
