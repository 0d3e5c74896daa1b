//! Sixteen filters in a row, each a single pass over images of 700 KB: 4,000 images within 64 MiB.
//!
//! Shows handlers whose data is larger than a core's cache: a filter finds the image in the cache
//! if the filter before ran on the same core. The example also shows bounded work: each finished
//! image is drawn anew and enters the pipeline again.
//!
//! ```text
//! cargo run -p vermeil --release --example image_pipeline -- --policy placed:round-robin
//! cargo run -p vermeil --release --example image_pipeline -- --policy placed:cache-aware
//! ```
//!
//! The program is `vermeil_programs::image_pipeline`.

use clap::Parser;
use vermeil_programs::{cli, image_pipeline};

/// Sixteen filters in a row, each a single pass over images.
#[derive(Debug, Parser)]
struct ImagePipelineArgs {
    #[command(flatten)]
    runtime: cli::RuntimeArgs,
    #[command(flatten)]
    size: image_pipeline::ImagePipelineSize,
}

fn main() -> Result<(), cli::CliFailure> {
    let args = ImagePipelineArgs::parse();
    let running = args.runtime.start()?;
    let handle = running.handle();
    let outcome = image_pipeline::run(&handle, args.size);
    running.end(&outcome)
}
