//! The set of pools: those of the configuration in force, and earlier pools that still serve
//! requests.
//!
//! A reload adds pools in two steps. [`Pools::revise`] does everything that can fail, and changes
//! nothing. [`Pools::take`] puts the pools under supervision before any core uses them. A pool that
//! no configuration names any more is *retired*. A retired pool goes on while references to it
//! remain, because a request may have found the pool without having asked for its turn yet. Then
//! the thread of `demand.rs` forgets the pool. If a later configuration names the pool again, the
//! pool stays. Tested through the binary (`crates/e2e/tests/e2e/php/reload.rs`).

use super::{
    PhpError, PoolSpec, PoolSupervisor,
    demand::{self, DemandPool},
    pool_spec::{PoolKey, PoolOwner, pool_specs},
};
use crate::{
    parts::RunDirs,
    php::{Php, PoolSnapshot, pool::pool_state::Notifier},
};
use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};
use vermeil_config::ServeOptions;
use vermeil_log::Notices;
use vermeil_settings::php::{PhpOptions, PoolOptions};
use vermeil_spawn::{Channel, ProfileId, Rereading};

/// References to a pool that no request can reach: the roster's, and the supervising thread's.
const HOLDERS: usize = 2;

/// Our own pools under supervision, except the server's first pool. [`Pools::stop`] ends these
/// pools.
#[derive(Debug)]
pub struct Pools {
    run_dirs: RunDirs,
    cores: usize,
    notices: Arc<Notices>,
    /// The port of external PHP that the sandbox allows.
    connect_port: Option<u16>,
    registry: Arc<PoolRegistry>,
    thread: Mutex<Thread>,
}

/// The supervising thread.
#[derive(Debug)]
enum Thread {
    /// Not started, because no pool needs a supervisor yet.
    Waits(Channel),
    Runs(JoinHandle<()>),
    /// The thread cannot start, or has ended.
    Never,
}

/// State shared by the supervising thread and the callers that change the pools.
#[derive(Debug)]
pub(super) struct PoolRegistry {
    pub(super) bell: Arc<Notifier>,
    pub(super) is_over: AtomicBool,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    numbers: usize,
    members: HashMap<PoolKey, PoolMember>,
    /// New pools for the thread.
    new: Vec<DemandPool>,
    running_max: usize,
    /// Whether the thread must read the changes.
    is_changed: bool,
    /// The server's first pool, once no configuration names it any more.
    first: Option<(PoolSupervisor, Arc<Php>)>,
    /// External pools that no configuration names any more.
    external: Vec<Arc<Php>>,
    /// Counts of forgotten pools.
    past: Vec<PoolSnapshot>,
}

#[derive(Debug)]
struct PoolMember {
    php: Arc<Php>,
    number: usize,
    is_retired: bool,
}

/// Changes for the thread.
pub(super) struct Changes {
    pub(super) new: Vec<DemandPool>,
    pub(super) running_max: usize,
    pub(super) retired: HashSet<usize>,
}

/// The pools of a new configuration, before their first use.
pub struct Revised {
    pub php: Option<Arc<Php>>,
    pub of_hosts: Arc<HashMap<Arc<PoolOptions>, Arc<Php>>>,
    keys: HashSet<PoolKey>,
    new: Vec<(PoolKey, DemandPool)>,
    running_max: usize,
}

impl Pools {
    /// Creates an empty set. Without a `channel` the set stays empty.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn new(
        run_dirs: RunDirs,
        channel: Option<Channel>,
        cores: usize,
        notices: Arc<Notices>,
        connect_port: Option<u16>,
    ) -> io::Result<Self> {
        // The server's first pool is number 0.
        let entries = Mutex::new(Entries { numbers: super::FIRST + 1, ..Entries::default() });
        let registry = PoolRegistry { bell: Notifier::new()?, is_over: AtomicBool::new(false), entries };
        let thread = Mutex::new(channel.map_or(Thread::Never, Thread::Waits));
        Ok(Self { run_dirs, cores, notices, connect_port, registry: Arc::new(registry), thread })
    }

    /// Adds the pools of the first configuration, which the spawner already knows.
    ///
    /// # Errors
    /// Out of descriptors or threads, or a configuration file cannot be written.
    pub fn begin(
        &self,
        prepared: Vec<(PoolSpec, ProfileId)>,
        running_max: usize,
    ) -> Result<Revised, PhpError> {
        let mut revised = Revised::none(running_max);
        for (wanted, profile) in prepared {
            revised.insert(&wanted, self.make(&wanted, profile)?);
        }
        if !revised.new.is_empty() {
            self.supervise()?;
        }
        self.take(&mut revised);
        Ok(revised)
    }

    /// Prepares the pools of `new` in place of those of `old`, with `php` as the server's pool.
    ///
    /// # Errors
    /// A pool cannot be prepared. Nothing has changed.
    pub fn revise(
        &self,
        old: &ServeOptions,
        php: Option<&Arc<Php>>,
        new: &ServeOptions,
        rereading: &mut Rereading<'_>,
    ) -> Result<Revised, PhpError> {
        let mut revised = Revised::none(new.php_pools.running_max);
        let is_same = old.php == new.php && old.gateway.content_bytes == new.gateway.content_bytes;
        revised.php = php.filter(|php| is_same && !php.is_on_demand()).cloned();
        let goes_on = revised.php.is_some();
        if let (false, Some(options)) = (goes_on, new.php.as_ref().filter(|php| !php.is_ours())) {
            revised.php = Some(self.of_others(options)?);
        }
        for wanted in pool_specs(new, &self.run_dirs)? {
            match self.registry.php(&wanted.key) {
                _ if goes_on && matches!(wanted.key.whose, PoolOwner::Server(_)) => {}
                Some(php) => revised.keep(&wanted, php),
                None => {
                    let profile = rereading.find(&wanted.profile(&self.run_dirs))?;
                    revised.insert(&wanted, self.make(&wanted, profile)?);
                }
            }
        }
        if !revised.new.is_empty() {
            self.supervise()?;
        }
        Ok(revised)
    }

    fn of_others(&self, options: &PhpOptions) -> Result<Arc<Php>, PhpError> {
        match options.source.beyond(self.connect_port) {
            Some(addr) => Err(PhpError::Beyond { addr }),
            None => Ok(Php::of_others(options, self.cores, self.registry.next_number())),
        }
    }

    fn make(&self, wanted: &PoolSpec, profile: ProfileId) -> Result<DemandPool, PhpError> {
        let number = self.registry.next_number();
        let plan = wanted.plan(number, &self.run_dirs);
        let files = |source| PhpError::Files { path: plan.configuration.clone(), source };
        plan.write().map_err(files)?;
        let php = Php::on_demand(wanted.key.bounds(), &plan, self.cores, &self.registry.bell, number);
        Ok(DemandPool::new(php, number, &wanted.key, plan, profile))
    }

    /// Starts the supervising thread if necessary.
    fn supervise(&self) -> Result<(), PhpError> {
        let mut thread = self.thread.lock().expect("nothing panics under this lock");
        if matches!(*thread, Thread::Runs(_)) {
            return Ok(());
        }
        let Thread::Waits(channel) = std::mem::replace(&mut *thread, Thread::Never) else {
            let gone = io::Error::other("the thread that starts pools does not run");
            return Err(PhpError::Files { path: "pools".into(), source: gone });
        };
        let started = demand::start(self.registry.clone(), channel, &self.notices);
        *thread = Thread::Runs(started.map_err(|source| PhpError::Files { path: "pools".into(), source })?);
        Ok(())
    }

    /// Puts the new pools under supervision.
    pub fn take(&self, revised: &mut Revised) {
        let mut entries = self.registry.lock();
        for (key, pool) in revised.new.drain(..) {
            let member = PoolMember { php: pool.php.clone(), number: pool.number, is_retired: false };
            entries.members.insert(key, member);
            entries.new.push(pool);
        }
        for key in &revised.keys {
            if let Some(member) = entries.members.get_mut(key) {
                member.is_retired = false;
            }
        }
        entries.running_max = revised.running_max;
        self.registry.tell(entries);
    }

    /// Retires all other pools. A retired pool ends with the last reference.
    pub fn retire_others(&self, revised: &Revised) {
        let mut entries = self.registry.lock();
        for (key, member) in &mut entries.members {
            member.is_retired = !revised.keys.contains(key);
        }
        self.registry.tell(entries);
    }

    /// Retires the server's first pool, which ends with the last reference.
    pub fn retire_first(&self, supervisor: PoolSupervisor, php: Arc<Php>) {
        // Without a thread the pool runs until the server ends, which is harmless.
        let _ = self.supervise();
        php.pool.keep_none();
        let mut entries = self.registry.lock();
        entries.first = Some((supervisor, php));
        self.registry.tell(entries);
    }

    /// Retires the server's pool if it is external: closes its idle connections, and remembers its
    /// counts. A pool on demand is retired with the others.
    pub fn retire_external(&self, php: Arc<Php>) {
        if php.is_on_demand() {
            return;
        }
        php.pool.keep_none();
        let mut entries = self.registry.lock();
        let known = std::mem::take(&mut entries.external);
        let (unused, mut used): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|php| Arc::strong_count(php) == 1);
        entries.past.extend(unused.iter().map(|php| php.snapshot()));
        used.push(php);
        entries.external = used;
    }

    /// Counts of pools that are gone, or about to end.
    pub fn past(&self) -> Vec<PoolSnapshot> {
        let entries = self.registry.lock();
        let retired = entries.members.values().filter(|member| member.is_retired);
        let first = entries.first.iter().map(|(_, php)| php);
        let going = retired.map(|member| &member.php).chain(first).chain(&entries.external);
        let going = going.map(|php| php.snapshot());
        entries.past.iter().copied().chain(going).collect()
    }

    /// Ends all pools.
    pub fn stop(&self) {
        self.registry.is_over.store(true, Ordering::Release);
        self.registry.bell.wake();
        let thread = {
            let mut thread = self.thread.lock().expect("nothing panics under this lock");
            std::mem::replace(&mut *thread, Thread::Never)
        };
        if let Thread::Runs(thread) = thread {
            // The panic of the thread was already reported.
            let _ = thread.join();
        }
        drop(self.registry.lock().first.take());
    }
}

impl PoolRegistry {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().expect("nothing panics under this lock")
    }

    fn tell(&self, mut entries: MutexGuard<'_, Entries>) {
        entries.is_changed = true;
        drop(entries);
        self.bell.wake();
    }

    fn next_number(&self) -> usize {
        let mut entries = self.lock();
        entries.numbers += 1;
        entries.numbers - 1
    }

    fn php(&self, key: &PoolKey) -> Option<Arc<Php>> {
        self.lock().members.get(key).map(|member| member.php.clone())
    }

    /// The changes since the last call, if any.
    pub(super) fn changes(&self) -> Option<Changes> {
        let mut entries = self.lock();
        if !std::mem::take(&mut entries.is_changed) {
            return None;
        }
        let retired = entries.members.values().filter(|member| member.is_retired);
        let retired = retired.map(|member| member.number).collect();
        Some(Changes { new: std::mem::take(&mut entries.new), running_max: entries.running_max, retired })
    }

    /// Forgets a retired pool that does not run, if no reference remains. Returns whether the pool
    /// is forgotten.
    pub(super) fn forget(&self, pool: &DemandPool) -> bool {
        let mut entries = self.lock();
        let is_it = |member: &PoolMember| member.number == pool.number;
        let is_retired = entries.members.values().any(|member| is_it(member) && member.is_retired);
        // A holder could clone its reference, but no new holder can appear, because no
        // configuration names the pool.
        if !is_retired || Arc::strong_count(&pool.php) > HOLDERS {
            return false;
        }
        entries.members.retain(|_, member| !is_it(member));
        entries.past.push(pool.php.snapshot());
        true
    }

    /// Ends the server's first pool if it is retired and unreferenced, and no child is known to
    /// work on. Returns whether the pool still waits for that. Until the pool is retired, the cores
    /// do not ask whether a child works when they close its connection for another core (`finish`
    /// in `run.rs`). The end of the pool kills such a child.
    pub(super) fn end_first(&self) -> bool {
        let mut entries = self.lock();
        let Some((_, php)) = &entries.first else { return false };
        if Arc::strong_count(php) > 1 || php.pool.has_working() {
            return true;
        }
        let first = entries.first.take();
        entries.past.extend(first.as_ref().map(|(_, php)| php.snapshot()));
        drop(entries);
        // Dropped outside the lock, because the drop waits for a thread.
        drop(first);
        false
    }
}

impl Revised {
    fn none(running_max: usize) -> Self {
        Self { php: None, of_hosts: Arc::default(), keys: HashSet::new(), new: Vec::new(), running_max }
    }

    fn insert(&mut self, wanted: &PoolSpec, pool: DemandPool) {
        self.keep(wanted, pool.php.clone());
        self.new.push((wanted.key.clone(), pool));
    }

    fn keep(&mut self, wanted: &PoolSpec, php: Arc<Php>) {
        self.keys.insert(wanted.key.clone());
        match &wanted.key.whose {
            PoolOwner::Server(_) => self.php = Some(php),
            PoolOwner::Hosts(pool) => {
                let of_hosts = Arc::get_mut(&mut self.of_hosts).expect("nobody has it yet");
                of_hosts.insert(pool.clone(), php);
            }
        }
    }
}
