//! Turns follow the order of the queue across cores; a dropped request loses no place; idle
//! connections starve no request.

use super::{pool_state::PoolState, *};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    io::Write as _,
    sync::atomic::{AtomicBool, Ordering},
    task::Wake,
    time::{Duration, Instant},
};
use vermeil_http::{ConnectionLimits, ParsedPart};

#[derive(Default)]
struct TestNotifier(AtomicBool);

impl Wake for TestNotifier {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn poll(waiting: &mut WaitingRequest) -> Poll<Result<PoolPermit, QueueFull>> {
    waiting.poll(&mut Context::from_waker(Waker::noop()))
}

fn turn(waiting: &mut WaitingRequest) -> PoolPermit {
    match poll(waiting) {
        Poll::Ready(Ok(lease)) => lease,
        other => panic!("{other:?}"),
    }
}

fn reclaimed(pool: &Pool, core: usize) -> usize {
    match pool.poll_reclaimed(core, &mut Context::from_waker(Waker::noop())) {
        Poll::Ready(count) => count,
        Poll::Pending => 0,
    }
}

fn pool(connections_max: usize, queue_max: usize) -> Arc<Pool> {
    Pool::new(PoolBounds { connections_max, queue_max, idle_max: connections_max }, 2)
}

#[test]
fn a_core_gets_its_own_connection_back() {
    let pool = pool(2, 2);
    let lease = turn(&mut pool.ask(0));
    assert_eq!(lease.turn(), PoolTurn::New);
    let mut kept = false;
    assert!(lease.finish(|| kept = true).is_none());
    assert!(kept);
    assert_eq!(turn(&mut pool.ask(0)).turn(), PoolTurn::Kept);
    assert_eq!(pool.snapshot().open, 0, "a lease that is dropped has closed its connection");
}

#[test]
fn retiring_pool_keeps_no_connection_and_serves_new_requests() {
    let pool = pool(2, 2);
    assert!(turn(&mut pool.ask(0)).finish(|| {}).is_none());
    pool.keep_none();
    assert_eq!(reclaimed(&pool, 0), 1, "what was kept is closed");
    pool.closed(1);
    assert!(turn(&mut pool.ask(1)).finish(|| panic!("kept")).is_some());
    assert_eq!(pool.snapshot().open, 0);
}

#[test]
fn turns_come_in_the_order_of_the_queue_and_wake() {
    let pool = pool(1, 9);
    let lease = turn(&mut pool.ask(0));
    let bell = Arc::new(TestNotifier::default());
    let waker = Waker::from(bell.clone());
    let (mut first, mut second) = (pool.ask(1), pool.ask(0));
    assert!(first.poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(poll(&mut second).is_pending());
    // The second request waits on the same core, but must not overtake.
    let lease = lease.finish(|| panic!("nobody of this core is first"));
    assert!(lease.is_some() && !bell.0.load(Ordering::Relaxed), "the connection is still open");
    drop(lease);
    assert!(bell.0.load(Ordering::Relaxed));
    assert!(poll(&mut second).is_pending());
    let lease = turn(&mut first);
    assert_eq!(lease.turn(), PoolTurn::New);
    drop(lease);
    assert_eq!(turn(&mut second).turn(), PoolTurn::New);
}

#[test]
fn a_full_queue_refuses() {
    let pool = pool(1, 1);
    let _lease = turn(&mut pool.ask(0));
    let mut first = pool.ask(0);
    assert!(poll(&mut first).is_pending());
    assert!(matches!(poll(&mut pool.ask(0)), Poll::Ready(Err(QueueFull))));
    assert_eq!(pool.snapshot().refused, 1);
    drop(first);
    assert!(poll(&mut pool.ask(0)).is_pending());
}

#[test]
fn idle_connections_of_one_core_do_not_starve_another() {
    let pool = pool(2, 9);
    let leases = [turn(&mut pool.ask(0)), turn(&mut pool.ask(0))];
    for lease in leases {
        assert!(lease.finish(|| {}).is_none());
    }
    let mut other = pool.ask(1);
    assert!(poll(&mut other).is_pending());
    assert_eq!((reclaimed(&pool, 0), reclaimed(&pool, 0)), (1, 0), "one for the one who waits");
    pool.closed(1);
    assert_eq!(turn(&mut other).turn(), PoolTurn::New);
    let snapshot = pool.snapshot();
    assert_eq!((snapshot.open, snapshot.busy, snapshot.queue), (1, 0, 0));
}

#[test]
fn leaving_request_passes_turn_on() {
    let pool = pool(1, 9);
    let lease = turn(&mut pool.ask(0));
    let (mut gone, mut next) = (pool.ask(0), pool.ask(0));
    assert!(poll(&mut gone).is_pending() && poll(&mut next).is_pending());
    assert!(lease.finish(|| {}).is_none());
    drop(gone);
    assert_eq!(turn(&mut next).turn(), PoolTurn::Kept);
}

/// A connection whose child still works on a request that is over, and the child's end.
fn working() -> (UnixStream, UnixStream) {
    let (mut ours, child) = UnixStream::pair().expect("sockets");
    ours.write_all(b"the last record").expect("room");
    (ours, child)
}

/// Regression: an idle connection held the last free child, so a new connection waited until the
/// idle connection was old.
#[test]
fn working_child_frees_child_of_idle_connection() {
    let pool = pool(3, 9);
    let [works, idle] = [turn(&mut pool.ask(0)), turn(&mut pool.ask(1))];
    assert!(idle.finish(|| {}).is_none());
    let (connection, child) = working();
    pool.leave_working(connection);
    drop(works);
    let _first = turn(&mut pool.ask(0));
    assert_eq!(reclaimed(&pool, 1), 0, "the third child is free");
    let second = turn(&mut pool.ask(0));
    assert_eq!(reclaimed(&pool, 1), 1, "the second request needs the child of the idle connection");
    pool.closed(1);
    // The child ends, so its connection counts no more.
    drop(child);
    assert!(second.finish(|| {}).is_none());
    let _third = turn(&mut pool.ask(1));
    assert_eq!(reclaimed(&pool, 0), 0);
}

/// Regression: requests were refused although a child was free.
#[test]
fn queue_without_places_takes_requests_with_free_child() {
    let served = pool(1, 0);
    assert!(turn(&mut served.ask(0)).finish(|| {}).is_none());
    let mut other = served.ask(1);
    assert!(poll(&mut other).is_pending(), "until core 0 has closed its idle connection");
    assert!(matches!(poll(&mut served.ask(1)), Poll::Ready(Err(QueueFull))));
    assert_eq!(reclaimed(&served, 0), 1);
    served.closed(1);
    let _lease = turn(&mut other);
    assert!(matches!(poll(&mut served.ask(1)), Poll::Ready(Err(QueueFull))), "the child is busy");

    let bell = pool_state::Notifier::new().expect("a descriptor");
    let bounds = PoolBounds { connections_max: 1, queue_max: 0, idle_max: 1 };
    let stopped = Pool::on_demand(bounds, 2, &bell, 7);
    let mut first = stopped.ask(0);
    assert!(poll(&mut first).is_pending(), "until the pool has started");
    assert!(matches!(poll(&mut stopped.ask(0)), Poll::Ready(Err(QueueFull))));
    assert_eq!(bell.heard(), [7]);
}

#[test]
fn paused_pool_gives_no_turns() {
    let pool = pool(1, 9);
    assert!(turn(&mut pool.ask(0)).finish(|| {}).is_none());
    pool.pause();
    assert_eq!(reclaimed(&pool, 0), 1, "the connection leads to no child");
    pool.closed(1);
    let mut waits = pool.ask(0);
    assert!(pool.is_shut() && poll(&mut waits).is_pending());
    pool.resume();
    assert_eq!(turn(&mut waits).turn(), PoolTurn::New);
}

fn on_demand(connections_max: usize) -> (Arc<Pool>, Arc<pool_state::Notifier>) {
    let bell = pool_state::Notifier::new().expect("a descriptor");
    let bounds = PoolBounds { connections_max, queue_max: 2, idle_max: connections_max };
    (Pool::on_demand(bounds, 2, &bell, 7), bell)
}

#[test]
fn a_pool_that_does_not_run_rings_and_its_requests_wait() {
    let (pool, bell) = on_demand(2);
    assert_eq!(pool.gate(), Some((PoolState::Stopped, 0)));
    // Two requests will have a child at once, and two may wait.
    let mut waiting = [pool.ask(0), pool.ask(1), pool.ask(0), pool.ask(1)];
    assert!(waiting.iter_mut().all(|waiting| poll(waiting).is_pending()));
    assert!(matches!(poll(&mut pool.ask(0)), Poll::Ready(Err(QueueFull))));
    assert_eq!(bell.heard(), [7], "once, however many wait");
    assert!(pool.is_wanted());
    pool.set_starting();
    let [mut first, mut second, ..] = waiting;
    assert!(poll(&mut first).is_pending());
    pool.set_open();
    assert_eq!([turn(&mut first).turn(), turn(&mut second).turn()], [PoolTurn::New, PoolTurn::New]);
    assert_eq!((pool.gate(), bell.heard().len()), (Some((PoolState::Open, 1)), 0));
}

#[test]
fn pool_stops_only_without_requests_and_loses_none() {
    let (pool, bell) = on_demand(2);
    pool.set_open();
    let [busy, idle] = [turn(&mut pool.ask(0)), turn(&mut pool.ask(1))];
    assert!(idle.finish(|| {}).is_none());
    assert_eq!(pool.close_if_idle(Duration::ZERO), Err(pool_state::StillUsed::Busy));
    pool.close();
    let mut late = pool.ask(1);
    assert!(poll(&mut late).is_pending(), "the connection that is kept is not given away any more");
    assert_eq!(reclaimed(&pool, 1), 1);
    pool.closed(1);
    assert!(!pool.is_quiet() && bell.heard().is_empty());
    assert!(busy.finish(|| panic!("nothing is kept of what is stopped")).is_some());
    assert_eq!(bell.heard(), [7]);
    assert!(pool.is_quiet());
    pool.set_stopped();
    assert_eq!(bell.heard(), [7], "somebody waits");
    pool.set_open();
    assert_eq!(turn(&mut late).turn(), PoolTurn::New);
}

/// Regression: a request whose turn came just before the pool ended had no socket to connect to,
/// and did not have the pool started.
#[test]
fn request_with_a_turn_has_an_ended_pool_started() {
    let (pool, bell) = on_demand(2);
    pool.set_open();
    let turn = turn(&mut pool.ask(0));
    assert!(bell.heard().is_empty());
    pool.set_stopped();
    assert_eq!(bell.heard(), [7]);
    assert!(pool.is_wanted());
    drop(turn);
    assert!(!pool.is_wanted(), "the request has failed meanwhile");
}

/// Regression: the pool was killed while a script worked on after its client had left.
#[test]
fn pool_does_not_stop_while_child_works() {
    let (pool, _) = on_demand(1);
    pool.set_open();
    let lease = turn(&mut pool.ask(0));
    let (connection, child) = working();
    pool.leave_working(connection);
    drop(lease);
    assert_eq!(pool.close_if_idle(Duration::ZERO), Err(pool_state::StillUsed::Busy));
    assert!(pool.idle_for().is_none() && !pool.is_quiet());
    drop(child);
    assert_eq!(pool.close_if_idle(Duration::ZERO), Ok(()));
    assert!(pool.is_quiet());
}

/// Regression: a pool that was to be stopped served no request for as long as a script worked on.
#[test]
fn long_work_opens_closing_pool_again() {
    let (pool, _) = on_demand(2);
    pool.set_open();
    let lease = turn(&mut pool.ask(0));
    pool.close();
    let mut waits = pool.ask(0);
    assert!(poll(&mut waits).is_pending());
    let (connection, child) = working();
    pool.leave_working(connection);
    drop(lease);
    let long = Duration::from_secs(3600);
    pool.reopen_if_working(long);
    assert!(!pool.has_worked(long) && pool.is_shut() && !pool.is_quiet(), "the work is short");
    pool.reopen_if_working(Duration::ZERO);
    assert_eq!(turn(&mut waits).turn(), PoolTurn::New);
    assert_eq!(pool.gate(), Some((PoolState::Open, 1)));
    assert!(pool.has_worked(Duration::ZERO));
    drop(child);
    pool.close();
    pool.reopen_if_working(Duration::ZERO);
    assert!(pool.is_shut() && pool.is_quiet(), "the work has ended");
}

/// Regression: two cores that closed idle connections at once restarted the idle time.
#[test]
fn close_of_idle_connections_keeps_idle_time() {
    let (pool, _) = on_demand(2);
    pool.set_open();
    let leases = [turn(&mut pool.ask(0)), turn(&mut pool.ask(1))];
    for lease in leases {
        assert!(lease.finish(|| {}).is_none());
    }
    let idle = Some(Duration::from_millis(5));
    while pool.idle_for() < idle {
        std::thread::yield_now();
    }
    assert_eq!(pool.close_if_idle(Duration::ZERO), Err(pool_state::StillUsed::Kept));
    assert_eq!([reclaimed(&pool, 0), reclaimed(&pool, 1)], [1, 1]);
    pool.closed(1);
    pool.closed(1);
    assert!(pool.idle_for() >= idle);
}

#[test]
fn cores_close_idle_connections_before_stop() {
    let (pool, _) = on_demand(1);
    pool.set_open();
    assert!(turn(&mut pool.ask(0)).finish(|| {}).is_none());
    assert_eq!(pool.close_if_idle(Duration::ZERO), Err(pool_state::StillUsed::Kept));
    assert_eq!(reclaimed(&pool, 0), 1);
    let (connection, child) = working();
    pool.leave_working(connection);
    pool.closed(1);
    assert_eq!(pool.close_if_idle(Duration::ZERO), Err(pool_state::StillUsed::Busy));
    drop(child);
    assert_eq!(pool.close_if_idle(Duration::ZERO), Ok(()));
}

#[test]
fn an_idle_pool_is_stopped_after_its_time_or_when_others_need_its_place() {
    let (pool, bell) = on_demand(1);
    pool.set_open();
    drop(turn(&mut pool.ask(0)));
    assert!(bell.heard().is_empty(), "nobody else wants to run");
    bell.press(true);
    drop(turn(&mut pool.ask(0)));
    assert_eq!(bell.heard(), [7]);
    let long = Duration::from_secs(3600);
    assert!(matches!(pool.close_if_idle(long), Err(pool_state::StillUsed::For(left)) if left <= long));
    assert!(pool.idle_for().is_some());
    assert_eq!(pool.close_if_idle(Duration::ZERO), Ok(()));
    assert_eq!(pool.gate(), Some((PoolState::Closing, 1)));
}

#[test]
fn no_more_is_kept_than_may_be() {
    let pool = Pool::new(PoolBounds { connections_max: 2, queue_max: 9, idle_max: 1 }, 2);
    let [first, second] = [turn(&mut pool.ask(0)), turn(&mut pool.ask(1))];
    assert!(first.finish(|| {}).is_none());
    assert!(second.finish(|| panic!("one is kept already")).is_some());
    assert_eq!(pool.snapshot().open, 1);
}

/// An event of a pool with two cores.
#[derive(Clone, Debug)]
enum PoolStep {
    Ask(usize),
    Poll(usize),
    Leave(usize),
    Finish(usize),
    Break(usize),
    Janitor(usize),
    Retire(usize),
}

fn step() -> impl Strategy<Value = PoolStep> {
    prop_oneof![
        4 => (0usize..2).prop_map(PoolStep::Ask),
        6 => (0usize..8).prop_map(PoolStep::Poll),
        1 => (0usize..8).prop_map(PoolStep::Leave),
        4 => (0usize..8).prop_map(PoolStep::Finish),
        1 => (0usize..8).prop_map(PoolStep::Break),
        2 => (0usize..2).prop_map(PoolStep::Janitor),
        1 => (0usize..2).prop_map(PoolStep::Retire),
    ]
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_orders_keep_place_counts_and_fairness(
        steps in prop::collection::vec(step(), 0..200),
        connections_max in 1usize..4,
    ) {
        let pool = pool(connections_max, 5);
        let mut waiting: Vec<WaitingRequest> = Vec::new();
        let mut leases: Vec<(usize, PoolPermit)> = Vec::new();
        // Connections that each core keeps, as counted by the cores themselves.
        let mut kept: BTreeMap<usize, usize> = BTreeMap::new();
        let take = |core: usize, lease: PoolPermit, kept: &mut BTreeMap<usize, usize>, leases: &mut Vec<_>| {
            if lease.turn() == PoolTurn::Kept {
                let count = kept.get_mut(&core).expect("there is one");
                *count = count.checked_sub(1).expect("there is one");
            }
            leases.push((core, lease));
        };
        for step in steps {
            match step {
                PoolStep::Ask(core) => waiting.push(pool.ask(core)),
                PoolStep::Poll(at) if !waiting.is_empty() => {
                    let at = at % waiting.len();
                    match poll(&mut waiting[at]) {
                        Poll::Pending => {}
                        Poll::Ready(turn) => {
                            let core = waiting.remove(at).core;
                            if let Ok(lease) = turn { take(core, lease, &mut kept, &mut leases) }
                        }
                    }
                }
                PoolStep::Leave(at) if !waiting.is_empty() => { waiting.remove(at % waiting.len()); }
                PoolStep::Finish(at) if !leases.is_empty() => {
                    let (core, lease) = leases.remove(at % leases.len());
                    drop(lease.finish(|| *kept.entry(core).or_default() += 1));
                }
                PoolStep::Break(at) if !leases.is_empty() => { leases.remove(at % leases.len()); }
                PoolStep::Janitor(core) => {
                    let count = reclaimed(&pool, core);
                    if count > 0 {
                        let of_core = kept.get_mut(&core).expect("it keeps some");
                        *of_core = of_core.checked_sub(count).expect("it keeps so many");
                        pool.closed(count);
                    }
                }
                PoolStep::Retire(core) if pool.retire(core) => {
                    *kept.get_mut(&core).expect("kept") -= 1;
                    pool.closed(1);
                }
                _ => {}
            }
            let open = pool.snapshot().open;
            prop_assert!(open <= connections_max);
            prop_assert!(leases.len() + kept.values().sum::<usize>() <= open);
        }
        // At the end every request gets a turn: one round to enter the queue, another for the
        // janitors to make room.
        leases.clear();
        let mut rounds = 0;
        while !waiting.is_empty() {
            let before = waiting.len();
            for core in 0..2 {
                let count = reclaimed(&pool, core);
                if count > 0 { pool.closed(count) }
            }
            waiting.retain_mut(|waiting| poll(waiting).is_pending());
            rounds = if waiting.len() < before { 0 } else { rounds + 1 };
            prop_assert!(rounds < 2, "nobody was served: {:?}", pool);
        }
        let snapshot = pool.snapshot();
        prop_assert_eq!((snapshot.busy, snapshot.queue), (0, 0));
    }
}

#[test]
fn longest_running_requests_are_named() {
    let pool = pool(2, 2);
    let start = Instant::now();
    let name = |target: &str, seconds| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n");
        match vermeil_http::parse(head.as_bytes(), &ConnectionLimits::default()) {
            ParsedPart::Complete { request, .. } => {
                RunningRequest::new(&request, start + Duration::from_secs(seconds))
            }
            _ => panic!("{target}"),
        }
    };
    let [mut young, mut old] = [turn(&mut pool.ask(0)), turn(&mut pool.ask(0))];
    young.serve(name("/young?secret", 2), 5);
    old.serve(name(&format!("/{}", "x".repeat(1000)), 1), 5);
    let paths = |max| -> Vec<String> {
        let of = |request: &RunningRequest| request.path().escape_ascii().to_string();
        pool.longest_running(max).iter().map(of).collect()
    };
    // The method and the host take a part of the bytes.
    assert_eq!(paths(9), [format!("/{}", "x".repeat(243)), "/young".to_owned()]);
    assert_eq!(paths(1).len(), 1);
    let first = &pool.longest_running(1)[0];
    assert_eq!((first.method(), first.host()), (&b"GET"[..], &b"a.example"[..]));
    drop(old);
    assert_eq!(paths(9), ["/young"]);
    assert!(young.finish(|| ()).is_none());
    assert!(paths(9).is_empty());
    let counted: Vec<_> = pool.times().wait.classes().map(|(_, count)| count).collect();
    assert_eq!(counted, [2]);
}
