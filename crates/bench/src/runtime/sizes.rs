//! The size of each program. At full size a program takes a tenth of a second or more on two cores,
//! so that a round of all programs takes little more than a minute. Where settling is observed, the
//! work is ten times as much; in the smoke size there is almost none.

use std::time::Duration;

use vermeil_programs::{
    encrypting_server, image_pipeline, image_server, keyed_stream, mixed_jobs, sqrt_pipeline, web_handlers,
};

use crate::runtime::child::{ChildRun, RunWatch};
use crate::runtime::server_graph::ServerGraphSize;
use crate::size::BenchSize;

/// The full or the smoke number.
fn of(run: ChildRun, full: u32, smoke: u32) -> u32 {
    match (run.size, run.watch) {
        (BenchSize::Full, RunWatch::End) => full,
        (BenchSize::Full, RunWatch::Settling) => 10 * full,
        (BenchSize::Smoke, _) => smoke,
    }
}

pub(super) fn sqrt_pipeline(run: ChildRun) -> sqrt_pipeline::SqrtPipelineSize {
    sqrt_pipeline::SqrtPipelineSize {
        stages: 16,
        roots: of(ChildRun { watch: RunWatch::End, ..run }, 10_000, 10),
        events: of(run, 200, 20),
    }
}

pub(super) fn image_pipeline(run: ChildRun) -> image_pipeline::ImagePipelineSize {
    let image_bytes = match run.size {
        BenchSize::Full => 700 << 10,
        BenchSize::Smoke => 1 << 10,
    };
    image_pipeline::ImagePipelineSize {
        stages: 16,
        images: of(run, 300, 20).into(),
        image_bytes,
        memory_bytes: 64 * image_bytes,
    }
}

pub(super) fn image_server(run: ChildRun) -> image_server::ImageServerSize {
    let side = of(ChildRun { watch: RunWatch::End, ..run }, 836, 32) as usize;
    image_server::ImageServerSize { stages: 16, clients: 4, images: of(run, 25, 2), side, threads: 1 }
}

pub(super) fn web_handlers(run: ChildRun) -> web_handlers::WebHandlersSize {
    web_handlers::WebHandlersSize {
        connections: of(run, 64, 4),
        requests: of(run, 150, 5),
        clients: 1,
        file_bytes: 1 << 10,
    }
}

pub(super) fn encrypting_server(run: ChildRun) -> encrypting_server::EncryptingSize {
    encrypting_server::EncryptingSize {
        clients: 8,
        rounds: of(run, 40, 1),
        requests: 8,
        block_bytes: 32 << 10,
        threads: 1,
    }
}

pub(super) fn keyed_stream(run: ChildRun) -> keyed_stream::KeyedStreamSize {
    let keys = of(ChildRun { watch: RunWatch::End, ..run }, 10_000, 50);
    keyed_stream::KeyedStreamSize {
        keys,
        skew: 1.0,
        producers: 4,
        records: of(run, 100_000, 500),
        record_ns: 500,
    }
}

pub(super) fn mixed_jobs(run: ChildRun) -> mixed_jobs::MixedJobsSize {
    mixed_jobs::MixedJobsSize {
        short_chains: of(run, 64, 8),
        short_steps: of(run, 2_000, 20),
        short_us: 2,
        long_chains: 2,
        long_steps: of(run, 6, 2),
        long_us: 20_000,
    }
}

pub(super) fn leaves(run: ChildRun) -> u64 {
    of(run, 100_000, 100).into()
}

pub(super) fn tasks(run: ChildRun) -> u64 {
    of(run, 100_000, 200).into()
}

/// Pairs, and rounds of each.
pub(super) fn pairs(run: ChildRun) -> (u64, u64) {
    (16, of(run, 5_000, 10).into())
}

/// Messages of each producer.
pub(super) fn messages(run: ChildRun) -> u64 {
    of(run, 50_000, 100).into()
}

/// Requests of [`pin`](crate::runtime::common::pin).
pub(super) fn requests(run: ChildRun) -> u64 {
    of(run, 10_000, 50).into()
}

pub(super) fn server_graph(run: ChildRun) -> ServerGraphSize {
    ServerGraphSize { connections: 64, bursts: of(run, 40, 2).into(), requests: of(run, 256, 16).into() }
}

/// Events posted singly.
pub(super) fn posts(run: ChildRun) -> u64 {
    of(run, 500_000, 500).into()
}

pub(super) fn idle(run: ChildRun) -> Duration {
    Duration::from_millis(of(run, 1_000, 10).into())
}
