//! The program in the kernel that chooses the core of a new connection, and the boards that it reads.
//!
//! Owns what the program has to know of the machine: which core a cpu's connections are for, where they may go instead,
//! how fast cores are. Leaves out the program and its loading (`vermeil-steer`).

use std::{path::Path, sync::Arc};
use vermeil::{Board, NEAR_MAX, WEIGHT_ONE};
use vermeil_steer::{AcceptSteering, Mode, homes, near};
use vermeil_topology::{CAPACITY_MAX, CpuId, Machine, sysfs};

/// The kernel chooses.
#[derive(Debug)]
pub(super) struct KernelChoice {
    pub(super) steering: AcceptSteering,
    pub(super) board: Arc<Board>,
}

impl KernelChoice {
    /// For cores on these cpus.
    ///
    /// # Errors
    /// Why it cannot be, in words.
    pub(super) fn new(cpus: &[CpuId], mode: Mode) -> Result<Self, String> {
        let machine = sysfs::read(Path::new("/")).map_err(|error| error.to_string())?;
        let steering = AcceptSteering::new(cpus.len(), &homes(&machine, cpus), mode)?;
        let board = Board::mapped(steering.boards(), cpus.len())
            .map_err(|error| format!("the kernel's map cannot be shared: {error}"))?;
        for (core, near) in near(&machine, cpus, NEAR_MAX).iter().enumerate() {
            board.core(core).describe(near, weight(&machine, cpus[core]));
        }
        Ok(Self { steering, board: Arc::new(board) })
    }
}

/// How many connections went elsewhere, for the line at the end.
pub(super) fn sent_away(board: &Board) -> String {
    let sent: u64 = (0..board.len()).map(|core| board.core(core).sent_away()).sum();
    format!(", {sent} sent elsewhere by the kernel")
}

/// How much longer than on the fastest core work takes. What a node's memory adds is in the times that cores measure.
fn weight(machine: &Machine, cpu: CpuId) -> u64 {
    let core = machine.cores().iter().find(|core| core.cpus.contains(cpu));
    let capacity = core.map_or(CAPACITY_MAX, |core| core.capacity.max(1));
    WEIGHT_ONE * u64::from(CAPACITY_MAX) / u64::from(capacity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_are_the_size_the_program_expects() {
        assert_eq!(size_of::<vermeil::CoreBoard>(), vermeil_steer::CORE_BYTES as usize);
    }

    #[test]
    fn a_core_as_fast_as_the_fastest_weighs_one() {
        let machine = vermeil_topology::synthetic::parse("core:2 pu:1").unwrap();
        assert_eq!(weight(&machine, CpuId(1)), WEIGHT_ONE);
    }
}
