//! The faults that a run injects.
//!
//! Owns the time and the effect of each fault. The rest of the world only reads a few numbers, and
//! does not know that faults exist.

use vermeil_sched::{CoreIndex, ReadyOrder};

use super::World;
use super::clock::Moment;
use super::core::CorePhase;
use crate::options::InjectedFault;
use crate::random::{RandomStream, StreamPurpose};
use crate::watch::Watch;

impl<W: Watch> World<W> {
    /// Sets the faults that hold from the start, and puts the later faults on the clock.
    pub(super) fn begin_faults(&mut self) {
        for (index, fault) in self.given.options.faults.clone().into_iter().enumerate() {
            let mut later = |at_us: u32| {
                self.time.clock.at(u64::from(at_us) * 1_000, Moment::Fault { index: index as u32 });
            };
            match fault {
                InjectedFault::LateWakes { times } => self.faults.wake_times = times.max(1),
                InjectedFault::StaleHints { by_us } => self.faults.stale_ns = u64::from(by_us) * 1_000,
                InjectedFault::Outliers { permille, times } => self.faults.outliers = Some((permille, times)),
                InjectedFault::SpuriousWakes { every_us } => later(every_us),
                InjectedFault::SlowCore { at_us, .. }
                | InjectedFault::Pause { at_us, .. }
                | InjectedFault::RemoveCore { at_us, .. } => {
                    later(at_us);
                }
            }
        }
    }

    /// Applies a fault whose time has come.
    pub(super) fn fault(&mut self, index: u32) {
        let cores = self.cores.len() as u32;
        match self.given.options.faults[index as usize] {
            InjectedFault::SlowCore { core, percent, .. } => {
                self.core(CoreIndex(core % cores)).faults.speed_percent = percent.clamp(1, 100);
            }
            InjectedFault::Pause { core, for_us, .. } => {
                let until_ns = self.time.now_ns + u64::from(for_us) * 1_000;
                self.core(CoreIndex(core % cores)).faults.paused_until_ns = until_ns;
            }
            InjectedFault::RemoveCore { core, .. } => self.remove(CoreIndex(core % cores)),
            InjectedFault::SpuriousWakes { every_us } => self.wake_for_nothing(index, every_us),
            InjectedFault::LateWakes { .. }
            | InjectedFault::StaleHints { .. }
            | InjectedFault::Outliers { .. } => {}
        }
    }

    fn wake_for_nothing(&mut self, index: u32, every_us: u32) {
        let mut stream =
            RandomStream::new(self.given.options.seed, StreamPurpose::Fault, self.time.clock.asked());
        let core = CoreIndex(stream.below(self.cores.len() as u64) as u32);
        if self.core(core).phase != CorePhase::Awake {
            let mut at_ns = self.time.now_ns;
            self.wake(core, None, &mut at_ns);
        }
        let gap_ns = 1 + stream.exponential(u64::from(every_us.max(1)) * 1_000);
        self.time.clock.at(self.time.now_ns + gap_ns, Moment::Fault { index });
    }

    /// Removes a core. The running event runs to the end; waiting colors go to the next core.
    fn remove(&mut self, core: CoreIndex) {
        if self.cores.iter().filter(|core| core.is_there()).count() <= 1 || self.core(core).faults.is_gone {
            return;
        }
        self.core(core).faults.is_gone = true;
        self.evacuate(core);
    }

    /// Empties the queue of a removed core.
    fn evacuate(&mut self, core: CoreIndex) {
        let mut at_ns = self.time.now_ns;
        let heir = self.next_there(core);
        while let Some(color) = self.core(core).queue.ready.pop() {
            self.gauge(core);
            self.took_token(core, color);
            self.push_token(color, None, &mut at_ns);
            let number = self.colors.color(color).number;
            self.inherit(heir, number);
        }
        while let Some(color) = self.core(core).queue.ready.take_batched(u64::MAX) {
            self.push_token(color, None, &mut at_ns);
        }
        // In a queue of events: the entries of the color whose last event runs here. The color's
        // token follows when the event ends.
        for number in self.core(core).queue.ready.leave() {
            self.gauge(core);
            self.core(core).queue.entries -= 1;
            self.inherit(heir, number);
        }
    }

    /// Adds an entry, if the queue holds events.
    fn inherit(&mut self, heir: CoreIndex, number: u64) {
        if self.thieves.stealing.order() == ReadyOrder::Events {
            let state = self.core(heir);
            state.queue.ready.post(number, 1);
            state.queue.entries += 1;
            self.gauge(heir);
        }
    }
}
