//! The nodes of a ready queue, in one block of memory, each written in place.
//!
//! The slab crate takes a node by value. Such a node is made on the stack and copied, which waits
//! for the stores, and that is a good part of the cost of queueing a color. A thief takes a color's
//! node from the victim's cache, so a node is half a line and has only the thief's fields; the rest
//! is in a second array. Tested with the queue.

use crate::{
    ClassIndex,
    ready::{QueuedClass, StealClass},
};
use std::ops::{Index, IndexMut};

/// No node.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Nodes<T> {
    all: Vec<ReadyNode<T>>,
    /// At the same indices.
    beside: Vec<NodeAge>,
    /// The free nodes. Not linked through the nodes, because the taker of a node would wait for the
    /// line of the last thief.
    free: Vec<u32>,
}

#[derive(Debug)]
#[repr(align(32))]
pub(super) struct ReadyNode<T> {
    /// Empty in a free node.
    pub(super) token: Option<T>,
    pub(super) class: Option<QueuedClass>,
    pub(super) of: ClassIndex,
    pub(super) steal_class: Option<StealClass>,
    pub(super) in_core: Links,
    pub(super) in_class: Links,
}

/// Fields that a thief does not read, and the owner only if time is divided.
#[derive(Clone, Copy, Debug)]
struct NodeAge {
    color: u64,
    since_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub(super) before: u32,
    pub(super) after: u32,
}

impl<T> Nodes<T> {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            all: Vec::with_capacity(count),
            beside: Vec::with_capacity(count),
            free: Vec::with_capacity(count),
        }
    }

    /// The node of the next color.
    #[inline]
    pub(super) fn next(&mut self) -> u32 {
        if self.free.is_empty() {
            self.grow();
        }
        self.free[self.free.len() - 1]
    }

    /// A node in no list, without class and steal class.
    #[inline]
    pub(super) fn insert(&mut self, color: u64, token: T, of: ClassIndex, since_ns: u64) -> u32 {
        let at = self.next();
        self.free.pop();
        let node = &mut self.all[at as usize];
        // The node had no token. A check for a token to drop would wait for the line.
        std::mem::forget(node.token.replace(token));
        node.class = None;
        node.of = of;
        node.steal_class = None;
        self.beside[at as usize] = NodeAge { color, since_ns };
        at
    }

    /// Adds a free node.
    #[cold]
    fn grow(&mut self) {
        let apart = Links { before: NONE, after: NONE };
        self.all.push(ReadyNode {
            token: None,
            class: None,
            of: ClassIndex::default(),
            steal_class: None,
            in_core: apart,
            in_class: apart,
        });
        self.beside.push(NodeAge { color: 0, since_ns: 0 });
        // Reserves room for all other nodes too, for the time when all are free.
        self.free.reserve(self.all.len());
        self.free.push(self.all.len() as u32 - 1);
    }

    /// Frees a node that the caller removes from all lists before the next insertion; returns the
    /// token.
    #[inline]
    pub(super) fn remove(&mut self, at: u32) -> Option<T> {
        self.free.push(at);
        self.all[at as usize].token.take()
    }

    /// Whether `color` is in this node.
    pub(super) fn is_at(&self, at: u32, color: u64) -> bool {
        let is_taken = self.get(at).is_some_and(|node| node.token.is_some());
        is_taken && self.beside[at as usize].color == color
    }

    /// The time since which the color in this node waits.
    pub(super) fn since_ns(&self, at: u32) -> u64 {
        self.beside[at as usize].since_ns
    }

    pub(super) fn get(&self, at: u32) -> Option<&ReadyNode<T>> {
        self.all.get(at as usize)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

impl<T> Index<u32> for Nodes<T> {
    type Output = ReadyNode<T>;

    fn index(&self, at: u32) -> &ReadyNode<T> {
        &self.all[at as usize]
    }
}

impl<T> IndexMut<u32> for Nodes<T> {
    fn index_mut(&mut self, at: u32) -> &mut ReadyNode<T> {
        &mut self.all[at as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes per line, and no node across two lines.
    #[test]
    fn a_node_is_half_a_line() {
        assert_eq!((size_of::<ReadyNode<Box<u8>>>(), align_of::<ReadyNode<Box<u8>>>()), (32, 32));
    }
}
