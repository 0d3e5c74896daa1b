//! Loops: think times, arrivals, and the stall that a closed loop hides.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use vermeil_load::pace::{Arrivals, Think};
use vermeil_load::{Gates, Loop, Phases, ValidityWarning, run_simple};

use super::server::{Act, PlantedServer, answer};
use super::{PATIENCE, go_on, plan};

const DELAY: Duration = Duration::from_millis(20);

#[test]
fn a_fixed_delay_is_found() {
    let server = PlantedServer::start(|_| Act::Delay(DELAY, answer(200, "x")));
    let outcome = run_simple(&plan(&server, 8, 200), &mut go_on).unwrap();
    let times = &outcome.total.response;
    assert!(times.min() >= DELAY.mul_f64(0.999), "{:?}", times.min());
    assert_eq!(times.count(), 200);
}

/// With think time Z and response time R, N users send at most N / (R + Z) requests per second
/// (Little's law).
#[test]
fn think_time_bounds_request_rate() {
    let server = PlantedServer::start(|_| Act::Send(answer(200, "x")));
    let mut plan = plan(&server, 20, 100);
    plan.pace = Loop::Closed { think: Think::Constant(Duration::from_millis(50)) };
    let outcome = run_simple(&plan, &mut go_on).unwrap();
    assert_eq!(outcome.total.good, 100);
    assert!(outcome.window >= Duration::from_millis(5 * 50).mul_f64(0.9), "{:?}", outcome.window);
    assert_eq!(outcome.total.late.count(), 100, "nobody thinks about a request that there is not");
}

#[test]
fn replay_keeps_recorded_arrival_times() {
    let times = Mutex::new(Vec::new());
    let times: &'static Mutex<Vec<Instant>> = Box::leak(Box::new(times));
    let server = PlantedServer::start(|_| {
        times.lock().unwrap().push(Instant::now());
        Act::Send(answer(200, "x"))
    });
    let mut plan = plan(&server, 4, u64::MAX);
    plan.requests_max = None;
    let record = "0.1\n0.15\n0.15\n0.4\n0.4\n0.4\n";
    plan.pace = Loop::Open { arrivals: Arrivals::recorded(record).unwrap() };
    let outcome = run_simple(&plan, &mut go_on).unwrap();
    assert!(outcome.is_open);
    assert_eq!((outcome.total.good, outcome.total.begun), (6, 6));
    let times = times.lock().unwrap();
    let gap = |from: usize, to: usize| times[to] - times[from];
    assert!(gap(0, 5) >= Duration::from_millis(250), "{:?}", gap(0, 5));
}

/// Regression: the window began when the main thread got its cpu, so it was shorter than the
/// answers in it. Here the users begin half a second before the main thread.
#[test]
fn window_begins_with_the_run() {
    let server = PlantedServer::start(|_| Act::Send(answer(200, "x")));
    let mut plan = plan(&server, 1, 1);
    plan.pace = Loop::Open { arrivals: Arrivals::recorded("0\n").unwrap() };
    plan.common.begins = Instant::now().checked_sub(Duration::from_millis(500));
    let outcome = run_simple(&plan, &mut go_on).unwrap();
    let longest = outcome.total.response.max();
    assert!(longest >= Duration::from_millis(500), "the request was due before");
    assert!(outcome.began_late >= Duration::from_millis(500), "{:?}", outcome.began_late);
    let doubts = Gates::default().judge(&outcome);
    assert!(doubts.iter().any(|doubt| matches!(doubt, ValidityWarning::LateRun { .. })), "{doubts:?}");
    assert!(outcome.window >= longest.mul_f64(0.99), "{:?} for an answer of {longest:?}", outcome.window);
}

/// Regression: each arrival began as many requests as a connection may have open.
#[test]
fn open_loop_refuses_pipeline() {
    let server = PlantedServer::start(|_| Act::Send(answer(200, "x")));
    let mut plan = plan(&server, 4, 10);
    plan.pipeline = 8;
    plan.pace = Loop::Open { arrivals: Arrivals::Constant(100.0) };
    let why = run_simple(&plan, &mut go_on).unwrap_err().to_string();
    assert!(
        why.contains("each arrival of an open loop is one request") && why.contains("--pipeline"),
        "{why}"
    );
    assert_eq!(server.accepted(), 0);
}

/// Regression: R times T plus one, because an arrival at the end of the run belonged to the run.
#[test]
fn constant_rate_makes_rate_times_time_requests() {
    for (rate, connections) in [(10.0, 4), (100.0, 64)] {
        let server = PlantedServer::start(|_| Act::Send(answer(200, "x")));
        let mut plan = plan(&server, connections, u64::MAX);
        plan.requests_max = None;
        plan.common.phases = Phases::window(Duration::from_secs(1));
        plan.pace = Loop::Open { arrivals: Arrivals::Constant(rate) };
        let outcome = run_simple(&plan, &mut go_on).unwrap();
        assert_eq!((outcome.total.begun, outcome.missed, server.requests() as f64), (rate as u64, 0, rate));
        assert!(
            outcome.window >= Duration::from_secs(1),
            "waiting for nothing ended the run: {:?}",
            outcome.window
        );
    }
}

/// Regression: users waited for arrivals beyond the counted requests, so the run did not end.
#[test]
fn a_run_ends_with_its_last_request() {
    let server = PlantedServer::start(|_| Act::Send(answer(200, "x")));
    let mut plan = plan(&server, 100, 6);
    let record: String = ["0.1\n".repeat(6), "3000\n".repeat(94)].concat();
    plan.pace = Loop::Open { arrivals: Arrivals::recorded(&record).unwrap() };
    let outcome = run_simple(&plan, &mut go_on).unwrap();
    assert_eq!((outcome.total.good, outcome.total.late.count(), outcome.missed), (6, 6, 0));
    assert!(outcome.window < PATIENCE, "{:?}", outcome.window);
}

/// Regression: requests that were due and never begun were in no count of the run, and the run was
/// valid.
#[test]
fn arrivals_never_begun_are_counted() {
    const CONNECTIONS: u64 = 4;
    let dead = || {
        let server = PlantedServer::start(|_| Act::Reset);
        plan(&server, CONNECTIONS as usize, u64::MAX)
    };
    let server = PlantedServer::start(|_| Act::Delay(Duration::from_millis(300), answer(200, "x")));
    let slow = || plan(&server, CONNECTIONS as usize, u64::MAX);
    for mut plan in [dead(), slow()] {
        plan.requests_max = None;
        plan.common.phases = Phases::window(Duration::from_secs(1));
        plan.pace = Loop::Open { arrivals: Arrivals::Constant(1000.0) };
        let outcome = run_simple(&plan, &mut go_on).unwrap();
        let (missed, begun) = (outcome.missed, outcome.total.begun);
        // Each connection may hold an arrival that has not begun.
        assert!(missed + begun + CONNECTIONS >= 1000 && missed > begun, "{missed} missed, {begun} begun");
        let doubts = Gates::default().judge(&outcome);
        assert!(
            doubts.iter().any(|doubt| matches!(doubt, ValidityWarning::Backlog { missed: 1.., .. })),
            "{doubts:?}"
        );
    }
}

/// The server does nothing for a second. In an open loop, requests arrive during the stall and
/// wait, and the times contain the wait. In a closed loop, only the requests under way notice the
/// stall.
#[test]
fn a_stall_of_a_second_shows() {
    const STALL: Duration = Duration::from_secs(1);
    let stalling = || {
        let stall: &'static Mutex<Option<Instant>> = Box::leak(Box::new(Mutex::new(None)));
        PlantedServer::start(move |seen| {
            if seen.index == 100 {
                *stall.lock().unwrap() = Some(Instant::now() + STALL);
            }
            let until = *stall.lock().unwrap();
            let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            Act::Delay(left, answer(200, "x"))
        })
    };
    let server = stalling();
    let mut open = plan(&server, 4, 1000);
    open.pace = Loop::Open { arrivals: Arrivals::Constant(500.0) };
    let open = run_simple(&open, &mut go_on).unwrap();
    let waited = |limit| open.total.response.count() - open.total.response.count_within(limit);
    // 500 requests per second arrive evenly during the stall, so half of them wait longer than half
    // of the stall.
    assert_eq!(open.total.good, 1000);
    assert!(waited(STALL / 2) >= 240, "{}", waited(STALL / 2));
    assert!(open.total.response.max() >= STALL.mul_f64(0.99));
    let stalled = open.total.service.count() - open.total.service.count_within(STALL / 2);
    assert!(stalled <= 4 + 60, "the service times of all but those under way are short: {stalled}");

    let server = stalling();
    let mut closed = plan(&server, 4, 1000);
    closed.common.phases = Phases::window(Duration::from_secs(30));
    let closed = run_simple(&closed, &mut go_on).unwrap();
    let stalled = closed.total.response.count() - closed.total.response.count_within(STALL / 2);
    assert!(stalled <= 4, "{stalled}");
}
