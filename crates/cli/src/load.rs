//! `vermeil load`: the options. `resolve.rs` turns the arguments into a job, `live.rs` follows the
//! run, `output.rs` writes the results; `agent.rs`, `files.rs` and `backend.rs` are the additional
//! commands.
//!
//! Leaves out the load itself. Tested in `load/tests.rs`, and with real servers in
//! `tests/e2e/load.rs`.

mod agent;
mod backend;
mod conflicts;
mod files;
mod live;
mod options;
mod output;
mod resolve;

#[cfg(test)]
mod tests;

use crate::values::parse_cores;
use crate::{Exit, print};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use options::{AddressArgs, AgentsArgs, QualityArgs, RequestArgs, SearchArgs, TimeArgs};
use output::OutputArgs;
use vermeil_load::LoadInjector;
use vermeil_topology::CoreSelection;

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &[
    "vermeil load http://127.0.0.1:8080/",
    "vermeil load http://127.0.0.1:8080/ -c 256 -d 30s --json run.json",
    "vermeil load http://127.0.0.1:8080/ -c 1000 --think exp:5s:75s --ramp-up 10s",
    "vermeil load http://127.0.0.1:8080/ --rate 20000 --header 'Accept-Encoding: gzip'",
    "vermeil load files support --scale 100 --max-bytes 2G --static /srv/www",
    "vermeil load support http://127.0.0.1:8080/ -c 100 --ramp-up 10s --warm-up 60s -d 120s",
    "vermeil load support http://127.0.0.1:8080/ --find-max --compress 10",
    "vermeil load https://www.example.org/ --http2 --pipeline 10 --agents load1:8088,load2:8088",
];

/// Load a server, and report whether the result can be trusted.
///
/// Sends requests to URL over many connections, each a user of its own, and reports rates, errors
/// by kind and the distribution of response times. By default the load is a closed loop without
/// think time, as in wrk: a user sends the next request when the answer arrives. With --think users
/// think between requests. With --rate requests arrive independently of answers, and response times
/// count from the planned start of a request, so a stall shows in every delayed request.
///
/// With WORKLOAD users have sessions: `support` (pages, their images, think times, paced downloads;
/// the parameters published for SPECweb2005 Support), `specweb96` and `webstone` (files of the size
/// classes of these benchmarks), `single` (the path of URL, with a connection for each request),
/// FILE.toml (your own table), or FILE.log (an access log, replayed). `vermeil load files` writes
/// the requested files. --find-max searches the highest number of users that holds the quality of
/// service. The exit code is 6 if the quality of a workload is not held, or if a run passes a
/// threshold of --fail-if.
///
/// The report includes the resources that the injector used. A run is marked INVALID with the
/// reason, and the exit code is 5, if something other than the server limited the result: the
/// injector's cpu was the limit, its timers were late, ports ran out, the network lost packets, the
/// window was too short, or a part of the run failed. A small run with --requests ends with 0 if
/// every request was answered. Ctrl-C ends a run with the results so far. With --agents `vermeil
/// load agent` makes the load on other machines, and the results are added up.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES))]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(
    override_usage = "vermeil load [OPTIONS] [WORKLOAD] URL…\n       vermeil load agent|files|backend|report …"
)]
pub(crate) struct LoadArgs {
    #[command(subcommand)]
    beside: Option<LoadSubcommand>,

    /// The workload, if users do more than request URLs in turn; then the URL of the server
    ///
    /// WORKLOAD is support, specweb96, webstone, single, FILE.toml or FILE.log. Default: none, one
    /// URL is needed.
    #[arg(value_name = "WORKLOAD|URL", required = true)]
    what: Vec<String>,

    /// Users; without WORKLOAD, connections with one open request each
    ///
    /// From 1 to 1000000. With --rate: the most open sessions or requests. Further arrivals wait,
    /// and the waiting time counts. Not with --find-max. Default: 64.
    #[arg(long, short, value_name = "N")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    connections: Option<usize>,

    /// The cpus to run on: all, a number, or a list
    ///
    /// As for `vermeil serve`. The injector slows down a server on the same cpus, so give each its
    /// own cpus. Not with --agents. Default: all.
    #[arg(long, value_name = "LIST|N|all", value_parser = parse_cores)]
    cores: Option<CoreSelection>,

    /// The kernel interface for input and output
    ///
    /// Not with --agents. Default: auto.
    #[arg(long, value_name = "DRIVER")]
    io: Option<LoadIo>,

    /// The seed of all random numbers; the same seed gives the same users and arrivals
    ///
    /// From 0 to 18446744073709551615.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten, next_help_heading = "Requests")]
    requests: RequestArgs,

    #[command(flatten, next_help_heading = "Time")]
    time: TimeArgs,

    #[command(flatten, next_help_heading = "Quality of service")]
    quality: QualityArgs,

    #[command(flatten, next_help_heading = "Search")]
    search: SearchArgs,

    #[command(flatten, next_help_heading = "Addresses")]
    addresses: AddressArgs,

    #[command(flatten, next_help_heading = "Agents")]
    agents: AgentsArgs,

    #[command(flatten, next_help_heading = "Results")]
    output: OutputArgs,
}

/// The commands beside loading.
#[derive(Debug, Subcommand)]
enum LoadSubcommand {
    Agent(agent::AgentArgs),
    Files(files::FilesArgs),
    Backend(backend::BackendArgs),
    Report(output::ReportArgs),
}

/// The I/O driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoadIo {
    /// io_uring if every needed operation works, else epoll
    Auto,
    /// io_uring, or refuse to start
    Uring,
    /// epoll, which works everywhere
    Epoll,
}

impl LoadIo {
    fn choice(self) -> vermeil_io::IoChoice {
        match self {
            Self::Auto => vermeil_io::IoChoice::Auto,
            Self::Uring => vermeil_io::IoChoice::Uring,
            Self::Epoll => vermeil_io::IoChoice::Epoll,
        }
    }
}

impl LoadArgs {
    /// Runs the load, or the additional command.
    pub(crate) fn run(self) -> Exit {
        match self.beside {
            Some(LoadSubcommand::Agent(args)) => return args.run(),
            Some(LoadSubcommand::Files(args)) => return args.run(),
            Some(LoadSubcommand::Backend(args)) => return args.run(),
            Some(LoadSubcommand::Report(args)) => return args.run(),
            None => {}
        }
        let (job, subject) = match self.resolve() {
            Ok(resolved) => resolved,
            Err(error) => return print::failure(&error, error.exit()),
        };
        if let Err((why, exit)) = self.output.check() {
            return print::failure(&why, exit);
        }
        let mut live = live::LiveView::new(&self.output);
        let mut fleet = match self.agents.fleet() {
            Ok(fleet) => fleet,
            Err(error) => return print::failure(&error, resolve::exit_of(&error)),
        };
        live.begin();
        let who = fleet.as_mut().map_or(LoadInjector::Here, LoadInjector::Agents);
        let result = match self.search.options() {
            Some(options) => job.find_max(&subject, options, who, &mut live),
            None => job.run(&subject, who, &mut live),
        };
        live.end();
        match result {
            Ok(record) => output::write(&self.output, record),
            Err(error) => print::failure(&error, resolve::exit_of(&error)),
        }
    }
}
