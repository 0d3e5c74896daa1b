//! Answers that wait: until a cold file is found, a listing is made, or a client takes a large
//! file.
//!
//! Blocking calls run on the blocking pool. A file is sent part by part. As a rule each part is
//! copied into a buffer, and leaves after a check that the file is still the announced one. With
//! sendfile(2) the kernel sends pages of its own cache, so the check comes before, and a writer may
//! still change queued pages. Between parts the core's other colors run. Tested through the binary
//! (`crates/e2e/tests`).

mod clients;
mod compression;

use crate::{
    alias,
    calls::{self, CallOutcome},
    try_files,
};
use bytes::Bytes;
use clients::ProgressPermits;
use std::{
    borrow::Cow,
    io::ErrorKind,
    mem,
    os::fd::{AsFd as _, BorrowedFd},
    sync::Arc,
};
use vermeil::{More, blocking, sleep, yield_now};
use vermeil_answer::{
    answer::{
        self, Answer, BodySegment, Deferred, ErrorPageCall, FolderOpen, ListingTask, RewrittenTarget, Slow,
    },
    pages::busy,
};
use vermeil_connection::connection::Connection;
use vermeil_exchange::{AnswerHead, Lost, PasswordUse, Sent};
use vermeil_files::{
    Content, EntryHandle, LargeFiles, OpenFile, PathJob, SealedContent, UnopenedJob, Variant,
};
use vermeil_gateway::{EndedAnswer, encoded, programs::GatewayRequest};
use vermeil_http::{
    ConnectionLimits, ParsedPart, Request, Status, TargetForm, gateway::redirect::LOCAL_REDIRECTS_MAX,
    negotiate::Choice, ranges::ByteRange,
};
use vermeil_io::CacheOnly;
use vermeil_log::NoticeKind;
use vermeil_ops::control_client::StatusForm;
use vermeil_routing::hosts::HeldAnswerRules;
use vermeil_state::core_context;

/// Bytes of a file that are sent before the core's other colors get their turn. Copying a mebibyte
/// takes some 100 µs at 10 GB/s, which bounds the delay of the others.
const PART_BYTES: u64 = 1 << 20;

/// Bytes of a file per read and send. A slow client of a large file holds a buffer of this size. A
/// call costs about a microsecond and copying 256 KiB costs about 25, so calls take 4 %; the buffer
/// stays in the second-level cache.
const COPIED_BYTES: u64 = 256 * 1024;

/// Gives the answer to its end, or to the point where it continues like any other answer.
pub async fn answer(connection: &mut Connection, slow: Slow) -> Result<(), Lost> {
    let Slow { what, request, mut head, start, rules } = slow;
    let request = Bytes::from(request);
    connection.begin(request.clone(), start);
    let mut permits = ProgressPermits::default();
    let mut given = give(connection, what, &request, &mut head, rules, &mut permits).await;
    if given.is_ok() && (!permits.is_empty() || connection.ends_by_close()) {
        // The request is in progress, and its answer is not whole, until the client has the answer.
        given = connection.deliver().await.and(given);
    }
    drop(permits);
    if given.is_ok() {
        connection.settle(head.persistence);
    }
    connection.end(&given);
    given.map(drop)
}

async fn give(
    connection: &mut Connection,
    mut what: Deferred,
    request: &[u8],
    head: &mut AnswerHead,
    mut rules: HeldAnswerRules,
    permits: &mut ProgressPermits,
) -> Result<Sent, Lost> {
    let mut acting = ActingRequest { head: Cow::Borrowed(request), redirects: 0, uri: None };
    note_password(connection, *head);
    loop {
        // The head of an answer that is being sent is written already.
        if !matches!(what, Deferred::Send { .. }) {
            calls::note_drain(head);
        }
        let next = match what {
            Deferred::Open(job) => opened(connection, job, &acting.head, head).await?,
            Deferred::Resolve(job) => resolved(connection, job, &acting.head, head).await?,
            Deferred::ResolveUnopened(job) => resolved_unopened(connection, job, &acting.head, head).await?,
            Deferred::Status(form) => status(connection, form, *head).await?,
            Deferred::List(job) => listed(connection, job, *head).await?,
            Deferred::Compress(job) => compression::answer(connection, &acting.parsed(), *head, &job).await?,
            Deferred::Wait(wait) => clients::after_wait(connection, wait, &acting.head, head).await?,
            Deferred::Enter(entry) => clients::enter(connection, &entry, &acting.head, head, permits),
            Deferred::Password(challenge) => {
                clients::after_password(connection, *challenge, &acting.head, head).await?
            }
            Deferred::Try(host) => try_files::answer(connection, &acting.parsed(), head, host).await?,
            Deferred::Rewrite(rewritten) => acting.rewrite(connection, head, rewritten),
            Deferred::Alias(folder, path) => {
                alias::answer(connection, &acting.parsed(), head, &folder, &path).await?
            }
            Deferred::ErrorPage(call) => error_page(connection, &acting.parsed(), *head, &call).await?,
            Deferred::Program(call) => acting.program(connection, head, call).await?,
            Deferred::Send { handle, coding, pieces, sent } => {
                let mut body_bytes = 0;
                connection.note(Sent { body_bytes, ..sent });
                let result = send(connection, &handle, coding, pieces, &mut body_bytes).await;
                if matches!(result, Err(Lost::Cut)) {
                    say_cut(request);
                }
                connection.note(Sent { body_bytes, ..sent });
                return result.map(|()| sent);
            }
        };
        core_context::with(|local| rules.hold(&local.hosts, head.rules));
        note_password(connection, *head);
        match next {
            Answer::Ready(sent) => return Ok(sent),
            Answer::Body(sent, body) => {
                connection.note(sent);
                return connection.flush(body, More::No).await.map(|()| sent);
            }
            Answer::Slow(next) => what = next,
        }
    }
}

/// Notes for the log whether a password was asked for.
fn note_password(connection: &mut Connection, head: AnswerHead) {
    if head.password == PasswordUse::Asked {
        connection.note_password();
    }
}

/// Asks a program, and notes its time for the log.
async fn call_program(
    connection: &mut Connection,
    request: &Request<'_>,
    head: &mut AnswerHead,
    call: &GatewayRequest,
) -> Result<CallOutcome, EndedAnswer> {
    let now_ns = || core_context::with(|local| local.records.counts.now_ns());
    let began_ns = now_ns();
    // A client that leaves, or a stop, ends the request amid the program.
    connection.note_program(call.name, 0);
    let answered = calls::answer(connection, request, head, call).await;
    connection.note_program(call.name, now_ns().saturating_sub(began_ns));
    answered
}

/// The answer once the folder of the host is open.
async fn opened(
    connection: &mut Connection,
    job: FolderOpen,
    acting: &[u8],
    head: &mut AnswerHead,
) -> Result<Answer, Lost> {
    // Earlier answers of a pipeline need not wait.
    connection.flush(Bytes::new(), More::No).await?;
    let opened = blocking(move || job.run()).await;
    calls::note_drain(head);
    let out = &mut connection.output;
    Ok(core_context::with(|local| match &opened {
        Ok(Ok(opened)) => {
            // Otherwise the request would count as another request for the host.
            local.hosts.keep(opened);
            answer::answer(local, &parsed(acting), head, out)
        }
        Ok(Err(failure)) => answer::not_served(local, failure, *head, out),
        Err(_) => Answer::Ready(busy(local, *head, out)),
    }))
}

/// The answer once the path is resolved.
async fn resolved(
    connection: &mut Connection,
    job: PathJob,
    acting: &[u8],
    head: &mut AnswerHead,
) -> Result<Answer, Lost> {
    connection.flush(Bytes::new(), More::No).await?;
    let site = job.site().clone();
    let loaded = blocking(move || job.run()).await;
    calls::note_drain(head);
    let out = &mut connection.output;
    Ok(core_context::with(|local| match loaded {
        Ok(loaded) => {
            let handle = local.cache.insert(loaded);
            let request = parsed(acting);
            match local.hosts.hosts().find_at(request.host, head.visitor.at) {
                Some(host) => answer::found(local, host, &site, &request, &handle, head, out),
                None => answer::found_by_files(local, &site, &request, &handle, head, out),
            }
        }
        Err(_) => Answer::Ready(busy(local, *head, out)),
    }))
}

/// The answer once the path is resolved in a folder that stays closed.
async fn resolved_unopened(
    connection: &mut Connection,
    job: UnopenedJob,
    acting: &[u8],
    head: &mut AnswerHead,
) -> Result<Answer, Lost> {
    connection.flush(Bytes::new(), More::No).await?;
    let entry = blocking(move || job.run()).await;
    calls::note_drain(head);
    let out = &mut connection.output;
    Ok(core_context::with(|local| match entry {
        Ok(entry) => answer::by_unopened_folder(local, &parsed(acting), entry, head, out),
        Err(_) => Answer::Ready(busy(local, *head, out)),
    }))
}

/// The answer once the status is collected.
async fn status(connection: &mut Connection, form: StatusForm, head: AnswerHead) -> Result<Answer, Lost> {
    connection.flush(Bytes::new(), More::No).await?;
    let running = core_context::with(|local| local.server.running());
    let told = blocking(move || running?.status_for_page(form)).await;
    let out = &mut connection.output;
    Ok(core_context::with(|local| match told {
        Ok(Some(text)) => answer::text(local, form.media_type(), text, head, out),
        Ok(None) | Err(_) => Answer::Ready(busy(local, head, out)),
    }))
}

/// The answer once the folder is read.
async fn listed(connection: &mut Connection, job: ListingTask, head: AnswerHead) -> Result<Answer, Lost> {
    connection.flush(Bytes::new(), More::No).await?;
    let made = blocking(move || job.run()).await;
    let out = &mut connection.output;
    Ok(core_context::with(|local| match made {
        Ok(made) => answer::listing(local, made, head, out),
        Err(_) => Answer::Ready(busy(local, head, out)),
    }))
}

/// The request that is answered: the client's, or the target of a redirect within the server.
struct ActingRequest<'a> {
    head: Cow<'a, [u8]>,
    /// Number of programs' redirects.
    redirects: u32,
    /// Path and query as received, if a route has rewritten them.
    uri: Option<Arc<[u8]>>,
}

impl ActingRequest<'_> {
    fn parsed(&self) -> Request<'_> {
        parsed(&self.head)
    }

    /// Answers as for another target.
    fn rewrite(
        &mut self,
        connection: &mut Connection,
        head: &mut AnswerHead,
        rewritten: RewrittenTarget,
    ) -> Answer {
        let limits = core_context::with(|local| local.server.limits.clone());
        head.routes_from = rewritten.routes_from;
        let made = with_target(&self.head, &rewritten.target, &limits, &mut self.uri);
        let out = &mut connection.output;
        core_context::with(|local| match made {
            Some(request) => {
                self.head = Cow::Owned(request);
                answer::answer(local, &self.parsed(), head, out)
            }
            None => answer::error(local, Status::UriTooLong, b"", *head, out),
        })
    }

    /// Answers by a program, or by the target of its redirect.
    async fn program(
        &mut self,
        connection: &mut Connection,
        head: &mut AnswerHead,
        mut call: GatewayRequest,
    ) -> Result<Answer, Lost> {
        // Earlier answers of a pipeline wait neither for the content nor for the program.
        connection.flush(Bytes::new(), More::No).await?;
        call.uri = self.uri.clone();
        match call_program(connection, &self.parsed(), head, &call).await {
            Ok(CallOutcome::Answer(answer, persistence)) => {
                head.persistence = persistence;
                Ok(answer)
            }
            Ok(CallOutcome::Redirected(_)) if self.redirects == LOCAL_REDIRECTS_MAX => {
                *head = head.of_program();
                calls::say_too_many_redirects(&self.parsed(), *head, &call);
                let out = &mut connection.output;
                Ok(core_context::with(|local| answer::error(local, Status::BadGateway, b"", *head, out)))
            }
            Ok(CallOutcome::Redirected(request)) => {
                self.redirects += 1;
                *head = head.of_program();
                self.head = Cow::Owned(request);
                (self.uri, head.routes_from) = (None, 0);
                let out = &mut connection.output;
                Ok(core_context::with(|local| answer::answer(local, &self.parsed(), head, out)))
            }
            Err(EndedAnswer { lost, sent }) => {
                if let Some(sent) = sent {
                    connection.note(sent);
                }
                Err(lost)
            }
        }
    }
}

/// The head of a request with another target, and the first target in `uri`. `None` if the new head
/// is no valid request, for example because the target is too long.
fn with_target(
    head: &[u8],
    target: &[u8],
    limits: &ConnectionLimits,
    uri: &mut Option<Arc<[u8]>>,
) -> Option<Vec<u8>> {
    let request = parsed(head);
    let before = request.target;
    let start = head.iter().position(|byte| !b"\r\n".contains(byte))?;
    let end = start + head[start..].iter().position(|&byte| byte == b'\n')? + 1;
    let mut made = Vec::with_capacity(head.len() + target.len());
    made.extend_from_slice(request.method.as_bytes());
    made.push(b' ');
    if let (TargetForm::Absolute, Some(host)) = (before.form, request.host) {
        made.extend_from_slice(b"http://");
        made.extend_from_slice(host);
    }
    made.extend_from_slice(target);
    for piece in [b" ", request.version.as_str().as_bytes(), b"\r\n", &head[end..]] {
        made.extend_from_slice(piece);
    }
    let is_valid = matches!(vermeil_http::parse(&made, limits), ParsedPart::Complete { .. });
    if uri.is_none() {
        let query = before.query.map(|query| [b"?", query].concat()).unwrap_or_default();
        *uri = Some([before.path, &query].concat().into());
    }
    is_valid.then_some(made)
}

/// Answers an error with a page of the host.
async fn error_page(
    connection: &mut Connection,
    request: &Request<'_>,
    head: AnswerHead,
    call: &ErrorPageCall,
) -> Result<Answer, Lost> {
    let mut handle = None;
    if let Ok(site) = calls::site(connection, &call.host).await? {
        let path = encoded(call.path.as_bytes());
        handle = calls::look_up(connection, &site, &path).await?.ok();
    }
    let out = &mut connection.output;
    Ok(core_context::with(|local| answer::by_error_page(local, request, handle.as_ref(), call, head, out)))
}

/// Parses the request again. These bytes were parsed before, so parsing succeeds.
fn parsed(head: &[u8]) -> Request<'_> {
    vermeil_http::parse_again(head).expect("a head that was parsed parses again")
}

/// Sends the pieces of a body. Counts in `sent` the bytes that the kernel has taken, also at an
/// early end.
async fn send(
    connection: &mut Connection,
    handle: &EntryHandle,
    coding: Choice,
    pieces: Vec<BodySegment>,
    sent: &mut u64,
) -> Result<(), Lost> {
    let variant = variant(handle, coding);
    let large_files = core_context::with(|local| local.cache.store().options().large_files);
    for piece in pieces {
        match (piece, variant.content()) {
            (BodySegment::Bytes(bytes), _) => {
                *sent += bytes.len() as u64;
                connection.output.extend_from_slice(&bytes);
            }
            (BodySegment::Range(range), Content::Memory(bytes)) => {
                // The length of a content in memory fits `usize`.
                let part = bytes.slice(range.start as usize..range.end as usize);
                *sent += range.len();
                connection.flush(part, More::Yes).await?;
            }
            (BodySegment::Range(range), Content::Sealed(content)) => {
                send_sealed(connection, content, range, sent).await?;
            }
            (BodySegment::Range(range), Content::Disk(file)) => match large_files {
                LargeFiles::Copied => copy_range(connection, file, range, sent).await?,
                // The kernel sends files without encrypting them.
                LargeFiles::Sendfile if connection.stream.is_secure() => {
                    copy_range(connection, file, range, sent).await?
                }
                LargeFiles::Sendfile => {
                    connection.flush(Bytes::new(), More::Yes).await?;
                    connection.sent().await?;
                    send_range(connection, file, range, sent).await?;
                }
            },
        }
    }
    Ok(())
}

fn variant(handle: &EntryHandle, coding: Choice) -> &Variant {
    match handle.outcome() {
        vermeil_files::EntryOutcome::File(file) => file.variant(coding),
        _ => match handle.not_found_page() {
            Some(page) => page.variant(coding),
            None => unreachable!("only files are sent"),
        },
    }
}

/// Sends a range of `file` out of a buffer. Each part leaves only after a check, made after the
/// read, that the file is still the announced one. So no part is of another state of the file,
/// whatever happens to the file meanwhile.
async fn copy_range(
    connection: &mut Connection,
    file: &OpenFile,
    range: ByteRange,
    sent: &mut u64,
) -> Result<(), Lost> {
    if let Some(time) = file.until_told() {
        sleep(time).await;
    }
    let (mut offset, mut since_yield) = (range.start, 0);
    while offset < range.end {
        // Its buffer comes back for the next part, so a slow client holds a single buffer.
        connection.sent().await?;
        let part = COPIED_BYTES.min(range.end - offset);
        let mut buffer = mem::take(&mut connection.output);
        let before = buffer.len();
        let read = read_part(file, &mut buffer, part as usize, offset).await;
        if !read || !file.still_same() {
            // The bytes before are correct: this answer's head and earlier answers.
            buffer.truncate(before);
            connection.output = buffer;
            connection.flush(Bytes::new(), More::No).await?;
            connection.sent().await?;
            return Err(Lost::Cut);
        }
        offset += part;
        connection.output = buffer;
        let more = if offset < range.end { More::Yes } else { More::No };
        connection.flush(Bytes::new(), more).await?;
        connection.sent().await?;
        *sent += part;
        since_yield += part;
        if since_yield >= PART_BYTES && offset < range.end {
            since_yield = 0;
            yield_now().await;
        }
    }
    Ok(())
}

/// Appends `count` bytes of `file` at `offset` to `buffer`. Returns `false` if the file ends
/// before, or cannot be read.
async fn read_part(file: &OpenFile, buffer: &mut Vec<u8>, count: usize, offset: u64) -> bool {
    let (mut have, mut cache) = (0, CacheOnly::Yes);
    while have < count {
        let (left, at) = (count - have, offset + have as u64);
        match file.append(buffer, left, at, cache) {
            Ok(0) => return false,
            Ok(read) => have += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let warm = file.warm_job(at, left as u64);
                // If the pool is full or the file system cannot tell which pages are in memory,
                // reading waits for the disk.
                let _ = blocking(move || warm.run()).await;
                cache = CacheOnly::No;
            }
            Err(_) => return false,
        }
    }
    true
}

async fn send_range(
    connection: &mut Connection,
    file: &OpenFile,
    range: ByteRange,
    sent: &mut u64,
) -> Result<(), Lost> {
    let mut offset = range.start;
    while offset < range.end {
        let part = PART_BYTES.min(range.end - offset);
        if !file.is_resident(offset, part) {
            let warm = file.warm_job(offset, part);
            // If the pool is full or the disk fails, sending waits for the disk or fails itself.
            let _ = blocking(move || warm.run()).await;
        }
        if !file.still_same() {
            return Err(Lost::Cut);
        }
        send_part(connection, file.as_fd(), (&mut offset, part), sent).await?;
        if offset < range.end {
            yield_now().await;
        }
    }
    // The last part may have changed while it was sent, and then the client must not take the
    // answer for complete.
    if file.still_same() { Ok(()) } else { Err(Lost::Cut) }
}

/// Sends a range of a sealed copy, which nothing can change.
async fn send_sealed(
    connection: &mut Connection,
    content: &SealedContent,
    range: ByteRange,
    sent: &mut u64,
) -> Result<(), Lost> {
    if connection.stream.is_secure() {
        return send_encrypted(connection, content, range, sent).await;
    }
    connection.flush(Bytes::new(), More::Yes).await?;
    connection.sent().await?;
    let mut offset = range.start;
    while offset < range.end {
        let part = PART_BYTES.min(range.end - offset);
        send_part(connection, content.as_fd(), (&mut offset, part), sent).await?;
        if offset < range.end {
            yield_now().await;
        }
    }
    Ok(())
}

/// Sends a range of a sealed copy over TLS: the kernel sends files without encrypting them.
async fn send_encrypted(
    connection: &mut Connection,
    content: &SealedContent,
    range: ByteRange,
    sent: &mut u64,
) -> Result<(), Lost> {
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + PART_BYTES);
        // The length of the copy fits `usize`.
        let part = content.bytes().slice(start as usize..end as usize);
        // The kernel would keep an incomplete packet back for up to 200 ms.
        let more = if end < range.end { More::Yes } else { More::No };
        connection.flush(part, more).await?;
        *sent += end - start;
        start = end;
        if start < range.end {
            yield_now().await;
        }
    }
    Ok(())
}

/// Sends `part` bytes of `file` by `sendfile(2)`, and advances `offset` by as many.
async fn send_part(
    connection: &mut Connection,
    file: BorrowedFd<'_>,
    (offset, part): (&mut u64, u64),
    sent: &mut u64,
) -> Result<(), Lost> {
    let end = *offset + part;
    while *offset < end {
        // A part has at most `PART_BYTES`.
        let left = (end - *offset) as usize;
        match connection.sendfile(file, offset, left).await? {
            0 => return Err(Lost::Cut),
            count => *sent += count as u64,
        }
    }
    Ok(())
}

fn say_cut(request: &[u8]) {
    core_context::with(|local| {
        local.server.count_cut();
        let line = core_context::request_line(request).escape_ascii();
        let notice = format_args!("file changed while sent: {line} (connection cut)");
        local.server.notices.say(NoticeKind::FileChanged, notice);
    });
}
