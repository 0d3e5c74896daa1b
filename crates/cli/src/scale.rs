//! `vermeil scale`: a program on several numbers of cpus, and why it does not scale.
//!
//! Leaves out running and comparing, which are the profile crate's. Tested through the binary
//! (`tests/profile.rs`).

use crate::values::Span;
use crate::{Exit, print};
use clap::{Args, ValueEnum, ValueHint};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use vermeil_profile::{
    ProfileError,
    scale::{Load, Repetition, ScalePlan, ScaledPart, scale},
    verdict, verdict_page,
};

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &[
    "vermeil scale --cores 1,2 --reps 5 --ready 127.0.0.1:8080 --load 'load http://127.0.0.1:8080/ -d 20s --json -' -- serve /srv/www --listen 127.0.0.1:8080 --cores {cpus}",
    "vermeil scale --cores 1,2,4,8 --work units -- ./batch --threads {count}",
    "vermeil scale --nodes 1,2,4 --work units -- ./batch --threads {count}",
];

/// The form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScaleForm {
    /// Text for people
    Text,
    /// All runs and comparisons for programs
    Json,
    /// One HTML file, without network
    Html,
}

/// Run a program on several numbers of cpus or memory nodes and find out why it does not scale.
///
/// Each block runs each number once, in random order, and records the program. The result
/// splits the loss into idle cpus and the cost of a unit of work, and the cost among functions by
/// their potential gain. Runs that fail a gate (the program did not use its cpus, samples were
/// lost, the hypervisor took time, the load set the pace) are marked, not dropped.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES))]
pub(crate) struct ScaleArgs {
    /// Numbers of cpus, the base first; one number alone is recorded and not compared
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u32).range(1..))]
    cores: Vec<u32>,

    /// Numbers of memory nodes instead, the base first; a node has all its cpus
    ///
    /// On a machine with several nodes a base of one whole node is fairer than a base of one cpu,
    /// which has the caches and the memory of its node to itself. Default: numbers of cpus.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "cores", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Vec<u32>,

    /// Runs on each number of cpus or nodes
    ///
    /// From 1 to 1000. With one, intervals know the error of sampling only; at least five are
    /// advised.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    reps: u32,

    #[command(flatten)]
    server: ServerLoadArgs,

    /// The work in the output: a key of its JSON, one key divided by another, or the word before a
    /// number
    ///
    /// Default: rate with --load, which is good answers each second; work without.
    #[arg(long, value_name = "NAME")]
    work: Option<String>,

    /// Samples per second and cpu
    ///
    /// From 1 to 20000.
    #[arg(long, value_name = "N", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    hz: u32,

    /// The seed of the order of runs
    ///
    /// From 0 to 2^64 - 1.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// The folder in which recordings are kept
    ///
    /// A folder with recordings of an earlier run is refused, because a comparison would mix these
    /// with the new recordings.
    #[arg(long, value_name = "DIR", default_value = "vermeil-scale", value_hint = ValueHint::DirPath)]
    folder: PathBuf,

    /// The form of the result
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    form: ScaleForm,

    /// The program; `serve …` is vermeil's own server, {cpus} the list of its cpus, as 0-0 or 0,1,
    /// {count} their number
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// The load on a server.
#[derive(Debug, Args)]
struct ServerLoadArgs {
    /// The load on a server, a command line; `load …` is vermeil's own
    ///
    /// It runs for each recording, and its output says how much work was done each second. Default:
    /// COMMAND is a batch that ends and says how much it did.
    #[arg(long, value_name = "COMMAND", requires = "ready")]
    load: Option<String>,

    /// The address at which the server is ready once it accepts connections
    ///
    /// Default: none, without --load.
    #[arg(long, value_name = "ADDRESS", requires = "load")]
    ready: Option<SocketAddr>,

    /// How long the load runs at least before a recording begins, in seconds or with a unit: ms, s,
    /// m, h
    ///
    /// From 1ms to 24h. Default: 2s.
    #[arg(long, value_name = "TIME", requires = "load")]
    warm_up: Option<Span>,

    /// How much longer the load may run until the work is steady, in seconds or with a unit: ms, s,
    /// m, h
    ///
    /// From 1ms to 24h. Steady means that the bytes sent in three successive seconds differ by at
    /// most 10 %. A run that is not steady then is recorded and fails a gate. Default: 8s.
    #[arg(long, value_name = "TIME", requires = "load")]
    settle_max: Option<Span>,

    /// How long a recording under load takes, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. A load that ends earlier ends the recording. Default: 10s.
    #[arg(long, value_name = "TIME", requires = "load")]
    time: Option<Span>,
}

impl ServerLoadArgs {
    fn load(self) -> Option<Load> {
        let seconds = |span: Option<Span>, default: u64| {
            span.map_or(std::time::Duration::from_secs(default), std::time::Duration::from)
        };
        let (warm_up, settle_max) = (seconds(self.warm_up, 2), seconds(self.settle_max, 8));
        let duration = seconds(self.time, 10);
        self.load.zip(self.ready).map(|(load, ready)| Load {
            command: own(load.split_whitespace().map(OsString::from).collect(), "load"),
            ready,
            warm_up,
            settle_max,
            duration,
        })
    }
}

impl ScaleArgs {
    /// Runs the plan.
    pub(crate) fn run(self) -> Exit {
        if let Err(why) = self.check_counts() {
            return print::failure(&why, Exit::Usage);
        }
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&stop)) {
                return print::failure(&format_args!("cannot watch for signals: {error}"), Exit::CannotStart);
            }
        }
        let form = self.form;
        match scale(&self.plan(), &stop, &mut tell) {
            Ok(scaling) => {
                let printed = print::result(&match form {
                    ScaleForm::Text => verdict::scaling_text(&scaling),
                    ScaleForm::Json => crate::profile::as_json(&scaling),
                    ScaleForm::Html => verdict_page::scaling_html(&scaling),
                });
                match scaling.stopped_in {
                    Some(block) => {
                        let why =
                            format_args!("a signal stopped block {block}; the result has the blocks before");
                        print::failure(&why, Exit::Failed)
                    }
                    None => printed,
                }
            }
            Err(error @ ProfileError::Stopped) => print::failure(&error, Exit::Failed),
            Err(error) => print::failure(&error, Exit::CannotStart),
        }
    }

    /// Finds a number that is there twice: its runs would have one name.
    fn check_counts(&self) -> Result<(), String> {
        let (option, counts) =
            if self.nodes.is_empty() { ("--cores", &self.cores) } else { ("--nodes", &self.nodes) };
        let Some(index) = (1..counts.len()).find(|last| counts[..*last].contains(&counts[*last])) else {
            return Ok(());
        };
        let (text, count) = (counts.iter().map(u32::to_string).collect::<Vec<_>>().join(","), counts[index]);
        Err(format!("{option} {text}: {count} is there twice; give each number once, the base first"))
    }

    fn plan(self) -> ScalePlan {
        let load = self.server.load();
        let work = self.work.unwrap_or_else(|| if load.is_some() { "rate" } else { "work" }.to_owned());
        let (part, counts) = match self.nodes {
            none if none.is_empty() => (ScaledPart::Cpus, self.cores),
            nodes => (ScaledPart::Nodes, nodes),
        };
        ScalePlan {
            part,
            counts,
            repetitions: self.reps,
            command: own(self.command, "serve"),
            load,
            work,
            hz: self.hz,
            folder: self.folder,
            seed: self.seed,
        }
    }
}

/// A command of this binary gets the binary in front.
fn own(words: Vec<OsString>, name: &str) -> Vec<OsString> {
    if words.first().is_some_and(|word| word == name) {
        let binary = std::env::current_exe().map_or_else(|_| OsString::from("vermeil"), Into::into);
        return std::iter::once(binary).chain(words).collect();
    }
    words
}

/// A number of cpus in words.
fn cpus(count: u32) -> String {
    if count == 1 { "1 cpu".to_owned() } else { format!("{count} cpus") }
}

/// Says on standard error how a run went.
fn tell(run: &Repetition) {
    let failed: Vec<String> = run
        .gates
        .iter()
        .filter(|gate| !gate.holds)
        .map(|gate| format!("{}: {}", gate.name, gate.found))
        .collect();
    let gates = if failed.is_empty() { "gates hold".to_owned() } else { failed.join("; ") };
    print::failure(
        &format_args!("block {}, {}: {:.1} each second; {gates}", run.block, cpus(run.cpus), run.rate),
        Exit::Clean,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct ScaleLine {
        #[command(flatten)]
        scale: ScaleArgs,
    }

    fn checked(words: &[&str]) -> Result<(), String> {
        let words = [&["scale"], words, &["--", "true"]].concat();
        ScaleLine::try_parse_from(words).expect("the options parse").scale.check_counts()
    }

    /// One number alone is not compared here, but its recordings are compared with another run's.
    #[test]
    fn number_that_is_there_twice_is_refused() {
        for words in [&[][..], &["--cores", "2,1"], &["--cores", "4"], &["--nodes", "1"]] {
            assert_eq!(checked(words), Ok(()));
        }
        for (words, said) in [
            (["--cores", "1,1"], "--cores 1,1: 1 is there twice"),
            (["--nodes", "1,2,4,2"], "--nodes 1,2,4,2: 2 is there twice"),
        ] {
            let why = checked(&words).unwrap_err();
            assert!(why.starts_with(said) && why.contains("give "), "{why}");
        }
    }
}
