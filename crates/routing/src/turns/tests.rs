//! Bounds, order and fairness by cases, and random histories against a plain model.

use super::*;
use proptest::prelude::*;
use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

/// A request that waits for its turn.
type TurnRequest = Pin<Box<dyn Future<Output = Result<HostTurn, WaitingFull>>>>;

const BOUNDS: ProgramBounds = ProgramBounds { running_max: 4, host_running_max: 2, host_waiting_max: 3 };
const A: HostNumber = HostNumber(0);
const B: HostNumber = HostNumber(1);

fn ask(turns: &Arc<HostTurns>, host: HostNumber) -> TurnRequest {
    Box::pin(turns.clone().turn(host))
}

fn poll(waiting: &mut TurnRequest) -> Poll<Result<HostTurn, WaitingFull>> {
    waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn turn(turns: &Arc<HostTurns>, host: HostNumber) -> HostTurn {
    match poll(&mut ask(turns, host)) {
        Poll::Ready(Ok(turn)) => turn,
        other => panic!("no turn: {other:?}"),
    }
}

fn waiting(turns: &Arc<HostTurns>, host: HostNumber) -> TurnRequest {
    let mut waiting = ask(turns, host);
    assert!(poll(&mut waiting).is_pending());
    waiting
}

fn has_turn(waiting: &mut TurnRequest) -> Option<HostTurn> {
    match poll(waiting) {
        Poll::Ready(turn) => Some(turn.expect("it was let in")),
        Poll::Pending => None,
    }
}

#[test]
fn a_host_has_its_own_bound_and_its_own_queue() {
    let turns = HostTurns::new(BOUNDS);
    let running = [turn(&turns, A), turn(&turns, A)];
    let mut queue = [waiting(&turns, A), waiting(&turns, A), waiting(&turns, A)];
    assert!(matches!(poll(&mut ask(&turns, A)), Poll::Ready(Err(WaitingFull { waiting: 3 }))));
    let other = turn(&turns, B);
    assert_eq!(turns.now(), (3, 3));
    drop(running);
    let granted: Vec<_> = queue.iter_mut().map(has_turn).collect();
    assert_eq!(granted.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
    drop((granted, other));
    assert!(has_turn(&mut queue[2]).is_some());
    assert_eq!(turns.now(), (0, 0));
    assert!(turns.lock().is_empty(), "nothing is kept of hosts that do nothing");
}

#[test]
fn hosts_that_wait_take_turns() {
    let turns = HostTurns::new(ProgramBounds { running_max: 1, ..BOUNDS });
    let mut running = Some(turn(&turns, A));
    let mut of_a = vec![waiting(&turns, A), waiting(&turns, A), waiting(&turns, A)];
    let mut of_b = vec![waiting(&turns, B), waiting(&turns, B)];
    let mut order = String::new();
    while running.take().is_some() {
        for (name, queue) in [('a', &mut of_a), ('b', &mut of_b)] {
            queue.retain_mut(|waiting| match has_turn(waiting) {
                Some(turn) => {
                    order.push(name);
                    running = Some(turn);
                    false
                }
                None => true,
            });
        }
    }
    assert_eq!(order, "ababa");
}

#[test]
fn leaving_request_passes_turn_on() {
    let turns = HostTurns::new(ProgramBounds { running_max: 1, ..BOUNDS });
    let running = turn(&turns, A);
    let (first, second, mut third) = (waiting(&turns, A), waiting(&turns, B), waiting(&turns, A));
    drop(second);
    drop(running);
    drop(first);
    assert!(has_turn(&mut third).is_some(), "the first had been given it, and left");
    assert_eq!(turns.now(), (0, 0));
}

#[derive(Clone, Debug)]
enum TurnsStep {
    Ask(usize),
    /// Ends the running program at this place, modulo their number.
    End(usize),
    /// Drops the waiting request at this place.
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<TurnsStep>> {
    let step = prop_oneof![
        (0..5usize).prop_map(TurnsStep::Ask),
        any::<usize>().prop_map(TurnsStep::End),
        any::<usize>().prop_map(TurnsStep::Leave),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn random_orders_keep_turns_within_bounds(steps in steps()) {
        let turns = HostTurns::new(BOUNDS);
        let mut running: Vec<(usize, HostTurn)> = Vec::new();
        let mut queue: Vec<(usize, TurnRequest)> = Vec::new();
        for step in steps {
            match step {
                TurnsStep::Ask(host) => {
                    let waits = queue.iter().filter(|(of, _)| *of == host).count();
                    let mut waiting = ask(&turns, HostNumber(host));
                    match poll(&mut waiting) {
                        Poll::Ready(Ok(turn)) => running.push((host, turn)),
                        Poll::Ready(Err(full)) => prop_assert_eq!(full.waiting, BOUNDS.host_waiting_max),
                        Poll::Pending => {
                            prop_assert!(waits < BOUNDS.host_waiting_max);
                            queue.push((host, waiting));
                        }
                    }
                }
                TurnsStep::End(place) if !running.is_empty() => drop(running.swap_remove(place % running.len())),
                TurnsStep::Leave(place) if !queue.is_empty() => drop(queue.remove(place % queue.len())),
                TurnsStep::End(_) | TurnsStep::Leave(_) => {}
            }
            // Polls every request, in the order of asking.
            let mut held_back = [false; 5];
            let mut still = Vec::new();
            for (host, mut waiting) in queue {
                match poll(&mut waiting) {
                    Poll::Ready(turn) => {
                        prop_assert!(!held_back[host], "overtaken within its host");
                        running.push((host, turn.expect("it was let in")));
                    }
                    Poll::Pending => {
                        held_back[host] = true;
                        still.push((host, waiting));
                    }
                }
            }
            queue = still;
            let of = |host| running.iter().filter(|(of, _)| *of == host).count();
            prop_assert!(running.len() <= BOUNDS.running_max);
            prop_assert!((0..5).all(|host| of(host) <= BOUNDS.host_running_max));
            // No request waits that could run.
            let all_full = running.len() == BOUNDS.running_max;
            let could_run = |host: usize| !all_full && of(host) < BOUNDS.host_running_max;
            prop_assert!(!queue.iter().any(|(host, _)| could_run(*host)));
            prop_assert_eq!(turns.now(), (running.len(), queue.len()));
        }
        drop((running, queue));
        prop_assert!(turns.lock().is_empty());
    }
}
