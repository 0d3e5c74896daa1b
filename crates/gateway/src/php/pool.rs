//! Access to the connections of a PHP pool from all cores: as many connections as PHP has children,
//! and a queue in front.
//!
//! A child serves a single connection for as long as the connection is open. So every open
//! connection, busy or idle, holds one of the *places*, and there are as many places as children.
//! An idle connection on one core would starve requests that wait on another core. Therefore:
//!
//! - Requests of all cores wait in a common queue, first in, first out. The queue has no semaphore,
//!   because a turn is a certain connection of a core or a new one, and no mere permit.
//! - A connection that becomes free goes to the first request in the queue. If that request waits
//!   on the same core, it gets the connection unchanged. Otherwise the connection is closed and its
//!   place moves to the request.
//! - If all places are taken and some core keeps idle connections, that core is asked to close one.
//! - A child that works on although its request is over (`working.rs`) accepts no connection. A new
//!   connection takes its place all the same, and waits for a free child in the queue of the
//!   socket. So cores are asked to close the idle connections that hold such children.
//!
//! A pool on demand also has a state (`pool/pool_state.rs`). All requests wait until the pool runs.
//!
//! Pure but for a mutex and wakers, because `idle.rs` holds the connections themselves. Tested in
//! `pool/tests.rs`.

use super::{
    running::{RunningRequest, RunningRequests, RunningSlot},
    snapshot::{PhpCounters, PoolSnapshot},
    working::WorkingChildren,
};
use pool_state::DemandState;
use std::{
    os::unix::net::UnixStream,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    time::Duration,
};
use vermeil::{WaitQueue, WaitTicket};
use vermeil_exchange::ProgramTimes;

pub(super) mod pool_state;

#[cfg(test)]
mod tests;

/// The bounds of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolBounds {
    /// Connections open at once, on all cores.
    pub connections_max: usize,
    /// Requests that may wait.
    pub queue_max: usize,
    /// Connections kept between requests, on all cores.
    pub idle_max: usize,
}

/// State of the connections to PHP, shared by all cores.
#[derive(Debug)]
pub struct Pool {
    bounds: PoolBounds,
    state: Mutex<ConnectionState>,
}

#[derive(Debug)]
struct ConnectionState {
    /// Places taken: connections open, being opened, or granted.
    open: usize,
    cores: Vec<CoreState>,
    queue: WaitQueue<PoolWaiter>,
    /// Places given to requests whose future has not noticed yet.
    granted: Vec<(WaitTicket, PoolTurn)>,
    counters: PhpCounters,
    running: RunningRequests,
    /// Children that work on although their requests are over.
    working: WorkingChildren,
    /// `Some` for a pool on demand.
    demand: Option<DemandState>,
    /// Whether no turns are given, because no process serves the pool. Pools on demand have a gate.
    is_paused: bool,
    /// Whether no connection is kept any more, because the pool is about to end.
    keeps_none: bool,
}

#[derive(Debug, Default)]
struct CoreState {
    /// Idle connections of the core, not granted to a request.
    idle: usize,
    /// Connections that the core was asked to close.
    reclaimed: usize,
    janitor: Option<Waker>,
}

#[derive(Debug)]
struct PoolWaiter {
    core: usize,
    waker: Waker,
}

/// The connection that a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolTurn {
    /// An idle connection of the request's core.
    Kept,
    /// A new connection.
    New,
}

/// The queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

impl Pool {
    pub fn new(bounds: PoolBounds, cores: usize) -> Arc<Self> {
        Self::with(bounds, cores, None)
    }

    fn with(bounds: PoolBounds, cores: usize, demand: Option<DemandState>) -> Arc<Self> {
        let state = ConnectionState {
            open: 0,
            cores: (0..cores).map(|_| CoreState::default()).collect(),
            queue: WaitQueue::default(),
            granted: Vec::new(),
            counters: PhpCounters::default(),
            running: RunningRequests::default(),
            working: WorkingChildren::default(),
            demand,
            is_paused: false,
            keeps_none: false,
        };
        Arc::new(Self { bounds, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// A request of `core` asks for a turn; await it with [`WaitingRequest::poll`].
    pub fn ask(self: &Arc<Self>, core: usize) -> WaitingRequest {
        WaitingRequest { pool: self.clone(), core, ticket: None }
    }

    /// The number of connections that `core` must close now.
    pub fn poll_reclaimed(&self, core: usize, context: &mut Context<'_>) -> Poll<usize> {
        let mut state = self.lock();
        let core = &mut state.cores[core];
        if core.reclaimed > 0 {
            return Poll::Ready(std::mem::take(&mut core.reclaimed));
        }
        core.janitor = Some(context.waker().clone());
        Poll::Pending
    }

    /// `count` connections that were reclaimed or retired have been closed.
    pub fn closed(&self, count: usize) {
        let mut state = self.lock();
        state.open -= count;
        state.dispatch(self.bounds);
    }

    /// Whether `core` may close a connection that has been idle too long. If so, the core closes it
    /// and calls [`closed`](Self::closed).
    pub fn retire(&self, core: usize) -> bool {
        let mut state = self.lock();
        let of_core = &mut state.cores[core];
        if of_core.idle == 0 {
            return false;
        }
        of_core.idle -= 1;
        true
    }

    /// From now on, keeps connections only for waiting requests.
    pub fn keep_none(&self) {
        let mut state = self.lock();
        state.keeps_none = true;
        state.dispatch(self.bounds);
    }

    /// Gives no turns from now on, because no process serves the pool. Requests wait in the queue.
    pub fn pause(&self) {
        let mut state = self.lock();
        state.is_paused = true;
        state.dispatch(self.bounds);
    }

    /// Gives turns again, because the pool has been started again.
    pub fn resume(&self) {
        let mut state = self.lock();
        state.is_paused = false;
        state.dispatch(self.bounds);
    }

    /// Whether no turns are given, because the pool does not run.
    pub fn is_shut(&self) -> bool {
        self.lock().is_shut()
    }

    /// Whether the pool may be stopped while the server runs.
    pub fn may_stop(&self) -> bool {
        let state = self.lock();
        state.demand.is_some() || state.keeps_none
    }

    /// A child works on although its request is over. `connection` leads to the child. Call this
    /// before the place of the connection is given back, so that the pool does not stop in between.
    pub fn leave_working(&self, connection: UnixStream) {
        let mut state = self.lock();
        // Once for each child, and once more for connections that no child has accepted yet.
        state.working.add(connection, 2 * self.bounds.connections_max);
        state.dispatch(self.bounds);
    }

    /// Whether a child works on although its request is over.
    pub fn has_working(&self) -> bool {
        self.lock().working.is_any()
    }

    /// Whether a child has worked on for `time` although its request is over.
    pub fn has_worked(&self, time: Duration) -> bool {
        self.lock().working.is_any_for(time)
    }

    /// Whether some granted turns have not been taken yet.
    pub fn has_granted(&self) -> bool {
        !self.lock().granted.is_empty()
    }

    /// The counts of the pool.
    pub fn snapshot(&self) -> PoolSnapshot {
        let state = self.lock();
        state.counters.snapshot(self.bounds, state.open, state.idle(), state.queue.len())
    }

    /// The times of the requests.
    pub fn times(&self) -> ProgramTimes {
        self.lock().counters.times()
    }

    /// The requests that children are in for the longest time, at most `max`.
    pub fn longest_running(&self, max: usize) -> Vec<RunningRequest> {
        self.lock().running.longest(max)
    }

    pub fn count(&self, count: impl FnOnce(&mut PhpCounters)) {
        count(&mut self.lock().counters);
    }
}

impl ConnectionState {
    /// Number of connections without a request, including those that cores must close.
    fn idle(&self) -> usize {
        self.cores.iter().map(|core| core.idle + core.reclaimed).sum()
    }

    fn is_shut(&self) -> bool {
        self.is_paused || self.demand.as_ref().is_some_and(DemandState::is_shut)
    }

    /// Takes a turn for `core`, if a place or a kept connection is free.
    fn take(&mut self, core: usize, bounds: PoolBounds) -> Option<PoolTurn> {
        if self.is_shut() {
            return None;
        }
        let turn = if self.cores[core].idle > 0 {
            self.cores[core].idle -= 1;
            PoolTurn::Kept
        } else if self.open < bounds.connections_max {
            self.open += 1;
            PoolTurn::New
        } else {
            return None;
        };
        if let Some(demand) = &mut self.demand {
            demand.begin_use();
        }
        Some(turn)
    }

    /// Gives turns to waiting requests in order. Asks cores to close idle connections for the rest.
    fn dispatch(&mut self, bounds: PoolBounds) {
        while let Some(first) = self.queue.first() {
            let Some(turn) = self.take(first.core, bounds) else { break };
            let (ticket, waiter) = self.queue.grant_first().expect("it was the first");
            self.granted.push((ticket, turn));
            waiter.waker.wake();
        }
        // Idle connections of a pool that is about to stop have no further use.
        let are_vain = self.is_shut() || self.keeps_none && self.queue.is_empty();
        let wanted = if are_vain { usize::MAX } else { self.queue.len() + self.excess(bounds) };
        self.reclaim(wanted);
        self.tell_supervisor();
    }

    /// The number of open connections for which no child is free, because children work on for
    /// requests that are over.
    fn excess(&mut self, bounds: PoolBounds) -> usize {
        if self.open + self.working.count() > bounds.connections_max {
            self.working.forget_ended();
        }
        (self.open + self.working.count()).saturating_sub(bounds.connections_max)
    }

    /// Asks cores to close `wanted` idle connections, including those that were asked for before.
    fn reclaim(&mut self, mut wanted: usize) {
        for core in &mut self.cores {
            wanted = wanted.saturating_sub(core.reclaimed);
        }
        for core in &mut self.cores {
            let count = core.idle.min(wanted);
            core.idle -= count;
            core.reclaimed += count;
            wanted -= count;
            if count > 0
                && let Some(janitor) = core.janitor.take()
            {
                janitor.wake();
            }
        }
    }

    /// The turn that was given to the request with `ticket`.
    fn take_granted(&mut self, ticket: WaitTicket) -> Option<PoolTurn> {
        let place = self.granted.iter().position(|(granted, _)| *granted == ticket)?;
        Some(self.granted.swap_remove(place).1)
    }

    /// Takes back an unused turn.
    fn give_back(&mut self, core: usize, turn: PoolTurn, bounds: PoolBounds) {
        match turn {
            PoolTurn::Kept => self.cores[core].idle += 1,
            PoolTurn::New => self.open -= 1,
        }
        self.dispatch(bounds);
    }
}

/// A request in the queue. A dropped request leaves the queue.
#[derive(Debug)]
pub struct WaitingRequest {
    pool: Arc<Pool>,
    core: usize,
    ticket: Option<WaitTicket>,
}

impl WaitingRequest {
    /// Ready with the turn, or with an error if the queue is full.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<PoolPermit, QueueFull>> {
        let pool = self.pool.clone();
        let mut waiter = PoolWaiter { core: self.core, waker: context.waker().clone() };
        let mut state = pool.lock();
        let Some(ticket) = self.ticket else {
            return match self.enter(&mut state, waiter) {
                Ok(Some(turn)) => Poll::Ready(Ok(self.lease(turn))),
                Ok(None) => Poll::Pending,
                Err(full) => Poll::Ready(Err(full)),
            };
        };
        if state.queue.replace(ticket, &mut waiter) {
            return Poll::Pending;
        }
        let turn = state.take_granted(ticket).expect("a ticket waits or is granted");
        self.ticket = None;
        Poll::Ready(Ok(self.lease(turn)))
    }

    fn enter(
        &mut self,
        state: &mut ConnectionState,
        waiter: PoolWaiter,
    ) -> Result<Option<PoolTurn>, QueueFull> {
        let bounds = self.pool.bounds;
        if state.queue.is_empty()
            && let Some(turn) = state.take(self.core, bounds)
        {
            if turn == PoolTurn::New {
                // An idle connection may hold the child that the new connection needs.
                state.dispatch(bounds);
            }
            return Ok(Some(turn));
        }
        // These requests wait only for a core to close an idle connection, or for the pool to
        // start. No child is too busy for them, so they do not count.
        let soon = if state.is_shut() { bounds.connections_max } else { state.idle() };
        if state.queue.len() >= bounds.queue_max + soon {
            state.counters.refused += 1;
            return Err(QueueFull);
        }
        let ticket = state.queue.join(waiter);
        state.dispatch(bounds);
        let turn = state.take_granted(ticket);
        self.ticket = turn.is_none().then_some(ticket);
        Ok(turn)
    }

    fn lease(&self, turn: PoolTurn) -> PoolPermit {
        PoolPermit { pool: self.pool.clone(), core: self.core, turn, slot: None, done: false }
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.pool.lock();
        match state.take_granted(ticket) {
            Some(turn) => state.give_back(self.core, turn, self.pool.bounds),
            None => {
                let _left = state.queue.leave(ticket);
                // The dropped request may have held up the next request.
                state.dispatch(self.pool.bounds);
            }
        }
    }
}

/// A place among the connections, for one request. Dropping the lease frees the place, so the
/// connection must be closed by then.
#[derive(Debug)]
pub struct PoolPermit {
    pool: Arc<Pool>,
    core: usize,
    turn: PoolTurn,
    /// The slot of the request, for the status.
    slot: Option<RunningSlot>,
    done: bool,
}

impl PoolPermit {
    /// The connection that the lease allows.
    pub fn turn(&self) -> PoolTurn {
        self.turn
    }

    /// Counts the wait of a request, which a child now serves.
    pub fn serve(&mut self, request: RunningRequest, waited_ns: u64) {
        let mut state = self.pool.lock();
        state.counters.waited(waited_ns);
        self.slot = Some(state.running.begin(request));
    }

    /// Ends a request whose connection can be used again. To keep the connection, `finish` calls
    /// `keep` before another request can get it. If the connection is to be closed instead, returns
    /// the lease: close the connection, and drop the lease then.
    pub fn finish(mut self, keep: impl FnOnce()) -> Option<Self> {
        let pool = self.pool.clone();
        let mut state = pool.lock();
        let closes = match state.queue.first() {
            Some(first) if first.core != self.core => true,
            None if state.keeps_none || state.idle() >= pool.bounds.idle_max => true,
            _ => state.is_shut(),
        };
        if closes {
            return Some(self);
        }
        self.done = true;
        state.running.end(self.slot.take());
        keep();
        state.cores[self.core].idle += 1;
        state.dispatch(pool.bounds);
        None
    }
}

impl Drop for PoolPermit {
    fn drop(&mut self) {
        if !self.done {
            let slot = self.slot.take();
            let mut state = self.pool.lock();
            state.running.end(slot);
            state.open -= 1;
            state.dispatch(self.pool.bounds);
        }
    }
}
