//! The machine this process runs on, and what the process may use of it: where the topology crate meets the kernel.

use std::path::Path;
use vermeil_topology::{Allowed, CPUS_MAX, CpuId, CpuSet, Error, Machine, allowed, sysfs};

/// Reads the machine from `/sys`, and what is allowed from the affinity mask and the cgroups.
///
/// # Errors
/// `/sys` has no cpus.
pub(crate) fn this_machine() -> Result<(Machine, Allowed), Error> {
    let root = Path::new("/");
    let machine = sysfs::read(root)?;
    let mut affinity = CpuSet::new();
    for cpu in vermeil_io::current_affinity() {
        match u32::try_from(cpu) {
            Ok(cpu) if cpu < CPUS_MAX => affinity.insert(CpuId(cpu)),
            _ => {}
        }
    }
    Ok((machine, allowed(root, &affinity)))
}
