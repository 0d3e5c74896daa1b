//! The first few reasons of a kind of failure, in words, with counts.
//!
//! Further reasons are not kept. A report knows the total from the count of faults. Tested here.

use serde::{Deserialize, Serialize};

/// Maximum number of different reasons: a limit on the lines of a report. A further line has the
/// count of the others.
const REASONS_MAX: usize = 8;

/// Reasons in words, with counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reasons(Vec<(String, u64)>);

impl Reasons {
    /// Counts a reason `times` times, if the reason is known or there is room.
    pub fn count(&mut self, words: &str, times: u64) {
        let has_room = self.0.len() < REASONS_MAX;
        match self.0.iter_mut().find(|(known, _)| known == words) {
            Some((_, count)) => *count += times,
            None if has_room => self.0.push((words.to_owned(), times)),
            None => {}
        }
    }

    /// Adds the counts of another list.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(words, times)| self.count(words, *times));
    }

    /// Removes all counts.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// All reasons, the most frequent first.
    pub fn sorted(&self) -> Vec<(String, u64)> {
        let mut all = self.0.clone();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_few_are_kept_and_counted() {
        let (mut sum, mut other) = (Reasons::default(), Reasons::default());
        sum.count("a", 1);
        other.count("b", 3);
        other.count("a", 1);
        sum.merge(&other);
        assert_eq!(sum.sorted(), [("b".to_owned(), 3), ("a".to_owned(), 2)]);
        (0..100).for_each(|index| sum.count(&format!("{index}"), 1));
        sum.count("a", 1);
        assert_eq!(sum.sorted().len(), REASONS_MAX);
        assert!(sum.sorted().contains(&("a".to_owned(), 3)));
        sum.clear();
        assert_eq!(sum, Reasons::default());
    }
}
