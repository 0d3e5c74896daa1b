//! The memory nodes of a thread's memory.
//!
//! Contains the system calls; callers decide on the placement. Tested here, and on an emulated
//! machine with four nodes by `cargo xtask test numa`.

#![allow(unsafe_code)]

use std::io;

/// Maximum number of nodes (`MAX_NUMNODES` is 1,024 at most).
const NODES_MAX: usize = 1024;

/// A set of nodes in the kernel's form.
type NodeMask = [u64; NODES_MAX / 64];

/// The mode that allows no other node (`linux/mempolicy.h`).
const MPOL_BIND: libc::c_long = 2;

/// Binds memory that the calling thread touches for the first time to these nodes; new threads and
/// processes of the thread inherit the binding.
///
/// # Errors
/// `InvalidInput` for no node, or a node that this process may not use or that has no memory; the
/// kernel has no memory policies.
pub fn bind_memory(nodes: &[u32]) -> io::Result<()> {
    let mut mask: NodeMask = [0; NODES_MAX / 64];
    for &node in nodes {
        let word = mask.get_mut(node as usize / 64).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (node % 64);
    }
    // The kernel takes one bit less than the stated number.
    let bits = NODES_MAX + 1;
    // SAFETY: the kernel reads NODES_MAX bits of the mask, which lives until the call returns, and
    // writes nothing.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_BIND, mask.as_ptr(), bits) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The nodes to which [`bind_memory`] has bound the calling thread's memory, from the kernel, which
/// replaces nodes when a cpuset removes them. Empty without a binding.
///
/// # Errors
/// The kernel has no memory policies.
pub fn bound_memory() -> io::Result<Vec<u32>> {
    let mut mask: NodeMask = [0; NODES_MAX / 64];
    let mut mode: libc::c_int = 0;
    let (no_address, no_flags) = (std::ptr::null_mut::<libc::c_void>(), 0 as libc::c_ulong);
    // SAFETY: the kernel writes one number and NODES_MAX bits, both of which live until the call
    // returns; the kernel reads nothing.
    let result = unsafe {
        let (mode, mask) = (&raw mut mode, mask.as_mut_ptr());
        libc::syscall(libc::SYS_get_mempolicy, mode, mask, NODES_MAX + 1, no_address, no_flags)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_bound = libc::c_long::from(mode) == MPOL_BIND;
    let is_in = |node: &u32| mask[*node as usize / 64] >> (node % 64) & 1 == 1;
    Ok((0..NODES_MAX as u32).filter(|node| is_bound && is_in(node)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn memory_is_bound_to_nodes_that_are_there() {
        // On a separate thread, because the policy stays.
        let bound = thread::spawn(|| {
            assert!(bind_memory(&[]).is_err());
            assert!(bind_memory(&[1023]).is_err());
            assert!(bind_memory(&[5000]).is_err());
            assert_eq!(bound_memory().unwrap_or_default(), []);
            bind_memory(&[0])?;
            Ok((std::fs::read_to_string("/proc/thread-self/numa_maps"), bound_memory()))
        });
        match bound.join().unwrap() {
            Ok((maps, nodes)) => {
                assert!(maps.is_ok_and(|maps| maps.contains(" bind:0 ")));
                assert_eq!(nodes.unwrap(), [0]);
            }
            Err(error) => {
                let error: io::Error = error;
                eprintln!("SKIPPED: this kernel has no memory policies, or node 0 may not be used: {error}")
            }
        }
    }
}
