//! One exchange with a program: its content goes in while its answer comes out, and the client gets it as it comes.
//!
//! What a program writes is held for a moment, or until it is a piece, since a send costs more than reading; an answer that is
//! known whole by then gets a length. Amid something that the program has begun to write the moment is not over. The end of an
//! answer is never held, nor is anything where the program says so. A piece is sent before the next one is
//! read, so a client that takes slowly slows the program down, not the memory up. While the program is
//! silent the client is watched: when it goes, so does the answer.

use super::{
    Broken, Content, ContentReader, ErrorLines, Failure, GatewayTimeouts, Last, Read, Reader, Trouble,
    Writer, Written, patience::Patience,
};
use crate::{
    answer::Sent,
    connection::{Connection, Head, Lost},
    files::SERVER,
    local,
};
use bytes::Bytes;
use std::{
    future::poll_fn,
    io, mem,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    task::Poll,
    time::Duration,
};
use vermeil::{More, Sleep, now_ms, sleep};
use vermeil_http::{
    gateway::{
        Answer, BadHead, Body, BodyFraming, HeadLimits, HeadReader, Oddity, ResponseHead,
        body::{CHUNK_END, End, LAST_CHUNK, Piece, chunk_header},
    },
    response::{Content as Sends, HeadWriter, Persistence},
};

/// Bytes of output gathered before they are sent. Guess: a socket's first window, as for ready answers.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// How long the first part of an answer waits for what follows, and each other part at most, counted from when the part before was sent; a piece
/// and the end do not wait. PHP writes a page of DokuWiki in four parts, within
/// so long where other children share its cpu; sent together they cost the server 0.87 of what they cost in 2.3 sends (bench `php`). Twice as long gains
/// nothing more, and a person notices five times as long.
const HOLD: Duration = Duration::from_millis(20);

/// Bytes of output that are read and thrown away behind an answer that needs none: a redirect's page.
const DROPPED_BYTES_MAX: u64 = 1 << 20;

/// What an exchange needs to know.
pub(crate) struct Exchange<'a> {
    pub(crate) head: Head,
    pub(crate) content: &'a Content,
    pub(crate) head_limits: HeadLimits,
    pub(crate) timeouts: GatewayTimeouts,
}

/// How an exchange ended for the client.
#[derive(Debug)]
pub(crate) enum Relayed {
    /// It has the answer, or is sent the rest of it next, so that the program need not wait for a client that takes slowly.
    Sent {
        sent: Sent,
        /// What of the answer goes behind its connection's output.
        rest: Bytes,
        /// What becomes of its connection.
        persistence: Persistence,
    },
    /// It is to get the answer to a GET of this path.
    LocalRedirect(Vec<u8>),
    /// It is to get this path's content, under this head.
    AccelRedirect(ResponseHead, Vec<u8>),
    /// It is to get this file, under this head.
    SendFile(ResponseHead, Vec<u8>),
}

/// Runs one exchange.
pub(crate) async fn relay(
    connection: &mut Connection,
    exchange: &Exchange<'_>,
    writer: &mut impl Writer,
    reader: &mut impl Reader,
    errors: &mut ErrorLines,
) -> Result<Relayed, Broken> {
    let fed_bytes = AtomicU64::new(0);
    let mut feeding = pin!(feed(writer, exchange.content, &fed_bytes));
    let limit = connection.lend_limit();
    let mut pump = Pump {
        connection,
        exchange,
        reader,
        errors,
        fed_bytes: &fed_bytes,
        limit,
        output: Written::default(),
        ended: false,
        failed: None,
        heard: false,
        sent: None,
        has_excess: false,
    };
    let result = {
        let mut pumping = pin!(pump.run());
        let mut fed = false;
        poll_fn(|context| {
            // A program may stop reading and still answer; if it does not, reading says so.
            fed = fed || feeding.as_mut().poll(context).is_ready();
            pumping.as_mut().poll(context)
        })
        .await
    };
    let Pump { connection, limit, heard, sent, .. } = pump;
    connection.give_back_limit(limit);
    result.map_err(|failure| Broken { failure, was_silent: !heard, sent })
}

/// Gives the program its content.
async fn feed(writer: &mut impl Writer, content: &Content, fed_bytes: &AtomicU64) -> Result<(), Trouble> {
    let mut pieces = ContentReader::new(content);
    loop {
        let piece = pieces.next().await?;
        let bytes = piece.len() as u64;
        let last = if pieces.left() == 0 { Last::Yes } else { Last::No };
        writer.write(piece, last).await?;
        fed_bytes.fetch_add(bytes, Ordering::Relaxed);
        if last == Last::Yes {
            return Ok(());
        }
    }
}

/// The way from the program to the client.
struct Pump<'a, R> {
    connection: &'a mut Connection,
    exchange: &'a Exchange<'a>,
    reader: &'a mut R,
    errors: &'a mut ErrorLines,
    fed_bytes: &'a AtomicU64,
    limit: Sleep,
    /// Read and not handed on.
    output: Written,
    /// Whether the program has said its last.
    ended: bool,
    /// What went wrong behind output that is still to be handed on.
    failed: Option<Failure>,
    /// Whether it has said anything.
    heard: bool,
    sent: Option<Sent>,
    /// Whether it has written more than it announced.
    has_excess: bool,
}

impl<R: Reader> Pump<'_, R> {
    async fn run(&mut self) -> Result<Relayed, Failure> {
        let mut head_reader = HeadReader::new(self.exchange.head_limits);
        let (answer, head_bytes) = loop {
            self.read().await?;
            match head_reader.read(self.output.as_slice())? {
                Some(found) => break found,
                None if self.ended => return Err(BadHead::Truncated.into()),
                None => {}
            }
        };
        self.output.skip(head_bytes);
        self.connection.note_oddities(head_reader.oddities());
        match answer {
            Answer::Document(head) => self.document(head).await,
            Answer::LocalRedirect(location) => self.drop_rest(Relayed::LocalRedirect(location)).await,
            Answer::AccelRedirect(head, path) => self.drop_rest(Relayed::AccelRedirect(head, path)).await,
            Answer::SendFile(head, path) => self.drop_rest(Relayed::SendFile(head, path)).await,
        }
    }

    /// Waits for more output, as long as the client is there, the program is not late, and it has not ended.
    async fn read(&mut self) -> Result<(), Failure> {
        if self.ended {
            return Ok(());
        }
        if let Some(failure) = self.failed.take() {
            // The client has, as far as it is there, what came before.
            self.connection.sent().await?;
            return Err(failure);
        }
        let Self { connection, reader, errors, limit, output, fed_bytes, .. } = self;
        let mut reading = pin!(reader.read(output, errors));
        let mut watched = pin!(poll_fn(|context| {
            if let Poll::Ready(read) = reading.as_mut().poll(context) {
                return Poll::Ready(read.map_err(Failure::from));
            }
            connection.poll_gone(context).map(|()| Err(Failure::Client(Lost::Peer)))
        }));
        let read = loop {
            let fed = fed_bytes.load(Ordering::Relaxed);
            limit.set(self.exchange.timeouts.answer);
            match limit.limit(watched.as_mut()).await {
                Ok(read) => break read?,
                // It is late if it takes nothing either.
                Err(_) if fed == fed_bytes.load(Ordering::Relaxed) => {
                    return Err(Failure::Silent(self.exchange.timeouts.answer));
                }
                Err(_) => {}
            }
        };
        self.heard = true;
        self.ended = read == Read::End;
        Ok(())
    }

    /// Reads what is there already, what is about to come, and what else comes until `hold` is over, until there is `enough`.
    async fn gather(&mut self, hold: &mut Sleep, enough: usize) {
        let mut patience = Patience::default();
        while !self.ended && self.failed.is_none() && self.output.len() < enough {
            self.output.set_aside();
            let read = match patience.while_pending(hold.limit(self.read())).await {
                Ok(read) => read,
                Err(_) if self.reader.is_amid() => {
                    // Nobody knows for how long.
                    drop(mem::take(&mut patience));
                    self.read().await
                }
                Err(_) => break,
            };
            self.failed = read.err();
        }
    }

    async fn document(&mut self, mut head: ResponseHead) -> Result<Relayed, Failure> {
        let Head { version, content, .. } = self.exchange.head;
        let moment = if head.is_unbuffered { Duration::ZERO } else { HOLD };
        let mut hold = sleep(moment);
        // Without content the head is all of the answer, and what becomes of the program does not matter.
        if content == Sends::Sent && head.has_content() {
            self.gather(&mut hold, enough(&head, 0)).await;
        }
        if let Some(failure) = self.failed.take() {
            return Err(failure);
        }
        if self.ended && content == Sends::Sent && head.content_length.is_none() {
            head.content_length = Some(self.output.len() as u64);
        }
        let mut body = Body::new(&head, version, content);
        let persistence = match body.framing() {
            BodyFraming::UntilClose => Persistence::Close,
            _ => self.exchange.head.persistence,
        };
        self.write_head(&head, &body, persistence);
        self.note(Sent { status: head.status, body_bytes: 0 });
        let mut long;
        loop {
            long = self.take_piece(&mut body);
            if self.ended {
                break;
            }
            // Waits for the piece before this one, so one is with the client while the next is read.
            self.connection.flush(mem::take(&mut long), More::No).await?;
            hold.set(moment);
            self.note(Sent { status: head.status, body_bytes: body.sent() });
            match self.read().await {
                // It was killed behind its answer, of which the client has all.
                Err(Failure::Program(Trouble::Ended)) if body.is_complete() => break,
                read => read?,
            }
            self.gather(&mut hold, enough(&head, body.sent())).await;
        }
        if body.end() == End::Short {
            self.connection.flush(long, More::No).await?;
            self.connection.sent().await?;
            return Err(Trouble::Ended.into());
        }
        if self.has_excess {
            self.connection.note_oddities(&[Oddity::Excess]);
        }
        let sent = Sent { status: head.status, body_bytes: body.sent() };
        Ok(Relayed::Sent { sent, rest: long, persistence })
    }

    fn note(&mut self, sent: Sent) {
        self.sent = Some(sent);
        self.connection.note(sent);
    }

    /// Takes what was read as a piece of content, the last one with the content's end: what is short into the connection's
    /// output; gives what goes behind that.
    fn take_piece(&mut self, body: &mut Body) -> Bytes {
        let Self { output, connection, ended, .. } = self;
        let out = &mut connection.output;
        let bytes = output.len();
        let is_announced = matches!(body.framing(), BodyFraming::Length(_));
        let (taken, behind): (_, &[u8]) = match body.piece(bytes) {
            Piece::Dropped => (0, b""),
            Piece::Plain(bytes) => (bytes, b""),
            Piece::Chunk => {
                chunk_header(out, bytes);
                (bytes, CHUNK_END)
            }
        };
        self.has_excess |= is_announced && taken < bytes;
        let end: &[u8] = if *ended && body.end() == End::LastChunk { LAST_CHUNK } else { b"" };
        output.take(taken, out, &[behind, end])
    }

    fn write_head(&mut self, head: &ResponseHead, body: &Body, persistence: Persistence) {
        let out = &mut self.connection.output;
        head.write(out);
        local::with(|local| {
            let writer = HeadWriter::resume(out)
                .lines(SERVER)
                .lines(&local.load_line)
                .date(local.clock.date(now_ms()));
            let writer = body.write_framing(head, writer);
            writer.connection(self.exchange.head.version, persistence).finish();
        });
    }

    /// Lets the program finish, without its content; then `relayed`.
    async fn drop_rest(&mut self, relayed: Relayed) -> Result<Relayed, Failure> {
        let mut dropped = 0;
        while !self.ended {
            dropped += self.output.len() as u64;
            self.output.clear();
            if dropped > DROPPED_BYTES_MAX {
                return Err(Trouble::from(io::Error::other("its redirect has too much content")).into());
            }
            self.read().await?;
        }
        Ok(relayed)
    }
}

/// Bytes of output for which nothing else is waited: a piece, or all that is to come behind those that were sent, if the program
/// announced it.
fn enough(head: &ResponseHead, sent: u64) -> usize {
    let left = head.content_length.map_or(u64::MAX, |announced| announced.saturating_sub(sent));
    usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES)
}
