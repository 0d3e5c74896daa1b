//! Finds the program's file for a request that may be for a program.
//!
//! [`find`] asks the file cache as for a file to be sent. The program must be a regular file below
//! the root, reached by allowed links, and no dotfile. The server never sends the text of a program
//! (`crates/files/src/programs.rs`). Leaves out which requests may be for programs
//! ([`GatewayRequest`]).

use super::{check_script, refuse_program};
use bytes::Bytes;
use std::{ops::ControlFlow, sync::Arc};
use vermeil::{More, blocking, now_ms};
use vermeil_answer::{
    answer::{self, Answer, Deferred},
    pages::RETRY_AFTER,
};
use vermeil_connection::connection::Connection;
use vermeil_exchange::{AnswerHead, Lost};
use vermeil_files::{EntryHandle, EntryOutcome, Lookup, PathJob, Site, SiteError};
use vermeil_gateway::{
    FoundProgram, encoded,
    programs::{GatewayRequest, ProgramReason},
};
use vermeil_http::{
    Request, Status,
    gateway::split,
    path::{self, PathError, ProgramPath},
};
use vermeil_routing::hosts::{Met, OpenedHost, RunBy};
use vermeil_settings::php::{EXTENSION, INDEX};
use vermeil_state::core_context::{self, CoreContext};

/// The target of a request.
pub(crate) enum RequestRoute {
    Program(FoundProgram),
    /// The answer of a file, or an error.
    File(Answer),
}

/// Finds the target of `request`.
pub(crate) async fn find(
    connection: &mut Connection,
    request: &Request<'_>,
    head: &mut AnswerHead,
    call: &GatewayRequest,
) -> Result<RequestRoute, Lost> {
    let mut decoded = Vec::new();
    let path = match path::decode_for_program(request.target.path, &mut decoded) {
        Ok(path) => path,
        Err(error) => return Ok(refused(connection, error.status(), *head)),
    };
    let site = match site(connection, &call.host).await? {
        Ok(site) => site,
        Err(failure) => {
            let out = &mut connection.output;
            return Ok(RequestRoute::File(core_context::with(|local| match failure {
                Some(failure) => answer::not_served(local, &failure, *head, out),
                None => answer::error(local, Status::NotFound, b"", *head, out),
            })));
        }
    };
    let mut search = RouteSearch { connection, site, request, head, call };
    match call.reason {
        ProgramReason::Name => search.by_name(path).await,
        ProgramReason::Folder if path.has_encoded_slash() => search.of_path().await,
        ProgramReason::Folder => search.by_folder(path.bytes, call).await,
        ProgramReason::Index => {
            let script = call.script.as_deref().expect("an index page has a path");
            let handle = search.look_up(script).await?;
            Ok(match is_program(&handle) {
                true => {
                    RequestRoute::Program(FoundProgram { script: script.to_vec(), path_info: Vec::new() })
                }
                false => search.as_file(handle),
            })
        }
        ProgramReason::Cgi => unreachable!("CGI finds its programs itself"),
    }
}

fn refused(connection: &mut Connection, status: Status, head: AnswerHead) -> RequestRoute {
    let lines: &[u8] = if status == Status::ServiceUnavailable { RETRY_AFTER } else { b"" };
    RequestRoute::File(core_context::with(|local| {
        answer::error(local, status, lines, head, &mut connection.output)
    }))
}

/// The open folder of a host. Otherwise the reason why the folder cannot be served, or `None` if
/// the host has no folder.
pub(crate) async fn site(
    connection: &mut Connection,
    host: &Met,
) -> Result<Result<Arc<Site>, Option<SiteError>>, Lost> {
    let found = core_context::with(|local| match local.hosts.find_met(host) {
        OpenedHost::Open => ControlFlow::Break(Ok(local.hosts.site().clone())),
        OpenedHost::NoFolder => ControlFlow::Break(Err(None)),
        OpenedHost::Failed(failure) => ControlFlow::Break(Err(Some(failure))),
        OpenedHost::Wait(job) => ControlFlow::Continue(job),
    });
    let job = match found {
        ControlFlow::Break(site) => return Ok(site),
        ControlFlow::Continue(job) => job,
    };
    connection.flush(Bytes::new(), More::No).await?;
    Ok(match blocking(move || job.run()).await {
        Ok(Ok(seat)) => Ok(seat.site().clone()),
        Ok(Err(failure)) => Err(Some(failure)),
        Err(_) => Err(None),
    })
}

/// The search for the program of one request.
struct RouteSearch<'a> {
    connection: &'a mut Connection,
    site: Arc<Site>,
    request: &'a Request<'a>,
    head: &'a mut AnswerHead,
    call: &'a GatewayRequest,
}

impl RouteSearch<'_> {
    async fn by_name(&mut self, path: ProgramPath<'_>) -> Result<RequestRoute, Lost> {
        for cut in
            split::candidates(path.bytes, EXTENSION).take_while(|cut| cut.script.len() <= path.names_max())
        {
            let handle = self.look_up(cut.script).await?;
            if is_missing(&handle) && !cut.path_info.is_empty() {
                // So nothing is below this name, and a path of hundreds of names costs one look-up.
                break;
            }
            if is_program(&handle) {
                if !cut.path_info.is_empty()
                    && let Some(refusal) = self.refuse_program(cut.script)
                {
                    return Ok(RequestRoute::File(refusal));
                }
                let (script, path_info) = (cut.script.to_vec(), cut.path_info.to_vec());
                return Ok(RequestRoute::Program(FoundProgram { script, path_info }));
            }
            if cut.path_info.is_empty() {
                // Answers with this result. A second lookup could find a file, and would then send
                // a program's text.
                return Ok(self.as_file(handle));
            }
        }
        self.of_path().await
    }

    /// The program of a folder is its index page, or PHP's own index page beside another one.
    async fn by_folder(&mut self, decoded: &[u8], call: &GatewayRequest) -> Result<RequestRoute, Lost> {
        let handle = look_up(self.connection, &self.site, self.request.target.path).await?;
        let rules = call.host.host().rules;
        let script = match handle.as_ref().map(|handle| handle.outcome()) {
            Ok(EntryOutcome::Program { script }) => script.to_vec(),
            _ if rules.php.is_on() => {
                let script = [decoded, INDEX.as_bytes()].concat();
                if !is_program(&self.look_up(&script).await?) {
                    return Ok(self.as_file(handle));
                }
                script
            }
            _ => return Ok(self.as_file(handle)),
        };
        let Self { connection, request, head, .. } = self;
        let refused_by_guard = core_context::with(|local| {
            let out = &mut connection.output;
            check_script(local, request, head, &script, out)
        });
        if let Some(answer) = refused_by_guard {
            return Ok(RequestRoute::File(answer));
        }
        Ok(match rules.run_by(&script, head.asked(request)) {
            RunBy::Php => RequestRoute::Program(FoundProgram { script, path_info: Vec::new() }),
            RunBy::Cgi => RequestRoute::File(Answer::Slow(Deferred::Program(call.for_cgi(script.into())))),
            RunBy::Route(route) => RequestRoute::File(core_context::with(|local| {
                let name = call.host.host().name;
                answer::by_route(local, route, name, request, &script, **head, &mut connection.output)
            })),
            RunBy::Nothing => refused(connection, Status::Forbidden, **head),
        })
    }

    fn refuse_program(&mut self, script: &[u8]) -> Option<Answer> {
        refuse_program(self.connection, self.request, self.head, self.call, script)
    }

    async fn look_up(&mut self, decoded: &[u8]) -> Result<Result<EntryHandle, Status>, Lost> {
        look_up(self.connection, &self.site, &encoded(decoded)).await
    }

    /// The file cache's result for the request's own path.
    async fn of_path(&mut self) -> Result<RequestRoute, Lost> {
        let handle = look_up(self.connection, &self.site, self.request.target.path).await?;
        Ok(self.as_file(handle))
    }

    fn as_file(&mut self, handle: Result<EntryHandle, Status>) -> RequestRoute {
        let Self { connection, site, request, head, call } = self;
        let names_nothing = match &handle {
            Ok(handle) => matches!(handle.outcome(), EntryOutcome::NotFound(_)),
            Err(status) => *status == PathError::EncodedSlash.status(),
        };
        if names_nothing && call.host.host().rules.has_candidates(request, head.asked(request)) {
            return RequestRoute::File(Answer::Slow(Deferred::Try(call.host.clone())));
        }
        let handle = match handle {
            Ok(handle) => handle,
            Err(status) => return refused(connection, status, **head),
        };
        let out = &mut connection.output;
        RequestRoute::File(core_context::with(|local| {
            // A dot segment may remove the name of a program, as in `/docs/x.php/..`.
            if let EntryOutcome::Program { script } = handle.outcome()
                && path::names_folder(request.target.path)
                && let Some(host) = local.hosts.hosts().find_at(request.host, head.visitor.at)
            {
                return answer::index_program(local, host, request, script, head, out);
            }
            answer::found_by_files(local, site, request, &handle, head, out)
        }))
    }
}

fn is_missing(handle: &Result<EntryHandle, Status>) -> bool {
    matches!(handle, Ok(handle) if matches!(handle.outcome(), EntryOutcome::NotFound(_)))
}

fn is_program(handle: &Result<EntryHandle, Status>) -> bool {
    matches!(handle, Ok(handle) if matches!(handle.outcome(), EntryOutcome::Program { .. }))
}

/// Looks up an encoded path of `site`. Returns a status if the path names nothing, or if the
/// blocking threads are overloaded.
pub(crate) async fn look_up(
    connection: &mut Connection,
    site: &Arc<Site>,
    raw_path: &[u8],
) -> Result<Result<EntryHandle, Status>, Lost> {
    let looked = core_context::with(|local| look_up_now(local, site, raw_path));
    let job = match looked {
        Ok(handle) => return Ok(handle),
        Err(job) => job,
    };
    // Earlier answers of a pipeline need not wait.
    connection.flush(Bytes::new(), More::No).await?;
    Ok(match blocking(move || job.run()).await {
        Ok(loaded) => Ok(core_context::with(|local| local.cache.insert(loaded))),
        Err(_) => Err(Status::ServiceUnavailable),
    })
}

fn look_up_now(
    local: &mut CoreContext,
    site: &Arc<Site>,
    raw_path: &[u8],
) -> Result<Result<EntryHandle, Status>, PathJob> {
    match local.cache.lookup(site, raw_path, now_ms()) {
        Lookup::Hit(handle) => Ok(Ok(handle.clone())),
        Lookup::Never(status) => Ok(Err(status)),
        Lookup::Miss(mut job) => match job.try_now() {
            Ok(loaded) => Ok(Ok(local.cache.insert(loaded))),
            Err(_) => Err(job),
        },
    }
}
