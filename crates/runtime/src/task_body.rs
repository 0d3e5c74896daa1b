//! A task on its color: the event that polls the future, and the target of the task's wake-ups.
//!
//! The color of a task that was spawned alone lies in the task's own memory
//! (`vermeil_queue::TaskCell::with_color`). Nothing else is posted to that color, so a wake-up
//! costs one operation on a word and a place in a ready queue. A task on a shared color, or a task
//! that has hopped away, is posted to its color like any event. Leaves out the waiter for the
//! result: `task.rs`. Tested in `tests/task.rs`.

use crate::{
    Color,
    color_meta::RuntimeHead,
    core::{Core, current},
    error::{Panic, TaskError},
    registry::Cancel,
    runtime_ref::RuntimeRef,
    shared::RuntimeShared,
    stamps::poster,
};
use std::{
    future::Future,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};
use vermeil_queue::{
    AtomicQueuedMark, Label, QueuedMark, ScheduleOutcome, TaskBody, TaskCell, current_color,
};
use vermeil_sched::{CoreIndex, HandlerIndex};

/// The part of a task's event beside its future.
pub(crate) struct TaskState<F: Future, H> {
    home: H,
    /// The color that the future has hopped to; `None` at home.
    away: OnceLock<Box<Mutex<Option<Color>>>>,
    cancelled: AtomicBool,
    /// The handler that polls count as.
    handler: HandlerIndex,
    /// Place in a registry once the task has waited: the core above the slot. Accessed on the
    /// task's color only.
    place: AtomicU64,
    /// The future is the event's resident, and is `None` once the task has ended.
    future: PhantomData<fn() -> F>,
}

/// `place` of a task that never waited.
const UNREGISTERED: u64 = u64::MAX;

/// A task's event.
type TaskEvent<F, H> = Pin<Arc<TaskCell<TaskState<F, H>>>>;

/// Target of a task's wake-ups while the task is at home: a [`Color`], or the task's own color, for
/// which a part in the runtime is enough.
pub(crate) trait WakeTarget: Sized + Send + Sync + 'static {
    /// The part of the color that lies in the task's event.
    type Head: QueuedMark;

    fn shared(&self) -> &RuntimeShared;

    fn is(&self, color: &Color) -> bool;

    fn wake<F>(task: &TaskEvent<F, Self>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    fn wake_owned<F>(task: TaskEvent<F, Self>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;
}

impl WakeTarget for Color {
    type Head = AtomicQueuedMark;

    fn shared(&self) -> &RuntimeShared {
        &self.shared
    }

    fn is(&self, color: &Color) -> bool {
        self.id() == color.id()
    }

    fn wake<F>(task: &TaskEvent<F, Self>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        post(task, &task.body.home);
    }

    fn wake_owned<F>(task: TaskEvent<F, Self>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Self::wake(&task);
    }
}

impl WakeTarget for RuntimeRef {
    type Head = RuntimeHead;

    fn shared(&self) -> &RuntimeShared {
        self
    }

    /// Nothing else has a handle of the task's color.
    fn is(&self, _: &Color) -> bool {
        false
    }

    fn wake<F>(task: &TaskEvent<F, Self>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (shared, mut poster) = (task.body.home.shared(), None);
        match task.schedule(|| label(shared, task.body.handler, &mut poster)) {
            ScheduleOutcome::First(token) => shared.called(token, poster),
            ScheduleOutcome::Again(()) => shared.called_again(&task.mark),
            ScheduleOutcome::Waits => {}
        }
    }

    fn wake_owned<F>(task: TaskEvent<F, Self>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        RuntimeRef::with_runtime(
            |task: &TaskEvent<F, Self>| &task.body.home,
            task,
            |shared, task| {
                let (handler, mut poster) = (task.body.handler, None);
                match task.schedule_owned(|| label(shared, handler, &mut poster)) {
                    ScheduleOutcome::First(token) => shared.called(token, poster),
                    ScheduleOutcome::Again(task) => shared.called_again(&task.mark),
                    ScheduleOutcome::Waits => {}
                }
            },
        );
    }
}

fn label(shared: &RuntimeShared, handler: HandlerIndex, by: &mut Option<CoreIndex>) -> Label {
    let label = shared.label(handler, shared.worth_ns(handler));
    *by = poster(label);
    label
}

/// Posts a task to a color that other events share.
fn post<F, H>(task: &TaskEvent<F, H>, color: &Color)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    H: WakeTarget,
{
    if let Some(event) = task.post() {
        color.push(task.body.handler, event);
    }
}

impl<F, H> TaskBody for TaskState<F, H>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    H: WakeTarget,
{
    type Mark = H::Head;
    type Slotted = F;
    type Output = Result<F::Output, TaskError>;

    fn run(task: &TaskEvent<F, H>) {
        let (body, future) = (&task.body, task.as_ref().future_slot());
        if current_color() != Some(future.color()) {
            // This post preceded the hop of the task, so follow the task.
            return Self::wake(task);
        }
        let panic = future.with(|future| body.poll(task, future));
        if current(|core| core.run.hop.is_asked()) == Some(true) {
            body.hop(task);
        }
        // The core counts the panic.
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    fn wake(task: &TaskEvent<F, H>) {
        // A waker that runs before `go_to` posts at home; the event then follows the task.
        match task.body.current_color() {
            None => H::wake(task),
            Some(color) => post(task, &color),
        }
    }

    fn wake_owned(task: TaskEvent<F, H>) {
        if task.body.away.get().is_some() { Self::wake(&task) } else { H::wake_owned(task) }
    }

    fn cancel(task: &TaskEvent<F, H>) {
        task.body.cancelled.store(true, Ordering::Release);
        Self::wake(task);
    }

    fn dropped(task: &TaskEvent<F, H>) {
        let future = task.as_ref().future_slot();
        if current_color() == Some(future.color()) && future.with(|future| future.is_some()) {
            future.with(drop_contained);
            task.body.home.shared().task_ends();
        }
        task.complete(Err(TaskError::Cancelled));
    }
}

impl<F, H> TaskState<F, H>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    H: WakeTarget,
{
    // Inlined, because otherwise the value is built on the stack and copied to its place.
    #[inline(always)]
    pub(crate) fn new(home: H, handler: HandlerIndex) -> Self {
        Self {
            home,
            away: OnceLock::new(),
            cancelled: AtomicBool::new(false),
            handler,
            place: AtomicU64::new(UNREGISTERED),
            future: PhantomData,
        }
    }

    /// Polls the future if the future is still alive, and returns the payload of a panic. Returns
    /// nothing else, because a larger result would be returned in memory, written in parts and
    /// copied as a whole, which stalls the load.
    fn poll(&self, task: &TaskEvent<F, H>, mut future: Pin<&mut Option<F>>) -> Option<PanicBox> {
        let alive = future.as_mut().as_pin_mut()?;
        if self.cancelled.load(Ordering::Acquire) || self.comes_too_late() {
            return Self::end(task, future, Err(TaskError::Cancelled));
        }
        let poll = || task.with_waker(|waker| alive.poll(&mut Context::from_waker(waker)));
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Pending) => {
                Self::register(task);
                None
            }
            Ok(Poll::Ready(value)) => Self::end(task, future, Ok(value)),
            Err(payload) => {
                Self::end(task, future, Err(TaskError::Panicked(Panic::new(payload))));
                // The payload belongs to the waiter; the core only counts the panic.
                Some(Box::new(()))
            }
        }
    }

    /// The task has ended: drops the future and completes the result. Returns the panic of the
    /// future's destructor.
    fn end(
        task: &TaskEvent<F, H>,
        future: Pin<&mut Option<F>>,
        result: Result<F::Output, TaskError>,
    ) -> Option<PanicBox> {
        let panic = drop_contained(future);
        // The task hops nowhere any more. Cleared before `complete`, because a waker may panic
        // there. Dropped after `complete`, because the drop of a waker may panic too.
        let _hops = current(|core| core.run.hop.take());
        task.body.deregister();
        task.complete(result);
        panic
    }

    /// Moves the future to the color that the future asked for.
    #[cold]
    fn hop(&self, task: &TaskEvent<F, H>) {
        let Some((last, earlier)) = current(|core| core.run.hop.take()).flatten() else { return };
        task.as_ref().future_slot().move_to(last.color.id());
        self.go_to(last.color);
        // First, so that the panic of a waker leaves no task behind.
        <Self as TaskBody>::wake(task);
        // A combinator may poll a future only after a wake-up of the future's own waker.
        for waker in std::iter::once(last.waker).chain(earlier.into_iter().map(|ask| ask.waker)) {
            if !task.with_waker(|own| own.will_wake(&waker)) {
                waker.wake();
            }
        }
    }

    /// Whether the runtime stops and the task has never waited, because no core would wait for the
    /// task.
    fn comes_too_late(&self) -> bool {
        self.home.shared().end.is_stopping() && self.place.load(Ordering::Relaxed) == UNREGISTERED
    }

    /// The task waits: from now on this core's registry keeps the task alive, wherever its color
    /// moves.
    fn register(task: &TaskEvent<F, H>) {
        let place = &task.body.place;
        if place.load(Ordering::Relaxed) == UNREGISTERED {
            current(|core| {
                let slot = core.mine().tasks.insert(task.clone());
                place.store(u64::from(core.index.0) << 32 | u64::from(slot), Ordering::Relaxed);
            });
        }
    }

    /// The task has ended: no registry keeps the task any more.
    fn deregister(&self) {
        let shared = self.home.shared();
        shared.task_ends();
        // Closes the succession: the waiter usually waits for other tasks too, so the waiter need
        // not run next.
        current(Core::close_lifo_slot);
        let place = self.place.load(Ordering::Relaxed);
        if place != UNREGISTERED {
            shared.core((place >> 32) as u32).tasks.remove(place as u32);
        }
    }

    /// Records that the future has moved to another color.
    fn go_to(&self, color: Color) {
        let away = (!self.home.is(&color)).then_some(color);
        *self.away.get_or_init(Box::default).lock().expect("nothing panics under this lock") = away;
    }

    /// The color of the future if the future is not at home.
    fn current_color(&self) -> Option<Color> {
        self.away.get()?.lock().expect("nothing panics under this lock").clone()
    }
}

type PanicBox = Box<dyn std::any::Any + Send>;

/// Drops a future on its color, and contains a panic of the destructor.
fn drop_contained<F>(mut future: Pin<&mut Option<F>>) -> Option<PanicBox> {
    catch_unwind(AssertUnwindSafe(|| future.set(None))).err()
}

impl<F, H> Cancel for TaskCell<TaskState<F, H>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    H: WakeTarget,
{
    fn cancel(self: Pin<Arc<Self>>) {
        TaskState::cancel(&self);
    }

    fn abandon(self: Pin<Arc<Self>>) {
        // A post to a runtime that has ended drops the event at once, on its color, and the future
        // with the event.
        TaskState::wake(&self);
        self.complete(Err(TaskError::Cancelled));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Ready;

    /// A hundred thousand waiting tasks need as many of these structs. The kernel must clear each
    /// added byte, and the cache holds fewer tasks.
    #[test]
    fn a_task_with_its_color_is_small() {
        type Alone = TaskCell<TaskState<Ready<u64>, RuntimeRef>>;
        // Includes the counts of an `Arc`, the future of 16 bytes and a result of 8 bytes.
        assert_eq!(2 * size_of::<usize>() + size_of::<Alone>(), 224);
    }
}
