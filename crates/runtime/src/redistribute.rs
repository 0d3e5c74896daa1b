//! Carrying moves out: a donor lets go of what goes elsewhere, then each receiver takes what comes.
//!
//! The messages are `vermeil_sched::control::Redistribution::Mixed`'s, grouped: one for each donor, one for each donor and
//! receiver. What a core holds is what stands in its ready queue, and that has a lock; so whoever has a message carries it out in the
//! core's place, at once, where a core in a long event would serve it when that ends. What runs is in no queue, and goes when its
//! activation ends, as does what somebody else has moved meanwhile: the wish stays with the color. Why so is said in
//! that module, whose model check covers this delivery. Leaves out who moves (`control.rs`), and the tokens' way (the queue's
//! `handover.rs`). Tested in `tests/control.rs`.

use crate::{Color, color::Token, shared::Shared};
use std::collections::BTreeMap;
use vermeil_queue::Cores;
use vermeil_sched::CoreIndex;

impl Shared {
    /// A donor lets go of these colors, which are wanted elsewhere, under one lock: gives the tokens that waited there, by receiver.
    pub(crate) fn give<'a>(
        &self,
        donor: CoreIndex,
        colors: impl Iterator<Item = &'a Color>,
    ) -> BTreeMap<CoreIndex, Vec<Token>> {
        let mut by_receiver: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for token in self.let_go(donor.0, colors.map(|color| &**color.queue)) {
            // It stays if it has opened a socket since.
            by_receiver.entry(CoreIndex(token.color().core())).or_default().push(token);
        }
        by_receiver
    }

    /// A receiver takes these tokens, which are on their way to it, under one lock.
    pub(crate) fn take(&self, receiver: CoreIndex, tokens: Vec<Token>) {
        let colors: Vec<_> = tokens.iter().map(|token| token.color().clone()).collect();
        for token in self.queue_all(receiver.0, tokens) {
            self.schedule(token, 0);
        }
        let rings = colors.first().is_some_and(|color| self.ring(receiver.0, color.about.handler()));
        if !rings && self.stealing.is_on() {
            colors.iter().for_each(|color| self.consider_thief(color, receiver.0));
        }
    }
}
