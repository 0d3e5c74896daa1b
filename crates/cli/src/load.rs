//! `vermeil load`: its options. `resolve.rs` turns what was written into a plan, `live.rs` follows the run, `output.rs`
//! writes what came of it.
//!
//! Leaves out everything that loads. Tested in `load/tests.rs`, and with real servers in `tests/e2e/load.rs`.

mod live;
mod output;
mod resolve;

#[cfg(test)]
mod tests;

use crate::values::{Span, parse_cores};
use crate::{Exit, print};
use clap::builder::RangedU64ValueParser;
use clap::{ArgAction, Args, ValueEnum};
use output::OutputArgs;
use std::path::PathBuf;
use std::time::Duration;
use vermeil_load::pace::{Arrivals, Think};
use vermeil_topology::CoreSelection;

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &[
    "vermeil load http://127.0.0.1:8080/",
    "vermeil load http://127.0.0.1:8080/ -c 256 -d 30s --json run.json",
    "vermeil load http://127.0.0.1:8080/ -c 1000 --think exp:5s:75s --ramp-up 10s",
    "vermeil load http://127.0.0.1:8080/ --rate 20000 --header 'Accept-Encoding: gzip'",
];

/// Load a server, and say whether the answer can be trusted.
///
/// Sends requests to URL over many connections, each a user of its own, and reports rates, errors by kind and the distribution
/// of response times. Without more it is a closed loop without thinking, as wrk has it: a user asks again when it
/// has its answer. With --think users think between; with --rate requests arrive whether or not the server is done with
/// those before, and times count from when a request was to begin, so that a stall shows in every one it delayed.
///
/// The report says what the injector itself used. A run whose numbers are not the server's alone (the injector's cpu was the
/// limit, its timers were late, it ran out of ports, the network lost packets, the window was too short) is marked INVALID
/// with the reason, and the exit code is 5. Ctrl-C ends a run with the results so far.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES))]
pub(crate) struct LoadArgs {
    /// What to ask for; several URLs of one server are asked for in turn
    ///
    /// Default: none, one is needed.
    #[arg(value_name = "URL", required = true)]
    what: Vec<String>,

    /// Connections, each a user with one request under way
    ///
    /// From 1 to 1000000. With --rate: the most requests under way; what arrives beyond waits, and its waiting counts.
    #[arg(long, short, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    connections: usize,

    /// Which cpus to run on: all, a number of them, or a list
    ///
    /// As for `vermeil serve`. A server on the same cpus is slowed down by the injector; give each its own.
    #[arg(long, value_name = "LIST|N|all", default_value_t = CoreSelection::All, value_parser = parse_cores)]
    cores: CoreSelection,

    /// How the kernel is asked for input and output
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    io: Io,

    /// What random numbers are drawn from; the same seed gives the same users and arrivals
    ///
    /// From 0 to 18446744073709551615.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten, next_help_heading = "Requests")]
    requests: RequestArgs,

    #[command(flatten, next_help_heading = "Time")]
    time: TimeArgs,

    #[command(flatten, next_help_heading = "Addresses")]
    addresses: AddressArgs,

    #[command(flatten, next_help_heading = "Results")]
    output: OutputArgs,
}

/// What is asked for, and how.
#[derive(Debug, Args)]
struct RequestArgs {
    /// A new connection for each request
    ///
    /// Default: connections are kept.
    #[arg(long)]
    no_keepalive: bool,

    /// Requests sent on a connection before the first answer is waited for
    ///
    /// From 1 (no pipelining) to 1000.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pipeline: usize,

    /// A header field of every request, such as "Accept: text/html"; may be repeated
    ///
    /// Default: only Host.
    #[arg(long, short = 'H', value_name = "FIELD", action = ArgAction::Append)]
    header: Vec<String>,

    /// The method
    ///
    /// Default: GET, or POST with --body.
    #[arg(long, short = 'X', value_name = "METHOD")]
    method: Option<String>,

    /// The content of every request; @FILE reads it from a file
    ///
    /// Default: none.
    #[arg(long, value_name = "TEXT|@FILE")]
    body: Option<String>,

    /// For an answer to come, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h, connecting included. Then the request has failed, and its connection is closed.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(Duration::from_secs(10)))]
    timeout: Span,
}

/// When requests begin, and for how long.
#[derive(Debug, Args)]
struct TimeArgs {
    /// The part of the run that counts, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Default: 10s; with --requests, until they are done.
    #[arg(long, short, value_name = "TIME")]
    duration: Option<Span>,

    /// End after so many requests
    ///
    /// From 1 to 18446744073709551615. Default: end after --duration. With both, whatever comes first.
    #[arg(long = "requests", short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests_max: Option<u64>,

    /// How long users think between an answer and the next request
    ///
    /// 5s, or exp:5s:75s (exponential: mean, longest), uniform:1s:3s, lognormal:5s:1.2 (median, sigma). Default: not at all.
    #[arg(long, value_name = "TIMES", conflicts_with = "rate")]
    think: Option<Think>,

    /// Open loop: requests arrive by themselves, so many a second
    ///
    /// 1000 or poisson:1000 (independently of each other), constant:1000, or steps:10s@100,10s@500. Default: closed loop.
    #[arg(long, value_name = "ARRIVALS")]
    rate: Option<Arrivals>,

    /// Open loop with the arrivals of a file: a time in seconds on each line
    ///
    /// Default: closed loop.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "think"])]
    arrivals: Option<PathBuf>,

    /// For users to begin, evenly, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Nothing is counted. Default: all at once.
    #[arg(long, value_name = "TIME")]
    ramp_up: Option<Span>,

    /// Before the part that counts, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Nothing is counted. Default: none.
    #[arg(long, value_name = "TIME")]
    warm_up: Option<Span>,

    /// After the part that counts, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Users go on, and nothing is counted. Default: none.
    #[arg(long, value_name = "TIME")]
    ramp_down: Option<Span>,
}

/// Where connections go.
#[derive(Debug, Args)]
struct AddressArgs {
    /// A set of addresses to connect to instead of the URL's: [NAME=]ADDR:PORT[,ADDR:PORT…]; may be repeated
    ///
    /// Each set is what serves alike: an instance, a memory node, a machine. Results are told per set. Default: the
    /// URL's.
    #[arg(long, value_name = "SET", action = ArgAction::Append)]
    address: Vec<String>,

    /// How a connection finds its set
    #[arg(long, value_name = "WHICH", default_value = "round-robin")]
    choice: ChoiceArg,
}

/// The I/O driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Io {
    /// io_uring where all of it that is needed works, else epoll
    Auto,
    /// io_uring, or refuse to start
    Uring,
    /// epoll, which works everywhere
    Epoll,
}

/// How a connection finds its set of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ChoiceArg {
    /// A user keeps to one set
    Fixed,
    /// Connections take turns
    RoundRobin,
    /// The set with the fewest requests of this injector under way
    LeastPending,
}

impl LoadArgs {
    /// Loads.
    pub(crate) fn run(self) -> Exit {
        let (plan, subject) = match self.resolve() {
            Ok(resolved) => resolved,
            Err(error) => return print::failure(&error, error.exit()),
        };
        let mut live = live::Live::new(&self.output);
        match vermeil_load::run_simple(&plan, &mut live) {
            Ok(outcome) => {
                live.end();
                let doubts = vermeil_load::Gates::default().judge(&outcome);
                output::write(&self.output, &vermeil_load::report::Record::new(subject, &outcome, &doubts))
            }
            Err(error) => print::failure(&error, Exit::CannotStart),
        }
    }
}
