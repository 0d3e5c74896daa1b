//! `vermeil serve`: the options. `limits.rs` has the bounds, `resolve.rs` turns the arguments into
//! the server's options.
//!
//! Leaves out serving. Tested in `serve/tests.rs`.

mod cgi;
mod limits;
mod php;
mod programs;
mod resolve;
mod tls;

#[cfg(test)]
mod tests;

use crate::usage::UsageError;
use crate::values::{Listen, parse_cores};
use crate::{Exit, print};
use cgi::CgiArgs;
use clap::{Arg, ArgAction, ArgGroup, Args, Command, Id, ValueEnum, ValueHint};
use limits::{CacheArgs, LimitArgs, TimeoutArgs};
use php::PhpArgs;
use programs::ProgramsArgs;
use std::path::{Path, PathBuf};
use tls::TlsArgs;
use vermeil_config::{CgiSettings, ConfigText, GivenParts, ServeOptions, Surroundings, keep_what_is_fixed};
use vermeil_files::TypeOf;
use vermeil_log::{LogTarget, operator_log::log_line};
use vermeil_server::{Assigned, InstanceProgram, ServeError, ServerEnded, supervise};
use vermeil_settings::{ControlTarget, TakeOver, User};
use vermeil_topology::{CoreSelection, InstanceSelection};

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &[
    "vermeil serve",
    "vermeil serve /srv/www --listen :80 --log /var/log/vermeil.log",
    "vermeil serve /srv/www --tls-certificate fullchain.pem --tls-key privkey.pem --listen-tls :443",
    "vermeil serve /srv/www --php",
    "vermeil serve --config /etc/vermeil/vermeil.toml",
    "vermeil serve --config /etc/vermeil/vermeil.toml --take-over",
    "vermeil serve site --listen 127.0.0.1:8080 --listen '[::1]:8080' --cores 4",
];

/// Serve a folder.
///
/// Serves the files below DIR over HTTP/1.1 until SIGTERM or SIGINT. Then the server stops
/// accepting, finishes the open requests and ends. A second signal ends the server at once. SIGHUP
/// and SIGUSR1 reopen the log file.
///
/// Clients cannot reach files outside DIR. Names that begin with a dot are not served, except
/// `.well-known`. Next to `page.html`, the siblings `page.html.br`, `page.html.zst` and
/// `page.html.gz` are sent instead to clients that accept the encoding. A folder answers with its
/// `index.html`, or with a listing. `404.html` in DIR is the page for missing files.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES))]
#[command(group = ArgGroup::new("programs").args(["php", "cgi"]).multiple(true))]
pub(crate) struct ServeArgs {
    /// The folder to serve
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    root: PathBuf,

    /// Read all settings from a configuration file, none from the command line
    ///
    /// The keys are in docs/configuration.md. `vermeil check` reads the file without serving.
    /// Default: no file; the other options apply to DIR.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,

    /// Replace the running server without losing a connection: for an upgrade, or to change the
    /// cores
    ///
    /// The new server gets the listening sockets over the control socket of the old server: the
    /// socket at CONTROL, by default the path where the new server will have its own control
    /// socket, else the socket of the only server of this user. When the new server serves, the old
    /// server finishes its requests and ends. If the new server cannot start, the old server goes
    /// on. Without a running server, this is a normal start. Default: an address in use by another
    /// server is an error.
    #[arg(long, value_name = "CONTROL", num_args = 0..=1, require_equals = true)]
    #[arg(value_hint = ValueHint::FilePath)]
    take_over: Option<Option<PathBuf>>,

    /// Where to listen; may be given several times
    ///
    /// PORT is a port of 127.0.0.1, :PORT a port of all interfaces (IPv4 and IPv6). ADDRESS:PORT,
    /// [IPV6]:PORT and NAME:PORT name an address. Port 0 takes any free port. Only processes of
    /// this machine can reach the default. unix:PATH is a unix
    /// socket that all users of the machine may open, for a proxy on the same machine.
    #[arg(long, short, value_name = "ADDR", default_values_t = [Listen::DEFAULT], action = ArgAction::Append)]
    listen: Vec<Listen>,

    /// The cpus to run on: all, a number, or a list
    ///
    /// Each cpu has one event loop, pinned to the cpu. `all` is every cpu that this process may use
    /// (affinity, cpuset), limited to the cpu quota of the container. A number takes that many
    /// cpus, whole cores first, near cores together. A list names cpus, for example 0-3,8 or
    /// 0-7,^3; write a single cpu as 3-3. `vermeil topo --cores` shows the choice.
    #[arg(long, value_name = "LIST|N|all", default_value_t = CoreSelection::All, value_parser = parse_cores)]
    cores: CoreSelection,

    /// The number of server processes (instances): per-node, one, or a number
    ///
    /// `per-node` is one process for each memory node that has cores of the server. If there is
    /// more than one process, a small supervisor starts the processes, and restarts a process that
    /// ends. Each process has its own cores, memory of its own nodes, its own caches and its own
    /// PHP pool. Bounds apply to each process. `vermeil topo` shows the processes.
    #[arg(long, value_name = "per-node|N|one", default_value_t = InstanceSelection::PerNode)]
    instances: InstanceSelection,

    /// How new connections are assigned to cores
    #[arg(long, value_name = "MODE", default_value = "auto")]
    balance: BalanceChoice,

    /// Whether a core takes connections from a core with more work
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    policy: PolicyChoice,

    /// The kernel interface for input and output
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    io: ServeIo,

    /// Whether busy cores poll their network card
    ///
    /// A core polls instead of waiting for an interrupt from 1,000 requests a second on, until the
    /// core has fewer than 250 for a second. A core polls only if its connections come from a
    /// single queue of a card (`vermeil steer`). Needs Linux 6.9.
    #[arg(long, value_name = "WHEN", default_value = "off")]
    busy_poll: BusyPollChoice,

    /// Where the access log goes: - (standard output), a file, syslog, journald, or off
    ///
    /// Combined log format, times in UTC. A file is appended to, created with mode 0640, and
    /// reopened on SIGHUP, SIGUSR1, or after a rename. Serving never waits for the log: records
    /// that cannot be written in time are dropped, counted, and reported on standard error.
    #[arg(long, value_name = "-|FILE|syslog|journald|off", default_value_t = LogTarget::Stdout)]
    #[arg(value_hint = ValueHint::FilePath)]
    log: LogTarget,

    /// The control socket, for `vermeil status` and `vermeil reload`: a path, or off
    ///
    /// Only the user that starts the server and the superuser can open the socket. Default: a
    /// private folder of this user, $XDG_RUNTIME_DIR/vermeil, /run/vermeil or /tmp/vermeil-UID,
    /// where `vermeil status` finds the socket without an option.
    #[arg(long, value_name = "PATH|off", value_hint = ValueHint::FilePath)]
    control: Option<ControlTarget>,

    /// The address that answers HAProxy's agent checks, written as for --listen
    ///
    /// The answer is the share of its weight that the balancer should give this server, computed
    /// from the load, and says when the server is about to end. Default: nowhere.
    #[arg(long, value_name = "ADDR")]
    agent: Option<Listen>,

    /// Write the last events of each core to this file when the server ends, for `vermeil sim`
    ///
    /// At most 65,536 events of each core, with times and the event that posted each; never the
    /// data of clients. docs/simulator.md lists the questions that a trace answers. The server
    /// times every event while the option is on. Takes one instance. Default: nothing is recorded.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    trace: Option<PathBuf>,

    /// The user, or USER:GROUP, to switch to after binding ports and opening the log and the
    /// control socket
    ///
    /// For a server that the superuser starts. All processes of the server give up the superuser's
    /// rights; only the process that starts programs keeps them, if programs run as other users.
    /// The log file is given to this user. Default: the user that starts the server, with a warning
    /// if that is the superuser.
    #[arg(long, value_name = "USER[:GROUP]", value_hint = ValueHint::Username)]
    user: Option<User>,

    /// Answer 403 for a folder without index.html instead of listing it
    ///
    /// Default: folders are listed.
    #[arg(long, help_heading = "Files")]
    no_listing: bool,

    /// The symbolic links below DIR that are followed
    #[arg(long, value_name = "WHICH", default_value = "within", help_heading = "Files")]
    follow_symlinks: FollowSymlinksChoice,

    /// The media type of files with an extension, such as ts=text/x-typescript
    ///
    /// May be given several times. Takes precedence over the built-in types. Text without a charset
    /// is declared as UTF-8. Default: none.
    #[arg(long = "type", value_name = "EXTENSION=TYPE", help_heading = "Files")]
    types: Vec<TypeOf>,

    #[command(flatten, next_help_heading = "Cache")]
    cache: CacheArgs,

    #[command(flatten, next_help_heading = "HTTPS")]
    tls: TlsArgs,

    #[command(flatten, next_help_heading = "PHP")]
    php: PhpArgs,

    #[command(flatten, next_help_heading = "CGI")]
    cgi: CgiArgs,

    #[command(flatten, next_help_heading = "Programs")]
    programs: ProgramsArgs,

    #[command(flatten, next_help_heading = "Limits")]
    limits: LimitArgs,

    #[command(flatten, next_help_heading = "Timeouts")]
    timeouts: TimeoutArgs,
}

/// How new connections are assigned to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BalanceChoice {
    /// The first of load-aware, local and hash that passes a self-test at start
    Auto,
    /// The core that handles the packets; neighbours relieve a core that is stuck
    Local,
    /// As local, unless that core has much more waiting work than others; needs CAP_BPF
    LoadAware,
    /// The kernel's choice by addresses, for comparison
    Hash,
    /// One core for all connections of a client address, for comparison; needs CAP_BPF
    Fixed,
    /// The cores in turn, for comparison; needs CAP_BPF
    RoundRobin,
}

/// The I/O driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServeIo {
    /// io_uring if every needed operation works, else epoll; the start message says which and why
    Auto,
    /// io_uring, or refuse to start
    Uring,
    /// epoll, which works everywhere
    Epoll,
}

/// Whether cores take connections from cores with more work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PolicyChoice {
    /// If the other core has much more work, measured over 10 ms
    Adaptive,
    /// As adaptive, within a memory node
    PerNode,
    /// Never; a connection stays on its core
    None,
    /// As Libasync-SMP, for comparison
    Libasync,
    /// As Mely, for comparison
    Mely,
    /// At every request, for tests
    Scatter,
}

/// Whether cores poll their network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BusyPollChoice {
    /// Never
    Off,
    /// While the core is busy
    Load,
}

/// The symbolic links that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FollowSymlinksChoice {
    /// Relative links that stay below DIR at every step
    Within,
    /// All links; a user that can create a link in DIR can publish every file that the server may
    /// read
    All,
    /// None
    None,
}

/// Refuses every option beside a configuration file, except options that no configuration has.
pub(crate) fn with_conflicts(serve: Command) -> Command {
    let stays = ["config", "take_over", "trace", "help"];
    let others = serve.get_arguments().map(Arg::get_id).filter(|id| !stays.contains(&id.as_str()));
    let others: Vec<Id> = others.cloned().collect();
    serve.mut_arg("config", |config| config.conflicts_with_all(others))
}

impl ServeArgs {
    /// The server's options, and the text of the configuration if there is a file.
    fn options(self, around: &Surroundings) -> Result<(ServeOptions, Option<ConfigText>), UsageError> {
        match &self.config {
            Some(file) => {
                let text = vermeil_config::text_of(file)?;
                let options = vermeil_config::take(file, &text, around)?;
                let trace = self.trace_of(&options.instances)?;
                Ok((ServeOptions { trace, ..options }, Some(text)))
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
                ended(supervise(options, InstanceProgram { arguments, text }))
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
            given: GivenParts::Instances(vec![assigned.instance().clone()]),
            ..Surroundings::here()?
        };
        match (&self.config, assigned.text()) {
            (Some(file), Some(text)) => {
                let mut options = vermeil_config::take(file, text, &around)?;
                if let Some(text) = assigned.fixed_text() {
                    keep_fixed_of(text, file, &around, &mut options);
                }
                // The supervisor has logged the problems of included files.
                Ok(ServeOptions { left_out: Vec::new(), ..options })
            }
            _ => self.resolve(&around),
        }
    }
}

/// Keeps in `options` the settings of an earlier text that only a restart of the server changes.
/// The text may be refused by now: a file of users goes when its host has gone.
fn keep_fixed_of(text: &ConfigText, file: &Path, around: &Surroundings, options: &mut ServeOptions) {
    match vermeil_config::take(file, text, around) {
        Ok(earlier) => {
            keep_what_is_fixed(&earlier, options, CgiSettings::of(&earlier));
        }
        // An instance with the present settings is better than none.
        Err(why) => log_line(format_args!(
            "the settings that only a restart changes are taken from the present configuration; restart the \
             server, because the configuration that it was started with is refused now:\n{why}"
        )),
    }
}

fn ended(ended: Result<ServerEnded, ServeError>) -> Exit {
    match ended {
        Ok(ServerEnded::Clean) => Exit::Clean,
        Ok(ServerEnded::Cut(_)) => Exit::Cut,
        Err(error) => print::failure(&error, Exit::CannotStart),
    }
}
