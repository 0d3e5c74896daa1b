//! The interchangeable cores of a layout: plans that differ only by such an exchange are one plan.
//!
//! Contains the tree of a layout and the automorphisms of the tree. In a tree of caches, equal
//! subtrees are interchangeable. If distances form no tree, as between the nodes of a square of
//! links, the permutations are listed up to [`PERMUTATIONS_MAX`]. Beyond that bound some symmetric
//! plans are not recognised, which costs only time. Leaves out plans (`plan/search.rs`). Counted
//! against all permutations in `layout/symmetry/tests.rs`.

use super::{Distance, Layout};
use crate::CoreIndex;

#[cfg(test)]
mod tests;

/// Maximum number of listed permutations for cores or nodes whose distances form no tree.
pub const PERMUTATIONS_MAX: usize = 1_024;

/// The automorphisms of a layout: the permutations of cores that keep all distances and speeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Symmetry {
    root: CoreTree,
    /// All cores; equal and near cores are adjacent.
    slots: Vec<CoreIndex>,
}

#[derive(Clone, Debug, PartialEq)]
struct CoreTree {
    kind: LeafKind,
    /// Equal signatures mean equal trees, leaf by leaf.
    signature: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq)]
enum LeafKind {
    Leaf(CoreIndex),
    /// All children equally far apart, ordered by signature.
    Even(Vec<CoreTree>),
    /// Children at several distances, and the permutations that keep these distances.
    Uneven(Vec<CoreTree>, Vec<Vec<usize>>),
}

/// A tree's cores in canonical order and their least label.
struct Ordered {
    cores: Vec<CoreIndex>,
    least: u32,
}

impl Symmetry {
    /// The symmetries of a layout.
    pub fn of(layout: &Layout) -> Self {
        let root = grow(layout, layout.indices().collect());
        let mut slots = Vec::with_capacity(layout.cores());
        root.leaves(&mut slots);
        Self { root, slots }
    }

    /// The number of automorphisms, at least 1; `None` beyond 128 bits.
    pub fn automorphisms(&self) -> Option<u128> {
        self.root.automorphisms()
    }

    /// All cores, near cores adjacent: the order in which to lay out a pipeline.
    pub fn cores(&self) -> &[CoreIndex] {
        &self.slots
    }

    /// An automorphism that brings the least labels first: for each core, its image. `labels` has a
    /// label for each core, [`u32::MAX`] for none. Labelings that an automorphism makes equal get
    /// equal results, as long as no label stands on two cores.
    ///
    /// # Panics
    /// When there is not one label per core: a fault of the caller.
    pub fn relabel(&self, labels: &[u32]) -> Vec<CoreIndex> {
        assert_eq!(labels.len(), self.slots.len(), "one label per core");
        let ordered = self.root.ordered(labels);
        let mut becomes = vec![CoreIndex(0); labels.len()];
        for (core, &slot) in ordered.cores.into_iter().zip(&self.slots) {
            becomes[core.0 as usize] = slot;
        }
        becomes
    }
}

impl CoreTree {
    fn leaves(&self, into: &mut Vec<CoreIndex>) {
        match &self.kind {
            LeafKind::Leaf(core) => into.push(*core),
            LeafKind::Even(children) | LeafKind::Uneven(children, _) => {
                children.iter().for_each(|child| child.leaves(into));
            }
        }
    }

    fn automorphisms(&self) -> Option<u128> {
        let within = |children: &[CoreTree]| {
            children.iter().try_fold(1_u128, |all, child| all.checked_mul(child.automorphisms()?))
        };
        match &self.kind {
            LeafKind::Leaf(_) => Some(1),
            LeafKind::Even(children) => children
                .chunk_by(|a, b| a.signature == b.signature)
                .flat_map(|alike| 1..=alike.len() as u128)
                .try_fold(within(children)?, u128::checked_mul),
            LeafKind::Uneven(children, permutations) => {
                within(children)?.checked_mul(permutations.len() as u128)
            }
        }
    }

    fn ordered(&self, labels: &[u32]) -> Ordered {
        match &self.kind {
            LeafKind::Leaf(core) => Ordered { cores: vec![*core], least: labels[core.0 as usize] },
            LeafKind::Even(children) => {
                let mut parts: Vec<_> = children.iter().map(|child| child.ordered(labels)).collect();
                let mut begin = 0;
                for alike in children.chunk_by(|a, b| a.signature == b.signature) {
                    parts[begin..begin + alike.len()].sort_by_key(|part| part.least);
                    begin += alike.len();
                }
                join(parts)
            }
            LeafKind::Uneven(children, permutations) => {
                let parts: Vec<_> = children.iter().map(|child| child.ordered(labels)).collect();
                let least_first = permutations
                    .iter()
                    .min_by(|a, b| a.iter().map(|&i| parts[i].least).cmp(b.iter().map(|&i| parts[i].least)))
                    .expect("the identity is always there");
                let mut parts: Vec<_> = parts.into_iter().map(Some).collect();
                join(least_first.iter().filter_map(|&i| parts[i].take()).collect())
            }
        }
    }
}

fn join(parts: Vec<Ordered>) -> Ordered {
    let least = parts.iter().map(|part| part.least).min().unwrap_or(u32::MAX);
    Ordered { cores: parts.into_iter().flat_map(|part| part.cores).collect(), least }
}

fn grow(layout: &Layout, cores: Vec<CoreIndex>) -> CoreTree {
    if let [core] = cores[..] {
        return CoreTree { kind: LeafKind::Leaf(core), signature: vec![0, layout.capacity(core)] };
    }
    let pairs = || cores.iter().flat_map(|&a| cores.iter().map(move |&b| layout.distance(a, b)));
    let mut levels: Vec<_> = pairs().collect();
    levels.sort_unstable();
    levels.dedup();
    let farthest = levels.pop().expect("two cores are some distance apart");
    let blocks = |level| split(layout, &cores, level);
    let even = blocks(*levels.last().expect("a core is the same as itself"));
    if distances(layout, &even).is_some_and(|matrix| uniform(&matrix)) {
        return even_tree(layout, even, farthest);
    }
    let (blocks, matrix) = levels
        .into_iter()
        .rev()
        .map(blocks)
        .find_map(|blocks| distances(layout, &blocks).map(|matrix| (blocks, matrix)))
        .expect("single cores have one distance each");
    uneven_tree(blocks.into_iter().map(|block| grow(layout, block)).collect(), &matrix)
}

fn even_tree(layout: &Layout, blocks: Vec<Vec<CoreIndex>>, farthest: Distance) -> CoreTree {
    let mut children: Vec<_> = blocks.into_iter().map(|block| grow(layout, block)).collect();
    children.sort_by(|a, b| a.signature.cmp(&b.signature));
    let mut signature = vec![1, number(farthest), children.len() as u32];
    children.iter().for_each(|child| signature.extend(&child.signature));
    CoreTree { kind: LeafKind::Even(children), signature }
}

fn uneven_tree(children: Vec<CoreTree>, matrix: &[Vec<Distance>]) -> CoreTree {
    let mut signature = vec![2, children.len() as u32];
    signature.extend(matrix.iter().flatten().map(|&distance| number(distance)));
    children.iter().for_each(|child| signature.extend(&child.signature));
    let mut permutations = Vec::new();
    permute(&children, matrix, &mut Vec::new(), &mut permutations);
    CoreTree { kind: LeafKind::Uneven(children, permutations), signature }
}

/// Lists the permutations that keep signatures and distances, the identity first, by backtracking.
fn permute(
    children: &[CoreTree],
    matrix: &[Vec<Distance>],
    chosen: &mut Vec<usize>,
    found: &mut Vec<Vec<usize>>,
) {
    if found.len() == PERMUTATIONS_MAX {
        return;
    }
    let at = chosen.len();
    if at == children.len() {
        return found.push(chosen.clone());
    }
    for next in 0..children.len() {
        let fits = !chosen.contains(&next)
            && children[next].signature == children[at].signature
            && chosen.iter().enumerate().all(|(earlier, &other)| matrix[other][next] == matrix[earlier][at]);
        if fits {
            chosen.push(next);
            permute(children, matrix, chosen, found);
            chosen.pop();
        }
    }
}

/// The cores in blocks linked by distances of at most `level`.
fn split(layout: &Layout, cores: &[CoreIndex], level: Distance) -> Vec<Vec<CoreIndex>> {
    let mut left = cores.to_vec();
    let mut blocks = Vec::new();
    while let Some(&first) = left.first() {
        let mut block = vec![first];
        left.remove(0);
        let mut next = 0;
        while next < block.len() {
            let core = block[next];
            let (near, far) = left.into_iter().partition(|&other| layout.distance(core, other) <= level);
            block.extend::<Vec<_>>(near);
            left = far;
            next += 1;
        }
        block.sort_unstable();
        blocks.push(block);
    }
    blocks
}

/// The distances between blocks, if there are several blocks and each pair has a single distance.
fn distances(layout: &Layout, blocks: &[Vec<CoreIndex>]) -> Option<Vec<Vec<Distance>>> {
    let between = |a: &Vec<CoreIndex>, b: &Vec<CoreIndex>| {
        let first = layout.distance(a[0], b[0]);
        let same = a == b || a.iter().all(|&a| b.iter().all(|&b| layout.distance(a, b) == first));
        same.then_some(first)
    };
    if blocks.len() < 2 {
        return None;
    }
    blocks.iter().map(|a| blocks.iter().map(|b| between(a, b)).collect()).collect()
}

fn uniform(matrix: &[Vec<Distance>]) -> bool {
    let mut others = matrix.iter().flatten().filter(|&&distance| distance != Distance::Same);
    let first = others.next();
    others.all(|distance| Some(distance) == first)
}

fn number(distance: Distance) -> u32 {
    match distance {
        Distance::Hops(hops) => 8 + u32::from(hops),
        near => near.class() as u32,
    }
}
