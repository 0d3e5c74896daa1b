//! Replaces the scheduler's ready queue in the loom and shuttle scenarios.
//!
//! Holds tokens in order of arrival and, if configured, an entry for each event. Makes no
//! scheduling decisions.

use crate::{ColorHead, ColorId, Token};
use std::collections::VecDeque;

/// The tokens that wait for a core.
#[derive(Default)]
pub(crate) struct FakeQueue {
    tokens: VecDeque<Token>,
    /// Present if the queue keeps entries.
    entries: Option<VecDeque<ColorId>>,
}

impl FakeQueue {
    /// A queue in which no event runs without an entry.
    pub(crate) fn of_entries() -> Self {
        Self { entries: Some(VecDeque::new()), ..Self::default() }
    }

    /// The number of tokens that the owner could run; for `ReadyQueue::new`.
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

    pub(crate) fn push_entries(&mut self, color: &ColorHead, number: usize) {
        if let Some(entries) = &mut self.entries {
            entries.extend(std::iter::repeat_n(color.id(), number));
        }
    }

    /// Takes the next token and uses up an entry.
    pub(crate) fn pop(&mut self) -> Option<Token> {
        let Some(entries) = &mut self.entries else { return self.tokens.pop_front() };
        let tokens = &mut self.tokens;
        let place = |entry: &ColorId| tokens.iter().position(|token| token.color().id() == *entry);
        let (entry, at) =
            entries.iter().enumerate().find_map(|(entry, color)| Some((entry, place(color)?)))?;
        entries.remove(entry);
        tokens.remove(at)
    }

    /// Takes the token that `pop` would take, with all entries of the token's color.
    pub(crate) fn steal(&mut self) -> Option<(Token, usize)> {
        let at = self.tokens.iter().position(|token| self.is_due(token))?;
        self.take(at)
    }

    /// Takes the token of this color, with all entries of the color.
    pub(crate) fn remove(&mut self, color: &ColorHead) -> Option<(Token, usize)> {
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
