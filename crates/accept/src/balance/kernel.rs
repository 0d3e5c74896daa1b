//! The program in the kernel that chooses the core of a new connection, and the boards that the
//! program reads.
//!
//! Owns the facts that the program needs about the machine: the core for the connections of each
//! cpu, and the alternatives. The speed of cores shows in the times that they measure. Leaves out
//! the program and its loading (`vermeil-steer`).

use std::{path::Path, sync::Arc};
use vermeil::{LoadPage, NEAR_MAX};
use vermeil_steer::{AcceptSteering, Mode, homes, near};
use vermeil_topology::{CpuId, sysfs};

/// The choice by the kernel.
#[derive(Debug)]
pub(super) struct KernelChoice {
    pub(super) steering: AcceptSteering,
    pub(super) board: Arc<LoadPage>,
}

impl KernelChoice {
    /// Makes the choice for cores on these cpus.
    ///
    /// # Errors
    /// Why the kernel cannot choose, in words.
    pub(super) fn new(cpus: &[CpuId], mode: Mode) -> Result<Self, String> {
        let machine = sysfs::read(Path::new("/")).map_err(|error| error.to_string())?;
        let steering = AcceptSteering::new(cpus.len(), &homes(&machine, cpus), mode)?;
        let board = LoadPage::mapped(steering.boards(), cpus.len())
            .map_err(|error| format!("the kernel's map cannot be shared: {error}"))?;
        for (core, near) in near(&machine, cpus, NEAR_MAX).iter().enumerate() {
            board.core(core).describe(near);
        }
        Ok(Self { steering, board: Arc::new(board) })
    }
}

/// The number of connections that went to other cores.
pub(super) fn sent_away(board: &LoadPage) -> u64 {
    (0..board.len()).map(|core| board.core(core).sent_away()).sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn boards_are_the_size_the_program_expects() {
        assert_eq!(size_of::<vermeil::CoreLoadPage>(), vermeil_steer::CORE_BYTES as usize);
    }
}
