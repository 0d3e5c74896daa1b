//! HTTP/2: a server that allows fewer streams than the injector has requests at a time.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use vermeil_load::{Phases, Protocol, SimplePlan, run_simple};

use super::{PATIENCE, go_on};

/// Streams that the server allows at a time.
const STREAMS_MAX: u8 = 10;
/// The time until the settings and until the answers, in which more requests may arrive.
const DELAY: Duration = Duration::from_millis(20);

/// Bytes of the client's preface, and of the head of a frame (RFC 9113 sections 3.4 and 4.1).
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
/// Kinds of frames (RFC 9113 section 6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
/// Flags: settings are acknowledged; a stream ends with its whole head.
const ACK: u8 = 1;
const END: u8 = 1 | 4;

struct FrameHead {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl FrameHead {
    /// The head of the first frame, if the whole frame has arrived.
    fn of(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, d, e, f, g, ..] = bytes else { return None };
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let head = Self { length, kind, flags, stream: u32::from_be_bytes([d, e, f, g]) };
        (bytes.len() >= HEAD_BYTES + length).then_some(head)
    }
}

fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// Answers all open streams after a pause in which nothing arrives, and refuses streams beyond the
/// limit. Returns when the client closes.
fn converse(mut stream: TcpStream) -> Option<()> {
    stream.read_exact(&mut [0; PREFACE_BYTES]).ok()?;
    // The requests of a client that does not wait for the settings arrive meanwhile.
    thread::sleep(DELAY);
    // SETTINGS_MAX_CONCURRENT_STREAMS is setting 3.
    stream.write_all(&frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, STREAMS_MAX])).ok()?;
    stream.set_read_timeout(Some(DELAY)).ok()?;
    let (mut arrived, mut open) = (Vec::new(), Vec::new());
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return None,
            Ok(count) => arrived.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                for id in open.drain(..) {
                    // The eighth entry of the static table is the status 200 (RFC 7541 appendix A).
                    stream.write_all(&frame(HEADERS, END, id, &[0x88])).ok()?;
                }
            }
            Err(_) => return None,
        }
        while let Some(head) = FrameHead::of(&arrived) {
            arrived.drain(..HEAD_BYTES + head.length);
            let reply = match head.kind {
                HEADERS if open.len() < usize::from(STREAMS_MAX) => {
                    open.push(head.stream);
                    continue;
                }
                // REFUSED_STREAM is error 7.
                HEADERS => frame(RST_STREAM, 0, head.stream, &[0, 0, 0, 7]),
                SETTINGS if head.flags & ACK == 0 => frame(SETTINGS, ACK, 0, &[]),
                _ => continue,
            };
            stream.write_all(&reply).ok()?;
        }
    }
}

fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let addr = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("accept");
            thread::spawn(move || converse(stream));
        }
    });
    addr
}

/// Regression: all requests went out before the settings of the server, which refused the requests
/// beyond its limit. On a connection without an answer these counted as failed.
#[test]
fn streams_keep_to_limit_of_fresh_connection() {
    let mut plan = SimplePlan::new(format!("http://{}/", server()).parse().expect("a URL"));
    (plan.connections, plan.pipeline, plan.protocol) = (1, 20, Protocol::Http2);
    plan.requests_max = Some(60);
    plan.common.phases = Phases::window(PATIENCE);
    let total = run_simple(&plan, &mut go_on).expect("it begins").total;
    assert_eq!((total.good, total.failed()), (60, 0), "{:?}", total.faults);
    assert_eq!((total.connections, total.deferred), (1, 0));
}
