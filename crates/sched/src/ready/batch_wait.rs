//! Colors that wait for more events before they run: a batch by number and by time.
//!
//! A waiting area beside the queue. Neither the owner nor a thief sees a token there until the
//! color has enough events or the time has come. The thread that takes the token then queues the
//! token. Tested below.

use std::collections::{BTreeMap, HashMap};

/// How an empty color gathers events before it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchWait {
    /// The color runs as soon as this many events are queued, …
    pub events: usize,
    /// … or this long after the first post, in nanoseconds.
    pub within_ns: u64,
}

impl BatchWait {
    /// Whether a color with `queued` events has gathered enough.
    pub fn is_enough(self, queued: usize) -> bool {
        queued >= self.events
    }
}

#[derive(Debug)]
pub(super) struct BatchWaits<T> {
    /// By due time, then by color.
    waiting: BTreeMap<(u64, u64), T>,
    /// By color, the due time. Looked up by name only, never iterated.
    due_ns: HashMap<u64, u64>,
}

impl<T> Default for BatchWaits<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), due_ns: HashMap::new() }
    }
}

impl<T> BatchWaits<T> {
    pub(super) fn push(&mut self, color: u64, token: T, due_ns: u64) {
        let twin = self.due_ns.insert(color, due_ns);
        assert!(twin.is_none(), "a color has one token");
        self.waiting.insert((due_ns, color), token);
    }

    pub(super) fn take(&mut self, color: u64) -> Option<T> {
        let due_ns = self.due_ns.remove(&color)?;
        self.waiting.remove(&(due_ns, color))
    }

    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<T> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= now_ns)?;
        let ((_, color), token) = first.remove_entry();
        self.due_ns.remove(&color);
        Some(token)
    }

    pub(super) fn next_ns(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|((due_ns, _), _)| *due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_color_is_taken_by_name_or_when_due() {
        let mut waits = BatchWaits::default();
        for (color, due_ns) in [(1, 300), (2, 100), (3, 200)] {
            waits.push(color, color, due_ns);
        }
        assert_eq!(waits.next_ns(), Some(100));
        assert_eq!((waits.take(2), waits.take(2)), (Some(2), None));
        assert_eq!((waits.take_due(199), waits.take_due(200)), (None, Some(3)));
        waits.push(2, 2, 400);
        assert_eq!((waits.take_due(u64::MAX), waits.take_due(u64::MAX)), (Some(1), Some(2)));
        assert_eq!((waits.take_due(u64::MAX), waits.next_ns()), (None, None));
    }

    #[test]
    fn a_batch_is_enough_at_its_number() {
        let wait = BatchWait { events: 3, within_ns: 1 };
        assert_eq!([2, 3, 4].map(|queued| wait.is_enough(queued)), [false, true, true]);
    }
}
