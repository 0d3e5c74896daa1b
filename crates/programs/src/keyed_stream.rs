//! A stream of records with keys, a few of which are very common: each key's records in order, keys
//! in parallel.
//!
//! A key is a color, and the key's state needs no lock. Producers are colors too: each posts a
//! batch of records and then itself, so that other colors get their turns. Every record is checked
//! to come after the earlier records of the same producer under that key. The difficulty is Zipf's
//! law: the commonest key alone may keep a core busy, and the placement of the next keys decides
//! whether the other cores are idle.

use crate::{
    OutcomeTally, ProgramOutcome,
    kernel::{MixingPace, mix, zipf::Zipf},
};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use vermeil::{Color, Colored, Handle, Handler, Spec};

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, clap::Args)]
pub struct KeyedStreamSize {
    /// Different keys.
    #[arg(long, default_value_t = 10_000)]
    pub keys: u32,
    /// Exponent of the law: 0 makes all keys alike, 1 is Zipf's law.
    #[arg(long, default_value_t = 1.0)]
    pub skew: f64,
    /// Producers.
    #[arg(long, default_value_t = 4)]
    pub producers: u32,
    /// Records of each producer.
    #[arg(long, default_value_t = 250_000)]
    pub records: u32,
    /// Nanoseconds of work for a record.
    #[arg(long, default_value_t = 500)]
    pub record_ns: u64,
}

impl KeyedStreamSize {
    /// The rounds of [`mix`] that a record costs.
    pub fn rounds(&self, pace: MixingPace) -> u64 {
        pace.rounds(Duration::from_nanos(self.record_ns))
    }

    /// The keys of a producer's records.
    pub fn keys_of(&self, zipf: &Zipf, producer: u32) -> Vec<u32> {
        zipf.draw(mix(1, producer.into()), self.records as usize)
    }
}

/// Records that a producer posts before other colors have their turn. By bench `runtime` a post
/// takes 39 to 82 ns, so a batch posts for 2.5 to 5.2 µs.
pub const BATCH: usize = 64;

/// Expected time of posting a batch.
const PRODUCE: Duration = Duration::from_micros(10);

/// The contribution of a record to the key's sum.
pub fn value(rounds: u64, producer: u32, number: u32) -> u64 {
    mix(rounds, u64::from(producer) << 32 | u64::from(number))
}

/// A key's state and the processing of a record: the same on every runtime.
#[derive(Debug)]
pub struct KeyState {
    sum: u64,
    /// For each producer, the number after the last record.
    next: Vec<u32>,
    /// Producers that have sent their last record.
    ended: u32,
}

impl KeyState {
    /// A key without records.
    pub fn new(producers: u32) -> Self {
        Self { sum: 0, next: vec![0; producers as usize], ended: 0 }
    }

    /// Processes a record.
    ///
    /// # Panics
    /// When a record comes before a record that was sent earlier.
    pub fn update(&mut self, rounds: u64, producer: u32, number: u32) {
        let next = &mut self.next[producer as usize];
        assert!(number >= *next, "record {number} of producer {producer} came late");
        *next = number + 1;
        self.sum = self.sum.wrapping_add(value(rounds, producer, number));
    }

    /// A producer has ended; returns the sum once all have.
    pub fn end(&mut self) -> Option<u64> {
        self.ended += 1;
        (self.ended as usize == self.next.len()).then_some(self.sum)
    }
}

/// A record of a key, or the end of a producer's records.
#[derive(Clone, Copy, Debug)]
enum KeyRecord {
    Value { key: u32, producer: u32, number: u32 },
    End { key: u32 },
}

/// A producer's position in the sequence.
#[derive(Debug)]
struct Position {
    producer: u32,
    next: usize,
}

/// What the handlers share.
struct KeyedStream {
    colors: Vec<Color>,
    producers: Vec<(Color, Vec<u32>)>,
    update: Handler<KeyRecord>,
    /// Set before the first producer is started.
    produce: OnceLock<Handler<Position>>,
}

/// Runs the program.
pub fn run(handle: &Handle, size: KeyedStreamSize, pace: MixingPace) -> ProgramOutcome {
    let rounds = size.rounds(pace);
    let zipf = Zipf::new(size.keys, size.skew);
    let colors: Vec<Color> = (0..size.keys).map(|_| handle.color()).collect();
    let state: Vec<_> =
        colors.iter().map(|color| Colored::new(color.id(), KeyState::new(size.producers))).collect();
    let producers = (0..size.producers).map(|producer| (handle.color(), size.keys_of(&zipf, producer)));
    let producers = producers.collect();
    let tally = Arc::new(OutcomeTally::new(size.keys.into()));
    let update = handle.handler(Spec::new("update").cost(Duration::from_nanos(size.record_ns)), {
        let tally = tally.clone();
        move |record| match record {
            KeyRecord::Value { key, producer, number } => {
                state[key as usize].with(|key| key.update(rounds, producer, number));
            }
            KeyRecord::End { key } => {
                if let Some(sum) = state[key as usize].with(KeyState::end) {
                    tally.add(sum);
                }
            }
        }
    });
    let stream = Arc::new(KeyedStream { colors, producers, update, produce: OnceLock::new() });
    let produce = handle.handler(Spec::new("produce").cost(PRODUCE), {
        let stream = stream.clone();
        move |position| stream.produce(position)
    });
    assert!(stream.produce.set(produce).is_ok(), "set once");
    for producer in 0..size.producers {
        stream.go_on(Position { producer, next: 0 });
    }
    tally.wait(u64::from(size.producers) * u64::from(size.records))
}

impl KeyedStream {
    /// Posts the next batch, and then the producer itself.
    fn produce(&self, mut at: Position) {
        for _ in 0..BATCH {
            let Some((key, record)) = self.record(&at) else { return };
            if self.update.post(&self.colors[key as usize], record).is_err() {
                // The core of that key is full and needs time to process events.
                break;
            }
            at.next += 1;
        }
        self.go_on(at);
    }

    /// The producer's next message: the producer's records, then the end to every key, then none.
    fn record(&self, at: &Position) -> Option<(u32, KeyRecord)> {
        let keys = &self.producers[at.producer as usize].1;
        if let Some(&key) = keys.get(at.next) {
            return Some((key, KeyRecord::Value { key, producer: at.producer, number: at.next as u32 }));
        }
        let key = at.next - keys.len();
        (key < self.colors.len()).then_some((key as u32, KeyRecord::End { key: key as u32 }))
    }

    fn go_on(&self, at: Position) {
        let color = &self.producers[at.producer as usize].0;
        let produce = self.produce.get().expect("set before the first producer starts");
        produce.post(color, at).expect("an event for each producer at most");
    }
}

/// The checksum of a run, computed by the calling thread alone.
pub fn checksum(size: KeyedStreamSize, pace: MixingPace) -> u64 {
    let rounds = size.rounds(pace);
    let numbers = 0..size.records;
    let of = |producer| numbers.clone().map(move |number| value(rounds, producer, number));
    (0..size.producers).flat_map(of).fold(0, u64::wrapping_add)
}
