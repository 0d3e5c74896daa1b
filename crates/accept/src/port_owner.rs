//! Finds the process that listens on a port, so that "address in use" can name it.
//!
//! Owns the reading of `/proc/net/tcp`, `/proc/net/tcp6` (proc_pid_net(5)) and `/proc/PID/fd`.
//! Leaves out binding and the error message. Sees only the network namespace of this process.
//! Without rights over the holder's process, its descriptors cannot be read and the holder stays
//! unknown. Tested in `port_owner/tests.rs` on invented `/proc` folders and on a real socket.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process;

/// `TCP_LISTEN` of the kernel's `include/net/tcp_states.h`, as `/proc/net/tcp` writes it.
const STATE_LISTEN: &str = "0A";

/// The process that holds a port. As text: `nginx (pid 123)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOwner {
    /// Process id. If several processes share the socket, the lowest id, as a rule the parent.
    pub pid: u32,
    /// The process's own name for itself (`/proc/PID/comm`), at most 15 bytes.
    pub command: String,
}

impl fmt::Display for PortOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.command.escape_debug(), self.pid)
    }
}

/// Finds the other process that listens where `addr` cannot be bound: on the same port, at the same
/// address or at a wildcard that covers it. `None` if there is none, or if this process lacks the
/// rights to find it.
pub fn who_listens(addr: SocketAddr) -> Option<PortOwner> {
    who_listens_in(Path::new("/proc"), addr, process::id())
}

/// Describes a process that is known to listen. `None` for this process, and for one that cannot be
/// seen from here.
pub fn of_process(pid: u32) -> Option<PortOwner> {
    let command = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    (pid != process::id()).then(|| PortOwner { pid, command: command.trim_end().to_owned() })
}

fn who_listens_in(proc: &Path, addr: SocketAddr, own: u32) -> Option<PortOwner> {
    let mut listeners = Vec::new();
    for table in ["net/tcp", "net/tcp6"] {
        if let Ok(text) = fs::read_to_string(proc.join(table)) {
            listeners.extend(text.lines().filter_map(parse_listener));
        }
    }
    let mut conflicts: Vec<_> = listeners
        .into_iter()
        .filter_map(|listener| Some((conflict(listener.addr, addr)?, listener.inode)))
        .collect();
    conflicts.sort_unstable();
    // A message that blames this process itself would make the operator stop it.
    let owners = owners(proc, own);
    conflicts.into_iter().find_map(|(_, inode)| {
        let &pid = owners.get(&inode)?;
        let command = fs::read_to_string(proc.join(format!("{pid}/comm"))).unwrap_or_default();
        Some(PortOwner { pid, command: command.trim_end().to_owned() })
    })
}

/// A line of `/proc/net/tcp` or `tcp6` about a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PortListener {
    addr: SocketAddr,
    inode: u64,
}

/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …`
fn parse_listener(line: &str) -> Option<PortListener> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?.parse().ok()?;
    (state == STATE_LISTEN).then_some(())?;
    let (ip, port) = local.split_once(':')?;
    let addr = SocketAddr::new(parse_ip(ip)?, u16::from_str_radix(port, 16).ok()?);
    Some(PortListener { addr, inode })
}

/// Parses words of 32 bits. Each word is printed as the number that its bytes in network order form
/// on this machine.
fn parse_ip(hex: &str) -> Option<IpAddr> {
    let mut bytes = [0; 16];
    let words = hex.len() / 8;
    (hex.is_ascii() && hex.len().is_multiple_of(8) && matches!(words, 1 | 4)).then_some(())?;
    for (word, place) in bytes.chunks_exact_mut(4).take(words).enumerate() {
        let number = u32::from_str_radix(&hex[word * 8..][..8], 16).ok()?;
        place.copy_from_slice(&number.to_ne_bytes());
    }
    match words {
        1 => Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()),
        _ => Some(Ipv6Addr::from(bytes).into()),
    }
}

/// How certainly a listener blocks the bind of `wanted`, the most certain first. A wildcard of IPv6
/// covers IPv4 unless the socket is for IPv6 only, which `/proc` does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PortConflict {
    SameAddress,
    Wildcard,
    OtherFamilyWildcard,
}

fn conflict(listening: SocketAddr, wanted: SocketAddr) -> Option<PortConflict> {
    let (has, wants) = (listening.ip().to_canonical(), wanted.ip().to_canonical());
    if listening.port() != wanted.port() {
        None
    } else if has == wants {
        Some(PortConflict::SameAddress)
    } else if has.is_ipv4() == wants.is_ipv4() {
        (has.is_unspecified() || wants.is_unspecified()).then_some(PortConflict::Wildcard)
    } else {
        let ipv6 = if has.is_ipv6() { has } else { wants };
        ipv6.is_unspecified().then_some(PortConflict::OtherFamilyWildcard)
    }
}

/// The lowest process id per socket inode, over all processes but `own` whose descriptors are
/// readable.
fn owners(proc: &Path, own: u32) -> HashMap<u64, u32> {
    let mut owners = HashMap::new();
    let Ok(entries) = fs::read_dir(proc) else { return owners };
    for entry in entries.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = pid.filter(|&pid| pid != own) else { continue };
        let Ok(descriptors) = fs::read_dir(entry.path().join("fd")) else { continue };
        for descriptor in descriptors.flatten() {
            let Ok(target) = fs::read_link(descriptor.path()) else { continue };
            if let Some(inode) = target.to_str().and_then(parse_socket_link) {
                owners.entry(inode).and_modify(|owner: &mut u32| *owner = pid.min(*owner)).or_insert(pid);
            }
        }
    }
    owners
}

/// `socket:[12345]`
fn parse_socket_link(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}
