//! A machine from an hwloc XML export (`lstopo --of xml`), versions 1 and 2.
//!
//! Contains the meaning of hwloc's objects. Version 1 nests the contents of a node inside the node,
//! version 2 puts nodes beside the tree. Both give every object a cpu mask, and this reader uses
//! the masks. Leaves out I/O devices, groups and dies. Broken and truncated files give errors,
//! never a panic: properties in `xml/tests.rs`.

use std::collections::BTreeMap;

use roxmltree::{Document, ParsingOptions};

use crate::draft::Draft;
use crate::{CPUS_MAX, Cache, CacheKind, CoreClass, CpuId, CpuSet, Machine, PhysicalCore, TopologyError};
use crate::{Node, NodeId, Package, PackageId};

#[cfg(test)]
mod tests;

/// Maximum number of elements and texts in a document: about four times the output of hwloc for
/// [`CPUS_MAX`] cpus.
const XML_NODES_MAX: u32 = 1_000_000;
/// hwloc's `HWLOC_DISTANCES_KIND_MEANS_LATENCY`.
const KIND_LATENCY: u64 = 1 << 2;

type Element<'a> = roxmltree::Node<'a, 'a>;

/// Reads an hwloc XML export.
///
/// # Errors
/// [`TopologyError::Xml`] with the line if the text is not XML, not hwloc's, or lacks required
/// data; [`TopologyError::NoCpu`].
pub fn parse(text: &str) -> Result<Machine, TopologyError> {
    let options = ParsingOptions { allow_dtd: true, nodes_limit: XML_NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| TopologyError::Xml { line: error.pos().row, problem: error.to_string() })?;
    let root = document.root_element();
    if !root.has_tag_name("topology") {
        return fault(root, format!("the root element is <{}>, expected <topology>", root.tag_name().name()));
    }
    let mut draft = Draft::default();
    let objects = || root.descendants().filter(|element| element.has_tag_name("object"));
    for object in objects() {
        add_object(&mut draft, object)?;
    }
    for kind in root.descendants().filter(|element| element.has_tag_name("cpukind")) {
        add_cpu_kind(&mut draft, kind)?;
    }
    for element in root.descendants() {
        match element.tag_name().name() {
            "distances2" => add_distances_v2(&mut draft, element)?,
            "distances" => add_distances_v1(&mut draft, element)?,
            _ => {}
        }
    }
    draft.finish()
}

fn add_object(draft: &mut Draft, object: Element<'_>) -> Result<(), TopologyError> {
    match object.attribute("type").unwrap_or_default() {
        "Machine" => draft.offline = cpus(object, "complete_cpuset")?,
        "PU" => draft.cpus.insert(cpu(object)?),
        "Core" => draft.cores.push(PhysicalCore::of(cpus(object, "cpuset")?)),
        "Package" | "Socket" => draft.packages.push(Package {
            id: PackageId(number(object, "os_index")?.unwrap_or(draft.packages.len() as u64) as u32),
            cpus: cpus(object, "cpuset")?,
        }),
        "NUMANode" => draft.nodes.push(Node {
            id: node_id(object)?,
            cpus: cpus(object, "cpuset")?,
            memory_bytes: number(object, "local_memory")?.unwrap_or(0),
        }),
        "Cache" | "L1Cache" | "L2Cache" | "L3Cache" | "L4Cache" | "L5Cache" | "L1iCache" | "L2iCache"
        | "L3iCache" => draft.caches.push(cache(object)?),
        _ => {}
    }
    Ok(())
}

fn cpu(object: Element<'_>) -> Result<CpuId, TopologyError> {
    match number(object, "os_index")? {
        Some(cpu) if cpu < CPUS_MAX.into() => Ok(CpuId(cpu as u32)),
        _ => fault(object, format!("a PU needs an os_index below {CPUS_MAX}")),
    }
}

fn node_id(object: Element<'_>) -> Result<NodeId, TopologyError> {
    match number(object, "os_index")?.map(u32::try_from) {
        Some(Ok(id)) => Ok(NodeId(id)),
        _ => fault(object, "a NUMANode needs an os_index".into()),
    }
}

fn cache(object: Element<'_>) -> Result<Cache, TopologyError> {
    let level = match number(object, "depth")? {
        Some(level @ 1..=5) => level as u8,
        _ => return fault(object, "a cache needs a depth from 1 to 5".into()),
    };
    let kind = match object.attribute("cache_type") {
        Some("1") => CacheKind::Data,
        Some("2") => CacheKind::Instruction,
        _ => CacheKind::Unified,
    };
    let known = |bytes: Option<u64>| bytes.filter(|&bytes| bytes > 0);
    Ok(Cache {
        level,
        kind,
        bytes: known(number(object, "cache_size")?),
        line_bytes: known(number(object, "cache_linesize")?).and_then(|bytes| bytes.try_into().ok()),
        cpus: cpus(object, "cpuset")?,
    })
}

/// Cores whose kind says so are small cores. Kinds follow the objects.
fn add_cpu_kind(draft: &mut Draft, kind: Element<'_>) -> Result<(), TopologyError> {
    let small = |info: Element<'_>| {
        info.attribute("name") == Some("CoreType") && info.attribute("value") == Some("IntelAtom")
    };
    if kind.children().any(small) {
        let cpus = cpus(kind, "cpuset")?;
        for core in draft.cores.iter_mut().filter(|core| core.cpus.is_subset(&cpus)) {
            core.class = CoreClass::Efficient;
        }
    }
    Ok(())
}

/// `<distances2 type="NUMANode" indexing="os">` with its `<indexes>` and `<u64values>`, possibly in
/// several pieces.
fn add_distances_v2(draft: &mut Draft, matrix: Element<'_>) -> Result<(), TopologyError> {
    let latency = number(matrix, "kind")?.is_some_and(|kind| kind & KIND_LATENCY != 0);
    if !latency || matrix.attribute("type") != Some("NUMANode") || matrix.attribute("indexing") != Some("os")
    {
        return Ok(());
    }
    let ids = numbers(matrix, "indexes")?.into_iter().map(|id| NodeId(id as u32)).collect::<Vec<_>>();
    fill(draft, matrix, &ids, numbers(matrix, "u64values")?)
}

/// `<distances relative_depth=… latency_base=…>` below the object whose descendants, at that depth,
/// the matrix describes; `<latency>` values are in units of the base. Among the matrices of the
/// size of the nodes, the matrix at the depth of the nodes counts. hwloc 2, writing version 1,
/// gives a wrong depth, so in that case the first matrix counts.
fn add_distances_v1(draft: &mut Draft, matrix: Element<'_>) -> Result<(), TopologyError> {
    let Some(parent) = matrix.parent() else { return Ok(()) };
    let is_node = |element: &Element<'_>| element.attribute("type") == Some("NUMANode");
    let nodes: Vec<Element<'_>> = parent.descendants().filter(is_node).collect();
    let depth =
        nodes.first().map(|node| node.ancestors().take_while(|&above| above != parent).count() as u64);
    let exact = number(matrix, "relative_depth")? == depth;
    let square =
        number(matrix, "nbobjs")? == Some(draft.nodes.len() as u64) && nodes.len() == draft.nodes.len();
    if !square || !(exact || draft.distances.is_empty()) {
        return Ok(());
    }
    let factor = |element: Element<'_>, name| {
        element.attribute(name).and_then(|value| value.parse::<f64>().ok()).unwrap_or(1.0)
    };
    let base = factor(matrix, "latency_base");
    let latencies = matrix.children().filter(|element| element.has_tag_name("latency"));
    let values = latencies.map(|latency| (factor(latency, "value") * base).round() as u64).collect();
    let ids = nodes.into_iter().map(node_id).collect::<Result<Vec<_>, _>>()?;
    fill(draft, matrix, &ids, values)
}

fn fill(
    draft: &mut Draft,
    matrix: Element<'_>,
    ids: &[NodeId],
    values: Vec<u64>,
) -> Result<(), TopologyError> {
    if values.len() != ids.len() * ids.len() {
        let problem = format!("{} distances between {} nodes, expected a square", values.len(), ids.len());
        return fault(matrix, problem);
    }
    let pairs = ids.iter().flat_map(|&from| ids.iter().map(move |&to| (from, to)));
    let values = values.into_iter().map(|value| value.min(u32::MAX.into()) as u32);
    draft.distances.extend(pairs.zip(values).collect::<BTreeMap<_, _>>());
    Ok(())
}

/// The numbers in all children of that name, in order.
fn numbers(element: Element<'_>, name: &str) -> Result<Vec<u64>, TopologyError> {
    let texts = element.children().filter(|child| child.has_tag_name(name)).filter_map(|child| child.text());
    let words = texts.flat_map(str::split_ascii_whitespace);
    words
        .map(|word| {
            word.parse().or_else(|_| fault(element, format!("\"{word}\" in <{name}> is not a number")))
        })
        .collect()
}

fn number(element: Element<'_>, name: &str) -> Result<Option<u64>, TopologyError> {
    let Some(text) = element.attribute(name) else { return Ok(None) };
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => fault(element, format!("{name}=\"{text}\" is not a number")),
    }
}

/// hwloc's mask: 32-bit words in hexadecimal, highest first, between commas; an empty word is 0.
fn cpus(element: Element<'_>, name: &str) -> Result<CpuSet, TopologyError> {
    let mut set = CpuSet::new();
    let words = element.attribute(name).unwrap_or_default().rsplit(',');
    for (word, base) in words.zip((0..).step_by(32)) {
        let digits = word.trim().trim_start_matches("0x");
        let bits = if digits.is_empty() { Ok(0) } else { u32::from_str_radix(digits, 16) };
        let Ok(bits) = bits else {
            return fault(element, format!("\"{word}\" in {name} is not a mask of 32 cpus"));
        };
        if bits != 0 && base >= CPUS_MAX {
            return fault(element, format!("{name} names cpus beyond {}", CPUS_MAX - 1));
        }
        (0..32).filter(|bit| bits >> bit & 1 == 1).for_each(|bit| set.insert(CpuId(base + bit)));
    }
    Ok(set)
}

fn fault<T>(element: Element<'_>, problem: String) -> Result<T, TopologyError> {
    let line = element.document().text_pos_at(element.range().start).row;
    Err(TopologyError::Xml { line, problem })
}
