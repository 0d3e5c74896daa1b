//! The answer to a request whose path has been resolved, and the rules for index pages.
//!
//! A folder answers with its index page. A route for the page's own path may refuse the page, or
//! have rules about clients or answers, and all hold for the folder too.
//! Leaves out index pages that are programs (`super::index_program`). Tested through the binary
//! (`crates/e2e/tests/e2e/access.rs`).

use super::{
    Answer, FileReply, by_route, check_other, error, error_page, error_with, reads, redirect, use_rules_at,
    without_file,
};
use crate::pages::RETRY_AFTER;
use vermeil_exchange::AnswerHead;
use vermeil_files::{EntryHandle, EntryOutcome, FileEntry};
use vermeil_http::{Request, Status, path};
use vermeil_routing::hosts::Host;
use vermeil_state::core_context::CoreContext;

/// Answers `request`, whose path has been resolved to `handle`. The handle is no listing.
pub fn resolved(
    local: &mut CoreContext,
    request: &Request<'_>,
    handle: &EntryHandle,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    resolved_for(local, request, None, handle, head, out)
}

/// As [`resolved`], for the path `target`, decoded, in place of the request's own path.
pub fn resolved_for(
    local: &mut CoreContext,
    request: &Request<'_>,
    target: Option<&[u8]>,
    handle: &EntryHandle,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    match handle.outcome() {
        // The order is: the resource, its methods, the conditions, the content.
        EntryOutcome::File(_) | EntryOutcome::Program { .. } | EntryOutcome::Forbidden
            if !reads(request.method) =>
        {
            without_file(local, request.method, *head, out)
        }
        EntryOutcome::File(file) => match refused_page(local, request, target, file, head, out) {
            Some(answer) => answer,
            None => FileReply { local, request, handle, head: *head, out, vary: b"" }.file(file),
        },
        EntryOutcome::Redirect { location } => redirect(local, location, request, *head, out),
        EntryOutcome::Listing { .. } => unreachable!("lists are made by jobs"),
        EntryOutcome::Program { .. } | EntryOutcome::Forbidden => {
            error(local, Status::Forbidden, b"", *head, out)
        }
        EntryOutcome::NotFound(_) => {
            let of_host = error_page(local, Status::NotFound, *head);
            match handle.not_found_page().filter(|_| of_host.is_none() && reads(request.method)) {
                Some(page) => {
                    FileReply { local, request, handle, head: *head, out, vary: b"" }.not_found(page)
                }
                None => error_with(local, of_host, (Status::NotFound, b""), *head, out),
            }
        }
        EntryOutcome::Unavailable(status) => error(local, *status, RETRY_AFTER, *head, out),
    }
}

/// The answer in place of `file`, the index page of the folder `target`, if a route for the page's
/// own path does not let the request in. Otherwise the answer gets the rules of that route.
#[inline]
fn refused_page(
    local: &mut CoreContext,
    request: &Request<'_>,
    target: Option<&[u8]>,
    file: &FileEntry,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Option<Answer> {
    let name = file.index_name().filter(|_| local.hosts.hosts().routes_concern_index_pages())?;
    head.use_configuration(local.hosts.configuration());
    let host = local.hosts.hosts().find_at(request.host, head.visitor.at)?;
    let mut decoded = Vec::new();
    let folder = match target {
        Some(target) => target,
        None => path::decode_for_program(request.target.path, &mut decoded).ok()?.bytes,
    };
    let page = [folder, name.as_bytes()].concat();
    let rules = local.hosts.hosts().host(host).rules;
    let asked = head.asked(request);
    if rules.refusal_of_other(&page, asked).is_some() {
        // Such requests are rare enough for a copy of the reference.
        let met = local.hosts.met(host);
        let Host { rules, name, .. } = met.host();
        let route = rules.refusal_of_other(&page, asked)?;
        return Some(by_route(local, route, name, request, &page, *head, out));
    }
    if rules.guards_index_page(&page, asked)
        && let Some(answer) = check_other(local, host, &page, request, head, out)
    {
        return Some(answer);
    }
    use_rules_at(local, host, &page, request, head);
    None
}
