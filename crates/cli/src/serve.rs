//! `vermeil serve`: the options. `limits.rs` has the bounds, `resolve.rs` turns the arguments into
//! the server's options.
//!
//! Leaves out serving. Tested in `serve/tests.rs`.

mod cgi;
mod limits;
mod php;
mod resolve;

#[cfg(test)]
mod tests;

use crate::usage::UsageError;
use crate::values::{Listen, parse_cores};
use crate::{Exit, print};
use cgi::CgiArgs;
use clap::{Arg, ArgAction, Args, Command, Id, ValueEnum, ValueHint};
use limits::{CacheArgs, LimitArgs, TimeoutArgs};
use php::PhpArgs;
use std::path::PathBuf;
use vermeil_server::config::{self, Given, Surroundings};
use vermeil_server::control::ControlTarget;
use vermeil_server::files::TypeOf;
use vermeil_server::log::LogTarget;
use vermeil_server::supervise::{Assigned, Program, supervise};
use vermeil_server::{Ended, ServeError, ServeOptions, TakeOver, User};
use vermeil_topology::{CoreSelection, InstanceSelection};

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &[
    "vermeil serve",
    "vermeil serve /srv/www --listen :80 --log /var/log/vermeil.log",
    "vermeil serve /srv/www --php",
    "vermeil serve --config /etc/vermeil/vermeil.toml",
    "vermeil serve --config /etc/vermeil/vermeil.toml --take-over",
    "vermeil serve site --listen 127.0.0.1:8080 --listen '[::1]:8080' --cores 4",
];

/// Serve a folder.
///
/// Serves the files below DIR over HTTP/1.1 until SIGTERM or SIGINT: then it stops accepting, finishes the requests it
/// has, and ends; a second signal ends it at once. SIGHUP and SIGUSR1 open the log file anew.
///
/// Nothing outside DIR can be reached. Names that begin with a dot are not served, except `.well-known`. Next to
/// `page.html`, the siblings `page.html.br`, `page.html.zst` and `page.html.gz` are sent instead to clients that accept
/// them. A folder answers with its `index.html`, or with a listing; `404.html` in DIR is the page for what is not found.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES))]
pub(crate) struct ServeArgs {
    /// The folder to serve
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    root: PathBuf,

    /// Take everything from a configuration file, and nothing from the command line
    ///
    /// Its keys are in docs/configuration.md; `vermeil check` reads it without serving. Default: no file; DIR is served as
    /// the other options say.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,

    /// Take over from the server that runs, without losing a connection: to upgrade it, or to change its cores
    ///
    /// Its listening sockets are taken over its control socket: the one at CONTROL; by default where this server is to have its
    /// own, else that of the only server of this user. Once this server serves, the other finishes its requests and ends; if this
    /// one cannot start, the other goes on. If none runs, this one starts as always. Default: addresses that another server has
    /// are refused.
    #[arg(long, value_name = "CONTROL", num_args = 0..=1, require_equals = true)]
    #[arg(value_hint = ValueHint::FilePath)]
    take_over: Option<Option<PathBuf>>,

    /// Where to listen; may be given several times
    ///
    /// PORT is a port of 127.0.0.1, :PORT a port of all interfaces (IPv4 and IPv6); ADDRESS:PORT, [IPV6]:PORT and
    /// NAME:PORT are what they say. Port 0 takes any free port. Only processes of this machine reach the default.
    /// unix:PATH is a unix socket that all users of the machine may open, for a proxy on the same machine.
    #[arg(long, short, value_name = "ADDR", default_values_t = [Listen::DEFAULT], action = ArgAction::Append)]
    listen: Vec<Listen>,

    /// Which cpus to run on: all, a number of them, or a list
    ///
    /// One event loop is pinned to each. `all` is every cpu this process may use (affinity, cpuset), and no more than
    /// a container's cpu limit pays for. A number takes that many, whole cores first, near ones together. A list
    /// names them, such as 0-3,8 or 0-7,^3; one cpu alone is written 3-3. `vermeil topo --cores` shows the choice.
    #[arg(long, value_name = "LIST|N|all", default_value_t = CoreSelection::All, value_parser = parse_cores)]
    cores: CoreSelection,

    /// Into how many processes to divide the server: per-node, one, or a number
    ///
    /// `per-node` is one for each memory node that has cores of the server. With more than one, a small supervisor starts
    /// them, each with its own cores, memory of its own nodes, its own caches and PHP pool, and starts one that ends again.
    /// Bounds are each one's. `vermeil topo` shows them.
    #[arg(long, value_name = "per-node|N|one", default_value_t = InstanceSelection::PerNode)]
    instances: InstanceSelection,

    /// How new connections find their cores
    #[arg(long, value_name = "MODE", default_value = "auto")]
    balance: BalanceChoice,

    /// How the kernel is asked for input and output
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    io: Io,

    /// Whether cores poll their network card while they have much to do
    ///
    /// Instead of waiting for an interrupt, from 1,000 requests a second on a core on, and until they are fewer than 250 for
    /// a second. Only where a core's connections come by one queue of a card (`vermeil steer`). Takes Linux 6.9.
    #[arg(long, value_name = "WHEN", default_value = "off")]
    busy_poll: BusyPollChoice,

    /// Where the access log goes: - (standard output), a file, or off
    ///
    /// Combined log format, times in UTC. A file is appended to, created with mode 0640, and opened anew on SIGHUP,
    /// SIGUSR1, or when it was renamed. Serving never waits for the log: records that cannot be written in time are dropped,
    /// counted, and reported on standard error.
    #[arg(long, value_name = "-|FILE|off", default_value_t = LogTarget::Stdout)]
    #[arg(value_hint = ValueHint::FilePath)]
    log: LogTarget,

    /// Where the control socket is, by which status and reload reach the server: a path, or off
    ///
    /// Only the user that starts the server can open it, and the superuser. Default: a private folder of this user,
    /// $XDG_RUNTIME_DIR/vermeil, /run/vermeil or /tmp/vermeil-UID, where `vermeil status` finds it by itself.
    #[arg(long, value_name = "PATH|off", value_hint = ValueHint::FilePath)]
    control: Option<ControlTarget>,

    /// Where HAProxy's agent checks are answered, as for --listen
    ///
    /// Says how much of its weight a balancer should give this server, by how much it has to do, and that it is about to
    /// end. Default: nowhere.
    #[arg(long, value_name = "ADDR")]
    agent: Option<Listen>,

    /// Leave a recording of each core's last events in this file when the server ends, for `vermeil sim`
    ///
    /// At most 65,536 of each core, with times and what posted them, never what clients sent: docs/simulator.md says what
    /// can be asked of it. Every event is timed meanwhile. Takes one instance. Default: nothing is recorded.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    trace: Option<PathBuf>,

    /// The user, or USER:GROUP, to become once ports are bound, and the log and the control socket are opened
    ///
    /// For a server that the superuser starts. All its processes give up the superuser's rights; only the one that starts
    /// programs keeps them, if programs run as other users. The log's file is given to this user. Default: the
    /// user that starts the server, with a warning if that is the superuser.
    #[arg(long, value_name = "USER[:GROUP]", value_hint = ValueHint::Username)]
    user: Option<User>,

    /// Answer 403 for a folder without index.html instead of listing it
    ///
    /// Default: folders are listed.
    #[arg(long, help_heading = "Files")]
    no_listing: bool,

    /// Which symbolic links below DIR are followed
    #[arg(long, value_name = "WHICH", default_value = "within", help_heading = "Files")]
    follow_symlinks: FollowSymlinks,

    /// The media type of files with an extension, such as ts=text/x-typescript
    ///
    /// May be given several times. Comes before the known types; text without a charset is said to be UTF-8. Default: none.
    #[arg(long = "type", value_name = "EXTENSION=TYPE", help_heading = "Files")]
    types: Vec<TypeOf>,

    #[command(flatten, next_help_heading = "Cache")]
    cache: CacheArgs,

    #[command(flatten, next_help_heading = "PHP")]
    php: PhpArgs,

    #[command(flatten, next_help_heading = "CGI")]
    cgi: CgiArgs,

    #[command(flatten, next_help_heading = "Limits")]
    limits: LimitArgs,

    #[command(flatten, next_help_heading = "Timeouts")]
    timeouts: TimeoutArgs,
}

/// How new connections find their cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BalanceChoice {
    /// The first of load-aware, local and hash that a self-test at start shows to work here
    Auto,
    /// The core that handles the packets; neighbours relieve a core that is stuck
    Local,
    /// As local, unless much more work waits there than elsewhere; takes CAP_BPF
    LoadAware,
    /// The kernel's choice by addresses, for comparison
    Hash,
    /// One core for all connections of an address, for comparison; takes CAP_BPF
    Fixed,
    /// One core after the other, for comparison; takes CAP_BPF
    RoundRobin,
}

/// The I/O driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Io {
    /// io_uring where all of it that is needed works, else epoll; the start says which and why
    Auto,
    /// io_uring, or refuse to start
    Uring,
    /// epoll, which works everywhere
    Epoll,
}

/// Whether cores poll their network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BusyPollChoice {
    /// Never
    Off,
    /// While they have much to do
    Load,
}

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FollowSymlinks {
    /// Relative ones that stay below DIR at every step
    Within,
    /// All of them, wherever they lead: whoever can make a link in DIR can publish any file the server may read
    All,
    /// None
    None,
}

/// Refuses every option beside a configuration file, except options that no configuration has.
pub(crate) fn with_conflicts(serve: Command) -> Command {
    let stays = ["config", "take_over", "help"];
    let others = serve.get_arguments().map(Arg::get_id).filter(|id| !stays.contains(&id.as_str()));
    let others: Vec<Id> = others.cloned().collect();
    serve.mut_arg("config", |config| config.conflicts_with_all(others))
}

impl ServeArgs {
    /// The server's options, and the text of the configuration if there is a file.
    fn options(self, around: &Surroundings) -> Result<(ServeOptions, Option<String>), UsageError> {
        match &self.config {
            Some(file) => {
                let text = config::text_of(file)?;
                Ok((config::take(file, &text, around)?, Some(text)))
            }
            None => Ok((self.resolve(around)?, None)),
        }
    }

    /// Serves until told to stop.
    pub(crate) fn run(self) -> Exit {
        let take_over = self.take_over();
        let options = Surroundings::here().map_err(UsageError::from).and_then(|around| self.options(&around));
        match options.map(|(options, text)| (ServeOptions { take_over, ..options }, text)) {
            Ok((options, _)) if options.instances.len() == 1 => ended(vermeil_server::serve(options)),
            Ok((options, text)) => {
                let arguments = std::env::args_os().skip(1).collect();
                ended(supervise(options, Program { arguments, text }))
            }
            Err(error) => print::failure(&error, error.exit()),
        }
    }

    /// The options that exist only on the command line, even with a configuration file.
    fn take_over(&self) -> TakeOver {
        match &self.take_over {
            None => TakeOver::Never,
            Some(None) => TakeOver::SameControl,
            Some(Some(path)) => TakeOver::At(path.clone()),
        }
    }

    /// Serves as one of several instances.
    pub(crate) fn run_assigned(self, assigned: Assigned) -> Exit {
        match self.options_assigned(&assigned) {
            Ok(options) => ended(vermeil_server::serve_assigned(options, assigned)),
            Err(error) => print::failure(&error, error.exit()),
        }
    }

    fn options_assigned(self, assigned: &Assigned) -> Result<ServeOptions, UsageError> {
        let around = Surroundings {
            given: Given::Instances(vec![assigned.instance().clone()]),
            ..Surroundings::here()?
        };
        match (&self.config, assigned.text()) {
            (Some(file), Some(text)) => Ok(config::take(file, text, &around)?),
            _ => self.resolve(&around),
        }
    }
}

fn ended(ended: Result<Ended, ServeError>) -> Exit {
    match ended {
        Ok(Ended::Clean) => Exit::Clean,
        Ok(Ended::Cut(_)) => Exit::Cut,
        Err(error) => print::failure(&error, Exit::CannotStart),
    }
}
