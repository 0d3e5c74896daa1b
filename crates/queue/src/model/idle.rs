//! Searching: a token queued during a search is found by the searcher or wakes another core.

use super::color;
use crate::{Event, IdleCoordinator, ReadyQueue, Run, Token};
use loom::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};
use std::collections::VecDeque;

struct Nothing;

impl Run for Nothing {
    fn run(self) {}
}

struct IdleMachine {
    /// Tokens that a busy core cannot reach.
    ready: ReadyQueue<VecDeque<Token>>,
    idle: IdleCoordinator,
    woken: AtomicU32,
}

impl IdleMachine {
    fn new() -> Arc<Self> {
        let ready = ReadyQueue::new(VecDeque::new(), VecDeque::len);
        Arc::new(Self { ready, idle: IdleCoordinator::default(), woken: AtomicU32::new(0) })
    }

    fn post(&self) {
        let token = color().push(Event::once(Nothing)).expect("the color is new");
        self.ready.with(|tokens| tokens.push_back(token));
        if !self.idle.is_searching() && self.idle.begin_search() {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The token was found, or woke a core; in the end nothing is left.
    fn found_or_woken(&self, found: usize) {
        let woken = self.woken.load(Ordering::Relaxed);
        assert!(found == 1 || woken == 1, "found {found}, woken {woken}");
        self.look();
    }

    /// A remote look takes the lock only if the length is above zero.
    fn look(&self) -> usize {
        if self.ready.is_empty() {
            0
        } else {
            self.ready.with(|tokens| tokens.drain(..).map(discard).count())
        }
    }
}

fn discard(token: Token) {
    token.discard();
}

#[test]
fn token_queued_during_search_is_found_or_wakes_a_core() {
    loom::model(|| {
        let machine = IdleMachine::new();
        assert!(machine.idle.begin_search());
        let poster = machine.clone();
        let thread = thread::spawn(move || poster.post());
        let mut found = machine.look();
        machine.idle.end_search();
        found += machine.look();
        thread.join().unwrap();
        machine.found_or_woken(found);
    });
}

/// A search that begins between the producer's two reads.
#[test]
fn searcher_finds_tokens_of_producers_that_skip_wakes() {
    loom::model(|| {
        let machine = IdleMachine::new();
        let poster = machine.clone();
        let thread = thread::spawn(move || poster.post());
        let mut found = 0;
        let begun = machine.idle.begin_search();
        if begun {
            found += machine.look();
            machine.idle.end_search();
            found += machine.look();
        }
        thread.join().unwrap();
        machine.found_or_woken(found);
    });
}

/// The watcher is woken for work of its own, while a producer queues a token and asks for a
/// watcher.
#[test]
fn watcher_that_runs_misses_no_token() {
    loom::model(|| {
        const WATCHER: u32 = 0;
        let machine = IdleMachine::new();
        assert!(machine.idle.calls_watcher(100, 10));
        assert!(machine.idle.begin_watch(WATCHER));
        let poster = machine.clone();
        let thread = thread::spawn(move || {
            let token = color().push(Event::once(Nothing)).expect("the color is new");
            poster.ready.with(|tokens| tokens.push_back(token));
            !poster.idle.is_watched() && poster.idle.calls_watcher(101, 10)
        });
        machine.idle.end_watch(WATCHER);
        assert!(machine.idle.end_duty(WATCHER));
        let found = machine.look();
        let called = thread.join().unwrap();
        assert!(found == 1 || called, "a token waits, and no core will look");
        machine.look();
    });
}

#[test]
fn coordinator_limits_calls_while_a_core_watches() {
    loom::model(|| {
        let idle = IdleCoordinator::default();
        assert!(idle.calls_watcher(100, 10));
        idle.give_duty(1);
        assert!(!idle.calls_watcher(101, 10));
        assert!(!idle.end_duty(0), "core 1 has the duty");
        assert!(!idle.calls_watcher(102, 10));
        assert!(idle.end_duty(1));
        assert!(idle.calls_watcher(103, 10));
    });
}

#[test]
fn coordinator_wakes_one_thief_and_admits_one_watcher() {
    loom::model(|| {
        let machine = IdleMachine::new();
        let threads: Vec<_> = (0..2)
            .map(|core| {
                let machine = machine.clone();
                thread::spawn(move || {
                    machine.post();
                    // The call comes from a core without the duty.
                    machine.idle.give_duty(core);
                    (machine.idle.begin_watch(core), machine.idle.calls_watcher(100, 10))
                })
            })
            .collect();
        let watch: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(machine.woken.load(Ordering::Relaxed), 1);
        assert_eq!(watch.iter().filter(|(watches, _)| *watches).count(), 1);
        assert_eq!(watch.iter().filter(|(_, calls)| *calls).count(), 1);
        machine.look();
    });
}
