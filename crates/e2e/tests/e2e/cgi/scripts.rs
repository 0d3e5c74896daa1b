//! Habits of scripts on real sites: streams opened by name, work after the answer, and releases
//! behind a link.

use super::{get, mode, script, serve, site};
use crate::support::{ExpectedContent, Io, TestServer, on_usual, until};
use std::{fs, os::unix::fs::symlink};

on_usual! {
    program_that_closes_its_output_has_answered,
    standard_streams_can_be_opened_by_name,
    programs_of_next_release_run,
    endless_output_behind_whole_answer_ends_request,
}

/// Regression: the end of the answer waited for three seconds.
fn program_that_closes_its_output_has_answered(io: Io) {
    let site = site();
    let folder = site.outside("work");
    fs::create_dir(&folder).expect("a folder");
    mode(&folder, 0o777);
    let done = folder.join("done");
    let goes_on = format!("exec >&- 2>&-; sleep 2; touch {}", done.display());
    script(&site, "cgi-bin/x", &format!("printf 'Content-Type: text/plain\\n\\nwhole'\n{goes_on}"));
    let server = serve(io, &site, &[]);
    assert_eq!(server.get("/cgi-bin/x").text(), "whole");
    assert!(!done.exists(), "the program works on");
    until("the program has ended its work", || done.exists().then_some(()));
    server.stops_clean();
}

/// Regression: a program of another user than the server's could open none of its streams by name,
/// and `/dev/stdin` only with content that fits into memory.
fn standard_streams_can_be_opened_by_name(io: Io) {
    let site = site();
    let lines = "printf 'Content-Type: text/plain\\n\\n'; echo told > /dev/stderr
         cat /dev/stdin | wc -c > /dev/stdout";
    script(&site, "cgi-bin/x", lines);
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    for bytes in [10, 70_000] {
        client.ask("POST", "/cgi-bin/x", &[&format!("Content-Length: {bytes}")]);
        client.send(vec![b'x'; bytes]);
        let answer = client.read(ExpectedContent::Follows);
        assert_eq!(answer.text().trim(), bytes.to_string(), "{server:?}");
    }
    server.says(": told\n");
    server.stops_clean();
}

/// Regression: after a link had been turned to the next release, programs were looked up in the
/// release before, also after a reload.
fn programs_of_next_release_run(io: Io) {
    let site = site();
    for release in ["old", "new"] {
        script(&site, &format!("{release}/cgi-bin/{release}"), "echo Content-Type: a/b; echo; echo runs");
        mode(&site.path(release), 0o755);
    }
    let (link, next) = (site.path("now"), site.path("next"));
    symlink("old", &link).expect("a link");
    let is_root = rustix::process::geteuid().is_root();
    let user = if is_root { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    let host = "[[host]]\nnames = [\"test\"]\nroot = \"site/now\"\n";
    let route = "[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n";
    let server = TestServer::configured(io, &site, &format!("{user}{host}{route}"));
    let mut client = server.client();
    assert_eq!(get(&mut client, "/cgi-bin/old").text(), "runs\n");
    symlink("new", &next).expect("a link");
    fs::rename(&next, &link).expect("turned");
    assert_eq!(get(&mut client, "/cgi-bin/new").text(), "runs\n");
    assert_eq!(get(&mut client, "/cgi-bin/old").status, 404);
    server.stops_clean();
}

/// Regression: the server read and discarded the output until the time of the program was over.
fn endless_output_behind_whole_answer_ends_request(io: Io) {
    let site = site();
    script(&site, "cgi-bin/x", "printf 'Content-Type: a/b\\nContent-Length: 2\\n\\nok'; exec cat /dev/zero");
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    for _ in 0..2 {
        // The next request over the connection waits for the end of the first.
        assert_eq!(get(&mut client, "/cgi-bin/x").text(), "ok");
        client.ask("HEAD", "/cgi-bin/x", &[]);
        assert_eq!(client.read(ExpectedContent::Omitted).status, 200);
    }
    server.stops_clean();
}
