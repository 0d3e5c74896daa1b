//! Pools on demand: a gate in front of the pool's places, and a bell that wakes the supervisor when
//! a pool is wanted or has become idle.
//!
//! ```text
//! Stopped ──▶ Starting ──▶ Open ──▶ Closing ──▶ Stopped
//!    ▲ rings when a request waits      │ no more turns; rings once no connection is open
//! ```
//!
//! A shut gate gives no turns. Requests wait in the pool's queue, within the bounds, so a pool that
//! is being stopped loses no request. Nor does a stop end a child that works on after its request
//! (`working.rs`): the pool is in use until then. If that work is long, the gate of a closing pool
//! opens again, because other children are free. Only the cores know whether the child of a kept
//! connection works, so they close these connections before the pool is stopped. Only the
//! supervisor changes the state (`own/demand.rs`). Tested in `pool/tests.rs`.

use super::{ConnectionState, Pool, PoolBounds};
use rustix::{
    event::{EventfdFlags, eventfd},
    io::{read, write},
};
use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// State of a pool on demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolState {
    /// The pool does not run.
    #[default]
    Stopped,
    /// The pool was asked for.
    Starting,
    /// The pool serves.
    Open,
    /// The pool finishes its requests, and is stopped then.
    Closing,
}

impl PoolState {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Open => "running",
            Self::Closing => "stopping",
        }
    }
}

/// The bell by which all pools wake their supervisor.
#[derive(Debug)]
pub struct Notifier {
    descriptor: OwnedFd,
    rung_by: Mutex<Vec<usize>>,
    /// Whether pools that become idle ring, because other pools wait for a slot.
    is_pressed: AtomicBool,
}

impl Notifier {
    /// # Errors
    /// Out of descriptors.
    pub fn new() -> io::Result<Arc<Self>> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { descriptor, rung_by: Mutex::default(), is_pressed: AtomicBool::new(false) }))
    }

    /// Readable after a ring.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    fn ring(&self, number: usize) {
        self.rung_by.lock().expect("nothing panics under this lock").push(number);
        self.wake();
    }

    /// Wakes the supervisor for no particular pool.
    pub fn wake(&self) {
        // A counter that is full is readable.
        let _ = write(&self.descriptor, &1u64.to_ne_bytes());
    }

    /// Returns the numbers of the pools that have rung.
    pub fn heard(&self) -> Vec<usize> {
        let _ = read(&self.descriptor, &mut [0; 8]);
        std::mem::take(&mut self.rung_by.lock().expect("nothing panics under this lock"))
    }

    /// Sets whether pools that become idle ring.
    pub fn press(&self, is_pressed: bool) {
        // Relaxed, because pools read it under their lock and the supervisor takes that lock
        // afterwards.
        self.is_pressed.store(is_pressed, Ordering::Relaxed);
    }
}

/// Additional state of a pool on demand.
#[derive(Debug)]
pub(super) struct DemandState {
    gate: PoolState,
    bell: Arc<Notifier>,
    number: usize,
    has_rung: bool,
    /// Start of the current time without requests, served or waiting. `None` while there are some.
    idle_since: Option<Instant>,
    opened: u64,
}

impl DemandState {
    pub(super) fn is_shut(&self) -> bool {
        self.gate != PoolState::Open
    }

    /// Ends the time without requests.
    pub(super) fn begin_use(&mut self) {
        self.idle_since = None;
    }

    fn idle_for(&self) -> Duration {
        self.idle_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn ring(&mut self) {
        if !std::mem::replace(&mut self.has_rung, true) {
            self.bell.ring(self.number);
        }
    }
}

impl ConnectionState {
    /// Rings if the supervisor must act. Call after every change.
    pub(super) fn tell_supervisor(&mut self) {
        if self.demand.is_none() {
            return;
        }
        let (is_idle, is_wanted) = (self.open == self.idle(), !self.queue.is_empty());
        let has_none_open = self.open == 0;
        let demand = self.demand_mut();
        match demand.gate {
            PoolState::Stopped if is_wanted || !is_idle => demand.ring(),
            PoolState::Closing if has_none_open => demand.ring(),
            PoolState::Open if is_idle && !is_wanted => {
                demand.idle_since.get_or_insert_with(Instant::now);
                if demand.bell.is_pressed.load(Ordering::Relaxed) {
                    demand.ring();
                }
            }
            // A turn begins the use itself. A connection that a core is closing is no use, although
            // the connection is open and no longer idle.
            PoolState::Open if is_wanted => demand.begin_use(),
            _ => {}
        }
    }

    /// Whether requests are served or wait, or a child works on after its request.
    fn is_used(&mut self) -> bool {
        self.open > self.idle() || !self.queue.is_empty() || self.working.is_any()
    }
}

/// Why a pool was not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StillUsed {
    /// Requests are being served or wait, or a child works on after its request.
    Busy,
    /// The pool is idle, with this much time left.
    For(Duration),
    /// The cores now close the idle connections. Ask again then.
    Kept,
}

impl Pool {
    /// Creates pool `number`, stopped, with `bell` as the bell.
    pub fn on_demand(bounds: PoolBounds, cores: usize, bell: &Arc<Notifier>, number: usize) -> Arc<Self> {
        let demand = DemandState {
            gate: PoolState::Stopped,
            bell: bell.clone(),
            number,
            has_rung: false,
            idle_since: None,
            opened: 0,
        };
        Self::with(bounds, cores, Some(demand))
    }

    /// State, and number of times opened; `None` for a pool that always runs.
    pub fn gate(&self) -> Option<(PoolState, u64)> {
        self.lock().demand.as_ref().map(|demand| (demand.gate, demand.opened))
    }

    /// Whether requests wait for a pool that does not run: for a turn, or for a socket of the next
    /// run, if the pool ended when they had a turn. Rearms the bell.
    pub fn is_wanted(&self) -> bool {
        let mut state = self.lock();
        state.demand_mut().has_rung = false;
        !state.queue.is_empty() || state.open > state.idle()
    }

    /// Whether no connection is open and no child works. Rearms the bell.
    pub fn is_quiet(&self) -> bool {
        let mut state = self.lock();
        state.demand_mut().has_rung = false;
        state.open == 0 && !state.working.is_any()
    }

    /// Marks the pool as starting.
    pub fn set_starting(&self) {
        self.lock().demand_mut().gate = PoolState::Starting;
    }

    /// Opens the gate, so waiting requests get turns.
    pub fn set_open(&self) {
        let mut state = self.lock();
        let demand = state.demand_mut();
        (demand.gate, demand.idle_since) = (PoolState::Open, Some(Instant::now()));
        demand.opened += 1;
        state.dispatch(self.bounds);
    }

    /// Shuts the gate. The pool rings once no connection is open.
    pub fn close(&self) {
        let mut state = self.lock();
        state.demand_mut().gate = PoolState::Closing;
        state.dispatch(self.bounds);
    }

    /// Opens the gate of a closing pool again if a child has worked on for `time`.
    pub fn reopen_if_working(&self, time: Duration) {
        let mut state = self.lock();
        if state.demand_mut().gate == PoolState::Closing && state.working.is_any_for(time) {
            state.demand_mut().gate = PoolState::Open;
            state.dispatch(self.bounds);
        }
    }

    /// Shuts the gate if the pool has been idle for `time`.
    ///
    /// # Errors
    /// The pool is in use, or was used within `time`, or has connections, which are closed now.
    pub fn close_if_idle(&self, time: Duration) -> Result<(), StillUsed> {
        let mut state = self.lock();
        if state.is_used() {
            return Err(StillUsed::Busy);
        }
        let left = time.saturating_sub(state.demand_mut().idle_for());
        if !left.is_zero() {
            return Err(StillUsed::For(left));
        }
        if state.open > 0 {
            state.reclaim(usize::MAX);
            return Err(StillUsed::Kept);
        }
        state.demand_mut().gate = PoolState::Closing;
        state.dispatch(self.bounds);
        Ok(())
    }

    /// Idle time of the pool; `None` while in use.
    pub fn idle_for(&self) -> Option<Duration> {
        let mut state = self.lock();
        let is_idle = !state.is_used();
        is_idle.then(|| state.demand_mut().idle_for())
    }

    /// Marks the pool as stopped. Rings if requests wait or have a turn.
    pub fn set_stopped(&self) {
        let mut state = self.lock();
        let demand = state.demand_mut();
        (demand.gate, demand.has_rung) = (PoolState::Stopped, false);
        state.dispatch(self.bounds);
    }
}

impl ConnectionState {
    fn demand_mut(&mut self) -> &mut DemandState {
        self.demand.as_mut().expect("only pools on demand are started and stopped")
    }
}
