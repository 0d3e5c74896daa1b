//! The hops that the running event asks for.
//!
//! A task can ask for several hops in one poll, because its futures can run side by side. The task
//! takes the last hop. The other futures ask again on the new color. Leaves out the future that
//! asks (`hop.rs`) and the move of the task (`task_body.rs`). Tested in `tests/model.rs`.

use crate::color::Color;
use std::{
    cell::{Cell, RefCell},
    task::Waker,
};

/// A hop that a future asks for.
pub(crate) struct HopAsk {
    pub(crate) color: Color,
    /// Has the future polled again after the hop. This waker is not the task's if the future runs
    /// beside others that are polled only after their own wake-ups.
    pub(crate) waker: Waker,
    /// The address of the future.
    pub(crate) by: usize,
}

/// The hops that the running event asks for.
#[derive(Default)]
pub(crate) struct HopRequest {
    /// Set for the running event only. Apart from the hops, because each event clears the mark.
    is_asked: Cell<bool>,
    asks: RefCell<HopAsks>,
}

/// The hops that the futures of a task ask for, at most one for each future.
#[derive(Default)]
struct HopAsks {
    /// The hop that the task takes.
    last: Option<HopAsk>,
    /// The hops that were asked for before.
    earlier: Vec<HopAsk>,
}

impl HopAsks {
    /// Adds the last hop. Returns the former hop of the same future.
    fn add(&mut self, ask: HopAsk) -> Option<HopAsk> {
        let former = self.remove(ask.by);
        let earlier = self.last.replace(ask);
        self.earlier.extend(earlier);
        former
    }

    /// Removes the hop of the future at address `by`.
    fn remove(&mut self, by: usize) -> Option<HopAsk> {
        if self.last.as_ref().is_some_and(|last| last.by == by) {
            let before = self.earlier.pop();
            return std::mem::replace(&mut self.last, before);
        }
        let at = self.earlier.iter().position(|ask| ask.by == by)?;
        Some(self.earlier.remove(at))
    }
}

impl HopRequest {
    /// An event begins. A request that an earlier event has left says nothing about this event.
    #[inline]
    pub(super) fn begin_event(&self) {
        self.is_asked.set(false);
    }

    /// Whether the running event has asked for a hop.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.get()
    }

    /// A future asks for a hop.
    pub(crate) fn ask(&self, ask: HopAsk) {
        // Replaced hops are dropped at the end, because a waker is foreign code.
        let stale = if self.is_asked.replace(true) { HopAsks::default() } else { self.asks.take() };
        let former = self.asks.borrow_mut().add(ask);
        drop((stale, former));
    }

    /// Ends the request. Returns the hop that the task takes, and the hops of its other futures.
    pub(crate) fn take(&self) -> Option<(HopAsk, Vec<HopAsk>)> {
        if !self.is_asked.take() {
            return None;
        }
        let HopAsks { last, earlier } = self.asks.take();
        Some((last?, earlier))
    }

    /// The future at address `by` is dropped. Ends its request, if the hop has not happened.
    pub(crate) fn withdraw(&self, by: usize) {
        let mut asks = self.asks.borrow_mut();
        let withdrawn = asks.remove(by);
        if asks.last.is_none() {
            self.is_asked.set(false);
        }
        drop(asks);
        drop(withdrawn);
    }
}
