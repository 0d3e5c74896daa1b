//! Tests whether io_uring works here as the driver needs.
//!
//! The test tries features and does not deduce them from version numbers, because distributions
//! backport, containers filter, administrators forbid. The test runs the driver over local sockets,
//! once per process, with a deadline for each step. Run by every use of io_uring, so also by
//! `tests/suite`.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;

use super::Uring;
use crate::{DriverOptions, IoError, More, StreamKey};

/// Maximum duration of a step. Local operations complete at once, so this only keeps a broken
/// kernel from hanging the process.
const PATIENCE: Duration = Duration::from_secs(2);

type SelftestStep = (&'static str, fn(&mut Uring) -> io::Result<()>);
type SelftestFailure = (&'static str, i32, io::ErrorKind);

/// The process's verdict, computed by the first caller.
pub(super) fn passed() -> Result<(), IoError> {
    static VERDICT: OnceLock<Result<(), SelftestFailure>> = OnceLock::new();
    let verdict = VERDICT.get_or_init(|| {
        run().map_err(|error| match error {
            IoError::Uring { step, source } | IoError::Epoll { step, source } => {
                (step, source.raw_os_error().unwrap_or(0), source.kind())
            }
        })
    });
    verdict.map_err(|(step, number, kind)| {
        let source = if number == 0 { kind.into() } else { io::Error::from_raw_os_error(number) };
        IoError::Uring { step, source }
    })
}

fn run() -> Result<(), IoError> {
    let options = DriverOptions { ring_entries: 8, recv_buffers: 4, ..Default::default() };
    let mut uring = Uring::new(&options)?;
    let steps: [SelftestStep; 4] = [
        ("multishot receive on a non-blocking socket does not work", receives),
        ("sends without completions do not work", sends),
        ("multishot accept does not work", accepts),
        ("the bell does not work", rings),
    ];
    for (step, test) in steps {
        test(&mut uring).map_err(|source| IoError::Uring { step, source })?;
    }
    Ok(())
}

fn pair() -> io::Result<(OwnedFd, UnixStream)> {
    let (ours, peer) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    peer.set_nonblocking(true)?;
    Ok((ours.into(), peer))
}

fn quiet<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
    poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls and turns until the operation is ready.
fn finish<T>(
    uring: &mut Uring,
    mut poll: impl FnMut(&mut Uring, &mut Context<'_>) -> Poll<io::Result<T>>,
) -> io::Result<T> {
    loop {
        if let Poll::Ready(result) = quiet(|cx| poll(uring, cx)) {
            return result;
        }
        if uring.turn(Some(PATIENCE))? == 0 && quiet(|cx| poll(uring, cx)).is_pending() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

fn expect(is: bool) -> io::Result<()> {
    if is { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

fn expect_received(uring: &mut Uring, key: StreamKey, expected: &[u8]) -> io::Result<()> {
    let mut buf = Vec::new();
    finish(uring, |uring, cx| uring.poll_recv(cx, key, &mut buf))?;
    expect(buf == expected)
}

/// Arms on an empty socket, then receives twice data that arrives later, then the end of the
/// stream.
fn receives(uring: &mut Uring) -> io::Result<()> {
    let (ours, mut peer) = pair()?;
    let key = uring.add_stream(ours)?;
    let mut buf = Vec::new();
    expect(quiet(|cx| uring.poll_recv(cx, key, &mut buf)).is_pending())?;
    uring.turn(Some(Duration::ZERO))?;
    expect(quiet(|cx| uring.poll_recv(cx, key, &mut buf)).is_pending())?;
    for message in [b"first".as_slice(), b"second"] {
        peer.write_all(message)?;
        expect_received(uring, key, message)?;
    }
    drop(peer);
    expect_received(uring, key, b"")?;
    uring.close_stream(key);
    uring.turn(Some(Duration::ZERO))?;
    Ok(())
}

/// The turn that submits a small send decides it; a send that does not fit completes once the peer
/// reads.
fn sends(uring: &mut Uring) -> io::Result<()> {
    let (ours, mut peer) = pair()?;
    let key = uring.add_stream(ours)?;
    uring.start_send(key, b"he".to_vec(), Bytes::from_static(b"ad"), More::No)?;
    expect(uring.turn(Some(Duration::ZERO))? == 0)?;
    expect(quiet(|cx| uring.poll_sent(cx, key)).is_ready())?;
    let mut buf = vec![0; 64 << 10];
    expect(peer.read(&mut buf)? == 4 && buf.starts_with(b"head"))?;

    // Several times the default buffer of a local socket (net.core.wmem_default).
    let body = Bytes::from(vec![7; 1 << 20]);
    let mut left = body.len();
    uring.start_send(key, Vec::new(), body, More::No)?;
    while quiet(|cx| uring.poll_sent(cx, key)).is_pending() {
        uring.turn(Some(Duration::ZERO))?;
        match peer.read(&mut buf) {
            Ok(count) => left -= count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    while left > 0 {
        left -= peer.read(&mut buf)?;
    }
    uring.close_stream(key);
    uring.turn(Some(Duration::ZERO))?;
    Ok(())
}

/// Two connections from one armed operation, then a close with a third in the queue.
fn accepts(uring: &mut Uring) -> io::Result<()> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(unique_name())?)?;
    listener.set_nonblocking(true)?;
    let addr = listener.local_addr()?;
    let key = uring.add_listener(listener.into())?;
    for _ in 0..2 {
        let _client = UnixStream::connect_addr(&addr)?;
        finish(uring, |uring, cx| uring.poll_accept(cx, key))?;
    }
    let _client = UnixStream::connect_addr(&addr)?;
    uring.close_listener(key);
    finish(uring, |uring, cx| uring.poll_accept(cx, key))?;
    let after = finish(uring, |uring, cx| uring.poll_accept(cx, key));
    expect(after.is_err_and(|error| error.kind() == io::ErrorKind::NotConnected))
}

/// A name for an abstract socket that no other process or thread of this machine uses at this
/// moment.
fn unique_name() -> String {
    let thread = std::thread::current().id();
    format!("vermeil-io-selftest-{}-{thread:?}", std::process::id())
}

/// Each wake-up ends a turn.
fn rings(uring: &mut Uring) -> io::Result<()> {
    for _ in 0..2 {
        uring.unparker().unpark();
        expect(uring.turn(Some(PATIENCE))? > 0)?;
    }
    Ok(())
}
