//! A server's graph of tasks, written once over [`Tasks`]: short requests in bursts, a shift of the
//! costs, and now and then a long job.
//!
//! Every connection is a task with a queue. A request works for 3 µs on its connection, 3 µs in a
//! task of its own that the connection waits for, and 3 µs on the connection again. From the middle
//! of the run the task of its own takes four times as long. Every eighth burst begins with a job of
//! 30 ms. The next burst comes when all requests of a burst are answered, so requests that wait
//! behind the long job hold up the program.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use vermeil_programs::kernel::{MixingPace, mix};

use crate::runtime::tasks::Tasks;

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerGraphSize {
    pub(super) connections: u64,
    pub(super) bursts: u64,
    /// Requests of a burst.
    pub(super) requests: u64,
}

/// Microseconds of a short event.
const SHORT_US: f64 = 3.0;
/// Microseconds of a long job.
const LONG_US: f64 = 30_000.0;
/// The lengthening of a request's own task from the middle of the run.
const SHIFT: u64 = 4;
/// Bursts from a long job to the next.
const BURSTS_BETWEEN_JOBS: u64 = 8;

impl ServerGraphSize {
    /// Events of a run: three of each request, and the long jobs.
    pub(super) fn events(self) -> u64 {
        3 * self.bursts * self.requests + self.bursts.div_ceil(BURSTS_BETWEEN_JOBS)
    }
}

/// A request on its way.
struct GraphRequest {
    number: u64,
    sent: Instant,
    /// Rounds of [`mix`] of the request's own task.
    own_rounds: u64,
}

/// Nanoseconds that events waited, from the moment at which an event could run.
struct Delays(Histogram<u64>);

impl Delays {
    fn new() -> Self {
        Self(Histogram::new(2).expect("a histogram of two digits"))
    }

    fn record(&mut self, delay: Duration) {
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.0.record(delay_ns).expect("the histogram grows");
    }
}

/// Runs the program; returns the checksum, and the delays of the short events in nanoseconds.
pub(super) async fn server_graph<T: Tasks>(
    tasks: T,
    size: ServerGraphSize,
    pace: MixingPace,
) -> (u64, Histogram<u64>) {
    let rounds = |us: f64| (pace.rounds_per_us * us).max(1.0) as u64;
    let short_rounds = rounds(SHORT_US);
    let (answer, answered) = async_channel::unbounded();
    let (senders, connections): (Vec<_>, Vec<_>) = (0..size.connections)
        .map(|_| {
            let (sender, requests) = async_channel::unbounded();
            let task = tasks.spawn(connection(tasks.clone(), requests, answer.clone(), short_rounds));
            (sender, task)
        })
        .unzip();
    let (mut sum, mut jobs) = (0u64, Vec::new());
    for burst in 0..size.bursts {
        if burst % BURSTS_BETWEEN_JOBS == 0 {
            let long_rounds = rounds(LONG_US);
            jobs.push(tasks.spawn(async move { mix(long_rounds, burst) }));
        }
        let own_rounds = if burst < size.bursts / 2 { short_rounds } else { SHIFT * short_rounds };
        for request in 0..size.requests {
            let number = burst * size.requests + request;
            let request = GraphRequest { number, sent: Instant::now(), own_rounds };
            let connection = &senders[(number % size.connections) as usize];
            connection.send(request).await.expect("the connection waits");
        }
        for _ in 0..size.requests {
            sum = sum.wrapping_add(answered.recv().await.expect("each request has an answer"));
        }
    }
    for job in jobs {
        sum = sum.wrapping_add(job.await);
    }
    drop(senders);
    let mut all = Delays::new();
    for connection in connections {
        all.0.add(&connection.await.0).expect("histograms grow");
    }
    (sum, all.0)
}

/// A connection until its queue is closed; returns the delays of its events.
async fn connection<T: Tasks>(
    tasks: T,
    requests: async_channel::Receiver<GraphRequest>,
    answer: async_channel::Sender<u64>,
    short_rounds: u64,
) -> Delays {
    let mut delays = Delays::new();
    while let Ok(GraphRequest { number, sent, own_rounds }) = requests.recv().await {
        delays.record(sent.elapsed());
        let parsed = mix(short_rounds, number);
        let spawned = Instant::now();
        let own = tasks.spawn(async move {
            let waited = spawned.elapsed();
            (mix(own_rounds, parsed), waited)
        });
        let (found, waited) = own.await;
        delays.record(waited);
        answer.send(mix(short_rounds, found)).await.expect("the source waits");
    }
    delays
}
