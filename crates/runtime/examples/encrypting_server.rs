//! A file server that encrypts its answers, as SFS does: expensive events beside cheap events.
//!
//! Shows two colors for each connection: the first for input and output, the second for encryption,
//! which takes a hundred times as long. A thief can steal the encryption while the first color
//! continues. Without `--listen`, the program requests blocks from itself and measures.
//!
//! ```text
//! cargo run -p vermeil --release --example encrypting_server -- --policy none
//! cargo run -p vermeil --release --example encrypting_server -- --clients 2 --policy mely
//! ```
//!
//! The program is `vermeil_programs::encrypting_server`, where the protocol is described.

use clap::Parser;
use std::net::SocketAddr;
use vermeil_programs::{cli, encrypting_server};

/// A file server that encrypts its answers.
#[derive(Debug, Parser)]
struct EncryptingServerArgs {
    #[command(flatten)]
    runtime: cli::RuntimeArgs,
    #[command(flatten)]
    size: encrypting_server::EncryptingSize,
    /// Serve here until interrupted, instead of measuring.
    #[arg(long, conflicts_with = "record")]
    listen: Option<SocketAddr>,
}

fn main() -> Result<(), cli::CliFailure> {
    let args = EncryptingServerArgs::parse();
    let running = args.runtime.start()?;
    let handle = running.handle();
    if let Some(addr) = args.listen {
        cli::serve_for_ever(encrypting_server::serve(&handle, addr)?);
    }
    let outcome = encrypting_server::run(&handle, args.size)?;
    running.end(&outcome)
}
