//! The parts of an answer's head that a core makes: the date, the server's load, and numbers that
//! clients cannot guess.
//!
//! Leaves out the fields that belong to an answer (`terms.rs`).

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    time::{SystemTime, UNIX_EPOCH},
};
use vermeil_http::HttpDate;

/// The parts of an answer's head that the core makes.
pub struct CoreHeadParts {
    /// The core's wall clock.
    pub clock: CoreClock,
    /// The load of the server, as a field line of answers. Made once a second, and empty if no
    /// balancer wants it.
    pub load_line: Vec<u8>,
    /// Numbers that were given out.
    numbers: u64,
    /// Makes the numbers unguessable.
    secret: RandomState,
}

impl Default for CoreHeadParts {
    fn default() -> Self {
        Self { clock: CoreClock::default(), load_line: Vec::new(), numbers: 0, secret: RandomState::new() }
    }
}

impl CoreHeadParts {
    /// 64 bits that clients cannot guess, also from earlier ones.
    pub fn boundary(&mut self) -> u64 {
        self.numbers += 1;
        self.secret.hash_one(self.numbers)
    }
}

/// The wall clock, read once per turn of the core, and its text, made once per second.
#[derive(Default)]
pub struct CoreClock {
    seen_ms: Option<u64>,
    date: Option<HttpDate>,
}

impl CoreClock {
    /// The current second. `now_ms` is the core's clock.
    pub fn date(&mut self, now_ms: u64) -> &HttpDate {
        if self.seen_ms != Some(now_ms) {
            self.seen_ms = Some(now_ms);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            if self.date.as_ref().is_none_or(|date| date.seconds() != seconds) {
                self.date = Some(HttpDate::new(seconds));
            }
        }
        self.date.as_ref().expect("made above")
    }
}
