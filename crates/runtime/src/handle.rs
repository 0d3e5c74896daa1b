//! The handle of a runtime: its colors and its cores.
//!
//! The files of tasks, handlers, keys and counters add their own methods.

use crate::{Color, affinity::Affinity, core::current, runtime_ref::RuntimeRef};
use vermeil_io::LoadPage;
use vermeil_sched::{CoreIndex, Placement};

/// Gives access to a runtime from any thread; cheap to clone. A handle may outlive the runtime:
/// posts are refused then, and tasks end as cancelled.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: RuntimeRef,
}

impl Handle {
    /// The handle of the runtime that this thread is a core of.
    ///
    /// # Panics
    /// Off a core. [`try_current`](Self::try_current) answers instead.
    #[track_caller]
    pub fn current() -> Self {
        Self::try_current().unwrap_or_else(|| {
            panic!(
                "this thread is no core of a runtime, so there is no current handle: call this in a task \
                 (`Handle::spawn`) or a handler, or keep the handle that `Runtime::handle` gives"
            )
        })
    }

    /// The handle of the runtime that this thread is a core of, if the thread is a core.
    pub fn try_current() -> Option<Self> {
        current(|core| Self { shared: core.share.clone() })
    }

    /// A new color, placed by the policy.
    pub fn color(&self) -> Color {
        self.new_color(Affinity::default())
    }

    /// A new color that lives on `core`.
    ///
    /// # Panics
    /// If `core` does not exist.
    #[track_caller]
    pub fn color_on(&self, core: CoreIndex) -> Color {
        self.check_core(core);
        self.new_color(Affinity::Placed(Placement::Core(core)))
    }

    pub(crate) fn new_color(&self, affinity: Affinity) -> Color {
        self.shared.color(affinity)
    }

    /// The page on which each core publishes its activity: the time since its last look at its
    /// sockets, by the clock of [`monotonic_ns`](crate::monotonic_ns).
    pub fn board(&self) -> &LoadPage {
        &self.shared.pages.board
    }

    /// The cores of the runtime.
    pub fn cores(&self) -> impl ExactSizeIterator<Item = CoreIndex> + use<> {
        self.shared.indices()
    }

    /// The cpu of a core, whether pinned or not: see [`Pinning`](crate::Pinning).
    ///
    /// # Panics
    /// If `core` does not exist.
    #[track_caller]
    pub fn cpu(&self, core: CoreIndex) -> usize {
        self.check_core(core);
        self.shared.core(core.0).facts.cpu
    }

    #[track_caller]
    pub(crate) fn check_core(&self, core: CoreIndex) {
        let cores = self.shared.cores.len();
        assert!(
            (core.0 as usize) < cores,
            "there is no core {}: the runtime has {cores}, numbered from 0",
            core.0
        );
    }
}
