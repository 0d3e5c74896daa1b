//! From a request to its answer, without waiting.
//!
//! Appends heads and small bodies to the output. An answer that must wait is handed back as `Slow`.
//! Chooses the representation, the conditions, the ranges and the redirects. Leaves out resolving
//! paths (`crates/files`) and sending (`crates/deferred`). The verdicts are tested in
//! `crates/http`, the answers through the binary.

mod by_rules;
mod coded;
mod folder;
mod gate;
mod limit_notice;
mod resolved;

pub use by_rules::{ErrorPageCall, RewrittenTarget, by_error_page, use_rules_at};
pub use coded::{FileToCompress, by_coded_content, file_of_program};
pub use folder::by_unopened_folder;
pub use gate::{Challenge, ProgressEntry, RateWait, check_other};
pub use limit_notice::{SAID_BYTES_MAX, say_limit};
pub use resolved::{resolved, resolved_for};

use by_rules::{error_page, fixed};
use folder::{files, tried};
use vermeil_gateway::{encoded, programs::GatewayRequest};

use crate::{
    https,
    pages::{RETRY_AFTER, finish, moved, page},
};
use bytes::Bytes;
use std::{io::ErrorKind, sync::Arc};
use vermeil_exchange::{AnswerHead, COPY_BYTES_MAX, Sent};
use vermeil_files::{
    Content, EntryHandle, EntryOutcome, FileEntry, ListingJob, PathJob, SERVER, Site, SiteError, UnopenedJob,
    Variant,
};
use vermeil_http::{
    Framing, Method, Rejection, Request, Status, TargetForm, Verdict,
    negotiate::{self, Choice},
    path::{self, PathError},
    ranges::{self, Boundary, ByteRange, Multipart, Ranges},
    response::{HeadWriter, PageContent as Sends},
};
use vermeil_log::NoticeKind;
use vermeil_ops::control_client::StatusForm;
use vermeil_routing::hosts::{
    Action, HeldAnswerRules, Host, HostId, Met, OpenJob, Path, Route, RunBy, TextTemplate,
};
use vermeil_settings::tls::HttpsUse;
use vermeil_state::{core_context::CoreContext, counts::RequestStart};

/// For answers that are valid only now.
const NEVER_KEPT: &[u8] = b"Cache-Control: no-store\r\n";

const ALLOW: &[u8] = b"Allow: GET, HEAD, OPTIONS\r\n";

/// An answer, or the part that could be given at once. The head is in the output, unless the path
/// is slow to resolve.
pub enum Answer {
    /// The whole answer is in the output.
    Ready(Sent),
    /// These bytes follow the output.
    Body(Sent, Bytes),
    /// The rest has to wait.
    Slow(Deferred),
}

/// The event that an answer waits for.
pub enum Deferred {
    /// The folder of the host must be opened where waiting is allowed.
    Open(FolderOpen),
    /// The path must be resolved where waiting is allowed.
    Resolve(PathJob),
    /// The same in a folder that stays closed.
    ResolveUnopened(UnopenedJob),
    /// The status must be collected.
    Status(StatusForm),
    /// The request may be for a program.
    Program(GatewayRequest),
    /// The request's own path names nothing, and the host names other paths to look up.
    Try(Met),
    /// The request is answered as for another path.
    Rewrite(RewrittenTarget),
    /// The files of another folder answer: the folder, and the path in the folder, decoded.
    Alias(Met, Vec<u8>),
    /// A page of the host answers an error.
    ErrorPage(Box<ErrorPageCall>),
    /// The client must wait, because its requests come faster than its rate.
    Wait(RateWait),
    /// The request counts as in progress.
    Enter(Box<ProgressEntry>),
    /// The password must be checked where waiting is allowed.
    Password(Box<Challenge>),
    /// The folder must be read.
    List(ListingTask),
    /// The content of the file must be compressed.
    Compress(Box<FileToCompress>),
    /// The head is in the output, and these pieces follow it.
    Send {
        /// Keeps the file open.
        handle: EntryHandle,
        /// The representation to send.
        coding: Choice,
        /// The pieces, in order.
        pieces: Vec<BodySegment>,
        /// The part of the answer for the log, if the client takes all.
        sent: Sent,
    },
}

/// A piece of a body.
pub enum BodySegment {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// A range of the file's content.
    Range(ByteRange),
}

/// A request whose answer waits.
pub struct Slow {
    /// The event that the answer waits for.
    pub what: Deferred,
    /// The request's head as received, kept because its buffer is reused.
    pub request: Vec<u8>,
    /// The parts of the request that decide the head.
    pub head: AnswerHead,
    /// The rules that `head` names.
    pub rules: HeldAnswerRules,
    /// The start of the request.
    pub start: RequestStart,
}

impl Slow {
    /// Keeps `request`, and the rules of its answer.
    pub fn new(
        local: &CoreContext,
        what: Deferred,
        request: &[u8],
        head: AnswerHead,
        start: RequestStart,
    ) -> Self {
        let mut rules = HeldAnswerRules::default();
        rules.hold(&local.hosts, head.rules);
        Self { what, request: request.to_vec(), head, start, rules }
    }
}

/// Answers `request`. Sets the rules of `head`.
pub fn answer(
    local: &mut CoreContext,
    request: &Request<'_>,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    let Some(host) = local.hosts.hosts().find_at(request.host, head.visitor.at) else {
        return error(local, Status::MisdirectedRequest, b"", *head, out);
    };
    head.use_configuration(local.hosts.configuration());
    head.rules = local.hosts.rules_of_answers(host, None);
    local.records.counts.set_host(host);
    if matches!(request.target.form, TargetForm::Asterisk | TargetForm::Authority) {
        // The request has no path (RFC 9112 §3.2): OPTIONS of the server itself, or CONNECT.
        return without_file(local, request.method, *head, out);
    }
    let https = local.hosts.hosts().host(host).rules.https;
    if https != HttpsUse::Optional {
        head.strict = https::strict_transport(https, head.visitor);
        if let Some(sent) = https::redirect(local, host, request, *head, out) {
            return Answer::Ready(sent);
        }
    }
    if let Some(status) = https::refused_client(local.hosts.hosts(), host, head.visitor) {
        return error(local, status, b"", *head, out);
    }
    // After the redirect to HTTPS, because a password must not be asked for without TLS.
    if local.hosts.hosts().is_guarded(host)
        && let Some(answer) = gate::check(local, host, request, head, out)
    {
        return answer;
    }
    if !local.hosts.hosts().host(host).rules.routes.is_empty()
        && let Some(answer) = routed(local, host, request, head, out)
    {
        return answer;
    }
    if local.has_programs
        && let Some(call) = GatewayRequest::of(&local.hosts, &mut local.heads, host, request)
    {
        return Answer::Slow(Deferred::Program(call));
    }
    files(local, host, request, head, out)
}

/// Answers `request`, whose path has been resolved to `handle` in `site`. The index page of a
/// folder may be a program.
pub fn found(
    local: &mut CoreContext,
    host: HostId,
    site: &Arc<Site>,
    request: &Request<'_>,
    handle: &EntryHandle,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    head.use_configuration(local.hosts.configuration());
    match handle.outcome() {
        EntryOutcome::Program { script } if path::names_folder(request.target.path) => {
            index_program(local, host, request, script, head, out)
        }
        outcome => match tried(local, host, request, outcome, *head) {
            Some(answer) => answer,
            None => found_by_files(local, site, request, handle, head, out),
        },
    }
}

/// Answers `request` for a folder whose index page is the program `script`, like a request for
/// `script`.
pub fn index_program(
    local: &mut CoreContext,
    host: HostId,
    request: &Request<'_>,
    script: &[u8],
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    if let Some(answer) = check_other(local, host, script, request, head, out) {
        return answer;
    }
    use_rules_at(local, host, script, request, head);
    // Programs are rare enough for a copy of the reference.
    let met = local.hosts.met(host);
    let Host { rules, name, .. } = met.host();
    let asked = head.asked(request);
    let call = match rules.run_by(script, asked) {
        RunBy::Route(route) => return by_route(local, route, name, request, script, *head, out),
        RunBy::Php => GatewayRequest::of_index(&local.hosts, &mut local.heads, host, request, script),
        RunBy::Cgi => GatewayRequest::of_cgi(&local.hosts, &mut local.heads, host, request)
            .map(|call| call.for_cgi(script.into())),
        RunBy::Nothing => None,
    };
    match call {
        Some(call) => Answer::Slow(Deferred::Program(call)),
        None => error(local, Status::Forbidden, b"", *head, out),
    }
}

/// Answers `request`, whose path has been resolved to `handle` in `site` and is not for a program.
pub fn found_by_files(
    local: &mut CoreContext,
    site: &Arc<Site>,
    request: &Request<'_>,
    handle: &EntryHandle,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    match handle.outcome() {
        EntryOutcome::Listing { .. } if reads(request.method) => {
            listed(local, site, request, handle, *head, out)
        }
        EntryOutcome::Listing { .. } => without_file(local, request.method, *head, out),
        _ => resolved(local, request, handle, head, out),
    }
}

/// Whether `method` asks for content. Files and listings take no other methods.
fn reads(method: Method<'_>) -> bool {
    matches!(method, Method::Get | Method::Head)
}

/// Answers a request that asks for no file's content.
pub fn without_file(
    local: &mut CoreContext,
    method: Method<'_>,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    match method {
        Method::Options => options(local, head, out),
        _ => error(local, Status::MethodNotAllowed, ALLOW, head, out),
    }
}

/// Answers `request` if a route of `host` takes it from the files.
fn routed(
    local: &mut CoreContext,
    host: HostId,
    request: &Request<'_>,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Option<Answer> {
    let mut decoded = Vec::new();
    let path = match path::decode_for_program(request.target.path, &mut decoded) {
        Ok(path) => path,
        Err(wrong) => return Some(error(local, wrong.status(), b"", *head, out)),
    };
    let decoded = path.bytes;
    let rules = local.hosts.hosts().host(host).rules;
    let (number, route) = rules.route(decoded, head.asked(request))?;
    if route.answers.is_some() {
        head.rules = local.hosts.rules_of_answers(host, Some(number));
    }
    let head = *head;
    if !route.lets_in(head.visitor.peer) {
        return Some(error(local, Status::NotFound, b"", head, out));
    }
    if path.has_encoded_slash() && !matches!(route.action, Action::Files | Action::Cgi) {
        return Some(error(local, PathError::EncodedSlash.status(), b"", head, out));
    }
    Some(match &route.action {
        Action::Files => return None,
        Action::Cgi => match GatewayRequest::of_cgi(&local.hosts, &mut local.heads, host, request) {
            Some(call) => Answer::Slow(Deferred::Program(call)),
            None => error(local, Status::NotFound, b"", head, out),
        },
        Action::Rewrite { to } => {
            let name = local.hosts.hosts().host(host).name;
            let path = asked_path(name, request, decoded, head);
            match to.target(route, &path) {
                Some(target) => {
                    let routes_from = u32::try_from(number).expect("a file has fewer routes") + 1;
                    Answer::Slow(Deferred::Rewrite(RewrittenTarget { target, routes_from }))
                }
                None => error(local, Status::NotFound, b"", head, out),
            }
        }
        Action::Alias(folder) => match route.below(decoded) {
            Some(below) => Answer::Slow(Deferred::Alias(local.hosts.met(*folder), below)),
            None => {
                let location = [&*encoded(decoded), b"/"].concat();
                redirect(local, &location, request, head, out)
            }
        },
        _ => {
            // These routes are rare enough for a copy of the reference.
            let met = local.hosts.met(host);
            let Host { rules, name, .. } = met.host();
            by_route(local, &rules.routes[number], name, request, decoded, head, out)
        }
    })
}

/// Answers `request` for the path `decoded` by `route`. A route to files or programs refuses the
/// request, because its path is the index page of a folder that the route does not run.
pub fn by_route(
    local: &mut CoreContext,
    route: &Route,
    name: Option<&[u8]>,
    request: &Request<'_>,
    decoded: &[u8],
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    if !route.lets_in(head.visitor.peer) {
        return error(local, Status::NotFound, b"", head, out);
    }
    match &route.action {
        Action::Redirect { to, status } => {
            let location = location(to, route, &asked_path(name, request, decoded, head));
            redirect_by_route(local, *status, location, head, out)
        }
        Action::Status | Action::Metrics | Action::Ready if !reads(request.method) => {
            without_file(local, request.method, head, out)
        }
        Action::Status => Answer::Slow(Deferred::Status(form(request))),
        Action::Metrics => Answer::Slow(Deferred::Status(StatusForm::Metrics)),
        Action::Ready => ready(local, head, out),
        Action::Deny(status) => error(local, *status, line_of_denial(*status), head, out),
        action @ Action::Fixed { .. } => fixed(local, action, head, out),
        Action::Files | Action::Cgi | Action::Alias(_) | Action::Rewrite { .. } => {
            error(local, Status::Forbidden, b"", head, out)
        }
    }
}

/// The field line that a denial with `status` needs. The empty field says that no method is allowed
/// (RFC 9110, section 10.2.1).
fn line_of_denial(status: Status) -> &'static [u8] {
    if status == Status::MethodNotAllowed { b"Allow: \r\n" } else { b"" }
}

/// The parts of `request` for the target of a route.
fn asked_path<'a>(
    name: Option<&'a [u8]>,
    request: &Request<'a>,
    decoded: &'a [u8],
    head: AnswerHead,
) -> Path<'a> {
    // HTTP/1.0 need not name the host.
    let host = request.host.or(name);
    Path { scheme: head.visitor.scheme, host, decoded, query: request.target.query }
}

/// The `Location` line of `route`. `None` if the template needs a host name and the request has
/// none.
fn location(to: &TextTemplate, route: &Route, path: &Path<'_>) -> Option<Vec<u8>> {
    let mut line = b"Location: ".to_vec();
    to.write(route, path, &mut line)?;
    line.extend_from_slice(b"\r\n");
    Some(line)
}

fn redirect_by_route(
    local: &mut CoreContext,
    status: Status,
    location: Option<Vec<u8>>,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    match location {
        Some(line) => error(local, status, &line, head, out),
        None => error(local, Status::BadRequest, b"", head, out),
    }
}

/// The form in which the request asks for the status.
fn form(request: &Request<'_>) -> StatusForm {
    match request.target.query {
        Some(b"json") => StatusForm::Json,
        _ => StatusForm::Text,
    }
}

fn ready(local: &mut CoreContext, head: AnswerHead, out: &mut Vec<u8>) -> Answer {
    match local.server.is_leaving() {
        true => error(local, Status::ServiceUnavailable, NEVER_KEPT, head, out),
        false => text(local, "text/plain; charset=utf-8", "ready\n".into(), head, out),
    }
}

/// Answers with a text that is made for this request.
pub fn text(
    local: &mut CoreContext,
    media_type: &str,
    body: Bytes,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    let _ = HeadWriter::new(out, Status::Ok)
        .lines(SERVER)
        .lines(NEVER_KEPT)
        .field("Content-Type", media_type.as_bytes())
        .content_length(body.len() as u64);
    finish(local, head, out);
    let sent = Sent { status: Status::Ok.code(), body_bytes: body.len() as u64 };
    match head.content {
        Sends::Omitted => Answer::Ready(Sent { body_bytes: 0, ..sent }),
        Sends::Sent => Answer::Body(sent, body),
    }
}

/// Answers that the folder of a host cannot be served, and logs a notice for the operator.
pub fn not_served(
    local: &mut CoreContext,
    failure: &SiteError,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    local.server.notices.say(NoticeKind::SiteTrouble, format_args!("{failure}"));
    let status = match failure.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Status::NotFound,
        ErrorKind::PermissionDenied => Status::Forbidden,
        _ => return error(local, Status::ServiceUnavailable, RETRY_AFTER, head, out),
    };
    error(local, status, b"", head, out)
}

/// Answers with the list of a folder of `site`.
fn listed(
    local: &mut CoreContext,
    site: &Arc<Site>,
    request: &Request<'_>,
    handle: &EntryHandle,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    match site.listing_job(handle, page_number(request.target.query)) {
        Some(job) => Answer::Slow(Deferred::List(job)),
        None => error(local, Status::NotFound, b"", head, out),
    }
}

/// The page of a listing that a query asks for, in the form in which the pages link to each other.
/// Any other query gets the first page.
fn page_number(query: Option<&[u8]>) -> usize {
    let number =
        query.and_then(|query| std::str::from_utf8(query.strip_prefix(b"page=")?).ok()?.parse().ok());
    number.filter(|&number| number > 0).unwrap_or(1)
}

fn options(local: &mut CoreContext, head: AnswerHead, out: &mut Vec<u8>) -> Answer {
    let _ = HeadWriter::new(out, Status::NoContent).lines(SERVER).lines(ALLOW);
    finish(local, head, out);
    Answer::Ready(Sent { status: Status::NoContent.code(), body_bytes: 0 })
}

/// Redirects `request` to `location`, encoded, with the query of the request.
pub fn redirect(
    local: &mut CoreContext,
    location: &[u8],
    request: &Request<'_>,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    let mut line = [b"Location: ", location].concat();
    if let Some(query) = request.target.query {
        // A query of a valid target holds no line end.
        line.push(b'?');
        line.extend_from_slice(&path::escaped(query));
    }
    line.extend_from_slice(b"\r\n");
    error(local, moved(request.method), &line, head, out)
}

/// Answers with the page of `status`, with more field lines.
pub fn error(
    local: &mut CoreContext,
    status: Status,
    lines: &[u8],
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    let of_host = error_page(local, status, head);
    error_with(local, of_host, (status, lines), head, out)
}

/// Answers with the page `of_host`, or with the server's page.
fn error_with(
    local: &mut CoreContext,
    of_host: Option<(Met, Box<str>)>,
    (status, lines): (Status, &[u8]),
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    match of_host {
        None => Answer::Ready(page(local, status, lines, head, out)),
        Some((host, path)) => {
            let call = ErrorPageCall { status, lines: lines.to_vec(), host, path };
            Answer::Slow(Deferred::ErrorPage(Box::new(call)))
        }
    }
}

/// The answer to one request for a file.
struct FileReply<'a> {
    local: &'a mut CoreContext,
    request: &'a Request<'a>,
    handle: &'a EntryHandle,
    head: AnswerHead,
    out: &'a mut Vec<u8>,
    /// A field line that the head lacks, if the answer depends on the accepted codings.
    vary: &'static [u8],
}

impl FileReply<'_> {
    #[inline]
    fn file(self, file: &FileEntry) -> Answer {
        let codings = file.codings();
        let coding = if codings.is_empty() {
            Choice::Identity
        } else {
            negotiate::choose(self.request.accept_encoding, codings)
        };
        let variant = file.variant(coding);
        match self.head.rules {
            Some(rules) if coding == Choice::Identity => self.perhaps_coded(variant, rules),
            _ => self.representation(variant),
        }
    }

    #[inline]
    fn representation(mut self, variant: &Variant) -> Answer {
        match self.request.preconditions.evaluate(&variant.validators()) {
            Verdict::Proceed => {}
            Verdict::NotModified => {
                let _ = HeadWriter::new(self.out, Status::NotModified).lines(variant.shared_fields());
                self.add_vary();
                finish(self.local, self.head, self.out);
                return Answer::Ready(Sent { status: Status::NotModified.code(), body_bytes: 0 });
            }
            Verdict::PreconditionFailed => {
                return error(self.local, Status::PreconditionFailed, b"", self.head, self.out);
            }
        }
        if let Some(answer) = self.refused_content() {
            return answer;
        }
        match self.ranges(variant) {
            Ranges::Whole => self.whole(variant, Status::Ok),
            Ranges::Single(range) => self.part(variant, range),
            Ranges::Several(ranges) => self.parts(variant, &ranges),
            Ranges::Unsatisfiable => {
                let mut line = b"Content-Range: ".to_vec();
                ranges::write_unsatisfied_range(&mut line, variant.bytes());
                line.extend_from_slice(b"\r\n");
                error(self.local, Status::RangeNotSatisfiable, &line, self.head, self.out)
            }
        }
    }

    #[inline]
    fn add_vary(&mut self) {
        if !self.vary.is_empty() {
            self.out.extend_from_slice(self.vary);
        }
    }

    /// The answer to a request whose own content is too long.
    #[inline]
    fn refused_content(&mut self) -> Option<Answer> {
        let Framing::Length(bytes) = self.request.body else { return None };
        if bytes <= self.local.server.limits.body_bytes {
            return None;
        }
        let line = [self.request.method.as_bytes(), b" ", self.request.target.raw].concat();
        say_limit(self.local, Rejection::BodyTooLong, &line);
        Some(error(self.local, Status::ContentTooLarge, b"", self.head, self.out))
    }

    fn not_found(self, page: &FileEntry) -> Answer {
        let coding = negotiate::choose(self.request.accept_encoding, page.codings());
        self.whole(page.variant(coding), Status::NotFound)
    }

    fn error(mut self, page: &FileEntry, status: Status, lines: &[u8]) -> Answer {
        let coding = negotiate::choose(self.request.accept_encoding, page.codings());
        let variant = page.variant(coding);
        let _ = HeadWriter::new(self.out, status)
            .lines(SERVER)
            .lines(&variant.coding_fields())
            .field("Content-Type", variant.media_type().as_bytes())
            .content_length(variant.bytes())
            .lines(lines);
        finish(self.local, self.head, self.out);
        match variant.bytes() {
            0 => Answer::Ready(Sent { status: status.code(), body_bytes: 0 }),
            bytes => self.range(variant, ByteRange { start: 0, end: bytes }, status),
        }
    }

    #[inline]
    fn ranges(&self, variant: &Variant) -> Ranges {
        match self.request.range {
            Some(range) if self.request.method == Method::Get && self.range_applies(variant) => {
                ranges::parse(range, variant.bytes(), self.local.server.limits.ranges_max)
            }
            _ => Ranges::Whole,
        }
    }

    /// Whether `If-Range` lets the answer be a range of `variant`. If the answer varies, the same
    /// content in another coding may have the same date, so the date is no strong validator (RFC
    /// 9110, section 8.8.1).
    fn range_applies(&self, variant: &Variant) -> bool {
        let mut current = variant.validators();
        if variant.varies() || !self.vary.is_empty() {
            current.last_modified = None;
        }
        self.request.preconditions.range_applies(&current)
    }

    #[inline]
    fn whole(mut self, variant: &Variant, status: Status) -> Answer {
        self.out.extend_from_slice(variant.head());
        self.add_vary();
        finish(self.local, self.head, self.out);
        match variant.bytes() {
            0 => Answer::Ready(Sent { status: status.code(), body_bytes: 0 }),
            bytes => self.range(variant, ByteRange { start: 0, end: bytes }, status),
        }
    }

    fn part(mut self, variant: &Variant, range: ByteRange) -> Answer {
        let mut content_range = Vec::with_capacity(64);
        ranges::write_content_range(&mut content_range, range, variant.bytes());
        let _ = HeadWriter::new(self.out, Status::PartialContent)
            .lines(variant.partial_fields())
            .lines(self.vary)
            .field("Content-Type", variant.media_type().as_bytes())
            .field("Content-Range", &content_range)
            .content_length(range.len());
        finish(self.local, self.head, self.out);
        self.range(variant, range, Status::PartialContent)
    }

    /// The bytes of `range`, behind the head.
    #[inline]
    fn range(&mut self, variant: &Variant, range: ByteRange, status: Status) -> Answer {
        let sent = Sent { status: status.code(), body_bytes: range.len() };
        if self.head.content == Sends::Omitted {
            return Answer::Ready(Sent { body_bytes: 0, ..sent });
        }
        match variant.content() {
            Content::Memory(bytes) => {
                // The length of a content in memory fits `usize`.
                let (start, end) = (range.start as usize, range.end as usize);
                if end - start <= COPY_BYTES_MAX {
                    self.out.extend_from_slice(&bytes[start..end]);
                    Answer::Ready(sent)
                } else {
                    Answer::Body(sent, bytes.slice(start..end))
                }
            }
            Content::Sealed(_) | Content::Disk(_) => {
                self.pieces(variant, vec![BodySegment::Range(range)], sent)
            }
        }
    }

    fn parts(mut self, variant: &Variant, ranges: &[ByteRange]) -> Answer {
        let boundary = Boundary::new(self.local.heads.boundary());
        let parts = Multipart {
            ranges,
            size: variant.bytes(),
            content_type: variant.media_type().as_bytes(),
            boundary,
        };
        let mut content_type = Vec::with_capacity(64);
        parts.write_content_type(&mut content_type);
        let body_bytes = parts.content_length();
        let _ = HeadWriter::new(self.out, Status::PartialContent)
            .lines(variant.partial_fields())
            .lines(self.vary)
            .field("Content-Type", &content_type)
            .content_length(body_bytes);
        finish(self.local, self.head, self.out);
        let sent = Sent { status: Status::PartialContent.code(), body_bytes };
        if self.head.content == Sends::Omitted {
            return Answer::Ready(Sent { body_bytes: 0, ..sent });
        }
        let mut pieces = Vec::with_capacity(2 * ranges.len() + 1);
        for (index, range) in ranges.iter().enumerate() {
            let mut part_head = Vec::with_capacity(128);
            parts.write_part_head(index, &mut part_head);
            pieces.extend([BodySegment::Bytes(part_head), BodySegment::Range(*range)]);
        }
        let mut end = Vec::with_capacity(32);
        parts.write_end(&mut end);
        pieces.push(BodySegment::Bytes(end));
        self.pieces(variant, pieces, sent)
    }

    fn pieces(&mut self, variant: &Variant, pieces: Vec<BodySegment>, sent: Sent) -> Answer {
        Answer::Slow(Deferred::Send { handle: self.handle.clone(), coding: variant.coding(), pieces, sent })
    }
}

/// The page of a listing, for `Deferred::List`.
pub fn listing(
    local: &mut CoreContext,
    made: Result<vermeil_files::ListingPage, Status>,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    let page = match made {
        Ok(page) => page,
        Err(status) => return error(local, status, b"", head, out),
    };
    out.extend_from_slice(&page.head);
    finish(local, head, out);
    match head.content {
        Sends::Omitted => Answer::Ready(Sent { status: Status::Ok.code(), body_bytes: 0 }),
        Sends::Sent => Answer::Body(
            Sent { status: Status::Ok.code(), body_bytes: page.body.len() as u64 },
            page.body.into(),
        ),
    }
}

/// A listing to be made.
pub type ListingTask = ListingJob;

/// A folder to be opened.
pub type FolderOpen = OpenJob;
