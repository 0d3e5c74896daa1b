//! Every program at a small size, under every policy: the checksum equals the checksum of a single
//! thread.

use crate::{
    encrypting_server, image_pipeline, image_server, kernel::MixingPace, keyed_stream, mixed_jobs,
    sqrt_pipeline, web_handlers,
};
use vermeil::{Handle, Pinning, Policy, Runtime};

const POLICIES: [&str; 11] = [
    "none",
    "libasync",
    "mely",
    "placed:round-robin",
    "placed:cache-aware",
    "placed:intermediate-1",
    "placed:intermediate-2",
    "trial",
    "ncopy",
    "per-node",
    "adaptive",
];

/// Work that takes almost no time.
const PACE: MixingPace = MixingPace { rounds_per_us: 1.0 };

/// Runs `program` on two cores under every policy; nothing is left over.
fn under_every_policy(program: impl Fn(&Handle)) {
    let cpu = vermeil_io::current_affinity()[0];
    for name in POLICIES {
        let policy: Policy = name.parse().expect("a policy");
        let runtime = Runtime::builder()
            .cpus([cpu, cpu])
            .pinning(Pinning::Shared)
            .policy(policy)
            .build()
            .expect("a runtime starts");
        let handle = runtime.handle();
        program(&handle);
        let panics: u64 = handle.snapshot().cores.iter().map(|core| core.panics).sum();
        assert_eq!(panics, 0, "{name}");
    }
}

#[test]
fn square_roots() {
    let size = sqrt_pipeline::SqrtPipelineSize { stages: 5, roots: 20, events: 40 };
    under_every_policy(|handle| {
        let outcome = sqrt_pipeline::run(handle, size);
        assert_eq!((outcome.events, outcome.checksum), (200, sqrt_pipeline::checksum(size)));
    });
}

#[test]
fn images() {
    let size =
        image_pipeline::ImagePipelineSize { stages: 4, images: 30, image_bytes: 1000, memory_bytes: 7000 };
    assert_eq!(size.images_at_once(), 7);
    under_every_policy(|handle| {
        let outcome = image_pipeline::run(handle, size);
        assert_eq!((outcome.events, outcome.checksum), (120, image_pipeline::checksum(size)));
    });
}

#[test]
fn keys() {
    let size =
        keyed_stream::KeyedStreamSize { keys: 50, skew: 1.0, producers: 3, records: 1000, record_ns: 1 };
    under_every_policy(|handle| {
        let outcome = keyed_stream::run(handle, size, PACE);
        assert_eq!((outcome.events, outcome.checksum), (3000, keyed_stream::checksum(size, PACE)));
    });
}

#[test]
fn long_and_short() {
    let size = mixed_jobs::MixedJobsSize {
        short_chains: 7,
        short_steps: 100,
        short_us: 1,
        long_chains: 2,
        long_steps: 5,
        long_us: 100,
    };
    under_every_policy(|handle| {
        let (outcome, delays) = mixed_jobs::run(handle, size, PACE);
        assert_eq!((outcome.events, outcome.checksum), (710, mixed_jobs::checksum(size, PACE)));
        assert_eq!(delays.len(), 700);
        assert!(delays.max() > 0);
    });
}

#[test]
fn files_over_http() {
    // Held in memory, and opened for each request.
    for file_bytes in [1 << 10, 100 << 10] {
        let size = web_handlers::WebHandlersSize { connections: 7, requests: 5, clients: 2, file_bytes };
        under_every_policy(|handle| {
            let outcome = web_handlers::run(handle, size).expect("every answer comes");
            assert_eq!((outcome.events, outcome.checksum), (35, web_handlers::checksum(size)));
        });
    }
}

#[test]
fn sealed_blocks() {
    let size = encrypting_server::EncryptingSize {
        clients: 5,
        rounds: 3,
        requests: 50,
        block_bytes: 20_000,
        threads: 2,
    };
    under_every_policy(|handle| {
        let outcome = encrypting_server::run(handle, size).expect("every reply comes");
        assert_eq!((outcome.events, outcome.checksum), (750, encrypting_server::checksum(size)));
    });
}

#[test]
fn images_over_http() {
    let size = image_server::ImageServerSize { stages: 3, clients: 4, images: 5, side: 50, threads: 2 };
    under_every_policy(|handle| {
        let outcome = image_server::run(handle, size).expect("every image comes back");
        assert_eq!((outcome.events, outcome.checksum), (60, image_server::checksum(size)));
    });
}
