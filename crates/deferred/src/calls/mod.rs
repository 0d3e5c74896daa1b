//! Requests for programs, from the route to the answer.
//!
//! The modules `php` and `cgi` run the programs. All programs have the same kinds of results (a
//! redirect, a file, a failure), and this module turns each result into an answer.

mod route;
mod sendfile;

pub(crate) use route::{look_up, site};
use vermeil_answer::{
    answer::{self, Answer},
    pages::RETRY_AFTER,
};
use vermeil_connection::connection::Connection;
use vermeil_exchange::{AnswerHead, Lost, PasswordUse};
use vermeil_gateway::{
    Asking, Broken, ConfiguredBy, EndedAnswer, Failure, GatewayKind, Named, Relayed, cgi, php,
    programs::{self, GatewayRequest, ProgramReason, ProgramsShared},
};
use vermeil_log::NoticeKind;
use vermeil_routing::hosts::{Host, HostPhp};
use vermeil_settings::gateway::SendRoot;
use vermeil_state::core_context::{self, CoreContext};

use route::RequestRoute;
use std::{fmt::Display, sync::Arc};
use vermeil_http::{
    Method, Rejection, Request, Status, Version,
    basic::BasicCredentials,
    gateway::{BadHead, field_lines, field_name, redirect},
    path,
    response::Persistence,
};

/// The methods that programs may be asked by name: all except TRACE and CONNECT, because the server
/// would have to echo or to relay (RFC 9110 §9.3.8, §9.3.6).
const ALLOW: &[u8] = b"Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n";

/// The line that belongs to a status; empty if there is none.
fn own_line(status: Status) -> &'static [u8] {
    match status {
        Status::ServiceUnavailable => RETRY_AFTER,
        Status::MethodNotAllowed => ALLOW,
        _ => b"",
    }
}

/// The result of a call.
pub(crate) enum CallOutcome {
    /// An answer, as for any file, with the persistence that its head has or gets.
    Answer(Answer, Persistence),
    /// An internal redirect: the complete head of the request to answer instead.
    Redirected(Vec<u8>),
}

/// Answers `request`. `file_head` is for the answer of a file, which leaves the content unread.
pub(crate) async fn answer(
    connection: &mut Connection,
    request: &Request<'_>,
    file_head: &mut AnswerHead,
    call: &GatewayRequest,
) -> Result<CallOutcome, EndedAnswer> {
    if call.reason == ProgramReason::Cgi {
        return by_cgi(connection, request, file_head, call).await;
    }
    let program = match route::find(connection, request, file_head, call).await? {
        RequestRoute::Program(program) => program,
        RequestRoute::File(answer) => return Ok(CallOutcome::Answer(answer, file_head.persistence)),
    };
    // This check follows the lookup, because a missing program is a 404 for every method.
    if request.method == Method::Trace {
        let of_program = OfProgram { kind: GatewayKind::Php, request, head: *file_head, call };
        return Ok(of_program.own_page(connection, Status::MethodNotAllowed, *file_head));
    }
    let shared = shared();
    let php = call.answering.php_of(&call.host.host().rules.php);
    let user = known_user(connection, request, *file_head);
    let asking = asking(call, &shared, user.as_deref());
    let head = file_head.of_program();
    let result = php::run(connection, request, head, &asking, php, &program).await;
    note_drain(file_head);
    let head = file_head.of_program();
    let of_program = OfProgram { kind: GatewayKind::Php, request, head, call };
    of_program.outcome(connection, result).await
}

/// Makes the answer the last of its connection if a drain has begun while the request waited.
pub(crate) fn note_drain(head: &mut AnswerHead) {
    if core_context::with(|local| local.server.is_draining()) {
        head.close();
    }
}

/// The user of the request, for the program and the log, if the password was checked. A path before
/// a rewrite or a redirect may have asked for the password, and then too the program does not get
/// the password.
fn known_user(connection: &mut Connection, request: &Request<'_>, head: AnswerHead) -> Option<Box<[u8]>> {
    // Without a check the name may be anyone's.
    if head.password == PasswordUse::NotAsked {
        return None;
    }
    connection.note_password();
    BasicCredentials::of(request).map(|credentials| credentials.user().into())
}

/// Answers `request` by the CGI program that its path names.
async fn by_cgi(
    connection: &mut Connection,
    request: &Request<'_>,
    file_head: &mut AnswerHead,
    call: &GatewayRequest,
) -> Result<CallOutcome, EndedAnswer> {
    let shared = shared();
    let script = call.script.as_deref();
    let found = cgi::find(connection, request, *file_head, &call.host, shared.cgi(), script).await?;
    let program = match found {
        Ok(program) => program,
        Err(cgi::NoProgram { status, reason }) => {
            let of_program = OfProgram { kind: GatewayKind::Cgi, request, head: *file_head, call };
            if let Some(reason) = reason {
                of_program.say(NoticeKind::ProgramFailed, &reason, &status.code());
            }
            return Ok(of_program.own_page(connection, status, *file_head));
        }
    };
    if let Some(refusal) = refuse_program(connection, request, file_head, call, program.script()) {
        return Ok(CallOutcome::Answer(refusal, file_head.persistence));
    }
    let user = known_user(connection, request, *file_head);
    let asking = asking(call, &shared, user.as_deref());
    let head = file_head.of_program();
    let result = program.run(connection, request, head, &asking).await;
    note_drain(file_head);
    let head = file_head.of_program();
    OfProgram { kind: GatewayKind::Cgi, request, head, call }.outcome(connection, result).await
}

/// The answer in place of the program at `script`, decoded, unless the rules for its own path let
/// the request in. The request's path may only begin with the path of the program.
fn refuse_program(
    connection: &mut Connection,
    request: &Request<'_>,
    head: &mut AnswerHead,
    call: &GatewayRequest,
    script: &[u8],
) -> Option<Answer> {
    let Host { rules, name, .. } = call.host.host();
    let mut decoded = Vec::new();
    let path = path::decode_for_program(request.target.path, &mut decoded).ok()?.bytes;
    if rules.names_part_behind(script, path, head.asked(request)) {
        return None;
    }
    let out = &mut connection.output;
    core_context::with(|local| {
        check_script(local, request, head, script, out).or_else(|| {
            let route = rules.refusal_of_other(script, head.asked(request))?;
            Some(answer::by_route(local, route, name, request, script, *head, out))
        })
    })
}

/// The answer in place of `script`, decoded, unless the present rules about clients for its path
/// let the request in. Otherwise the answer gets the rules of the program's route.
fn check_script(
    local: &mut CoreContext,
    request: &Request<'_>,
    head: &mut AnswerHead,
    script: &[u8],
    out: &mut Vec<u8>,
) -> Option<Answer> {
    // A reload may have changed the numbers of hosts since the request came.
    let host = local.hosts.hosts().find_at(request.host, head.visitor.at)?;
    let refused = answer::check_other(local, host, script, request, head, out);
    if refused.is_none() {
        answer::use_rules_at(local, host, script, request, head);
    }
    refused
}

/// The state of programs that all cores share.
fn shared() -> Arc<ProgramsShared> {
    programs::with(|programs| programs.shared.clone()).expect("a call is only for programs")
}

fn asking<'a>(call: &'a GatewayRequest, shared: &'a ProgramsShared, user: Option<&'a [u8]>) -> Asking<'a> {
    Asking {
        host: &call.host,
        uri: call.uri.as_deref(),
        options: &call.answering.options,
        content: call.content,
        name: call.name,
        user,
        spools: &shared.spools,
        errors: &shared.errors,
    }
}

/// Turns the result of a program's request into an answer.
struct OfProgram<'a> {
    kind: GatewayKind,
    request: &'a Request<'a>,
    head: AnswerHead,
    call: &'a GatewayRequest,
}

impl OfProgram<'_> {
    async fn outcome(
        &self,
        connection: &mut Connection,
        result: Result<Relayed, Broken>,
    ) -> Result<CallOutcome, EndedAnswer> {
        for oddity in connection.take_oddities() {
            self.say(NoticeKind::ProgramMended, &oddity, &"the answer was given");
        }
        let (response, named) = match &result {
            Ok(Relayed::AccelRedirect(response, path)) => (response, Named::Path(path)),
            Ok(Relayed::SendFile(response, path)) => (response, Named::File(path)),
            _ => return self.without_file(connection, result),
        };
        let from = (&self.call.answering.send_sites, self.send_roots());
        match sendfile::send(connection, self.request, self.head, response, named, from).await? {
            Ok(sending) => {
                if let Some(why) = sending.why {
                    self.say(
                        NoticeKind::ProgramFailed,
                        &format_args!("{named}: {why}"),
                        &sending.status.code(),
                    );
                }
                Ok(CallOutcome::Answer(sending.answer, self.head.persistence))
            }
            Err(refusal) => {
                let why = refusal.said(named, self.send_cure());
                self.say(NoticeKind::ProgramFailed, &why, &Status::BadGateway.code());
                Ok(self.own_page(connection, Status::BadGateway, self.head))
            }
        }
    }

    /// The folders from which the program may have files sent.
    fn send_roots(&self) -> &[SendRoot] {
        let (of_host, of_all) = (&self.call.host.host().rules.sends, &self.call.answering.options.sends);
        match self.kind {
            GatewayKind::Php => of_host.php.as_ref().unwrap_or(&of_all.php),
            GatewayKind::Cgi => of_host.cgi.as_ref().unwrap_or(&of_all.cgi),
        }
    }

    /// The option or key that names such a folder.
    fn send_cure(&self) -> &'static str {
        let rules = self.call.host.host().rules;
        match (self.kind, said()) {
            (GatewayKind::Php, ConfiguredBy::Option) => "--php-send",
            (GatewayKind::Cgi, ConfiguredBy::Option) => "--cgi-send",
            (GatewayKind::Php, ConfiguredBy::Key) if matches!(rules.php, HostPhp::Own(_)) => {
                "send in its [host.php]"
            }
            (GatewayKind::Php, ConfiguredBy::Key) => "send in [php]",
            (GatewayKind::Cgi, ConfiguredBy::Key) if rules.sends.cgi.is_some() => "send in its [host.cgi]",
            (GatewayKind::Cgi, ConfiguredBy::Key) => "send in [cgi], or in its [host.cgi]",
        }
    }

    fn without_file(
        &self,
        connection: &mut Connection,
        result: Result<Relayed, Broken>,
    ) -> Result<CallOutcome, EndedAnswer> {
        let broken = match result {
            Ok(Relayed::Sent { sent, rest, persistence }) => {
                let answer = if rest.is_empty() { Answer::Ready(sent) } else { Answer::Body(sent, rest) };
                return Ok(CallOutcome::Answer(answer, persistence));
            }
            Ok(Relayed::LocalRedirect(location)) => match redirected(self.request, &location) {
                Ok(request) => return Ok(CallOutcome::Redirected(request)),
                Err(bad) => Broken::from(Failure::from(bad)),
            },
            Ok(Relayed::ErrorPage(status, mut lines)) => {
                let own = own_line(status);
                let is_same = |line: &[u8]| field_name(line).eq_ignore_ascii_case(field_name(own));
                if !field_lines(&lines).any(is_same) {
                    lines.extend_from_slice(own);
                }
                return Ok(self.page(connection, status, &lines, self.head));
            }
            Ok(_) => unreachable!("files are sent elsewhere"),
            Err(broken) => broken,
        };
        let Broken { failure, sent, .. } = broken;
        let Some(status) = failure.status() else {
            let Failure::Client(lost) = failure else { unreachable!("anything else has a status") };
            return Err(EndedAnswer { lost, sent });
        };
        if let Failure::Content(Rejection::BodyTooLong) = &failure {
            let most = self.call.answering.options.content_bytes;
            let key = failure.limit_key(self.kind, said()).unwrap_or_default();
            let line = format_args!(
                "the content of the request has more than {most} bytes; that limit is changed by {key}"
            );
            self.say(NoticeKind::LimitReached, &line, &status.code());
        }
        if failure.concerns_operator() {
            match &sent {
                Some(_) => self.say_failure(&failure, &"its answer was cut"),
                None => self.say_failure(&failure, &status.code()),
            }
        }
        if sent.is_some() {
            // The answer may have no length and no chunks, so the client could count nothing.
            let lost = match self.head.version == Version::Http10 || connection.is_raw() {
                true => Lost::CutWithoutLength,
                false => Lost::Cut,
            };
            return Err(EndedAnswer { lost, sent });
        }
        let head = match failure.leaves_content() {
            true => AnswerHead { persistence: Persistence::Close, ..self.head },
            false => self.head,
        };
        Ok(self.own_page(connection, status, head))
    }

    /// The host's page for an error of the server.
    fn own_page(&self, connection: &mut Connection, status: Status, head: AnswerHead) -> CallOutcome {
        self.page(connection, status, own_line(status), head)
    }

    /// The host's page for `status`, with these fields, each with CRLF.
    fn page(
        &self,
        connection: &mut Connection,
        status: Status,
        lines: &[u8],
        head: AnswerHead,
    ) -> CallOutcome {
        let out = &mut connection.output;
        let answer = core_context::with(|local| answer::error(local, status, lines, head, out));
        CallOutcome::Answer(answer, head.persistence)
    }

    /// Logs the failure and the client's result.
    fn say_failure(&self, failure: &Failure, got: &dyn Display) {
        match failure.limit_key(self.kind, said()) {
            Some(key) => self.say(
                NoticeKind::ProgramFailed,
                &format_args!("{failure}; that limit is changed by {key}"),
                got,
            ),
            None => self.say(NoticeKind::ProgramFailed, failure, got),
        }
    }

    /// Logs an event and its consequence, with the kind of program, the request's name, its host
    /// and its request line.
    fn say(&self, notice: NoticeKind, what: &dyn Display, got: &dyn Display) {
        let Self { kind, request, call: GatewayRequest { name, host, .. }, .. } = self;
        let program = match kind {
            GatewayKind::Cgi => "cgi",
            GatewayKind::Php => "php",
        };
        let host = host.host().name.or(request.host).unwrap_or(b"-").escape_ascii();
        let method = request.method.as_bytes().escape_ascii();
        let target = request.target.raw;
        let target = target[..target.len().min(answer::SAID_BYTES_MAX)].escape_ascii();
        core_context::with(|local| {
            let line = format_args!("{program} {name}: {host}: {method} {target}: {what} ({got})");
            local.server.notices.say(notice, line);
        });
    }
}

/// Whether this server's bounds are set by options or by keys. Only a server with a configuration
/// file has revisions.
fn said() -> ConfiguredBy {
    let is_configured = programs::with(|programs| programs.shared.revisions.is_some());
    if is_configured.unwrap_or_default() { ConfiguredBy::Key } else { ConfiguredBy::Option }
}

/// Logs that programs redirect in a circle. `request` is the last of the redirected requests.
pub(crate) fn say_too_many_redirects(request: &Request<'_>, head: AnswerHead, call: &GatewayRequest) {
    let kind = if call.reason == ProgramReason::Cgi { GatewayKind::Cgi } else { GatewayKind::Php };
    let of_program = OfProgram { kind, request, head, call };
    let why = BadHead::TooManyRedirects.reason();
    of_program.say(NoticeKind::ProgramFailed, &why, &Status::BadGateway.code());
}

fn redirected(request: &Request<'_>, location: &[u8]) -> Result<Vec<u8>, BadHead> {
    let mut head = Vec::with_capacity(512);
    redirect::write_request(request, location, &mut head)?;
    let limits = core_context::with(|local| local.server.limits.clone());
    // The new request must be valid as if a client had sent it.
    match vermeil_http::parse(&head, &limits) {
        vermeil_http::ParsedPart::Complete { .. } => Ok(head),
        _ => Err(BadHead::Location),
    }
}
