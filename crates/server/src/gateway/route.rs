//! Decides which requests are for programs, and finds the program's file.
//!
//! [`may_concern`] looks only at the path's bytes, because it runs for every request on hosts with
//! programs. [`find`] then asks the file cache as for a file to be sent. The program must be a
//! regular file below the root, reached by allowed links, and no dotfile. The server never sends
//! the text of a program (`files/programs.rs`).

use super::Call;
use crate::{
    answer::{self, Answer},
    connection::{Connection, Head, Lost},
    files::{Handle, Job, Lookup, Outcome, Site, SiteError},
    hosts::{Found, Met, RunBy},
    local::{self, Local},
    settings::php::{EXTENSION, INDEX},
    slow::{self, What},
};
use bytes::Bytes;
use std::{ops::ControlFlow, sync::Arc};
use vermeil::{More, blocking, now_ms};
use vermeil_http::{
    Method, Request, Status,
    gateway::split,
    path::{self, ProgramPath},
};

/// Why a request may be for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A segment of the path is named like a program.
    Name,
    /// A route assigns the path to CGI.
    Cgi,
    /// The request's method on a folder needs a program.
    Folder,
    /// The index page of its folder is a PHP program.
    Index,
}

/// A program that was found. The paths are relative to the root, and decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The path of the program's file. Starts with a slash.
    pub(crate) script: Vec<u8>,
    /// The rest of the request's path. Empty, or starts with a slash.
    pub(crate) path_info: Vec<u8>,
}

/// The target of a request.
pub(crate) enum Route {
    Program(Program),
    /// The answer of a file, or an error.
    File(Answer),
}

/// Whether `request` may be for a program, by its path and method.
pub(crate) fn may_concern(request: &Request<'_>) -> Option<Reason> {
    let path = request.target.path;
    let is_plain = matches!(request.method, Method::Get | Method::Head | Method::Options);
    match request.method {
        Method::Trace | Method::Connect => None,
        _ if names_program(path) || (path.contains(&b'%') && names_program_encoded(path)) => {
            Some(Reason::Name)
        }
        _ if !is_plain && path.ends_with(b"/") => Some(Reason::Folder),
        _ => None,
    }
}

fn names_program(path: &[u8]) -> bool {
    split::candidates(path, EXTENSION).next().is_some()
}

/// A client may encode any part of the name.
#[cold]
fn names_program_encoded(path: &[u8]) -> bool {
    path::decode_for_program(path, &mut Vec::new()).is_ok_and(|decoded| names_program(decoded.bytes))
}

/// Finds the target of `request`.
pub(crate) async fn find(
    connection: &mut Connection,
    request: &Request<'_>,
    head: Head,
    call: &Call,
) -> Result<Route, Lost> {
    let mut decoded = Vec::new();
    let path = match path::decode_for_program(request.target.path, &mut decoded) {
        Ok(path) => path,
        Err(error) => return Ok(refused(connection, error.status(), head)),
    };
    let site = match site(connection, &call.host).await? {
        Ok(site) => site,
        Err(failure) => {
            let out = &mut connection.output;
            return Ok(Route::File(local::with(|local| match failure {
                Some(failure) => answer::not_served(local, &failure, head, out),
                None => answer::error(local, Status::NotFound, b"", head, out),
            })));
        }
    };
    let mut search = Search { connection, site, request, head };
    match call.reason {
        Reason::Name => search.by_name(path).await,
        Reason::Folder if path.has_encoded_slash() => search.of_path().await,
        Reason::Folder => search.by_folder(path.bytes, call).await,
        Reason::Index => {
            let script = call.script.as_deref().expect("an index page has a path");
            let handle = search.look_up(script).await?;
            Ok(match is_program(&handle) {
                true => Route::Program(Program { script: script.to_vec(), path_info: Vec::new() }),
                false => search.as_file(handle),
            })
        }
        Reason::Cgi => unreachable!("CGI finds its programs itself"),
    }
}

fn refused(connection: &mut Connection, status: Status, head: Head) -> Route {
    let lines: &[u8] = if status == Status::ServiceUnavailable { slow::RETRY_AFTER } else { b"" };
    Route::File(local::with(|local| answer::error(local, status, lines, head, &mut connection.output)))
}

/// The open folder of a host. Otherwise the reason why the folder cannot be served, or `None` if
/// the host has no folder.
async fn site(connection: &mut Connection, host: &Met) -> Result<Result<Arc<Site>, Option<SiteError>>, Lost> {
    let found = local::with(|local| match local.hosts.find_met(host) {
        Found::Open => ControlFlow::Break(Ok(local.hosts.site().clone())),
        Found::NoFolder => ControlFlow::Break(Err(None)),
        Found::Failed(failure) => ControlFlow::Break(Err(Some(failure))),
        Found::Wait(job) => ControlFlow::Continue(job),
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
struct Search<'a> {
    connection: &'a mut Connection,
    site: Arc<Site>,
    request: &'a Request<'a>,
    head: Head,
}

impl Search<'_> {
    async fn by_name(&mut self, path: ProgramPath<'_>) -> Result<Route, Lost> {
        for cut in
            split::candidates(path.bytes, EXTENSION).take_while(|cut| cut.script.len() <= path.names_max())
        {
            let handle = self.look_up(cut.script).await?;
            if is_program(&handle) {
                let (script, path_info) = (cut.script.to_vec(), cut.path_info.to_vec());
                return Ok(Route::Program(Program { script, path_info }));
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
    async fn by_folder(&mut self, decoded: &[u8], call: &Call) -> Result<Route, Lost> {
        let handle = look_up(self.connection, &self.site, self.request.target.path).await?;
        let rules = call.host.host().rules;
        let script = match handle.as_ref().map(|handle| handle.outcome()) {
            Ok(Outcome::Program { script }) => script.to_vec(),
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
        Ok(match rules.run_by(&script, head.visitor.peer) {
            RunBy::Php => Route::Program(Program { script, path_info: Vec::new() }),
            RunBy::Cgi => Route::File(Answer::Slow(What::Program(call.for_cgi(script.into())))),
            RunBy::Route(route) => Route::File(local::with(|local| {
                let name = call.host.host().name;
                answer::by_route(local, route, name, request, &script, *head, &mut connection.output)
            })),
            RunBy::Nothing => refused(connection, Status::Forbidden, *head),
        })
    }

    async fn look_up(&mut self, decoded: &[u8]) -> Result<Result<Handle, Status>, Lost> {
        look_up(self.connection, &self.site, &encoded(decoded)).await
    }

    /// The file cache's result for the request's own path.
    async fn of_path(&mut self) -> Result<Route, Lost> {
        let handle = look_up(self.connection, &self.site, self.request.target.path).await?;
        Ok(self.as_file(handle))
    }

    fn as_file(&mut self, handle: Result<Handle, Status>) -> Route {
        let Self { connection, site, request, head } = self;
        let handle = match handle {
            Ok(handle) => handle,
            Err(status) => return refused(connection, status, *head),
        };
        let out = &mut connection.output;
        Route::File(local::with(|local| answer::found_by_files(local, site, request, &handle, *head, out)))
    }
}

fn is_program(handle: &Result<Handle, Status>) -> bool {
    matches!(handle, Ok(handle) if matches!(handle.outcome(), Outcome::Program { .. }))
}

/// Encodes a path as in a request.
pub(super) fn encoded(path: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(path.len());
    path::percent_encode_path(path, &mut encoded);
    encoded
}

/// Looks up an encoded path of `site`. Returns a status if the path names nothing, or if the
/// blocking threads are overloaded.
pub(super) async fn look_up(
    connection: &mut Connection,
    site: &Arc<Site>,
    raw_path: &[u8],
) -> Result<Result<Handle, Status>, Lost> {
    let looked = local::with(|local| look_up_now(local, site, raw_path));
    let job = match looked {
        Ok(handle) => return Ok(handle),
        Err(job) => job,
    };
    // Earlier answers of a pipeline need not wait.
    connection.flush(Bytes::new(), More::No).await?;
    Ok(match blocking(move || job.run()).await {
        Ok(loaded) => Ok(local::with(|local| local.cache.insert(loaded))),
        Err(_) => Err(Status::ServiceUnavailable),
    })
}

fn look_up_now(local: &mut Local, site: &Arc<Site>, raw_path: &[u8]) -> Result<Result<Handle, Status>, Job> {
    match local.cache.lookup(site, raw_path, now_ms()) {
        Lookup::Hit(handle) => Ok(Ok(handle.clone())),
        Lookup::Never(status) => Ok(Err(status)),
        Lookup::Miss(mut job) => match job.try_now() {
            Ok(loaded) => Ok(Ok(local.cache.insert(loaded))),
            Err(_) => Err(job),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vermeil_http::{Limits, Parsed};

    #[test]
    fn which_requests_may_be_for_programs() {
        for (line, expected) in [
            ("GET /x.php", Some(Reason::Name)),
            ("GET /x.php?y", Some(Reason::Name)),
            ("GET /x.PHP/y", Some(Reason::Name)),
            ("GET /x%2Ephp", Some(Reason::Name)),
            ("GET /x.%70hp", Some(Reason::Name)),
            ("GET /x.%70hp/a%2Fb", Some(Reason::Name)),
            ("GET /x.php/a%2Fb", Some(Reason::Name)),
            ("POST /x.php", Some(Reason::Name)),
            ("OPTIONS /x.php", Some(Reason::Name)),
            ("TRACE /x.php", None),
            ("GET /x%20y.css", None),
            ("GET /x%2.php", Some(Reason::Name)),
            ("GET /x.css", None),
            ("GET /", None),
            ("GET /a/", None),
            ("OPTIONS /", None),
            ("POST /a/", Some(Reason::Folder)),
            ("PROPFIND /a/", Some(Reason::Folder)),
            ("POST /a", None),
            ("OPTIONS *", None),
        ] {
            let head = format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n");
            let Parsed::Complete { request, .. } = vermeil_http::parse(head.as_bytes(), &Limits::default())
            else {
                panic!("{line} is a request")
            };
            assert_eq!(may_concern(&request), expected, "{line}");
        }
    }
}
