//! Typed handlers: code with a name and counters that runs to completion, once per event.

use crate::{
    Color, Exclusion,
    affinity::Affinity,
    capacity::CoreRoom,
    core::current,
    counters::add,
    error::{Ended, Full, FullOf, RegisterError, Stops},
    handle::Handle,
    handler_colors::HandlerColors,
    handlers::Routes,
    runtime_id::RuntimeId,
    shared::RuntimeShared,
    spec::Spec,
    times::ObservedTimes,
    until_end::UntilEnd,
};
use std::{
    fmt,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};
use vermeil_queue::{Event, Run, SemaphorePermit};
use vermeil_sched::HandlerIndex;

/// Code that runs for each posted event of type `E`, on the event's color. Cheap to copy. A handler
/// keeps nothing of its runtime alive: the runtime drops the code when it ends, and later posts are
/// refused.
pub struct Handler<E: 'static> {
    index: HandlerIndex,
    runtime: RuntimeId,
    events: PhantomData<fn(E)>,
}

impl<E> Clone for Handler<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Handler<E> {}

impl<E> fmt::Debug for Handler<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").field("index", &self.index).finish_non_exhaustive()
    }
}

/// A handler's name and counters over all cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerSnapshot {
    /// As given to [`Handle::handler`].
    pub name: String,
    /// Events run, panicked ones included.
    pub runs: u64,
    /// Events that panicked.
    pub panics: u64,
    /// Stolen colors whose last event was posted to this handler.
    pub steals: u64,
    /// Such colors that moved to another core: by a plan, by [`Handle::when`], to the core of a
    /// poster, or behind a followed handler.
    pub moves: u64,
    /// Sleeping cores that were woken for such colors, also by threads that are no cores: cores
    /// with the color in their queue, and thieves.
    pub wakes: u64,
    /// Times of the observed events.
    pub times: ObservedTimes,
}

impl Handle {
    /// Registers a handler or a kind with this spec.
    pub(crate) fn register(&self, spec: &Spec) -> Result<(HandlerIndex, HandlerColors), RegisterError> {
        let handlers = &self.shared.handlers;
        let new = spec.as_new();
        // Every check comes before any change.
        let class = handlers.class_of(&new)?;
        if let Exclusion::Group(color) = &spec.exclusion
            && color.is_concurrent()
        {
            return Err(RegisterError::FreeGroup);
        }
        let index = handlers.register(&new, class)?;
        let lanes = self.lanes(spec);
        if matches!(lanes, HandlerColors::Given | HandlerColors::Fresh(_)) {
            self.bound_runs(index, spec);
        }
        Ok((index, lanes))
    }

    /// Bounds the parallel events of a handler or kind, if its spec has a bound. Set once, before
    /// the first event.
    pub(crate) fn bound_runs(&self, index: HandlerIndex, spec: &Spec) {
        if let Some(most) = self.most_runs(spec) {
            self.shared.handlers.bound_runs(index, most);
        }
    }

    /// Registers a handler, by its name or by a full [`Spec`]. The handler must not block. The
    /// handler stays until the runtime ends, which drops `run`.
    ///
    /// # Panics
    /// Where [`try_handler`](Self::try_handler) fails.
    #[track_caller]
    pub fn handler<E: Send + 'static>(
        &self,
        spec: impl Into<Spec>,
        run: impl Fn(E) + Send + Sync + 'static,
    ) -> Handler<E> {
        self.try_handler(spec, run).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`handler`](Self::handler), for programs that register as many as their input asks for.
    ///
    /// # Errors
    /// If the runtime has [`crate::Limits::handlers`] handlers already, if the spec's class does
    /// not exist, or if the spec's group is a [concurrent](Self::concurrent_color) color.
    ///
    /// # Panics
    /// If its place names no core or no handler of this runtime.
    #[track_caller]
    pub fn try_handler<E: Send + 'static>(
        &self,
        spec: impl Into<Spec>,
        run: impl Fn(E) + Send + Sync + 'static,
    ) -> Result<Handler<E>, RegisterError> {
        let spec = spec.into();
        let (index, lanes) = self.register(&spec)?;
        if let (Some(control), HandlerColors::One(queue)) = (&self.shared.control, &lanes) {
            let color = match &spec.exclusion {
                Exclusion::Group(color) => color.clone(),
                _ => Color { queue: queue.clone(), shared: self.shared.clone() },
            };
            control.register(&self.shared, index, &spec.name, &color);
        }
        if !matches!(lanes, HandlerColors::Given) {
            self.shared.handlers.route(index, Routes { lanes, affinity: Affinity::default() });
        }
        self.shared.handlers.codes.add(index, Box::new(run));
        Ok(Handler { index, runtime: self.shared.id, events: PhantomData })
    }
}

impl<E: Send + 'static> Handler<E> {
    /// Posts `event` on `color`. The event runs after all events that were posted on that color
    /// before. A handler with colors of its own (see [`crate::Exclusion`]) uses those instead.
    ///
    /// # Errors
    /// [`Full`], with the event. Three causes: the color's core holds
    /// [`crate::Limits::events_per_core`] posted events, the color is at its
    /// [bound](Color::bounded), or the runtime has ended. [`Full::of`] tells which.
    ///
    /// # Panics
    /// If the color belongs to another runtime.
    #[inline]
    #[track_caller]
    pub fn post(&self, color: &Color, event: E) -> Result<(), Full<E>> {
        let shared = self.shared_with(color);
        match shared.handlers.routes(self.index) {
            None => self.post_on(color, event),
            Some(routes) => self.post_on(&routes.lanes.color(&color.shared, Some(color)), event),
        }
    }

    /// Posts `event` without a color: on the handler's own color, or else on
    /// [`Handle::default_color`].
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn send(&self, event: E) -> Result<(), Full<E>> {
        match self.task_color() {
            Some(color) => self.post_on(&color, event),
            None => Err(Full { event, bound: 0, of: FullOf::Ended }),
        }
    }

    /// The color for an event that is posted without a color; `None` if the runtime has ended.
    fn task_color(&self) -> Option<Color> {
        self.runtime.with(|share| match share.handlers.routes(self.index) {
            Some(routes) => routes.lanes.color(share, None),
            None => HandlerColors::Given.color(share, None),
        })
    }

    /// Names the handler in its runtime, for [`Place::Follow`](crate::Place::Follow).
    pub fn index(&self) -> HandlerIndex {
        self.index
    }

    /// The only color that the handler's events go to, if there is such a color and the runtime has
    /// not ended.
    pub fn color(&self) -> Option<Color> {
        self.runtime.with(|share| match share.handlers.routes(self.index)?.lanes {
            HandlerColors::One(_) => self.task_color(),
            _ => None,
        })?
    }

    /// As [`post`](Self::post), but waits if there is no room: first for room on the color if the
    /// color is [bounded](Color::bounded), then for room on its core. Waiting posters enter in
    /// order of arrival, and posts that do not wait cannot overtake them. Dropping the future drops
    /// the event.
    ///
    /// The event is posted when the future is polled and room is available, so the order of several
    /// waiting posters is not kept. Freed room stays reserved for a waiting poster until its future
    /// is polled again or dropped.
    ///
    /// # Errors
    /// [`Ended`], with the event, when the runtime has ended.
    ///
    /// # Panics
    /// As [`post`](Self::post).
    pub async fn post_when_room(&self, color: &Color, event: E) -> Result<(), Ended<E>> {
        let shared = self.shared_with(color);
        let color = match shared.handlers.routes(self.index) {
            None => color.clone(),
            Some(routes) => routes.lanes.color(&color.shared, Some(color)),
        };
        self.post_on_when_room(color, event).await
    }

    /// As [`send`](Self::send), and waits as [`post_when_room`](Self::post_when_room) does.
    ///
    /// # Errors
    /// As there.
    pub async fn send_when_room(&self, event: E) -> Result<(), Ended<E>> {
        match self.task_color() {
            Some(color) => self.post_on_when_room(color, event).await,
            None => Err(Ended { event }),
        }
    }

    async fn post_on_when_room(&self, color: Color, event: E) -> Result<(), Ended<E>> {
        let shared = &*color.shared;
        let taken = match color.event_bound() {
            None => None,
            Some(bound) => match UntilEnd::new(&shared.end.waiters, bound.permits.acquire()).await {
                Ok(taken) => Some(taken),
                Err(Stops) => return Err(Ended { event }),
            },
        };
        let one = color.for_one();
        let core = one.core().0;
        let Ok(()) = UntilEnd::new(&shared.end.waiters, CoreRoom::new(shared, core)).await else {
            return Err(Ended { event });
        };
        let counted = PostedPermit { runtime: shared.id, core };
        if shared.end.has_ended() {
            return Err(Ended { event });
        }
        self.push(&one, counted, taken, event);
        Ok(())
    }

    /// The shared state of the runtime; handler and color must have the same runtime.
    #[inline]
    #[track_caller]
    fn shared_with<'a>(&self, color: &'a Color) -> &'a RuntimeShared {
        let shared = &*color.shared;
        assert!(
            shared.id == self.runtime,
            "the handler and the color belong to different runtimes: post with a color of the handler's"
        );
        shared
    }

    #[inline]
    fn post_on(&self, color: &Color, event: E) -> Result<(), Full<E>> {
        let shared = &*color.shared;
        if color.queue.meta.bounded().is_some() {
            return self.post_bounded(color, event);
        }
        match PostedPermit::new(shared, color.core().0) {
            Some(counted) => self.push(color, counted, None, event),
            None => return Err(Self::refused(shared, event)),
        }
        Ok(())
    }

    /// Posts on a color with a bound: a bounded color or a concurrent color.
    #[inline(never)]
    fn post_bounded(&self, color: &Color, event: E) -> Result<(), Full<E>> {
        let mut taken = None;
        if let Some(bound) = color.event_bound() {
            taken = bound.permits.try_acquire();
            if taken.is_none() {
                return Err(Full { event, bound: bound.most, of: FullOf::Color });
            }
        }
        let color = color.for_one();
        match PostedPermit::new(&color.shared, color.core().0) {
            Some(counted) => self.push(&color, counted, taken, event),
            None => return Err(Self::refused(&color.shared, event)),
        }
        Ok(())
    }

    /// The error for a post that found no room on a core.
    #[cold]
    fn refused(shared: &RuntimeShared, event: E) -> Full<E> {
        let of = if shared.end.has_ended() { FullOf::Ended } else { FullOf::Core };
        Full { event, bound: shared.settings.limits.events_per_core, of }
    }

    #[inline(always)]
    fn push(&self, color: &Color, counted: PostedPermit, taken: Option<SemaphorePermit>, event: E) {
        let posted = || PostedEvent { handler: self.index, counted, event };
        let event = match taken {
            None => Event::once_with(posted),
            Some(taken) => Event::once_with(|| BoundedEvent { taken, posted: posted() }),
        };
        color.push(self.index, event);
    }
}

struct PostedEvent<E: 'static> {
    handler: HandlerIndex,
    counted: PostedPermit,
    event: E,
}

/// A place in a core's bound, given back when the event begins or is dropped.
struct PostedPermit {
    runtime: RuntimeId,
    core: u32,
}

impl PostedPermit {
    /// A place on core `core`, if a place is free and the runtime has not ended.
    #[inline]
    fn new(shared: &RuntimeShared, core: u32) -> Option<Self> {
        let enters = !shared.end.has_ended() && shared.enter(core, shared.settings.limits.events_per_core);
        enters.then(|| Self { runtime: shared.id, core })
    }
}

impl Drop for PostedPermit {
    fn drop(&mut self) {
        // A runtime that has ended counts nothing any more.
        let _ = self.runtime.with(|share| share.leave(self.core));
    }
}

impl<E: Send + 'static> Run for PostedEvent<E> {
    // Inlined into the run of an event without a bound, because most events have no door.
    #[inline(always)]
    fn run(self) {
        let Self { handler, counted, event } = self;
        drop(counted);
        current(|core| {
            if core.shared.control.is_some() {
                core.note_running(handler);
            }
            let run = |code: &(dyn Fn(E) + Send + Sync)| catch_unwind(AssertUnwindSafe(|| code(event)));
            // The core counts the panic as well.
            if let Some(Err(panic)) = core.known.codes.with(&core.shared.handlers.codes, handler, run) {
                add(&core.mine().records.handlers[handler.0 as usize].panics, 1);
                resume_unwind(panic);
            }
        });
    }
}

/// An event with a permit of its color's bound.
struct BoundedEvent<E: 'static> {
    taken: SemaphorePermit,
    posted: PostedEvent<E>,
}

impl<E: Send + 'static> Run for BoundedEvent<E> {
    fn run(self) {
        drop(self.taken);
        self.posted.run();
    }
}
