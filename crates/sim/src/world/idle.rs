//! The searcher and the watcher of each node: [`IdleCoordinator`] of the runtime, without threads.

use vermeil_queue::IdleCoordinator;
use vermeil_sched::{CoreIndex, CoreLoad, Stealing, WATCH_NS};

use super::World;
use crate::watch::Watch;

impl<W: Watch> World<W> {
    /// The idle cores of a core's node.
    pub(super) fn idle_coordinator(&self, core: CoreIndex) -> &IdleCoordinator {
        &self.thieves.idle_coordinators[self.given.machine.layout().node(core) as usize]
    }

    /// Whether a core watches `owner`: a core of the same node, or else a core of the node of `by`.
    /// A watcher also watches nodes without a watcher.
    pub(super) fn is_watched(&self, owner: CoreIndex, by: CoreIndex) -> bool {
        self.idle_coordinator(owner).is_watched() || self.idle_coordinator(by).is_watched()
    }

    /// Rest of the time for which the core that was called last on this node must watch.
    pub(super) fn called_for_ns(&self, core: CoreIndex, at_ns: u64) -> Option<u64> {
        let since_ns = self.idle_coordinator(core).since_call(at_ns);
        let was_called = since_ns < at_ns;
        WATCH_NS.checked_sub(since_ns).filter(|&left_ns| left_ns > 0 && was_called)
    }

    /// Whether `watcher` must be woken to watch `owner`, because a color waits behind a running
    /// event. The color is not worth a steal now, and without a watcher no core would notice a long
    /// wait.
    pub(super) fn needs_watcher(
        &self,
        (owner, load): (CoreIndex, &CoreLoad),
        watcher: CoreIndex,
        at_ns: u64,
    ) -> bool {
        self.thieves.stealing == Stealing::Learned
            && self.given.options.planted.is_none()
            && load.running_since_ns.is_some()
            && !self.is_watched(owner, watcher)
            && self.idle_coordinator(watcher).calls_watcher(at_ns, WATCH_NS)
    }

    /// Wakes a sleeping core to search, unless another core of the node already searches.
    pub(super) fn wake_thief(&mut self, thief: CoreIndex, by: Option<CoreIndex>, at_ns: &mut u64) {
        let idle_coordinator = self.idle_coordinator(thief);
        if idle_coordinator.begin_search() {
            idle_coordinator.give_duty(thief.0);
            self.wake(thief, by, at_ns);
        }
    }
}
