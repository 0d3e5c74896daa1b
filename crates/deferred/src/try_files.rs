//! The key `try`: which file or program answers when a request's own path names nothing.
//!
//! Most applications have a front controller, a program that answers all paths without a file of
//! their own. The candidates are looked up in the file cache one after the other, and the first
//! that names a file, a program or (with a slash at its end) a folder answers. A route covers a
//! candidate as it covers a request: a candidate of a route that is not for this client, or that
//! has another action, is passed over. For a path with an encoded slash, so is a candidate made of
//! the path, because the file would get a second name.
//! Tested through the binary (`crates/e2e/tests/e2e/try_files.rs`).

use crate::calls;
use std::sync::Arc;
use vermeil_answer::{
    answer::{self, Answer},
    pages::busy,
};
use vermeil_connection::connection::Connection;
use vermeil_exchange::{AnswerHead, Lost};
use vermeil_files::{EntryHandle, EntryOutcome, Site};
use vermeil_gateway::encoded;
use vermeil_http::{Request, Status, path};
use vermeil_routing::hosts::Met;
use vermeil_state::core_context::{self, CoreContext};

/// Answers `request` by the first candidate that names something, or with 404.
pub(crate) async fn answer(
    connection: &mut Connection,
    request: &Request<'_>,
    head: &mut AnswerHead,
    host: Met,
) -> Result<Answer, Lost> {
    let site = match calls::site(connection, &host).await? {
        Ok(site) => site,
        Err(failure) => {
            let out = &mut connection.output;
            return Ok(core_context::with(|local| match failure {
                Some(failure) => answer::not_served(local, &failure, *head, out),
                None => answer::error(local, Status::NotFound, b"", *head, out),
            }));
        }
    };
    let mut decoded = Vec::new();
    let path = match path::decode_for_program(request.target.path, &mut decoded) {
        Ok(path) => path,
        Err(wrong) => return Ok(refused(connection, wrong.status(), *head)),
    };
    let own = path.bytes;
    let rules = host.host().rules;
    let asked = head.asked(request);
    for candidate in rules.candidates(own, asked) {
        let target = candidate.of(own);
        let is_second_name = path.has_encoded_slash() && candidate.has_own();
        if is_second_name || !rules.leaves_to_files(&target, asked) {
            continue;
        }
        let handle = match calls::look_up(connection, &site, &encoded(&target)).await? {
            Ok(handle) => handle,
            Err(Status::ServiceUnavailable) => {
                return Ok(refused(connection, Status::ServiceUnavailable, *head));
            }
            Err(_) => continue,
        };
        let tried = Tried { request, own, target: &target, handle: &handle, site: &site };
        if let Some(answer) = tried.answer(connection, head) {
            return Ok(answer);
        }
    }
    // The host's page for 404, if there is one.
    match calls::look_up(connection, &site, request.target.path).await? {
        Ok(handle) => {
            let out = &mut connection.output;
            Ok(core_context::with(|local| answer::found_by_files(local, &site, request, &handle, head, out)))
        }
        Err(status) => Ok(refused(connection, status, *head)),
    }
}

fn refused(connection: &mut Connection, status: Status, head: AnswerHead) -> Answer {
    core_context::with(|local| match status {
        Status::ServiceUnavailable => Answer::Ready(busy(local, head, &mut connection.output)),
        status => answer::error(local, status, b"", head, &mut connection.output),
    })
}

/// A candidate that was looked up.
struct Tried<'a> {
    request: &'a Request<'a>,
    /// The request's path, decoded.
    own: &'a [u8],
    /// The candidate's path, decoded.
    target: &'a [u8],
    handle: &'a EntryHandle,
    site: &'a Arc<Site>,
}

impl Tried<'_> {
    /// The answer, unless the candidate names nothing.
    fn answer(&self, connection: &mut Connection, head: &mut AnswerHead) -> Option<Answer> {
        let Self { request, handle, site, .. } = *self;
        let out = &mut connection.output;
        let is_folder = self.target.ends_with(b"/");
        core_context::with(|local| match handle.outcome() {
            EntryOutcome::Unavailable(_) => Some(answer::resolved(local, request, handle, head, out)),
            EntryOutcome::File(_) | EntryOutcome::Program { .. } | EntryOutcome::Listing { .. }
                if self.lacks_slash() =>
            {
                let location = encoded(self.target);
                Some(answer::redirect(local, &location, request, *head, out))
            }
            EntryOutcome::File(_) => Some(match self.refused_client(local, head, out) {
                Some(answer) => answer,
                None => answer::resolved_for(local, request, Some(self.target), handle, head, out),
            }),
            EntryOutcome::Program { script } => {
                let host = local.hosts.hosts().find_at(request.host, head.visitor.at);
                Some(match host {
                    Some(host) => answer::index_program(local, host, request, script, head, out),
                    None => answer::error(local, Status::NotFound, b"", *head, out),
                })
            }
            EntryOutcome::Listing { .. } if is_folder => Some(match self.refused_client(local, head, out) {
                Some(answer) => answer,
                None => answer::found_by_files(local, site, request, handle, head, out),
            }),
            EntryOutcome::Forbidden if is_folder => Some(answer::resolved(local, request, handle, head, out)),
            _ => None,
        })
    }

    /// The answer, if the rules about clients for the candidate do not let the request in.
    /// Otherwise the answer gets the rules of the candidate's route.
    fn refused_client(
        &self,
        local: &mut CoreContext,
        head: &mut AnswerHead,
        out: &mut Vec<u8>,
    ) -> Option<Answer> {
        let Self { request, target, .. } = *self;
        let host = local.hosts.hosts().find_at(request.host, head.visitor.at)?;
        let refused = answer::check_other(local, host, target, request, head, out);
        if refused.is_none() {
            answer::use_rules_at(local, host, target, request, head);
        }
        refused
    }

    /// Whether the candidate is the folder of a request without a slash at its end. The links of a
    /// folder's page are relative to the folder, so the client must ask for the folder.
    fn lacks_slash(&self) -> bool {
        self.target.strip_suffix(b"/") == Some(self.own)
    }
}
