//! Collects a request's content before the program starts, and reads the content again for the
//! program.
//!
//! Content stays in memory up to a bound per request and a bound for all requests. Longer content
//! goes to a file as a whole. So programs know the content's length, and a failed attempt can be
//! repeated. A slow client occupies only memory, and only while the client keeps to a minimum rate.
//! Tested through the binary (`crates/e2e/tests/e2e/cgi.rs`).

use super::{
    CONTENT_RATE_MIN, Failure, GatewayClient, GatewayOptions,
    spool::{Spool, SpoolError, SpoolShare, Spools},
};
use bytes::Bytes;
use std::{io, mem, os::fd::AsFd, sync::Arc, time::Duration};
use vermeil::{More, blocking, now_ms};
use vermeil_exchange::ContentStep;
use vermeil_http::{Rejection, response::CONTINUE};

/// Bytes read from a file at once: the capacity of a pipe, so one read fills the pipe of a program.
const PIECE_BYTES: usize = 64 * 1024;

/// The content of a request.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// There is none.
    None,
    /// The bytes, with their share of the memory for all requests.
    Memory(Bytes, #[expect(dead_code, reason = "held until it is dropped")] SpoolShare),
    Spooled(Arc<Spool>),
}

impl RequestBody {
    /// The length, if there is content.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Memory(bytes, _) => Some(bytes.len() as u64),
            Self::Spooled(spool) => Some(spool.bytes()),
        }
    }
}

/// The request's announcement of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collected {
    /// There is none.
    Nothing,
    /// The content follows.
    Follows,
    /// The content follows after 100 Continue.
    Awaits,
    /// The content would follow after 100 Continue, and is too long.
    TooLong,
}

/// Collects the content of the present request.
pub(crate) async fn collect(
    connection: &mut impl GatewayClient,
    collected: Collected,
    options: &GatewayOptions,
    spools: &Arc<Spools>,
) -> Result<RequestBody, Failure> {
    match collected {
        Collected::Nothing => return Ok(RequestBody::None),
        Collected::TooLong => return Err(Failure::Content(Rejection::BodyTooLong)),
        Collected::Awaits if !connection.has_unread() => {
            connection.output().extend_from_slice(CONTINUE);
            connection.flush(Bytes::new(), More::No).await?;
        }
        Collected::Awaits | Collected::Follows => {}
    }
    connection.begin_content();
    let mut memory = Vec::new();
    let mut held = spools.memory();
    let mut spool: Option<Spool> = None;
    let mut bytes = 0;
    let (timeout, begun_ms) = (connection.with_core(|core| core.body_timeout), now_ms());
    loop {
        let before = memory.len();
        let taken = Duration::from_millis(now_ms().saturating_sub(begun_ms));
        let step = connection.next_content(&mut memory, patience(timeout, taken, bytes)).await?;
        bytes += (memory.len() - before) as u64;
        if bytes > options.content_bytes {
            return Err(Failure::Content(Rejection::BodyTooLong));
        }
        match step {
            ContentStep::Refused(rejection) => return Err(Failure::Content(rejection)),
            ContentStep::Late => return Err(Failure::ContentLate),
            ContentStep::More
                if memory.len() < options.content_memory_bytes
                    && held.hold(memory.capacity(), options.content_memory_bytes_max) => {}
            ContentStep::More => {
                spool = Some(appended(spool, mem::take(&mut memory), spools).await?);
                held.release();
            }
            ContentStep::Done => break,
        }
    }
    match spool {
        None if held.hold(memory.capacity(), options.content_memory_bytes_max) => {
            Ok(RequestBody::Memory(memory.into(), held))
        }
        spool => Ok(RequestBody::Spooled(Arc::new(appended(spool, memory, spools).await?))),
    }
}

/// How long a client that has sent `bytes` in the time `taken` may take for the next bytes. The
/// result is `timeout`, or the rest of the time that so many bytes have, if that is shorter. A
/// steady large upload continues. A client that sends a byte now and then cannot hold its
/// connection.
fn patience(timeout: Duration, taken: Duration, bytes: u64) -> Duration {
    let whole = timeout.saturating_add(Duration::from_secs_f64(bytes as f64 / CONTENT_RATE_MIN as f64));
    timeout.min(whole.saturating_sub(taken))
}

/// Appends `piece` on a thread that may block. Makes a new file if there is none.
async fn appended(spool: Option<Spool>, piece: Vec<u8>, spools: &Arc<Spools>) -> Result<Spool, Failure> {
    let spools = spools.clone();
    let append = move || {
        let mut spool = match spool {
            Some(spool) => spool,
            None => Spool::create(spools)?,
        };
        spool.append(&piece)?;
        Ok(spool)
    };
    match blocking(append).await {
        Ok(spool) => spool.map_err(Failure::Spool),
        Err(full) => Err(Failure::Spool(SpoolError::Busy(io::Error::other(full)))),
    }
}

/// Reads content from its start.
#[derive(Debug)]
pub(crate) struct ContentReader<'a> {
    content: &'a RequestBody,
    offset: u64,
}

impl<'a> ContentReader<'a> {
    pub(crate) fn new(content: &'a RequestBody) -> Self {
        Self { content, offset: 0 }
    }

    /// Bytes not yet read.
    pub(crate) fn left(&self) -> u64 {
        self.content.bytes().unwrap_or(0) - self.offset
    }

    /// The next piece; empty at the end.
    pub(crate) async fn next(&mut self) -> io::Result<Bytes> {
        let piece = match self.content {
            RequestBody::None => Bytes::new(),
            RequestBody::Memory(bytes, _) => bytes.slice(self.offset as usize..),
            RequestBody::Spooled(_) if self.left() == 0 => Bytes::new(),
            RequestBody::Spooled(spool) => read(spool, self.offset, self.left()).await?,
        };
        self.offset += piece.len() as u64;
        Ok(piece)
    }
}

async fn read(spool: &Arc<Spool>, offset: u64, left: u64) -> io::Result<Bytes> {
    let length = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
    let mut piece = vec![0; length];
    let count = match vermeil_io::read_nowait(spool.file.as_fd(), &mut piece, offset) {
        Ok(count) => count,
        // The kernel has already evicted the data, or the file system cannot tell.
        Err(_) => {
            let spool = spool.clone();
            let read = move || {
                let count = std::os::unix::fs::FileExt::read_at(&spool.file, &mut piece, offset)?;
                Ok::<_, io::Error>((piece, count))
            };
            let (read, count) = blocking(read).await.map_err(io::Error::other)??;
            piece = read;
            count
        }
    };
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    piece.truncate(count);
    Ok(piece.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_client_may_take_long_and_dripping_client_not() {
        let timeout = Duration::from_secs(30);
        for (taken, bytes, left) in [
            (0, 0, 30),
            (10, 0, 20),
            (30, 0, 0),
            // A byte every 29 s.
            (29, 1, 1),
            (58, 2, 0),
            // At the least rate, and faster.
            (1000, 500_000, 30),
            (1000, 490_000, 10),
            (100_000, 64 << 20, 30),
        ] {
            let patience = patience(timeout, Duration::from_secs(taken), bytes);
            assert_eq!(patience.as_secs(), left, "{bytes} bytes in {taken} s");
        }
    }
}
