//! Tests whether this kernel gives a connection to the core that handles its packets: by the
//! preference of the listener, or by the program that chooses.
//!
//! Versions do not tell, because Linux 4.6 to 6.1 ignored the preference among sockets that share
//! an address, and distributions ported the fix back to older kernels. So two sockets share an
//! address on the loopback device, each for another cpu, and a thread connects from each of these
//! cpus. On that device the sending cpu also handles the packets.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd as _,
    thread,
};
use vermeil_io::{ListenOptions, accept_queued, listen, pin_current_thread};
use vermeil_steer::{AcceptSteering, Mode};
use vermeil_topology::CpuId;

/// Connections from each cpu. By chance, a hash would bring all of both to the right sockets once
/// in 65,536 starts.
const CONNECTIONS: usize = 8;

/// Whether the kernel follows a socket's preference. Returns the observation or the reason, both
/// for people.
pub(super) fn prefers_cpu(cpus: &[CpuId]) -> Result<String, String> {
    let Some(both) = two_of(cpus) else { return Ok("one cpu: no choice".to_owned()) };
    judge(try_both(both, None))
}

/// Whether the program chooses correctly.
pub(super) fn kernel_chooses(cpus: &[CpuId]) -> Result<String, String> {
    let Some(both) = two_of(cpus) else { return Err("one cpu: no choice".to_owned()) };
    let mut homes = vec![0; both.into_iter().max().unwrap_or(0) + 1];
    homes[both[1]] = 1;
    let steering = AcceptSteering::new(2, &homes, Mode::Local)?;
    judge(try_both(both, Some(&steering)))
}

/// The first and the last cpu, if they differ.
fn two_of(cpus: &[CpuId]) -> Option<[usize; 2]> {
    let both = [cpus.first()?.0 as usize, cpus.last()?.0 as usize];
    (both[0] != both[1]).then_some(both)
}

fn judge(right: io::Result<usize>) -> Result<String, String> {
    let right = right.map_err(|error| format!("the self-test failed: {error}"))?;
    let all = 2 * CONNECTIONS;
    match right == all {
        true => Ok(format!("self-test: {right} of {all} connections came to the cpu of their packets")),
        false => {
            Err(format!("self-test: only {right} of {all} connections came to the cpu of their packets"))
        }
    }
}

/// The number of connections that came to the right socket of the two.
fn try_both(cpus: [usize; 2], kernel: Option<&AcceptSteering>) -> io::Result<usize> {
    let mut addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut listeners = Vec::new();
    for cpu in cpus {
        let incoming_cpu = kernel.is_none().then_some(cpu);
        let listener =
            TcpListener::from(listen(addr, &ListenOptions { incoming_cpu, ..ListenOptions::default() })?);
        addr = listener.local_addr()?;
        listeners.push(listener);
    }
    kernel.map_or(Ok(()), |kernel| kernel.choose_among(&listeners))?;
    let mut right = 0;
    for (cpu, listener) in cpus.into_iter().zip(&listeners) {
        // A separate thread, because a pinned thread stays pinned.
        let connect = thread::Builder::new().spawn(move || -> io::Result<Vec<TcpStream>> {
            pin_current_thread(cpu)?;
            (0..CONNECTIONS).map(|_| TcpStream::connect(addr)).collect()
        })?;
        let connections = connect.join().map_err(|_panic| io::Error::other("a thread panicked"))??;
        while accept_queued(listener.as_fd())?.is_some() {
            right += 1;
        }
        drop(connections);
    }
    Ok(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_ends_with_words_either_way() {
        let cpus: Vec<CpuId> = vermeil_io::current_affinity().iter().map(|&cpu| CpuId(cpu as u32)).collect();
        let said = prefers_cpu(&cpus).unwrap_or_else(|why| why);
        assert!(cpus.len() == 1 || said.contains("self-test"), "{said}");
        let said = kernel_chooses(&cpus).unwrap_or_else(|why| why);
        assert!(cpus.len() == 1 || said.contains("self-test") || said.contains("CAP_BPF"), "{said}");
        assert_eq!(prefers_cpu(&cpus[..1]), Ok("one cpu: no choice".to_owned()));
    }
}
