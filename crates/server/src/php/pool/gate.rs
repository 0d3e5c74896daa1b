//! Pools that run on demand: a gate in front of the pool's places, and the bell by which a pool tells its supervisor
//! that it is wanted, or not any more.
//!
//! ```text
//! Stopped ──▶ Starting ──▶ Open ──▶ Closing ──▶ Stopped
//!    ▲ rings when a request waits      │ no more turns; rings when the last request is done
//! ```
//!
//! Shut, the gate gives no turns: requests wait in the pool's queue, within its bounds, and none is lost to a pool that
//! is being stopped. All transitions are the supervisor's (`own/demand.rs`). Tested in `pool/tests.rs`.

use super::{Pool, PoolBounds, State};
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

/// Where a pool stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It does not run.
    #[default]
    Stopped,
    /// It was asked for.
    Starting,
    /// It serves.
    Open,
    /// It serves what it has, and will be stopped.
    Closing,
}

impl Gate {
    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Open => "running",
            Self::Closing => "stopping",
        }
    }
}

/// How the pools of one supervisor reach it.
#[derive(Debug)]
pub(crate) struct Bell {
    descriptor: OwnedFd,
    rung_by: Mutex<Vec<usize>>,
    /// Whether pools that become idle ring: others wait for their place.
    is_pressed: AtomicBool,
}

impl Bell {
    /// # Errors
    /// Out of descriptors.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { descriptor, rung_by: Mutex::default(), is_pressed: AtomicBool::new(false) }))
    }

    /// Readable when it was rung.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    fn ring(&self, number: usize) {
        self.rung_by.lock().expect("nothing panics under this lock").push(number);
        self.wake();
    }

    /// Wakes the supervisor without a reason.
    pub(crate) fn wake(&self) {
        // A counter that is full is readable.
        let _ = write(&self.descriptor, &1u64.to_ne_bytes());
    }

    /// The numbers of the pools that have rung.
    pub(crate) fn heard(&self) -> Vec<usize> {
        let _ = read(&self.descriptor, &mut [0; 8]);
        std::mem::take(&mut self.rung_by.lock().expect("nothing panics under this lock"))
    }

    /// Whether pools that become idle are to ring from now on.
    pub(crate) fn press(&self, is_pressed: bool) {
        // Relaxed: it is read under the lock of a pool that the supervisor looks at afterwards.
        self.is_pressed.store(is_pressed, Ordering::Relaxed);
    }
}

/// What a pool that runs on demand has besides.
#[derive(Debug)]
pub(super) struct Demand {
    gate: Gate,
    bell: Arc<Bell>,
    number: usize,
    has_rung: bool,
    /// Since when nobody is served and nobody waits.
    idle_since: Instant,
    opened: u64,
}

impl Demand {
    pub(super) fn is_shut(&self) -> bool {
        self.gate != Gate::Open
    }

    fn ring(&mut self) {
        if !std::mem::replace(&mut self.has_rung, true) {
            self.bell.ring(self.number);
        }
    }
}

impl State {
    /// Rings if there is something to tell. To be called after every change.
    pub(super) fn tell_supervisor(&mut self) {
        if self.demand.is_none() {
            return;
        }
        let (is_quiet, is_wanted) = (self.open == self.idle(), !self.queue.is_empty());
        let demand = self.demand_mut();
        match demand.gate {
            Gate::Stopped if is_wanted => demand.ring(),
            Gate::Closing if is_quiet => demand.ring(),
            Gate::Open if is_quiet && !is_wanted => {
                demand.idle_since = Instant::now();
                if demand.bell.is_pressed.load(Ordering::Relaxed) {
                    demand.ring();
                }
            }
            _ => {}
        }
    }
}

/// Why a pool was not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StillUsed {
    /// Somebody is served, or waits.
    Busy,
    /// It is idle, and has so much time left.
    For(Duration),
}

impl Pool {
    /// The pool `number` of those that ring `bell`: stopped.
    pub(crate) fn on_demand(bounds: PoolBounds, cores: usize, bell: &Arc<Bell>, number: usize) -> Arc<Self> {
        let demand = Demand {
            gate: Gate::Stopped,
            bell: bell.clone(),
            number,
            has_rung: false,
            idle_since: Instant::now(),
            opened: 0,
        };
        Self::with(bounds, cores, Some(demand))
    }

    /// Where it stands, and how often it was opened; nothing for a pool that always runs.
    pub(crate) fn gate(&self) -> Option<(Gate, u64)> {
        self.lock().demand.as_ref().map(|demand| (demand.gate, demand.opened))
    }

    /// Whether somebody waits. From now on it rings again.
    pub(crate) fn is_wanted(&self) -> bool {
        let mut state = self.lock();
        state.demand_mut().has_rung = false;
        !state.queue.is_empty()
    }

    /// Whether nobody is served.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut state = self.lock();
        state.demand_mut().has_rung = false;
        state.open == state.idle()
    }

    /// It is being started.
    pub(crate) fn set_starting(&self) {
        self.lock().demand_mut().gate = Gate::Starting;
    }

    /// It serves: who waits gets a turn.
    pub(crate) fn set_open(&self) {
        let mut state = self.lock();
        let demand = state.demand_mut();
        (demand.gate, demand.idle_since) = (Gate::Open, Instant::now());
        demand.opened += 1;
        state.dispatch(self.bounds);
    }

    /// It gives no more turns, and rings when it is quiet.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.demand_mut().gate = Gate::Closing;
        state.dispatch(self.bounds);
    }

    /// Closes it if nobody has used it for `time`.
    ///
    /// # Errors
    /// It is in use, or was a moment ago.
    pub(crate) fn close_if_idle(&self, time: Duration) -> Result<(), StillUsed> {
        let mut state = self.lock();
        if state.open > state.idle() || !state.queue.is_empty() {
            return Err(StillUsed::Busy);
        }
        let left = time.saturating_sub(state.demand_mut().idle_since.elapsed());
        if !left.is_zero() {
            return Err(StillUsed::For(left));
        }
        state.demand_mut().gate = Gate::Closing;
        state.dispatch(self.bounds);
        Ok(())
    }

    /// How long nobody has used it; nothing if somebody does.
    pub(crate) fn idle_for(&self) -> Option<Duration> {
        let mut state = self.lock();
        let is_idle = state.open == state.idle() && state.queue.is_empty();
        is_idle.then(|| state.demand_mut().idle_since.elapsed())
    }

    /// It does not run any more; rings if somebody waits.
    pub(crate) fn set_stopped(&self) {
        let mut state = self.lock();
        let demand = state.demand_mut();
        (demand.gate, demand.has_rung) = (Gate::Stopped, false);
        state.dispatch(self.bounds);
    }
}

impl State {
    fn demand_mut(&mut self) -> &mut Demand {
        self.demand.as_mut().expect("only pools on demand are started and stopped")
    }
}
