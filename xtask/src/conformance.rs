//! `cargo xtask conformance KIND`: Vermeil with programs of others, outside of the usual run.

pub(crate) mod tls;

use crate::apps::{self, AppsArgs};
use crate::error::Result;
use tls::ConformanceTlsArgs;

/// The arguments of `conformance`.
#[derive(Debug, clap::Args)]
pub(crate) struct ConformanceArgs {
    #[command(subcommand)]
    kind: ConformanceKind,
}

/// A kind of programs.
#[derive(Debug, clap::Subcommand)]
enum ConformanceKind {
    /// Real applications, used through a real browser.
    Apps(AppsArgs),
    /// HTTPS, judged by scanners and clients.
    Tls(ConformanceTlsArgs),
}

/// Runs the command.
pub(crate) fn run(args: &ConformanceArgs) -> Result<()> {
    match &args.kind {
        ConformanceKind::Apps(args) => apps::run(args),
        ConformanceKind::Tls(args) => tls::run(args),
    }
}
