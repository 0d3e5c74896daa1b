//! Arrivals of an open loop, and their division among groups of users.
//!
//! Syntax: `1000` (Poisson, per second), `poisson:1000`, `constant:1000`,
//! `steps:10s@100,20s@500,10s@1000` (each step a Poisson process), or `FILE` with a time in seconds
//! per line. Each group draws its part alone, because a thinned Poisson process is a Poisson
//! process, and every n-th arrival of a row is a row. Tested here.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::think::parse_time;
use crate::random::Random;

/// The arrival times of requests or sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Arrivals {
    /// Independent arrivals with this mean number per second.
    Poisson(f64),
    /// Evenly spaced arrivals with this number per second.
    Constant(f64),
    /// Poisson processes, one after the other. The last continues without end.
    Steps(Vec<ArrivalStep>),
    /// Arrivals at these times after the start, ascending.
    Recorded(Arc<[Duration]>),
}

/// A part of [`Arrivals::Steps`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrivalStep {
    /// Duration of the step.
    pub lasts: Duration,
    /// Arrivals per second.
    pub rate: f64,
}

/// A text without arrivals.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArrivalsError {
    /// The text has another format.
    #[error(
        "{0:?} tells no arrivals: write a rate per second (1000, poisson:1000, constant:1000) or steps:10s@100,10s@500; \
         a rate is at least 0.00001 and at most 1000000000"
    )]
    Form(String),
    /// A line of the file is not a time.
    #[error("line {line}: {text:?} is no time in seconds that is not before the one above")]
    Line {
        /// The line number, from 1.
        line: usize,
        /// The text of the line.
        text: String,
    },
    /// The file has no time.
    #[error("it has no arrival: write a time in seconds on each line, such as 0.5")]
    Empty,
}

impl Arrivals {
    /// Recorded arrivals, from text with a time in seconds per line. Empty lines and text after `#`
    /// are ignored.
    ///
    /// # Errors
    /// [`ArrivalsError::Line`] for a line that is not a time, or is before the previous time;
    /// [`ArrivalsError::Empty`] without any time.
    pub fn recorded(text: &str) -> Result<Self, ArrivalsError> {
        let mut times: Vec<Duration> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let wrong = || ArrivalsError::Line { line: index + 1, text: line.to_owned() };
            let seconds: f64 = line.parse().map_err(|_| wrong())?;
            let at = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
            if times.last().is_some_and(|&before| at < before) {
                return Err(wrong());
            }
            times.push(at);
        }
        if times.is_empty() {
            return Err(ArrivalsError::Empty);
        }
        Ok(Self::Recorded(times.into()))
    }

    /// The total duration of steps; `None` for arrivals without steps.
    pub fn steps_last(&self) -> Option<Duration> {
        match self {
            Self::Steps(steps) => Some(steps.iter().map(|step| step.lasts).sum()),
            Self::Poisson(_) | Self::Constant(_) | Self::Recorded(_) => None,
        }
    }

    /// The arrivals of part `part` of `parts`, drawn from `seed`.
    pub fn schedule(&self, part: usize, parts: usize, seed: u64) -> Schedule {
        Schedule {
            arrivals: self.clone(),
            parts: parts as f64,
            stride: parts,
            next_index: part,
            // The streams of users count from 0, so these streams count from the other end.
            random: Random::new(seed, u64::MAX - part as u64),
            at: Duration::ZERO,
        }
    }
}

/// The arrivals of one part, drawn one after the other.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    parts: f64,
    stride: usize,
    next_index: usize,
    random: Random,
    /// The last arrival.
    at: Duration,
}

impl Schedule {
    /// The number of the next arrival among all parts, and its time from the start; `None` after
    /// the last recorded arrival.
    pub fn draw(&mut self) -> Option<(usize, Duration)> {
        let index = self.next_index;
        self.next_index += self.stride;
        self.at = match &self.arrivals {
            Arrivals::Poisson(rate) => self.at + exponential(&mut self.random, rate / self.parts),
            Arrivals::Constant(rate) => Duration::from_secs_f64(index as f64 / rate),
            Arrivals::Steps(steps) => step_on(steps, self.parts, self.at, &mut self.random),
            Arrivals::Recorded(times) => *times.get(index)?,
        };
        Some((index, self.at))
    }

    /// Number of arrivals before `until`, from the start, that have not been drawn. Beyond
    /// `COUNTED_MAX` arrivals the number is the mean, which differs by some thousandths.
    pub fn undrawn(&self, until: Duration) -> u64 {
        let mut ahead = self.clone();
        let undrawn = std::iter::from_fn(|| ahead.draw()).take_while(|&(_, at)| at < until);
        let counted = undrawn.take(COUNTED_MAX).count() as u64;
        if counted < COUNTED_MAX as u64 { counted } else { counted + ahead.mean(until) }
    }

    /// The mean number of arrivals between the last arrival and `until`.
    fn mean(&self, until: Duration) -> u64 {
        let (from, to) = (self.at.as_secs_f64(), until.as_secs_f64());
        let of_rate = |rate: f64, from: f64, to: f64| (to - from).max(0.0) * rate / self.parts;
        let mean = match &self.arrivals {
            Arrivals::Poisson(rate) | Arrivals::Constant(rate) => of_rate(*rate, from, to),
            Arrivals::Steps(steps) => {
                let (mut begins, mut sum) = (0.0, 0.0);
                for (index, step) in steps.iter().enumerate() {
                    let ends = begins + step.lasts.as_secs_f64();
                    let ends_here = if index + 1 == steps.len() { to } else { ends.min(to) };
                    sum += of_rate(step.rate, from.max(begins), ends_here);
                    begins = ends;
                }
                sum
            }
            Arrivals::Recorded(times) => {
                let left = times.iter().skip(self.next_index).step_by(self.stride);
                return left.take_while(|&&at| at < until).count() as u64;
            }
        };
        mean.round() as u64
    }
}

/// Arrivals that [`Schedule::undrawn`] counts one by one: some ten milliseconds of counting.
const COUNTED_MAX: usize = 1_000_000;
/// The lowest and the highest rate per second. A run lasts a day at most, so a lower rate has no
/// arrival; a higher rate is above any injector. Within these bounds no time overflows.
const RATES: RangeInclusive<f64> = 1e-5..=1e9;

fn exponential(random: &mut Random, rate: f64) -> Duration {
    Duration::try_from_secs_f64(random.exponential(1.0 / rate)).unwrap_or(Duration::MAX / 4)
}

/// The next arrival after `at`: the steps consume an exponential variate of mean 1, each at its
/// rate.
fn step_on(steps: &[ArrivalStep], parts: f64, at: Duration, random: &mut Random) -> Duration {
    let (mut left, mut now, mut begins) = (random.exponential(1.0), at.as_secs_f64(), 0.0);
    for (index, step) in steps.iter().enumerate() {
        let ends = begins + step.lasts.as_secs_f64();
        let (rate, is_last) = (step.rate / parts, index + 1 == steps.len());
        if now < ends || is_last {
            now = now.max(begins);
            let needed = left / rate;
            if is_last || now + needed <= ends {
                return Duration::try_from_secs_f64(now + needed).unwrap_or(Duration::MAX / 4);
            }
            left -= (ends - now) * rate;
            now = ends;
        }
        begins = ends;
    }
    Duration::MAX / 4
}

impl FromStr for Arrivals {
    type Err = ArrivalsError;

    fn from_str(text: &str) -> Result<Self, ArrivalsError> {
        let wrong = || ArrivalsError::Form(text.to_owned());
        let rate = |text: &str| text.parse().ok().filter(|rate| RATES.contains(rate));
        match text.split_once(':') {
            None => rate(text).map(Self::Poisson).ok_or_else(wrong),
            Some(("poisson", text)) => rate(text).map(Self::Poisson).ok_or_else(wrong),
            Some(("constant", text)) => rate(text).map(Self::Constant).ok_or_else(wrong),
            Some(("steps", text)) => {
                let step = |step: &str| {
                    let (lasts, per_second) = step.split_once('@')?;
                    Some(ArrivalStep { lasts: parse_time(lasts)?, rate: rate(per_second)? })
                };
                let steps: Option<Vec<_>> = text.split(',').map(step).collect();
                steps.map(Self::Steps).ok_or_else(wrong)
            }
            Some(_) => Err(wrong()),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisson(rate) => write!(f, "poisson:{rate}"),
            Self::Constant(rate) => write!(f, "constant:{rate}"),
            Self::Steps(steps) => {
                let steps: Vec<_> =
                    steps.iter().map(|step| format!("{:?}@{}", step.lasts, step.rate)).collect();
                write!(f, "steps:{}", steps.join(","))
            }
            Self::Recorded(times) => write!(f, "{} recorded arrivals", times.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three injectors with one, two and four groups draw every arrival of a row exactly once.
    #[test]
    fn injectors_divide_arrivals_for_any_group_counts() {
        let row = Arrivals::Constant(100.0);
        let mut drawn = Vec::new();
        for (index, groups) in [1, 2, 4].into_iter().enumerate() {
            for group in 0..groups {
                let mut schedule = row.schedule(index + 3 * group, 3 * groups, 1);
                let within = std::iter::from_fn(|| schedule.draw()).take_while(|(number, _)| *number < 600);
                drawn.extend(within.map(|(number, _)| number));
            }
        }
        drawn.sort_unstable();
        assert_eq!(drawn, (0..600).collect::<Vec<_>>());
    }

    /// The arrivals of all parts within `seconds`, in order.
    fn all(arrivals: &Arrivals, parts: usize, seconds: u64) -> Vec<Duration> {
        let mut times: Vec<_> = (0..parts)
            .flat_map(|part| {
                let mut schedule = arrivals.schedule(part, parts, 5);
                std::iter::from_fn(move || Some(schedule.draw()?.1))
                    .take_while(|&at| at < Duration::from_secs(seconds))
                    .collect::<Vec<_>>()
            })
            .collect();
        times.sort();
        times
    }

    #[test]
    fn every_part_count_gives_the_rate() {
        for parts in [1, 2, 7] {
            let poisson = all(&"1000".parse().unwrap(), parts, 100);
            assert!((98_000..102_000).contains(&poisson.len()), "{}", poisson.len());
            let constant = all(&"constant:1000".parse().unwrap(), parts, 10);
            assert_eq!(constant.len(), 10_000);
            let gaps = constant.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(gaps.into_iter().all(|gap| gap.abs_diff(Duration::from_millis(1)).as_nanos() < 10));
        }
    }

    /// The standard deviation of a Poisson process's gaps equals the mean.
    #[test]
    fn poisson_gaps_are_exponential() {
        let times = all(&Arrivals::Poisson(100.0), 3, 1000);
        let gaps: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02);
    }

    #[test]
    fn steps_have_their_rates() {
        let arrivals: Arrivals = "steps:10s@100,10s@1000,10s@50".parse().unwrap();
        let times = all(&arrivals, 2, 60);
        let between = |from, to| times.iter().filter(|at| (from..to).contains(&at.as_secs())).count() as f64;
        assert!((between(0, 10) / 1000.0 - 1.0).abs() < 0.1);
        assert!((between(10, 20) / 10_000.0 - 1.0).abs() < 0.05);
        assert!((between(20, 60) / 2000.0 - 1.0).abs() < 0.1, "the last step goes on");
    }

    #[test]
    fn undrawn_arrivals_are_counted() {
        let mut row = Arrivals::Constant(100.0).schedule(1, 2, 1);
        assert_eq!(row.undrawn(Duration::from_secs(1)), 50, "every other of a hundred");
        assert_eq!((0..20).filter_map(|_| row.draw()).count(), 20);
        assert_eq!(row.undrawn(Duration::from_secs(1)), 30);
        assert_eq!(row.draw().expect("there is no end").0, 41, "counting draws nothing");
        let recorded = Arrivals::recorded("0\n0.5\n2\n").unwrap();
        assert_eq!(recorded.schedule(0, 1, 1).undrawn(Duration::from_secs(10)), 3);
        assert_eq!(recorded.steps_last(), None);
        let steps: Arrivals = "steps:10s@100,5s@500".parse().unwrap();
        assert_eq!(steps.steps_last(), Some(Duration::from_secs(15)));
    }

    /// Regression: the count stopped at 50 million on each core, and took seconds.
    #[test]
    fn every_undrawn_arrival_of_a_high_rate_counts() {
        let hour = Duration::from_secs(3600);
        for text in ["1e8", "constant:1e8", "steps:60s@1e8,1s@1e8", "steps:7200s@1e8"] {
            let mut row = text.parse::<Arrivals>().unwrap().schedule(0, 2, 1);
            let undrawn = row.undrawn(hour) as f64;
            assert!((undrawn / 1.8e11 - 1.0).abs() < 1e-3, "{text}: {undrawn}");
            assert_eq!((0..1000).filter_map(|_| row.draw()).count(), 1000);
            assert!(row.undrawn(Duration::from_micros(1)) <= 1, "{text}");
        }
        let many = Arrivals::Recorded((0..3_000_000).map(Duration::from_micros).collect());
        assert_eq!(many.schedule(1, 2, 1).undrawn(hour), 1_500_000);
    }

    #[test]
    fn records_are_replayed() {
        let arrivals = Arrivals::recorded("# seconds\n0\n0.5\n0.5\n\n2\n").unwrap();
        let expected = [0.0, 0.5, 0.5, 2.0].map(Duration::from_secs_f64);
        assert_eq!(all(&arrivals, 3, 10), expected);
        let wrong = Arrivals::recorded("1\n0.5\n").unwrap_err().to_string();
        assert!(wrong.starts_with("line 2"), "{wrong}");
        // Regression: a run without requests asked whether the server was up.
        assert_eq!(Arrivals::recorded("# nothing\n"), Err(ArrivalsError::Empty));
    }

    #[test]
    fn printed_arrivals_read_back() {
        for text in ["poisson:1000", "constant:0.5", "steps:10s@100,200ms@5"] {
            assert_eq!(text.parse::<Arrivals>().unwrap().to_string(), text);
        }
        for text in
            ["", "0", "-1", "x:1", "steps:", "steps:1s", "inf", "NaN", "constant:1e-20", "1e-300", "1e10"]
        {
            assert!(text.parse::<Arrivals>().unwrap_err().to_string().contains("steps:10s@100"), "{text}");
        }
    }
}
