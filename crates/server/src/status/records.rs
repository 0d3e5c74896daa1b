//! The records of a status, each field with its unit and meaning; and the page that tells them.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// What stands before the records of the reference page.
const INTRODUCTION: &str = "\
# Status

`vermeil status` asks a server that runs what it is doing, over a control socket that only its owner can open; `vermeil status --json`
gives what is below, as one JSON object. Fields may be added; those that are here keep their meaning. Counts are since the start
of the process that counts (`uptime_s` of its instance), times are seconds, sizes are bytes. This page is generated from the definitions.
";

/// A record as the page tells it.
struct RecordDoc {
    name: &'static str,
    about: &'static str,
    fields: Vec<(&'static str, &'static str, &'static str)>,
}

/// Defines a record: a struct, how it is written, and how it is told.
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
    /// The whole.
    pub struct Status {
        /// The server's version.
        version: String,
        /// Number of its process.
        pid: u32,
        /// Time since its start.
        uptime_s: f64,
        /// `serving`, or `draining` once it was told to stop.
        state: String,
        /// The file its configuration is from; `null` if that is a command line.
        configuration: Option<String>,
        /// How often another configuration was taken.
        reloads: u64,
        /// Addresses it listens on.
        listening: Vec<String>,
        /// How much more work the busiest core has than all cores on average, in the last fifth of a second: 1 where all have the
        /// same, as many as there are cores where one has all; `null` where they have next to none.
        imbalance: Option<f64>,
        /// What serves: this process, or those that it watches over.
        instances: Vec<InstanceStatus>,
        /// Instances that did not answer: they are being started, or hang.
        silent: Vec<u32>,
    }
}

record! {
    /// A process that serves.
    pub struct InstanceStatus {
        /// Its number, from 0.
        instance: u32,
        /// Number of the process.
        pid: u32,
        /// Time since the start of the process: its counts are since then.
        uptime_s: f64,
        /// The memory nodes of its cores.
        nodes: Vec<u32>,
        /// Times that it was started again because it had ended.
        restarts: u64,
        /// The driver of its cores.
        io: String,
        /// Its cores.
        cores: Vec<CoreStatus>,
        /// Connections open.
        connections: u64,
        /// Requests answered, or cut while being answered.
        requests: u64,
        /// Answers cut because their file changed while it was sent.
        answers_cut: u64,
        /// What is kept of the files served.
        cache: CacheStatus,
        /// The virtual hosts.
        hosts: HostsStatus,
        /// Memory of the process.
        memory: MemoryStatus,
        /// The access log.
        log: LogStatus,
        /// Notices given on standard error, by kind; kinds that never were are left out.
        notices: Vec<NoticeStatus>,
        /// The server's PHP pool; `null` without one.
        php: Option<PhpStatus>,
        /// How many pools of their own hosts have.
        php_pools: u64,
        /// Those of them that were started, the ones that run first.
        php_pools_used: Vec<PhpPoolStatus>,
        /// CGI programs; `null` without any.
        cgi: Option<CgiStatus>,
    }
}

record! {
    /// One core: a pinned thread with its event loop.
    pub struct CoreStatus {
        /// Its place among the cores, from 0.
        core: u32,
        /// The cpu it is pinned to.
        cpu: u64,
        /// Share of the last fifth of a second that its thread ran, from 0 to 1.
        busy: f64,
        /// Share of that time that it waited for its cpu, which others had.
        waited: f64,
        /// Time its thread ran since the start.
        cpu_s: f64,
        /// Whether it answered within a second. If not, the eight fields below are those of its last answer.
        answered: bool,
        /// Connections open.
        connections: u64,
        /// Of these, those that wait for their next request where its neighbours may take them.
        resting: u64,
        /// Connections refused with 503 because they had waited too long to be accepted.
        refused: u64,
        /// Connections that each of its listeners lets wait to be accepted: fewer while more arrive than it can serve.
        queue_max: u64,
        /// Whether it polls its network card at this moment instead of waiting for interrupts.
        busy_polls: bool,
        /// How often that began.
        busy_poll_begun: u64,
        /// Spellings of paths it remembers.
        paths: u64,
        /// Requests for which it had to look a path up, or look again.
        looked_up: u64,
        /// Requests answered, or cut while being answered.
        requests: u64,
        /// Colors waiting for it.
        ready_colors: u64,
        /// Connections accepted.
        accepted: u64,
        /// Of these, those taken over from a neighbour that did not come to take them.
        taken_over: u64,
        /// Connections that a neighbour had accepted and did not come to: they came here between two requests.
        moved: u64,
        /// Connections for this core that the kernel has given to another, since too much work waited here (`--balance load-aware`).
        sent_away: u64,
        /// Of those accepted, those that were asked which cpu handles their packets: one in 16.
        sampled: u64,
        /// Of these, those whose packets its own cpu handles.
        sampled_here: u64,
    }
}

record! {
    /// What is kept of the files served, all cores together.
    pub struct CacheStatus {
        /// Contents in memory.
        content_bytes: u64,
        /// The bound of these.
        content_bytes_max: u64,
        /// Files held open.
        descriptors: u64,
        /// The bound of these.
        descriptors_max: u64,
        /// Paths remembered, found or not.
        paths: u64,
        /// The bound of these.
        paths_max: u64,
        /// Folders watched for changes.
        watches: u64,
        /// The bound of these.
        watches_max: u64,
        /// Times that the kernel lost events, and everything was looked up again.
        overflows: u64,
    }
}

record! {
    /// The virtual hosts.
    pub struct HostsStatus {
        /// How many there are.
        hosts: u64,
        /// How many names they have.
        names: u64,
        /// Folders that are open.
        open: u64,
        /// The bound of these.
        open_max: u64,
    }
}

record! {
    /// Memory of the process, as the kernel counts it.
    pub struct MemoryStatus {
        /// Resident.
        resident_bytes: u64,
        /// Page tables: what a fork would have to copy.
        page_table_bytes: u64,
        /// Of the resident memory, that on transparent huge pages.
        transparent_huge_bytes: u64,
        /// Memory on reserved huge pages, which does not count as resident.
        reserved_huge_bytes: u64,
    }
}

record! {
    /// The access log.
    pub struct LogStatus {
        /// Where it goes: `-`, a file, or `off`.
        target: String,
        /// Lines written.
        written: u64,
        /// Records lost because it could not keep up or could not be written.
        dropped: u64,
    }
}

record! {
    /// Notices of one kind.
    pub struct NoticeStatus {
        /// What they are about.
        kind: String,
        /// How many there were, said or not.
        count: u64,
    }
}

record! {
    /// A PHP pool.
    pub struct PhpStatus {
        /// Children, and so connections that may be open at once.
        children: u64,
        /// Connections open.
        open: u64,
        /// Of these, those that serve a request.
        busy: u64,
        /// Requests waiting for a child.
        queue: u64,
        /// Requests that may wait; beyond: 503.
        queue_max: u64,
        /// Requests that got a child.
        requests: u64,
        /// Requests refused because the queue was full.
        refused: u64,
        /// Requests that gave up waiting: out of time, or the client had gone.
        given_up: u64,
        /// Requests repeated on a new connection because a kept one was stale.
        retried: u64,
        /// Requests that PHP did not answer properly.
        failed: u64,
        /// Time waited for a child, on average.
        wait_s_mean: f64,
        /// The longest of these.
        wait_s_max: f64,
        /// Time a child took for a request, on average.
        service_s_mean: f64,
        /// The longest of these.
        service_s_max: f64,
        /// Times that the pool was started again because it had ended.
        restarts: u64,
    }
}

record! {
    /// A PHP pool of a host's own, or of several that ask for the same.
    pub struct PhpPoolStatus {
        /// The user it runs as, as the configuration names it; `null` if that is the server's choice.
        user: Option<String>,
        /// `stopped`, `starting`, `running` or `stopping`.
        state: String,
        /// Times that it was started.
        starts: u64,
        /// Time without a request after which it is stopped.
        idle_stop_s: f64,
        /// What it does and has done; `restarts` are the times that it ended by itself.
        pool: PhpStatus,
    }
}

record! {
    /// CGI programs.
    pub struct CgiStatus {
        /// Those that run.
        running: u64,
        /// The bound of these.
        running_max: u64,
        /// Requests waiting for one to end.
        waiting: u64,
        /// Requests for programs that there are, answered or not.
        requests: u64,
        /// Of these, those that their program did not answer properly, or that got no turn.
        failed: u64,
    }
}

/// The reference page of the status, in Markdown.
pub fn reference_page() -> String {
    let records = [
        Status::doc(),
        InstanceStatus::doc(),
        CoreStatus::doc(),
        CacheStatus::doc(),
        HostsStatus::doc(),
        MemoryStatus::doc(),
        LogStatus::doc(),
        NoticeStatus::doc(),
        PhpStatus::doc(),
        PhpPoolStatus::doc(),
        CgiStatus::doc(),
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

/// A Rust type as JSON knows it.
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
