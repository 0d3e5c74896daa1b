//! The numbers of cpus, memory nodes, packages and cores.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// The operating system's number of a cpu (a hardware thread), as in `sched_setaffinity`.
    CpuId;
    /// The operating system's number of a memory node, as in `set_mempolicy`. Numbers may have
    /// gaps.
    NodeId;
    /// The number of a package (socket), as the machine reports it.
    PackageId;
    /// A physical core: its index in [`Machine::cores`](crate::Machine::cores).
    CoreId;
}
