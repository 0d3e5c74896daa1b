//! Whether this kernel gives a connection to the listener that prefers the cpu of its packets.
//!
//! Versions do not tell: the preference was ignored among sockets that share an address from Linux 4.6 to 6.1, and
//! distributions took the repair back to older ones. So two sockets share an address on the loopback device, each with
//! another cpu, and a thread connects from each of these cpus: packets on that device are handled where they are sent.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
};
use vermeil_io::{ListenOptions, accept_queued, listen, pin_current_thread};
use vermeil_topology::CpuId;

/// Connections from each cpu. A hash would bring all of both to the right sockets once in 65,536 starts.
const CONNECTIONS: usize = 8;

/// What was seen, or why nothing can be: both for people.
pub(super) fn prefers_cpu(cpus: &[CpuId]) -> Result<String, String> {
    let [first, .., last] = cpus[..] else { return Ok("one core".to_owned()) };
    if first == last {
        return Ok("all cores are on one cpu".to_owned());
    }
    let both = [first.0 as usize, last.0 as usize];
    let right = try_both(both).map_err(|error| format!("the self-test failed: {error}"))?;
    let all = 2 * CONNECTIONS;
    match right == all {
        true => Ok(format!("self-test: {right} of {all} connections came to the cpu of their packets")),
        false => {
            Err(format!("self-test: only {right} of {all} connections came to the cpu of their packets"))
        }
    }
}

/// How many connections came to the right one of two sockets.
fn try_both(cpus: [usize; 2]) -> io::Result<usize> {
    let mut addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut listeners = Vec::new();
    for cpu in cpus {
        let options = ListenOptions { incoming_cpu: Some(cpu), ..ListenOptions::default() };
        let listener = TcpListener::from(listen(addr, &options)?);
        addr = listener.local_addr()?;
        listeners.push(listener);
    }
    let mut right = 0;
    for (cpu, listener) in cpus.into_iter().zip(&listeners) {
        // A thread of its own: what is pinned stays pinned.
        let connect = thread::Builder::new().spawn(move || -> io::Result<Vec<TcpStream>> {
            pin_current_thread(cpu)?;
            (0..CONNECTIONS).map(|_| TcpStream::connect(addr)).collect()
        })?;
        let connections = connect.join().map_err(|_panic| io::Error::other("a thread panicked"))??;
        while accept_queued(std::os::fd::AsFd::as_fd(listener))?.is_some() {
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
        assert_eq!(prefers_cpu(&cpus[..1]), Ok("one core".to_owned()));
    }
}
