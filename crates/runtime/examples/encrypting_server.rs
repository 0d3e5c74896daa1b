//! A file server that encrypts what it sends, in the manner of SFS: heavy events beside cheap ones.
//!
//! Shows two colors for each connection: its input and output on one, its encryption, a hundred times as long, on the
//! other, which can be stolen while the first goes on. Without `--listen` it asks itself for blocks and measures.
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

#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    runtime: cli::RuntimeArgs,
    #[command(flatten)]
    size: encrypting_server::Size,
    /// Serve here until interrupted, instead of measuring.
    #[arg(long, conflicts_with = "record")]
    listen: Option<SocketAddr>,
}

fn main() -> Result<(), cli::Failure> {
    let args = Args::parse();
    let running = args.runtime.start()?;
    let handle = running.handle();
    if let Some(addr) = args.listen {
        cli::serve_for_ever(encrypting_server::serve(&handle, addr)?);
    }
    let outcome = encrypting_server::run(&handle, args.size)?;
    running.end(&outcome)
}
