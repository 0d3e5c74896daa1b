//! Clients that attack: a forced older version, renegotiation, and a crowd of handshakes that are
//! slow, half or garbage.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::Verdicts;
use super::handshakes::{HandshakeOutcome, outcome, s_client};
use super::server::{ConformanceServer, ConformanceSite, HEADER_TIMEOUT, until};
use crate::error::{Error, Result};

/// `inappropriate_fallback` (RFC 7507).
const INAPPROPRIATE_FALLBACK: u8 = 86;

/// Connections of each kind in the crowd.
const CROWD: usize = 100;

/// The time after the limit until every connection must be closed. The machine is busy.
const GRACE: Duration = Duration::from_secs(20);

/// The interval between the bytes of a slow client.
const DRIP: Duration = Duration::from_millis(50);

/// The begin of a greeting that announces 512 bytes.
const HALF_GREETING: [u8; 9] = [22, 3, 1, 2, 0, 1, 0, 1, 252];

/// Runs the attacks.
pub(super) fn run(site: &ConformanceSite, verdicts: &mut Verdicts) -> Result<()> {
    let server = site.start()?;
    let fallback = outcome(site, "site.test", &["-fallback_scsv", "-tls1_2"])?;
    verdicts.add(
        "forced older version",
        match fallback {
            HandshakeOutcome::Alert(INAPPROPRIATE_FALLBACK) => Ok("alert inappropriate_fallback".into()),
            other => Err(format!("{other:?}")),
        },
    );
    verdicts.add("renegotiation", renegotiation(site)?);
    let without = s_client(site, &["-tls1_2", "-servername", "site.test", "-no_ticket"], "true")?;
    let result = if without.succeeded { Ok("served".to_owned()) } else { Err(without.tail()) };
    verdicts.add("client without tickets", result);
    verdicts.add("slow, half and garbage handshakes", crowd(site, &server)?);
    server.stop()
}

/// openssl asks for a second handshake when a line is `R`.
fn renegotiation(site: &ConformanceSite) -> Result<std::result::Result<String, String>> {
    let arguments = ["-tls1_2", "-servername", "site.test"];
    let output = s_client(site, &arguments, "sleep 0.5; echo R; sleep 2")?;
    let is_tried = output.text.contains("RENEGOTIATING");
    let is_refused = output.text.contains("no renegotiation") || output.text.contains("SSL alert number");
    Ok(match (is_tried, is_refused && !output.succeeded) {
        (true, true) => Ok("refused".into()),
        _ => Err(output.tail()),
    })
}

/// The kinds of the crowd.
#[derive(Clone, Copy, Debug)]
enum CrowdClient {
    Silent,
    Half,
    Slow,
    Garbage,
}

/// While the crowd holds its connections, another client is served. The server closes each
/// connection of the crowd when the time for a handshake is over, and keeps no descriptor.
fn crowd(site: &ConformanceSite, server: &ConformanceServer) -> Result<std::result::Result<String, String>> {
    let folder = format!("/proc/{}/fd", server.pid());
    let open = || fs::read_dir(&folder).map_or(0, Iterator::count);
    let before = open();
    let begun = Instant::now();
    let kinds = [CrowdClient::Silent, CrowdClient::Half, CrowdClient::Slow, CrowdClient::Garbage];
    let clients: Vec<_> = (0..CROWD * kinds.len())
        .map(|at| {
            let kind = kinds[at % kinds.len()];
            let tcp =
                TcpStream::connect(site.address).map_err(Error::path("connect to", "the server".as_ref()))?;
            Ok(thread::spawn(move || kind.attack(tcp)))
        })
        .collect::<Result<_>>()?;
    let served = outcome(site, "site.test", &[])?;
    let ends: Vec<_> = clients.into_iter().map(|client| client.join().unwrap_or(CrowdEnd::Open)).collect();
    let took = begun.elapsed();
    let left = ends.iter().filter(|end| **end == CrowdEnd::Open).count();
    let all_closed = until("no descriptor is left", || Ok((open() <= before).then_some(())));
    let again = outcome(site, "site.test", &[])?;
    let accepted = HandshakeOutcome::Accepted;
    Ok(match (left, served == accepted && again == accepted, all_closed) {
        (0, true, Ok(())) => {
            Ok(format!("{} connections closed within {:.1} s, others served", ends.len(), took.as_secs_f64()))
        }
        (left, ..) => Err(format!(
            "{left} open after {took:?}; served: {served:?}, then {again:?}; {} descriptors, {before} before",
            open()
        )),
    })
}

/// The state of a connection of the crowd at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CrowdEnd {
    Closed,
    Open,
}

impl CrowdClient {
    /// Attacks until the server closes the connection, or for too long.
    fn attack(self, mut tcp: TcpStream) -> CrowdEnd {
        let begin: &[u8] = match self {
            Self::Silent | Self::Slow => &[],
            Self::Half => &HALF_GREETING,
            Self::Garbage => &[0x5a; 700],
        };
        let deadline = Instant::now() + HEADER_TIMEOUT + GRACE;
        let _ = tcp.set_read_timeout(Some(DRIP));
        let _ = tcp.write_all(begin);
        let mut drips = HALF_GREETING.into_iter().chain(std::iter::repeat(0));
        while Instant::now() < deadline {
            if let (Self::Slow, Some(byte)) = (self, drips.next())
                && tcp.write_all(&[byte]).is_err()
            {
                return CrowdEnd::Closed;
            }
            match tcp.read(&mut [0; 512]) {
                Ok(0) => return CrowdEnd::Closed,
                // An alert or a page precedes the end.
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return CrowdEnd::Closed,
            }
        }
        CrowdEnd::Open
    }
}
