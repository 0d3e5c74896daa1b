//! The program in the kernel that chooses the core of a new connection, and the boards that it reads.
//!
//! Owns what the program has to know of the machine: which core a cpu's connections are for, where they may go instead.
//! How fast cores are is in the times that they measure. Leaves out the program and its loading (`vermeil-steer`).

use std::{path::Path, sync::Arc};
use vermeil::{Board, NEAR_MAX};
use vermeil_steer::{AcceptSteering, Mode, homes, near};
use vermeil_topology::{CpuId, sysfs};

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
            board.core(core).describe(near);
        }
        Ok(Self { steering, board: Arc::new(board) })
    }
}

/// How many connections went elsewhere, for the line at the end.
pub(super) fn sent_away(board: &Board) -> String {
    let sent: u64 = (0..board.len()).map(|core| board.core(core).sent_away()).sum();
    format!(", {sent} sent elsewhere by the kernel")
}

#[cfg(test)]
mod tests {
    #[test]
    fn boards_are_the_size_the_program_expects() {
        assert_eq!(size_of::<vermeil::CoreBoard>(), vermeil_steer::CORE_BYTES as usize);
    }
}
