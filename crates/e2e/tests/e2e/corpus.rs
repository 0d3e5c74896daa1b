//! The corpus of requests, well-formed, malformed and smuggled, of `vermeil-http` over real
//! sockets. The tests check the number of answers, that a refusal closes the connection, and that
//! every cut of a request gives the same answers.

#[path = "../../../http/tests/corpus/framing.rs"]
mod framing;
#[path = "../../../http/tests/corpus/heads.rs"]
mod heads;

use crate::support::{
    ConnectionEnd, ExpectedContent, Io, Response, TestClient, TestServer, TestSite, on_both,
};

on_both!(corpus_gets_expected_answers, requests_cut_anywhere_get_the_same_answers,);

/// The expected answer to one request or refusal.
#[derive(Debug)]
struct Expected {
    content: ExpectedContent,
    status: Option<u16>,
    closes: bool,
}

/// The answers that a line of the corpus promises: one for each request, and one for a refusal. A
/// refusal has no answer if its request was answered before the content was read.
fn promised(line: &str) -> Vec<Expected> {
    let mut answers: Vec<Expected> = Vec::new();
    let mut amid_content = false;
    for part in line.split("; ") {
        let words: Vec<_> = part.split(' ').collect();
        if part.is_empty() || part == "more" || answers.last().is_some_and(|last| last.closes) {
            break;
        }
        if let Ok(status) = words[0].parse() {
            if !amid_content {
                answers.push(Expected {
                    content: ExpectedContent::Follows,
                    status: Some(status),
                    closes: true,
                });
            }
            break;
        }
        let content = if words[0] == "HEAD" { ExpectedContent::Omitted } else { ExpectedContent::Follows };
        let closes = words[3] == "close" || words.get(4) == Some(&"continue");
        let status = (!matches!(words[0], "GET" | "HEAD" | "OPTIONS")).then_some(405);
        answers.push(Expected { content, status, closes });
        amid_content = words[0] == "POST" && line.contains("; 4") && !part.contains("body=");
    }
    answers
}

/// Reads the answers to the sent requests, and the end of the connection.
fn read_all(client: &mut TestClient, promised: &[Expected]) -> Result<Vec<Response>, String> {
    let mut answers = Vec::new();
    for expected in promised {
        let answer =
            client.try_read(expected.content).map_err(|end| format!("{end:?} before {expected:?}"))?;
        if expected.status.is_some_and(|status| status != answer.status) || expected.closes != answer.closes()
        {
            return Err(format!("not {expected:?} but {answer:?}"));
        }
        answers.push(answer);
    }
    match client.read_to_end() {
        ConnectionEnd::Closed if client.received().is_empty() => Ok(answers),
        end => Err(format!("{end:?} after {}", client.received().escape_ascii())),
    }
}

fn corpus_gets_expected_answers(io: Io) {
    let site = TestSite::new();
    // The targets of methods other than GET exist, so that the method decides.
    ["a", "f", "pot"].into_iter().for_each(|name| site.write(name, b"x"));
    let server = TestServer::start(io, &site, &["--cores", "1"]);
    let tables = [heads::VALID, heads::MALFORMED, framing::VALID, framing::MALFORMED, framing::SMUGGLING];
    let mut wrong = Vec::new();
    for &(name, input, line) in tables.into_iter().flatten() {
        let mut client = server.client();
        client.send(input);
        client.finish();
        if let Err(what) = read_all(&mut client, &promised(line)) {
            wrong.push(format!("{name} ({line}): {what}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    server.stops_clean();
}

/// A core reads earlier input before the core answers later input on another connection. So a round
/// trip there ensures that the server has read the first piece alone.
fn requests_cut_anywhere_get_the_same_answers(io: Io) {
    let cases: [(&[u8], &str); 7] = [
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "GET / h close"),
        (b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\nGET /x HTTP/1.0\r\n\r\n", "HEAD / h keep; GET /x - close"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.0\r\n\r\n", "POST / h keep body=abc; GET / - close"),
        (
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2;e\r\nab\r\n0\r\nT: t\r\n\r\nGET / HTTP/1.0\r\n\r\n",
            "POST / h keep body=ab; GET / - close",
        ),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400 LengthAndCoding"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "POST / h keep; 400 ChunkEnd"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n", "400 FieldName"),
    ];
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &["--cores", "1"]);
    let mut other = server.client();
    for (input, line) in cases {
        let promised = promised(line);
        let mut whole: Option<Vec<Response>> = None;
        for at in 0..input.len() {
            let (first, second) = input.split_at(at);
            let mut client = server.client();
            client.send(first);
            assert_eq!(other.get("/").status, 200);
            client.send(second);
            client.finish();
            let answers = read_all(&mut client, &promised)
                .unwrap_or_else(|what| panic!("cut at {at}, {}: {what}", input.escape_ascii()));
            let whole = whole.get_or_insert_with(|| answers.clone());
            let same = whole.iter().zip(&answers).all(|(a, b)| a.has_head_of(b) && a.body == b.body);
            assert!(same, "cut at {at}, {}: {answers:?}", input.escape_ascii());
        }
    }
    server.stops_clean();
}
