//! Tasks: futures on a color.
//!
//! A task is a repeating event: a wake-up posts a poll to the task's color. So polls of all tasks
//! and runs of all handlers of a color never overlap, and a wake-up during a poll queues the task
//! again at the tail. A task is a single allocation: the event, the color if the task owns the
//! color, the future, and the result for the waiter. Leaves out polls and wake-ups:
//! `task_body.rs`. Tested in `tests/task.rs`.

use crate::{
    Color,
    affinity::Affinity,
    color_meta::ColorMeta,
    error::{Panic, TaskError},
    handle::Handle,
    stamps::poster,
    task_body::TaskState,
};
use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};
use vermeil_queue::{Join, Promise, TaskBody, TaskCell};
use vermeil_sched::{CoreIndex, HandlerIndex};

/// A spawned future. Await the task, [`wait`](Task::wait) for it on a thread outside the runtime,
/// or drop it: the future continues.
pub struct Task<T> {
    /// `None` once the result has been returned.
    join: Option<Join<Result<T, TaskError>>>,
}

impl Handle {
    /// Spawns `future` on a new color, placed by the policy, so the task runs in parallel to all
    /// others. A [`kind`](Self::kind) gives the task further properties.
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_alone(&Affinity::default(), self.shared.kind_of::<F>(), future)
    }

    /// Spawns `future` on `color`: its polls never overlap with other events of that color. On a
    /// [concurrent](Self::concurrent_color) color as [`spawn`](Self::spawn), with the placement of
    /// that color.
    ///
    /// # Panics
    /// If the color belongs to another runtime.
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
        if let Some((core, meta)) = color.place_if_concurrent(handler) {
            return self.spawn_with_color(core, meta, handler, future);
        }
        let body = TaskState::new(color.clone(), handler);
        let task = TaskCell::on_color(body, color.id(), future);
        self.shared.task_begins();
        TaskState::wake(&*task);
        Task::of(task.join())
    }

    /// Spawns a future whose polls count as `handler` on a new color.
    pub(crate) fn spawn_alone<F>(
        &self,
        affinity: &Affinity,
        handler: HandlerIndex,
        future: F,
    ) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let core = self.shared.place(affinity);
        self.spawn_with_color(core, ColorMeta::of_task(affinity.clone(), handler), handler, future)
    }

    /// Spawns a future whose polls count as `handler` on a new color that begins on `core`.
    #[inline(always)]
    pub(crate) fn spawn_with_color<F>(
        &self,
        core: CoreIndex,
        meta: ColorMeta,
        handler: HandlerIndex,
        future: F,
    ) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let label = self.shared.label(handler, self.shared.worth_ns(handler));
        let body = TaskState::new(self.shared.clone(), handler);
        let (task, token) = TaskCell::with_color(core.0, meta, label, body, future);
        self.shared.task_begins();
        self.shared.called(token, poster(label));
        Task::of(task.join())
    }
}

/// Spawns `future` on the runtime of this core: [`Handle::spawn`].
///
/// # Panics
/// Off a core.
#[track_caller]
pub fn spawn<F>(future: F) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Handle::current().spawn(future)
}

/// Runs `body` and turns a panic into an error.
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

    /// Drops the future on its color, soon. The task then ends with [`TaskError::Cancelled`],
    /// unless the task has ended before. An acquisition ([`Handle::when`]) that has not begun does
    /// not run its code; the task ends when the acquisition has its colors.
    pub fn cancel(&self) {
        if let Some(join) = &self.join {
            join.cancel();
        }
    }

    /// Polls the future again, soon: for code that has changed a state that the future reads but
    /// cannot wait for.
    pub fn wake(&self) {
        if let Some(join) = &self.join {
            join.wake();
        }
    }

    /// Blocks this thread until the task has ended. Not for use on a core, because nothing else
    /// would run there.
    ///
    /// # Errors
    /// [`TaskError`] if the task was cancelled or panicked.
    ///
    /// # Panics
    /// On a core's thread.
    #[track_caller]
    pub fn wait(self) -> Result<T, TaskError> {
        assert!(crate::core_index().is_none(), "`Task::wait` would block the core: await the task instead");
        let mut task = self;
        let waker = Waker::from(Arc::new(UnparkThread(thread::current())));
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
struct UnparkThread(Thread);

impl Wake for UnparkThread {
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

/// Lets other work run before the task continues: the other events of its color, the core's other
/// colors and, if the last look is more than a millisecond ago, I/O.
pub async fn yield_now() {
    crate::core::current(crate::core::Core::expire_long_turn);
    go_on_later().await;
}

/// As [`yield_now`], and the core also looks at its I/O. For a task that brings in new work, for
/// example an acceptor, so that begun work continues before new work arrives.
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
