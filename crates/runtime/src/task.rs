//! Tasks: futures that live on a color.
//!
//! A task is a repeating event: a wake-up posts "poll me" to its color, so polls of all tasks and runs of all handlers of
//! a color never overlap, and a wake-up during a poll queues it again at the tail. It is one piece of memory: the event, its color
//! if that is its own, the future, and the result for whoever waits. Leaves out how it is polled and woken: `body.rs`. Tested
//! in `tests/task.rs`.

use crate::{
    Color,
    body::Body,
    color::{About, Seat},
    error::{Panic, TaskError},
    handle::Handle,
    observed::poster,
};
use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};
use vermeil_queue::{Join, Promise, Repeat, Repeating};
use vermeil_sched::HandlerIndex;

/// A spawned future. Await it, [`wait`](Task::wait) for it from outside the runtime, or drop it: the future goes on.
pub struct Task<T> {
    /// Nothing once the result has been handed on.
    join: Option<Join<Result<T, TaskError>>>,
}

impl Handle {
    /// Spawns `future` on a new color of its own, placed by the policy: beside everything else. More is said of it through
    /// [`kind`](Self::kind).
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_alone(&Seat::default(), self.shared.kind_of::<F>(), future)
    }

    /// Spawns `future` on `color`: its polls never overlap with anything else on that color. On a
    /// [free](Self::free_color) color that is as [`spawn`](Self::spawn), where the color may be.
    ///
    /// # Panics
    /// When the color belongs to another runtime.
    #[track_caller]
    pub fn spawn_on<F>(&self, color: &Color, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_on_as(color, self.shared.kind_of::<F>(), future)
    }

    /// Spawns a future whose polls count as `handler` on `color`.
    #[track_caller]
    pub(crate) fn spawn_on_as<F>(&self, color: &Color, handler: HandlerIndex, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        assert!(self.shared.is_of(&color.shared), "the color belongs to another runtime");
        if let Some(seat) = color.seat_if_free() {
            return self.spawn_alone(seat, handler, future);
        }
        let body = Body::new(color.clone(), handler);
        let task = Repeating::on_color(body, color.id(), future);
        self.shared.task_begins();
        Body::wake(&*task);
        Task::of(task.join())
    }

    /// Spawns a future whose polls count as `handler` on a color of its own.
    pub(crate) fn spawn_alone<F>(&self, seat: &Seat, handler: HandlerIndex, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let core = self.shared.place(seat);
        let label = self.shared.label(handler, self.shared.worth_ns(handler));
        let (body, about) = (Body::new(self.shared.clone(), handler), About::of_task(seat.clone(), handler));
        let (task, token) = Repeating::with_color(core.0, about, label, body, future);
        self.shared.task_begins();
        self.shared.called(token, poster(label));
        Task::of(task.join())
    }
}

/// Runs `body` to its result, whatever it throws.
pub(crate) fn run_contained<T>(body: impl FnOnce() -> T) -> Result<T, TaskError> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| TaskError::Panicked(Panic::new(payload)))
}

impl<T> Task<T> {
    pub(crate) fn of(join: Join<Result<T, TaskError>>) -> Self {
        Self { join: Some(join) }
    }

    /// A task that never began, because its runtime has ended.
    pub(crate) fn cancelled() -> Self
    where
        T: Send + 'static,
    {
        let (promise, join) = Promise::new();
        promise.complete(Err(TaskError::Cancelled));
        Self::of(join)
    }

    /// Drops the future on its color, soon; the task then ends with [`TaskError::Cancelled`] unless it ended before.
    pub fn cancel(&self) {
        if let Some(join) = &self.join {
            join.cancel();
        }
    }

    /// Has the future polled once more, soon: for whoever changed something that it looks at but cannot wait for.
    pub fn wake(&self) {
        if let Some(join) = &self.join {
            join.wake();
        }
    }

    /// Blocks this thread until the task has ended. Not for use on a core: nothing else would run there.
    ///
    /// # Errors
    /// [`TaskError`] if it was cancelled or panicked.
    ///
    /// # Panics
    /// On a core's thread.
    #[track_caller]
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

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let task = self.get_mut();
        let polled = task.join.as_mut().expect("a task is not polled after it ended").poll(context.waker());
        if polled.is_ready() {
            task.join = None;
        }
        polled
    }
}

/// Lets others run before the task goes on: what is queued on its color, the core's other colors and, if that was not done
/// for a millisecond, its I/O.
pub async fn yield_now() {
    crate::core::current(crate::core::Core::expire_long_turn);
    go_on_later().await;
}

/// As [`yield_now`], after the core has looked at its I/O: for a task that brings in work which would otherwise come faster than
/// what it has begun goes on.
pub async fn yield_turn() {
    crate::core::current(crate::core::Core::expire_turn);
    go_on_later().await;
}

/// Queues the task again, once.
async fn go_on_later() {
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
