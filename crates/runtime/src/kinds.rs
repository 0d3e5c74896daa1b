//! Kinds of tasks: the polls of each type of future count as a handler of their own.
//!
//! What a poll is expected to take decides whether its color is worth a steal, and one mean over an acceptor, a connection
//! and a compression is true of none of them. The type of a future tells them apart for nothing. The first so many types have
//! a handler each; the others share the first handler. A program that has more to say of its tasks registers a kind itself
//! ([`TaskKind`]). Tested below, in `tests/task.rs` and `tests/kind.rs`.

use crate::{
    Color, Exclusion, Handle, Task,
    color::Seat,
    core::{Core, current_of},
    handler::Handlers,
    shared::Shared,
    spec::{Lanes, Spec},
};
use rustc_hash::FxHashMap;
use std::{
    any::{TypeId, type_name},
    cell::RefCell,
    fmt,
    future::Future,
    sync::Mutex,
};
use vermeil_sched::{ClassIndex, HandlerIndex};

/// The handler that polls of further types of futures count as.
pub(crate) const TASKS: HandlerIndex = HandlerIndex(0);

/// Types of futures that are told apart, beside the handlers that a program registers. A server has a dozen.
pub(crate) const KINDS_MAX: usize = 64;

/// The kinds of one runtime.
#[derive(Default)]
pub(crate) struct Kinds(Mutex<FxHashMap<TypeId, HandlerIndex>>);

impl Kinds {
    fn of<F: 'static>(&self, handlers: &Handlers) -> HandlerIndex {
        let mut kinds = self.0.lock().expect("nothing panics under this lock");
        if let Some(known) = kinds.get(&TypeId::of::<F>()) {
            return *known;
        }
        if kinds.len() == handlers.kinds_max() {
            return TASKS;
        }
        let index = handlers.add(&Spec::new(task_name(type_name::<F>())), ClassIndex::default());
        kinds.insert(TypeId::of::<F>(), index);
        index
    }
}

/// What a core knows of the kinds, without a lock.
pub(crate) type KnownKinds = RefCell<FxHashMap<TypeId, HandlerIndex>>;

impl Shared {
    /// The handler that polls of futures of this type count as.
    pub(crate) fn kind_of<F: 'static>(&self) -> HandlerIndex {
        let ask = || self.handlers.kinds.of::<F>(&self.handlers);
        let known = |core: &Core| *core.kinds.borrow_mut().entry(TypeId::of::<F>()).or_insert_with(ask);
        current_of(self, known).unwrap_or_else(ask)
    }
}

/// Tasks of one kind, of which more is said than of others: in which class their colors stand, what a poll costs, beside what it never
/// runs. Cheap to copy.
#[derive(Clone, Copy)]
pub struct TaskKind {
    // As a handler, it lives as long as the process.
    kind: &'static Kind,
}

struct Kind {
    index: HandlerIndex,
    handle: Handle,
    lanes: Lanes,
    /// Where those live that have a color for themselves.
    seat: Seat,
}

impl Handle {
    /// Registers a kind of tasks, by its name or with all that is to be said about it: each poll counts as a run of it, as of a handler.
    /// It stays for the life of the process.
    ///
    /// # Panics
    /// As [`handler`](Self::handler); and when the spec has tasks [gather](Spec::gather): who waits for a task waits for each of its polls.
    pub fn kind(&self, spec: impl Into<Spec>) -> TaskKind {
        let spec = spec.into();
        assert!(spec.gather.is_none(), "tasks do not gather: a poll is not put off");
        let seat = self.seat(&spec.place);
        let lanes = match spec.exclusion {
            // A task is on its color for life: however long it waits, it would keep others from a lane.
            Exclusion::None => Lanes::Fresh(seat.clone()),
            _ => self.lanes(&spec),
        };
        let index = self.register(&spec, &lanes);
        TaskKind { kind: Box::leak(Box::new(Kind { index, handle: self.clone(), lanes, seat })) }
    }
}

impl TaskKind {
    /// Spawns `future` on a new color of its own, which lives where the kind's [place](Spec::place) says; or on the kind's, if it has
    /// colors of its own (see [`crate::Exclusion`]).
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let Kind { index, handle, lanes, seat } = self.kind;
        match lanes {
            Lanes::Given | Lanes::Fresh(_) => handle.spawn_alone(seat, *index, future),
            own => handle.spawn_on_as(&own.color(handle, None), *index, future),
        }
    }

    /// Spawns `future` on `color`, as [`Handle::spawn_on`] does. A kind with colors of its own uses those instead.
    ///
    /// # Panics
    /// When the color belongs to another runtime.
    pub fn spawn_on<F>(&self, color: &Color, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match self.kind.lanes {
            Lanes::Given => self.kind.handle.spawn_on_as(color, self.kind.index, future),
            _ => self.spawn(future),
        }
    }

    /// Names the kind in its runtime, as [`crate::Handler::index`] does, for [`crate::Place::Follow`].
    pub fn index(&self) -> HandlerIndex {
        self.kind.index
    }
}

impl fmt::Debug for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskKind").field("index", &self.kind.index).finish_non_exhaustive()
    }
}

/// A type's name without what it is generic over: for an async block, the function that it stands in.
fn task_name(of_type: &str) -> String {
    let mut name = "task ".to_owned();
    let mut depth = 0u32;
    for part in of_type.chars() {
        match part {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => name.push(part),
            _ => {}
        }
    }
    name.replace("::{{closure}}", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_called_by_its_function() {
        let name = task_name("web::serve<alloc::vec::Vec<u8>>::{{closure}}::{{closure}}");
        assert_eq!(name, "task web::serve");
        assert_eq!(task_name("(a, b)"), "task (a, b)");
    }
}
