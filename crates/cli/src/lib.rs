//! The command line of `vermeil`: one file per command, over the libraries that do the work.
//!
//! The crate owns the definitions of commands and options: the source of parsing, help, man pages
//! and shell completions. It also owns the syntax of values (times, sizes, addresses) and the exit
//! codes. Leaves out the work of the commands. Each command parses without side effects, then
//! resolves the arguments against the machine, then calls a library. Tested in `tests.rs` (every
//! option documented, in help and man page), in `serve/tests.rs` and beside each value.

mod check;
mod completions;
mod exit;
mod instance;
mod load;
mod man;
mod print;
mod profile;
mod reload;
mod scale;
mod serve;
mod sim;
mod status;
mod steer;
mod topo;
mod usage;
mod values;
mod writable;

#[cfg(test)]
mod tests;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::panic::catch_unwind;
use std::process::ExitCode;

pub use completions::completions;
pub use exit::Exit;
pub use man::man_pages;
pub use vermeil_config::{json_schema as configuration_schema, reference_page as configuration_page};
pub use vermeil_ops::status::reference_page as status_page;

/// For the help and the man page.
const EXAMPLES: &[&str] = &["vermeil serve /srv/www", "vermeil help serve"];

/// Serves files, PHP and CGI over HTTP/1.1, with one event loop on each core.
///
/// `vermeil serve DIR` serves a folder at once, without configuration. Each core runs an event loop
/// with its own connections, its own part of the file cache and its own kernel interface (io_uring,
/// or epoll). Cores share as little as possible. `vermeil topo` draws the machine and shows the
/// cpus that the server would use.
///
/// Man pages: `vermeil man [COMMAND] | man -l -`. Shell completions: `vermeil completions SHELL`.
#[derive(Debug, Parser)]
#[command(name = "vermeil", version, subcommand_required = true, arg_required_else_help = true)]
#[command(after_long_help = after_help(EXAMPLES))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::ServeArgs>),
    Check(check::CheckArgs),
    Status(status::StatusArgs),
    Reload(reload::ReloadArgs),
    Load(Box<load::LoadArgs>),
    Topo(topo::TopoArgs),
    Steer(steer::SteerArgs),
    Sim(sim::SimArgs),
    Profile(profile::ProfileArgs),
    Scale(scale::ScaleArgs),
    #[command(hide = true)]
    Instance(instance::InstanceArgs),
    #[command(hide = true)]
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Man(man::ManArgs),
}

/// The end of a long help: examples and exit codes.
fn after_help(examples: &[&str]) -> String {
    let examples: String = examples.iter().map(|example| format!("  {example}\n")).collect();
    let codes = Exit::ALL.map(|exit| format!("  {}  {}\n", exit as u8, exit.meaning()));
    format!("Examples:\n{examples}\nExit codes:\n{}", codes.concat())
}

/// The whole command line as a definition: for parsing, man pages, completions and tests.
pub fn command() -> clap::Command {
    // Changed in place, because a change by name would move the command to the end.
    Cli::command().mut_subcommands(|command| match command.get_name() {
        "serve" => serve::with_conflicts(command),
        _ => command,
    })
}

/// Reads a command line, the program's name first.
fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut matches = command().try_get_matches_from(line)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command()))
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    // Before the defaults are computed from the limit. The soft limit of a login is 1,024, which a
    // single core could use up.
    vermeil_check::raise_descriptor_limit();
    let exit = match parse(std::env::args_os()) {
        // The panic has already been reported; only the exit code remains.
        Ok(cli) => catch_unwind(|| cli.command.run()).unwrap_or(Exit::Failed),
        Err(answer) => {
            // Help and version go to standard output; a failed write to a closed output is
            // harmless.
            let _ = answer.print();
            if answer.use_stderr() { Exit::Usage } else { Exit::Clean }
        }
    };
    exit.into()
}

impl Command {
    fn run(self) -> Exit {
        match self {
            Self::Serve(args) => args.run(),
            Self::Check(args) => args.run(),
            Self::Status(args) => args.run(),
            Self::Reload(args) => args.run(),
            Self::Load(args) => args.run(),
            Self::Topo(args) => args.run(),
            Self::Steer(args) => args.run(),
            Self::Sim(args) => args.run(),
            Self::Profile(args) => args.run(),
            Self::Scale(args) => args.run(),
            Self::Instance(args) => args.run(),
            Self::Completions(args) => args.run(),
            Self::Man(args) => args.run(),
        }
    }
}
