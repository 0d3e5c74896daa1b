//! One exchange with a program: the content goes in while the answer comes out, and the client gets
//! the answer as it arrives.
//!
//! The relay holds output for a moment, or until it has a full piece, because a send costs more
//! than a read. An answer that ends within the moment gets a length. Inside a record that the
//! program has begun to write, the relay waits longer. The relay never holds the end of an answer,
//! and never holds output if the program forbids buffering.
//!
//! The relay sends a piece before it reads the next piece. So a slow client slows the program down
//! instead of filling memory. While the program is silent the relay watches the client. If the
//! client goes, the exchange ends.
//!
//! Once the client has the whole answer, no failure spoils the answer any more: the client may
//! leave, and the program may be silent or be killed.

use super::{
    AllowedCoding, Broken, ContentReader, ErrorLines, Failure, GatewayClient, GatewayCore, GatewayTimeouts,
    Last, ProgramRead, ProgramReader, ProgramWriter, RequestBody, ResponseBuffer, Trouble,
    coding::{self, AnswerCoding, ContentCoding, OutputProgress},
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
use vermeil_exchange::{AnswerHead, Lost, Sent, StrictTransport};
use vermeil_files::SERVER;
use vermeil_http::{
    Status,
    gateway::{
        BadHead, Body, BodyFraming, HeadLimits, HeadReader, Oddity, ProgramAnswer, ResponseHead,
        body::{CHUNK_END, ContentEnd, ContentPiece, LAST_CHUNK, chunk_header},
    },
    response::{HeadWriter, PageContent as Sends, Persistence},
};

/// Bytes of output gathered before a send, as for ready answers of the server.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// How long the relay gathers output before it sends a part. For the first part, the time begins
/// when the head is complete; for a later part, when the part before was handed over. A full piece
/// and the end do not wait. PHP writes a page of
/// DokuWiki in four parts within this time, even where other children share its cpu. Sent together,
/// the parts cost the server 0.87 of the cost of 2.3 sends (bench `php`). Twice the time gains
/// nothing more, and a person notices five times the time.
const HOLD: Duration = Duration::from_millis(20);

/// Bytes of output discarded behind an answer that needs no content, for example a redirect's page,
/// or that has all of its content. A program that writes more loses its connection.
const DROPPED_BYTES_MAX: u64 = 1 << 20;

/// The parameters of an exchange.
pub(crate) struct ExchangeParameters<'a> {
    pub head: AnswerHead,
    /// The compression of the answer, if the host compresses answers.
    pub coding: Option<AllowedCoding>,
    pub content: &'a RequestBody,
    pub head_limits: HeadLimits,
    pub timeouts: GatewayTimeouts,
}

/// The result of an exchange for the client.
#[derive(Debug)]
pub enum Relayed {
    /// The client has the answer, or gets `rest` next. The program need not wait for a slow client.
    Sent {
        /// The log's record.
        sent: Sent,
        /// The rest of the answer, to be sent after the connection's output.
        rest: Bytes,
        /// Whether the connection stays open.
        persistence: Persistence,
    },
    /// The client gets the answer to a GET of this path.
    LocalRedirect(Vec<u8>),
    /// The client gets the content of this path, under this head.
    AccelRedirect(ResponseHead, Vec<u8>),
    /// The client gets this file, under this head.
    SendFile(ResponseHead, Vec<u8>),
    /// The client gets the host's page for this status, instead of the program's error, with the
    /// fields of the program's head that belong to the status, each with CRLF.
    ErrorPage(Status, Vec<u8>),
}

/// Runs one exchange.
pub(crate) async fn relay(
    connection: &mut impl GatewayClient,
    exchange: &ExchangeParameters<'_>,
    writer: &mut impl ProgramWriter,
    reader: &mut impl ProgramReader,
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
        output: ResponseBuffer::default(),
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
            if !fed && let Poll::Ready(result) = feeding.as_mut().poll(context) {
                if let Err(error) = result {
                    return Poll::Ready(Err(Failure::ContentUnread(error)));
                }
                fed = true;
            }
            pumping.as_mut().poll(context)
        })
        .await
    };
    let Pump { connection, limit, heard, sent, .. } = pump;
    connection.give_back_limit(limit);
    result.map_err(|failure| Broken { failure, was_silent: !heard, sent })
}

/// Writes the content to the program.
///
/// # Errors
/// The content cannot be read from its file.
async fn feed(
    writer: &mut impl ProgramWriter,
    content: &RequestBody,
    fed_bytes: &AtomicU64,
) -> io::Result<()> {
    let mut pieces = ContentReader::new(content);
    loop {
        let piece = pieces.next().await?;
        let bytes = piece.len() as u64;
        let last = if pieces.left() == 0 { Last::Yes } else { Last::No };
        // A program may stop reading and still answer. If the program does not answer, the read
        // reports the failure.
        if writer.write(piece, last).await.is_err() {
            return Ok(());
        }
        fed_bytes.fetch_add(bytes, Ordering::Relaxed);
        if last == Last::Yes {
            return Ok(());
        }
    }
}

/// Moves output from the program to the client.
struct Pump<'a, C, R> {
    connection: &'a mut C,
    exchange: &'a ExchangeParameters<'a>,
    reader: &'a mut R,
    errors: &'a mut ErrorLines,
    fed_bytes: &'a AtomicU64,
    limit: Sleep,
    /// Output that was read and not sent.
    output: ResponseBuffer,
    /// Whether the program's output has ended.
    ended: bool,
    /// A failure after output that is still to be sent.
    failed: Option<Failure>,
    /// Whether the program has sent anything.
    heard: bool,
    sent: Option<Sent>,
    /// Whether the program has written more than its Content-Length.
    has_excess: bool,
}

impl<C: GatewayClient, R: ProgramReader> Pump<'_, C, R> {
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
            ProgramAnswer::Document(head) => self.document(head).await,
            ProgramAnswer::LocalRedirect(location) => self.drop_rest(Relayed::LocalRedirect(location)).await,
            ProgramAnswer::AccelRedirect(head, path) => {
                self.drop_rest(Relayed::AccelRedirect(head, path)).await
            }
            ProgramAnswer::SendFile(head, path) => self.drop_rest(Relayed::SendFile(head, path)).await,
        }
    }

    /// Waits for more output, until the program ends, the timeout expires or the client goes.
    async fn read(&mut self) -> Result<(), Failure> {
        if self.ended {
            return Ok(());
        }
        if let Some(failure) = self.failed.take() {
            // First the client gets the output before the failure, if the client is still there.
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
                // The program is late only if it has also read nothing meanwhile.
                Err(_) if fed == fed_bytes.load(Ordering::Relaxed) => {
                    return Err(Failure::Silent(self.exchange.timeouts.answer));
                }
                Err(_) => {}
            }
        };
        self.heard = true;
        self.ended = read == ProgramRead::End;
        Ok(())
    }

    /// Reads the available output, and more output until `hold` expires or there is `enough`. An
    /// unfinished record is read to its end in any case.
    async fn gather(&mut self, hold: &mut Sleep, enough: usize) {
        while !self.ended && self.failed.is_none() && self.output.len() < enough {
            self.output.set_aside();
            let read = match hold.limit(self.read()).await {
                Ok(read) => read,
                Err(_) if self.reader.is_amid() => self.read().await,
                Err(_) => break,
            };
            self.failed = read.err();
        }
    }

    /// The status of the host's page that replaces the program's error, if the host replaces it.
    fn replaced_status(&mut self, head: &ResponseHead) -> Option<Status> {
        let rules = self.exchange.head.rules?;
        self.connection.with_core(|core| core.hosts.with_rules(rules, |rules| rules.replaced(head.status)))
    }

    async fn document(&mut self, mut head: ResponseHead) -> Result<Relayed, Failure> {
        if let Some(status) = self.replaced_status(&head) {
            return self.drop_rest(Relayed::ErrorPage(status, head.lines_of_error())).await;
        }
        let AnswerHead { version, content, .. } = self.exchange.head;
        let moment = if head.is_unbuffered { Duration::ZERO } else { HOLD };
        let mut hold = sleep(moment);
        // Without content the head is the whole answer, so the rest of the program's output does
        // not matter.
        if content == Sends::Sent && head.has_content() {
            self.gather(&mut hold, enough(head.content_length)).await;
        }
        if let Some(failure) = self.failed.take() {
            return Err(failure);
        }
        if self.ended && content == Sends::Sent && head.content_length.is_none() {
            head.content_length = Some(self.output.len() as u64);
        }
        let mut coder = self.coded(&mut head).await?;
        let mut body = Body::new(&head, version, content);
        let persistence = match body.framing() {
            BodyFraming::UntilClose => Persistence::Close,
            // A drain may have begun while the program ran.
            _ if self.connection.with_core(|core| core.is_draining) => Persistence::Close,
            _ => self.exchange.head.persistence,
        };
        self.write_head(&head, &body, persistence);
        self.note(Sent { status: head.status, body_bytes: 0 });
        let mut dropped_bytes = 0;
        let mut long;
        loop {
            if let Some(coder) = &mut coder {
                self.code_output(coder).await?;
            }
            long = self.take_piece(&mut body, coder.as_mut());
            if self.ended {
                break;
            }
            // Waits for the previous piece, so the client receives one piece while the relay reads
            // the next.
            self.connection.flush(mem::take(&mut long), More::No).await?;
            hold.set(moment);
            self.note(Sent { status: head.status, body_bytes: body.sent() });
            let is_complete = coder.as_ref().map_or(body.is_complete(), ContentCoding::is_complete);
            match self.read().await {
                Err(_) if is_complete => break,
                read => read?,
            }
            let unsent = || head.content_length.map(|length| length.saturating_sub(body.sent()));
            let left = coder.as_ref().map_or_else(unsent, ContentCoding::left);
            self.gather(&mut hold, enough(left)).await;
            dropped_bytes += if is_complete { self.output.len() as u64 } else { 0 };
            if dropped_bytes > DROPPED_BYTES_MAX {
                break;
            }
        }
        let is_cut = coder.is_some_and(|coder| !coder.is_complete());
        if is_cut || body.end() == ContentEnd::Short {
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

    /// Prepares the head for a coding. Codes an answer that has ended, and returns the encoder for
    /// an answer that has not.
    async fn coded(&mut self, head: &mut ResponseHead) -> Result<Option<ContentCoding>, Failure> {
        let Some(allowed) = &self.exchange.coding else { return Ok(None) };
        let plan = match allowed.of_answer(head) {
            AnswerCoding::None => return Ok(None),
            AnswerCoding::Identity => {
                coding::say_varying(head);
                if head.status == 304 && allowed.has_coding() {
                    coding::weaken_tag(head);
                }
                return Ok(None);
            }
            AnswerCoding::Coded(plan) => plan,
        };
        coding::say_varying(head);
        let announced = head.content_length;
        if self.exchange.head.content == Sends::Omitted {
            // Whether content of unknown length is long enough shows only at its end.
            if head.content_length.take().is_some() {
                coding::say_coded(head, plan.coding);
            }
            return Ok(None);
        }
        let is_short = self.ended && announced.is_some_and(|length| length > self.output.len() as u64);
        let compressor = self.connection.with_core(|core| core.compressor.clone());
        let begun = if is_short { None } else { compressor.begin_answer(plan) };
        let Some(coder) = begun else { return Ok(None) };
        let mut coder = ContentCoding::new(coder, announced);
        if !self.ended {
            coding::say_coded(head, plan.coding);
            head.content_length = None;
            return Ok(Some(coder));
        }
        let whole = self.output.take_all();
        let coded = coder.code(whole.clone(), OutputProgress::Ended).await.map_err(Trouble::Coding)?;
        if coded.bytes.len() >= whole.len() {
            self.output.take_over(whole.into(), 0);
            return Ok(None);
        }
        self.has_excess |= coded.has_excess;
        head.content_length = Some(coded.bytes.len() as u64);
        coding::say_coded(head, plan.coding);
        self.output.take_over(coded.bytes, 0);
        Ok(None)
    }

    /// Codes the output that was read.
    async fn code_output(&mut self, coder: &mut ContentCoding) -> Result<(), Failure> {
        let output = self.output.take_all();
        let progress = if self.ended { OutputProgress::Ended } else { OutputProgress::GoesOn };
        let coded = coder.code(output, progress).await.map_err(Trouble::Coding)?;
        self.has_excess |= coded.has_excess;
        self.output.take_over(coded.bytes, 0);
        Ok(())
    }

    fn note(&mut self, sent: Sent) {
        self.sent = Some(sent);
        self.connection.note(sent);
    }

    /// Turns the output into a piece of content. The last piece includes the content's end. A short
    /// piece goes into the connection's output. Returns the part to send after that output.
    fn take_piece(&mut self, body: &mut Body, coder: Option<&mut ContentCoding>) -> Bytes {
        let Self { output, connection, ended, .. } = self;
        let out = connection.output();
        let bytes = output.len();
        let is_announced = matches!(body.framing(), BodyFraming::Length(_));
        let (taken, behind): (_, &[u8]) = match body.piece(bytes) {
            ContentPiece::Dropped => (0, b""),
            ContentPiece::Plain(bytes) => (bytes, b""),
            ContentPiece::Chunk => {
                chunk_header(out, bytes);
                (bytes, CHUNK_END)
            }
        };
        self.has_excess |= is_announced && taken < bytes;
        // Coded content ends with the encoder, which may have all content before the program ends.
        let ends = coder.map_or(*ended, ContentCoding::take_end);
        let end: &[u8] = if ends && body.end() == ContentEnd::LastChunk { LAST_CHUNK } else { b"" };
        output.take(taken, out, &[behind, end])
    }

    fn write_head(&mut self, head: &ResponseHead, body: &Body, persistence: Persistence) {
        let exchange = self.exchange;
        if body.framing() == BodyFraming::UntilClose {
            self.connection.begin_until_close();
        }
        // An answer has this field once (RFC 6797, section 7.1). The program's may demand more.
        let strict = match exchange.head.strict {
            StrictTransport::Said if head.has_field(StrictTransport::FIELD) => StrictTransport::Unsaid,
            strict => strict,
        };
        self.connection.with_core(|core| {
            let GatewayCore { output: out, hosts, heads, .. } = core;
            let start = out.len();
            head.write(out);
            let writer = HeadWriter::resume(out)
                .lines(SERVER)
                .lines(&heads.load_line)
                .lines(strict.lines())
                .date(heads.clock.date(now_ms()));
            let writer = body.write_framing(head, writer);
            writer.connection(exchange.head.version, persistence).finish();
            if let Some(rules) = exchange.head.rules {
                hosts.with_rules(rules, |rules| rules.headers.edit(out, start));
            }
        });
    }

    /// Reads the program's output to the end, or up to [`DROPPED_BYTES_MAX`], discards it, and
    /// returns `relayed`.
    async fn drop_rest(&mut self, relayed: Relayed) -> Result<Relayed, Failure> {
        let mut dropped = 0;
        while !self.ended {
            dropped += self.output.len() as u64;
            self.output.clear();
            if dropped > DROPPED_BYTES_MAX {
                break;
            }
            self.read().await?;
        }
        Ok(relayed)
    }
}

/// Bytes of output that are sent without further waiting: a full piece, or the rest of an announced
/// length.
fn enough(left: Option<u64>) -> usize {
    usize::try_from(left.unwrap_or(u64::MAX)).unwrap_or(usize::MAX).min(PIECE_BYTES)
}
