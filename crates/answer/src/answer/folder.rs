//! From a request to the folder of its host, which is open or stays closed.
//!
//! A folder stays closed while its host is rarely asked for and every place for an open folder is
//! taken. Files and missing paths are then answered by the path of the folder. For the rest the
//! folder is opened. Tested through the binary (`crates/e2e/tests/e2e/hosts.rs`).

use super::{Answer, Deferred, error, found, not_served, resolved};
use vermeil::now_ms;
use vermeil_exchange::AnswerHead;
use vermeil_files::{Entry, EntryHandle, EntryOutcome, Lookup, UnopenedFolder};
use vermeil_http::{Request, Status, path::PathError};
use vermeil_routing::hosts::{HostId, OpenedHost};
use vermeil_state::core_context::CoreContext;

/// Answers `request` from the folder of `host`.
pub(super) fn files(
    local: &mut CoreContext,
    host: HostId,
    request: &Request<'_>,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    let now_ms = now_ms();
    if let Some(folder) = local.hosts.unopened(host, now_ms)
        && let Some(answer) = unopened(local, host, folder, request, head, now_ms, out)
    {
        return answer;
    }
    by_folder(local, host, request, head, out)
}

/// Answers `request` from the folder of `host`, which is opened if necessary.
fn by_folder(
    local: &mut CoreContext,
    host: HostId,
    request: &Request<'_>,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    match local.hosts.find(host) {
        OpenedHost::Open => {}
        OpenedHost::NoFolder => return error(local, Status::NotFound, b"", *head, out),
        OpenedHost::Wait(job) => return Answer::Slow(Deferred::Open(job)),
        OpenedHost::Failed(failure) => return not_served(local, &failure, *head, out),
    }
    let CoreContext { hosts, cache, .. } = local;
    let handle = match cache.lookup(hosts.site(), request.target.path, now_ms()) {
        // A clone writes a counter of this core only.
        Lookup::Hit(handle) => handle.clone(),
        Lookup::Never(status) => return unnamed(local, host, request, status, *head, out),
        Lookup::Miss(mut job) => match job.try_now() {
            Ok(loaded) => cache.insert(loaded),
            Err(_) => return Answer::Slow(Deferred::Resolve(job)),
        },
    };
    match handle.outcome() {
        EntryOutcome::Listing { .. } | EntryOutcome::Program { .. } => {
            let site = hosts.site().clone();
            return found(local, host, &site, request, &handle, head, out);
        }
        EntryOutcome::NotFound(_) => {
            if let Some(answer) = tried(local, host, request, handle.outcome(), *head) {
                return answer;
            }
        }
        _ => {}
    }
    resolved(local, request, &handle, head, out)
}

/// Answers `request` from a `folder` that stays closed; `None` if the folder has to be opened.
fn unopened(
    local: &mut CoreContext,
    host: HostId,
    folder: UnopenedFolder,
    request: &Request<'_>,
    head: &mut AnswerHead,
    now_ms: u64,
    out: &mut Vec<u8>,
) -> Option<Answer> {
    let job = match local.cache.look_past(folder, request.target.path, now_ms) {
        Ok(job) => job,
        Err(status) => return Some(unnamed(local, host, request, status, *head, out)),
    };
    match job.try_now() {
        Ok(entry) => Some(by_entry(local, host, request, entry?, head, out)),
        Err(_) => Some(Answer::Slow(Deferred::ResolveUnopened(job))),
    }
}

/// Answers `request`, whose path has been resolved to `entry` in a folder that stays closed. The
/// folder is opened if the entry is missing, because then only an open folder can answer.
pub fn by_unopened_folder(
    local: &mut CoreContext,
    request: &Request<'_>,
    entry: Option<Entry>,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    // A reload may have taken the host away meanwhile.
    let Some(host) = local.hosts.hosts().find_at(request.host, head.visitor.at) else {
        return error(local, Status::MisdirectedRequest, b"", *head, out);
    };
    head.use_configuration(local.hosts.configuration());
    match entry {
        Some(entry) => by_entry(local, host, request, entry, head, out),
        None => by_folder(local, host, request, head, out),
    }
}

fn by_entry(
    local: &mut CoreContext,
    host: HostId,
    request: &Request<'_>,
    entry: Entry,
    head: &mut AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    let handle = EntryHandle::from(entry);
    match tried(local, host, request, handle.outcome(), *head) {
        Some(answer) => answer,
        None => resolved(local, request, &handle, head, out),
    }
}

/// The look-up of other paths, if `request` names nothing and `host` has such paths.
pub(super) fn tried(
    local: &CoreContext,
    host: HostId,
    request: &Request<'_>,
    outcome: &EntryOutcome,
    head: AnswerHead,
) -> Option<Answer> {
    let is_missing = matches!(outcome, EntryOutcome::NotFound(_));
    if is_missing { other_paths(local, host, request, head) } else { None }
}

/// The answer for a path that no file can have. Behind an encoded slash, other paths may answer, as
/// for a path without a file.
fn unnamed(
    local: &mut CoreContext,
    host: HostId,
    request: &Request<'_>,
    status: Status,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    let has_encoded_slash = status == PathError::EncodedSlash.status();
    let other = if has_encoded_slash { other_paths(local, host, request, head) } else { None };
    other.unwrap_or_else(|| error(local, status, b"", head, out))
}

/// The look-up of other paths, if `host` has such paths.
fn other_paths(local: &CoreContext, host: HostId, request: &Request<'_>, head: AnswerHead) -> Option<Answer> {
    let rules = local.hosts.hosts().host(host).rules;
    let has_candidates = rules.has_candidates(request, head.asked(request));
    has_candidates.then(|| Answer::Slow(Deferred::Try(local.hosts.met(host))))
}
