//! The pages of errors, and the end that all heads have in common.

use crate::{
    core_context::CoreContext,
    exchange::{AnswerHead, Sent},
    files::SERVER,
};
use vermeil::now_ms;
use vermeil_http::{
    Rejection, Status,
    response::{ErrorPage, HeadWriter},
};

/// The field line of a 503.
pub(crate) const RETRY_AFTER: &[u8] = b"Retry-After: 1\r\n";

/// Answers 503, because the server is busy.
pub(crate) fn busy(local: &mut CoreContext, head: AnswerHead, out: &mut Vec<u8>) -> Sent {
    page(local, Status::ServiceUnavailable, RETRY_AFTER, head, out)
}

/// Writes the page of `status`, with more field lines.
pub(crate) fn page(
    local: &mut CoreContext,
    status: Status,
    lines: &[u8],
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Sent {
    detailed_page(local, status, "", lines, head, out)
}

/// Refuses input that is no request.
pub(crate) fn refuse(local: &mut CoreContext, rejection: Rejection, out: &mut Vec<u8>) -> Sent {
    detailed_page(local, rejection.status(), rejection.reason(), b"", AnswerHead::UNKNOWN, out)
}

fn detailed_page(
    local: &mut CoreContext,
    status: Status,
    detail: &str,
    lines: &[u8],
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Sent {
    let now = local.heads.clock.date(now_ms());
    let page = ErrorPage {
        status,
        detail,
        version: head.version,
        persistence: head.persistence,
        content: head.content,
        now,
        lines: &[SERVER, &local.heads.load_line, lines].concat(),
    };
    Sent { status: status.code(), body_bytes: page.write(out) }
}

/// Ends a head that was begun elsewhere.
#[inline]
pub(crate) fn finish(local: &mut CoreContext, head: AnswerHead, out: &mut Vec<u8>) {
    let date = local.heads.clock.date(now_ms());
    HeadWriter::resume(out)
        .lines(&local.heads.load_line)
        .date(date)
        .connection(head.version, head.persistence)
        .finish();
}
