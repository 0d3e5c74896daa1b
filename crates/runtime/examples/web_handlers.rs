//! A web server of static files, written handler by handler: accept, read, parse, look up, open,
//! write, close.
//!
//! Shows handlers that make their own non-blocking system calls on the color of their connection.
//! Any core can therefore serve a connection. Without `--root`, the program serves a single file,
//! requests the file itself and measures.
//!
//! ```text
//! cargo run -p vermeil --release --example web_handlers -- --policy libasync
//! cargo run -p vermeil --release --example web_handlers -- --root docs --listen 127.0.0.1:8083
//! curl http://127.0.0.1:8083/runtime.md
//! ```
//!
//! The program is `vermeil_programs::web_handlers`.

use clap::Parser;
use std::{net::SocketAddr, path::PathBuf};
use vermeil_programs::{cli, web_handlers};

/// A web server of static files, written handler by handler.
#[derive(Debug, Parser)]
struct WebHandlersArgs {
    #[command(flatten)]
    runtime: cli::RuntimeArgs,
    #[command(flatten)]
    size: web_handlers::WebHandlersSize,
    /// Serve this folder until interrupted, instead of measuring.
    #[arg(long, conflicts_with = "record")]
    root: Option<PathBuf>,
    /// Where to serve the folder. With port 0 the kernel chooses a free port.
    #[arg(long, default_value = "127.0.0.1:0", requires = "root")]
    listen: SocketAddr,
}

fn main() -> Result<(), cli::CliFailure> {
    let args = WebHandlersArgs::parse();
    let running = args.runtime.start()?;
    let handle = running.handle();
    if let Some(root) = args.root {
        cli::serve_for_ever(web_handlers::serve(&handle, &root, args.listen)?);
    }
    let outcome = web_handlers::run(&handle, args.size)?;
    running.end(&outcome)
}
