//! Tasks: futures that live on a color.
//!
//! A task is a repeating event: a wake-up posts "poll me" to its color, so polls of all tasks and runs of all handlers of
//! a color never overlap, and a wake-up during a poll queues it again at the tail. It is one piece of memory: the event, the
//! future, and the result for whoever waits. Also owns the registry through which a core cancels what is left when the
//! runtime stops. Tested in `tests/task.rs`.

use crate::{Color, core::current, error::TaskError, shared::Handle};
use slab::Slab;
use std::{
    future::{Future, poll_fn},
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};
use vermeil_queue::{Repeat, Repeating, current_color};
use vermeil_sched::HandlerIndex;

/// A spawned future. Await it, [`wait`](Task::wait) for it from outside the runtime, or drop it: the future goes on.
pub struct Task<T> {
    awaited: Pin<Arc<dyn Awaited<T>>>,
    /// The result has been handed on: nothing is left to let go of.
    taken: bool,
}

/// What a task leaves for whoever waits for it.
pub(crate) struct Outcome<T> {
    state: Mutex<State<T>>,
}

enum State<T> {
    Running(Option<Waker>),
    Done(Result<T, TaskError>),
    /// Handed on, or nobody will ask.
    Taken,
}

/// A task as its color sees it.
struct Body<F: Future> {
    /// The color it was spawned on.
    color: Color,
    /// Where it has hopped to, if it is not at home.
    away: Mutex<Option<Color>>,
    is_away: AtomicBool,
    cancelled: AtomicBool,
    outcome: Outcome<F::Output>,
    /// What its polls count as.
    handler: HandlerIndex,
    /// Where it is registered, the core above the slot, once it has had to wait. Touched on its color alone.
    place: AtomicU64,
    /// The future is the event's resident: nothing once it has ended.
    future: PhantomData<fn() -> F>,
}

/// The place of a task that has not had to wait.
const UNREGISTERED: u64 = u64::MAX;

/// Something that can be made to end; what cannot does nothing.
trait Cancel: Send + Sync {
    fn cancel(self: Pin<Arc<Self>>) {}

    fn wake(self: Pin<Arc<Self>>) {}

    /// Its runtime has ended, and will not run it.
    fn abandon(self: Pin<Arc<Self>>) {}
}

/// Something that has a result some day.
trait Awaited<T>: Cancel {
    fn outcome(&self) -> &Outcome<T>;
}

impl Handle {
    /// Spawns `future` on a new color of its own, placed by the policy: beside everything else.
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_at(self.color(), future)
    }

    /// Spawns `future` on `color`: its polls never overlap with anything else on that color.
    ///
    /// # Panics
    /// When the color belongs to another runtime.
    pub fn spawn_on<F>(&self, color: &Color, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        assert!(Arc::ptr_eq(&self.shared, &color.shared), "the color belongs to another runtime");
        self.spawn_at(color.clone(), future)
    }

    fn spawn_at<F>(&self, color: Color, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let id = color.id();
        let body = Body {
            color,
            away: Mutex::default(),
            is_away: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            outcome: Outcome::default(),
            handler: self.shared.kind_of::<F>(),
            place: AtomicU64::new(UNREGISTERED),
            future: PhantomData,
        };
        let task = Repeating::new(body, id, future);
        self.shared.task_begins();
        Body::wake(&task);
        Task { awaited: task, taken: false }
    }
}

impl<F> Repeat for Body<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Resident = F;

    fn run(task: &Pin<Arc<Repeating<Self>>>) {
        let (body, future) = (&task.body, task.as_ref().resident());
        if current_color() != Some(future.color()) {
            // Posted here before the task hopped away: follow it.
            return Self::wake(task);
        }
        let (result, panic) = future.with(|future| body.poll(task, future));
        let hop = current(|core| core.hop.borrow_mut().take()).flatten();
        match (result, hop) {
            (Some(result), _) => {
                body.end();
                body.outcome.complete(result);
            }
            (None, Some(color)) => {
                future.move_to(color.id());
                body.go_to(color);
                Self::wake(task);
            }
            (None, None) => {}
        }
        // The core counts it.
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    fn wake(task: &Pin<Arc<Repeating<Self>>>) {
        let Some(event) = task.post() else { return };
        let body = &task.body;
        // Acquire pairs with the store in `go_to`; a waker that comes earlier posts at home, and the task is followed.
        if body.is_away.load(Ordering::Acquire) {
            body.whereabouts().push(body.handler, event);
        } else {
            body.color.push(body.handler, event);
        }
    }

    fn dropped(task: &Pin<Arc<Repeating<Self>>>) {
        let future = task.as_ref().resident();
        if current_color() == Some(future.color()) && future.with(|future| future.is_some()) {
            future.with(drop_contained);
            task.body.color.shared.task_ends();
        }
        task.body.outcome.complete(Err(TaskError::Cancelled));
    }
}

/// What a poll left: the task's result if it has ended, and what was thrown.
type Polled<T> = (Option<Result<T, TaskError>>, Option<Panic>);

impl<F> Body<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn poll(&self, task: &Pin<Arc<Repeating<Self>>>, mut future: Pin<&mut Option<F>>) -> Polled<F::Output> {
        let Some(alive) = future.as_mut().as_pin_mut() else { return (None, None) };
        if self.cancelled.load(Ordering::Acquire) || self.comes_too_late() {
            return (Some(Err(TaskError::Cancelled)), drop_contained(future));
        }
        let poll = || task.with_waker(|waker| alive.poll(&mut Context::from_waker(waker)));
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Pending) => {
                Self::register(task);
                (None, None)
            }
            Ok(Poll::Ready(value)) => (Some(Ok(value)), drop_contained(future)),
            Err(panic) => {
                drop_contained(future);
                (Some(Err(TaskError::Panicked)), Some(panic))
            }
        }
    }

    /// Whether the runtime stops and the task has not begun: no core would wait for it.
    fn comes_too_late(&self) -> bool {
        self.color.shared.stopping.load(Ordering::Relaxed)
            && self.place.load(Ordering::Relaxed) == UNREGISTERED
    }

    /// The task waits: from now on this core keeps it, wherever its color goes.
    fn register(task: &Pin<Arc<Repeating<Self>>>) {
        let place = &task.body.place;
        if place.load(Ordering::Relaxed) == UNREGISTERED {
            current(|core| {
                let slot = core.mine().tasks.insert(task.clone());
                place.store(u64::from(core.index.0) << 32 | u64::from(slot), Ordering::Relaxed);
            });
        }
    }

    /// The task has ended.
    fn end(&self) {
        let shared = &self.color.shared;
        shared.task_ends();
        let place = self.place.load(Ordering::Relaxed);
        if place != UNREGISTERED {
            shared.core((place >> 32) as u32).tasks.remove(place as u32);
        }
    }

    /// Notes that the future has gone to another color.
    fn go_to(&self, color: Color) {
        let home = color.id() == self.color.id();
        *self.away.lock().expect("nothing panics under this lock") = (!home).then_some(color);
        self.is_away.store(!home, Ordering::Release);
    }

    fn whereabouts(&self) -> Color {
        let away = self.away.lock().expect("nothing panics under this lock");
        away.as_ref().unwrap_or(&self.color).clone()
    }
}

type Panic = Box<dyn std::any::Any + Send>;

/// Drops a future on its color; a destructor that panics ends nothing but itself.
fn drop_contained<F>(mut future: Pin<&mut Option<F>>) -> Option<Panic> {
    catch_unwind(AssertUnwindSafe(|| future.set(None))).err()
}

impl<F> Cancel for Repeating<Body<F>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn cancel(self: Pin<Arc<Self>>) {
        self.body.cancelled.store(true, Ordering::Release);
        Body::wake(&self);
    }

    fn wake(self: Pin<Arc<Self>>) {
        Body::wake(&self);
    }

    fn abandon(self: Pin<Arc<Self>>) {
        // What is posted to a runtime that has ended is dropped at once, on its color, and the future with it.
        Body::wake(&self);
        self.body.outcome.complete(Err(TaskError::Cancelled));
    }
}

impl<F> Awaited<F::Output> for Repeating<Body<F>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn outcome(&self) -> &Outcome<F::Output> {
        &self.body.outcome
    }
}

/// What is under way and cannot be cancelled.
impl<T: Send> Cancel for Outcome<T> {}

impl<T: Send> Awaited<T> for Outcome<T> {
    fn outcome(&self) -> &Self {
        self
    }
}

/// Runs `body` to its result, whatever it throws.
pub(crate) fn run_contained<T>(body: impl FnOnce() -> T) -> Result<T, TaskError> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|_| TaskError::Panicked)
}

impl<T> Default for Outcome<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State::Running(None)) }
    }
}

impl<T> Outcome<T> {
    pub(crate) fn complete(&self, result: Result<T, TaskError>) {
        let mut state = self.state.lock().expect("nothing panics under this lock");
        let State::Running(waker) = &mut *state else { return };
        let waker = waker.take();
        *state = State::Done(result);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Task<T> {
    /// What is under way and cannot be cancelled.
    pub(crate) fn of(outcome: Pin<Arc<Outcome<T>>>) -> Self
    where
        T: Send + 'static,
    {
        Self { awaited: outcome, taken: false }
    }

    /// Drops the future on its color, soon; the task then ends with [`TaskError::Cancelled`] unless it ended before.
    pub fn cancel(&self) {
        self.awaited.clone().cancel();
    }

    /// Has the future polled once more, soon: for whoever changed something that it looks at but cannot wait for.
    pub fn wake(&self) {
        self.awaited.clone().wake();
    }

    /// Blocks this thread until the task has ended. Not for use on a core: nothing else would run there.
    ///
    /// # Errors
    /// [`TaskError`] if it was cancelled or panicked.
    ///
    /// # Panics
    /// On a core's thread.
    pub fn wait(self) -> Result<T, TaskError> {
        assert!(crate::core_index().is_none(), "`Task::wait` would block the core: await the task instead");
        let mut task = self;
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut task).poll(&mut context) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    }
}

/// Wakes a thread that waits for a task.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<T> Drop for Task<T> {
    /// The result goes with the last who could have asked for it, however long a waker keeps the task's memory.
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut state = self.awaited.outcome().state.lock().expect("nothing panics under this lock");
        let result = std::mem::replace(&mut *state, State::Taken);
        drop(state);
        drop(result);
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { awaited, taken } = self.get_mut();
        let mut state = awaited.outcome().state.lock().expect("nothing panics under this lock");
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(result) => {
                *taken = true;
                Poll::Ready(result)
            }
            State::Taken => panic!("a task was polled after it ended"),
            State::Running(_) => {
                *state = State::Running(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

/// Lets others run before the task goes on: what is queued on its color, the core's other colors and, if that was not done
/// for a millisecond, its I/O.
pub async fn yield_now() {
    crate::core::current(crate::core::Core::expire_long_turn);
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The tasks that have begun on one core and wait, wherever their colors go. It keeps each alive until it ends, also one that
/// nobody is left to wake, so that its future is dropped on its color: by its end, or when the runtime stops. One that has not
/// begun is kept by the queue that it stands in, and most that are short never wait.
#[derive(Default)]
pub(crate) struct Registry {
    tasks: Mutex<Slab<Pin<Arc<dyn Cancel>>>>,
    waiting: AtomicUsize,
}

impl Registry {
    /// Keeps `task`; gives its place.
    fn insert(&self, task: Pin<Arc<dyn Cancel>>) -> u32 {
        let mut tasks = self.tasks.lock().expect("nothing panics under this lock");
        let slot = tasks.insert(task) as u32;
        self.waiting.store(tasks.len(), Ordering::Release);
        slot
    }

    fn remove(&self, slot: u32) {
        let mut tasks = self.tasks.lock().expect("nothing panics under this lock");
        let ended = tasks.remove(slot as usize);
        self.waiting.store(tasks.len(), Ordering::Release);
        drop((tasks, ended));
    }

    /// Tasks that have begun and not ended.
    pub(crate) fn len(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Cancels every task; gives their number.
    pub(crate) fn cancel_all(&self) -> usize {
        let tasks: Vec<_> = {
            let tasks = self.tasks.lock().expect("nothing panics under this lock");
            tasks.iter().map(|(_, task)| task.clone()).collect()
        };
        let count = tasks.len();
        for task in tasks {
            task.cancel();
        }
        count
    }

    /// Lets go of what is left once the cores have stopped.
    pub(crate) fn clear(&self) {
        let left = std::mem::take(&mut *self.tasks.lock().expect("nothing panics under this lock"));
        left.into_iter().for_each(|(_, task)| task.abandon());
    }
}
