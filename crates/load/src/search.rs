//! Searches the largest number of users that holds a quality: bracketing, bisection with repeats,
//! confirmation.
//!
//! A run decides whether a number of users holds. Near the limit, runs disagree. So a point counts
//! by the majority of up to three runs, and the result is run again. The confidence is the exact
//! binomial bound of the confirming runs (Clopper and Pearson, Biometrika 1934). Pure: a trial is a
//! function. Tested here on knees with planted noise.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::old_records::unless_zero;

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// The largest number of users that held the quality.
    pub users: usize,
    /// The largest number of users that held, and the smallest number that did not, with the
    /// confidence below.
    pub bracket: (usize, usize),
    /// The confidence in words.
    pub confidence: String,
    /// Every trial, in order.
    pub trials: Vec<TrialResult>,
}

/// One trial of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Number of users.
    pub users: usize,
    /// Whether the quality was held.
    pub held: bool,
    /// Whether the run is valid.
    pub valid: bool,
    /// The reasons against the run.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// Good answers per second.
    pub rate: f64,
    /// Share of good answers.
    pub good_share: f64,
    /// Share of tolerable answers.
    pub tolerable_share: f64,
    /// Share of failures.
    pub failed_share: f64,
    /// 99th percentile of response times, if enough answers support the percentile.
    #[serde(deserialize_with = "unless_zero")]
    pub p99_ns: Option<u64>,
}

/// Options of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchOptions {
    /// Users of the first trial.
    pub from: usize,
    /// Maximum number of users.
    pub users_max: usize,
    /// The search ends at this width of the bracket, as a share of the users.
    pub precision: f64,
    /// Number of confirming runs of the result.
    pub confirmations: u32,
}

impl Default for SearchOptions {
    /// From 64 users to a million, and to 2 %, about the difference between such runs. Five
    /// confirmations: the next run also holds more likely than not, with 95 % confidence.
    fn default() -> Self {
        Self { from: 64, users_max: 1_000_000, precision: 0.02, confirmations: 5 }
    }
}

/// Maximum number of runs of a point while bisecting.
const REPEATS: usize = 3;
/// Number of consecutive untrustworthy runs after which the search gives up, because their results
/// say nothing about the server.
const DOUBTFUL_MAX: usize = 2;

/// A search and its trials.
struct Search<'a, E> {
    options: SearchOptions,
    trial: &'a mut dyn FnMut(usize, u64) -> Result<Option<TrialResult>, E>,
    trials: Vec<TrialResult>,
    /// Why the search ended early.
    ended: Option<String>,
}

/// Searches. `trial` gets the number of users and of the attempt, from which all random numbers
/// should be derived. A trial returns `None` if the user has ended the search.
///
/// # Errors
/// The error of the first trial, if that cannot begin. A later one ends the search early.
pub fn search<E: fmt::Display>(
    options: SearchOptions,
    trial: &mut dyn FnMut(usize, u64) -> Result<Option<TrialResult>, E>,
) -> Result<SearchResult, E> {
    let mut search = Search { options, trial, trials: Vec::new(), ended: None };
    let (mut low, mut high) = search.bracket()?;
    while search.ended.is_none() && low > 0 && is_wide(low, high, options.precision) {
        let middle = low + (high - low) / 2;
        match search.holds(middle, REPEATS)? {
            Some(true) => low = middle,
            Some(false) => high = middle,
            None => break,
        }
    }
    let (held, runs) = search.confirm(&mut low, &mut high)?;
    let confidence = match search.ended {
        Some(why) => format!("ended early: {why}"),
        None if low == 0 => "not even one user holds it".to_owned(),
        None => in_words(low, high, options.users_max, held, runs),
    };
    Ok(SearchResult { users: low, bracket: (low, high), confidence, trials: search.trials })
}

fn is_wide(low: usize, high: usize, precision: f64) -> bool {
    high - low > 1 && (high - low) as f64 > precision * low as f64
}

impl<E: fmt::Display> Search<'_, E> {
    /// A number of users that holds, and a larger number that does not, by doubling or halving. The
    /// second is beyond `users_max` if all hold.
    fn bracket(&mut self) -> Result<(usize, usize), E> {
        let most = self.options.users_max.max(1);
        let mut users = self.options.from.clamp(1, most);
        let (mut low, mut high) = (0, most + 1);
        loop {
            match self.holds(users, 1)? {
                Some(true) => low = users,
                Some(false) => high = users,
                None => return Ok((low, high)),
            }
            users = match (low, high) {
                (0, 1) => return Ok((0, 1)),
                (0, high) => high / 2,
                (low, high) if high > most && low == most => return Ok((low, high)),
                (low, high) if high > most => (2 * low).min(most),
                found => return Ok(found),
            };
        }
    }

    /// Whether most of up to `runs` runs hold; `None` if the search must end.
    fn holds(&mut self, users: usize, runs: usize) -> Result<Option<bool>, E> {
        let mut counts = [0, 0];
        loop {
            let Some(held) = self.once(users)? else { return Ok(None) };
            counts[usize::from(held)] += 1;
            if counts[0].max(counts[1]) * 2 > runs {
                return Ok(Some(counts[1] > counts[0]));
            }
        }
    }

    /// The result of one trustworthy run.
    fn once(&mut self, users: usize) -> Result<Option<bool>, E> {
        let mut doubts: Vec<String> = Vec::new();
        for _ in 0..DOUBTFUL_MAX {
            let attempt = self.trials.len() as u64;
            let result = match (self.trial)(users, attempt) {
                Ok(Some(result)) => result,
                Ok(None) => {
                    self.ended = Some("the search was interrupted".to_owned());
                    return Ok(None);
                }
                Err(error) if self.trials.is_empty() => return Err(error),
                // The trials before have a result, which may have taken hours.
                Err(error) => {
                    self.ended = Some(format!("a run of {users} users cannot begin: {error}"));
                    return Ok(None);
                }
            };
            let (held, valid) = (result.held, result.valid);
            for doubt in &result.doubts {
                if !doubts.contains(doubt) {
                    doubts.push(doubt.clone());
                }
            }
            self.trials.push(result);
            if valid {
                return Ok(Some(held));
            }
        }
        self.ended = Some(format!("runs of {users} users cannot be trusted: {}", doubts.join("; ")));
        Ok(None)
    }

    /// Repeats the result until it has held often enough, and lowers the result if most runs do not
    /// hold. Returns the numbers of runs that held and of all runs.
    fn confirm(&mut self, low: &mut usize, high: &mut usize) -> Result<(u32, u32), E> {
        let wanted = self.options.confirmations;
        while *low > 0 && self.ended.is_none() && wanted > 0 {
            let (mut held, mut runs) = (0, 0);
            while runs < wanted && (runs - held) * 2 <= wanted {
                match self.once(*low)? {
                    Some(true) => held += 1,
                    Some(false) => {}
                    None => {
                        *low = self.most_held(*low);
                        return Ok((held, runs));
                    }
                }
                runs += 1;
            }
            if held * 2 > wanted {
                return Ok((held, runs));
            }
            *high = *low;
            let step = (*low as f64 * self.options.precision).ceil().max(1.0) as usize;
            *low = low.saturating_sub(step);
        }
        Ok((0, 0))
    }

    /// The largest number of users up to `users` that held in a trustworthy run; 0 if there is
    /// none. The result of a search that ends early was run.
    fn most_held(&self, users: usize) -> usize {
        let held = self.trials.iter().filter(|trial| trial.held && trial.valid && trial.users <= users);
        held.map(|trial| trial.users).max().unwrap_or(0)
    }
}

fn in_words(low: usize, high: usize, most: usize, held: u32, runs: u32) -> String {
    let bound = lower_bound(held, runs) * 100.0;
    let confirmed = match runs {
        0 => "not run again".to_owned(),
        _ => format!(
            "held in {held} of {runs} more runs: with 95 % confidence, more than {bound:.0} % of such runs hold it"
        ),
    };
    if high > most {
        format!("{confirmed}; more than {low} were not tried")
    } else {
        format!("{confirmed}; {high} do not")
    }
}

/// The largest probability that is too low, with 95 % confidence, to hold `held` times of `runs`:
/// the exact one-sided bound.
pub(crate) fn lower_bound(held: u32, runs: u32) -> f64 {
    if held == 0 {
        return 0.0;
    }
    // The chance to hold at least `held` times grows with the probability p, so bisect for 5 %.
    let chance = |p: f64| -> f64 {
        let mut term = (1.0 - p).powi(runs as i32);
        let mut sum = if held == 0 { term } else { 0.0 };
        for times in 1..=runs {
            term *= f64::from(runs - times + 1) / f64::from(times) * p / (1.0 - p);
            if times >= held {
                sum += term;
            }
        }
        sum
    };
    let (mut low, mut high) = (0.0, 1.0 - 1e-12);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if chance(middle) < 0.05 { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const OPTIONS: SearchOptions =
        SearchOptions { from: 64, users_max: 100_000, precision: 0.02, confirmations: 5 };

    /// Searches, where `holds` gives the probability that a number of users holds.
    fn found(options: SearchOptions, seed: u64, holds: impl Fn(usize) -> f64) -> SearchResult {
        let mut trial = |users: usize, attempt: u64| {
            let held = Random::new(seed, attempt).unit() < holds(users);
            Ok::<_, String>(Some(TrialResult { users, held, valid: true, ..TrialResult::default() }))
        };
        search(options, &mut trial).unwrap()
    }

    #[test]
    fn a_sharp_knee_is_found_to_the_precision() {
        for knee in [1, 2, 3, 63, 64, 65, 1000, 7950, 99_999] {
            let result = found(OPTIONS, 1, |users| f64::from(u8::from(users <= knee)));
            assert!(result.users <= knee && knee < result.bracket.1, "{knee}: {result:?}");
            assert!((knee - result.users) as f64 <= 0.02 * knee as f64, "{knee}: {}", result.users);
            assert!(result.confidence.contains("5 of 5") && result.confidence.contains("55 %"));
        }
    }

    /// The knee of a real server is a slope: from 100 % to 1 % over a tenth of the users.
    #[test]
    fn a_noisy_knee_is_found_in_its_slope() {
        for seed in 0..50 {
            let result = found(OPTIONS, seed, |users| (10.5 - users as f64 / 100.0).clamp(0.0, 1.0));
            assert!((900..1050).contains(&result.users), "seed {seed}: {}", result.users);
            assert!(result.trials.len() < 40);
        }
    }

    #[test]
    fn search_reports_no_capacity_and_unbounded_capacity() {
        let none = found(OPTIONS, 1, |_| 0.0);
        assert_eq!((none.users, none.bracket), (0, (0, 1)));
        assert!(none.confidence.contains("not even one"));
        let all = found(OPTIONS, 1, |_| 1.0);
        assert_eq!(all.users, 100_000);
        assert!(all.confidence.contains("were not tried"));
    }

    #[test]
    fn untrusted_runs_end_search() {
        let mut trial = |users: usize, _| {
            let valid = users < 500;
            let doubts = if valid { Vec::new() } else { vec!["the cpu was busy".to_owned()] };
            Ok::<_, String>(Some(TrialResult { users, held: true, valid, doubts, ..TrialResult::default() }))
        };
        let result = search(OPTIONS, &mut trial).unwrap();
        assert_eq!(result.users, 256);
        let said = "512 users cannot be trusted: the cpu was busy";
        assert!(result.confidence.ends_with(said), "{}", result.confidence);
    }

    /// Regression: hours of trials were lost when a later one could not begin, for want of ports.
    #[test]
    fn trials_before_one_that_cannot_begin_are_kept() {
        let mut trial = |users: usize, _| match users {
            ..500 => Ok(Some(TrialResult { users, held: true, valid: true, ..TrialResult::default() })),
            _ => Err("there are too few ports"),
        };
        let result = search(OPTIONS, &mut trial).unwrap();
        assert_eq!((result.users, result.trials.len()), (256, 3));
        let said = "a run of 512 users cannot begin: there are too few ports";
        assert_eq!(result.confidence, format!("ended early: {said}"));
        assert_eq!(
            search(SearchOptions { from: 512, ..OPTIONS }, &mut trial),
            Err("there are too few ports")
        );
    }

    #[test]
    fn caller_may_end_search() {
        let mut trial = |users: usize, attempt: u64| {
            Ok::<_, String>((attempt < 2).then(|| TrialResult {
                users,
                held: true,
                valid: true,
                ..TrialResult::default()
            }))
        };
        let result = search(OPTIONS, &mut trial).unwrap();
        assert_eq!((result.users, result.trials.len()), (128, 2));
        assert!(result.confidence.contains("was interrupted"));
    }

    /// Regression: the search ended with a number of users below the runs, which never ran.
    #[test]
    fn interrupted_confirmation_reports_number_that_ran() {
        // 128 users hold in the first run and in no later run, so the search goes below 128.
        let options = SearchOptions { users_max: 128, ..OPTIONS };
        let mut trial = |users: usize, attempt: u64| {
            let held = users == 64 || attempt == 1;
            let result = TrialResult { users, held, valid: true, ..TrialResult::default() };
            Ok::<_, String>([64, 128].contains(&users).then_some(result))
        };
        let result = search(options, &mut trial).unwrap();
        assert!(result.confidence.contains("was interrupted"), "{}", result.confidence);
        assert_eq!((result.users, result.bracket), (64, (64, 128)), "{:?}", result.trials);
    }

    #[test]
    fn bounds_are_those_of_the_tables() {
        for (held, runs, bound) in [(5, 5, 0.549), (3, 3, 0.368), (9, 10, 0.606), (4, 5, 0.343)] {
            assert!(
                (lower_bound(held, runs) - bound).abs() < 0.001,
                "{held} of {runs}: {}",
                lower_bound(held, runs)
            );
        }
        assert_eq!(lower_bound(0, 5), 0.0);
    }
}
