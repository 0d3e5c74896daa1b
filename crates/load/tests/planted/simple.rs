//! Simple runs whose every number is known.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use vermeil_load::wire::{Request, Reuse};
use vermeil_load::{Fault, Phases, SimplePlan, run_simple};

use super::server::{Act, Server, answer};
use super::{go_on, on_both_drivers, plan};

#[test]
fn every_request_is_counted_once() {
    let server = Server::start(|_| Act::Send(answer(200, "hello")));
    on_both_drivers(
        || plan(&server, 8, 500),
        |outcome| {
            let total = &outcome.total;
            assert_eq!((total.good, total.failed(), total.begun), (500, 0, 500));
            assert_eq!((total.content_bytes, total.connections), (2500, 8));
            assert_eq!(total.statuses, [0, 0, 500, 0, 0, 0]);
            assert_eq!(total.response.count(), 500);
            assert_eq!(outcome.unfinished, 0);
        },
    );
    assert_eq!(server.accepted() % 8, 0);
}

#[test]
fn a_connection_for_each_request() {
    let server = Server::start(|seen| {
        assert!(seen.on_connection == 0 && seen.head.contains("Connection: close"));
        Act::SendAndClose(answer(200, "x"))
    });
    on_both_drivers(
        || SimplePlan { reuse: Reuse::Close, ..plan(&server, 4, 100) },
        |outcome| assert_eq!((outcome.total.good, outcome.total.connections), (100, 100)),
    );
}

/// The answer says that the connection goes on, and it does not.
#[test]
fn a_connection_that_ends_without_a_word_costs_no_request() {
    let server = Server::start(|seen| match seen.on_connection {
        0..3 => Act::Send(answer(200, "x")),
        _ => Act::SendAndClose(answer(200, "y")),
    });
    on_both_drivers(
        || plan(&server, 2, 100),
        |outcome| {
            assert_eq!((outcome.total.good, outcome.total.failed()), (100, 0));
            assert_eq!(outcome.total.connections, 2 + outcome.total.reopened);
            assert!(outcome.total.reopened >= 20, "{}", outcome.total.reopened);
        },
    );
}

#[test]
fn pipelined_requests_are_answered_in_one_go() {
    let server = Server::start(|_| Act::Send(answer(200, "abc")));
    on_both_drivers(
        || SimplePlan { pipeline: 16, ..plan(&server, 2, 1000) },
        |outcome| assert_eq!((outcome.total.good, outcome.total.content_bytes), (1000, 3000)),
    );
}

#[test]
fn requests_arrive_as_they_were_asked_for() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let server = Server::start(move |request| {
        log.lock().unwrap().push((request.head.clone(), request.content.clone()));
        Act::Send(answer(201, ""))
    });
    let content = "content ".repeat(1000);
    let request = Request::default().method("POST").unwrap().field("X-Test: yes").unwrap();
    let mut plan = plan(&server, 1, 2);
    plan.request = request.content(content.clone());
    plan.urls = ["/a?b=c", "/d"].map(|path| server.url(path).parse().unwrap()).to_vec();
    let outcome = run_simple(&plan, &mut go_on).unwrap();
    assert_eq!(outcome.total.good, 2);
    let seen = seen.lock().unwrap();
    assert!(seen[0].0.starts_with("POST /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:"), "{}", seen[0].0);
    assert!(seen[1].0.starts_with("POST /d HTTP/1.1\r\n") && seen[1].0.contains("X-Test: yes\r\n"));
    assert!(seen.iter().all(|(_, got)| *got == content.as_bytes()));
}

#[test]
fn heads_have_no_content() {
    let server = Server::start(|_| Act::Send(answer(200, "")[..].to_vec().replace_length()));
    let mut plan = plan(&server, 2, 50);
    plan.request = Request::default().method("HEAD").unwrap();
    let outcome = run_simple(&plan, &mut go_on).unwrap();
    assert_eq!((outcome.total.good, outcome.total.content_bytes), (50, 0));
}

trait ReplaceLength {
    fn replace_length(self) -> Self;
}

impl ReplaceLength for Vec<u8> {
    /// The same head with a length that only an answer to GET would have.
    fn replace_length(self) -> Self {
        String::from_utf8(self).unwrap().replace("Length: 0", "Length: 999").into_bytes()
    }
}

#[test]
fn watching_sees_the_course_and_can_end_it() {
    let server = Server::start(|_| Act::Send(answer(200, "x")));
    let mut plan = plan(&server, 2, u64::MAX);
    plan.ground.phases =
        Phases { ramp_up: Duration::from_millis(50), ..Phases::window(Duration::from_secs(50)) };
    let mut seen = 0;
    let outcome = run_simple(&plan, &mut |progress: vermeil_load::Progress<'_>| {
        seen += 1;
        assert_eq!(progress.planned, Some(Duration::from_millis(50_050)));
        if progress.total.good > 100 { std::ops::ControlFlow::Break(()) } else { go_on(progress) }
    })
    .unwrap();
    assert!(outcome.interrupted && outcome.total.good > 100);
    assert_eq!(outcome.intervals.len(), seen);
    assert!(outcome.total.faults_of(Fault::Local) == 0 && outcome.window < Duration::from_secs(50));
}
