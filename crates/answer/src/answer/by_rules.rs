//! Answers that the operator's rules give: rewritten targets, fixed texts and pages of errors. Also
//! the rules of an answer whose path is not the request's own path.
//!
//! Tested through the binary (`crates/e2e/tests/e2e/routes.rs`).

use super::{Answer, FileReply};
use crate::pages::{finish, page};
use vermeil_exchange::{AnswerHead, Sent};
use vermeil_files::{EntryHandle, EntryOutcome, SERVER};
use vermeil_http::{
    Request, Status, path,
    response::{HeadWriter, PageContent as Sends},
};
use vermeil_routing::hosts::{Action, AnswerRulesId, HostId, Met};
use vermeil_state::core_context::CoreContext;

/// The target that takes the place of a request's target.
pub struct RewrittenTarget {
    /// Path and query, encoded.
    pub target: Vec<u8>,
    /// The first route to try.
    pub routes_from: u32,
}

/// An error that a page of the host answers.
pub struct ErrorPageCall {
    /// The status of the error.
    pub status: Status,
    /// Further field lines of the answer.
    pub lines: Vec<u8>,
    /// The host of the page.
    pub host: Met,
    /// The path of the page, decoded.
    pub path: Box<str>,
}

/// Gives the answer the rules of the route for the file or program at `path`, decoded, if that
/// route has any. That file or program answers `request`, although the request's own path differs.
/// If the route for the own path forbids compression, the answer is not compressed.
pub fn use_rules_at(
    local: &CoreContext,
    host: HostId,
    path: &[u8],
    request: &Request<'_>,
    head: &mut AnswerHead,
) {
    head.use_configuration(local.hosts.configuration());
    let (rules, asked) = (local.hosts.hosts().host(host).rules, head.asked(request));
    let Some(route) = rules.route_with_answers(path, asked) else { return };
    let mut decoded = Vec::new();
    let own = path::decode_for_program(request.target.path, &mut decoded);
    let is_forbidden = own.is_ok_and(|own| rules.forbid_compression(own.bytes, asked));
    let of_route = local.hosts.rules_of_answers(host, Some(route));
    head.rules = if is_forbidden { of_route.map(AnswerRulesId::without_compression) } else { of_route };
}

/// Answers with the text of a route, or with the page of its status.
pub(super) fn fixed(local: &mut CoreContext, action: &Action, head: AnswerHead, out: &mut Vec<u8>) -> Answer {
    let Action::Fixed { status, body, content_type } = action else {
        unreachable!("called for fixed answers only")
    };
    if *status == Status::NoContent {
        let _ = HeadWriter::new(out, *status).lines(SERVER);
        finish(local, head, out);
        return Answer::Ready(Sent { status: status.code(), body_bytes: 0 });
    }
    let _ = HeadWriter::new(out, *status)
        .lines(SERVER)
        .field("Content-Type", content_type.as_bytes())
        .content_length(body.len() as u64);
    finish(local, head, out);
    let sent = Sent { status: status.code(), body_bytes: body.len() as u64 };
    match head.content {
        Sends::Omitted => Answer::Ready(Sent { body_bytes: 0, ..sent }),
        Sends::Sent => {
            out.extend_from_slice(body.as_bytes());
            Answer::Ready(sent)
        }
    }
}

/// The page of the host for errors with `status`. Redirects have no page.
pub(super) fn error_page(local: &CoreContext, status: Status, head: AnswerHead) -> Option<(Met, Box<str>)> {
    let rules = head.rules.filter(|_| status >= Status::BadRequest)?;
    local.hosts.error_page(rules, status)
}

/// Answers an error with the file that `handle` names, or with the server's page if `handle` names
/// no file.
pub fn by_error_page(
    local: &mut CoreContext,
    request: &Request<'_>,
    handle: Option<&EntryHandle>,
    call: &ErrorPageCall,
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Answer {
    let ErrorPageCall { status, lines, .. } = call;
    match handle.map(|handle| (handle, handle.outcome())) {
        Some((handle, EntryOutcome::File(file))) => {
            FileReply { local, request, handle, head, out, vary: b"" }.error(file, *status, lines)
        }
        _ => Answer::Ready(page(local, *status, lines, head, out)),
    }
}
