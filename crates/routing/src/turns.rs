//! Decides which host's program or password check may run next: a bound for all hosts, a bound per
//! host, and a bounded queue per host.
//!
//! Three fair semaphores in a row decide: the permits of the host, the front of the host, and the
//! permits of all hosts. Only the request at the front of its host waits for a permit of all hosts.
//! So waiting hosts take turns, however many requests each has. A flooded host fills only its own
//! bound and queue, and delays other hosts by one program at most. The lock around the table of
//! hosts is no bottleneck, because a program costs a thousand times as much as the lock. Tested in
//! `turns/tests.rs`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};
use vermeil::{Semaphore, SemaphorePermit};
use vermeil_settings::cgi::ProgramBounds;

#[cfg(test)]
mod tests;

/// A host, by a number that the caller chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostNumber(pub usize);

/// The state that all cores share.
#[derive(Debug)]
pub struct HostTurns {
    bounds: ProgramBounds,
    all: Semaphore,
    /// Only hosts with running programs or waiting requests.
    hosts: Mutex<HashMap<HostNumber, HostState>>,
}

#[derive(Debug)]
struct HostState {
    running: Semaphore,
    /// The single permit belongs to the host's request that waits for a permit of all hosts.
    front: Semaphore,
    waiting: usize,
}

/// The host's queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingFull {
    /// The number of waiting requests.
    pub waiting: usize,
}

/// A request in the queue of its host.
struct WaitingTurn {
    turns: Arc<HostTurns>,
    host: HostNumber,
    running: Semaphore,
    front: Semaphore,
}

/// How a request continues after a look at the bounds.
enum TurnOutcome {
    Runs(HostTurn),
    Waits(WaitingTurn),
}

impl HostTurns {
    /// Turns within `bounds`.
    pub fn new(bounds: ProgramBounds) -> Arc<Self> {
        Arc::new(Self { bounds, all: Semaphore::new(bounds.running_max), hosts: Mutex::default() })
    }

    /// Waits for the turn of a request of `host`. A dropped future leaves the queue.
    ///
    /// # Errors
    /// The queue of the host is full.
    pub async fn turn(self: Arc<Self>, host: HostNumber) -> Result<HostTurn, WaitingFull> {
        let waiting = match self.enter(host)? {
            TurnOutcome::Runs(turn) => return Ok(turn),
            TurnOutcome::Waits(waiting) => waiting,
        };
        let of_host = waiting.running.acquire().await;
        let front = waiting.front.acquire().await;
        let of_all = self.all.acquire().await;
        drop((front, waiting));
        Ok(HostTurn { permits: Some((of_all, of_host)), turns: self, host })
    }

    /// Takes a turn, or a place in the queue of the host.
    fn enter(self: &Arc<Self>, host: HostNumber) -> Result<TurnOutcome, WaitingFull> {
        let mut hosts = self.lock();
        let state = hosts.entry(host).or_insert_with(|| HostState {
            running: Semaphore::new(self.bounds.host_running_max),
            front: Semaphore::new(1),
            waiting: 0,
        });
        // Requests that already wait go first. Other hosts' requests wait only for their own bound,
        // unless the bound of all hosts is reached.
        if state.waiting == 0
            && let Some(of_host) = state.running.try_acquire()
            && let Some(of_all) = self.all.try_acquire()
        {
            return Ok(TurnOutcome::Runs(HostTurn {
                permits: Some((of_all, of_host)),
                turns: self.clone(),
                host,
            }));
        }
        let waiting = state.waiting;
        if waiting >= self.bounds.host_waiting_max {
            self.forget_idle(&mut hosts, host);
            return Err(WaitingFull { waiting });
        }
        state.waiting += 1;
        let (running, front) = (state.running.clone(), state.front.clone());
        Ok(TurnOutcome::Waits(WaitingTurn { turns: self.clone(), host, running, front }))
    }

    /// Running programs and waiting requests.
    pub fn now(&self) -> (usize, usize) {
        let hosts = self.lock();
        (self.bounds.running_max - self.all.free(), hosts.values().map(|host| host.waiting).sum())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<HostNumber, HostState>> {
        self.hosts.lock().expect("nothing panics under this lock")
    }

    fn forget_idle(&self, hosts: &mut HashMap<HostNumber, HostState>, host: HostNumber) {
        let is_idle =
            |state: &HostState| state.waiting == 0 && state.running.free() == self.bounds.host_running_max;
        if hosts.get(&host).is_some_and(is_idle) {
            hosts.remove(&host);
        }
    }
}

impl Drop for WaitingTurn {
    fn drop(&mut self) {
        let mut hosts = self.turns.lock();
        hosts.get_mut(&self.host).expect("a host with waiting requests is known").waiting -= 1;
        self.turns.forget_idle(&mut hosts, self.host);
    }
}

/// The permit to run one program. Dropping this value ends the turn.
#[derive(Debug)]
pub struct HostTurn {
    /// Of all hosts and of the host; `None` only while the turn ends.
    permits: Option<(SemaphorePermit, SemaphorePermit)>,
    turns: Arc<HostTurns>,
    host: HostNumber,
}

impl Drop for HostTurn {
    fn drop(&mut self) {
        drop(self.permits.take());
        self.turns.forget_idle(&mut self.turns.lock(), self.host);
    }
}
