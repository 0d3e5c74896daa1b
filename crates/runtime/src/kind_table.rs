//! The handlers that polls of each type of future count as.
//!
//! Leaves out the choice of the handler (`kinds.rs`).

use rustc_hash::FxHashMap;
use std::{any::TypeId, cell::RefCell, sync::Mutex};
use vermeil_sched::HandlerIndex;

/// The handler that counts the polls of further types.
pub(crate) const TASKS: HandlerIndex = HandlerIndex(0);

/// Number of types with a handler, beside the handlers that a program registers. A server has a
/// dozen.
pub(crate) const KINDS_MAX: usize = 64;

/// The kinds of one runtime.
#[derive(Default)]
pub(crate) struct Kinds(pub(crate) Mutex<FxHashMap<TypeId, HandlerIndex>>);

/// A core's copy of the kinds, which needs no lock.
pub(crate) type KnownKinds = RefCell<FxHashMap<TypeId, HandlerIndex>>;
