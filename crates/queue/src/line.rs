//! Stands for the scheduler's ready queue in the checkers' scenarios, under loom and under shuttle.
//!
//! Tokens in the order of their coming, and beside them, if it keeps entries, one for each event. Leaves out everything that decides.

use crate::{ColorId, Head, Token};
use std::collections::VecDeque;

/// What waits for a core.
#[derive(Default)]
pub(crate) struct Line {
    tokens: VecDeque<Token>,
    /// Of an order of events.
    entries: Option<VecDeque<ColorId>>,
}

impl Line {
    /// Where nothing runs without an entry.
    pub(crate) fn of_entries() -> Self {
        Self { entries: Some(VecDeque::new()), ..Self::default() }
    }

    /// What its owner would find; for `ReadyQueue::new`.
    pub(crate) fn len(&self) -> usize {
        self.tokens.iter().filter(|token| self.is_due(token)).count()
    }

    fn is_due(&self, token: &Token) -> bool {
        self.entries.as_ref().is_none_or(|entries| entries.contains(&token.color().id()))
    }

    pub(crate) fn push(&mut self, token: Token, entries: usize) {
        self.push_entries(token.color(), entries);
        self.tokens.push_back(token);
    }

    pub(crate) fn push_entries(&mut self, color: &Head, number: usize) {
        if let Some(entries) = &mut self.entries {
            entries.extend(std::iter::repeat_n(color.id(), number));
        }
    }

    /// What is next; it uses an entry up.
    pub(crate) fn pop(&mut self) -> Option<Token> {
        let Some(entries) = &mut self.entries else { return self.tokens.pop_front() };
        let tokens = &mut self.tokens;
        let place = |entry: &ColorId| tokens.iter().position(|token| token.color().id() == *entry);
        let (entry, at) =
            entries.iter().enumerate().find_map(|(entry, color)| Some((entry, place(color)?)))?;
        entries.remove(entry);
        tokens.remove(at)
    }

    /// Takes what would be next, with all its entries.
    pub(crate) fn steal(&mut self) -> Option<(Token, usize)> {
        let at = self.tokens.iter().position(|token| self.is_due(token))?;
        self.take(at)
    }

    /// Takes the token of this color, with all its entries.
    pub(crate) fn remove(&mut self, color: &Head) -> Option<(Token, usize)> {
        let at = self.tokens.iter().position(|token| token.color().id() == color.id())?;
        self.take(at)
    }

    fn take(&mut self, at: usize) -> Option<(Token, usize)> {
        let token = self.tokens.remove(at)?;
        let color = token.color().id();
        let entries = self.entries.as_mut().map_or(0, |entries| {
            let before = entries.len();
            entries.retain(|entry| *entry != color);
            before - entries.len()
        });
        Some((token, entries))
    }
}
