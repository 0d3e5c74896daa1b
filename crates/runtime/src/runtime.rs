//! A running runtime: its threads, and how it ends.
//!
//! The end has a bound. A core whose event does not return is left behind with its thread, and is
//! named. The others wait for each core that has not ended (`CoreShared::has_ended_tasks`), so a
//! core that failed to start, has panicked or is left behind counts as stopped. Once a core is left
//! behind, the others also wait for none of their tasks, because that core's queue may hold a task
//! of theirs. The thread that ends the runtime drops what is queued. Tested in `tests/stopping.rs`.

use crate::{
    core::core_index, counters::IDLE, handle::Handle, runtime_ref::RuntimeRef, shared::RuntimeShared,
};
use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use vermeil_queue::Cores;
use vermeil_sched::{CoreIndex, HandlerIndex};

/// A running runtime: its pinned threads. Dropping the runtime stops it at once, as
/// [`shutdown`](Self::shutdown) with no time does. A core that is left behind then is named on the
/// standard error.
///
/// Drop the runtime on a thread that is not a core. A drop on a core panics with advice, because
/// the core would wait for itself; the runtime ends nevertheless.
pub struct Runtime {
    handle: Handle,
    threads: Threads,
}

/// The threads of the cores, and the channel that reports their ends.
pub(crate) struct Threads {
    running: Vec<Option<JoinHandle<()>>>,
    ends: (Sender<CoreIndex>, Receiver<CoreIndex>),
}

/// How a runtime stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Tasks that had not ended in time and were cancelled.
    pub tasks_cancelled: usize,
    /// Handler events that were queued when the last core stopped and were dropped.
    pub events_dropped: usize,
    /// Cores whose event, or poll, did not return in time
    /// ([`Limits::stop_grace`](crate::Limits::stop_grace)). Their threads were left behind, and end
    /// when the event returns.
    pub cores_left: Vec<CoreLeft>,
}

/// A core that did not stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreLeft {
    /// The core.
    pub core: CoreIndex,
    /// The cpu of the core.
    pub cpu: usize,
    /// The handler, or the kind of task, whose event still runs on the core.
    pub running: Option<String>,
}

impl fmt::Display for CoreLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { core, cpu, running } = self;
        write!(f, "core {} (cpu {cpu}) did not stop and its thread was left behind: ", core.0)?;
        match running {
            Some(name) => write!(f, "an event of \"{name}\" has not returned"),
            None => f.write_str("it does not answer"),
        }
    }
}

/// The interval of checks for the ends of cores.
const LOOK: Duration = Duration::from_millis(10);

impl Default for Threads {
    fn default() -> Self {
        Self { running: Vec::new(), ends: mpsc::channel() }
    }
}

/// Reports that a core's thread ends, by any path.
struct LeaveOnDrop {
    core: CoreIndex,
    shared: Arc<RuntimeShared>,
    ends: Sender<CoreIndex>,
}

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        self.shared.core(self.core.0).stopped.store(true, Ordering::Release);
        // The receiver is gone if the core was left behind.
        let _ = self.ends.send(self.core);
    }
}

impl Threads {
    /// Begins the thread of the next core, called `name`.
    pub(crate) fn begin(
        &mut self,
        core: CoreIndex,
        name: String,
        shared: Arc<RuntimeShared>,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let leaves = LeaveOnDrop { core, shared, ends: self.ends.0.clone() };
        let body = move || {
            let _leaves = leaves;
            run();
        };
        let thread = thread::Builder::new().name(name).spawn(body)?;
        self.running.push(Some(thread));
        Ok(())
    }

    /// Threads that have begun.
    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    /// Waits until each thread has ended, except cores that show no sign of life for `grace`.
    /// Returns these cores.
    fn end(&mut self, shared: &RuntimeShared, mut signs: Signs, grace: Duration) -> Vec<CoreIndex> {
        let mut left = Vec::new();
        while self.running.iter().any(Option::is_some) {
            match self.ends.1.recv_timeout(LOOK) {
                Ok(core) => {
                    if let Some(thread) = self.running[core.0 as usize].take() {
                        // A core's thread catches the panics of its events. A panic of the thread
                        // itself is a bug that the hook has reported.
                        let _ = thread.join();
                    }
                    continue;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => signs.look(shared),
            }
            for (index, thread) in (0..).map(CoreIndex).zip(&mut self.running) {
                if thread.is_some() && signs.silence(index) >= grace {
                    // The drop of the handle detaches the thread, and the other cores do not wait
                    // for that core any more.
                    *thread = None;
                    shared.end.leave_core();
                    shared.core(index.0).stopped.store(true, Ordering::Release);
                    left.push(index);
                }
            }
        }
        left
    }
}

/// The last sign of life of each core, and the time since the sign last changed.
struct Signs(Vec<(u64, Instant)>);

impl Signs {
    fn new(shared: &RuntimeShared) -> Self {
        let now = Instant::now();
        Self(shared.indices().map(|core| (Self::of(shared, core), now)).collect())
    }

    /// Changes with each event and each look at I/O. The core counts its events by handler at the
    /// end of each event, but `CoreCounters::events` only at the end of a batch.
    fn of(shared: &RuntimeShared, core: CoreIndex) -> u64 {
        let handlers = shared.core(core.0).records.handlers.iter();
        let events = handlers.map(|handler| handler.runs.load(Ordering::Relaxed)).fold(0, u64::wrapping_add);
        events.wrapping_add(shared.pages.board.core(core.0 as usize).searches())
    }

    fn look(&mut self, shared: &RuntimeShared) {
        let now = Instant::now();
        for (core, seen) in shared.indices().zip(&mut self.0) {
            let sign = Self::of(shared, core);
            if sign != seen.0 {
                *seen = (sign, now);
            }
        }
    }

    fn silence(&self, core: CoreIndex) -> Duration {
        self.0[core.0 as usize].1.elapsed()
    }
}

/// Panics on a core, because `what` would block the core.
#[track_caller]
pub(crate) fn refuse_on_core(what: &str) {
    assert!(
        core_index().is_none(),
        "{what} would block the core that it runs on, which would wait for itself: do it on a thread that is no core, \
         as the thread that has built the runtime"
    );
}

impl Runtime {
    pub(crate) fn new(shared: Arc<RuntimeShared>, threads: Threads) -> Self {
        let share = RuntimeRef::new(shared);
        share.register();
        Self { handle: Handle { shared: share }, threads }
    }

    /// Threads that have begun.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// The handle through which colors, tasks and handlers are made.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits at most `patience` for every task to end and every event to run, then stops: a task
    /// that is left is cancelled on its color. `Duration::MAX` waits until all is done.
    ///
    /// An event that does not return keeps nothing from stopping: its core is left behind after
    /// [`Limits::stop_grace`](crate::Limits::stop_grace), and [`Stopped::cores_left`] names the
    /// core and the handler.
    ///
    /// # Panics
    /// On a core, which would wait for itself. The runtime ends nevertheless.
    #[track_caller]
    pub fn shutdown(self, patience: Duration) -> Stopped {
        self.shutdown_unless(patience, || false)
    }

    /// As [`shutdown`](Self::shutdown), but stops waiting as soon as `impatient` returns true.
    ///
    /// # Panics
    /// As `shutdown`.
    #[track_caller]
    pub fn shutdown_unless(mut self, patience: Duration, impatient: impl Fn() -> bool) -> Stopped {
        refuse_on_core("`Runtime::shutdown`");
        let shared = &self.handle.shared;
        // No deadline if the clock does not reach that far.
        let deadline = Instant::now().checked_add(patience);
        let mut signs = Signs::new(shared);
        while !shared.all_done() && deadline.is_none_or(|deadline| Instant::now() < deadline) && !impatient()
        {
            // Only the end of the process waits for this loop, so a finer interval would waste
            // time.
            thread::sleep(Duration::from_millis(1));
            signs.look(shared);
        }
        stop(&self.handle, &mut self.threads, signs)
    }
}

/// Stops the cores, and drops all remaining tasks and events.
fn stop(handle: &Handle, threads: &mut Threads, signs: Signs) -> Stopped {
    let shared = &*handle.shared;
    let tasks_cancelled = shared.tasks_alive();
    shared.end.stop();
    shared.unpark_all();
    let left = threads.end(shared, signs, shared.settings.limits.stop_grace);
    let cores_left = left.into_iter().map(|core| shared.left(core)).collect();
    shared.blocking.close();
    if let Some(control) = &shared.control {
        control.clear();
    }
    let mut events_dropped = 0;
    shared.end.end();
    for (index, core) in (0..).zip(&shared.cores) {
        let waiting = core.waiters.lock().expect("nothing panics under this lock").len();
        events_dropped += core.queued.len().saturating_sub(waiting);
        // A core that is left behind may keep a token.
        let kept = || core.load_cell.lifo_slot.take();
        shared.clear(index, |ready| ready.pop().or_else(|| ready.take_batched(u64::MAX)).or_else(kept));
        core.tasks.clear();
    }
    shared.handlers.discard_waiting();
    shared.end.waiters.tell();
    // Last, because dropped events have used the codes to update their cores.
    shared.handlers.codes.clear();
    handle.shared.unregister();
    Stopped { tasks_cancelled, events_dropped, cores_left }
}

impl RuntimeShared {
    fn left(&self, core: CoreIndex) -> CoreLeft {
        let own = self.core(core.0);
        let running = own.counters.running.load(Ordering::Relaxed);
        let running = (running != IDLE).then(|| self.handlers.name(HandlerIndex(running - 1)));
        CoreLeft { core, cpu: own.facts.cpu, running }
    }
}

impl Drop for Runtime {
    #[track_caller]
    fn drop(&mut self) {
        let mut threads = std::mem::take(&mut self.threads);
        if threads.len() == 0 {
            return;
        }
        let handle = self.handle.clone();
        let mut end = move || {
            let stopped = stop(&handle, &mut threads, Signs::new(&handle.shared));
            // Only this message can report the cores.
            stopped.cores_left.iter().for_each(|left| eprintln!("vermeil: {left}"));
        };
        if core_index().is_none() {
            return end();
        }
        // On a core, the runtime ends on a thread of its own. If the thread cannot start, the
        // runtime ends as soon as its cores see the flag.
        self.handle.shared.end.stop();
        self.handle.shared.unpark_all();
        let _ = thread::Builder::new().name("vermeil-end".into()).spawn(end);
        if !thread::panicking() {
            refuse_on_core("dropping a `Runtime`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Signs;
    use crate::{CoreIndex, Policy, Runtime, tests::PATIENCE};
    use std::sync::{Mutex, mpsc::channel};

    /// Regression: a core in the middle of a batch showed no sign of life, so a stop left the core
    /// behind.
    #[test]
    fn each_event_of_a_batch_is_a_sign_of_life() {
        let cpu = vermeil_io::current_affinity()[0];
        let runtime = Runtime::builder().cpus([cpu]).policy(Policy::None).build().expect("it starts");
        let handle = runtime.handle();
        let ((begins, begun), (go, goes_on)) = (channel(), channel());
        let goes_on = Mutex::new(goes_on);
        let gate = handle.handler("gate", move |()| {
            begins.send(()).expect("the test waits");
            goes_on.lock().expect("no panic under this lock").recv_timeout(PATIENCE).expect("it may go on");
        });
        // The first event keeps the core busy, so the others are one batch.
        gate.post(&handle.color(), ()).expect("room");
        begun.recv_timeout(PATIENCE).expect("it begins");
        let color = handle.color();
        (0..2).for_each(|_| gate.post(&color, ()).expect("room"));
        let signs = [(); 2].map(|()| {
            go.send(()).expect("it waits");
            begun.recv_timeout(PATIENCE).expect("the next begins");
            (Signs::of(&handle.shared, CoreIndex(0)), handle.snapshot().cores[0].events)
        });
        go.send(()).expect("it waits");
        assert_eq!(signs[0].1, signs[1].1, "both events are in one batch");
        assert_ne!(signs[0].0, signs[1].0);
        runtime.shutdown(PATIENCE);
    }
}
