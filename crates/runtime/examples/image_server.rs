//! Takes an image by HTTP and returns it filtered.
//!
//! Shows hyper in front of handlers. The connection is a task on the core of its socket, the
//! filters are handlers on any core, and the number of images in progress is bounded. Without
//! `--listen`, the program sends images to itself and measures.
//!
//! ```text
//! cargo run -p vermeil --release --example image_server -- --policy adaptive
//! cargo run -p vermeil --release --example image_server -- --listen 127.0.0.1:8082
//! curl --data-binary @picture.pgm http://127.0.0.1:8082/filter > filtered.pgm
//! ```
//!
//! The program is `vermeil_programs::image_server`.

use clap::Parser;
use std::net::SocketAddr;
use vermeil_programs::{cli, image_server};

/// Takes an image by HTTP and returns it filtered.
#[derive(Debug, Parser)]
struct ImageServerArgs {
    #[command(flatten)]
    runtime: cli::RuntimeArgs,
    #[command(flatten)]
    size: image_server::ImageServerSize,
    /// Serve here until interrupted, instead of measuring.
    #[arg(long, conflicts_with = "record")]
    listen: Option<SocketAddr>,
}

fn main() -> Result<(), cli::CliFailure> {
    let args = ImageServerArgs::parse();
    let running = args.runtime.start()?;
    let handle = running.handle();
    if let Some(addr) = args.listen {
        cli::serve_for_ever(image_server::serve(&handle, args.size.stages, addr)?);
    }
    let outcome = image_server::run(&handle, args.size)?;
    running.end(&outcome)
}
