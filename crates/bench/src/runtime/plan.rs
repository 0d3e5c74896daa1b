//! The plan: programs, their policies and peers, sizes, and metrics.

use serde::{Deserialize, Serialize};

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenchProgram {
    /// Sixteen handlers that take square roots.
    SqrtPipeline,
    /// Sixteen filters over images larger than a core's cache.
    ImagePipeline,
    /// The same behind HTTP.
    ImageServer,
    /// A static web server, handler by handler.
    WebHandlers,
    /// Heavy encryption beside cheap input and output.
    EncryptingServer,
    /// Records of Zipf-distributed keys.
    KeyedStream,
    /// Events of 2 µs beside jobs of 20 ms.
    MixedJobs,
    /// A tree of tasks.
    Skynet,
    /// Tasks from one task.
    Spawn,
    /// As spawn, with work of very different length.
    Unbalanced,
    /// Pairs of tasks that wait for each other.
    PingPong,
    /// Producers and consumers around one bounded queue.
    Channel,
    /// One task receives all requests and makes a task for each.
    Pin,
    /// A server's graph of tasks: bursts, a shift, and a long job at times.
    ServerGraph,
    /// Posting an event and running the event, at once, on the same core.
    PostLocal,
    /// Posting to a core that is busy with such events.
    PostRemote,
    /// Stealing from a core where 100 events wait.
    Steal100,
    /// Stealing from a core where 10,000 events wait.
    Steal10000,
    /// Nothing to do.
    Idle,
}

impl BenchProgram {
    /// Every program, in the order of the tables.
    pub const ALL: [Self; 19] = [
        Self::SqrtPipeline,
        Self::ImagePipeline,
        Self::ImageServer,
        Self::WebHandlers,
        Self::EncryptingServer,
        Self::KeyedStream,
        Self::MixedJobs,
        Self::Skynet,
        Self::Spawn,
        Self::Unbalanced,
        Self::PingPong,
        Self::Channel,
        Self::Pin,
        Self::ServerGraph,
        Self::PostLocal,
        Self::PostRemote,
        Self::Steal100,
        Self::Steal10000,
        Self::Idle,
    ];

    /// The name in rows and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::SqrtPipeline => "sqrt-pipeline",
            Self::ImagePipeline => "image-pipeline",
            Self::ImageServer => "image-server",
            Self::WebHandlers => "web-handlers",
            Self::EncryptingServer => "encrypting-server",
            Self::KeyedStream => "keyed-stream",
            Self::MixedJobs => "mixed-jobs",
            Self::Skynet => "skynet",
            Self::Spawn => "spawn",
            Self::Unbalanced => "unbalanced",
            Self::PingPong => "ping-pong",
            Self::Channel => "channel",
            Self::Pin => "pin",
            Self::ServerGraph => "server-graph",
            Self::PostLocal => "post-local",
            Self::PostRemote => "post-remote",
            Self::Steal100 => "steal-100",
            Self::Steal10000 => "steal-10000",
            Self::Idle => "idle",
        }
    }

    /// The program called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|program| program.name() == name)
    }

    /// Returns whether the throughput is meaningful, so that variants are compared by throughput.
    pub fn is_compared(self) -> bool {
        !matches!(self, Self::PostLocal | Self::PostRemote | Self::Steal100 | Self::Steal10000 | Self::Idle)
    }

    /// Returns whether the program has the same source on all variants.
    pub fn is_common(self) -> bool {
        matches!(
            self,
            Self::Skynet
                | Self::Spawn
                | Self::Unbalanced
                | Self::PingPong
                | Self::Channel
                | Self::Pin
                | Self::ServerGraph
        )
    }

    /// Returns whether the program runs on `variant`.
    pub fn runs_on(self, variant: RuntimeVariant) -> bool {
        let has_tasks = self.is_common() || matches!(self, Self::KeyedStream | Self::MixedJobs | Self::Idle);
        match variant {
            RuntimeVariant::Policy(_) => true,
            RuntimeVariant::Tokio | RuntimeVariant::Smol => has_tasks,
            RuntimeVariant::Rayon => {
                matches!(self, Self::Skynet | Self::Spawn | Self::Unbalanced | Self::Idle)
            }
        }
    }
}

/// The runtime of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuntimeVariant {
    /// Vermeil under the policy of this name.
    Policy(&'static str),
    /// tokio's multi-threaded runtime.
    Tokio,
    /// smol's executor.
    Smol,
    /// rayon, where nothing has to wait.
    Rayon,
}

impl RuntimeVariant {
    /// Every variant, in the order of the tables.
    pub const ALL: [Self; 13] = [
        Self::Policy("adaptive"),
        Self::Policy("none"),
        Self::Policy("libasync"),
        Self::Policy("mely"),
        Self::Policy("placed:round-robin"),
        Self::Policy("placed:cache-aware"),
        Self::Policy("placed:intermediate-1"),
        Self::Policy("placed:intermediate-2"),
        Self::Policy("trial"),
        Self::Policy("per-node"),
        Self::Tokio,
        Self::Smol,
        Self::Rayon,
    ];

    /// The name in rows and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy(name) => name,
            Self::Tokio => "tokio",
            Self::Smol => "smol",
            Self::Rayon => "rayon",
        }
    }

    /// The variant called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }

    /// Returns whether the variant is a policy of this project's runtime.
    pub fn is_own(self) -> bool {
        matches!(self, Self::Policy(_))
    }

    /// Returns whether the variant is another runtime with the same work. rayon is not such a
    /// runtime, because its jobs have no awaitable result and cannot wait. Its rows show the cost
    /// of a computation without tasks.
    pub fn is_peer(self) -> bool {
        matches!(self, Self::Tokio | Self::Smol)
    }

    /// The color of the bars.
    pub fn color(self) -> &'static str {
        match self {
            Self::Policy("adaptive") => "#c8402a",
            Self::Policy("none") => "#b8b8b8",
            Self::Policy("libasync") => "#e0b040",
            Self::Policy("mely") => "#d98020",
            Self::Policy("trial") => "#8a6d3b",
            Self::Policy("per-node") => "#e8947f",
            Self::Policy(_) => "#d8c8b0",
            Self::Tokio => "#2f7d4f",
            Self::Smol => "#8fbf9f",
            Self::Rayon => "#6a5acd",
        }
    }
}

/// The measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeMetric {
    /// Events per second.
    Throughput,
    /// Throughput relative to the policy with the best median, in the same round.
    OfBestPolicy,
    /// Throughput relative to the peer with the best median, in the same round.
    OfBestPeer,
    /// The default's throughput over this variant's, in separate pairs of runs.
    Duel,
    /// Cpu time of the process per event.
    CpuNs,
    /// Context switches of the process per event.
    Switches,
    /// 99th percentile of the delay of short events.
    DelayP99Us,
    /// The time from the start until the throughput is stable.
    SettleMs,
    /// The part of the time that was lost to trials of plans.
    RegretPct,
    /// The increase of processor time when the program is observed.
    ObservePct,
    /// Posting an event and running the event on the same core.
    PostRunNs,
    /// Posting an event to another core that is running.
    PostRemoteNs,
    /// Time of a successful steal.
    StealNs,
    /// The same in processor cycles.
    StealCycles,
    /// The expected time of a stolen color's events.
    StolenUs,
    /// The same in processor cycles, beside the cycles of the steal.
    StolenCycles,
    /// Cpu time in a second without work.
    IdleCpuUs,
}

impl RuntimeMetric {
    /// Every metric, in the order of the rows.
    pub const ALL: [Self; 17] = [
        Self::Throughput,
        Self::OfBestPolicy,
        Self::OfBestPeer,
        Self::Duel,
        Self::CpuNs,
        Self::Switches,
        Self::DelayP99Us,
        Self::SettleMs,
        Self::RegretPct,
        Self::ObservePct,
        Self::PostRunNs,
        Self::PostRemoteNs,
        Self::StealNs,
        Self::StealCycles,
        Self::StolenUs,
        Self::StolenCycles,
        Self::IdleCpuUs,
    ];

    /// Name and unit in rows.
    pub fn name_and_unit(self) -> (&'static str, &'static str) {
        match self {
            Self::Throughput => ("throughput", "events/s"),
            Self::OfBestPolicy => ("of_best_policy", "ratio"),
            Self::OfBestPeer => ("of_best_peer", "ratio"),
            Self::Duel => ("duel", "ratio"),
            Self::CpuNs => ("cpu_ns", "ns/event"),
            Self::Switches => ("switches", "1/event"),
            Self::DelayP99Us => ("delay_p99_us", "us"),
            Self::SettleMs => ("settle_ms", "ms"),
            Self::RegretPct => ("regret_pct", "%"),
            Self::ObservePct => ("observe_pct", "%"),
            Self::PostRunNs => ("post_run_ns", "ns"),
            Self::PostRemoteNs => ("post_remote_ns", "ns"),
            Self::StealNs => ("steal_ns", "ns"),
            Self::StealCycles => ("steal_cycles", "cycles"),
            Self::StolenUs => ("stolen_us", "us"),
            Self::StolenCycles => ("stolen_cycles", "cycles"),
            Self::IdleCpuUs => ("idle_cpu_us", "us/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_variants_are_found_by_their_names() {
        for program in BenchProgram::ALL {
            assert_eq!(BenchProgram::from_name(program.name()), Some(program));
        }
        for variant in RuntimeVariant::ALL {
            assert_eq!(RuntimeVariant::from_name(variant.name()), Some(variant));
            if let RuntimeVariant::Policy(name) = variant {
                assert!(name.parse::<vermeil::Policy>().is_ok(), "{name}");
            }
        }
    }

    #[test]
    fn every_policy_runs_all_programs_and_rayon_nonblocking_ones() {
        assert!(BenchProgram::ALL.iter().all(|program| program.runs_on(RuntimeVariant::Policy("none"))));
        assert!(!BenchProgram::Channel.runs_on(RuntimeVariant::Rayon));
    }
}
