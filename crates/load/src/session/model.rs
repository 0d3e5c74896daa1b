//! The model of a session: pages, transitions, and the behavior of users.
//!
//! Only data, checked once. Tested in `builtin` and `toml`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::chain;
use super::template::PathTemplate;
use crate::files::FileSet;
use crate::pace::Think;

/// The behavior of users.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Model {
    /// The name in results.
    pub name: String,
    /// The pages; a session begins with the first.
    pub pages: Vec<Page>,
    /// Think time after each page and between sessions.
    pub think: Think,
    /// Connections of one user.
    pub connections: usize,
    /// Receive rate of a connection in bytes per second. `None`: as fast as the bytes arrive.
    pub receive_rate: Option<u64>,
    /// The lifetime of connections.
    pub keep_alive: KeepAlive,
    /// Longest wait for the next bytes of an answer, or for a connection.
    pub timeout: Duration,
}

/// The lifetime of connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeepAlive {
    /// The share of requests on kept connections, 0 to 1.
    pub share: f64,
    /// Minimum and maximum number of requests on a kept connection; uniform between. `u32::MAX` for
    /// no end.
    pub requests: (u32, u32),
}

impl KeepAlive {
    /// Connections have no end.
    pub const ALWAYS: Self = Self { share: 1.0, requests: (u32::MAX, u32::MAX) };
    /// A new connection for each request.
    pub const NEVER: Self = Self { share: 0.0, requests: (1, 1) };

    /// The share of kept connections that gives this share of requests.
    pub(crate) fn share_of_connections(&self) -> f64 {
        let mean = (f64::from(self.requests.0) + f64::from(self.requests.1)) / 2.0;
        self.share / (self.share + mean * (1.0 - self.share))
    }
}

/// A page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page {
    /// The name in results.
    pub name: String,
    /// The source of the page.
    pub source: PageSource,
    /// The next page, by its index in the model, and the probability. The rest of the probability
    /// ends the session.
    pub next: Vec<(usize, f64)>,
    /// The embedded objects of the page.
    pub embedded: Vec<Embedded>,
    /// The check of the content.
    pub check: Check,
    /// The criterion of quality.
    pub judge: Judge,
}

/// The source of a page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PageSource {
    /// A path.
    Path(PathTemplate),
    /// A file of a set, drawn for each visit. Every byte is verified.
    File(FileSet),
}

/// An embedded object of a page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Embedded {
    /// The path of the object.
    pub path: String,
    /// The probability of a conditional request, because the browser has the object in the cache.
    pub cached: f64,
    /// The size in bytes, if the object belongs to a file set and is verified.
    pub bytes: Option<u64>,
}

/// The check of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Check {
    /// Any content with a good status.
    Status,
    /// The content ends in this text of at most 64 bytes.
    Ends(String),
}

/// The criterion of a page's quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Judge {
    /// The time of the page with all embedded objects.
    Time,
    /// The receive rate of the page.
    Rate,
}

/// The reason why a model is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The model has no page.
    #[error("the workload {0} has no page")]
    NoPages(String),
    /// The probabilities of a page are invalid.
    #[error(
        "page {page}: the probabilities of the next pages add up to {sum}: each must lie between 0 and 1, and the sum too"
    )]
    Sum {
        /// The page.
        page: String,
        /// The sum of the probabilities.
        sum: String,
    },
    /// Sessions have no end.
    #[error("sessions of {0} never end: some page must leave a part of its probability to the end")]
    Endless(String),
    /// An end mark is too long.
    #[error("page {page}: the required end of the content has at most {} bytes", super::check::TAIL)]
    Mark {
        /// The page.
        page: String,
    },
    /// Another fault.
    #[error("{0}")]
    Other(String),
}

/// Maximum number of pages in a session. A session with more has no end.
const PAGES_MAX: f64 = 1e6;

impl Model {
    /// A page without embedded objects, alone in a session: in short, a request.
    pub fn single(name: &str, source: PageSource, judge: Judge) -> Page {
        Page {
            name: name.to_owned(),
            source,
            next: Vec::new(),
            embedded: Vec::new(),
            check: Check::Status,
            judge,
        }
    }

    /// Checks the model.
    ///
    /// # Errors
    /// The fault of the model.
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

    /// Mean number of visits of each page in a session.
    pub fn visits(&self) -> Vec<f64> {
        let next: Vec<&[(usize, f64)]> = self.pages.iter().map(|page| &page.next[..]).collect();
        chain::visits(&next)
    }

    /// Mean number of pages in a session.
    pub fn pages_per_session(&self) -> f64 {
        self.visits().iter().sum()
    }

    /// The share of each page in all pages, 0 to 1.
    pub fn shares(&self) -> Vec<f64> {
        let (visits, all) = (self.visits(), self.pages_per_session());
        visits.into_iter().map(|visits| visits / all).collect()
    }

    /// Mean number of requests in a session.
    pub fn requests_per_session(&self) -> f64 {
        let requests = self.pages.iter().map(|page| 1.0 + page.embedded.len() as f64);
        self.visits().iter().zip(requests).map(|(visits, requests)| visits * requests).sum()
    }

    /// The same users for a run that is `factor` times as fast. The users think less and receive
    /// faster, so that the share of time spent receiving stays the same.
    pub fn compressed(mut self, factor: f64) -> Self {
        self.think = self.think.compressed(factor);
        self.receive_rate = self.receive_rate.map(|rate| (rate as f64 * factor) as u64);
        if factor != 1.0 {
            self.name = format!("{} compressed {factor} times", self.name);
        }
        self
    }
}
