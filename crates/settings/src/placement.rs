//! The configured cores and instances.

use vermeil_topology::{CoreSelection, InstanceSelection};

/// The requested cores and instances, before resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedPlacement {
    /// The cpus.
    pub cores: CoreSelection,
    /// The number of instances.
    pub instances: InstanceSelection,
}
