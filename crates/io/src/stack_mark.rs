//! A mark on the stack of a thread, which names the work that the thread does.
//!
//! A profiler that copies stacks finds the mark in the copy, without a call into the process and
//! without a symbol. The copy begins at the stack pointer, so the copy has live frames only. A
//! dropped mark is erased, because a later frame may contain the bytes without writing them.
//! Tested below, and with a recording in the profiler's `tests/record.rs`.

use std::hint::black_box;

/// The beginning of each mark. Two random words, which no program has on its stack by chance.
const BEGIN: [u64; 2] = [0x9d1f_5c3e_a7b2_6849, 0xe41b_83d6_2f70_95ca];

/// A mark that is found as long as it lives. A mark that moves is not found, so the place of a mark
/// is a local variable.
#[repr(C)]
#[derive(Debug)]
pub struct StackMark {
    begin: [u64; 2],
    name: u64,
}

impl StackMark {
    /// A mark that names work. Call [`Self::set`] once the mark is at its place.
    #[inline]
    pub fn new(name: u64) -> Self {
        Self { begin: BEGIN, name }
    }

    /// Makes the compiler write the mark to the stack.
    #[inline]
    pub fn set(&mut self) {
        black_box(self);
    }

    /// The name of the innermost mark in a copy of a stack, whose first byte was at `address`.
    pub fn find(stack: &[u8], address: u64) -> Option<u64> {
        let skipped = address.wrapping_neg() as usize % size_of::<u64>();
        let words = stack.get(skipped..)?.chunks_exact(size_of::<u64>());
        let mut words = words.map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
        let mut before = 0;
        while let Some(word) = words.next() {
            if [before, word] == BEGIN {
                return words.next();
            }
            before = word;
        }
        None
    }
}

impl Drop for StackMark {
    #[inline]
    fn drop(&mut self) {
        self.begin = [0; 2];
        black_box(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn innermost_mark_is_found() {
        let stack = bytes(&[1, BEGIN[0], BEGIN[0], BEGIN[1], 77, BEGIN[0], BEGIN[1], 78]);
        assert_eq!(StackMark::find(&stack, 0x1000), Some(77));
        // A copy that begins between two words.
        assert_eq!(StackMark::find(&stack[3..], 0x1003), Some(77));
        assert_eq!(StackMark::find(&stack[..32], 0x1000), None, "the copy ends behind the beginning");
        assert_eq!(StackMark::find(&[], 0), None);
    }

    #[test]
    fn mark_lives_until_it_is_dropped() {
        let mut mark = StackMark::new(5);
        mark.set();
        assert_eq!((mark.begin, mark.name), (BEGIN, 5));
    }
}
