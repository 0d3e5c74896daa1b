//! The nodes of a ready queue, in one piece of memory, each written where it stands.
//!
//! The slab crate takes a node by value: it is made on the stack and copied, which waits for the stores, and that is a good part of
//! what queueing a color takes. Tested with the queue.

use crate::{
    ClassIndex,
    ready::{Kin, WorthClass},
};
use std::ops::{Index, IndexMut};

/// No node.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Nodes<T> {
    all: Vec<Node<T>>,
    /// The first that is free, which names the next in `in_core.after`.
    free: u32,
    len: usize,
}

#[derive(Debug)]
pub(super) struct Node<T> {
    pub(super) color: u64,
    /// Nothing in a node that is free.
    pub(super) token: Option<T>,
    pub(super) class: Option<WorthClass>,
    pub(super) of: ClassIndex,
    pub(super) kin: Option<Kin>,
    pub(super) since_ns: u64,
    pub(super) in_core: Links,
    pub(super) in_class: Links,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub(super) before: u32,
    pub(super) after: u32,
}

impl<T> Nodes<T> {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { all: Vec::with_capacity(count), free: NONE, len: 0 }
    }

    /// A node in no list, without a class and kin.
    #[inline]
    pub(super) fn insert(&mut self, color: u64, token: T, of: ClassIndex, since_ns: u64) -> u32 {
        self.len += 1;
        let at = match self.free {
            NONE => self.grow(),
            free => free,
        };
        let node = &mut self.all[at as usize];
        self.free = node.in_core.after;
        node.color = color;
        node.token = Some(token);
        node.class = None;
        node.of = of;
        node.kin = None;
        node.since_ns = since_ns;
        at
    }

    /// One more node, free.
    #[cold]
    fn grow(&mut self) -> u32 {
        let apart = Links { before: NONE, after: NONE };
        self.all.push(Node {
            color: 0,
            token: None,
            class: None,
            of: ClassIndex::default(),
            kin: None,
            since_ns: 0,
            in_core: apart,
            in_class: apart,
        });
        self.all.len() as u32 - 1
    }

    /// Frees a node that is in no list any more.
    #[inline]
    pub(super) fn remove(&mut self, at: u32) -> Option<T> {
        let node = &mut self.all[at as usize];
        node.in_core.after = self.free;
        self.free = at;
        self.len -= 1;
        node.token.take()
    }

    pub(super) fn get(&self, at: u32) -> Option<&Node<T>> {
        self.all.get(at as usize)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl<T> Index<u32> for Nodes<T> {
    type Output = Node<T>;

    fn index(&self, at: u32) -> &Node<T> {
        &self.all[at as usize]
    }
}

impl<T> IndexMut<u32> for Nodes<T> {
    fn index_mut(&mut self, at: u32) -> &mut Node<T> {
        &mut self.all[at as usize]
    }
}
