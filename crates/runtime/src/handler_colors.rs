//! The colors to which the events of a handler go.

use crate::{affinity::Affinity, color_meta::RuntimeQueue};
use std::sync::Arc;

/// The target of a handler's events. The runtime owns the lanes, so a lane must not keep the
/// runtime alive.
pub(crate) enum HandlerColors {
    /// The color that the event is posted with.
    Given,
    /// A single color for all events.
    One(Arc<RuntimeQueue>),
    /// The shortest of these colors.
    Some(Box<[Arc<RuntimeQueue>]>),
    /// A new color for each event.
    Fresh(Affinity),
}
