//! Quality of service: the response times that users of a site accept.
//!
//! The defaults are those of SPECweb2005 Support. A page is *good* or *tolerable* by the time of
//! the page with all its parts, a download by the rate of its bytes. Tested here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::measure::{CountedPart, Tally};
use crate::search::lower_bound;

/// Whether the run held the requested quality.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QualityResult {
    /// The requested quality in words.
    pub asked: String,
    /// Whether the quality was held.
    pub held: bool,
    /// Each broken clause in words.
    pub broken: Vec<String>,
    /// Share of good answers.
    pub good_share: f64,
    /// Share of tolerable answers.
    pub tolerable_share: f64,
    /// Share of failures.
    pub failed_share: f64,
    /// Pages that at the end were under way for longer than the limit of good, and of tolerable
    /// pages. Such a page is not good (not tolerable), whatever its later result.
    #[serde(default)]
    pub overdue: [u64; 2],
    /// The shares by set: good, tolerable, failed.
    pub sets: Vec<[f64; 3]>,
    /// The shares by page: good, tolerable, failed.
    pub pages: Vec<[f64; 3]>,
}

/// The required quality.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Longest time of a good page.
    pub good: Duration,
    /// Longest time of a tolerable page.
    pub tolerable: Duration,
    /// The share of pages that must be good, 0 to 1.
    pub good_share: f64,
    /// The share of pages that must be tolerable, 0 to 1.
    pub tolerable_share: f64,
    /// The share of pages that may fail, 0 to 1.
    pub failed_share: f64,
    /// Least rate of a good download, in bytes per second.
    pub good_rate: u64,
    /// Least rate of a tolerable download, in bytes per second.
    pub tolerable_rate: u64,
    /// Least number of pages, in total and in each set of addresses, for a result.
    pub answers_min: u64,
}

impl Default for Quality {
    fn default() -> Self {
        Self {
            good: Duration::from_secs(3),
            tolerable: Duration::from_secs(5),
            good_share: 0.95,
            tolerable_share: 0.99,
            failed_share: 0.005,
            good_rate: 99_000,
            tolerable_rate: 95_000,
            answers_min: 100,
        }
    }
}

impl Quality {
    /// The same quality for a run that is `factor` times as fast: downloads must be faster. Times
    /// stay, because the accepted response time depends on the server only.
    pub fn compressed(mut self, factor: f64) -> Self {
        let faster = |rate: u64| (rate as f64 * factor) as u64;
        (self.good_rate, self.tolerable_rate) = (faster(self.good_rate), faster(self.tolerable_rate));
        self
    }

    /// Whether a page that took `time` is good, and whether it is tolerable.
    pub(crate) fn of_time(&self, time: Duration) -> [bool; 2] {
        [time <= self.good, time <= self.tolerable]
    }

    /// Whether a download of `bytes` in `time` is good, and whether it is tolerable.
    pub(crate) fn of_rate(&self, bytes: u64, time: Duration) -> [bool; 2] {
        let rate = bytes as f64 / time.as_secs_f64().max(1e-9);
        [rate >= self.good_rate as f64, rate >= self.tolerable_rate as f64]
    }

    /// Judges whether `total` holds the quality: in total, and in every set of addresses.
    pub fn judge(&self, total: &Tally, set_names: &[String]) -> QualityResult {
        let ended = total.ended();
        // An overdue page is not good, whatever its later result.
        let within = |which: usize| share(total.within[which], ended + total.overdue[which]);
        let shares = [within(0), within(1), share(total.failed(), ended)];
        let mut broken = self.broken("", shares, ended);
        for (index, set) in total.sets.iter().enumerate() {
            let name = set_names.get(index).map_or("a set", String::as_str);
            broken.extend(self.broken(&format!("{name}: "), shares_of(set), set.good + set.failed));
        }
        QualityResult {
            asked: self.asked(),
            held: broken.is_empty(),
            broken,
            good_share: shares[0],
            tolerable_share: shares[1],
            failed_share: shares[2],
            overdue: total.overdue,
            sets: total.sets.iter().map(shares_of).collect(),
            pages: total.pages.iter().map(shares_of).collect(),
        }
    }

    /// Whether `total` has too few pages for a result. Few pages are enough if so many are not good
    /// that with 95 % confidence the share of all pages would be too low.
    pub(crate) fn is_undecided(&self, total: &Tally) -> bool {
        if total.ended() >= self.answers_min {
            // The total has enough pages. The result is undecided if a set of addresses has too
            // few, and no other clause is broken.
            let enough = Self { answers_min: 0, ..self.clone() };
            return !self.judge(total, &[]).held && enough.judge(total, &[]).held;
        }
        let pages = total.ended() + total.overdue[0];
        let bad = pages - total.within[0];
        lower_bound(bad as u32, pages as u32) <= 1.0 - self.good_share
    }

    fn broken(&self, whose: &str, shares: [f64; 3], answers: u64) -> Vec<String> {
        let percent = |share: f64| share * 100.0;
        let mut broken = Vec::new();
        if answers < self.answers_min {
            broken.push(format!("{whose}only {answers} pages, at least {} say something", self.answers_min));
        }
        if shares[0] < self.good_share {
            broken.push(format!(
                "{whose}good {:.2} % of {:.2} %",
                percent(shares[0]),
                percent(self.good_share)
            ));
        }
        if shares[1] < self.tolerable_share {
            let (is, asked) = (percent(shares[1]), percent(self.tolerable_share));
            broken.push(format!("{whose}tolerable {is:.2} % of {asked:.2} %"));
        }
        if shares[2] >= self.failed_share && shares[2] > 0.0 {
            let (is, allowed) = (percent(shares[2]), percent(self.failed_share));
            broken.push(format!("{whose}failed {is:.3} %, below {allowed:.3} % is allowed"));
        }
        broken
    }

    fn asked(&self) -> String {
        format!(
            "{} % within {:?}, {} % within {:?}, downloads at {} and {} B/s, under {} % failed",
            self.good_share * 100.0,
            self.good,
            self.tolerable_share * 100.0,
            self.tolerable,
            self.good_rate,
            self.tolerable_rate,
            self.failed_share * 100.0
        )
    }
}

fn shares_of(part: &CountedPart) -> [f64; 3] {
    shares([part.within[0], part.within[1], part.failed, part.good + part.failed])
}

/// The shares of good, tolerable and failed pages. A failed page is neither good nor tolerable.
fn shares([good, tolerable, failed, all]: [u64; 4]) -> [f64; 3] {
    [share(good, all), share(tolerable, all), share(failed, all)]
}

fn share(count: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { count as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;

    fn total(good: u64, tolerable: u64, neither: u64, failed: u64) -> Tally {
        let mut total = Tally { good: good + tolerable + neither, ..Tally::default() };
        total.within = [good, good + tolerable];
        total.faults[Fault::Timeout as usize] = failed;
        total
    }

    #[test]
    fn each_clause_is_judged() {
        let quality = Quality::default();
        let broken = |good, tolerable, neither, failed| {
            quality.judge(&total(good, tolerable, neither, failed), &[]).broken
        };
        assert!(broken(950, 40, 10, 0).is_empty());
        assert!(broken(949, 41, 10, 0)[0].contains("good 94.90 %"));
        assert!(broken(960, 29, 11, 0)[0].contains("tolerable 98.90 %"));
        assert!(broken(996, 0, 0, 4).is_empty());
        assert!(broken(995, 0, 0, 5)[0].contains("failed 0.500 %"));
        assert!(broken(99, 0, 0, 0)[0].contains("only 99"));
    }

    #[test]
    fn few_pages_reveal_only_large_faults() {
        let quality = Quality::default();
        let undecided = |good, neither, failed| quality.is_undecided(&total(good, 0, neither, failed));
        assert!(undecided(0, 0, 0) && undecided(18, 0, 0) && undecided(17, 1, 0) && undecided(98, 0, 1));
        assert!(!undecided(0, 2, 0) && !undecided(8, 0, 4) && !undecided(100, 0, 0) && !undecided(90, 10, 0));
        let few_of_a_set = CountedPart { good: 60, within: [60, 60], ..CountedPart::default() };
        let sets = vec![few_of_a_set.clone(), few_of_a_set];
        assert!(quality.is_undecided(&Tally { sets, ..total(120, 0, 0, 0) }));
        let waiting = Tally { overdue: [9, 0], ..total(9, 0, 0, 0) };
        assert!(!quality.is_undecided(&waiting), "a server that does not come to its pages");
    }

    #[test]
    fn pages_that_are_overdue_are_not_good() {
        let overdue = |overdue| Tally { overdue, ..total(1000, 0, 0, 0) };
        let judge = |overdue_pages| Quality::default().judge(&overdue(overdue_pages), &[]);
        assert!(judge([50, 10]).held);
        assert!(judge([53, 10]).broken[0].contains("good 94.97 %"));
        assert!(judge([50, 11]).broken[0].contains("tolerable 98.91 %"));
        assert_eq!(judge([53, 10]).overdue, [53, 10]);
    }

    #[test]
    fn every_set_must_meet_quality() {
        let mut total = total(2000, 0, 0, 0);
        let part = |good, within| CountedPart { good, within: [within, within], ..CountedPart::default() };
        total.sets = vec![part(1000, 1000), part(1000, 900)];
        let result = Quality::default().judge(&total, &["fast".to_owned(), "slow".to_owned()]);
        assert!(!result.held && result.broken.iter().all(|clause| clause.starts_with("slow: ")));
        assert_eq!(result.sets[1][0], 0.9);
    }

    #[test]
    fn pages_by_time_and_downloads_by_rate() {
        let quality = Quality::default();
        assert_eq!(quality.of_time(Duration::from_secs(3)), [true, true]);
        assert_eq!(quality.of_time(Duration::from_secs(4)), [false, true]);
        assert_eq!(quality.of_rate(97_000, Duration::from_secs(1)), [false, true]);
        assert_eq!(quality.compressed(10.0).of_rate(97_000, Duration::from_secs(1)), [false, false]);
    }
}
