//! The pages of errors, and the end that all heads have in common.

use vermeil::now_ms;
use vermeil_exchange::{AnswerHead, Sent};
use vermeil_files::SERVER;
use vermeil_http::{
    Method, Rejection, Status,
    response::{ErrorPage, HeadWriter, PageContent},
};
use vermeil_routing::hosts::AnswerRulesId;
use vermeil_state::core_context::{self, CoreContext};

/// The field line of a 503.
pub const RETRY_AFTER: &[u8] = b"Retry-After: 1\r\n";

/// Answers 503, because the server is busy.
pub fn busy(local: &mut CoreContext, head: AnswerHead, out: &mut Vec<u8>) -> Sent {
    page(local, Status::ServiceUnavailable, RETRY_AFTER, head, out)
}

/// Writes the page of `status`, with more field lines.
pub fn page(
    local: &mut CoreContext,
    status: Status,
    lines: &[u8],
    head: AnswerHead,
    out: &mut Vec<u8>,
) -> Sent {
    detailed_page(local, status, "", lines, head, out)
}

/// The status of a redirect to another address of the same resource. Clients repeat a request with
/// content as GET after 301, and send the content again after 308 (RFC 9110, section 15.4.9).
pub(crate) fn moved(method: Method) -> Status {
    match method {
        Method::Get | Method::Head => Status::MovedPermanently,
        _ => Status::PermanentRedirect,
    }
}

/// The head of an answer to `received`, which is no request. An answer to HEAD has no content (RFC
/// 9110, section 9.3.2).
pub fn unparsed_head(received: &[u8]) -> AnswerHead {
    match core_context::request_line(received).starts_with(b"HEAD ") {
        true => AnswerHead { content: PageContent::Omitted, ..AnswerHead::UNKNOWN },
        false => AnswerHead::UNKNOWN,
    }
}

/// Refuses `received`, which is no request.
pub fn refuse(local: &mut CoreContext, rejection: Rejection, received: &[u8], out: &mut Vec<u8>) -> Sent {
    let head = unparsed_head(received);
    detailed_page(local, rejection.status(), rejection.reason(), b"", head, out)
}

/// Writes the page of `status`, with a reason in words and more field lines.
pub fn detailed_page(
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
        lines: &[SERVER, &local.heads.load_line, head.strict.lines(), lines],
    };
    let start = out.len();
    let body_bytes = page.write(out);
    if let Some(rules) = head.rules {
        local.hosts.with_rules(rules, |rules| rules.headers.edit(out, start));
    }
    Sent { status: status.code(), body_bytes }
}

/// Ends a head that was begun elsewhere.
#[inline]
pub fn finish(local: &mut CoreContext, head: AnswerHead, out: &mut Vec<u8>) {
    let date = local.heads.clock.date(now_ms());
    let writer = HeadWriter::resume(out)
        .lines(&local.heads.load_line)
        .lines(head.strict.lines())
        .date(date)
        .connection(head.version, head.persistence);
    match head.rules {
        None => writer.finish(),
        Some(rules) => {
            let _ = writer;
            apply(local, rules, out);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Applies the operator's rules to the head at the end of `out`, which has no empty line yet.
#[inline(never)]
fn apply(local: &CoreContext, rules: AnswerRulesId, out: &mut Vec<u8>) {
    local.hosts.with_rules(rules, |rules| match rules.headers.plain_block() {
        Some(block) => out.extend_from_slice(block),
        None => {
            // No field value holds this text with its space, because a client's text is escaped.
            let start = memchr::memmem::rfind(out, b"HTTP/1.1 ").unwrap_or(out.len());
            rules.headers.edit(out, start);
        }
    });
}
