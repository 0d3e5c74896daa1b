//! Executes moves of colors: a donor gives tokens up, then each receiver takes its tokens.
//!
//! The messages are those of `vermeil_sched::control::Redistribution::Mixed`, grouped: one for each
//! donor, one for each pair of donor and receiver. The tokens of a core are in its ready queue,
//! which has a lock. So the thread with a message executes it at once in the core's place, and does
//! not wait for a long event of the core. A running color is in no queue, and moves when its
//! activation ends, like a color that another thread has moved meanwhile, because the color stores
//! the request. The module of `Redistribution` has the reasons and the model check of this
//! delivery. Leaves out the decision (`control.rs`) and the tokens' path (the queue's
//! `migration.rs`). Tested in `tests/control.rs`.

use crate::{
    color_meta::{RuntimeQueue, RuntimeToken},
    shared::RuntimeShared,
};
use std::{collections::BTreeMap, sync::Arc};
use vermeil_queue::Cores;
use vermeil_sched::CoreIndex;

impl RuntimeShared {
    /// A donor gives these colors up, which should run elsewhere, under one lock. Returns the
    /// tokens that waited there, by receiver.
    pub(crate) fn donate<'a>(
        &self,
        donor: CoreIndex,
        colors: impl Iterator<Item = &'a Arc<RuntimeQueue>>,
    ) -> BTreeMap<CoreIndex, Vec<RuntimeToken>> {
        let mut by_receiver: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for token in self.drain_migrating(donor.0, colors.map(|color| &***color)) {
            // The core of the last request, because another move may have replaced this one.
            by_receiver.entry(CoreIndex(token.color().core())).or_default().push(token);
        }
        by_receiver
    }

    /// A receiver takes these tokens, which are on their way to the receiver, under one lock.
    pub(crate) fn receive(&self, receiver: CoreIndex, tokens: Vec<RuntimeToken>) {
        let colors: Vec<_> = tokens.iter().map(|token| token.color().clone()).collect();
        for token in self.queue_all(receiver.0, tokens) {
            self.schedule(token, 0);
        }
        let rings = colors.first().is_some_and(|color| self.wake_core(receiver.0, color.meta.handler()));
        if !rings && self.settings.stealing.is_on() {
            colors.iter().for_each(|color| self.consider_thief(color, receiver.0, None));
        }
    }
}
