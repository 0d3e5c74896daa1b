//! Programs written once over [`Tasks`]: the same code on Vermeil and on its peers.
//!
//! skynet, spawn, ping-pong, channel, pin and unbalanced run in this form on all variants. The
//! keyed stream and the mixed jobs here are the peers' forms; Vermeil's forms are in
//! `vermeil-programs`, and both forms share every kernel. All channels are `async-channel`'s. Each
//! program returns its checksum.

use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

use hdrhistogram::Histogram;
use vermeil_programs::kernel::{MixingPace, mix, zipf::Zipf};
use vermeil_programs::{keyed_stream, mixed_jobs};

use crate::runtime::tasks::Tasks;

/// The sum of all numbers below `leaves`, by a tree of tasks in which each task waits for ten
/// others; `leaves` is a power of ten.
pub(super) fn skynet<T: Tasks>(
    tasks: T,
    base: u64,
    leaves: u64,
) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if leaves == 1 {
            return base;
        }
        let part = leaves / 10;
        let children: Vec<_> =
            (0..10).map(|child| tasks.spawn(skynet(tasks.clone(), base + child * part, part))).collect();
        let mut sum = 0;
        for child in children {
            sum += child.await;
        }
        sum
    })
}

/// Spawns `count` tasks from one task and waits for each.
pub(super) async fn spawn<T: Tasks>(tasks: T, count: u64) -> u64 {
    let spawned: Vec<_> = (0..count).map(|number| tasks.spawn(async move { mix(1, number) })).collect();
    let mut sum = 0u64;
    for task in spawned {
        sum = sum.wrapping_add(task.await);
    }
    sum
}

/// One task makes `count` other tasks and has no other work: nearly all take 0.2 µs, and each
/// fiftieth takes 20 µs.
pub(super) async fn unbalanced<T: Tasks>(tasks: T, count: u64, pace: MixingPace) -> u64 {
    let spawned: Vec<_> = (0..count)
        .map(|number| {
            let rounds = unbalanced_rounds(number, pace);
            tasks.spawn(async move { mix(rounds, number) })
        })
        .collect();
    let mut sum = 0u64;
    for task in spawned {
        sum = sum.wrapping_add(task.await);
    }
    sum
}

/// The rounds of [`mix`] of a task of [`unbalanced`].
pub(super) fn unbalanced_rounds(number: u64, pace: MixingPace) -> u64 {
    let short = pace.rounds_per_us / 5.0;
    (if number % 50 == 49 { short * 100.0 } else { short }).max(1.0) as u64
}

/// `pairs` pairs of tasks send a number back and forth, `rounds` times.
pub(super) async fn ping_pong<T: Tasks>(tasks: T, pairs: u64, rounds: u64) -> u64 {
    let pair = |number: u64| {
        let (ping, pinged) = async_channel::bounded(1);
        let (pong, ponged) = async_channel::bounded(1);
        tasks.start(async move {
            while let Ok(value) = pinged.recv().await {
                if pong.send(value + 1u64).await.is_err() {
                    break;
                }
            }
        });
        tasks.spawn(async move {
            let mut value = number;
            for _ in 0..rounds {
                ping.send(value).await.expect("the other end waits");
                value = ponged.recv().await.expect("the other end answers");
            }
            value
        })
    };
    let pairs: Vec<_> = (0..pairs).map(pair).collect();
    let mut sum = 0u64;
    for value in pairs {
        sum = sum.wrapping_add(value.await);
    }
    sum
}

/// Places in the queue of [`channel`]: a parameter of this load, the same for all runtimes.
const CHANNEL_PLACES: usize = 128;

/// Four producers send `count` numbers each through a bounded channel to four consumers.
pub(super) async fn channel<T: Tasks>(tasks: T, count: u64) -> u64 {
    let (sender, receiver) = async_channel::bounded(CHANNEL_PLACES);
    let consumers: Vec<_> = (0..4)
        .map(|_| {
            let receiver = receiver.clone();
            tasks.spawn(async move {
                let mut sum = 0u64;
                while let Ok(value) = receiver.recv().await {
                    sum = sum.wrapping_add(value);
                }
                sum
            })
        })
        .collect();
    for producer in 0..4 {
        let sender = sender.clone();
        tasks.start(async move {
            for number in 0..count {
                sender.send(mix(1, producer * count + number)).await.expect("consumers wait");
            }
        });
    }
    drop(sender);
    let mut sum = 0u64;
    for consumer in consumers {
        sum = sum.wrapping_add(consumer.await);
    }
    sum
}

/// Load of [`pin`]: requests in progress at a time.
const PIN_CLIENTS: u64 = 16;
/// Microseconds of a request of [`pin`].
const PIN_US: f64 = 20.0;
/// Microseconds of receiving such a request.
const PIN_RECEIVE_US: f64 = 0.7;

/// One task receives `requests` requests and makes a task for each, as a server with one socket
/// does. A client sends its next request when the former has its answer.
pub(super) async fn pin<T: Tasks>(tasks: T, requests: u64, pace: MixingPace) -> u64 {
    let rounds = |us: f64| (pace.rounds_per_us * us).max(1.0) as u64;
    let (work_rounds, receive_rounds) = (rounds(PIN_US), rounds(PIN_RECEIVE_US));
    let (sender, receiver) = async_channel::unbounded();
    for _ in 0..PIN_CLIENTS {
        // The first request of a client follows no answer.
        sender.send(0).await.expect("the queue has no bound");
    }
    let own = tasks.clone();
    let server = tasks.spawn(async move {
        let mut sum = 0u64;
        for number in 0..requests {
            sum = sum.wrapping_add(receiver.recv().await.expect("every client sends"));
            let received = mix(receive_rounds, number);
            let client = sender.clone();
            own.start(async move {
                client.send(mix(work_rounds, received)).await.expect("the server waits");
            });
        }
        for _ in 0..PIN_CLIENTS {
            sum = sum.wrapping_add(receiver.recv().await.expect("every request has an answer"));
        }
        sum
    });
    server.await
}

/// The keyed stream with a task and an unbounded channel for each key; producers yield after each
/// batch.
pub(super) async fn keyed<T: Tasks>(tasks: T, size: keyed_stream::KeyedStreamSize, pace: MixingPace) -> u64 {
    let rounds = size.rounds(pace);
    let zipf = Zipf::new(size.keys, size.skew);
    let (senders, keys): (Vec<_>, Vec<_>) = (0..size.keys)
        .map(|_| {
            let (sender, receiver) = async_channel::unbounded();
            let mut key = keyed_stream::KeyState::new(size.producers);
            let task = tasks.spawn(async move {
                while let Ok((producer, number)) = receiver.recv().await {
                    key.update(rounds, producer, number);
                }
                (0..size.producers).filter_map(|_| key.end()).sum::<u64>()
            });
            (sender, task)
        })
        .unzip();
    let senders: std::sync::Arc<[async_channel::Sender<(u32, u32)>]> = senders.into();
    for producer in 0..size.producers {
        let (senders, tasks) = (senders.clone(), tasks.clone());
        let keys = size.keys_of(&zipf, producer);
        tasks.clone().start(async move {
            for (number, key) in (0u32..).zip(keys) {
                senders[key as usize].send((producer, number)).await.expect("the key's task waits");
                if (number as usize).is_multiple_of(keyed_stream::BATCH) {
                    tasks.yield_now().await;
                }
            }
        });
    }
    drop(senders);
    let mut sum = 0u64;
    for key in keys {
        sum = sum.wrapping_add(key.await);
    }
    sum
}

/// The mixed jobs with a task for each chain, which yields after every step; returns the delays of
/// short steps too.
pub(super) async fn mixed<T: Tasks>(
    tasks: T,
    size: mixed_jobs::MixedJobsSize,
    pace: MixingPace,
) -> (u64, Histogram<u64>) {
    let chains = size.chains(pace).into_iter().enumerate();
    let chains: Vec<_> = chains
        .map(|(number, chain)| {
            let mut progress = mixed_jobs::ChainProgress::new(number, chain);
            let own = tasks.clone();
            let mut since = Instant::now();
            tasks.spawn(async move {
                while progress.step(since) {
                    since = Instant::now();
                    own.yield_now().await;
                }
                progress
            })
        })
        .collect();
    let mut sum = 0u64;
    let mut delays = Histogram::new(2).expect("a histogram of two digits");
    for chain in chains {
        let progress = chain.await;
        sum = sum.wrapping_add(progress.result());
        delays.add(progress.delays()).expect("histograms grow");
    }
    (sum, delays)
}
