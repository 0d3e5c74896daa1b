//! Faults of servers: each is counted by name, and no run crashes or hangs.

use std::time::Duration;

use vermeil_load::wire::LoadRequest;
use vermeil_load::{Fault, Outcome, run_simple};

use super::server::{Act, PlantedServer, answer};
use super::{go_on, on_both_drivers, plan};

/// A run of 40 requests against a server that does `act` for every fourth request.
fn every_fourth(act: fn() -> Act, fault: Fault) {
    let server = PlantedServer::start(move |seen| match seen.index % 4 {
        3 => act(),
        _ => Act::Send(answer(200, "fine")),
    });
    on_both_drivers(
        || {
            let mut plan = plan(&server, 1, 40);
            plan.common.timeout = Duration::from_millis(200);
            plan
        },
        |outcome: Outcome| {
            let faults: Vec<_> =
                Fault::ALL.into_iter().filter(|&fault| outcome.total.faults_of(fault) > 0).collect();
            assert_eq!(faults, [fault]);
            assert_eq!((outcome.total.good, outcome.total.failed()), (30, 10));
            let quoted: u64 = outcome.total.malformed.sorted().iter().map(|(_, times)| times).sum();
            assert_eq!(quoted, if fault == Fault::Malformed { 10 } else { 0 });
        },
    );
}

#[test]
fn a_status_of_failure() {
    every_fourth(|| Act::Send(answer(503, "sorry")), Fault::Status);
}

#[test]
fn bytes_that_are_no_answer() {
    every_fourth(|| Act::Send(b"\x16\x03\x01garbage\r\n\r\n".to_vec()), Fault::Malformed);
}

/// Counts alone do not show the server's mistake to the reader of a report.
#[test]
fn malformed_answer_is_quoted() {
    let server = PlantedServer::start(|seen| {
        Act::Send(match seen.index % 2 {
            0 => b"HTP/1.1 200 OK\r\n\r\n".to_vec(),
            _ => b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n".to_vec(),
        })
    });
    let outcome = run_simple(&plan(&server, 1, 8), &mut go_on).unwrap();
    let expected = ["status line \"HTP/1.1 200 OK\"", "field \"Content-Length: many\""];
    assert_eq!(outcome.total.malformed.sorted(), expected.map(|words| (words.to_owned(), 4)));
}

#[test]
fn more_than_was_asked_for() {
    every_fourth(|| Act::Send([answer(200, "a"), answer(200, "b")].concat()), Fault::Malformed);
}

#[test]
fn an_answer_cut_short() {
    every_fourth(
        || Act::SendAndClose(b"HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\nabc".to_vec()),
        Fault::Cut,
    );
}

#[test]
fn a_head_cut_short() {
    every_fourth(|| Act::SendAndClose(b"HTTP/1.1 200 X\r\nConte".to_vec()), Fault::Cut);
}

#[test]
fn no_answer() {
    every_fourth(|| Act::Silence, Fault::Timeout);
}

/// Regression: a crashing worker never showed as a failure, and requests were sent twice. Here the
/// server takes each second request of a connection and then fails, by a reset or by the end of the
/// process.
#[test]
fn requests_that_were_accepted_and_cut_off_have_failed() {
    const LATER: Duration = Duration::from_millis(30);
    for act in [|| Act::ResetAfter(LATER), || Act::CloseAfter(LATER), || Act::CloseAfter(Duration::ZERO)] {
        for method in ["GET", "POST"] {
            let server = PlantedServer::start(move |seen| match seen.on_connection {
                1 => act(),
                _ => Act::Send(answer(200, "x")),
            });
            on_both_drivers(
                || {
                    let mut plan = plan(&server, 4, 80);
                    plan.request = LoadRequest::default().method(method).unwrap();
                    plan
                },
                |outcome| {
                    let total = &outcome.total;
                    // Each user may have one good answer more than failures.
                    let failed = total.faults_of(Fault::Reset);
                    assert_eq!(total.good + failed, 80, "{method}");
                    assert!(total.good.abs_diff(failed) <= 4, "{method}: {failed} failed");
                    assert_eq!((total.reopened, total.repeated), (0, 0), "{method}");
                },
            );
            assert_eq!(server.requests() % 80, 0, "{method}: each request was sent once");
        }
    }
}

/// Without the bound, a server that ends every connection during the second request would get
/// requests forever.
#[test]
fn requests_are_repeated_once_at_most() {
    let server = PlantedServer::start(|seen| match seen.on_connection {
        0 if seen.index == 0 => Act::Send(answer(200, "x")),
        _ => Act::Reset,
    });
    let outcome = run_simple(&plan(&server, 1, 10), &mut go_on).unwrap();
    assert_eq!((outcome.total.good, outcome.total.failed()), (1, 9));
    assert!(server.requests() <= 11, "{}", server.requests());
}

/// Regression: a cut answer had no status, and no metric had the answer's bytes.
#[test]
fn cut_answers_keep_their_status_and_bytes() {
    let server = PlantedServer::start(|_| {
        Act::SendAndClose(b"HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\nabc".to_vec())
    });
    on_both_drivers(
        || plan(&server, 2, 10),
        |outcome| {
            assert_eq!(outcome.total.faults_of(Fault::Cut), 10);
            assert_eq!(outcome.total.codes.sorted(), [(200, 10)]);
            assert_eq!(outcome.total.bytes, 10 * 40);
        },
    );
}

/// Regression: an answer with a whole head and unasked bytes behind it had no status.
#[test]
fn answer_before_unasked_bytes_keeps_status_and_bytes() {
    let answers = [answer(200, "ok"), b"EXTRA".to_vec()].concat();
    let bytes = answers.len() as u64;
    let server = PlantedServer::start(move |_| Act::Send(answers.clone()));
    let total = run_simple(&plan(&server, 1, 6), &mut go_on).unwrap().total;
    assert_eq!((total.faults_of(Fault::Malformed), total.bytes), (6, 6 * bytes));
    assert_eq!(total.codes.sorted(), [(200, 6)]);
}

/// The reset hits a connection before the first answer, so no request can be lost on an idle
/// connection here.
#[test]
fn resets_of_fresh_connections() {
    let server = PlantedServer::start(|_| Act::Reset);
    on_both_drivers(|| plan(&server, 4, 40), |outcome| assert_eq!(outcome.total.faults_of(Fault::Reset), 40));
}

#[test]
fn refused_connections_are_counted() {
    let server = PlantedServer::start(|_| Act::Reset);
    let mut plan = plan(&server, 3, 9);
    drop(server);
    plan.common.timeout = Duration::from_secs(5);
    let outcome = run_simple(&plan, &mut go_on).unwrap();
    assert_eq!((outcome.total.faults_of(Fault::Refused), outcome.total.failed()), (9, 9));
}

/// Answers fail at random by a seed, about every sixteenth. The share is exact.
#[test]
fn a_seeded_share_of_errors() {
    let fails = |index: usize| (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60 == 0;
    let expected = (0..2000).filter(|&index| fails(index)).count() as u64;
    let server =
        PlantedServer::start(move |seen| Act::Send(answer(if fails(seen.index) { 500 } else { 200 }, "x")));
    let outcome = run_simple(&plan(&server, 16, 2000), &mut go_on).unwrap();
    assert_eq!((outcome.total.failed(), outcome.total.good), (expected, 2000 - expected));
    assert_eq!(outcome.total.statuses[5], expected);
}
