//! The machine as data: cpus, caches, memory nodes and their distances; the part that this process
//! may use; the cpus of a server's cores; and the machine drawn as a tree.
//!
//! This crate reads only the given folder or text, and knows no runtime. Three sources give the
//! same [`Machine`]: the running system ([`sysfs::read`]), an hwloc XML export ([`xml::parse`]) and
//! a synthetic description ([`synthetic::parse`]). Because of the synthetic description, code that
//! depends on a machine's shape can be tried on machines that are not at hand.
//!
//! ```
//! use vermeil_topology::{Allowed, CoreSelection, CpuDistance, CpuId, render, synthetic};
//!
//! let machine = synthetic::parse("node:2 l3:1 core:2 pu:2")?;
//! assert_eq!(machine.distance(CpuId(0), CpuId(2)), Some(CpuDistance::L3));
//! let allowed = Allowed::everything(&machine);
//! let cores: CoreSelection = "2".parse()?;
//! assert_eq!(cores.resolve(&machine, &allowed)?, [CpuId(0), CpuId(2)]);
//! print!("{}", render::tree(&machine, &allowed));
//! # Ok::<(), vermeil_topology::TopologyError>(())
//! ```

mod cpuset;
mod error;
mod ids;
mod machine;

mod draft;
pub mod synthetic;
pub mod sysfs;
pub mod xml;

mod cgroup;
mod instances;
mod selection;

pub mod render;

pub use cgroup::{Allowed, CpuQuota, allowed, allowed_memory, cores_for};
pub use cpuset::{CPUS_MAX, CpuSet};
pub use error::TopologyError;
pub use ids::{CoreId, CpuId, NodeId, PackageId};
pub use instances::{INSTANCES_MAX, Instance, InstanceSelection};
pub use machine::{
    CAPACITY_MAX, Cache, CacheKind, CoreClass, CpuDistance, Machine, Node, Package, PhysicalCore, Pu,
};
pub use selection::CoreSelection;

#[cfg(test)]
mod fixture;
