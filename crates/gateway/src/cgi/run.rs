//! A request to a CGI program: content, turn, process and exchange.
//!
//! The server kills a program and its process group when the client goes, when a timeout expires,
//! or when the answer is invalid, because further work of the program would be useless. After a
//! complete answer the program may continue within the time limit, and its error output is still
//! logged. Tested through the binary (`crates/e2e/tests/e2e/cgi.rs`).

use super::{
    Cgi, CgiSite, Nph, nph,
    pipes::{self, AllWritten, ProgramPipes},
    spawning::{ProgramSight, SpawnedProgram as Process},
};
use crate::parts::{
    AllowedCoding, Asking, Broken, END_SOON, ErrorLines, ExchangeParameters, Failure, FoundProgram,
    GatewayClient, ProgramRead, ProgramReader, Relayed, RequestBody, ResponseBuffer, Trouble, collect, relay,
};
use std::{
    ffi::OsStr,
    future::poll_fn,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};
use vermeil::Sleep;
use vermeil_exchange::{AnswerHead, Lost};
use vermeil_http::{
    Request,
    gateway::{BadHead, ClientLink, Invocation, ScriptPaths},
};
use vermeil_routing::turns::{HostTurn, WaitingFull};
use vermeil_spawn::{Directory, ProgramEnd, ProgramExit, ProgramRequest as SpawnRequest};

/// The default search path of programs.
const SEARCH_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// How long the server holds the end of an answer, once it has asked the spawner whether the
/// program runs, until the answer or the end of the program is known. After the death of a spawner,
/// the keeper takes up to a second to kill, and a tenth to rest.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// The context of a request.
pub(super) struct CgiRun<'a> {
    pub cgi: &'a Arc<Cgi>,
    pub site: &'a CgiSite,
    pub request: &'a Request<'a>,
    pub asking: &'a Asking<'a>,
    pub program: &'a FoundProgram,
    pub head: AnswerHead,
}

impl CgiRun<'_> {
    /// Runs the program and answers the request.
    pub(super) async fn run(&self, connection: &mut impl GatewayClient) -> Result<Relayed, Broken> {
        let options = self.asking.options;
        let content = collect(connection, self.asking.content, options, self.asking.spools).await?;
        let link = connection.link().map_err(|_gone| Failure::Client(Lost::Peer))?;
        let asked = Instant::now();
        let turn = self.turn(connection, options.timeouts.queue).await?;
        let began = Instant::now();
        self.cgi.waited(began - asked);
        let (process, mut output) = self.start(&content, &link, turn)?;
        if self.is_nph() {
            connection.note_raw();
        }
        let mut errors = ErrorLines::new(self.asking.errors.clone(), "cgi", self.asking.name);
        let result = self.exchange(connection, &process, &mut output, &mut errors).await;
        self.cgi.ran(began.elapsed());
        match result {
            Ok(relayed) => {
                process.let_go(output.into_errors(errors));
                Ok(relayed)
            }
            Err(broken) => {
                let patience = options.timeouts.connect;
                let broken = explained(broken, &process, patience, self.time_limit()).await;
                // The program's own reason may be in the pipe. If the pipe cannot be read, the
                // failure stands alone.
                let _ = output.take_errors(&mut errors);
                Err(broken)
            }
        }
    }

    /// How long the program may run.
    fn time_limit(&self) -> Duration {
        self.site.programs.time_limit.unwrap_or(self.cgi.options.time_limit)
    }

    /// Waits for a turn, until the timeout expires or the client goes.
    async fn turn(
        &self,
        connection: &mut impl GatewayClient,
        patience: Duration,
    ) -> Result<HostTurn, Failure> {
        let mut waiting = pin!(self.cgi.turns.clone().turn(self.site.number));
        let full = |full: WaitingFull| Failure::QueueFull(full.waiting);
        // Usually there is a turn at once, and no timer is needed.
        let first = poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await;
        if let Poll::Ready(turn) = first {
            return turn.map_err(full);
        }
        let watched = poll_fn(|context| {
            if let Poll::Ready(turn) = waiting.as_mut().poll(context) {
                return Poll::Ready(turn.map_err(full));
            }
            connection.poll_gone(context).map(|()| Err(Failure::Client(Lost::Peer)))
        });
        let mut limit = Sleep::unset();
        limit.set(patience);
        limit.limit(watched).await.unwrap_or(Err(Failure::QueueLate(patience)))
    }

    fn start(
        &self,
        content: &RequestBody,
        link: &ClientLink,
        turn: HostTurn,
    ) -> Result<(Process, ProgramPipes), Failure> {
        let Self { cgi, site, program, .. } = self;
        let file = Path::new(OsStr::from_bytes(&program.script[1..]));
        let mut request = SpawnRequest::new(site.profile, vermeil_spawn::Program::Below(file));
        // The spawner must not wait for the start, because the owner of the program can hold the
        // start up, for example by a lease of the file.
        request.untold();
        let programs = &site.programs;
        request.time_limit(self.time_limit());
        match &programs.directory {
            None => {}
            Some(directory) if directory.as_os_str().is_empty() => drop(request.directory(Directory::Root)),
            Some(directory) => drop(request.directory(Directory::Below(directory))),
        }
        if !programs.environment.iter().any(|(name, _)| name == "PATH") {
            request.variable(b"PATH", SEARCH_PATH);
        }
        for (name, value) in &programs.environment {
            request.variable(name.as_bytes(), value.as_bytes());
        }
        request.variable(b"UNIQUE_ID", &self.asking.name.digits());
        let invocation = Invocation {
            request: self.request,
            script: ScriptPaths {
                name: &program.script,
                filename: &[&*site.root, &*program.script].concat(),
                path_info: &program.path_info,
                document_root: &site.root,
            },
            uri: self.asking.uri,
            link,
            content_length: content.bytes(),
            user: self.asking.user,
            software: "vermeil",
        };
        invocation.variables(|name, value| {
            request.variable(name, value);
        });
        let (stdio, output) = pipes::open(content, &cgi.null).map_err(Failure::Pipes)?;
        let process = Process::ask(request, stdio, turn).map_err(Failure::Start)?;
        Ok((process, output))
    }

    fn is_nph(&self) -> bool {
        self.cgi.options.nph == Nph::Allowed && nph::is_one(&self.program.script)
    }

    async fn exchange(
        &self,
        connection: &mut impl GatewayClient,
        process: &Process,
        output: &mut ProgramPipes,
        errors: &mut ErrorLines,
    ) -> Result<Relayed, Broken> {
        let options = self.asking.options;
        // A program that has answered is not late with its answer.
        let patience = END_PATIENCE.min(options.timeouts.answer / 2);
        let mut output = ProgramOutput { output, process, patience, end: OutputEnd::Open };
        if self.is_nph() {
            return nph::relay(connection, &mut output, errors, options.timeouts.answer).await;
        }
        let exchange = ExchangeParameters {
            head: self.head,
            coding: connection.with_core(|core| AllowedCoding::of(core.hosts, self.request, self.head)),
            // The program has the content already.
            content: &RequestBody::None,
            head_limits: options.head,
            timeouts: options.timeouts,
        };
        relay(connection, &exchange, &mut AllWritten, &mut output, errors).await
    }
}

/// Output of a program. The output of a killed program is incomplete, so a truncated answer must
/// not pass for a whole answer. A program that closes its output and runs on has answered.
struct ProgramOutput<'a> {
    output: &'a mut ProgramPipes,
    process: &'a Process,
    /// How long the end of the output waits for the end of the program.
    patience: Duration,
    end: OutputEnd,
}

/// The wait for the program's fate at the end of the output.
enum OutputEnd {
    /// The output has not ended.
    Open,
    /// The program ends at the same time, as a rule.
    Soon(Sleep),
    /// The spawner was asked whether the program runs.
    Asked(Sleep),
}

impl ProgramReader for ProgramOutput<'_> {
    async fn read(
        &mut self,
        output: &mut ResponseBuffer,
        errors: &mut ErrorLines,
    ) -> Result<ProgramRead, Trouble> {
        let armed = |time| {
            let mut limit = Sleep::unset();
            limit.set(time);
            limit
        };
        loop {
            match &mut self.end {
                OutputEnd::Open => {
                    if self.output.read(output.end(), errors).await? > 0 {
                        return Ok(ProgramRead::Some);
                    }
                    self.end = OutputEnd::Soon(armed(END_SOON.min(self.patience)));
                }
                OutputEnd::Soon(limit) => match limit.limit(self.process.ended()).await {
                    Ok(exit) => return end_of_output(exit),
                    Err(_) => {
                        self.process.look();
                        self.end = OutputEnd::Asked(armed(self.patience));
                    }
                },
                OutputEnd::Asked(limit) => {
                    return match limit.limit(self.process.seen()).await {
                        Ok(ProgramSight::Ended(exit)) => end_of_output(exit),
                        Ok(ProgramSight::Runs) | Err(_) => Ok(ProgramRead::End),
                    };
                }
            }
        }
    }

    /// A pipe has no record boundaries.
    fn is_amid(&self) -> bool {
        false
    }
}

/// The end of the output of a program that ended so; `None` if the exit status is unknown.
fn end_of_output(exit: Option<ProgramExit>) -> Result<ProgramRead, Trouble> {
    match exit {
        Some(ProgramExit { end: ProgramEnd::Code(_), .. }) => Ok(ProgramRead::End),
        _ => Err(Trouble::Ended),
    }
}

/// Replaces the failure by the program's way of ending, because a truncated output explains little.
/// If the spawner died before the start of the program, the reason comes from the next spawner.
async fn explained(
    mut broken: Broken,
    process: &Process,
    patience: Duration,
    time_limit: Duration,
) -> Broken {
    let is_short = matches!(
        broken.failure,
        Failure::BadHead(BadHead::Truncated) | Failure::Program(Trouble::Ended | Trouble::Connection(_))
    );
    if !is_short {
        return broken;
    }
    let mut limit = Sleep::unset();
    limit.set(patience);
    match limit.limit(process.ended()).await {
        Ok(Some(exit)) => match exit.end {
            ProgramEnd::Late => broken.failure = Failure::Late(time_limit),
            ProgramEnd::Code(0) => {}
            end @ (ProgramEnd::Code(_) | ProgramEnd::Signal(_)) => broken.failure = Failure::Exited(end),
        },
        Ok(None) => broken.failure = Failure::Start(process.failure()),
        // The program continues after the end of its output.
        Err(_) => {}
    }
    broken
}
