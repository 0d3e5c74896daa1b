//! Files that programs have sent: by `X-Sendfile` with a path in the file system, and by
//! `X-Accel-Redirect` with a path below a configured prefix.
//!
//! The files come from allowed folders ([`SendSites`]) through the file cache, with
//! ranges and conditions as for any file. The program's own fields are added, except for fields
//! that describe the file. Tested below and through the binary.

use super::route::look_up;
use std::borrow::Cow;
use vermeil_answer::{
    answer::{self, Answer, Deferred},
    pages::RETRY_AFTER,
};
use vermeil_connection::connection::Connection;
use vermeil_exchange::{AnswerHead, Lost};
use vermeil_files::EntryOutcome;
use vermeil_gateway::{Named, SendRefusal, SendSites};
use vermeil_http::{
    Framing, Method, Request, Status,
    gateway::{ResponseHead, field_lines, field_name, has_parts},
};
use vermeil_settings::gateway::SendRoot;
use vermeil_state::core_context;

/// The answer that sends a file.
pub(crate) struct SendfileAnswer {
    pub(crate) answer: Answer,
    pub(crate) status: Status,
    /// Why the answer is not the file.
    pub(crate) why: Option<&'static str>,
}

/// Makes the answer that sends a file. Returns the refusal if nothing is sent.
pub(crate) async fn send(
    connection: &mut Connection,
    request: &Request<'_>,
    head: AnswerHead,
    response: &ResponseHead,
    named: Named<'_>,
    (sites, roots): (&SendSites, &[SendRoot]),
) -> Result<Result<SendfileAnswer, SendRefusal>, Lost> {
    let (root, raw_path) = match named.find(sites.of(roots)) {
        Ok(found) => found,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let handle = look_up(connection, root.site(), &raw_path).await?;
    let mut file_answer = Vec::new();
    let mut sending = core_context::with(|local| match &handle {
        Ok(handle) if let EntryOutcome::File(file) = handle.outcome() => {
            // The program has handled the method, so this is a request for the file.
            let method = if request.method == Method::Head { Method::Head } else { Method::Get };
            let asked = Request { method, body: Framing::None, ..request.clone() };
            let answer = answer::file_of_program(local, &asked, file, handle, head, &mut file_answer);
            SendfileAnswer { answer, status: Status::Ok, why: None }
        }
        Err(Status::ServiceUnavailable) => {
            let status = Status::ServiceUnavailable;
            let answer = answer::error(local, status, RETRY_AFTER, head, &mut file_answer);
            SendfileAnswer { answer, status, why: Some("nothing had time to look for that file") }
        }
        Ok(handle) if matches!(handle.outcome(), EntryOutcome::Forbidden) => {
            let answer = answer::error(local, Status::NotFound, b"", head, &mut file_answer);
            SendfileAnswer {
                answer,
                status: Status::NotFound,
                why: Some("that is a folder, or may not be read"),
            }
        }
        _ => {
            let answer = answer::error(local, Status::NotFound, b"", head, &mut file_answer);
            SendfileAnswer { answer, status: Status::NotFound, why: Some("there is no such file") }
        }
    });
    let lines = match head.rules {
        None => Cow::Borrowed(&response.lines),
        Some(rules) => Cow::Owned(core_context::with(|local| {
            let mut kept = Vec::with_capacity(response.lines.len());
            let code = sending.status.code();
            local.hosts.with_rules(rules, |rules| rules.headers.keep(&response.lines, code, &mut kept));
            kept
        })),
    };
    match &mut sending.answer {
        // A page of the host has its own head.
        Answer::Slow(Deferred::ErrorPage(page)) => {
            lines_beside_error(&lines).for_each(|line| page.lines.extend_from_slice(line));
        }
        _ => merge(&file_answer, &lines, &mut connection.output),
    }
    Ok(Ok(sending))
}

/// The fields of a program that remain for the client when an error answers in place of the file,
/// for example a cookie.
fn lines_beside_error(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    field_lines(lines).filter(|line| !is_of_file(line) && !is_of_content(field_name(line)))
}

/// Fields that describe the file itself, or this server. The program's values are left out.
const OF_FILE: [&[u8]; 7] = [
    b"accept-ranges",
    b"content-encoding",
    b"content-range",
    b"content-type",
    b"etag",
    b"last-modified",
    b"location",
];

/// Appends `answer` (a file's head and the bytes after it) with a program's `lines` added to its
/// fields.
fn merge(answer: &[u8], lines: &[u8], out: &mut Vec<u8>) {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(answer.len(), |at| at + 2);
    let (head, rest) = answer.split_at(end);
    let is_error = head.get(9).is_some_and(|&digit| digit >= b'4');
    if is_error {
        out.extend_from_slice(head);
        lines_beside_error(lines).for_each(|line| out.extend_from_slice(line));
        return out.extend_from_slice(rest);
    }
    // With several ranges the type is that of the multipart body. A 304 answer has no type.
    let names_type = |line: &&[u8]| field_name(line).eq_ignore_ascii_case(b"content-type");
    let program_type = field_lines(lines)
        .find(names_type)
        .filter(|_| !has_parts(head) && field_lines(head).any(|l| names_type(&l)));
    for line in field_lines(head) {
        out.extend_from_slice(program_type.filter(|_| names_type(&line)).unwrap_or(line));
    }
    for line in field_lines(lines) {
        if !is_of_file(line) {
            out.extend_from_slice(line);
        }
    }
    out.extend_from_slice(rest);
}

fn is_of_file(line: &[u8]) -> bool {
    OF_FILE.into_iter().any(|field| field_name(line).eq_ignore_ascii_case(field))
}

/// Whether a field describes the program's content or its cache lifetime. An error answer has
/// different content.
fn is_of_content(name: &[u8]) -> bool {
    let starts = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-"));
    let kept: [&[u8]; 4] = [b"age", b"cache-control", b"expires", b"pragma"];
    starts || kept.into_iter().any(|field| name.eq_ignore_ascii_case(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(answer: &str, lines: &str) -> String {
        let mut out = Vec::new();
        merge(answer.as_bytes(), lines.as_bytes(), &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_programs_fields_go_with_the_file() {
        let file = "HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\nETag: \"f\"\r\nContent-Length: 4\r\n\r\nbody";
        let lines =
            "Content-Type: a/b\r\nContent-Disposition: attachment\r\nETag: \"p\"\r\nSet-Cookie: a=b\r\n";
        assert_eq!(
            merged(file, lines),
            "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nETag: \"f\"\r\nContent-Length: 4\r\n\
             Content-Disposition: attachment\r\nSet-Cookie: a=b\r\n\r\nbody"
        );
        assert_eq!(merged(file, ""), file);
    }

    #[test]
    fn the_type_of_ranges_of_nothing_and_of_errors_is_their_own() {
        let lines = "Content-Type: a/b\r\nX: y\r\n";
        let parts = "HTTP/1.1 206 Partial Content\r\nContent-Type: multipart/byteranges; boundary=b\r\n\r\n";
        assert_eq!(
            merged(parts, lines),
            "HTTP/1.1 206 Partial Content\r\nContent-Type: multipart/byteranges; boundary=b\r\nX: y\r\n\r\n"
        );
        let unmodified = "HTTP/1.1 304 Not Modified\r\nETag: \"f\"\r\n\r\n";
        assert_eq!(merged(unmodified, lines), "HTTP/1.1 304 Not Modified\r\nETag: \"f\"\r\nX: y\r\n\r\n");
        let missing = "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\npage";
        assert_eq!(
            merged(missing, "Content-Type: a/b\r\nCache-Control: max-age=9\r\nSet-Cookie: a=b\r\n"),
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\n\r\npage",
            "a cookie is for the client, also if the file is gone"
        );
    }
}
