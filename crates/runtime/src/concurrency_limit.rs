//! Handlers with a bound on the number of events that run at once, on any colors.
//!
//! An event of such a handler needs a permit while it runs. If no permit is free, the color waits
//! in the handler's semaphore: its token, with the event still first in the color. So the core goes
//! on with other colors, and the order stays the same. A returned permit goes to the color that has
//! waited longest. That color is marked and its token queued again, and the color finds its permit
//! by the mark.
//!
//! An event never blocks while it holds a permit, so every permit is returned. If the bound is at
//! least the number of cores, no event can wait, and the handler gets no semaphore. Leaves out the
//! waits (`permit_waits.rs`). Tested in `tests/concurrency_limit.rs`.

use crate::color_meta::{RuntimeHead, RuntimeToken};
use std::sync::atomic::Ordering;
use vermeil_queue::FairSemaphore;

/// The permits of a handler, and the tokens of the colors that wait.
pub(crate) type ConcurrencyLimit = FairSemaphore<RuntimeToken>;

/// Whether the first event of a color may begin. Takes the permit that the color has waited for, or
/// a free permit. The caller runs the color.
pub(crate) fn take_permit(limit: &ConcurrencyLimit, color: &RuntimeHead) -> bool {
    // Only the holder of the token reads and writes the mark.
    if color.meta.has_permit.load(Ordering::Relaxed) {
        color.meta.has_permit.store(false, Ordering::Relaxed);
        return true;
    }
    limit.try_acquire()
}
