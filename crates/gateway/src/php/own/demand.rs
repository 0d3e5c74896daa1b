//! Pools of hosts, started by the first request and stopped when idle. Also the server's own pool
//! if a reload introduced it; that pool always runs.
//!
//! A single thread supervises all of these pools. The thread waits for the bell of the pools
//! (`pool_state.rs`), for the spawner, and for output of the pools; reloads change the set of pools
//! (`pool_registry.rs`). The number of running pools is limited. When another pool is wanted, the
//! pool that has been idle longest is stopped. If no pool is idle, a pool that has had a turn is
//! drained. A pool in which a child works on after its request is not idle, and is not drained if
//! the work is long. A request that waits beyond the limit gets 503. After a pool ends by itself,
//! the next request starts the pool again, after a pause that grows. Tested through the binary
//! (`crates/e2e/tests/e2e/php/pools.rs`).

use super::{
    PoolPlan,
    launch::{self, Hearing, described},
    pool_registry::{Changes, PoolRegistry},
    pool_spec::PoolKey,
    supervise::{RESTART_PAUSES, STEADY},
};
use crate::{
    parts::{ErrorLines, ErrorSink},
    php::{
        Php,
        pool::pool_state::{PoolState, StillUsed},
    },
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    fs, io,
    os::fd::OwnedFd,
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use vermeil::BackOff;
use vermeil_log::{NoticeKind, Notices};
use vermeil_spawn::{Channel, JobId, ProfileId, ProgramEvent, SEND_RETRY, SendObstacle};

/// Time that a pool may run before it is drained because another pool needs its slot and no pool is
/// idle: a hundred times the 50 ms of a start, so that starts take a hundredth of the time when
/// many hosts share the slots.
const TURN: Duration = Duration::from_secs(5);

/// The longest work after a request for which a pool is drained. Work such as a log or a mail after
/// the answer is shorter. While longer work goes on, the pool cannot stop, so a drain would only
/// keep the free children from the pool's own requests.
const SHORT_WORK: Duration = Duration::from_secs(1);

/// Interval of checks whether a retired pool is still needed, and whether a child of a closing pool
/// still works. Twice the time of a pool's start, and ten checks per second last only as long as a
/// pool drains or waits.
const LOOK: Duration = Duration::from_millis(100);

/// Starts to supervise the pools of `registry`, now and in future.
///
/// # Errors
/// Out of descriptors or threads.
pub(super) fn start(
    registry: Arc<PoolRegistry>,
    channel: Channel,
    notices: &Arc<Notices>,
) -> io::Result<JoinHandle<()>> {
    let mut watch = DemandWatch {
        pools: HashMap::new(),
        retired: HashSet::new(),
        running_max: 0,
        running: Vec::new(),
        waiting: VecDeque::new(),
        spawner: channel.readiness()?,
        channel,
        registry,
        sink: ErrorSink::new(notices.clone()),
        notices: notices.clone(),
    };
    thread::Builder::new().name("vermeil-pools".into()).spawn(move || watch.run())
}

/// A pool, as seen by the supervisor.
#[derive(Debug)]
pub(super) struct DemandPool {
    pub(super) php: Arc<Php>,
    pub(super) number: usize,
    /// The name in messages.
    name: String,
    /// Idle time after which the pool is stopped; `None` if the pool always runs.
    idle_stop: Option<Duration>,
    plan: PoolPlan,
    profile: ProfileId,
    life: PoolLife,
    /// Pause before the next restart after the pool has ended by itself.
    pauses: BackOff,
}

impl DemandPool {
    pub(super) fn new(
        php: Arc<Php>,
        number: usize,
        key: &PoolKey,
        plan: PoolPlan,
        profile: ProfileId,
    ) -> Self {
        let (name, idle_stop) = (key.name(), key.idle_stop());
        Self {
            php,
            number,
            name,
            idle_stop,
            plan,
            profile,
            life: PoolLife::Stopped,
            pauses: BackOff::new(&RESTART_PAUSES),
        }
    }
}

#[derive(Debug)]
enum PoolLife {
    Stopped,
    /// The pool ended by itself, and does not start before this time.
    Pausing(Instant),
    Running(DemandRun),
}

#[derive(Debug)]
struct DemandRun {
    job: JobId,
    stderr: Option<OwnedFd>,
    errors: ErrorLines,
    /// Closed when the pool ends, so that connections that no child accepted do not wait for ever.
    _listener: OwnedFd,
    since: Instant,
    /// Time of the next check whether the pool is idle.
    look: Instant,
    /// Whether the pool was killed as superfluous.
    is_killed: bool,
}

/// Why a pool is to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartReason {
    AlwaysRuns,
    Requests,
}

/// The next step of a pool that waits for its start.
#[derive(Debug, PartialEq, Eq)]
enum WaitingStep {
    /// The pool runs already, or its requests have left. The next request rings again.
    Leave,
    Wait,
    Start,
}

impl WaitingStep {
    /// `free` is the number of pools on demand that may start.
    fn of(life: &PoolLife, reason: Option<StartReason>, free: usize, now: Instant) -> Self {
        match (life, reason) {
            // A pool without requests must not wait, because running pools make room for a pool
            // that waits.
            (PoolLife::Running(_), _) | (_, None) => Self::Leave,
            (PoolLife::Pausing(until), _) if now < *until => Self::Wait,
            (_, Some(StartReason::Requests)) if free == 0 => Self::Wait,
            _ => Self::Start,
        }
    }
}

/// State of the supervising thread.
struct DemandWatch {
    /// By pool number.
    pools: HashMap<usize, DemandPool>,
    /// Pools that no configuration names any more.
    retired: HashSet<usize>,
    /// Maximum number of running pools on demand.
    running_max: usize,
    /// The running pools.
    running: Vec<usize>,
    /// Pools that are wanted and do not run, in the order of arrival.
    waiting: VecDeque<usize>,
    channel: Channel,
    /// Readable when the channel has an event.
    spawner: OwnedFd,
    registry: Arc<PoolRegistry>,
    sink: Arc<ErrorSink>,
    notices: Arc<Notices>,
}

impl DemandWatch {
    fn run(&mut self) {
        let mut is_leaving = false;
        let mut now = Instant::now();
        while !self.registry.is_over.load(Ordering::Acquire) {
            self.wait(is_leaving, now);
            // One time for the whole pass: a time that comes amid a pass is due in the next.
            now = Instant::now();
            // Read before the changes are taken, so that the set already has every pool that rang.
            let heard = self.registry.bell.heard();
            self.take_changes();
            for number in heard {
                self.notified(number);
            }
            self.hear_spawner();
            for at in 0..self.running.len() {
                self.look_after(self.running[at], now);
            }
            self.start_waiting(now);
            self.forget_retired();
            is_leaving = self.registry.end_first();
        }
    }

    /// Takes the changes of a reload.
    fn take_changes(&mut self) {
        let Some(Changes { new, running_max, retired }) = self.registry.changes() else { return };
        (self.running_max, self.retired) = (running_max, retired);
        self.pools.extend(new.into_iter().map(|pool| (pool.number, pool)));
        let stands = |pool: &&DemandPool| !matches!(pool.life, PoolLife::Running(_));
        let numbers: Vec<usize> = self.pools.values().filter(stands).map(|pool| pool.number).collect();
        let wanted = numbers.into_iter().filter(|number| self.always_runs(*number));
        let wanted: Vec<usize> = wanted.filter(|number| !self.waiting.contains(number)).collect();
        self.waiting.extend(wanted);
        for number in &self.retired {
            if let Some(DemandPool { life: PoolLife::Running(run), .. }) = self.pools.get_mut(number) {
                run.look = Instant::now();
            }
        }
    }

    /// Forgets retired pools that no request can reach any more.
    fn forget_retired(&mut self) {
        for number in self.retired.clone() {
            let Some(pool) = self.pools.get(&number) else { continue };
            if !matches!(pool.life, PoolLife::Running(_)) && self.registry.forget(pool) {
                pool.plan.clear();
                self.waiting.retain(|waiting| *waiting != number);
                self.pools.remove(&number);
                self.retired.remove(&number);
            }
        }
    }

    /// Whether the pool runs even without requests.
    fn always_runs(&self, number: usize) -> bool {
        self.pools[&number].idle_stop.is_none() && !self.retired.contains(&number)
    }

    /// Number of running pools on demand.
    fn running_on_demand(&self) -> usize {
        self.running.iter().filter(|number| !self.always_runs(**number)).count()
    }

    /// Waits for the bell, the spawner, output of the pools, or the next time that was not due in
    /// the pass at `pass`.
    fn wait(&self, is_leaving: bool, pass: Instant) {
        let mut polled = vec![PollFd::new(self.registry.bell.descriptor(), PollFlags::IN)];
        if !self.channel.is_gone() {
            polled.push(PollFd::new(&self.spawner, launch::awaited(&self.channel)));
        }
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        // An earlier time was handled already, and its pool waits for another event.
        let mut sooner = |at: Instant| {
            if at > pass {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        };
        if is_leaving || !self.retired.is_empty() || !self.waiting.is_empty() {
            sooner(now + LOOK);
        }
        if self.channel.obstacle() == Some(SendObstacle::Refused) {
            sooner(now + SEND_RETRY);
        }
        for number in &self.running {
            let PoolLife::Running(run) = &self.pools[number].life else { continue };
            polled.extend(run.stderr.as_ref().map(|stderr| PollFd::new(stderr, PollFlags::IN)));
            sooner(run.look);
            if !self.waiting.is_empty() {
                sooner(run.since + TURN);
            }
        }
        for number in &self.waiting {
            if let PoolLife::Pausing(until) = self.pools[number].life {
                sooner(until);
            }
        }
        // Rounded up, because otherwise the loop would spin until the time has come.
        let left = next.map(|next| next.saturating_duration_since(now) + Duration::from_millis(1));
        let left =
            left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
        // After an interruption the loop checks everything again.
        let _ = poll(&mut polled, left.as_ref());
    }

    /// Handles the ring of a pool.
    fn notified(&mut self, number: usize) {
        let Some(pool) = self.pools.get(&number) else { return };
        let is_wanted = pool.php.pool.is_wanted();
        match &pool.life {
            PoolLife::Stopped | PoolLife::Pausing(_) if is_wanted => {
                if !self.waiting.contains(&number) {
                    self.waiting.push_back(number);
                }
            }
            _ => self.kill_if_quiet(number),
        }
    }

    /// Kills a closing pool once no request is being served and no child works on. If the work is
    /// long, the pool serves on instead.
    fn kill_if_quiet(&mut self, number: usize) {
        let Some(DemandPool { php, life: PoolLife::Running(run), .. }) = self.pools.get_mut(&number) else {
            return;
        };
        let is_closing = php.gate().is_some_and(|(gate, _)| gate == PoolState::Closing);
        if !is_closing || run.is_killed {
            return;
        }
        if php.pool.is_quiet() {
            run.is_killed = true;
            self.channel.kill(run.job);
        } else {
            php.pool.reopen_if_working(SHORT_WORK);
        }
    }

    fn hear_spawner(&mut self) {
        loop {
            match self.channel.receive() {
                Ok(None) => return,
                Ok(Some(ProgramEvent::Started { job, .. })) => {
                    if let Some(number) = self.number_of(job) {
                        self.pools[&number].php.pool.set_open();
                    }
                }
                Ok(Some(ProgramEvent::Failed { job, error })) => self.ended(job, &error.to_string()),
                Ok(Some(ProgramEvent::Exited { job, exit })) => self.ended(job, &described(exit)),
                Err(error) => {
                    let line = format_args!("php: hearing the spawner: {error}");
                    return self.notices.say(NoticeKind::SpawnerTrouble, line);
                }
            }
        }
    }

    fn number_of(&self, job: JobId) -> Option<usize> {
        let is_it =
            |number: &usize| matches!(&self.pools[number].life, PoolLife::Running(run) if run.job == job);
        self.running.iter().copied().find(is_it)
    }

    /// Handles the end of a pool, or a failed start.
    fn ended(&mut self, job: JobId, how: &str) {
        let Some(number) = self.number_of(job) else { return };
        self.running.retain(|running| *running != number);
        let always_runs = self.always_runs(number);
        let pool = self.pools.get_mut(&number).expect("it ran");
        let PoolLife::Running(mut run) = std::mem::replace(&mut pool.life, PoolLife::Stopped) else { return };
        if let Some(stderr) = &run.stderr {
            launch::hear(stderr, |bytes| run.errors.push(bytes));
        }
        // The next run gets a new socket.
        let _ = fs::remove_file(&pool.plan.socket);
        if !run.is_killed {
            let (count, since) = (&pool.php.restarts, run.since.elapsed());
            if let Some(count) = count {
                count.fetch_add(1, Ordering::Relaxed);
            }
            if since >= STEADY {
                pool.pauses.reset();
            }
            let (name, pause_ms) = (&pool.name, pool.pauses.peek().as_millis());
            let line = match always_runs {
                true => format!("php: the pool {name} {how}; starting it again in {pause_ms} ms"),
                false => format!(
                    "php: the pool {name} {how}; the next request starts it again, not before {pause_ms} ms"
                ),
            };
            self.notices.say(NoticeKind::ProgramFailed, format_args!("{line}"));
            pool.rest();
            if always_runs {
                self.waiting.push_back(number);
            }
        } else {
            pool.pauses.reset();
        }
        pool.php.pool.set_stopped();
    }

    /// Reads the output of a pool, and stops the pool after its idle time.
    fn look_after(&mut self, number: usize, now: Instant) {
        let is_retired = self.retired.contains(&number);
        let Some(DemandPool { php, idle_stop, life: PoolLife::Running(run), .. }) =
            self.pools.get_mut(&number)
        else {
            return;
        };
        let DemandRun { stderr, errors, .. } = run;
        *stderr = stderr
            .take()
            .filter(|stderr| launch::hear(stderr, |bytes| errors.push(bytes)) == Hearing::GoesOn);
        // The thread also wakes up for other pools, and such a wake-up must not postpone the check.
        if now < run.look {
            return;
        }
        if php.gate().is_none_or(|(gate, _)| gate != PoolState::Open) {
            run.look = now + LOOK;
            // No pool rings when the work of a child ends.
            return self.kill_if_quiet(number);
        }
        let idle_stop = if is_retired { Some(Duration::ZERO) } else { *idle_stop };
        let Some(idle_stop) = idle_stop else { return };
        match php.pool.close_if_idle(idle_stop) {
            Ok(()) => self.kill_if_quiet(number),
            Err(StillUsed::Busy) => run.look = now + idle_stop.max(LOOK),
            Err(StillUsed::For(left)) => run.look = now + left,
            Err(StillUsed::Kept) => run.look = now + LOOK,
        }
    }

    /// Starts waiting pools while there is room, and makes room for the rest.
    fn start_waiting(&mut self, now: Instant) {
        let mut held_back = VecDeque::new();
        while let Some(number) = self.waiting.pop_front() {
            let always_runs = self.always_runs(number);
            let free = self.running_max.saturating_sub(self.running_on_demand());
            let pool = &self.pools[&number];
            // Asked in any case, because this rearms the bell.
            let is_wanted = pool.php.pool.is_wanted();
            let reason = match always_runs {
                true => Some(StartReason::AlwaysRuns),
                false => is_wanted.then_some(StartReason::Requests),
            };
            match WaitingStep::of(&pool.life, reason, free, now) {
                WaitingStep::Leave => {}
                WaitingStep::Wait => held_back.push_back(number),
                WaitingStep::Start => {
                    self.start(number);
                    if always_runs && !matches!(self.pools[&number].life, PoolLife::Running(_)) {
                        held_back.push_back(number);
                    }
                }
            }
        }
        let is_ready =
            |number: &&usize| !matches!(self.pools[*number].life, PoolLife::Pausing(until) if now < until);
        let wanted = held_back.iter().filter(is_ready).count();
        self.waiting = held_back;
        // Set before the check of running pools, so that a pool that becomes idle later rings.
        self.registry.bell.press(wanted > 0);
        if wanted > 0 {
            self.make_room(wanted);
        }
    }

    fn start(&mut self, number: usize) {
        let pool = self.pools.get_mut(&number).expect("it waits");
        pool.php.pool.set_starting();
        let asked = pool.plan.listener().map_err(|error| error.to_string()).and_then(|listener| {
            launch::ask(&mut self.channel, pool.profile, &pool.plan, &listener).map(|asked| (asked, listener))
        });
        match asked {
            Ok((launch::PoolRequest { job, stderr }, listener)) => {
                let now = Instant::now();
                pool.life = PoolLife::Running(DemandRun {
                    job,
                    stderr: Some(stderr),
                    errors: ErrorLines::of_program(self.sink.clone(), "php"),
                    _listener: listener,
                    since: now,
                    look: now + pool.idle_stop.unwrap_or_default(),
                    is_killed: false,
                });
                self.running.push(number);
            }
            Err(why) => {
                let _ = fs::remove_file(&pool.plan.socket);
                let line = format_args!("php: the pool {} cannot be started: {why}", pool.name);
                self.notices.say(NoticeKind::ProgramFailed, line);
                pool.rest();
                pool.php.pool.set_stopped();
            }
        }
    }

    /// Stops pools until there is room for `wanted`: first idle pools, then pools that have run for
    /// their turn.
    fn make_room(&mut self, wanted: usize) {
        let gate = |number: &usize| self.pools[number].php.gate().map(|(gate, _)| gate);
        let on_demand = self.running.iter().copied().filter(|number| !self.always_runs(*number));
        let (mut open, stopping): (Vec<_>, Vec<_>) =
            on_demand.partition(|number| gate(number) == Some(PoolState::Open));
        let free = self.running_max.saturating_sub(open.len() + stopping.len());
        // A starting pool leaves no room yet, but can be stopped later.
        let stopping = stopping.iter().filter(|number| gate(number) == Some(PoolState::Closing));
        let mut needed = wanted.saturating_sub(stopping.count() + free);
        let idle_for = |number: &usize| self.pools[number].php.pool.idle_for();
        // The cores begin and end requests meanwhile, and a sort needs keys that stay the same.
        open.sort_by_cached_key(|number| std::cmp::Reverse(idle_for(number)));
        for number in open {
            if needed == 0 {
                return;
            }
            let Some(DemandPool { php, life: PoolLife::Running(run), .. }) = self.pools.get_mut(&number)
            else {
                continue;
            };
            match php.pool.close_if_idle(Duration::ZERO) {
                // A pool with idle connections rings when they are closed.
                Ok(()) | Err(StillUsed::Kept) => {}
                Err(_) if run.since.elapsed() < TURN || php.pool.has_worked(SHORT_WORK) => continue,
                Err(_) => {
                    php.pool.close();
                    run.look = Instant::now() + LOOK;
                }
            }
            needed -= 1;
            self.kill_if_quiet(number);
        }
    }
}

impl DemandPool {
    /// Postpones the next start by the pause, and doubles the pause.
    fn rest(&mut self) {
        self.life = PoolLife::Pausing(Instant::now() + self.pauses.advance());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a pool whose requests had left stayed in the queue, so a busy pool was drained
    /// for it.
    #[test]
    fn abandoned_pool_leaves_the_queue() {
        let now = Instant::now();
        let pausing = PoolLife::Pausing(now + Duration::from_millis(1));
        let paused = PoolLife::Pausing(now);
        let (requests, always) = (Some(StartReason::Requests), Some(StartReason::AlwaysRuns));
        for (life, reason, free, expected) in [
            (&PoolLife::Stopped, None, 0, WaitingStep::Leave),
            (&PoolLife::Stopped, None, 1, WaitingStep::Leave),
            (&pausing, None, 1, WaitingStep::Leave),
            (&PoolLife::Stopped, requests, 0, WaitingStep::Wait),
            (&PoolLife::Stopped, requests, 1, WaitingStep::Start),
            (&PoolLife::Stopped, always, 0, WaitingStep::Start),
            (&pausing, requests, 1, WaitingStep::Wait),
            (&pausing, always, 1, WaitingStep::Wait),
            (&paused, requests, 1, WaitingStep::Start),
        ] {
            assert_eq!(WaitingStep::of(life, reason, free, now), expected, "{life:?} {reason:?} {free}");
        }
    }
}
