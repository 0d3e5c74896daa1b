//! Watches whether a core still has its cpu and its memory. A running server loses both if an
//! administrator takes a cpu offline or changes the process's cpuset.
//!
//! The kernel then silently moves the thread and forgets the binding. So each core checks once a
//! second. The core logs a loss once, and continues where the kernel allows. When the thread may
//! return, the core moves the thread back and logs the return. Leaves out the system calls
//! (`vermeil-io`). Tested here, and on an emulated machine (`cargo xtask test numa`).

use std::io;
use vermeil_io::{allow_current_thread, bind_memory, bound_memory, current_affinity};
use vermeil_log::operator_log::log_line;
use vermeil_topology::{CpuId, CpuSet};

/// The cpu and the memory of a core when it began to serve.
#[derive(Debug)]
pub struct AffinityWatch {
    core: u32,
    cpu: Option<ThreadBinding>,
    memory: Option<ThreadBinding>,
}

impl AffinityWatch {
    /// The whereabouts of the calling thread, which is core `core` with its home on `cpu`, even if
    /// that cpu was lost before. A core without a binding to memory nodes cannot lose memory.
    pub fn here(core: u32, cpu: CpuId) -> Self {
        let cpu = Some(ThreadBinding::of(vec![cpu.0]));
        let memory = Some(nodes()).filter(|nodes| !nodes.is_empty()).map(ThreadBinding::of);
        Self { core, cpu, memory }
    }

    /// Checks the core, on the same thread.
    pub fn look(&mut self) {
        let core = self.core;
        let go = |home: &[u32]| {
            let home: Vec<usize> = home.iter().map(|&cpu| cpu as usize).collect();
            allow_current_thread(&home)
        };
        if let Some(place) = &mut self.cpu
            && let Some(change) = place.look(cpus, go)
        {
            let home = list(&place.home);
            match change {
                BindingChange::Away(there) => log_line(format_args!(
                    "core {core}: cpu {home} was taken away (offline, or out of the cpuset); it runs on {} until it may \
                     run there again",
                    list(&there)
                )),
                BindingChange::Back => log_line(format_args!("core {core}: runs on cpu {home} again")),
            }
        }
        if let Some(place) = &mut self.memory
            && let Some(change) = place.look(nodes, bind_memory)
        {
            let home = list(&place.home);
            match change {
                BindingChange::Away(there) => log_line(format_args!(
                    "core {core}: memory of node {home} was taken away (out of the cpuset); new memory comes from node {}",
                    list(&there)
                )),
                BindingChange::Back => {
                    log_line(format_args!("core {core}: memory comes from node {home} again"))
                }
            }
        }
    }
}

/// The cpus on which this thread may run.
fn cpus() -> Vec<u32> {
    current_affinity().into_iter().map(|cpu| cpu as u32).collect()
}

/// The nodes to which this thread's memory is bound.
fn nodes() -> Vec<u32> {
    bound_memory().unwrap_or_default()
}

/// Formats numbers as a list: `0-3,8`.
fn list(numbers: &[u32]) -> String {
    numbers.iter().copied().map(CpuId).collect::<CpuSet>().to_string()
}

/// The binding of a thread: numbers of cpus, or of nodes.
#[derive(Debug)]
struct ThreadBinding {
    home: Vec<u32>,
    is_away: bool,
}

/// A change of a binding.
#[derive(Debug, PartialEq, Eq)]
enum BindingChange {
    /// The thread may not run at home, and runs on these.
    Away(Vec<u32>),
    /// The thread is home again.
    Back,
}

impl ThreadBinding {
    fn of(home: Vec<u32>) -> Self {
        Self { home, is_away: false }
    }

    /// Compares the present place `now` with home, and returns home with `go` if they differ.
    /// Returns the change to log.
    fn look(
        &mut self,
        now: impl Fn() -> Vec<u32>,
        go: impl FnOnce(&[u32]) -> io::Result<()>,
    ) -> Option<BindingChange> {
        let mut here = now();
        if here != self.home && go(&self.home).is_ok() {
            here = now();
        }
        let is_away = here != self.home;
        let was_away = std::mem::replace(&mut self.is_away, is_away);
        match (was_away, is_away) {
            (false, true) => Some(BindingChange::Away(here)),
            (true, false) => Some(BindingChange::Back),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A fake kernel that has placed a thread, and allows or refuses its moves.
    struct FakeKernel {
        now: RefCell<Vec<u32>>,
        allows: bool,
    }

    impl FakeKernel {
        fn look(&self, place: &mut ThreadBinding) -> Option<BindingChange> {
            let go = |home: &[u32]| match self.allows {
                true => {
                    self.now.replace(home.to_vec());
                    Ok(())
                }
                false => Err(io::ErrorKind::InvalidInput.into()),
            };
            place.look(|| self.now.borrow().clone(), go)
        }
    }

    #[test]
    fn lost_cpu_and_its_return_are_logged_once() {
        let mut place = ThreadBinding::of(vec![9]);
        let mut kernel = FakeKernel { now: RefCell::new(vec![9]), allows: true };
        assert_eq!(kernel.look(&mut place), None);
        (kernel.now, kernel.allows) = (RefCell::new(vec![8, 10]), false);
        assert_eq!(kernel.look(&mut place), Some(BindingChange::Away(vec![8, 10])));
        assert_eq!(kernel.look(&mut place), None);
        kernel.allows = true;
        assert_eq!(kernel.look(&mut place), Some(BindingChange::Back));
        assert_eq!(kernel.look(&mut place), None);
    }

    #[test]
    fn lost_affinity_is_restored_silently() {
        let mut place = ThreadBinding::of(vec![2]);
        let kernel = FakeKernel { now: RefCell::new(vec![0, 1, 2, 3]), allows: true };
        assert_eq!(kernel.look(&mut place), None);
        assert_eq!(*kernel.now.borrow(), [2]);
    }

    #[test]
    fn a_core_that_was_never_bound_loses_nothing() {
        let mut core = AffinityWatch { core: 0, cpu: None, memory: None };
        core.look();
        assert_eq!(list(&[8, 9, 11]), "8-9,11");
    }
}
