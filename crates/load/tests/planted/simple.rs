//! Simple runs with known results.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vermeil_load::pace::Think;
use vermeil_load::wire::{LoadRequest, Reuse};
use vermeil_load::{Fault, Gates, Loop, Phases, RunProgress, SimplePlan, ValidityWarning, run_simple};

use super::server::{Act, PlantedServer, answer};
use super::{PATIENCE, go_on, on_both_drivers, plan};

#[test]
fn every_request_is_counted_once() {
    let server = PlantedServer::start(|_| Act::Send(answer(200, "hello")));
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
    let server = PlantedServer::start(|seen| {
        assert!(seen.on_connection == 0 && seen.head.contains("Connection: close"));
        Act::SendAndClose(answer(200, "x"))
    });
    on_both_drivers(
        || SimplePlan { reuse: Reuse::Close, ..plan(&server, 4, 100) },
        |outcome| assert_eq!((outcome.total.good, outcome.total.connections), (100, 100)),
    );
}

/// The answer says that the connection stays open, but the server closes. Users think, so the close
/// arrives before the next request. The request is sent once, whatever the method.
#[test]
fn idle_close_costs_no_request() {
    for method in ["GET", "POST"] {
        let server = PlantedServer::start(|_| Act::SendAndClose(answer(200, "y")));
        on_both_drivers(
            || {
                let mut plan = plan(&server, 4, 40);
                plan.request = LoadRequest::default().method(method).unwrap();
                plan.pace = Loop::Closed { think: Think::Constant(Duration::from_millis(50)) };
                plan
            },
            |outcome| {
                let total = &outcome.total;
                assert_eq!((total.good, total.failed(), total.repeated), (40, 0, 0), "{method}");
                assert_eq!((total.connections, total.reopened), (40, 36));
            },
        );
        assert_eq!(server.requests() % 40, 0, "each request was sent once");
    }
}

/// Regression: the requests after an announced end counted as reset, although the server had not
/// begun them.
#[test]
fn pipelined_requests_behind_an_announced_close_go_elsewhere() {
    let server = PlantedServer::start(|seen| match seen.on_connection {
        0..6 => Act::Send(answer(200, "x")),
        _ => {
            Act::SendAndLinger(b"HTTP/1.1 200 X\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx".to_vec())
        }
    });
    on_both_drivers(
        || SimplePlan { pipeline: 4, ..plan(&server, 2, 400) },
        |outcome| {
            let total = &outcome.total;
            assert_eq!((total.good, total.failed(), total.reopened), (400, 0, 0));
            assert!(total.deferred > 0 && total.connections >= 400 / 7, "{}", total.deferred);
        },
    );
}

/// RFC 9110 section 9.2.2: no automatic repetition of a method that is not idempotent.
#[test]
fn pipelined_posts_behind_an_announced_close_are_not_sent_again() {
    let server = PlantedServer::start(|seen| match seen.on_connection {
        0..2 => Act::Send(answer(200, "x")),
        _ => {
            Act::SendAndLinger(b"HTTP/1.1 200 X\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx".to_vec())
        }
    });
    let mut plan = SimplePlan { pipeline: 4, ..plan(&server, 1, 40) };
    plan.request = LoadRequest::default().method("POST").unwrap();
    let outcome = run_simple(&plan, &mut go_on).unwrap();
    assert_eq!((outcome.total.good, outcome.total.faults_of(Fault::Reset)), (30, 10));
    assert_eq!(outcome.total.deferred, 0);
}

/// A client that sent `close` closes (RFC 9112 section 9.6). Regression: users waited for the
/// server, each for the whole time limit.
#[test]
fn connection_that_server_leaves_open_is_closed() {
    for announced in [false, true] {
        let server = PlantedServer::start(move |_| {
            let close = if announced { "Connection: close\r\n" } else { "" };
            Act::Send(format!("HTTP/1.1 200 X\r\n{close}Content-Length: 1\r\n\r\nx").into_bytes())
        });
        on_both_drivers(
            || {
                let mut plan = plan(&server, 4, 200);
                plan.reuse = if announced { Reuse::Keep } else { Reuse::Close };
                plan.common.timeout = Duration::from_secs(3600);
                plan
            },
            |outcome| {
                assert_eq!((outcome.total.good, outcome.total.connections), (200, 200));
                assert!(outcome.window < super::PATIENCE, "nothing was waited for");
            },
        );
    }
}

/// Regression: half of the requests failed at once, the others were good after a while, and the
/// median was the time of a failure.
#[test]
fn times_are_those_of_good_answers() {
    const DELAY: Duration = Duration::from_millis(20);
    let server = PlantedServer::start(|seen| match seen.index % 2 {
        0 => Act::Send(answer(503, "busy")),
        _ => Act::Delay(DELAY, answer(200, "x")),
    });
    let outcome = run_simple(&plan(&server, 4, 100), &mut go_on).unwrap();
    let total = &outcome.total;
    assert_eq!((total.response.count(), total.failed_response.count()), (50, 50));
    assert!(total.response.min() >= DELAY.mul_f64(0.999), "{:?}", total.response.min());
    assert_eq!(total.codes.sorted(), [(200, 50), (503, 50)]);
    let doubts = Gates::default().judge(&outcome);
    assert!(
        doubts.iter().any(|doubt| matches!(doubt, ValidityWarning::Failures { failed: 50, .. })),
        "{doubts:?}"
    );
}

/// Regression: bytes counted when their answer ended, so a download that outlasted the run had
/// received nothing.
#[test]
fn bytes_of_unfinished_answers_are_counted() {
    let head = "HTTP/1.1 200 X\r\nContent-Length: 900000\r\n\r\n";
    let part = [head.as_bytes(), &[b'x'; 400_000]].concat();
    let expected = 2 * part.len() as u64;
    let server = PlantedServer::start(move |_| Act::Send(part.clone()));
    let mut plan = plan(&server, 2, 2);
    plan.common.phases = Phases::window(Duration::from_secs(10));
    plan.common.timeout = PATIENCE;
    let outcome = run_simple(&plan, &mut |progress: RunProgress<'_>| match progress.total.bytes {
        bytes if bytes < expected => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    })
    .unwrap();
    assert_eq!((outcome.total.bytes, outcome.total.ended()), (expected, 0));
    assert!(outcome.interrupted, "the bytes are counted before the end of the window");
}

/// Regression: ten users waited for seconds when the run ended, and the run was valid.
#[test]
fn requests_that_hang_at_the_end_are_a_doubt() {
    let server = PlantedServer::start(|seen| match seen.index {
        0..200 => Act::Send(answer(200, "x")),
        _ => Act::Silence,
    });
    let mut plan = plan(&server, 4, u64::MAX);
    plan.requests_max = None;
    plan.common.phases = Phases::window(Duration::from_secs(1));
    let outcome = run_simple(&plan, &mut go_on).unwrap();
    assert_eq!((outcome.total.good, outcome.unfinished), (200, 4));
    let waits = outcome.waits.expect("users wait");
    assert!(waits.oldest > Duration::from_millis(200) && waits.silence == waits.oldest, "{waits:?}");
    let doubts = Gates::default().judge(&outcome);
    assert!(
        doubts.iter().any(|doubt| matches!(doubt, ValidityWarning::Hanging { unfinished: 4, .. })),
        "{doubts:?}"
    );
}

/// Regression: a request counted as hanging while its answer arrived.
#[test]
fn answer_that_still_arrives_is_no_doubt() {
    const HEAD: &[u8] = b"HTTP/1.1 200 X\r\nContent-Length: 900000000\r\n\r\n";
    let hangs = |act: fn() -> Act| {
        let server = PlantedServer::start(move |seen| match seen.index {
            0..200 => Act::Send(answer(200, "x")),
            _ => act(),
        });
        let mut plan = plan(&server, 4, u64::MAX);
        plan.requests_max = None;
        plan.common.phases = Phases::window(Duration::from_secs(1));
        let outcome = run_simple(&plan, &mut go_on).unwrap();
        assert_eq!((outcome.total.good, outcome.unfinished), (200, 4));
        let doubts = Gates::default().judge(&outcome);
        doubts.iter().any(|doubt| matches!(doubt, ValidityWarning::Hanging { .. }))
    };
    assert!(!hangs(|| Act::Stream(HEAD.to_vec())));
    assert!(hangs(|| Act::Send(HEAD.to_vec())), "the server is silent inside the answer");
}

/// Regression: the course had the final number of users from the first interval on.
#[test]
fn course_has_the_users_that_have_begun() {
    let server = PlantedServer::start(|_| Act::Send(answer(200, "x")));
    let mut plan = plan(&server, 40, u64::MAX);
    plan.requests_max = None;
    plan.pace = Loop::Closed { think: Think::Constant(Duration::from_millis(20)) };
    plan.common.phases =
        Phases { ramp_up: Duration::from_millis(800), ..Phases::window(Duration::from_millis(200)) };
    let outcome = run_simple(&plan, &mut go_on).unwrap();
    let users: Vec<_> = outcome.intervals.iter().map(|interval| interval.users).collect();
    assert!(users.is_sorted() && users[0] < 40 && users.last() == Some(&40), "{users:?}");
}

#[test]
fn pipelined_requests_are_answered_in_one_go() {
    let server = PlantedServer::start(|_| Act::Send(answer(200, "abc")));
    on_both_drivers(
        || SimplePlan { pipeline: 16, ..plan(&server, 2, 1000) },
        |outcome| assert_eq!((outcome.total.good, outcome.total.content_bytes), (1000, 3000)),
    );
}

#[test]
fn requests_arrive_with_given_fields() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let server = PlantedServer::start(move |request| {
        log.lock().unwrap().push((request.head.clone(), request.content.clone()));
        Act::Send(answer(201, ""))
    });
    let content = "content ".repeat(1000);
    let request = LoadRequest::default().method("POST").unwrap().field("X-Test: yes").unwrap();
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
    let server = PlantedServer::start(|_| Act::Send(answer(200, "")[..].to_vec().replace_length()));
    let mut plan = plan(&server, 2, 50);
    plan.request = LoadRequest::default().method("HEAD").unwrap();
    let outcome = run_simple(&plan, &mut go_on).unwrap();
    assert_eq!((outcome.total.good, outcome.total.content_bytes), (50, 0));
}

trait ReplaceLength {
    fn replace_length(self) -> Self;
}

impl ReplaceLength for Vec<u8> {
    /// The same head with a length that only the answer to a GET has.
    fn replace_length(self) -> Self {
        String::from_utf8(self).unwrap().replace("Length: 0", "Length: 999").into_bytes()
    }
}

#[test]
fn watcher_sees_progress_and_can_end_run() {
    let server = PlantedServer::start(|_| Act::Send(answer(200, "x")));
    let mut plan = plan(&server, 2, u64::MAX);
    plan.common.phases =
        Phases { ramp_up: Duration::from_millis(50), ..Phases::window(Duration::from_secs(50)) };
    let mut seen = 0;
    let outcome = run_simple(&plan, &mut |progress: vermeil_load::RunProgress<'_>| {
        seen += 1;
        assert_eq!(progress.planned, Some(Duration::from_millis(50_050)));
        if progress.total.good > 100 { std::ops::ControlFlow::Break(()) } else { go_on(progress) }
    })
    .unwrap();
    assert!(outcome.interrupted && outcome.total.good > 100);
    assert_eq!(outcome.intervals.len(), seen);
    assert!(outcome.total.faults_of(Fault::Local) == 0 && outcome.window < Duration::from_secs(50));
}
