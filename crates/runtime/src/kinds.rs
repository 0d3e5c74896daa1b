//! Kinds of tasks: the polls of each type of future count as a handler of their own.
//!
//! The expected time of a poll decides whether its color is worth a steal. A single mean over an
//! acceptor, a connection and a compression would describe none of the three. The type of a future
//! distinguishes tasks at no cost. The first `KINDS_MAX` types have a handler each; further types
//! share the first handler. A program can also register a kind with its own spec ([`TaskKind`]).
//! Tested below, in `tests/task.rs` and `tests/kind.rs`.

use crate::{
    Color, Exclusion, Handle, RegisterError, Task,
    core::{Core, current_of},
    handler_colors::HandlerColors,
    handlers::{Handlers, Routes},
    kind_table::{Kinds, TASKS},
    runtime_id::RuntimeId,
    shared::RuntimeShared,
    spec::Spec,
};
use std::{
    any::{TypeId, type_name},
    fmt,
    future::Future,
};
use vermeil_sched::{ClassIndex, HandlerIndex};

impl Kinds {
    fn of<F: 'static>(&self, handlers: &Handlers) -> HandlerIndex {
        let mut kinds = self.0.lock().expect("nothing panics under this lock");
        if let Some(known) = kinds.get(&TypeId::of::<F>()) {
            return *known;
        }
        if kinds.len() == handlers.kinds_max() {
            return TASKS;
        }
        let index = handlers.add(&Spec::new(task_name(type_name::<F>())).as_new(), ClassIndex::default());
        kinds.insert(TypeId::of::<F>(), index);
        index
    }
}

impl RuntimeShared {
    /// The handler that counts polls of futures of this type.
    pub(crate) fn kind_of<F: 'static>(&self) -> HandlerIndex {
        let ask = || self.handlers.kinds.of::<F>(&self.handlers);
        let known = |core: &Core| *core.known.kinds.borrow_mut().entry(TypeId::of::<F>()).or_insert_with(ask);
        current_of(self, known).unwrap_or_else(ask)
    }
}

/// A registered kind of tasks, with its own spec: for example the class of the tasks' colors, the
/// cost of a poll, or exclusion. Cheap to copy. A kind keeps nothing of its runtime alive: after
/// the end of the runtime, tasks end as cancelled.
#[derive(Clone, Copy)]
pub struct TaskKind {
    index: HandlerIndex,
    runtime: RuntimeId,
}

impl Handle {
    /// Registers a kind of tasks, by its name or by a full [`Spec`]. Each poll counts as a run of
    /// the kind, as for a handler. The kind stays until the runtime ends.
    ///
    /// # Panics
    /// If [`try_kind`](Self::try_kind) fails. Also if the spec lets tasks
    /// [wait for a batch](Spec::batch_wait), because the waiter of a task waits for each poll.
    #[track_caller]
    pub fn kind(&self, spec: impl Into<Spec>) -> TaskKind {
        self.try_kind(spec).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`kind`](Self::kind), for programs that register as many as their input asks for.
    ///
    /// # Errors
    /// As [`try_handler`](Self::try_handler).
    ///
    /// # Panics
    /// If the spec lets tasks wait for a batch, or if its place names no core or no handler of this
    /// runtime.
    #[track_caller]
    pub fn try_kind(&self, spec: impl Into<Spec>) -> Result<TaskKind, RegisterError> {
        let spec = spec.into();
        assert!(spec.batch_wait.is_none(), "tasks wait for no batch: a poll is not put off");
        let affinity = self.affinity(&spec.place);
        let (index, mut lanes) = self.register(&spec)?;
        if matches!(spec.exclusion, Exclusion::None) {
            // A task keeps its color for life, so a task that waits would block other tasks of its
            // lane.
            lanes = HandlerColors::Fresh(affinity.clone());
            self.bound_runs(index, &spec);
        }
        self.shared.handlers.route(index, Routes { lanes, affinity });
        Ok(TaskKind { index, runtime: self.shared.id })
    }
}

impl TaskKind {
    /// Spawns `future` on a new color, which lives where the kind's [place](Spec::place) says. A
    /// kind with colors of its own uses those instead (see [`crate::Exclusion`]).
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let mut future = Some(future);
        let spawned = self.runtime.with(|share| {
            let (index, handle) = (self.index, Handle { shared: share.clone() });
            let Routes { lanes, affinity } = share.handlers.routes(index).expect("a kind has routes");
            let future = future.take().expect("it is spawned once");
            match lanes {
                HandlerColors::Given | HandlerColors::Fresh(_) => handle.spawn_alone(affinity, index, future),
                own => handle.spawn_on_as(&own.color(share, None), index, future),
            }
        });
        spawned.unwrap_or_else(Task::cancelled)
    }

    /// Spawns `future` on `color`, as [`Handle::spawn_on`] does. A kind with colors of its own uses
    /// those instead.
    ///
    /// # Panics
    /// If the color belongs to another runtime.
    #[track_caller]
    pub fn spawn_on<F>(&self, color: &Color, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        assert!(
            color.shared.id == self.runtime,
            "the kind of tasks and the color belong to different runtimes"
        );
        let handle = Handle { shared: color.shared.clone() };
        match handle.shared.handlers.routes(self.index) {
            Some(Routes { lanes: HandlerColors::Given, .. }) | None => {
                handle.spawn_on_as(color, self.index, future)
            }
            Some(_) => self.spawn(future),
        }
    }

    /// Names the kind in its runtime, as [`crate::Handler::index`] does, for
    /// [`crate::Place::Follow`].
    pub fn index(&self) -> HandlerIndex {
        self.index
    }
}

impl fmt::Debug for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskKind").field("index", &self.index).finish_non_exhaustive()
    }
}

/// The name of a type without generic arguments: for an async block, the name of the enclosing
/// function.
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
    fn task_kind_is_named_after_its_function() {
        let name = task_name("web::serve<alloc::vec::Vec<u8>>::{{closure}}::{{closure}}");
        assert_eq!(name, "task web::serve");
        assert_eq!(task_name("(a, b)"), "task (a, b)");
    }
}
