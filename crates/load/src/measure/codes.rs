//! Answers by their status code.
//!
//! A server uses few codes, so a linear search in a short list is enough. Tested here.

use serde::{Deserialize, Serialize};

/// Codes and their numbers of answers, in the order of the first answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusCodes(Vec<(u16, u64)>);

impl StatusCodes {
    /// Counts answers with a code. A code has three digits, so the list is bounded.
    #[inline]
    pub fn count(&mut self, code: u16, times: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == code) {
            Some((_, count)) => *count += times,
            None => self.0.push((code, times)),
        }
    }

    /// Adds the counts of another list.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|&(code, times)| self.count(code, times));
    }

    /// Removes all counts.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Codes and their numbers, ascending by code.
    pub fn sorted(&self) -> Vec<(u16, u64)> {
        let mut all = self.0.clone();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_counted_each() {
        let (mut sum, mut other) = (StatusCodes::default(), StatusCodes::default());
        sum.count(503, 1);
        other.count(200, 2);
        other.count(503, 1);
        sum.merge(&other);
        assert_eq!(sum.sorted(), [(200, 2), (503, 2)]);
        sum.clear();
        assert_eq!(sum, StatusCodes::default());
    }
}
