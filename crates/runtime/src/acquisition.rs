//! The types of an acquisition of several colors.
//!
//! Leaves out the steps of an acquisition (`when.rs`).

use crate::{color_meta::ColorMeta, runtime_ref::RuntimeRef};

/// An acquisition of several colors.
pub(crate) type RuntimeAcquire = vermeil_queue::MultiAcquire<ColorMeta, AcquireAction>;

/// The purpose of an acquisition.
pub(crate) struct AcquireAction {
    pub(crate) body: Box<dyn FnOnce() + Send>,
    pub(crate) counted: CountedAcquire,
}

/// Counts the acquisition as a posted event, so a draining runtime waits for the acquisition.
pub(crate) struct CountedAcquire {
    pub(crate) core: u32,
    pub(crate) share: RuntimeRef,
}

impl Drop for CountedAcquire {
    fn drop(&mut self) {
        self.share.leave(self.core);
    }
}
