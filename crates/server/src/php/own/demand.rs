//! Pools of hosts: prepared by the hundred, started by the first request for one, stopped when nobody has used them for a
//! time.
//!
//! One thread supervises them all. It hears three things: a pool that rings (`pool/gate.rs`), the spawner, and what pools
//! say. At most so many run at once; when another is wanted, the one that was idle for the longest time is stopped, and if
//! none is idle the one that has run for the longest time is drained, once it had its turn. Who waits longer than requests
//! may wait gets 503. A pool that ends by itself is started again by the next request, after a pause that grows.
//! Tested through the binary (`crates/cli/tests/e2e/php/pools.rs`).

use super::{
    Guard, Kind, PhpError, Plan, default_identity, find_cgi, folder_of, found,
    launch::{self, Hearing, described},
    profile,
    supervise::{PAUSE, STEADY},
};
use crate::{
    gateway::{ErrorLines, ErrorSink, Workspace},
    log::{NoticeKind, Notices},
    php::{
        Php, PoolOptions, PoolsOptions,
        pool::gate::{Bell, Gate, StillUsed},
    },
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    collections::{HashMap, VecDeque},
    fs,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use vermeil_spawn::{Channel, Event, JobId, Preparation, ProfileId};

/// How long a pool runs before it is drained because others wait for its place and none is idle. Guess: long beside its
/// start, short beside how long requests wait.
const TURN: Duration = Duration::from_secs(5);

/// Pools of hosts, prepared.
pub(crate) struct PreparedPools {
    pools: Vec<(Arc<PoolOptions>, Plan, ProfileId)>,
    running_max: usize,
}

/// Decides everything about `pools` before any is started, and tells the spawner about them.
pub(crate) fn prepare_pools<'p>(
    pools: impl Iterator<Item = &'p Arc<PoolOptions>>,
    options: &PoolsOptions,
    content_bytes: u64,
    workspace: &Workspace,
    preparation: &mut Preparation,
) -> Result<PreparedPools, PhpError> {
    let found = found(options.program.as_ref(), find_cgi)?;
    let files = |source| PhpError::Files { path: workspace.path().join("pools"), source };
    let sockets = workspace.folder("pools", workspace.server()).map_err(files)?;
    let prepared = pools.enumerate().map(|(place, pool)| {
        let identity = match &pool.user {
            Some(user) => Some(user.identity().clone()),
            None => default_identity()?,
        };
        let (folder, socket, guard) = match found.kind {
            // It is handed its socket, and needs to get at nothing.
            Kind::Cgi => (workspace.path().to_owned(), sockets.join(format!("{place}.sock")), Guard::Socket),
            Kind::Fpm => {
                let (folder, guard) = folder_of(workspace, &format!("pool-{place}"), identity.as_ref())?;
                (folder.clone(), folder.join("php.sock"), guard)
            }
        };
        let PoolOptions { children, requests_per_child, .. } = **pool;
        let found = found.clone();
        let plan = Plan { found, folder, socket, guard, children, requests_per_child, content_bytes };
        plan.write(identity.as_ref().map(|identity| (identity.uid, identity.gid))).map_err(files)?;
        let profile = preparation.define(&profile(&plan, identity))?;
        Ok((pool.clone(), plan, profile))
    });
    let pools = prepared.collect::<Result<_, PhpError>>()?;
    Ok(PreparedPools { pools, running_max: options.running_max })
}

/// Pools of hosts, under supervision. They end with this.
pub(crate) struct Pools {
    bell: Arc<Bell>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    by_options: HashMap<Arc<PoolOptions>, Arc<Php>>,
}

impl Pools {
    /// Begins to supervise; starts none yet.
    ///
    /// # Errors
    /// Out of descriptors or threads.
    pub(crate) fn start(
        prepared: PreparedPools,
        channel: Channel,
        cores: usize,
        notices: &Arc<Notices>,
    ) -> Result<Self, PhpError> {
        let files = |source| PhpError::Files { path: "the pools of hosts".into(), source };
        let bell = Bell::new().map_err(files)?;
        let sink = ErrorSink::new(notices.clone());
        let mut by_options = HashMap::new();
        let numbered = prepared.pools.into_iter().enumerate();
        let pools = numbered.map(|(place, (options, plan, profile))| {
            // The server's own pool is number 0.
            let php = Php::on_demand(&options, &plan, cores, &bell, place + 1);
            by_options.insert(options.clone(), php.clone());
            Pool { php, options, plan, profile, life: Life::Stopped, pause: PAUSE.0 }
        });
        let is_over = Arc::new(AtomicBool::new(false));
        let mut watch = Watch {
            pools: pools.collect(),
            running_max: prepared.running_max,
            running: Vec::new(),
            waiting: VecDeque::new(),
            spawner: channel.readiness().map_err(files)?,
            channel,
            bell: bell.clone(),
            is_over: is_over.clone(),
            sink,
            notices: notices.clone(),
        };
        let thread = thread::Builder::new().name("vermeil-pools".into()).spawn(move || watch.run());
        Ok(Self { bell, is_over, thread: Some(thread.map_err(files)?), by_options })
    }

    /// The pools by what was asked for.
    pub(crate) fn by_options(&self) -> HashMap<Arc<PoolOptions>, Arc<Php>> {
        self.by_options.clone()
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.bell.wake();
        if let Some(thread) = self.thread.take() {
            // A panic there has been said.
            let _ = thread.join();
        }
    }
}

/// A pool, as its supervisor has it.
struct Pool {
    php: Arc<Php>,
    options: Arc<PoolOptions>,
    plan: Plan,
    profile: ProfileId,
    life: Life,
    /// Before it is started the next time after an end of its own.
    pause: Duration,
}

enum Life {
    Stopped,
    /// It ended by itself; it is not started before this.
    Pausing(Instant),
    Running(Run),
}

struct Run {
    job: JobId,
    stderr: Option<OwnedFd>,
    errors: ErrorLines,
    /// Held for the pool to be given again; nothing if it listens by itself.
    _listener: Option<OwnedFd>,
    since: Instant,
    /// When it is looked whether it is idle.
    look: Instant,
    /// Whether it was killed because it is not needed.
    is_killed: bool,
}

/// What the thread has.
struct Watch {
    pools: Vec<Pool>,
    running_max: usize,
    /// Places of the pools that run, however that ends.
    running: Vec<usize>,
    /// Places of those that are wanted and do not run, first come first served.
    waiting: VecDeque<usize>,
    channel: Channel,
    /// Readable when the channel has something to tell.
    spawner: OwnedFd,
    bell: Arc<Bell>,
    is_over: Arc<AtomicBool>,
    sink: Arc<ErrorSink>,
    notices: Arc<Notices>,
}

impl Watch {
    fn run(&mut self) {
        while !self.is_over.load(Ordering::Acquire) {
            self.wait();
            for number in self.bell.heard() {
                self.rung(number - 1);
            }
            self.hear_spawner();
            for at in 0..self.running.len() {
                self.look_after(self.running[at]);
            }
            self.start_waiting();
        }
    }

    /// Waits for the bell, the spawner, what pools say, or the next moment.
    fn wait(&self) {
        let mut polled = vec![PollFd::new(self.bell.descriptor(), PollFlags::IN)];
        if !self.channel.is_gone() {
            polled.push(PollFd::new(&self.spawner, PollFlags::IN));
        }
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        // What has passed was looked at, and waits for something else.
        let mut sooner = |at: Instant| {
            if at > now {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        };
        for &place in &self.running {
            let Life::Running(run) = &self.pools[place].life else { continue };
            polled.extend(run.stderr.as_ref().map(|stderr| PollFd::new(stderr, PollFlags::IN)));
            sooner(run.look);
            if !self.waiting.is_empty() {
                sooner(run.since + TURN);
            }
        }
        for &place in &self.waiting {
            if let Life::Pausing(until) = self.pools[place].life {
                sooner(until);
            }
        }
        // Rounded up, or the loop would turn until the moment has come.
        let left = next.map(|next| next - now + Duration::from_millis(1));
        let left =
            left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
        // Interrupted, everything is looked at once more.
        let _ = poll(&mut polled, left.as_ref());
    }

    /// A pool has something to tell.
    fn rung(&mut self, place: usize) {
        let pool = &mut self.pools[place];
        let is_wanted = pool.php.pool.is_wanted();
        match &pool.life {
            Life::Stopped | Life::Pausing(_) if is_wanted => {
                if !self.waiting.contains(&place) {
                    self.waiting.push_back(place);
                }
            }
            _ => self.kill_if_quiet(place),
        }
    }

    /// Kills a pool that is closed once it serves nobody.
    fn kill_if_quiet(&mut self, place: usize) {
        let Pool { php, life: Life::Running(run), .. } = &mut self.pools[place] else { return };
        let is_closing = php.gate().is_some_and(|(gate, _)| gate == Gate::Closing);
        if is_closing && !run.is_killed && php.pool.is_quiet() {
            run.is_killed = true;
            self.channel.kill(run.job);
        }
    }

    fn hear_spawner(&mut self) {
        loop {
            match self.channel.receive() {
                Ok(None) => return,
                Ok(Some(Event::Started { job, .. })) => {
                    if let Some(place) = self.place_of(job) {
                        self.pools[place].php.pool.set_open();
                    }
                }
                Ok(Some(Event::Failed { job, error })) => self.ended(job, &error.to_string()),
                Ok(Some(Event::Exited { job, exit })) => self.ended(job, &described(exit)),
                Err(error) => {
                    let line = format_args!("php: hearing the spawner: {error}");
                    return self.notices.say(NoticeKind::SpawnerTrouble, line);
                }
            }
        }
    }

    fn place_of(&self, job: JobId) -> Option<usize> {
        let is_it = |place: &usize| matches!(&self.pools[*place].life, Life::Running(run) if run.job == job);
        self.running.iter().copied().find(is_it)
    }

    /// A pool has ended, or was not started.
    fn ended(&mut self, job: JobId, how: &str) {
        let Some(place) = self.place_of(job) else { return };
        self.running.retain(|running| *running != place);
        let pool = &mut self.pools[place];
        let Life::Running(mut run) = std::mem::replace(&mut pool.life, Life::Stopped) else { return };
        if let Some(stderr) = &run.stderr {
            launch::hear(stderr, |bytes| run.errors.push(bytes));
        }
        if pool.plan.is_listened_for() {
            // The next one gets a socket of its own; what cannot be removed is replaced then.
            let _ = fs::remove_file(&pool.plan.socket);
        }
        if !run.is_killed {
            let (count, since) = (&pool.php.restarts, run.since.elapsed());
            if let Some(count) = count {
                count.fetch_add(1, Ordering::Relaxed);
            }
            pool.pause = if since >= STEADY { PAUSE.0 } else { pool.pause };
            let line = format_args!(
                "php: the pool of {} {how}; the next request starts it again, not before {} ms",
                named(&pool.options),
                pool.pause.as_millis()
            );
            self.notices.say(NoticeKind::ProgramFailed, line);
            pool.life = Life::Pausing(Instant::now() + pool.pause);
            pool.pause = (2 * pool.pause).min(PAUSE.1);
        } else {
            pool.pause = PAUSE.0;
        }
        pool.php.pool.set_stopped();
    }

    /// Takes what a pool says, and stops it if nobody has used it for its time.
    fn look_after(&mut self, place: usize) {
        let Pool { php, options, life: Life::Running(run), .. } = &mut self.pools[place] else { return };
        let Run { stderr, errors, .. } = run;
        *stderr = stderr
            .take()
            .filter(|stderr| launch::hear(stderr, |bytes| errors.push(bytes)) == Hearing::GoesOn);
        let now = Instant::now();
        if now < run.look || php.gate().is_none_or(|(gate, _)| gate != Gate::Open) {
            run.look = run.look.max(now + options.idle_stop.min(TURN));
            return;
        }
        match php.pool.close_if_idle(options.idle_stop) {
            Ok(()) => self.kill_if_quiet(place),
            Err(StillUsed::Busy) => run.look = now + options.idle_stop,
            Err(StillUsed::For(left)) => run.look = now + left,
        }
    }

    /// Starts what waits as far as there is room, and makes room.
    fn start_waiting(&mut self) {
        let now = Instant::now();
        let mut held_back = VecDeque::new();
        while let Some(place) = self.waiting.pop_front() {
            let is_pausing = matches!(self.pools[place].life, Life::Pausing(until) if now < until);
            if is_pausing || self.running.len() >= self.running_max {
                held_back.push_back(place);
            } else if self.pools[place].php.pool.is_wanted() {
                self.start(place);
            }
        }
        let is_ready =
            |place: &&usize| !matches!(self.pools[**place].life, Life::Pausing(until) if now < until);
        let wanted = held_back.iter().filter(is_ready).count();
        self.waiting = held_back;
        // Before the others are looked at: who becomes idle afterwards rings.
        self.bell.press(wanted > 0);
        if wanted > 0 {
            self.make_room(wanted);
        }
    }

    fn start(&mut self, place: usize) {
        let pool = &mut self.pools[place];
        pool.php.pool.set_starting();
        let failed = match pool.plan.listener() {
            Ok(listener) => {
                match launch::ask(&mut self.channel, pool.profile, &pool.plan, listener.as_ref()) {
                    Ok(launch::Asked { job, stderr }) => {
                        let now = Instant::now();
                        pool.life = Life::Running(Run {
                            job,
                            stderr: Some(stderr),
                            errors: ErrorLines::of_program(self.sink.clone(), "php"),
                            _listener: listener,
                            since: now,
                            look: now + pool.options.idle_stop,
                            is_killed: false,
                        });
                        return self.running.push(place);
                    }
                    Err(why) => why,
                }
            }
            Err(error) => error.to_string(),
        };
        let _ = fs::remove_file(&pool.plan.socket);
        let line = format_args!("php: the pool of {} cannot be started: {failed}", named(&pool.options));
        self.notices.say(NoticeKind::ProgramFailed, line);
        pool.life = Life::Pausing(Instant::now() + pool.pause);
        pool.pause = (2 * pool.pause).min(PAUSE.1);
        pool.php.pool.set_stopped();
    }

    /// Has pools stopped until as many as `wanted` are: first the idle, then those that had their turn.
    fn make_room(&mut self, wanted: usize) {
        let is_open =
            |place: &usize| self.pools[*place].php.gate().is_some_and(|(gate, _)| gate == Gate::Open);
        let (mut open, stopping): (Vec<_>, Vec<_>) = self.running.iter().copied().partition(is_open);
        // Those that are being started are no room, but will be.
        let stopping = stopping
            .iter()
            .filter(|place| self.pools[**place].php.gate().is_some_and(|(gate, _)| gate == Gate::Closing));
        let free = self.running_max.saturating_sub(self.running.len());
        let mut needed = wanted.saturating_sub(stopping.count() + free);
        let idle_for = |place: &usize| self.pools[*place].php.pool.idle_for();
        open.sort_by_key(|place| std::cmp::Reverse(idle_for(place)));
        for place in open {
            if needed == 0 {
                return;
            }
            let Pool { php, life: Life::Running(run), .. } = &self.pools[place] else { continue };
            if php.pool.close_if_idle(Duration::ZERO).is_err() {
                if run.since.elapsed() < TURN {
                    continue;
                }
                php.pool.close();
            }
            needed -= 1;
            self.kill_if_quiet(place);
        }
    }
}

fn named(options: &PoolOptions) -> String {
    options.user.as_ref().map_or_else(|| "a host".to_owned(), |user| format!("user {user}"))
}
