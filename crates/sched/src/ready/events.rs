//! Libasync-SMP's queue: every event of the core in one queue, which thieves scan.
//!
//! The events are stored in their colors. This queue has one entry for each event, so that cores
//! run events in the order of posting, and a steal costs as much as in the original: a scan for the
//! first color that is not running, then a second scan to remove all entries of the color.

use super::Stolen;
use std::collections::{HashMap, VecDeque};

#[derive(Debug)]
pub(super) struct ReadyEvents<T> {
    entries: VecDeque<u64>,
    /// Tokens of the colors that are here and not running. Looked up by name only, never iterated.
    tokens: HashMap<u64, WaitingToken<T>>,
    stealable: usize,
}

#[derive(Debug)]
struct WaitingToken<T> {
    token: T,
    may_go: bool,
}

impl<T> Default for ReadyEvents<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), tokens: HashMap::new(), stealable: 0 }
    }
}

impl<T> ReadyEvents<T> {
    pub(super) fn post(&mut self, color: u64, entries: usize) {
        self.entries.extend(std::iter::repeat_n(color, entries));
    }

    pub(super) fn arrive(&mut self, color: u64, token: T, may_go: bool) {
        self.stealable += usize::from(may_go);
        let twin = self.tokens.insert(color, WaitingToken { token, may_go });
        assert!(twin.is_none(), "a color has one token");
    }

    /// The first entry whose token is here. An entry whose token is on the way, or held, keeps its
    /// position.
    pub(super) fn pop(&mut self) -> Option<T> {
        let at = self.entries.iter().position(|color| self.tokens.contains_key(color))?;
        let color = self.entries.remove(at)?;
        self.take(color)
    }

    pub(super) fn leave(&mut self) -> Vec<u64> {
        self.entries.drain(..).collect()
    }

    pub(super) fn steal(&mut self, mut fits: impl FnMut(&T) -> bool) -> Option<Stolen<T>> {
        let tokens = &self.tokens;
        let mut worthy =
            |color: &u64| tokens.get(color).is_some_and(|waiting| waiting.may_go && fits(&waiting.token));
        let color = self.entries.iter().copied().find(|color| worthy(color))?;
        self.remove(color)
    }

    pub(super) fn remove(&mut self, color: u64) -> Option<Stolen<T>> {
        let token = self.take(color)?;
        let before = self.entries.len();
        self.entries.retain(|entry| *entry != color);
        Some(Stolen { token, entries: before - self.entries.len(), key: None })
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.entries.is_empty() && !self.tokens.is_empty()
    }

    pub(super) fn stealable(&self) -> usize {
        self.stealable
    }

    fn take(&mut self, color: u64) -> Option<T> {
        let waiting = self.tokens.remove(&color)?;
        self.stealable -= usize::from(waiting.may_go);
        Some(waiting.token)
    }
}
