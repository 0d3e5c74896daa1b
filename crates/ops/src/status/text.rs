//! A status for people: some lines, the cores as a table.

use super::records::{
    AnswersStatus, CacheStatus, CgiStatus, CompressionStatus, CoreStatus, DurationCount, HandlerStatus,
    HostAnswers, HostsStatus, InstanceStatus, MemoryStatus, PhpPoolStatus, PhpStatus, RunningStatus,
    ServerStatus, TlsStatus,
};
use std::{
    fmt::{self, Display},
    time::Duration,
};
use vermeil_accept::balance::AcceptSummary;
use vermeil_config::values::Size;

impl Display for ServerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let up = Up(Duration::from_secs_f64(self.uptime_s));
        writeln!(f, "vermeil {}, pid {}: {}, up {up}", self.version, self.pid, self.state)?;
        if let Some(file) = &self.configuration {
            writeln!(f, "configuration: {file}, reloaded {}", times(self.reloads))?;
        }
        writeln!(f, "listening: {}", self.listening.join(", "))?;
        if let Some(imbalance) = self.imbalance {
            writeln!(f, "work: the busiest core has {imbalance:.1} times the mean of all cores")?;
        }
        if let ([instance], []) = (&*self.instances, &*self.silent) {
            return instance.fmt(f);
        }
        for instance in &self.instances {
            let InstanceStatus { instance: number, pid, nodes, restarts, cores, .. } = instance;
            let busy = cores.iter().map(|core| core.busy).sum::<f64>() / cores.len().max(1) as f64;
            writeln!(
                f,
                "\ninstance {number}: pid {pid}, {}, {} {:.0}% busy, started again {}",
                nodes_in_words(nodes),
                cores_in_words(cores.len()),
                busy * 100.0,
                times(*restarts)
            )?;
            instance.fmt(f)?;
        }
        for silent in &self.silent {
            writeln!(f, "\ninstance {silent}: no answer; it is being started, or hangs")?;
        }
        Ok(())
    }
}

impl Display for InstanceStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "io: {}", self.io)?;
        writeln!(
            f,
            "\n{:>5} {:>4} {:>6} {:>12} {:>14} {:>8}",
            "core", "cpu", "busy", "connections", "requests", "paths"
        )?;
        self.cores.iter().try_for_each(|core| core.fmt(f))?;
        writeln!(f, "\nrequests: {}, {} answers cut", self.requests, self.answers_cut)?;
        self.answers.fmt(f)?;
        accepted(&self.cores, f)?;
        let hosts = &self.hosts;
        writeln!(
            f,
            "hosts: {}, names: {}; {} of at most {} folders open",
            hosts.hosts, hosts.names, hosts.open, hosts.open_max
        )?;
        busiest(hosts, f)?;
        self.cache.fmt(f)?;
        self.memory.fmt(f)?;
        writeln!(
            f,
            "log: {}; {} lines written, {} records dropped",
            self.log.target, self.log.written, self.log.dropped
        )?;
        if let Some(php) = &self.php {
            write!(f, "php: ")?;
            php.fmt(f)?;
            details(php, "  ", f)?;
        }
        if self.php_pools > 0 {
            pools(self, f)?;
        }
        if let Some(cgi) = &self.cgi {
            let CgiStatus { running, running_max, waiting, requests, failed, waits, runs, .. } = cgi;
            writeln!(
                f,
                "cgi: {running} of at most {running_max} programs running, {waiting} requests waiting; {requests} \
                 requests, {failed} failed"
            )?;
            program_times("  ", waits, "ran", runs, f)?;
        }
        if let Some(tls) = &self.tls {
            let TlsStatus { handshakes_full, handshakes_resumed, handshakes_failed, .. } = tls;
            let TlsStatus { handshakes_refused, handshakes_waiting, plain_requests, hosts, .. } = tls;
            writeln!(
                f,
                "https: {handshakes_full} full and {handshakes_resumed} resumed handshakes, {handshakes_failed} failed, \
                 {handshakes_refused} refused, {handshakes_waiting} waiting; {plain_requests} requests without TLS; \
                 certificates of {hosts} hosts in memory"
            )?;
        }
        if let Some(compression) = &self.compression {
            compression.fmt(f)?;
        }
        self.handlers.iter().try_for_each(|handler| handler.fmt(f))?;
        for notice in &self.notices {
            writeln!(f, "notice: {}, {}", notice.kind, times(notice.count))?;
        }
        Ok(())
    }
}

impl Display for CompressionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.output_bytes as f64 * 100.0 / self.input_bytes.max(1) as f64;
        let step_ms = self.work_s * 1e3 / self.steps.max(1) as f64;
        writeln!(
            f,
            "compression: {} files and {} answers of programs to {share:.0} % of their size, {:.1} s of work in {} steps of \
             {step_ms:.2} ms; {} answers from {} of {} with {} files ({} of content, with evicted contents that clients still receive); {} not \
             compressed for want of room",
            self.files,
            self.answers,
            self.work_s,
            self.steps,
            self.file_hits,
            Bytes(self.cache_bytes),
            Size::bytes(self.cache_bytes_max),
            self.cache_files,
            Bytes(self.content_bytes),
            self.refused
        )
    }
}

impl Display for HandlerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { handler, runs, steals, warm_runs, cold_runs, .. } = self;
        write!(f, "work \"{handler}\": {runs} runs, {steals} taken by idle cores")?;
        if warm_runs + cold_runs > 0 {
            write!(f, "; waited 50 % within {}, 99 % within {}", ms(self.wait_s_p50), ms(self.wait_s_p99))?;
        }
        for (place, runs, mean, most) in [
            ("on its core", warm_runs, self.warm_s_mean, self.warm_s_p99),
            ("after a move", cold_runs, self.cold_s_mean, self.cold_s_p99),
        ] {
            if *runs > 0 {
                write!(f, "; {place} {} on average, 99 % within {}", ms(mean), ms(most))?;
            }
        }
        writeln!(f)
    }
}

impl Display for AnswersStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "answers:")?;
        for class in 1..=5 {
            let of_class = self.statuses.iter().filter(|status| status.status / 100 == class);
            match of_class.map(|status| status.count).sum::<u64>() {
                0 => {}
                count => write!(f, " {count} with {class}xx,")?,
            }
        }
        writeln!(
            f,
            " {} aborted; {} sent; now {:.0} requests and {} per second",
            self.aborted,
            Bytes(self.body_bytes),
            self.requests_per_s,
            Bytes(self.body_bytes_per_s as u64)
        )?;
        writeln!(
            f,
            "durations: 50 % within {}, 90 % within {}, 99 % within {}",
            ms(self.duration_s_p50),
            ms(self.duration_s_p90),
            ms(self.duration_s_p99)
        )
    }
}

/// Hosts that are shown one by one; the others are summed up. The JSON has the counts of more hosts
/// (`options.rs`).
const HOSTS_LISTED_MAX: usize = 5;

/// The busiest hosts, if there are several.
fn busiest(hosts: &HostsStatus, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if hosts.hosts < 2 {
        return Ok(());
    }
    hosts.busiest.iter().take(HOSTS_LISTED_MAX).try_for_each(|host| {
        let HostAnswers { host, requests, errors, body_bytes } = host;
        writeln!(f, "  {host}: {requests} requests, {errors} with 5xx, {} sent", Bytes(*body_bytes))
    })
}

/// How connections came to the cores of an instance.
fn accepted(cores: &[CoreStatus], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let sum = |of: fn(&CoreStatus) -> u64| cores.iter().map(of).sum::<u64>();
    let summary = AcceptSummary {
        accepted: sum(|core| core.accepted),
        taken_over: sum(|core| core.taken_over),
        moved: sum(|core| core.moved),
        sent_away: Some(sum(|core| core.sent_away)),
        sampled: sum(|core| core.sampled),
        sampled_here: sum(|core| core.sampled_here),
    };
    writeln!(f, "{summary}")
}

impl Display for CoreStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            core, cpu, busy, connections, requests, paths, waited, answered, refused, busy_polls, ..
        } = self;
        write!(f, "{core:>5} {cpu:>4} {:>5.0}% {connections:>12} {requests:>14} {paths:>8}", busy * 100.0)?;
        if !answered {
            write!(f, "  did not answer within a second")?;
        }
        if *refused > 0 {
            write!(f, "  refused {refused} connections that had waited too long")?;
        }
        if *busy_polls {
            write!(f, "  polls its network card")?;
        }
        if *waited >= 0.05 {
            write!(f, "  waited {:.0}% for its cpu", waited * 100.0)?;
        }
        writeln!(f)
    }
}

impl Display for CacheStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "cache: {} of {} in memory, {} of {} files open, {} of {} paths, {} of {} folders watched, events lost {}",
            Bytes(self.content_bytes),
            Size::bytes(self.content_bytes_max),
            self.descriptors,
            self.descriptors_max,
            self.paths,
            self.paths_max,
            self.watches,
            self.watches_max,
            times(self.overflows),
        )
    }
}

impl Display for MemoryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [resident, tables, transparent, reserved] = [
            self.resident_bytes,
            self.page_table_bytes,
            self.transparent_huge_bytes,
            self.reserved_huge_bytes,
        ]
        .map(Bytes);
        writeln!(
            f,
            "memory: {resident} resident, {tables} of page tables; huge pages: {transparent} transparent, {reserved} reserved"
        )
    }
}

impl Display for PhpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} of {} children busy, {} of {} requests waiting; {} answered, {} refused, {} given up, {} repeated, \
             {} failed; waited {} (at most {}), served in {} (at most {}); started again {}",
            self.busy,
            self.children,
            self.queue,
            self.queue_max,
            self.requests,
            self.refused,
            self.given_up,
            self.retried,
            self.failed,
            ms(self.wait_s_mean),
            ms(self.wait_s_max),
            ms(self.service_s_mean),
            ms(self.service_s_max),
            times(self.restarts),
        )
    }
}

/// Requests in children that are shown for each pool. The JSON has more.
const RUNNING_LISTED_MAX: usize = 8;

/// The times of a pool, and the requests that its children are in.
fn details(pool: &PhpStatus, indent: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    program_times(indent, &pool.waits, "served", &pool.services, f)?;
    for RunningStatus { method, host, path, running_s } in pool.running.iter().take(RUNNING_LISTED_MAX) {
        writeln!(f, "{indent}for {}: {method} {host}{path}", ms(*running_s))?;
    }
    match pool.busy.saturating_sub(RUNNING_LISTED_MAX as u64) {
        0 => Ok(()),
        more => writeln!(f, "{indent}and {more} more"),
    }
}

/// The waits for programs, and the times of programs, if there are any.
fn program_times(
    indent: &str,
    waits: &[DurationCount],
    verb: &str,
    runs: &[DurationCount],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if waits.is_empty() {
        return Ok(());
    }
    let [wait_half, wait_most] = [0.5, 0.99].map(|share| ms(reached(waits, share)));
    let [run_half, run_most] = [0.5, 0.99].map(|share| ms(reached(runs, share)));
    writeln!(
        f,
        "{indent}waited: 50 % within {wait_half}, 99 % within {wait_most}; {verb}: 50 % within {run_half}, 99 % within \
         {run_most}"
    )
}

/// The duration that this share of the durations did not exceed.
fn reached(counts: &[DurationCount], share: f64) -> f64 {
    let all: u64 = counts.iter().map(|class| class.count).sum();
    let rank = ((all as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    let reached = counts.iter().find(|class| {
        seen += class.count;
        seen >= rank
    });
    reached.map_or(0.0, |class| class.at_most_s)
}

/// Pools of hosts that are shown one by one: as many as hosts in the JSON, because a pool serves a
/// host.
const POOLS_SHOWN_MAX: usize = 20;

fn pools(instance: &InstanceStatus, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let used = &instance.php_pools_used;
    let running = used.iter().filter(|pool| pool.state != "stopped").count();
    writeln!(f, "php pools of hosts: {running} of {} running", instance.php_pools)?;
    for PhpPoolStatus { user, hosts, state, starts, pool, .. } in used.iter().take(POOLS_SHOWN_MAX) {
        let user = user.as_deref().unwrap_or("the server's user");
        let hosts = if hosts.is_empty() { String::new() } else { format!(" ({})", hosts.join(", ")) };
        write!(f, "  {user}{hosts}: {state}, started {}; ", times(*starts))?;
        pool.fmt(f)?;
        details(pool, "    ", f)?;
    }
    match used.len().saturating_sub(POOLS_SHOWN_MAX) {
        0 => Ok(()),
        more => writeln!(f, "  and {more} more"),
    }
}

fn nodes_in_words(nodes: &[u32]) -> String {
    let numbers: Vec<String> = nodes.iter().map(u32::to_string).collect();
    format!("node{} {}", if nodes.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

/// The number of cores, in words.
pub fn cores_in_words(count: usize) -> String {
    if count == 1 { "1 core".to_owned() } else { format!("{count} cores") }
}

/// A duration in milliseconds. Short durations have more digits.
fn ms(seconds: f64) -> String {
    let digits = if 0.0 < seconds && seconds < 0.001 { 3 } else { 1 };
    format!("{:.digits$} ms", seconds * 1000.0)
}

fn times(count: u64) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// Bytes in the largest unit that gives a number of at least one, with one decimal.
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("G", 30), ("M", 20), ("K", 10)];
        match units.into_iter().find(|(_, shift)| self.0 >> shift > 0) {
            Some((unit, shift)) => write!(f, "{:.1}{unit}", self.0 as f64 / (1_u64 << shift) as f64),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A time in the two largest units.
struct Up(Duration);

impl Display for Up {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(f, "{:.1} s", self.0.as_secs_f64()),
            (0, 0, minutes) => write!(f, "{minutes} min {} s", seconds % 60),
            (0, hours, minutes) => write!(f, "{hours} h {minutes} min"),
            (days, hours, _) => write!(f, "{days} d {hours} h"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        let up = |seconds: f64| Up(Duration::from_secs_f64(seconds)).to_string();
        assert_eq!(
            [up(1.26), up(61.0), up(7265.0), up(200_000.0)],
            ["1.3 s", "1 min 1 s", "2 h 1 min", "2 d 7 h"]
        );
        let bytes = |count| Bytes(count).to_string();
        assert_eq!([bytes(0), bytes(1023), bytes(1536), bytes(3 << 20)], ["0", "1023", "1.5K", "3.0M"]);
        assert_eq!([times(0), times(1), times(2)], ["never", "once", "2 times"]);
    }
}
