//! A task as its color sees it: the event that polls the future, and where its wake-ups are posted.
//!
//! A task that is spawned alone has its color in its own memory (`vermeil_queue::Repeating::with_color`): nothing else is posted
//! there, so a wake-up is one operation on a word and a place in a ready queue. One that shares a color is posted to it like any
//! event, and so is one that has hopped away. Leaves out who waits for the result: `task.rs`. Tested in `tests/task.rs`.

use crate::{
    Color,
    color::Head,
    core::{Core, current},
    error::{Panic, TaskError},
    observed::poster,
    registry::Cancel,
    share::Share,
    shared::Shared,
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
use vermeil_queue::{Called, Label, Mark, Posted, Repeat, Repeating, current_color};
use vermeil_sched::{CoreIndex, HandlerIndex};

/// What runs on a task's color beside its future.
pub(crate) struct Body<F: Future, H> {
    home: H,
    /// Where the future has hopped to, if it ever did: nowhere while it is at home.
    away: OnceLock<Box<Mutex<Option<Color>>>>,
    cancelled: AtomicBool,
    /// What its polls count as.
    handler: HandlerIndex,
    /// Where it is registered, the core above the slot, once it has had to wait. Touched on its color alone.
    place: AtomicU64,
    /// The future is the event's resident: nothing once it has ended.
    future: PhantomData<fn() -> F>,
}

/// The place of a task that has not had to wait.
const UNREGISTERED: u64 = u64::MAX;

/// A task's event.
type Event<F, H> = Pin<Arc<Repeating<Body<F, H>>>>;

/// What a task's wake-ups are posted to while it is at home: a [`Color`], or its own, for which a part in the runtime is enough.
pub(crate) trait Home: Sized + Send + Sync + 'static {
    /// What of its color stands in the task's event.
    type Head: Mark;

    fn shared(&self) -> &Shared;

    fn is(&self, color: &Color) -> bool;

    fn wake<F>(task: &Event<F, Self>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    fn wake_owned<F>(task: Event<F, Self>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;
}

impl Home for Color {
    type Head = Posted;

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn is(&self, color: &Color) -> bool {
        self.id() == color.id()
    }

    fn wake<F>(task: &Event<F, Self>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        post(task, &task.body.home);
    }

    fn wake_owned<F>(task: Event<F, Self>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Self::wake(&task);
    }
}

impl Home for Share {
    type Head = Head;

    fn shared(&self) -> &Shared {
        self
    }

    /// Nobody else has a handle of its color.
    fn is(&self, _: &Color) -> bool {
        false
    }

    fn wake<F>(task: &Event<F, Self>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (shared, mut poster) = (task.body.home.shared(), None);
        match task.call(|| label(shared, task.body.handler, &mut poster)) {
            Called::First(token) => shared.called(token, poster),
            Called::Again(()) => shared.called_again(&task.home),
            Called::Waits => {}
        }
    }

    fn wake_owned<F>(task: Event<F, Self>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Share::outlived_by(
            |task: &Event<F, Self>| &task.body.home,
            task,
            |shared, task| {
                let (handler, mut poster) = (task.body.handler, None);
                match task.call_owned(|| label(shared, handler, &mut poster)) {
                    Called::First(token) => shared.called(token, poster),
                    Called::Again(task) => shared.called_again(&task.home),
                    Called::Waits => {}
                }
            },
        );
    }
}

fn label(shared: &Shared, handler: HandlerIndex, by: &mut Option<CoreIndex>) -> Label {
    let label = shared.label(handler, shared.worth_ns(handler));
    *by = poster(label);
    label
}

/// Posts a task to a color that others use as well.
fn post<F, H>(task: &Event<F, H>, color: &Color)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    H: Home,
{
    if let Some(event) = task.post() {
        color.push(task.body.handler, event);
    }
}

impl<F, H> Repeat for Body<F, H>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    H: Home,
{
    type Home = H::Head;
    type Resident = F;
    type Output = Result<F::Output, TaskError>;

    fn run(task: &Event<F, H>) {
        let (body, future) = (&task.body, task.as_ref().resident());
        if current_color() != Some(future.color()) {
            // Posted here before the task hopped away: follow it.
            return Self::wake(task);
        }
        let panic = future.with(|future| body.poll(task, future));
        if current(|core| core.hop.borrow().is_some()) == Some(true) {
            body.hop(task);
        }
        // The core counts it.
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    fn wake(task: &Event<F, H>) {
        // A waker that comes earlier than `go_to` posts at home, and the task is followed.
        match task.body.whereabouts() {
            None => H::wake(task),
            Some(color) => post(task, &color),
        }
    }

    fn wake_owned(task: Event<F, H>) {
        if task.body.away.get().is_some() { Self::wake(&task) } else { H::wake_owned(task) }
    }

    fn cancel(task: &Event<F, H>) {
        task.body.cancelled.store(true, Ordering::Release);
        Self::wake(task);
    }

    fn dropped(task: &Event<F, H>) {
        let future = task.as_ref().resident();
        if current_color() == Some(future.color()) && future.with(|future| future.is_some()) {
            future.with(drop_contained);
            task.body.home.shared().task_ends();
        }
        task.complete(Err(TaskError::Cancelled));
    }
}

impl<F, H> Body<F, H>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    H: Home,
{
    // Inlined, or what is made here is copied to where it will stand.
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

    /// Polls the future, if it is still there; gives what was thrown. Nothing else: what is given in memory, in parts, and copied as
    /// a whole has to be waited for.
    fn poll(&self, task: &Event<F, H>, mut future: Pin<&mut Option<F>>) -> Option<Payload> {
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
                // The payload is for the waiter; the core only counts.
                Some(Box::new(()))
            }
        }
    }

    /// The task has ended: drops its future, and tells who waits. Gives what the future threw then.
    fn end(
        task: &Event<F, H>,
        future: Pin<&mut Option<F>>,
        result: Result<F::Output, TaskError>,
    ) -> Option<Payload> {
        let panic = drop_contained(future);
        // It goes nowhere any more. Now, since who is told below may panic.
        current(|core| core.hop.borrow_mut().take());
        task.body.deregister();
        task.complete(result);
        panic
    }

    /// The task's future goes on where it wants to.
    #[cold]
    fn hop(&self, task: &Event<F, H>) {
        if let Some(color) = current(|core| core.hop.borrow_mut().take()).flatten() {
            task.as_ref().resident().move_to(color.id());
            self.go_to(color);
            <Self as Repeat>::wake(task);
        }
    }

    /// Whether the runtime stops and the task has not begun: no core would wait for it.
    fn comes_too_late(&self) -> bool {
        self.home.shared().stopping.load(Ordering::Relaxed)
            && self.place.load(Ordering::Relaxed) == UNREGISTERED
    }

    /// The task waits: from now on this core keeps it, wherever its color goes.
    fn register(task: &Event<F, H>) {
        let place = &task.body.place;
        if place.load(Ordering::Relaxed) == UNREGISTERED {
            current(|core| {
                let slot = core.mine().tasks.insert(task.clone());
                place.store(u64::from(core.index.0) << 32 | u64::from(slot), Ordering::Relaxed);
            });
        }
    }

    /// The task has ended: nobody counts on it any more.
    fn deregister(&self) {
        let shared = self.home.shared();
        shared.task_ends();
        // Who waits for it waits for others too, as a rule, and it answers nobody.
        current(Core::close_succession);
        let place = self.place.load(Ordering::Relaxed);
        if place != UNREGISTERED {
            shared.core((place >> 32) as u32).tasks.remove(place as u32);
        }
    }

    /// Notes that the future has gone to another color.
    fn go_to(&self, color: Color) {
        let away = (!self.home.is(&color)).then_some(color);
        *self.away.get_or_init(Box::default).lock().expect("nothing panics under this lock") = away;
    }

    /// Where the future has gone, if it is not at home.
    fn whereabouts(&self) -> Option<Color> {
        self.away.get()?.lock().expect("nothing panics under this lock").clone()
    }
}

type Payload = Box<dyn std::any::Any + Send>;

/// Drops a future on its color; a destructor that panics ends nothing but itself.
fn drop_contained<F>(mut future: Pin<&mut Option<F>>) -> Option<Payload> {
    catch_unwind(AssertUnwindSafe(|| future.set(None))).err()
}

impl<F, H> Cancel for Repeating<Body<F, H>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    H: Home,
{
    fn cancel(self: Pin<Arc<Self>>) {
        Body::cancel(&self);
    }

    fn abandon(self: Pin<Arc<Self>>) {
        // What is posted to a runtime that has ended is dropped at once, on its color, and the future with it.
        Body::wake(&self);
        self.complete(Err(TaskError::Cancelled));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Ready;

    /// A hundred thousand tasks that wait are as many of these: what is added here is cleared by the kernel and lost to the cache.
    #[test]
    fn a_task_with_its_color_is_small() {
        type Alone = Repeating<Body<Ready<u64>, Share>>;
        // With the counts of an `Arc`, the future of 16 bytes and a result of 8.
        assert_eq!(2 * size_of::<usize>() + size_of::<Alone>(), 224);
    }
}
