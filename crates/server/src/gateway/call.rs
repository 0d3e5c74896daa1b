//! A request that may be for a program, from its route to its answer.
//!
//! This file asks which programs exist; the modules `php` and `cgi` run them. All programs have the
//! same kinds of results (a redirect, a file, a failure), and this file turns each result into an
//! answer.

use super::{
    Broken, Ended, ErrorSink, Failure, GatewayOptions, Relayed, RequestName, SendRoot,
    collect::Collected,
    failure::{Kind, Said},
    route::{self, Reason, Route},
    sendfile::{self, Named, SendSites},
    spool::Spools,
};
use crate::{
    answer::{self, Answer},
    cgi::{self, Cgi, Spawning},
    connection::{Connection, Head, Lost},
    files::Store,
    hosts::{Action, HostId, HostPhp, Met},
    local::{self, Local},
    log::{NoticeKind, Notices},
    php::{self, Idle, Php, Pools, Supervisor},
    settings::php::PoolOptions,
    slow,
};
use std::{
    collections::HashMap,
    fmt::Display,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
};
use vermeil_http::{
    Framing, Rejection, Request, Status,
    gateway::{BadHead, redirect},
    response::Persistence,
};
use vermeil_spawn::{Channel, Revisions};

/// The methods that programs may be asked by name: all except TRACE and CONNECT, because the server
/// would have to echo or to relay (RFC 9110 §9.3.8, §9.3.6).
const ALLOW: &[u8] = b"Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n";

/// The state of programs that all cores share.
pub(crate) struct Shared {
    pub(crate) spools: Arc<Spools>,
    pub(crate) errors: Arc<ErrorSink>,
    /// The present configuration of programs. Each core has a copy, which a reload replaces
    /// together with the core's hosts.
    answering: Mutex<Answering>,
    /// The pools that this server starts itself.
    pub(crate) pools: Pools,
    /// The supervisor of the server's first pool, while that pool is in force.
    pub(crate) supervisor: Mutex<Option<Supervisor>>,
    /// Set at the start, or by the reload that brings the first program.
    cgi: OnceLock<Arc<Cgi>>,
    /// The line to the keeper, if the keeper can read the list of allowed programs again.
    pub(crate) revisions: Option<Mutex<Revisions>>,
    /// The cache of all files.
    pub(crate) store: Arc<Store>,
}

impl Shared {
    /// Programs of a server whose `store` caches its files.
    pub(crate) fn new(
        spool_folder: PathBuf,
        store: &Arc<Store>,
        notices: Arc<Notices>,
        answering: Answering,
        running: RunsPrograms,
    ) -> Arc<Self> {
        let RunsPrograms { pools, supervisor, cgi, revisions } = running;
        Arc::new(Self {
            spools: Spools::new(spool_folder, answering.options.spool_bytes),
            errors: ErrorSink::new(notices),
            store: store.clone(),
            answering: Mutex::new(answering),
            pools,
            supervisor: Mutex::new(supervisor),
            cgi: cgi.map(OnceLock::from).unwrap_or_default(),
            revisions,
        })
    }
}

/// The parts that run programs, from the server's start to the server's end.
pub(crate) struct RunsPrograms {
    pub(crate) pools: Pools,
    pub(crate) supervisor: Option<Supervisor>,
    pub(crate) cgi: Option<Arc<Cgi>>,
    pub(crate) revisions: Option<Mutex<Revisions>>,
}

/// The programs that one configuration asks for.
#[derive(Clone)]
pub(crate) struct Answering {
    pub(crate) options: GatewayOptions,
    /// The server's PHP.
    pub(crate) php: Option<Arc<Php>>,
    /// The PHP pools of hosts.
    pub(crate) pools: Arc<HashMap<Arc<PoolOptions>, Arc<Php>>>,
    pub(crate) send_sites: SendSites,
}

impl Answering {
    /// The PHP that serves a host with this setting.
    pub(crate) fn php_of(&self, host: &HostPhp) -> Option<&Arc<Php>> {
        match host {
            HostPhp::Off => None,
            HostPhp::Shared => self.php.as_ref(),
            HostPhp::Own(pool) => self.pools.get(pool),
        }
    }
}

impl Shared {
    /// CGI, if any host has or had programs.
    pub(crate) fn cgi(&self) -> Option<&Arc<Cgi>> {
        self.cgi.get()
    }

    /// Sets CGI, if there was none.
    pub(crate) fn begin_cgi(&self, cgi: &Arc<Cgi>) {
        self.cgi.get_or_init(|| cgi.clone());
    }

    /// The present configuration of programs.
    pub(crate) fn answering(&self) -> Answering {
        self.answering.lock().expect("nothing panics under this lock").clone()
    }

    /// Replaces the configuration of programs. Returns the old configuration.
    pub(crate) fn set_answering(&self, answering: Answering) -> Answering {
        std::mem::replace(&mut self.answering.lock().expect("nothing panics under this lock"), answering)
    }
}

/// The state of programs on one core.
pub(crate) struct Programs {
    pub(crate) shared: Arc<Shared>,
    /// The configuration of programs that belongs to the core's hosts.
    pub(crate) answering: Arc<Answering>,
    /// Idle connections to PHP.
    pub(crate) idle: Idle,
    /// `None` if there can be no CGI.
    pub(crate) spawning: Option<Spawning>,
}

impl Programs {
    /// `channel` is this core's own channel to the spawner, if there is CGI.
    pub(crate) fn new(shared: Arc<Shared>, channel: Option<Channel>, notices: Arc<Notices>) -> Self {
        Self {
            answering: Arc::new(shared.answering()),
            shared,
            idle: Idle::default(),
            spawning: channel.map(|channel| Spawning::new(channel, notices)),
        }
    }
}

/// A request that may be for a program.
///
/// A call may outlast its configuration, for example during a slow upload or while the request
/// waits for its turn. So the call holds the parts of the configuration that concern it.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) host: Met,
    pub(crate) answering: Arc<Answering>,
    pub(super) reason: Reason,
    /// The program to run, decoded. Set for an index page, because the request's path does not name
    /// the program.
    pub(crate) script: Option<Arc<[u8]>>,
    pub(crate) content: Collected,
    pub(crate) name: RequestName,
}

impl Call {
    /// Returns `None` if no program can be concerned.
    #[inline]
    pub(crate) fn of(local: &mut Local, host: HostId, request: &Request<'_>) -> Option<Self> {
        local.programs.as_ref()?;
        let rules = local.hosts.hosts().host(host).rules;
        let has_php = rules.php.is_on();
        if !has_php && !rules.routes.iter().any(|route| route.action == Action::Cgi) {
            return None;
        }
        let reason = route::may_concern(request).filter(|&reason| has_php || reason == Reason::Folder)?;
        Self::new(local, host, request, reason)
    }

    /// The call for a path that a route assigns to CGI.
    pub(crate) fn of_cgi(local: &mut Local, host: HostId, request: &Request<'_>) -> Option<Self> {
        Self::new(local, host, request, Reason::Cgi)
    }

    /// The call for a folder whose index page is the PHP program `script`.
    pub(crate) fn of_index(
        local: &mut Local,
        host: HostId,
        request: &Request<'_>,
        script: &[u8],
    ) -> Option<Self> {
        Some(Self { script: Some(script.into()), ..Self::new(local, host, request, Reason::Index)? })
    }

    /// The same call for the CGI program `script`, an index page.
    pub(crate) fn for_cgi(&self, script: Arc<[u8]>) -> Self {
        Self { reason: Reason::Cgi, script: Some(script), ..self.clone() }
    }

    /// Returns `None` if there are no programs.
    fn new(local: &mut Local, host: HostId, request: &Request<'_>, reason: Reason) -> Option<Self> {
        let answering = local.programs.as_ref()?.answering.clone();
        let content = match request.body {
            Framing::None => Collected::Nothing,
            _ if request.expect_continue => Collected::Awaits,
            _ => Collected::Follows,
        };
        let host = local.hosts.met(host);
        let name = RequestName(local.boundary());
        Some(Self { host, answering, reason, script: None, content, name })
    }
}

/// The result of a call.
pub(crate) enum Outcome {
    /// An answer, as for any file.
    Answer(Answer),
    /// An internal redirect: the complete head of the request to answer instead.
    Redirected(Vec<u8>),
}

/// Answers `request`.
pub(crate) async fn answer(
    connection: &mut Connection,
    request: &Request<'_>,
    head: Head,
    call: &Call,
) -> Result<Outcome, Ended> {
    // A client that waits for 100 Continue gets a file's answer instead, and may or may not send
    // its content after that answer. So the connection closes.
    let file_head = match call.content {
        Collected::Awaits => Head { persistence: Persistence::Close, ..head },
        Collected::Nothing | Collected::Follows => head,
    };
    if call.reason == Reason::Cgi {
        return match cgi::answer(connection, request, head, call).await? {
            cgi::Answered::Yes(result) => {
                OfProgram { kind: Kind::Cgi, request, head, call }.outcome(connection, result).await
            }
            cgi::Answered::No(status, why) => {
                connection.settle(file_head.persistence);
                let of_program = OfProgram { kind: Kind::Cgi, request, head: file_head, call };
                if let Some(why) = why {
                    of_program.say(NoticeKind::ProgramFailed, &why, &status.code());
                }
                Ok(of_program.page(connection, status, file_head))
            }
        };
    }
    let program = match route::find(connection, request, file_head, call).await? {
        Route::Program(program) => program,
        // The content is not read yet.
        Route::File(answer @ Answer::Slow(slow::What::Program(_))) => return Ok(Outcome::Answer(answer)),
        Route::File(answer) => {
            connection.settle(file_head.persistence);
            return Ok(Outcome::Answer(answer));
        }
    };
    let result = php::run(connection, request, head, call, &program).await;
    let of_program = OfProgram { kind: Kind::Php, request, head, call };
    of_program.outcome(connection, result).await
}

/// Turns the result of a program's request into an answer.
struct OfProgram<'a> {
    kind: Kind,
    request: &'a Request<'a>,
    head: Head,
    call: &'a Call,
}

impl OfProgram<'_> {
    async fn outcome(
        &self,
        connection: &mut Connection,
        result: Result<Relayed, Broken>,
    ) -> Result<Outcome, Ended> {
        for oddity in connection.take_oddities() {
            self.say(NoticeKind::ProgramMended, &oddity, &"the answer was given");
        }
        let (response, named) = match &result {
            Ok(Relayed::AccelRedirect(response, path)) => (response, Named::Path(path)),
            Ok(Relayed::SendFile(response, path)) => (response, Named::File(path)),
            _ => return self.without_file(connection, result),
        };
        connection.settle(self.head.persistence);
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
                Ok(Outcome::Answer(sending.answer))
            }
            Err(refusal) => {
                let why = refusal.said(named, self.send_cure());
                self.say(NoticeKind::ProgramFailed, &why, &Status::BadGateway.code());
                Ok(self.page(connection, Status::BadGateway, self.head))
            }
        }
    }

    /// The folders from which the program may have files sent.
    fn send_roots(&self) -> &[SendRoot] {
        let (of_host, of_all) = (&self.call.host.host().rules.sends, &self.call.answering.options.sends);
        match self.kind {
            Kind::Php => of_host.php.as_ref().unwrap_or(&of_all.php),
            Kind::Cgi => of_host.cgi.as_ref().unwrap_or(&of_all.cgi),
        }
    }

    /// The option or key that names such a folder.
    fn send_cure(&self) -> &'static str {
        let rules = self.call.host.host().rules;
        match (self.kind, said()) {
            (Kind::Php, Said::Option) => "--php-send",
            (Kind::Cgi, Said::Option) => "--cgi-send",
            (Kind::Php, Said::Key) if matches!(rules.php, HostPhp::Own(_)) => "send in its [host.php]",
            (Kind::Php, Said::Key) => "send in [php]",
            (Kind::Cgi, Said::Key) if rules.sends.cgi.is_some() => "send in its [host.cgi]",
            (Kind::Cgi, Said::Key) => "send in [cgi], or in its [host.cgi]",
        }
    }

    fn without_file(
        &self,
        connection: &mut Connection,
        result: Result<Relayed, Broken>,
    ) -> Result<Outcome, Ended> {
        let broken = match result {
            Ok(Relayed::Sent { sent, rest, persistence }) => {
                connection.settle(persistence);
                let answer = if rest.is_empty() { Answer::Ready(sent) } else { Answer::Body(sent, rest) };
                return Ok(Outcome::Answer(answer));
            }
            Ok(Relayed::LocalRedirect(location)) => match redirected(self.request, &location) {
                Ok(request) => {
                    connection.settle(self.head.persistence);
                    return Ok(Outcome::Redirected(request));
                }
                Err(bad) => Broken::from(Failure::from(bad)),
            },
            Ok(_) => unreachable!("files are sent elsewhere"),
            Err(broken) => broken,
        };
        let Broken { failure, sent, .. } = broken;
        let Some(status) = failure.status() else {
            let Failure::Client(lost) = failure else { unreachable!("anything else has a status") };
            return Err(Ended { lost, sent });
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
            return Err(Ended { lost: Lost::Cut, sent });
        }
        let head = match failure.leaves_content() {
            true => Head { persistence: Persistence::Close, ..self.head },
            false => self.head,
        };
        connection.settle(head.persistence);
        Ok(self.page(connection, status, head))
    }

    fn page(&self, connection: &mut Connection, status: Status, head: Head) -> Outcome {
        let lines: &[u8] = match status {
            Status::ServiceUnavailable => slow::RETRY_AFTER,
            Status::MethodNotAllowed => ALLOW,
            _ => b"",
        };
        let out = &mut connection.output;
        Outcome::Answer(local::with(|local| answer::error(local, status, lines, head, out)))
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
        let Self { kind, request, call: Call { name, host, .. }, .. } = self;
        let program = match kind {
            Kind::Cgi => "cgi",
            Kind::Php => "php",
        };
        let host = host.host().name.or(request.host).unwrap_or(b"-").escape_ascii();
        let method = request.method.as_bytes().escape_ascii();
        let target = request.target.raw;
        let target = target[..target.len().min(answer::SAID_BYTES_MAX)].escape_ascii();
        local::with(|local| {
            let line = format_args!("{program} {name}: {host}: {method} {target}: {what} ({got})");
            local.server.notices.say(notice, line);
        });
    }
}

/// Whether this server's bounds are set by options or by keys. Only a server with a configuration
/// file has revisions.
fn said() -> Said {
    let is_configured = local::with(|local| {
        local.programs.as_ref().is_some_and(|programs| programs.shared.revisions.is_some())
    });
    if is_configured { Said::Key } else { Said::Option }
}

/// Logs that programs redirect in a circle. `request` is the last of the redirected requests.
pub(crate) fn say_too_many_redirects(request: &Request<'_>, head: Head, call: &Call) {
    let kind = if call.reason == Reason::Cgi { Kind::Cgi } else { Kind::Php };
    let of_program = OfProgram { kind, request, head, call };
    let why = BadHead::TooManyRedirects.reason();
    of_program.say(NoticeKind::ProgramFailed, &why, &Status::BadGateway.code());
}

fn redirected(request: &Request<'_>, location: &[u8]) -> Result<Vec<u8>, BadHead> {
    let mut head = Vec::with_capacity(512);
    redirect::write_request(request, location, &mut head)?;
    let limits = local::with(|local| local.server.limits.clone());
    // The new request must be valid as if a client had sent it.
    match vermeil_http::parse(&head, &limits) {
        vermeil_http::Parsed::Complete { .. } => Ok(head),
        _ => Err(BadHead::Location),
    }
}
