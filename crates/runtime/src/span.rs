//! A span of the crate `tracing` around every event, behind the feature `tracing`.
//!
//! Owns the span's name and fields. Looks up names only if a subscriber wants the span; without the
//! feature the calls are empty. Tested in `tests/spans.rs` of the crate.

use crate::shared::RuntimeShared;
use vermeil_queue::{ColorId, Label};
use vermeil_sched::CoreIndex;

/// A span that ends when it is dropped.
#[cfg(feature = "tracing")]
pub(crate) type Entered = tracing::span::EnteredSpan;

/// No span.
#[cfg(not(feature = "tracing"))]
pub(crate) type Entered = std::convert::Infallible;

impl RuntimeShared {
    /// Enters the span of the running event, if a subscriber wants the span.
    #[cfg(feature = "tracing")]
    #[inline]
    pub(crate) fn span(&self, core: CoreIndex, color: ColorId, label: Label) -> Option<Entered> {
        tracing::enabled!(target: "vermeil", tracing::Level::TRACE).then(|| {
            let handler = self.handlers.name(vermeil_sched::HandlerIndex(label.handler().into()));
            let (color, core) = (color.0.get(), core.0);
            tracing::trace_span!(target: "vermeil", "event", handler, color, core).entered()
        })
    }

    /// No span.
    #[cfg(not(feature = "tracing"))]
    #[inline]
    pub(crate) fn span(&self, _: CoreIndex, _: ColorId, _: Label) -> Option<Entered> {
        None
    }
}
