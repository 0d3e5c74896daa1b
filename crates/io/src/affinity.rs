//! The cpus that a thread may run on.
//!
//! Pins threads and reads affinity. Callers decide on the placement. Tested here.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Binds the calling thread to one cpu.
///
/// # Errors
/// `InvalidInput` if the process may not run on `cpu` (its cpuset leaves it out) or the machine has
/// no such cpu.
pub fn pin_current_thread(cpu: usize) -> io::Result<()> {
    allow_current_thread(&[cpu])
}

/// Lets the calling thread run on any of `cpus`, which must not be empty.
///
/// # Errors
/// As [`pin_current_thread`].
pub fn allow_current_thread(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            let message = format!("cpu {cpu} is beyond {}", CpuSet::MAX_CPU);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// The cpus that the calling thread may run on, ascending: respects cpusets, containers and
/// `taskset`.
pub fn current_affinity() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        // A kernel built for more cpus than fit the set: assume the first cpus.
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// The cpu the calling thread runs on now.
pub fn current_cpu() -> usize {
    sched_getcpu()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_where_it_was_pinned() {
        let allowed = current_affinity();
        assert!(!allowed.is_empty());
        for cpu in allowed {
            std::thread::spawn(move || {
                pin_current_thread(cpu).unwrap();
                assert_eq!(current_affinity(), [cpu]);
                assert_eq!(current_cpu(), cpu);
            })
            .join()
            .unwrap();
        }
        assert!(pin_current_thread(usize::MAX).is_err());
    }
}
