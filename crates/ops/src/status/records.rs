//! The records of a status, each field with unit and meaning, and the reference page.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The introduction of the reference page.
const INTRODUCTION: &str = "\
# Status

`vermeil status` asks a running server for its state, over a control socket that only the socket's owner can open. `vermeil status --json`
prints the fields below as one JSON object. Later versions may add fields; the present fields keep their meaning. Counts are since the start
of the counting process (`uptime_s` of its instance). So a count begins at 0 again when an instance is started again (`restarts`), and
a monitor must expect that a count, or a sum of counts, falls. Times are seconds, sizes are bytes. This page is generated from the definitions.
";

/// A record on the reference page.
struct RecordDoc {
    name: &'static str,
    about: &'static str,
    fields: Vec<(&'static str, &'static str, &'static str)>,
}

/// Defines a record: a struct, the JSON form, and the documentation.
macro_rules! record {
    ($(#[doc = $about:literal])+ pub struct $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty,)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl $name {
            fn doc() -> RecordDoc {
                RecordDoc {
                    name: stringify!($name),
                    about: concat!($($about),+),
                    fields: vec![$((stringify!($field), stringify!($type), concat!($($doc),+))),+],
                }
            }
        }
    };
}

record! {
    /// The status of a server.
    pub struct ServerStatus {
        /// The server's version.
        version: String,
        /// Process id of the server.
        pid: u32,
        /// Time since the start of the server.
        uptime_s: f64,
        /// `serving`, or `draining` after the order to stop.
        state: String,
        /// The configuration file; `null` if the configuration is a command line.
        configuration: Option<String>,
        /// Reloads that brought a new configuration into force.
        reloads: u64,
        /// Addresses on which the server listens.
        listening: Vec<String>,
        /// Work of the busiest core, divided by the average of all cores, in the last fifth of a
        /// second: 1 if all cores have equal work, the number of cores if a single core has all
        /// work; `null` if there is next to no work.
        imbalance: Option<f64>,
        /// The serving processes: this process, or the supervised instances.
        instances: Vec<InstanceStatus>,
        /// Instances that did not answer, because they are being started or hang.
        silent: Vec<u32>,
    }
}

record! {
    /// A serving process.
    pub struct InstanceStatus {
        /// Number of the instance, from 0.
        instance: u32,
        /// Process id of the instance.
        pid: u32,
        /// Time since the start of the process. Counts of the instance begin then.
        uptime_s: f64,
        /// The memory nodes of the cores.
        nodes: Vec<u32>,
        /// Restarts of the instance after an unexpected end.
        restarts: u64,
        /// The I/O driver of the cores.
        io: String,
        /// The cores.
        cores: Vec<CoreStatus>,
        /// Open connections.
        connections: u64,
        /// Requests answered, or cut while being answered.
        requests: u64,
        /// Answers cut because the file changed during the answer.
        answers_cut: u64,
        /// The ended answers.
        answers: AnswersStatus,
        /// The cache of served files.
        cache: CacheStatus,
        /// The virtual hosts.
        hosts: HostsStatus,
        /// Memory of the process.
        memory: MemoryStatus,
        /// The access log.
        log: LogStatus,
        /// Notices on standard error, by kind. Kinds without notices are left out.
        notices: Vec<NoticeStatus>,
        /// The server's PHP pool; `null` without one.
        php: Option<PhpStatus>,
        /// Pools that belong to hosts.
        php_pools: u64,
        /// The pools of hosts that have been started; running pools come first.
        php_pools_used: Vec<PhpPoolStatus>,
        /// CGI programs; `null` without any.
        cgi: Option<CgiStatus>,
        /// HTTPS; `null` if no listener speaks HTTPS.
        tls: Option<TlsStatus>,
        /// Compressed answers; `null` before the first.
        compression: Option<CompressionStatus>,
        /// The work that any core may do, by kind. Kinds that have not run are left out.
        handlers: Vec<HandlerStatus>,
    }
}

record! {
    /// A core: a pinned thread with an event loop.
    pub struct CoreStatus {
        /// Index of the core, from 0.
        core: u32,
        /// The cpu to which the core is pinned.
        cpu: u64,
        /// Share of the last fifth of a second in which the thread ran, from 0 to 1.
        busy: f64,
        /// Share of that time in which the thread waited for its cpu, because other threads had the
        /// cpu.
        waited: f64,
        /// Time that the thread has run since the start.
        cpu_s: f64,
        /// Whether the core answered within a second. If not, the nine fields below are from the
        /// last answer.
        answered: bool,
        /// Open connections.
        connections: u64,
        /// Open connections that wait for the next request, where neighbours may take them.
        resting: u64,
        /// Connections refused with 503 after too long a wait to be accepted.
        refused: u64,
        /// Maximum number of connections waiting to be accepted, for each listener of the core. The
        /// maximum falls while more connections arrive than the core can serve.
        queue_max: u64,
        /// Whether the core polls the network card at this moment instead of waiting for
        /// interrupts.
        busy_polls: bool,
        /// Times that the core began to poll the network card.
        busy_poll_begun: u64,
        /// Spellings of paths that the core remembers.
        paths: u64,
        /// Requests for which the core looked up a path, for the first time or again.
        looked_up: u64,
        /// Requests whose path the core remembered.
        cache_hits: u64,
        /// Requests answered, or cut while being answered.
        requests: u64,
        /// Colors that are ready to run on the core.
        ready_colors: u64,
        /// Runs of a color on the core.
        activations: u64,
        /// Colors that the core stole from other cores.
        steals: u64,
        /// Accepted connections.
        accepted: u64,
        /// Accepted connections from the listener of a neighbour that was stuck.
        taken_over: u64,
        /// Connections of a neighbour with more work, moved here between two requests.
        moved: u64,
        /// Connections for this core that the kernel has given to another core, because too much
        /// work waited here (`--balance load-aware`).
        sent_away: u64,
        /// Accepted connections for which the core asked the kernel which cpu handles their
        /// packets: one in 16.
        sampled: u64,
        /// Sampled connections whose packets the core's cpu handles.
        sampled_here: u64,
    }
}

record! {
    /// The ended answers of a process. A request that is being answered is not counted yet.
    pub struct AnswersStatus {
        /// The status codes that were sent. 499 stands for a client that left before the answer.
        statuses: Vec<StatusCount>,
        /// Answers that did not reach their end, because the client left or the server cut them.
        aborted: u64,
        /// Bytes of bodies sent, without heads.
        body_bytes: u64,
        /// Requests in the last fifth of a second, per second.
        requests_per_s: f64,
        /// Bytes of bodies in the last fifth of a second, per second.
        body_bytes_per_s: f64,
        /// Durations of requests, from the complete head to the end of the answer, in classes.
        /// Each class is exact to a quarter. Empty classes are left out.
        durations: Vec<DurationCount>,
        /// Sum of all durations.
        duration_s_sum: f64,
        /// The duration that half of all requests did not exceed.
        duration_s_p50: f64,
        /// The duration that 90 % of all requests did not exceed.
        duration_s_p90: f64,
        /// The duration that 99 % of all requests did not exceed.
        duration_s_p99: f64,
    }
}

record! {
    /// Answers with the same status code.
    pub struct StatusCount {
        /// The status code.
        status: u32,
        /// Number of answers.
        count: u64,
    }
}

record! {
    /// Requests of a class of durations.
    pub struct DurationCount {
        /// The longest duration of the class.
        at_most_s: f64,
        /// Number of requests.
        count: u64,
    }
}

record! {
    /// The answers of a host, or of several hosts together.
    pub struct HostAnswers {
        /// The first name of the host that is no wildcard. `(default)` and `(without name)` are
        /// hosts without such a name, `(others)` all hosts that have no counts of their own.
        host: String,
        /// Ended requests.
        requests: u64,
        /// Answers with a status from 500.
        errors: u64,
        /// Bytes of bodies sent.
        body_bytes: u64,
    }
}

record! {
    /// The cache of served files, for all cores together.
    pub struct CacheStatus {
        /// File contents in memory.
        content_bytes: u64,
        /// Maximum of `content_bytes`.
        content_bytes_max: u64,
        /// Open files.
        descriptors: u64,
        /// Maximum of `descriptors`.
        descriptors_max: u64,
        /// Remembered paths, of existing and of missing files.
        paths: u64,
        /// Maximum of `paths`.
        paths_max: u64,
        /// Folders that the server watches for changes.
        watches: u64,
        /// Maximum of `watches`.
        watches_max: u64,
        /// Times that the kernel lost events, so that the server looked up every path again.
        overflows: u64,
    }
}

record! {
    /// The virtual hosts.
    pub struct HostsStatus {
        /// Number of hosts.
        hosts: u64,
        /// Number of names of all hosts.
        names: u64,
        /// Open folders.
        open: u64,
        /// Maximum of `open`.
        open_max: u64,
        /// The hosts with the most requests, the busiest first (`[hosts] counted_max`).
        busiest: Vec<HostAnswers>,
        /// All other hosts together.
        others: HostAnswers,
    }
}

record! {
    /// Memory of the process, as the kernel counts it.
    pub struct MemoryStatus {
        /// Resident memory.
        resident_bytes: u64,
        /// Page tables, which a fork would have to copy.
        page_table_bytes: u64,
        /// Resident memory on transparent huge pages.
        transparent_huge_bytes: u64,
        /// Memory on reserved huge pages, which does not count as resident.
        reserved_huge_bytes: u64,
    }
}

record! {
    /// The access log.
    pub struct LogStatus {
        /// Destination: `-`, a file, or `off`.
        target: String,
        /// Written lines.
        written: u64,
        /// Records lost because the log could not keep up, or because a write failed.
        dropped: u64,
    }
}

record! {
    /// Notices of one kind.
    pub struct NoticeStatus {
        /// The kind.
        kind: String,
        /// Number of notices, including suppressed notices.
        count: u64,
    }
}

record! {
    /// A PHP pool.
    pub struct PhpStatus {
        /// Children, and therefore the maximum number of open connections to the pool.
        children: u64,
        /// Open connections to the pool.
        open: u64,
        /// Open connections that serve a request.
        busy: u64,
        /// Requests waiting for a child.
        queue: u64,
        /// Maximum number of waiting requests; further requests get 503.
        queue_max: u64,
        /// Requests that got a child.
        requests: u64,
        /// Requests refused because the queue was full.
        refused: u64,
        /// Requests that stopped waiting, because their time was over or the client had gone.
        given_up: u64,
        /// Requests repeated on a new connection because a kept connection was stale.
        retried: u64,
        /// Requests that PHP did not answer properly.
        failed: u64,
        /// Time that requests waited for a child, all together.
        wait_s_sum: f64,
        /// Time that children took for requests, all together.
        service_s_sum: f64,
        /// Mean time that requests waited for a child.
        wait_s_mean: f64,
        /// Longest time that a request waited for a child.
        wait_s_max: f64,
        /// Mean time that a child took for a request.
        service_s_mean: f64,
        /// Longest time that a child took for a request.
        service_s_max: f64,
        /// The waits in classes, as with `durations` of the answers.
        waits: Vec<DurationCount>,
        /// The times of children for requests in classes.
        services: Vec<DurationCount>,
        /// The requests that children are in, the longest first: at most 32.
        running: Vec<RunningStatus>,
        /// Restarts of the pool after an unexpected end.
        restarts: u64,
    }
}

record! {
    /// A request that a PHP child is in. Names are cut after 256 bytes together. Bytes outside of
    /// ASCII are escaped.
    pub struct RunningStatus {
        /// The method.
        method: String,
        /// The host that the client named.
        host: String,
        /// The path as received, without the query.
        path: String,
        /// Time since the request got the child.
        running_s: f64,
    }
}

record! {
    /// A PHP pool of a single host, or of several hosts with the same settings.
    pub struct PhpPoolStatus {
        /// Number of the pool. Another pool never has the same number.
        number: u64,
        /// The user of the pool, as in the configuration; `null` if the server chooses the user.
        user: Option<String>,
        /// The first 8 names of the hosts that use the pool, in alphabetical order.
        hosts: Vec<String>,
        /// `stopped`, `starting`, `running` or `stopping`.
        state: String,
        /// Starts of the pool.
        starts: u64,
        /// Time without a request after which the server stops the pool.
        idle_stop_s: f64,
        /// The counters of the pool. `restarts` counts unexpected ends.
        pool: PhpStatus,
    }
}

record! {
    /// CGI programs.
    pub struct CgiStatus {
        /// Running programs.
        running: u64,
        /// Maximum of `running`.
        running_max: u64,
        /// Requests waiting for a program to end.
        waiting: u64,
        /// Requests for existing programs, answered or not.
        requests: u64,
        /// Requests whose program gave no valid answer, or that got no turn.
        failed: u64,
        /// The waits of requests for their turn in classes, as with `durations` of the answers.
        waits: Vec<DurationCount>,
        /// Sum of all waits.
        wait_s_sum: f64,
        /// The times from the start of a program to the end of its answer, in classes.
        runs: Vec<DurationCount>,
        /// Sum of these times.
        run_s_sum: f64,
    }
}

record! {
    /// HTTPS.
    pub struct TlsStatus {
        /// Handshakes with a key exchange and a signature.
        handshakes_full: u64,
        /// Handshakes with the secrets of an earlier session.
        handshakes_resumed: u64,
        /// Handshakes that failed: the client left or was late, no host had the name, or nothing
        /// fitted.
        handshakes_failed: u64,
        /// Connections closed because too many handshakes waited (`handshakes_max` in `[tls]`).
        handshakes_refused: u64,
        /// Handshakes that wait for a core.
        handshakes_waiting: u64,
        /// Requests without TLS, answered with 400.
        plain_requests: u64,
        /// Hosts whose certificates are in memory.
        hosts: u64,
        /// Times that the certificates of a host were loaded.
        loads: u64,
    }
}

record! {
    /// Compressed answers.
    pub struct CompressionStatus {
        /// Files that were compressed, or found not to become shorter.
        files: u64,
        /// Answers for files whose compressed content was in memory.
        file_hits: u64,
        /// Answers of programs that were compressed.
        answers: u64,
        /// Answers that went as they are, because too much was being compressed or sent
        /// (`files_max`, `answers_max` and `sending_bytes` in `[compression]`).
        refused: u64,
        /// Bytes of content that were compressed.
        input_bytes: u64,
        /// The compressed bytes.
        output_bytes: u64,
        /// Steps of the work. Each step may run on another core.
        steps: u64,
        /// Time of cores for this work.
        work_s: f64,
        /// Memory for compressed contents of files.
        cache_bytes: u64,
        /// Bound of `cache_bytes` (`cache_bytes` in `[compression]`).
        cache_bytes_max: u64,
        /// Compressed contents of files in memory.
        cache_files: u64,
        /// Bytes of all compressed contents of files: those in the cache, and evicted contents
        /// that clients still receive. `cache_bytes` counts 256 bytes more for each file.
        content_bytes: u64,
    }
}

record! {
    /// A handler: a kind of work that any core may do, and the cost of its events. The times are of
    /// a sample of the events, which is so small that reading the clock takes at most 1 % of the
    /// time. A time is exact to an eighth, and 0 without an event in the sample.
    pub struct HandlerStatus {
        /// The work: `TLS handshake`, `TLS handshake (in idle time)` or `compression`.
        handler: String,
        /// Events that ran.
        runs: u64,
        /// Times that an idle core took a waiting event from another core.
        steals: u64,
        /// The wait for a core that half of the events did not exceed.
        wait_s_p50: f64,
        /// The wait for a core that 99 % of the events did not exceed.
        wait_s_p99: f64,
        /// Events in the sample whose data came from the core that ran them.
        warm_runs: u64,
        /// Mean time that such an event ran.
        warm_s_mean: f64,
        /// The time that 99 % of such events did not exceed.
        warm_s_p99: f64,
        /// Events in the sample whose data came from another core.
        cold_runs: u64,
        /// Mean time that such an event ran. The difference to `warm_s_mean` is the cost of a move.
        cold_s_mean: f64,
        /// The time that 99 % of such events did not exceed.
        cold_s_p99: f64,
    }
}

/// The reference page of the status, in Markdown.
pub fn reference_page() -> String {
    let records = [
        ServerStatus::doc(),
        InstanceStatus::doc(),
        CoreStatus::doc(),
        AnswersStatus::doc(),
        StatusCount::doc(),
        DurationCount::doc(),
        CacheStatus::doc(),
        HostsStatus::doc(),
        HostAnswers::doc(),
        MemoryStatus::doc(),
        LogStatus::doc(),
        NoticeStatus::doc(),
        PhpStatus::doc(),
        RunningStatus::doc(),
        PhpPoolStatus::doc(),
        CgiStatus::doc(),
        TlsStatus::doc(),
        CompressionStatus::doc(),
        HandlerStatus::doc(),
    ];
    let mut page = INTRODUCTION.to_owned();
    for RecordDoc { name, about, fields } in records {
        let _ = write!(
            page,
            "\n## {name}\n\n{}\n\n| field | type | meaning |\n| --- | --- | --- |\n",
            about.trim()
        );
        for (field, kind, meaning) in fields {
            let _ = writeln!(page, "| `{field}` | {} | {} |", kind_of(kind), meaning.trim());
        }
    }
    page
}

/// The JSON type of a Rust type.
fn kind_of(rust: &str) -> String {
    if let Some(inner) = rust.strip_prefix("Option<").and_then(|rest| rest.strip_suffix('>')) {
        return format!("{} or `null`", kind_of(inner));
    }
    if let Some(inner) = rust.strip_prefix("Vec<").and_then(|rest| rest.strip_suffix('>')) {
        return format!("list of {}", kind_of(inner));
    }
    match rust {
        "String" => "text".to_owned(),
        "bool" => "true or false".to_owned(),
        "u32" | "u64" => "whole number".to_owned(),
        "f64" => "number".to_owned(),
        record => format!("[{record}](#{})", record.to_ascii_lowercase()),
    }
}
