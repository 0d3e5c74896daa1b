//! Connections after the last request. For a short time the server may close first, so that the
//! port in TIME_WAIT is the server's. The user continues meanwhile.
//!
//! A client that sent or received `Connection: close` closes after the answer (RFC 9112 section
//! 9.6). Therefore the wait has a bound, and after one wait in vain the run waits no more. Tested
//! here, and with planted servers in `tests/planted/simple.rs`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::link::LoadLink;

/// Longest wait for the server's close. About a hundred times the time of a server in the same
/// building.
const PATIENCE: Duration = Duration::from_millis(50);
/// Maximum number of waiting connections of a core, as far as descriptors allow; further
/// connections are closed at once. A core that opens 20,000 connections a second has this number in
/// 50 ms.
const CONNECTIONS_MAX: usize = 1024;

/// The connections of one core that wait for the server's close, each with the start of its wait.
type PartingConnections = Mutex<Vec<(Instant, LoadLink)>>;

/// The waiting connections of each core.
pub(crate) struct Parting {
    cores: Box<[CachePadded<PartingConnections>]>,
    /// Maximum number of waiting connections of a core.
    connections_max: usize,
    /// Whether connections wait for the server's close.
    is_patient: AtomicBool,
}

impl Parting {
    /// For `cores` cores, whose waiting connections may use `spare_descriptors` together.
    pub(super) fn new(cores: usize, spare_descriptors: u64) -> Self {
        Self {
            cores: (0..cores.max(1)).map(|_| CachePadded::default()).collect(),
            connections_max: connections_max(cores, spare_descriptors),
            is_patient: AtomicBool::new(true),
        }
    }

    /// Takes a connection of the calling core that carries no more requests.
    pub(crate) fn leave(&self, mut link: LoadLink) {
        if !self.is_patient.load(Ordering::Relaxed) || link.is_closed_by_peer() {
            return;
        }
        let core = vermeil::core_index().map_or(0, |core| core.0 as usize);
        let mut links = self.cores[core].lock().expect("parting does not panic");
        if links.len() < self.connections_max {
            links.push((Instant::now(), link));
        }
    }

    /// Closes the connections of `core`, the calling core, that the server has closed, and the
    /// connections whose wait is over. Returns the number of connections that waited in vain.
    pub(super) fn sweep(&self, core: usize) -> u64 {
        let mut in_vain = 0;
        self.cores[core].lock().expect("parting does not panic").retain_mut(|(since, link)| {
            let is_late = since.elapsed() >= PATIENCE;
            let is_closed = link.is_closed_by_peer();
            in_vain += u64::from(is_late && !is_closed);
            !is_closed && !is_late
        });
        if in_vain > 0 {
            self.is_patient.store(false, Ordering::Relaxed);
        }
        in_vain
    }
}

fn connections_max(cores: usize, spare_descriptors: u64) -> usize {
    let share = spare_descriptors / cores.max(1) as u64;
    usize::try_from(share).map_or(CONNECTIONS_MAX, |share| share.min(CONNECTIONS_MAX))
}

impl std::fmt::Debug for Parting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parting").field("is_patient", &self.is_patient).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: waiting connections took descriptors that the check before the run had not
    /// counted, so requests failed for want of descriptors.
    #[test]
    fn waiting_connections_use_spare_descriptors_only() {
        assert_eq!(connections_max(4, 103), 25);
        assert_eq!(connections_max(4, 3), 0);
        assert_eq!(connections_max(4, u64::MAX), CONNECTIONS_MAX);
    }
}
