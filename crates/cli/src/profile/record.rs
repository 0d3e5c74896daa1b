//! `vermeil profile record`: a recording of a process tree.

use super::server::server_at;
use crate::values::Span;
use crate::{Exit, print};
use clap::{Args, ValueEnum, ValueHint};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use vermeil_profile::{HardwareSet, RecordOptions, Recorded, Stacks, Subject, Trigger, ended, record};

/// How stacks are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Walk {
    /// With the unwind tables of files, from a copy of at most 16 KiB of the stack
    Tables,
    /// Along frame pointers; cheaper, but code without frame pointers loses its callers
    Frames,
}

/// A set of hardware events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HardwareChoice {
    /// Cycles and instructions
    Ipc,
    /// Accesses and misses of the last cache
    Cache,
    /// Misses of the translation caches
    Tlb,
    /// Accesses to memory of other nodes
    Remote,
}

impl From<HardwareChoice> for HardwareSet {
    fn from(set: HardwareChoice) -> Self {
        match set {
            HardwareChoice::Ipc => Self::Ipc,
            HardwareChoice::Cache => Self::Cache,
            HardwareChoice::Tlb => Self::Tlb,
            HardwareChoice::Remote => Self::Remote,
        }
    }
}

/// Sample a process and its descendants, until it ends, until SIGINT or SIGTERM, or for a time.
///
/// Each sample holds the whole stack of the process and of the kernel. Root and processes with
/// CAP_PERFMON sample at the cost of one event for each cpu; without, each thread gets its own.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(super::EXAMPLES))]
pub(super) struct RecordArgs {
    /// The process to record, with its descendants
    ///
    /// From 1. Default: COMMAND is started and recorded.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..), conflicts_with_all = ["command", "control"], required_unless_present_any = ["command", "control"])]
    pid: Option<i32>,

    /// The control socket of a Vermeil server: record the processes of the server
    ///
    /// A recording of a Vermeil server also holds the requests, bytes of bodies, events, runs of
    /// colors and steals of each core, 100 times each second. Reports show the cost of one request.
    /// --pid and COMMAND find these counts too. Default: --pid or COMMAND names the processes.
    #[arg(long, value_name = "PATH", conflicts_with = "command", value_hint = ValueHint::FilePath)]
    control: Option<PathBuf>,

    /// Samples per second and cpu
    ///
    /// From 1 to 20000. A rate that shares no divisor with the kernel's clock keeps samples from
    /// falling on its ticks.
    #[arg(long, value_name = "N", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    hz: u32,

    /// How long to record, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. A command that was started is then asked to end (SIGTERM), and killed 10
    /// seconds later. Default: until the process ends or a signal comes.
    #[arg(long, value_name = "TIME")]
    duration: Option<Span>,

    /// How the stacks of processes are walked
    ///
    /// The kernel's own part of a stack is always whole.
    #[arg(long, value_enum, value_name = "HOW", default_value = "tables")]
    stacks: Walk,

    /// Record also how long each thread waits, and where threads block
    ///
    /// Each switch of a thread is counted; stacks of waits are sampled at the rate of --hz. Needs
    /// the kernel's part: root, or kernel.perf_event_paranoid at 1. Default: cpu time only.
    #[arg(long)]
    waits: bool,

    /// The set of hardware events that is counted beside the samples
    ///
    /// One set at a time, because the kernel only estimates when it shares counters. On a machine
    /// without hardware counters the report says so.
    #[arg(long, value_enum, value_name = "SET", default_value = "ipc")]
    count: HardwareChoice,

    /// The file of the recording
    ///
    /// An existing file is overwritten.
    #[arg(long, short, value_name = "FILE", default_value = "vermeil.prof", value_hint = ValueHint::FilePath)]
    output: PathBuf,

    /// The command to start and to record
    ///
    /// Default: none, with --pid.
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

impl RecordArgs {
    /// Records.
    pub(super) fn run(self) -> Exit {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&stop)) {
                return print::failure(&format_args!("cannot watch for signals: {error}"), Exit::CannotStart);
            }
        }
        let root = match self.control.as_deref().map(server_at).transpose() {
            Ok(root) => root,
            Err(error) => return print::failure(&error, Exit::CannotStart),
        };
        let is_server = root.is_some();
        let subject = match self.pid.or(root) {
            Some(pid) => Subject::Process(pid),
            None => Subject::Command(self.command),
        };
        let options = RecordOptions {
            subject,
            hz: self.hz,
            duration: self.duration.map(Into::into),
            output: self.output,
            hardware: self.count.into(),
            stacks: match self.stacks {
                Walk::Tables => Stacks::Tables,
                Walk::Frames => Stacks::Frames,
            },
            waits: self.waits,
        };
        match record(&options, &stop) {
            Ok(recorded) => {
                if is_server && !recorded.summary.counts_work {
                    let missing = "requests are not counted, because this user may not open the \
                                   descriptors of the server's processes; run as root, or as the \
                                   user of the server";
                    print::failure(&missing, Exit::Clean);
                }
                tell(&recorded)
            }
            Err(error) => print::failure(&error, Exit::CannotStart),
        }
    }
}

/// Prints a summary to standard error, because standard output may be the command's.
fn tell(recorded: &Recorded) -> Exit {
    let summary = &recorded.summary;
    let trigger = match summary.origin.trigger {
        Trigger::CpuClock => "cpu-clock, because this machine has no hardware counters",
        Trigger::Cycles | Trigger::Events => "hardware cycles",
    };
    let mut lines = vec![format!(
        "{} samples in {:.1} s at {} Hz ({trigger}); {}: {} KiB; the recorder took {:.2} s of cpu time",
        summary.samples,
        summary.duration.as_secs_f64(),
        summary.origin.hz,
        summary.output.display(),
        summary.bytes.div_ceil(1024),
        summary.own_cpu.as_secs_f64()
    )];
    if !summary.origin.kernel {
        lines.push(
            "the kernel's part is missing for want of rights; run as root, or `sysctl kernel.perf_event_paranoid=1`"
                .to_owned(),
        );
    }
    if summary.kernel_symbols_hidden {
        lines.push(
            "the kernel's functions have no names, because their addresses are hidden from this user; run as root, \
             or `sysctl kernel.kptr_restrict=0`"
                .to_owned(),
        );
    }
    if let Some(why) = &summary.waits_missing {
        lines.push(format!("waits are not recorded: {why}"));
    }
    if summary.losses.switches > 0 {
        lines.push(format!("{} switches were lost, and waits with them", summary.losses.switches));
    }
    if summary.losses.samples > 0 || summary.losses.pauses > 0 {
        lines.push(format!(
            "{} samples were lost and the kernel paused sampling {} times: record with a lower --hz",
            summary.losses.samples, summary.losses.pauses
        ));
    }
    lines.extend(recorded.status.and_then(ended));
    if let Some(first) = recorded.descendants.first() {
        lines.push(format!(
            "the first process has ended, and {} of its descendants still run: record one and its own descendants \
             with --pid, for example --pid {first}",
            recorded.descendants.len()
        ));
    }
    let exit = match &recorded.shortened {
        Some(error) => {
            lines.push(format!(
                "{}: writing failed: {error}; the file holds everything before and `vermeil profile report` reads it",
                summary.output.display()
            ));
            Exit::Failed
        }
        None => Exit::Clean,
    };
    for line in lines {
        print::failure(&line, exit);
    }
    exit
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct RecordLine {
        #[command(flatten)]
        _record: RecordArgs,
    }

    /// Regression: with --pid the server of --control was ignored.
    #[test]
    fn subjects_exclude_each_other() {
        let subjects = [&["--pid", "1"][..], &["--control", "web.sock"], &["--", "true"]];
        let parsed = |words: &[&str]| RecordLine::try_parse_from([&["record"], words].concat());
        for (index, subject) in subjects.into_iter().enumerate() {
            assert!(parsed(subject).is_ok(), "{subject:?}");
            for other in &subjects[index + 1..] {
                let error = parsed(&[subject, other].concat()).unwrap_err();
                assert_eq!(error.kind(), clap::error::ErrorKind::ArgumentConflict, "{error}");
            }
        }
        assert!(parsed(&[]).is_err());
    }
}
