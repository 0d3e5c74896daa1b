//! A pipeline over memory: sixteen filters, each one pass over images of 700 KB.
//!
//! The second benchmark of Genevès' thesis. An image is larger than a core's private cache, so the
//! assignment of handlers to cores matters: the next filter on the same core finds the output of
//! the previous filter in the cache. All images together would be several gigabytes. So only as
//! many images as the memory bound allows circulate, and each finished image is redrawn and enters
//! again.

use crate::{
    OutcomeTally, ProgramOutcome,
    kernel::image::{Filter, draw, pass_cost, sum},
    pipeline::Pipeline,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use vermeil::Handle;

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct ImagePipelineSize {
    /// Filters in the row.
    #[arg(long, default_value_t = 16)]
    pub stages: usize,
    /// Images that go through.
    #[arg(long, default_value_t = 4_000)]
    pub images: u64,
    /// Bytes of an image, one byte per pixel.
    #[arg(long, default_value_t = 700 << 10)]
    pub image_bytes: usize,
    /// Bytes of all images at a time; a single image is always admitted.
    #[arg(long, default_value_t = 64 << 20)]
    pub memory_bytes: usize,
}

impl ImagePipelineSize {
    /// Images in the pipeline at a time.
    pub fn images_at_once(&self) -> u64 {
        ((self.memory_bytes / self.image_bytes.max(1)) as u64).clamp(1, self.images.max(1))
    }
}

/// Runs the program.
pub fn run(handle: &Handle, size: ImagePipelineSize) -> ProgramOutcome {
    let begun = AtomicU64::new(size.images_at_once());
    let mut images: Vec<_> = (0..size.images_at_once()).map(|number| image(size, number)).collect();
    let tally = Arc::new(OutcomeTally::new(size.images));
    let work = |stage, pixels: &mut Vec<u8>| Filter::of_stage(stage).pass(pixels);
    let end = {
        let tally = tally.clone();
        move |pipeline: &Pipeline<Vec<u8>>, mut pixels: Vec<u8>| {
            tally.add(sum(&pixels));
            let number = begun.fetch_add(1, Ordering::Relaxed);
            if number < size.images {
                draw(&mut pixels, number);
                pipeline.start(pixels).expect("as many images as before");
            }
        }
    };
    let pipeline = Pipeline::new(handle, "filter", size.stages, pass_cost(size.image_bytes), work, end);
    for pixels in images.drain(..) {
        pipeline.start(pixels).expect("fewer images than a core's bound");
    }
    tally.wait(size.images * size.stages as u64)
}

fn image(size: ImagePipelineSize, number: u64) -> Vec<u8> {
    let mut pixels = vec![0; size.image_bytes];
    draw(&mut pixels, number);
    pixels
}

/// The checksum of a run, computed by the calling thread alone: a single composed filter equals the
/// whole row.
pub fn checksum(size: ImagePipelineSize) -> u64 {
    let all = Filter::of_row(size.stages);
    let one = |number| image(size, number).iter().map(|&pixel| u64::from(all.pixel(pixel))).sum::<u64>();
    (0..size.images).map(one).fold(0, u64::wrapping_add)
}
