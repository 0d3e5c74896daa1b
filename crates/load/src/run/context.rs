//! The shared state of all users of a run.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::parting::Parting;
use super::waits::Waits;
use crate::measure::Ledger;
use crate::pace::Schedule;
use crate::plan::{CommonOptions, UNTIL_DONE};
use crate::stream::Dial;
use crate::targets::Sets;

/// The shared state of the users of a run.
#[derive(Debug)]
pub(crate) struct RunContext {
    pub(crate) ledger: Ledger,
    pub(crate) sets: Sets,
    pub(crate) timeout: Duration,
    pub(crate) seed: u64,
    /// The number of the first user among the users of all injectors.
    pub(crate) first_user: usize,
    pub(crate) dial: Dial,
    pub(crate) waits: Waits,
    pub(crate) parting: Parting,
    /// The start of the run's times.
    pub(crate) epoch: Instant,
    /// The arrivals, if the loop is open: a part for each group of users.
    pub(crate) schedules: Box<[CachePadded<Mutex<Schedule>>]>,
    /// Requests that may still begin, if the run has a maximum number of requests.
    tickets: Option<AtomicU64>,
    /// Requests that have not ended, begun or not, if the run has a maximum number of requests.
    left: Option<AtomicU64>,
    stopping: AtomicBool,
    /// The end of the run, from the epoch. No request arrives later. `None`: the run ends when
    /// everything is done.
    horizon: Option<Duration>,
    users: AtomicUsize,
    /// Users that have begun, and users that have ended.
    begun: AtomicUsize,
    ended: AtomicUsize,
    /// The thread that waits for the last user.
    main: Thread,
}

impl RunContext {
    pub(crate) fn new(
        ledger: Ledger,
        sets: Sets,
        schedules: Vec<Schedule>,
        tickets: Option<u64>,
        common: &CommonOptions,
        (dial, waits): (Dial, Waits),
        parting: Parting,
    ) -> Self {
        Self {
            parting,
            ledger,
            sets,
            timeout: common.timeout,
            seed: common.seed,
            first_user: common.share.first_user,
            dial,
            waits,
            epoch: common.begins.unwrap_or_else(Instant::now),
            schedules: schedules.into_iter().map(|schedule| CachePadded::new(Mutex::new(schedule))).collect(),
            tickets: tickets.map(AtomicU64::new),
            left: tickets.map(AtomicU64::new),
            stopping: AtomicBool::new(false),
            horizon: common.phases.total(),
            users: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            main: std::thread::current(),
        }
    }

    /// Whether users continue.
    pub(crate) fn goes_on(&self) -> bool {
        !self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Takes up to `count` of the requests that may still begin. Returns the number taken; `None`
    /// if there are none.
    pub(crate) fn tickets(&self, count: u64) -> Option<u64> {
        let Some(tickets) = &self.tickets else { return Some(count) };
        let take = |left: u64| Some(left - left.min(count));
        let before = tickets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        Some(before.unwrap_or_else(|left| left).min(count)).filter(|&taken| taken > 0)
    }

    /// Counts `bytes` that `user` received for its present wait. The user reads no more bytes for
    /// `pause`.
    pub(crate) fn arrived(&self, user: usize, bytes: u64, pause: Duration) {
        self.ledger.here().bytes += bytes;
        self.waits.heard(user, self.epoch.elapsed() + pause);
    }

    /// Counts a whole answer of a request that fails, because unasked bytes follow the answer.
    pub(crate) fn answered_whole(&self, status: u16, bytes: u64) {
        let mut tally = self.ledger.here();
        tally.status(status);
        tally.bytes += bytes;
    }

    /// Records that `count` requests have ended and are counted. After the last request the run is
    /// over, even if users still wait to begin another request.
    pub(crate) fn have_ended(&self, count: u64) {
        if let Some(left) = &self.left
            && left.fetch_sub(count, Ordering::AcqRel) == count
        {
            self.main.unpark();
        }
    }

    /// Whether the run is over: all users have ended, or all requests have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.users() == 0 || self.is_done()
    }

    /// Whether the run has a maximum number of requests, and all have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.left.as_ref().is_some_and(|left| left.load(Ordering::Acquire) == 0)
    }

    /// The next arrival for `user`: its number among all arrivals, and its time. An arrival at or
    /// after the end of the run moves to a time after the run. So a waiting user neither begins the
    /// request nor ends the run.
    pub(crate) fn arrival(&self, user: usize) -> Option<(usize, Instant)> {
        // There are at most as many groups as cores, and users take the cores in turn, so the users
        // of a group are on few cores.
        let schedule = &self.schedules[user % self.schedules.len()];
        let (index, at) = schedule.lock().expect("drawing does not panic").draw()?;
        let at = match self.horizon {
            Some(horizon) if at >= horizon => horizon + UNTIL_DONE,
            _ => at,
        };
        Some((index, self.epoch.checked_add(at)?))
    }

    /// Arrivals before `now` and before the end of the run for which no user was free.
    pub(crate) fn missed(&self, now: Instant) -> u64 {
        let until = now.saturating_duration_since(self.epoch).min(self.horizon.unwrap_or(Duration::MAX));
        let undrawn = |schedule: &CachePadded<Mutex<Schedule>>| {
            schedule.lock().expect("drawing does not panic").undrawn(until)
        };
        // With a maximum number of requests, later arrivals do not count.
        let left = self.tickets.as_ref().map_or(u64::MAX, |tickets| tickets.load(Ordering::Relaxed));
        self.schedules.iter().map(undrawn).sum::<u64>().min(left)
    }

    /// The address of the next connection of `user`.
    pub(crate) fn choose(&self, user: usize) -> (usize, SocketAddr) {
        self.sets.choose(self.first_user + user)
    }

    pub(crate) fn user_begins(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a user begins.
    pub(crate) fn user_is_there(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of users that have begun and not ended.
    pub(crate) fn users_there(&self) -> usize {
        let ended = self.ended.load(Ordering::Relaxed);
        self.begun.load(Ordering::Relaxed).saturating_sub(ended)
    }

    pub(crate) fn user_ends(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.main.unpark();
        }
    }

    pub(crate) fn users(&self) -> usize {
        self.users.load(Ordering::Acquire)
    }
}

/// Sleeps until `at`, and returns the lateness. A timer may fire early by the length of a core's
/// turn; then this function sleeps again.
pub(crate) async fn until(at: Instant) -> Duration {
    loop {
        let now = Instant::now();
        match at.checked_duration_since(now) {
            None => return now - at,
            Some(left) if left.is_zero() => return left,
            Some(left) => vermeil::sleep(left).await,
        }
    }
}
