//! The shares of the limit of descriptors: files, logs of hosts, connections, and connections
//! accepted ahead.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{collections::HashSet, path::Path};
use vermeil::DriverOptions;
use vermeil_config::ServeOptions;
use vermeil_gateway::programs::has_programs;
use vermeil_log::operator_log::log_line;

/// Descriptors for everything except connections and cached files: rings, sockets, logs, current
/// look-ups. The end-to-end tests of the bound (`short_of_descriptors_the_server_goes_on`) would
/// notice too small a number.
const DESCRIPTORS_OF_OUR_OWN: u64 = 64;

/// Raises this process's limit of descriptors as far as the hard limit allows, because options
/// bound connections and files. Call this function before defaults are derived from the limit.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If the kernel refuses, the old limit stays, and `connections_that_fit` respects it.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

/// The most descriptors that [`make_room_for_descriptors`] prepares, in 0.5 MB of kernel memory.
const ROOM_MAX: u64 = 65_536;

/// Makes the kernel's table of descriptors as large as the limit allows, before the process has
/// threads. The table grows when a descriptor finds no room, and in a process with threads the
/// kernel then waits for all cpus, in the middle of an accept or of a file's open. A wait while a
/// core listed a folder also counts as a slow disk, so threads listed the next 20,000 folders. With
/// a table that was large from the start, the first visit to a host took 23 µs instead of 39.
pub fn make_room_for_descriptors() {
    let highest = getrlimit(Resource::Nofile).current.unwrap_or(ROOM_MAX).min(ROOM_MAX).saturating_sub(1);
    let Ok(highest) = i32::try_from(highest) else { return };
    // Without the room, the table grows later. The table keeps its size when the copy is closed.
    let _ = eventfd(0, EventfdFlags::CLOEXEC).and_then(|any| fcntl_dupfd_cloexec(any, highest));
}

/// Descriptors with which a server starts, besides those of its cores, and of programs. Together
/// with [`OF_A_CORE`] and [`OF_A_SOCKET`] at least the measured number: 27 and 44 with one and two
/// cores and one listener, 54 with two cores and three listeners, 9 more with programs.
const OF_A_START: usize = 12;

/// Descriptors with which a core starts: driver, timers and queues.
const OF_A_CORE: usize = 15;

/// Descriptors of a core for each listening address, with the duplicates for a takeover.
const OF_A_SOCKET: usize = 3;

/// Why the limit of descriptors is too small for a start, if it is.
pub(crate) fn shortage(options: &ServeOptions) -> Option<String> {
    let limit = getrlimit(Resource::Nofile).current?;
    let together = options.instances.iter().map(|instance| instance.cpus.len()).max();
    let (cores, listeners) = (together.unwrap_or(options.cpus.len()), options.listen.len());
    let of_programs = if has_programs(options) { OF_A_START } else { 0 };
    let needed = (OF_A_START + of_programs + cores * (OF_A_CORE + OF_A_SOCKET * listeners)) as u64;
    (limit < needed).then(|| {
        format!(
            "cannot start with at most {limit} open files: this start needs {needed} (cores: {cores}, listeners: {listeners}); raise the hard limit with LimitNOFILE= or ulimit -Hn"
        )
    })
}

/// The shares of a limit of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorShares {
    /// Connections that each core may hold.
    each: usize,
    /// Connections that each core may accept ahead of those that it holds.
    pub ahead: usize,
}

impl DescriptorShares {
    /// Divides `limit` descriptors among `cores` cores. The cache and the folders of hosts hold
    /// `files` of them, and the logs of hosts hold `logs`. A small limit makes every share small:
    /// without logs of hosts, connections always have at least about a third.
    fn of(limit: u64, cores: usize, files: u64, logs: u64) -> Self {
        let of_our_own = DESCRIPTORS_OF_OUR_OWN.min(limit / 4);
        let cores = cores.max(1) as u64;
        let ahead = (limit / 8 / cores).clamp(1, DriverOptions::default().accept_backlog_max as u64);
        let of_files = files.min(limit / 4) + logs.min(limit / 4);
        let left = limit.saturating_sub(of_files + of_our_own + ahead * cores);
        let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Self { each: count(left / cores).max(1), ahead: count(ahead) }
    }

    /// The limit and the shares of this process. `None` if the process has no limit.
    pub fn here(options: &ServeOptions) -> Option<(u64, Self)> {
        let limit = getrlimit(Resource::Nofile).current?;
        // Each site has one descriptor, and after a reload the cores release the old site only once
        // the new site has replaced it.
        let sites = 2 * options.sites_open_max.min(options.hosts.iter().len()) as u64;
        let logs = of_logs(options, limit);
        let files = options.store.descriptors_max + sites;
        Some((limit, Self::of(limit, options.cpus.len(), files, logs)))
    }
}

/// Descriptors for the logs of hosts in a process with a limit of `limit`. Hosts with the same file
/// share a descriptor.
pub(crate) fn of_logs(options: &ServeOptions, limit: u64) -> u64 {
    let files: HashSet<&Path> = options.hosts.log_files().collect();
    files.len().min(options.log.host_files_open_max_within(limit)) as u64
}

/// Connections that each core may hold: the configured number, or the number that the limit of
/// descriptors leaves beside the files.
pub fn connections_that_fit(options: &ServeOptions) -> usize {
    let Some((limit, DescriptorShares { each, .. })) = DescriptorShares::here(options) else {
        return options.connections_max;
    };
    let fit = options.connections_max.min(each);
    if fit < options.connections_max {
        log_line(format_args!(
            "holding {fit} connections per core, not {}: the limit of open files is {limit}; raise the hard limit with LimitNOFILE= or ulimit -Hn",
            options.connections_max
        ));
    }
    fit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_room_for_all_descriptors() {
        make_room_for_descriptors();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(ROOM_MAX);
        assert!(size.trim().parse::<u64>().unwrap() >= limit.min(ROOM_MAX), "{size} of {limit}");
    }

    #[test]
    fn small_limits_leave_connections_their_share() {
        for (limit, cores, least) in
            [(16, 2, 1), (256, 2, 40), (1024, 11, 40), (1024, 2, 250), (20_000, 2, 7000)]
        {
            let shares = DescriptorShares::of(limit, cores, limit / 4 + 2, 0);
            assert!(shares.each >= least, "{limit} descriptors, {cores} cores: {shares:?}");
            let all = limit / 4 + (cores * (shares.each + shares.ahead)) as u64;
            assert!(all <= limit, "{limit} descriptors, {cores} cores: {shares:?}");
        }
    }

    /// Regression: connections took the descriptors that the logs of hosts needed.
    #[test]
    fn logs_of_hosts_have_their_share() {
        for (limit, cores, logs) in [(16, 2, 4), (1024, 2, 256), (20_000, 2, 4096)] {
            let shares = DescriptorShares::of(limit, cores, limit / 4, logs);
            let all = limit / 4 + logs + (cores * (shares.each + shares.ahead)) as u64;
            assert!(all <= limit, "{limit} descriptors, {cores} cores: {shares:?}");
        }
    }
}
