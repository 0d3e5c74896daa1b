//! The table of a session: pages, the ways between them, and how users behave.
//!
//! Data only, checked once. Tested in `builtin` and `toml`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::chain;
use super::template::Template;
use crate::files::FileSet;
use crate::pace::Think;

/// What users do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Model {
    /// What results call it.
    pub name: String,
    /// The pages; a session begins with the first.
    pub pages: Vec<Page>,
    /// How long a user thinks after each page, and between sessions.
    pub think: Think,
    /// Connections of one user.
    pub connections: usize,
    /// How fast a connection's bytes are taken, in bytes per second; as fast as they come without.
    pub receive_rate: Option<u64>,
    /// How long connections are kept.
    pub keep_alive: KeepAlive,
    /// How long a user waits for the next bytes of an answer, or for a connection.
    pub timeout: Duration,
}

/// How long connections are kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeepAlive {
    /// The share of requests that go over connections that are kept, 0 to 1.
    pub share: f64,
    /// Fewest and most requests on such a connection; evenly drawn. `u32::MAX` for no end.
    pub requests: (u32, u32),
}

impl KeepAlive {
    /// Every connection is kept for ever.
    pub const ALWAYS: Self = Self { share: 1.0, requests: (u32::MAX, u32::MAX) };
    /// Every request has a connection of its own.
    pub const NEVER: Self = Self { share: 0.0, requests: (1, 1) };

    /// The share of connections that are kept, so that the share of requests comes out.
    pub(crate) fn share_of_connections(&self) -> f64 {
        let mean = (f64::from(self.requests.0) + f64::from(self.requests.1)) / 2.0;
        self.share / (self.share + mean * (1.0 - self.share))
    }
}

/// A page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page {
    /// What results call it.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// The next page by its place in the model, and its probability; what is left to one ends the session.
    pub next: Vec<(usize, f64)>,
    /// What it shows besides itself.
    pub embedded: Vec<Embedded>,
    /// What it has to be.
    pub check: Check,
    /// What makes it good enough.
    pub judge: Judge,
}

/// Where a page comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Source {
    /// A path.
    Path(Template),
    /// A file of a set, drawn anew for each visit; its every byte is verified.
    File(FileSet),
}

/// Something that a page shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Embedded {
    /// Its path.
    pub path: String,
    /// The probability that the browser has it and asks only whether it has changed.
    pub cached: f64,
    /// Its size in bytes, if its content is that of a file set and verified.
    pub bytes: Option<u64>,
}

/// What a page has to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Check {
    /// Anything with a good status.
    Status,
    /// It ends in this, at most 64 bytes.
    Ends(String),
}

/// What makes a page good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Judge {
    /// The time it takes with everything it shows.
    Time,
    /// How fast its bytes come.
    Rate,
}

/// Why a model makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// There is no page.
    #[error("the workload {0} has no page")]
    NoPages(String),
    /// Probabilities of one page do not fit.
    #[error(
        "page {page}: the probabilities of what comes next add up to {sum}: they must lie between 0 and 1, and their sum too"
    )]
    Sum {
        /// Which page.
        page: String,
        /// What they add up to.
        sum: String,
    },
    /// No way leads out.
    #[error("sessions of {0} never end: some page must leave a part of its probability to the end")]
    Endless(String),
    /// A mark is too long.
    #[error("page {page}: what it must end in has at most {} bytes", super::check::TAIL)]
    Mark {
        /// Which page.
        page: String,
    },
    /// Something else.
    #[error("{0}")]
    Other(String),
}

/// More pages in a session than anybody visits: the chain does not end.
const PAGES_MAX: f64 = 1e6;

impl Model {
    /// A page to which nothing else belongs, alone in a session: a request, in short.
    pub fn single(name: &str, source: Source, judge: Judge) -> Page {
        Page {
            name: name.to_owned(),
            source,
            next: Vec::new(),
            embedded: Vec::new(),
            check: Check::Status,
            judge,
        }
    }

    /// Whether the table makes sense.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), ModelError> {
        if self.pages.is_empty() {
            return Err(ModelError::NoPages(self.name.clone()));
        }
        for page in &self.pages {
            let sum: f64 = page.next.iter().map(|(_, probability)| probability).sum();
            let fits = page
                .next
                .iter()
                .all(|(next, probability)| (0.0..=1.0).contains(probability) && *next < self.pages.len());
            // Sums of decimal fractions are not exact.
            if !fits || sum > 1.0 + 1e-9 {
                return Err(ModelError::Sum { page: page.name.clone(), sum: sum.to_string() });
            }
            if matches!(&page.check, Check::Ends(mark) if mark.len() > super::check::TAIL) {
                return Err(ModelError::Mark { page: page.name.clone() });
            }
        }
        if self.pages_per_session() > PAGES_MAX {
            return Err(ModelError::Endless(self.name.clone()));
        }
        Ok(())
    }

    /// Visits of each page in a session, on average.
    pub fn visits(&self) -> Vec<f64> {
        let next: Vec<&[(usize, f64)]> = self.pages.iter().map(|page| &page.next[..]).collect();
        chain::visits(&next)
    }

    /// Pages in a session, on average.
    pub fn pages_per_session(&self) -> f64 {
        self.visits().iter().sum()
    }

    /// The share of each page among all, 0 to 1.
    pub fn shares(&self) -> Vec<f64> {
        let (visits, all) = (self.visits(), self.pages_per_session());
        visits.into_iter().map(|visits| visits / all).collect()
    }

    /// Requests in a session, on average.
    pub fn requests_per_session(&self) -> f64 {
        let requests = self.pages.iter().map(|page| 1.0 + page.embedded.len() as f64);
        self.visits().iter().zip(requests).map(|(visits, requests)| visits * requests).sum()
    }

    /// The same users in a world that runs `factor` times as fast: they think less and take bytes faster, so that the
    /// share of their lives that they spend receiving stays.
    pub fn compressed(mut self, factor: f64) -> Self {
        self.think = self.think.compressed(factor);
        self.receive_rate = self.receive_rate.map(|rate| (rate as f64 * factor) as u64);
        if factor != 1.0 {
            self.name = format!("{} compressed {factor} times", self.name);
        }
        self
    }
}
