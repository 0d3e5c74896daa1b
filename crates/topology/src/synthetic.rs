//! A machine from a synthetic description in hwloc's notation, such as `node:4 l3:1(size=5MiB)
//! core:4 pu:1`.
//!
//! Each item is a level and the number of its objects under each object of the previous level.
//! Contains the meaning of the levels and the default sizes (hwloc's). `synthetic/syntax.rs` parses
//! the text. Leaves out hwloc's index loops by level name (`indexes=core:pu`). Golden cases and the
//! property that cpus multiply: `synthetic/tests.rs`.

use std::collections::BTreeSet;

use crate::draft::Draft;
use crate::machine::NODES_MAX;
use crate::{
    CPUS_MAX, Cache, CacheKind, CpuId, CpuSet, Machine, Node, NodeId, Package, PackageId, PhysicalCore,
    TopologyError,
};
use syntax::{Cursor, Indexes, LevelKind, SyntaxAttributes, SyntaxFault, SyntaxItem};

mod syntax;
#[cfg(test)]
mod tests;

/// hwloc's default size of a memory node.
const NODE_BYTES_DEFAULT: u64 = 1 << 30;
/// hwloc's line size of every synthetic cache.
const LINE_BYTES: u32 = 64;

/// Reads hwloc's synthetic notation.
///
/// Level names, in any case and shortened to two letters or more: `machine` (once, first),
/// `package` (`pack`, `socket`), `numanode` (`numa`, `node`), `die`, `group`, `l1` to `l5` (also
/// `l1d`, `l1i`, `L2Cache`), `core`, `pu`. The last level is `pu` and may be a bare number. If all
/// levels are bare numbers (`2 4 2`), the levels get hwloc's names. Attributes: `(size=32MiB)` of
/// caches, `(memory=8GiB)` of nodes, `(indexes=0,2,1,3)` or `(indexes=2*2)` of nodes and pus; `kB`,
/// `MB`, `GB`, `TB` count in thousands and `KiB` to `TiB` in 1024s, as in hwloc.
/// `[numa(memory=8GiB)]` attaches a node to each object of the previous level.
///
/// # Errors
/// [`TopologyError::Synthetic`], with the column and the nearest known word.
pub fn parse(text: &str) -> Result<Machine, TopologyError> {
    draft(text)
        .map_err(|fault| TopologyError::Synthetic {
            text: text.to_owned(),
            column: text[..fault.at].chars().count() + 1,
            problem: fault.problem,
        })?
        .finish()
}

/// A level with a resolved name. `total` is the number of objects in the whole machine.
struct Level {
    kind: LevelKind,
    total: usize,
    attributes: SyntaxAttributes,
}

fn draft(text: &str) -> Result<Draft, SyntaxFault> {
    let mut cursor = Cursor::new(text);
    let root = cursor.root_attributes()?;
    let (levels, attached) = settle(cursor.items()?, text.len())?;
    let pus = levels.last().map_or(0, |level| level.total);
    let cpus = CpuMap::new(&levels[levels.len() - 1], pus)?;
    let mut draft = Draft { cpus: cpus.range(0, 1), ..Draft::default() };
    for level in &levels {
        let sets = (0..level.total).map(|index| cpus.range(index, level.total));
        match level.kind {
            LevelKind::Package => {
                draft.packages =
                    sets.zip(0..).map(|(cpus, id)| Package { id: PackageId(id), cpus }).collect();
            }
            LevelKind::Core => draft.cores = sets.map(PhysicalCore::of).collect(),
            LevelKind::Cache(depth, kind) => draft.caches.extend(sets.map(|cpus| Cache {
                level: depth,
                kind,
                bytes: Some(level.attributes.bytes.unwrap_or(cache_bytes_default(depth))),
                line_bytes: Some(LINE_BYTES),
                cpus,
            })),
            LevelKind::Node => draft.nodes = nodes(level, &cpus, 0)?,
            LevelKind::Machine | LevelKind::Die | LevelKind::Group | LevelKind::Pu => {}
        }
    }
    for level in &attached {
        let more = nodes(level, &cpus, draft.nodes.len())?;
        draft.nodes.extend(more);
    }
    if draft.nodes.is_empty() {
        let memory_bytes = root.bytes.unwrap_or(NODE_BYTES_DEFAULT);
        draft.nodes.push(Node { id: NodeId(0), cpus: draft.cpus.clone(), memory_bytes });
    }
    Ok(draft)
}

/// hwloc's defaults: 32 KiB at level 1, then 4 MiB, 16 MiB, 64 MiB, 256 MiB.
fn cache_bytes_default(level: u8) -> u64 {
    if level == 1 { 32 << 10 } else { (256 << 10) << (2 * level) }
}

fn nodes(level: &Level, cpus: &CpuMap, first: usize) -> Result<Vec<Node>, SyntaxFault> {
    let ids = numbers(level, level.total)?;
    let memory_bytes = level.attributes.bytes.unwrap_or(NODE_BYTES_DEFAULT);
    let node = |(index, id): (usize, u32)| Node {
        id: NodeId(id + first as u32),
        cpus: cpus.range(index, level.total),
        memory_bytes,
    };
    Ok(ids.into_iter().enumerate().map(node).collect())
}

/// Gives each level a name and a total; nodes in brackets are returned separately, as levels with
/// their parent's total.
fn settle(items: Vec<SyntaxItem>, end: usize) -> Result<(Vec<Level>, Vec<Level>), SyntaxFault> {
    let counted = items.iter().filter(|item| !item.attached).count();
    let mut names = names_of(&items, counted, end)?.into_iter();
    let (mut levels, mut attached, mut total) = (Vec::<Level>::new(), Vec::new(), 1_usize);
    let mut nodes = 0;
    for item in items {
        let SyntaxItem { at, count, attributes, .. } = item;
        if item.attached {
            nodes += total;
            if nodes > NODES_MAX {
                return Err(SyntaxFault::at(
                    at,
                    format!("more than {NODES_MAX} memory nodes; Linux numbers no more, so take fewer"),
                ));
            }
            attached.push(Level { kind: LevelKind::Node, total, attributes });
            continue;
        }
        let Some(kind) = names.next() else { break };
        total = total.checked_mul(count).filter(|&all| all <= CPUS_MAX as usize).ok_or_else(|| {
            SyntaxFault::at(
                at,
                format!("more than {CPUS_MAX} objects; Linux numbers no more cpus, so take fewer"),
            )
        })?;
        if kind == LevelKind::Machine && (count != 1 || !levels.is_empty()) {
            return Err(SyntaxFault::at(
                at,
                "a description is one machine: write machine:1 first, or leave it out".into(),
            ));
        }
        if kind != LevelKind::Group && levels.iter().any(|level| level.kind == kind) {
            return Err(SyntaxFault::at(at, format!("a second {} level; put the two together", kind.name())));
        }
        levels.push(Level { kind, total, attributes });
    }
    Ok((levels, attached))
}

/// The kinds of the counted levels: the given kinds or, if none is given, hwloc's choice for that
/// number.
fn names_of(items: &[SyntaxItem], counted: usize, end: usize) -> Result<Vec<LevelKind>, SyntaxFault> {
    let levels: Vec<&SyntaxItem> = items.iter().filter(|item| !item.attached).collect();
    let Some((last, above)) = levels.split_last() else {
        return Err(SyntaxFault::at(end, "no level; the shortest machine is pu:1".into()));
    };
    if last.kind.is_some_and(|kind| kind != LevelKind::Pu) {
        return Err(SyntaxFault::at(end, "the last level must be pu; add pu:1".into()));
    }
    if let Some(inner) = above.iter().find(|item| item.kind == Some(LevelKind::Pu)) {
        return Err(SyntaxFault::at(inner.at, "pu must be the last level".into()));
    }
    if above.iter().all(|item| item.kind.is_none()) {
        return unnamed(counted).ok_or_else(|| {
            SyntaxFault::at(
                levels[8].at,
                "hwloc has names for 8 bare numbers at most; name the levels".into(),
            )
        });
    }
    let name = |item: &&SyntaxItem| {
        item.kind.ok_or_else(|| {
            SyntaxFault::at(
                item.at,
                "a number without a level name among named levels; name it, as in core:4".into(),
            )
        })
    };
    above.iter().map(name).chain([Ok(LevelKind::Pu)]).collect()
}

/// hwloc's interpretation of bare numbers, up to eight.
fn unnamed(count: usize) -> Option<Vec<LevelKind>> {
    let from = [
        (3, LevelKind::Package),
        (2, LevelKind::Node),
        (7, LevelKind::Cache(3, CacheKind::Unified)),
        (5, LevelKind::Cache(2, CacheKind::Unified)),
        (6, LevelKind::Cache(1, CacheKind::Data)),
        (8, LevelKind::Cache(1, CacheKind::Instruction)),
        (4, LevelKind::Core),
        (1, LevelKind::Pu),
    ];
    (count <= from.len())
        .then(|| from.iter().filter(|(least, _)| count >= *least).map(|&(_, kind)| kind).collect())
}

/// The mapping from the position in the tree to the system's cpu number.
struct CpuMap(Vec<u32>);

impl CpuMap {
    fn new(level: &Level, pus: usize) -> Result<CpuMap, SyntaxFault> {
        numbers(level, pus).map(CpuMap)
    }

    /// The cpus under object `index` of a level of `total`.
    fn range(&self, index: usize, total: usize) -> CpuSet {
        let span = self.0.len() / total;
        self.0[index * span..(index + 1) * span].iter().map(|&cpu| CpuId(cpu)).collect()
    }
}

/// The system's numbers of a level's objects: as in `indexes=`, else consecutive.
fn numbers(level: &Level, total: usize) -> Result<Vec<u32>, SyntaxFault> {
    let Some((at, indexes)) = &level.attributes.indexes else {
        return Ok((0..total as u32).collect());
    };
    let numbers = match indexes {
        Indexes::List(list) => list.clone(),
        Indexes::Loops(loops) => interleaved(loops, total),
    };
    let distinct: BTreeSet<u32> = numbers.iter().copied().filter(|&number| number < CPUS_MAX).collect();
    if numbers.len() != total || distinct.len() != total {
        return Err(SyntaxFault::at(
            *at,
            format!("indexes must name {total} different numbers below {CPUS_MAX}"),
        ));
    }
    Ok(numbers)
}

/// hwloc's `step*count:...` loops. Objects a `step` apart get consecutive numbers, `count` of them,
/// and so on with the next loop; a missing last loop of step 1 is implied.
fn interleaved(loops: &[(usize, usize)], total: usize) -> Vec<u32> {
    let product = loops.iter().try_fold(1_usize, |all, &(_, count)| all.checked_mul(count)).unwrap_or(0);
    if product == 0 || !total.is_multiple_of(product) {
        return Vec::new();
    }
    let number = |position: usize| {
        let (mut number, mut weight) = (0, 1);
        for &(step, count) in loops.iter().chain(&[(1, total / product)]) {
            number += position / step % count * weight;
            weight *= count;
        }
        number as u32
    };
    (0..total).map(number).collect()
}
