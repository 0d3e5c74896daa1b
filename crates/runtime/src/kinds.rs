//! Kinds of tasks: the polls of each type of future count as a handler of their own.
//!
//! What a poll is expected to take decides whether its color is worth a steal, and one mean over an acceptor, a connection
//! and a compression is true of none of them. The type of a future tells them apart for nothing. The first so many types have
//! a handler each; the others share the first handler. Tested below and in `tests/task.rs`.

use crate::{
    core::{Core, current_of},
    handler::Handlers,
    shared::Shared,
    spec::Spec,
};
use rustc_hash::FxHashMap;
use std::{
    any::{TypeId, type_name},
    cell::RefCell,
    sync::Mutex,
};
use vermeil_sched::HandlerIndex;

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
        let index = handlers.add(&Spec::new(task_name(type_name::<F>())));
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
