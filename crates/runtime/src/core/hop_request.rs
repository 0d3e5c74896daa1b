//! The hop that the running event asks for.
//!
//! Leaves out the future that asks (`hop.rs`) and the move of the task (`task_body.rs`). Tested in
//! `tests/model.rs`.

use crate::color::Color;
use std::cell::{Cell, RefCell};

/// The hop that the running event asks for.
#[derive(Default)]
pub(crate) struct HopRequest {
    /// Set for the running event only. Apart from the target, because each event clears the mark.
    is_asked: Cell<bool>,
    /// The color, and the address of the future that asked last.
    target: RefCell<Option<(Color, usize)>>,
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

    /// The future at address `by` asks for a hop to `color`.
    pub(crate) fn ask(&self, color: Color, by: usize) {
        self.is_asked.set(true);
        let former = self.target.borrow_mut().replace((color, by));
        drop(former);
    }

    /// Ends the request, and returns the color.
    pub(crate) fn take(&self) -> Option<Color> {
        if !self.is_asked.take() {
            return None;
        }
        let target = self.target.borrow_mut().take();
        target.map(|(color, _)| color)
    }

    /// The future at address `by` is dropped. Ends its request, if the hop has not happened.
    pub(crate) fn withdraw(&self, by: usize) {
        let withdrawn = self.target.borrow_mut().take_if(|target| target.1 == by);
        if withdrawn.is_some() {
            self.is_asked.set(false);
        }
    }
}
