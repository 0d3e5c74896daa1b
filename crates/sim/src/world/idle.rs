//! The searcher and the watcher of each node: `idle.rs` of the queue, without threads.

use vermeil_sched::{CoreIndex, CoreLoad, Stealing, WATCH_NS};

use super::World;
use crate::watch::Watch;

/// The searcher and the watcher among a node's cores.
#[derive(Clone, Debug, Default)]
pub(super) struct IdleCores {
    /// A core was woken as a thief. Until the search ends, no other core of the node is woken to
    /// search.
    pub(super) is_searching: bool,
    /// The sleeping core that watches the busy cores.
    pub(super) watcher: Option<CoreIndex>,
    called_ns: u64,
    /// The core that was called last or watched last and has run nothing since.
    pub(super) duty: Option<CoreIndex>,
}

impl IdleCores {
    /// Rest of the time for which the last called core must watch.
    pub(super) fn called_for_ns(&self, at_ns: u64) -> Option<u64> {
        let since_ns = at_ns.saturating_sub(self.called_ns);
        WATCH_NS.checked_sub(since_ns).filter(|&left_ns| left_ns > 0 && self.called_ns > 0)
    }

    fn calls_watcher(&mut self, at_ns: u64) -> bool {
        let due = self.duty.is_none() || at_ns.saturating_sub(self.called_ns) > WATCH_NS;
        if due {
            self.called_ns = at_ns;
        }
        due
    }

    /// Ends the duty of a core that runs work now. Returns whether the core had the duty to watch.
    pub(super) fn end_duty(&mut self, core: CoreIndex) -> bool {
        self.duty.take_if(|duty| *duty == core).is_some()
    }
}

impl<W: Watch> World<W> {
    /// The idle cores of a core's node.
    pub(super) fn idle_cores(&self, core: CoreIndex) -> &IdleCores {
        &self.thieves.lookouts[self.given.machine.layout().node(core) as usize]
    }

    pub(super) fn idle_cores_mut(&mut self, core: CoreIndex) -> &mut IdleCores {
        &mut self.thieves.lookouts[self.given.machine.layout().node(core) as usize]
    }

    /// Whether a core watches `owner`: a core of the same node, or else a core of the node of `by`.
    /// A watcher also watches nodes without a watcher.
    pub(super) fn is_watched(&self, owner: CoreIndex, by: CoreIndex) -> bool {
        self.idle_cores(owner).watcher.is_some() || self.idle_cores(by).watcher.is_some()
    }

    /// Whether `watcher` must be woken to watch `owner`, because a color waits behind a running
    /// event. The color is not worth a steal now, and without a watcher no core would notice a long
    /// wait.
    pub(super) fn needs_watcher(
        &mut self,
        (owner, load): (CoreIndex, &CoreLoad),
        watcher: CoreIndex,
        at_ns: u64,
    ) -> bool {
        self.thieves.stealing == Stealing::Learned
            && self.given.options.planted.is_none()
            && load.running_since_ns.is_some()
            && !self.is_watched(owner, watcher)
            && self.idle_cores_mut(watcher).calls_watcher(at_ns)
    }

    /// Wakes a sleeping core to search, unless another core of the node already searches.
    pub(super) fn wake_thief(&mut self, thief: CoreIndex, by: Option<CoreIndex>, at_ns: &mut u64) {
        let idle_cores = self.idle_cores_mut(thief);
        if !std::mem::replace(&mut idle_cores.is_searching, true) {
            idle_cores.duty = Some(thief);
            self.wake(thief, by, at_ns);
        }
    }
}
