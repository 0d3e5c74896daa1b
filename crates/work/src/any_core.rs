//! Work that must not hold up requests, as events of a handler that any core may run.
//!
//! Each step is an event on a color of its own, so idle cores take it, and the runtime learns the
//! cost of the steps. At most as many steps are queued at the cores as there are cores. Further
//! steps wait in order of arrival outside the cores' queues, so a request never waits behind a row
//! of steps. Handshakes and compression (`compress/`) are such work.
//!
//! Steps may run in idle time, on cores whose threads have the idle class of the kernel. A request
//! interrupts such a step, in place of waiting for its end. Many steps take less time in all where
//! nothing interrupts them, and a busy machine has no idle time. So steps go to the serving cores
//! while steps have waited or run for 20 ms without a pause. A step that is not done after 20 ms
//! begins anew on a serving core, because a step that has begun in idle time cannot be taken back.
//! Then other programs want all of the cpus, so further steps go to the serving cores for a second.

use futures_channel::oneshot;
use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};
use vermeil::{Color, Handle, Handler, Spec, now_ms, sleep};

/// Once steps have waited or run for so long without a pause, new steps go to the serving cores. So
/// does a step that did not end in idle time for so long. Many times as long as a handshake takes.
const PATIENCE: Duration = Duration::from_millis(20);

/// After a step that did not end in idle time soon, new steps go to the serving cores for so long.
/// The next late step costs its client [`PATIENCE`], so this bounds how many clients pay.
const NO_IDLE_TIME: Duration = Duration::from_secs(1);

/// Runs steps.
pub struct AnyCoreWork<S: 'static, R: 'static> {
    handler: Handler<AnyCoreStep<S, R>>,
    color: Color,
    idle: Option<IdleTime<S, R>>,
    /// Steps that wait or run.
    steps: AtomicUsize,
    /// The time of the last step that found no other step, as [`now_ms`] counts it.
    since_ms: AtomicU64,
}

/// The cores that run in idle time.
struct IdleTime<S: 'static, R: 'static> {
    handler: Handler<AnyCoreStep<S, R>>,
    color: Color,
    /// How long a step may wait and run, at most.
    patience: Duration,
    /// How long steps may wait or run without a pause, before further steps go elsewhere.
    busy_max: Duration,
    /// How long a late step keeps further steps away.
    avoided: Duration,
    /// The end of the time in which steps go elsewhere, as [`now_ms`] counts it.
    avoided_until_ms: AtomicU64,
}

struct AnyCoreStep<S, R> {
    step: S,
    /// The task that waits; may have gone.
    to: oneshot::Sender<R>,
}

/// The server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEnded;

/// Counts a step while it waits or runs.
struct CountedStep<'s>(&'s AtomicUsize);

impl Drop for CountedStep<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S: Send + 'static, R: Send + 'static> AnyCoreStep<S, R> {
    fn run(self, run: impl Fn(S) -> R) {
        let Self { step, to } = self;
        if !to.is_canceled() {
            // The task may end meanwhile.
            let _ = to.send(run(step));
        }
    }
}

impl<S: Send + 'static, R: Send + 'static> AnyCoreWork<S, R> {
    /// Work called `name` on the cores of `handle`, whose steps take `expected` as long as none was
    /// measured. With `idle`, steps run on the cores of that handle, as long as there is enough
    /// idle time.
    pub fn new(
        handle: &Handle,
        idle: Option<&Handle>,
        name: &'static str,
        expected: Duration,
        run: impl Fn(S) -> R + Clone + Send + Sync + 'static,
    ) -> Self {
        let spec = || Spec::new(name).cost(expected);
        let idle = idle.map(|idle| IdleTime::new(idle, spec(), run.clone()));
        let handler = handle.handler(spec(), move |step: AnyCoreStep<S, R>| step.run(&run));
        let color = handle.concurrent_color().bounded(handle.cores().len());
        Self { handler, color, idle, steps: AtomicUsize::new(0), since_ms: AtomicU64::new(0) }
    }

    /// Steps that wait behind the other colors of their core.
    pub fn in_background(mut self) -> Self {
        self.color = self.color.background();
        self
    }

    /// Tasks that wait for the result of a step.
    pub fn steps(&self) -> usize {
        self.steps.load(Ordering::Relaxed)
    }

    /// Runs one step on any core. `again` makes the same step once more, for a serving core, if the
    /// step is not done in idle time soon; `None` waits for the end there.
    pub async fn run(&self, step: S, again: impl FnOnce() -> Option<S>) -> Result<R, WorkEnded> {
        let (to, mut result) = oneshot::channel();
        let mut step = AnyCoreStep { step, to };
        let now_ms = now_ms();
        let _counted = self.count(now_ms);
        let since_ms = self.since_ms.load(Ordering::Relaxed);
        if let Some(idle) = self.idle.as_ref().filter(|idle| idle.takes_steps(now_ms, since_ms)) {
            let is_posted = idle.handler.post(&idle.color, step).is_ok();
            if is_posted && let Ok(done) = sleep(idle.patience).limit(&mut result).await {
                return done.map_err(|oneshot::Canceled| WorkEnded);
            }
            idle.avoid();
            let Some(again) = again() else {
                return result.await.map_err(|oneshot::Canceled| WorkEnded);
            };
            // If the first attempt has not begun, it does not begin any more.
            let (to, result_again) = oneshot::channel();
            (step, result) = (AnyCoreStep { step: again, to }, result_again);
        }
        self.serve(step, result).await
    }

    /// Runs one step that cannot be made once more. In idle time it could wait for ever, so a
    /// serving core runs it.
    pub async fn run_once(&self, step: S) -> Result<R, WorkEnded> {
        let (to, result) = oneshot::channel();
        let _counted = self.count(now_ms());
        self.serve(AnyCoreStep { step, to }, result).await
    }

    fn count(&self, now_ms: u64) -> CountedStep<'_> {
        if self.steps.fetch_add(1, Ordering::Relaxed) == 0 {
            self.since_ms.store(now_ms, Ordering::Relaxed);
        }
        CountedStep(&self.steps)
    }

    /// Runs a step on a serving core.
    async fn serve(&self, step: AnyCoreStep<S, R>, result: oneshot::Receiver<R>) -> Result<R, WorkEnded> {
        if self.handler.post_when_room(&self.color, step).await.is_err() {
            return Err(WorkEnded);
        }
        // The event is dropped if the runtime ends.
        result.await.map_err(|oneshot::Canceled| WorkEnded)
    }
}

impl<S: Send + 'static, R: Send + 'static> IdleTime<S, R> {
    fn new(idle: &Handle, spec: Spec, run: impl Fn(S) -> R + Send + Sync + 'static) -> Self {
        let handler = idle.handler(spec, move |step: AnyCoreStep<S, R>| step.run(&run));
        Self {
            handler,
            color: idle.concurrent_color(),
            patience: PATIENCE,
            busy_max: PATIENCE,
            avoided: NO_IDLE_TIME,
            avoided_until_ms: AtomicU64::new(0),
        }
    }

    /// Whether a new step may run in idle time, if there is always a step since `since_ms`.
    fn takes_steps(&self, now_ms: u64, since_ms: u64) -> bool {
        now_ms >= self.avoided_until_ms.load(Ordering::Relaxed)
            && Duration::from_millis(now_ms.saturating_sub(since_ms)) < self.busy_max
    }

    /// Sends further steps elsewhere for a while.
    fn avoid(&self) {
        let avoided_ms = u64::try_from(self.avoided.as_millis()).unwrap_or(u64::MAX);
        self.avoided_until_ms.store(now_ms().saturating_add(avoided_ms), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            Arc,
            mpsc::{self, Receiver},
        },
        thread,
    };
    use vermeil::{Pinning, Runtime};

    const SERVING: &str = "vermeil-0";
    const IDLE: &str = "vermeil-idle-0";
    const FOR_EVER: Duration = Duration::from_secs(3600);

    /// A serving core, a core in idle time, and steps that return the name of their thread.
    struct StepCores {
        serving: Runtime,
        idle: Runtime,
        work: Arc<AnyCoreWork<Option<Receiver<()>>, String>>,
    }

    impl StepCores {
        fn new(patience: Duration, busy_max: Duration) -> Self {
            let cpu = a_cpu();
            let start = |pinning| Runtime::builder().cpus([cpu]).pinning(pinning).build().expect("it starts");
            let (serving, idle) = (start(Pinning::Required), start(Pinning::InIdleTime));
            let run = |wait: Option<Receiver<()>>| {
                wait.map(|wait| wait.recv());
                thread::current().name().expect("cores have names").to_owned()
            };
            let mut work =
                AnyCoreWork::new(&serving.handle(), Some(&idle.handle()), "step", Duration::ZERO, run);
            let in_idle_time = work.idle.as_mut().expect("given");
            (in_idle_time.patience, in_idle_time.busy_max) = (patience, busy_max);
            in_idle_time.avoided = FOR_EVER;
            Self { serving, idle, work: Arc::new(work) }
        }

        /// Begins a step, which waits for `wait` before it ends.
        fn begin(&self, wait: Option<Receiver<()>>) -> Receiver<Result<String, WorkEnded>> {
            let (to, name) = mpsc::channel();
            let work = self.work.clone();
            let task =
                self.serving.handle().spawn(async move { to.send(work.run(wait, || Some(None)).await) });
            drop(task);
            name
        }
    }

    /// A cpu on which this process may run.
    fn a_cpu() -> usize {
        let runtime = Runtime::builder().build().expect("it starts");
        runtime.handle().snapshot().cores[0].cpu
    }

    #[test]
    fn step_runs_in_idle_time() {
        let cores = StepCores::new(FOR_EVER, FOR_EVER);
        assert_eq!(cores.begin(None).recv(), Ok(Ok(IDLE.to_owned())));
    }

    #[test]
    fn step_that_cannot_be_repeated_runs_on_a_serving_core() {
        let cores = StepCores::new(FOR_EVER, FOR_EVER);
        let (to, name) = mpsc::channel();
        let work = cores.work.clone();
        drop(cores.serving.handle().spawn(async move { to.send(work.run_once(None).await) }));
        assert_eq!(name.recv(), Ok(Ok(SERVING.to_owned())));
        assert_eq!(cores.work.steps(), 0);
    }

    #[test]
    fn serving_core_takes_a_step_that_did_not_begin() {
        let cores = StepCores::new(Duration::from_millis(1), FOR_EVER);
        let (go_on, wait) = mpsc::channel::<()>();
        let held = cores.idle.handle().spawn(async move { wait.recv() });
        assert_eq!(cores.begin(None).recv(), Ok(Ok(SERVING.to_owned())));
        drop((go_on, held));
    }

    #[test]
    fn steps_after_a_late_one_go_to_serving_cores() {
        let cores = StepCores::new(Duration::from_millis(1), FOR_EVER);
        let (go_on, wait) = mpsc::channel::<()>();
        let held = cores.idle.handle().spawn(async move { wait.recv() });
        assert_eq!(cores.begin(None).recv(), Ok(Ok(SERVING.to_owned())));
        drop((go_on, held));
        // The core in idle time is free again, and gets no steps yet.
        assert_eq!(cores.begin(None).recv(), Ok(Ok(SERVING.to_owned())));
    }

    #[test]
    fn serving_core_repeats_a_step_that_does_not_end() {
        let cores = StepCores::new(Duration::from_millis(1), FOR_EVER);
        let (end, wait) = mpsc::channel();
        let (to, name) = mpsc::channel();
        let work = cores.work.clone();
        let run = async move { to.send(work.run(Some(wait), || Some(None)).await) };
        drop(cores.serving.handle().spawn(run));
        let name = name.recv().expect("the step ends, while the first attempt waits");
        assert_eq!(name, Ok(SERVING.to_owned()));
        drop(end);
    }

    #[test]
    fn steps_without_a_pause_go_to_serving_cores() {
        let cores = StepCores::new(FOR_EVER, Duration::from_millis(1));
        let (end, wait) = mpsc::channel();
        let first = cores.begin(Some(wait));
        while cores.work.steps() == 0 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(3));
        assert_eq!(cores.begin(None).recv(), Ok(Ok(SERVING.to_owned())));
        drop(end);
        assert_eq!(first.recv(), Ok(Ok(IDLE.to_owned())));
    }
}
