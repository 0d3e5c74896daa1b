//! The code of handlers, from its registration to the end of the runtime.
//!
//! Code may hold handles of its own runtime, so the runtime drops the code at the end; otherwise a
//! cycle would keep both alive for ever. An event names its handler and not the code, so no
//! reference is counted for an event. Each core keeps the code of the handlers that have run there,
//! so a core that was left behind keeps the code that the core runs. Tested in `tests/stopping.rs`.

use rustc_hash::FxHashMap;
use std::{
    any::Any,
    cell::RefCell,
    sync::{Arc, Mutex},
};
use vermeil_sched::HandlerIndex;

type AnyCode = Arc<dyn Any + Send + Sync>;

/// The code that runs for an event of type `E`.
pub(crate) struct Code<E>(Box<dyn Fn(E) + Send + Sync>);

/// The code of all handlers of a runtime; `None` once the runtime has ended.
pub(crate) struct HandlerCodes(Mutex<Option<FxHashMap<u32, AnyCode>>>);

impl Default for HandlerCodes {
    fn default() -> Self {
        Self(Mutex::new(Some(FxHashMap::default())))
    }
}

impl HandlerCodes {
    /// Keeps the code of a handler, unless the runtime has ended.
    pub(crate) fn add<E: 'static>(&self, handler: HandlerIndex, run: Box<dyn Fn(E) + Send + Sync>) {
        let code: AnyCode = Arc::new(Code(run));
        let mut codes = self.0.lock().expect("nothing panics under this lock");
        let late = match codes.as_mut() {
            Some(codes) => codes.insert(handler.0, code),
            None => Some(code),
        };
        drop(codes);
        // Outside of the lock, because the code may hold anything.
        drop(late);
    }

    fn get(&self, handler: HandlerIndex) -> Option<AnyCode> {
        self.0.lock().expect("nothing panics under this lock").as_ref()?.get(&handler.0).cloned()
    }

    /// The runtime has ended: drops the code of all handlers.
    pub(crate) fn clear(&self) {
        let codes = self.0.lock().expect("nothing panics under this lock").take();
        drop(codes);
    }
}

/// The code of the handlers that have run on one core, by number.
#[derive(Default)]
pub(crate) struct KnownCodes(RefCell<Vec<Option<AnyCode>>>);

impl KnownCodes {
    /// Runs `f` with the code of `handler`. Returns `None` if the runtime ended before the handler
    /// ran here.
    #[inline]
    pub(crate) fn with<E: 'static, R>(
        &self,
        codes: &HandlerCodes,
        handler: HandlerIndex,
        f: impl FnOnce(&(dyn Fn(E) + Send + Sync)) -> R,
    ) -> Option<R> {
        let at = handler.0 as usize;
        if self.0.borrow().get(at).is_none_or(Option::is_none) {
            self.learn(codes, handler);
        }
        let known = self.0.borrow();
        let code = known.get(at)?.as_ref()?;
        let Code(run) = code.downcast_ref::<Code<E>>().expect("an event names the handler of its type");
        Some(f(&**run))
    }

    #[cold]
    fn learn(&self, codes: &HandlerCodes, handler: HandlerIndex) {
        let (at, code) = (handler.0 as usize, codes.get(handler));
        let mut known = self.0.borrow_mut();
        if known.len() <= at {
            known.resize(at + 1, None);
        }
        known[at] = code;
    }
}
