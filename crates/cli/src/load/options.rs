//! Groups of options of `vermeil load`: requests, time, quality, search, addresses.
//!
//! Defaults belong to the crate that applies the defaults; a test compares the copies here.

use crate::values::Span;
use clap::builder::RangedU64ValueParser;
use clap::{ArgAction, Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use vermeil_load::{
    LoadError, Quality, SearchOptions, SetChoice,
    agents::Fleet,
    pace::{Arrivals, Think},
};

/// The content and the protocol of requests.
#[derive(Debug, Args)]
pub(super) struct RequestArgs {
    /// A new connection for each request
    ///
    /// Not with --pipeline or --http2. Default: connections are kept; with WORKLOAD the workload
    /// decides.
    #[arg(long)]
    pub(super) no_keepalive: bool,

    /// Requests sent on a connection before the first answer arrives; with --http2 each on a stream
    /// of its own
    ///
    /// From 1 (no pipelining) to 1000. Not with WORKLOAD, --no-keepalive, --rate or --arrivals. If
    /// the server announces the end of a connection, later requests with idempotent methods are
    /// sent over another connection.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub(super) pipeline: usize,

    /// Use HTTP/2: negotiated in the handshake with https, from the first byte with http
    ///
    /// Not with WORKLOAD. Default: HTTP/1.1.
    #[arg(long)]
    pub(super) http2: bool,

    /// Accept every certificate of an https server
    ///
    /// Default: certificates are verified with the system's root certificates.
    #[arg(long)]
    pub(super) insecure: bool,

    /// Root certificates of https servers, in place of the system's: a PEM file
    ///
    /// Default: the system's.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(super) ca: Option<PathBuf>,

    /// Resume TLS sessions of earlier connections, if the server allows that
    ///
    /// The report counts full and resumed handshakes. Default: every connection makes a full
    /// handshake.
    #[arg(long)]
    pub(super) resume: bool,

    /// A header field of every request, such as "Accept: text/html"; may be repeated
    ///
    /// Default: only Host.
    #[arg(long, short = 'H', value_name = "FIELD", action = ArgAction::Append)]
    pub(super) header: Vec<String>,

    /// The method
    ///
    /// Not with FILE.log, which has methods. Default: GET, or POST with --body.
    #[arg(long, short = 'X', value_name = "METHOD")]
    pub(super) method: Option<String>,

    /// The content of every request; @FILE reads it from a file
    ///
    /// With FILE.log the content of the log's POST, PUT and PATCH requests. Default: none.
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(super) body: Option<String>,

    /// For an answer to arrive, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h, including the connect. Then the request has failed, and its connection is
    /// closed. Default: 10s; with WORKLOAD the workload's value (60s), for the next bytes to
    /// arrive.
    #[arg(long, value_name = "TIME")]
    pub(super) timeout: Option<Span>,
}

/// When requests begin, and for how long.
#[derive(Debug, Args)]
pub(super) struct TimeArgs {
    /// The part of the run that counts, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Default: 10s; with --requests, --arrivals or FILE.log until the last
    /// request; with steps the rest of the steps after the ramp-up and the warm-up.
    #[arg(long, short, value_name = "TIME")]
    pub(super) duration: Option<Span>,

    /// The number of requests after which the run ends; with WORKLOAD, pages
    ///
    /// From 1 to 18446744073709551615. Default: the run ends after --duration. With both, the
    /// earlier end applies.
    #[arg(long = "requests", short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) requests_max: Option<u64>,

    /// How long users think between an answer and the next request
    ///
    /// 5s, or exp:5s:75s (exponential: mean, longest), uniform:1s:3s, lognormal:5s:1.2 (median,
    /// sigma). Default: no think time; with WORKLOAD the workload decides.
    #[arg(long, value_name = "TIMES")]
    pub(super) think: Option<Think>,

    /// Open loop: requests arrive at this rate per second, independently of answers; with WORKLOAD,
    /// sessions arrive
    ///
    /// 1000 or poisson:1000 (independent arrivals), constant:1000, or steps:10s@100,10s@500.
    /// Default: closed loop.
    #[arg(long, value_name = "ARRIVALS")]
    pub(super) rate: Option<Arrivals>,

    /// Open loop with the arrivals of a file: a time in seconds on each line
    ///
    /// Default: closed loop.
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    pub(super) arrivals: Option<PathBuf>,

    /// Time compression: think times are divided by this factor, and download and replay rates are
    /// multiplied by this factor
    ///
    /// From 0.01 to 1000. The results of such a run are marked as compressed.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub(super) compress: f64,

    /// The time over which users start, evenly spread, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Nothing is counted. Default: all users start at once.
    #[arg(long, value_name = "TIME")]
    pub(super) ramp_up: Option<Span>,

    /// Before the part that counts, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Nothing is counted. Default: none.
    #[arg(long, value_name = "TIME")]
    pub(super) warm_up: Option<Span>,

    /// After the part that counts, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Users continue, and nothing is counted. Needs a run that --duration or the
    /// steps of --rate end. Default: none.
    #[arg(long, value_name = "TIME")]
    pub(super) ramp_down: Option<Span>,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.01..=1000.0).contains(factor));
    factor.ok_or_else(|| "write a number from 0.01 to 1000".to_owned())
}

/// The quality of service that users tolerate.
#[derive(Debug, Args)]
pub(super) struct QualityArgs {
    /// A good page takes no longer, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. All options of quality need WORKLOAD or --find-max. Default: 3s.
    #[arg(long, value_name = "TIME")]
    pub(super) good: Option<Span>,

    /// A tolerable page takes no longer, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Default: 5s.
    #[arg(long, value_name = "TIME")]
    pub(super) tolerable: Option<Span>,

    /// Share of pages that must be good
    ///
    /// Default: 95.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(super) good_share: Option<f64>,

    /// Share of pages that must be tolerable
    ///
    /// Default: 99.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(super) tolerable_share: Option<f64>,

    /// Share of failed pages that is too high
    ///
    /// Default: 0.5.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(super) failed_share: Option<f64>,

    /// Bytes per second of a good download
    ///
    /// From --tolerable-rate to 18446744073709551615. --compress multiplies the rate. Only with
    /// WORKLOAD. Default: 99000.
    #[arg(long, value_name = "N")]
    pub(super) good_rate: Option<u64>,

    /// Bytes per second of a tolerable download
    ///
    /// From 0 to --good-rate. --compress multiplies the rate. Only with WORKLOAD. Default: 95000.
    #[arg(long, value_name = "N")]
    pub(super) tolerable_rate: Option<u64>,
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "write a number from 0 to 100".to_owned())
}

impl QualityArgs {
    /// The options in the library's type.
    pub(super) fn quality(&self) -> Quality {
        let default = Quality::default();
        let share = |asked: Option<f64>, default: f64| asked.map_or(default, |percent| percent / 100.0);
        Quality {
            good: self.good.map_or(default.good, Duration::from),
            tolerable: self.tolerable.map_or(default.tolerable, Duration::from),
            good_share: share(self.good_share, default.good_share),
            tolerable_share: share(self.tolerable_share, default.tolerable_share),
            failed_share: share(self.failed_share, default.failed_share),
            good_rate: self.good_rate.unwrap_or(default.good_rate),
            tolerable_rate: self.tolerable_rate.unwrap_or(default.tolerable_rate),
            ..default
        }
    }

    /// The given options: first the options about times and shares, then the options about
    /// downloads.
    pub(super) fn given(&self) -> [(&'static str, bool); 7] {
        [
            ("--good", self.good.is_some()),
            ("--tolerable", self.tolerable.is_some()),
            ("--good-share", self.good_share.is_some()),
            ("--tolerable-share", self.tolerable_share.is_some()),
            ("--failed-share", self.failed_share.is_some()),
            ("--good-rate", self.good_rate.is_some()),
            ("--tolerable-rate", self.tolerable_rate.is_some()),
        ]
    }
}

/// The search for the most users.
#[derive(Debug, Args)]
pub(super) struct SearchArgs {
    /// Search the highest number of users that holds the quality of service, in runs with more and
    /// fewer users
    ///
    /// Each run has the phases of --ramp-up, --warm-up, --duration. Not with --connections, --rate,
    /// --arrivals, --requests. Default: one run.
    #[arg(long)]
    pub(super) find_max: bool,

    /// Users of the first run
    ///
    /// From 1 to --users-max. Default: 64, or --users-max if that is lower.
    #[arg(long, value_name = "N", requires = "find_max")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub(super) users_from: Option<usize>,

    /// Most users of a run
    ///
    /// From 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = SearchOptions::default().users_max, requires = "find_max")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub(super) users_max: usize,

    /// The largest difference between a number of users that holds the quality and a number that
    /// does not
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent, requires = "find_max")]
    pub(super) precision: f64,

    /// Runs that confirm the result
    ///
    /// From 0 to 100.
    #[arg(long, value_name = "N", default_value_t = SearchOptions::default().confirmations, requires = "find_max")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=100))]
    pub(super) confirm: u32,
}

impl SearchArgs {
    /// The options of the search, if a search was requested.
    pub(super) fn options(&self) -> Option<SearchOptions> {
        self.find_max.then(|| SearchOptions {
            from: self.users_from.unwrap_or(SearchOptions::default().from),
            users_max: self.users_max,
            precision: self.precision / 100.0,
            confirmations: self.confirm,
        })
    }
}

/// The agents that make the load.
#[derive(Debug, Args)]
pub(super) struct AgentsArgs {
    /// The agents that make the load, each a part: NAME:PORT, separated by commas
    ///
    /// Users and rates are divided among the agents. Not with --cores and --io, which each agent
    /// sets for itself. Default: this process makes the load.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) agents: Vec<String>,

    /// How long to wait for agents to start, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(Duration::from_secs(10)), requires = "agents")]
    pub(super) agents_wait: Span,
}

impl AgentsArgs {
    /// The agents, connected; `None` if the user asked for no agents.
    pub(super) fn fleet(&self) -> Result<Option<Fleet>, LoadError> {
        if self.agents.is_empty() {
            return Ok(None);
        }
        Fleet::connect(&self.agents, self.agents_wait.into()).map(Some)
    }
}

/// Where connections go.
#[derive(Debug, Args)]
pub(super) struct AddressArgs {
    /// A set of addresses that replaces the address of the URL: [NAME=]ADDR:PORT[,ADDR:PORT…]; may
    /// be repeated
    ///
    /// The addresses of a set are equivalent: those of an instance, a memory node, or a machine.
    /// The report has results for each set. Default: the URL's address.
    #[arg(long, value_name = "SET", action = ArgAction::Append)]
    pub(super) address: Vec<String>,

    /// How a set is chosen for a connection
    #[arg(long, value_name = "WHICH", default_value = "round-robin", requires = "address")]
    pub(super) choice: ChoiceArg,
}

/// How a set of addresses is chosen for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ChoiceArg {
    /// Each user always uses the same set
    Fixed,
    /// Connections use the sets in turn
    RoundRobin,
    /// The set with the fewest open requests of this injector
    LeastPending,
}

impl ChoiceArg {
    /// The choice in the library's type.
    pub(super) fn choice(self) -> SetChoice {
        match self {
            Self::Fixed => SetChoice::Fixed,
            Self::RoundRobin => SetChoice::RoundRobin,
            Self::LeastPending => SetChoice::LeastPending,
        }
    }
}
