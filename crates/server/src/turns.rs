//! Decides which host's program or password check may run next: a bound for all hosts, a bound per
//! host, and a bounded queue per host.
//!
//! Waiting hosts take turns, however many requests each has. Within a host, requests run in order.
//! So a flooded host fills only its own bound and queue, and delays other hosts by one program at
//! most. All cores share a lock, because a program costs a thousand times as much as the lock. Pure
//! except for the lock and wakers. Tested in `turns/tests.rs`.

use crate::settings::cgi::ProgramBounds;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};

#[cfg(test)]
mod tests;

/// A host, by a number that the caller chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HostNumber(pub(crate) usize);

/// The state that all cores share.
#[derive(Debug)]
pub(crate) struct HostTurns {
    bounds: ProgramBounds,
    state: Mutex<TurnsState>,
}

#[derive(Debug, Default)]
struct TurnsState {
    running: usize,
    /// Only hosts with running programs or waiting requests.
    hosts: HashMap<HostNumber, HostState>,
    /// Hosts with waiting requests, in the order of their turns.
    rotation: VecDeque<HostNumber>,
    tickets: u64,
}

#[derive(Debug, Default)]
struct HostState {
    running: usize,
    waiting: VecDeque<TurnTicket>,
    /// Turns that were granted and not yet taken.
    granted: Vec<u64>,
}

#[derive(Debug)]
struct TurnTicket {
    number: u64,
    waker: Waker,
}

/// The host's queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitingFull {
    /// The number of waiting requests.
    pub(crate) waiting: usize,
}

impl HostTurns {
    pub(crate) fn new(bounds: ProgramBounds) -> Arc<Self> {
        Arc::new(Self { bounds, state: Mutex::default() })
    }

    /// Asks for a turn for a request of `host`. Await the turn with [`WaitingTurn::poll`].
    pub(crate) fn ask(self: &Arc<Self>, host: HostNumber) -> WaitingTurn {
        WaitingTurn { turns: self.clone(), host, ticket: None }
    }

    /// Running programs and waiting requests.
    pub(crate) fn now(&self) -> (usize, usize) {
        let state = self.lock();
        (state.running, state.hosts.values().map(|host| host.waiting.len()).sum())
    }

    fn lock(&self) -> MutexGuard<'_, TurnsState> {
        self.state.lock().expect("nothing panics under this lock")
    }
}

impl TurnsState {
    /// Grants free turns, to each host in order.
    fn dispatch(&mut self, bounds: ProgramBounds) {
        let mut passed = 0;
        while self.running < bounds.running_max && passed < self.rotation.len() {
            let number = self.rotation.pop_front().expect("it is not empty");
            let host = self.hosts.get_mut(&number).expect("a host that waits is known");
            if host.running >= bounds.host_running_max {
                self.rotation.push_back(number);
                passed += 1;
                continue;
            }
            let ticket = host.waiting.pop_front().expect("a host of the rotation waits");
            host.granted.push(ticket.number);
            host.running += 1;
            self.running += 1;
            if !host.waiting.is_empty() {
                self.rotation.push_back(number);
            }
            passed = 0;
            ticket.waker.wake();
        }
    }

    /// A program of the host has ended, or a turn was not used.
    fn end(&mut self, number: HostNumber, bounds: ProgramBounds) {
        self.running -= 1;
        self.hosts.get_mut(&number).expect("it runs").running -= 1;
        self.dispatch(bounds);
        self.forget_idle(number);
    }

    fn forget_idle(&mut self, number: HostNumber) {
        if self.hosts.get(&number).is_some_and(|host| host.running == 0 && host.waiting.is_empty()) {
            self.hosts.remove(&number);
        }
    }
}

/// A request that waits for its turn. Dropping this value leaves the queue.
#[derive(Debug)]
pub(crate) struct WaitingTurn {
    turns: Arc<HostTurns>,
    host: HostNumber,
    ticket: Option<u64>,
}

impl WaitingTurn {
    /// Ready with the turn, or with an error if the queue is full.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<HostTurn, WaitingFull>> {
        let turns = self.turns.clone();
        let mut state = turns.lock();
        let Some(number) = self.ticket else { return self.enter(&mut state, context.waker()) };
        let host = state.hosts.get_mut(&self.host).expect("it waits or was given a turn");
        if let Some(place) = host.granted.iter().position(|granted| *granted == number) {
            host.granted.swap_remove(place);
            self.ticket = None;
            return Poll::Ready(Ok(self.turn()));
        }
        let ticket = host.waiting.iter_mut().find(|ticket| ticket.number == number);
        ticket.expect("it waits").waker.clone_from(context.waker());
        Poll::Pending
    }

    fn enter(&mut self, state: &mut TurnsState, waker: &Waker) -> Poll<Result<HostTurn, WaitingFull>> {
        let bounds = self.turns.bounds;
        let all_full = state.running >= bounds.running_max;
        let host = state.hosts.entry(self.host).or_default();
        // Requests that already wait go first. Other hosts' requests wait only for their own bound,
        // unless the bound of all hosts is reached.
        if host.waiting.is_empty() && host.running < bounds.host_running_max && !all_full {
            host.running += 1;
            state.running += 1;
            return Poll::Ready(Ok(self.turn()));
        }
        let waiting = host.waiting.len();
        if waiting >= bounds.host_waiting_max {
            state.forget_idle(self.host);
            return Poll::Ready(Err(WaitingFull { waiting }));
        }
        let number = state.tickets;
        state.tickets += 1;
        host.waiting.push_back(TurnTicket { number, waker: waker.clone() });
        if waiting == 0 {
            state.rotation.push_back(self.host);
        }
        self.ticket = Some(number);
        Poll::Pending
    }

    fn turn(&self) -> HostTurn {
        HostTurn { turns: self.turns.clone(), host: self.host }
    }
}

impl Drop for WaitingTurn {
    fn drop(&mut self) {
        let Some(number) = self.ticket else { return };
        let turns = self.turns.clone();
        let mut state = turns.lock();
        let host = state.hosts.get_mut(&self.host).expect("it waits or was given a turn");
        if let Some(place) = host.granted.iter().position(|granted| *granted == number) {
            host.granted.swap_remove(place);
            return state.end(self.host, turns.bounds);
        }
        host.waiting.retain(|ticket| ticket.number != number);
        if host.waiting.is_empty() {
            let number = self.host;
            state.rotation.retain(|waiting| *waiting != number);
            state.forget_idle(number);
        }
    }
}

/// The permit to run one program. Dropping this value ends the turn.
#[derive(Debug)]
pub(crate) struct HostTurn {
    turns: Arc<HostTurns>,
    host: HostNumber,
}

impl Drop for HostTurn {
    fn drop(&mut self) {
        self.turns.lock().end(self.host, self.turns.bounds);
    }
}
