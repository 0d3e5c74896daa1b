//! A run from the plan to the record: run, check, judge. Once, or in search of the maximum number
//! of users.
//!
//! Tested through `tests/`. The tests here check which trials of a search say nothing.

use std::ops::ControlFlow;

use crate::agents::Fleet;
use crate::error::LoadError;
use crate::job::LoadJob;
use crate::preflight::speaks_tls;
use crate::quality::Quality;
use crate::report::{Record, RecordSubject};
use crate::run::{Outcome, RunObserver, RunProgress};
use crate::search::{SearchOptions, SearchResult, TrialResult, search};
use crate::url::Scheme;
use crate::verdict::{Gates, ValidityWarning};

/// The source of the load.
#[derive(Debug)]
pub enum LoadInjector<'a> {
    /// This process.
    Here,
    /// Agents, on other machines or this machine.
    Agents(&'a mut Fleet),
}

impl LoadJob {
    /// Runs the job once.
    ///
    /// # Errors
    /// The job cannot begin.
    pub fn run(
        &self,
        subject: &RecordSubject,
        mut who: LoadInjector<'_>,
        watch: &mut dyn RunObserver,
    ) -> Result<Record, LoadError> {
        let outcome = self.made_by(&mut who, watch)?;
        let mut doubts = self.doubts(&outcome);
        if matches!(who, LoadInjector::Here) {
            doubts.extend(self.other_scheme(&outcome));
        }
        let mut record = Record::new(subject.clone(), &outcome, &doubts);
        if let Self::Sessions(plan) = self {
            record.quality = Some(plan.quality.judge(&outcome.total, &subject.sets));
        }
        Ok(record)
    }

    /// Runs the job with more and fewer users, in search of the maximum number that holds the
    /// quality. The record is the record of the last run with the found number of users. `watch`
    /// may end the search.
    ///
    /// # Errors
    /// A run cannot begin.
    pub fn find_max(
        &self,
        subject: &RecordSubject,
        options: SearchOptions,
        mut who: LoadInjector<'_>,
        watch: &mut dyn RunObserver,
    ) -> Result<Record, LoadError> {
        let mut records: Vec<Record> = Vec::new();
        let (mut ended, mut has_held) = (false, false);
        let mut trial = |users: usize, attempt: u64| {
            if ended {
                return Ok(None);
            }
            let job = self.with(users, attempt);
            let mut inner = |progress: RunProgress<'_>| {
                let seen = watch.see(progress);
                ended |= seen.is_break();
                seen
            };
            let outcome = job.made_by(&mut who, &mut inner)?;
            if ended {
                return Ok(None);
            }
            let record = job.judged(subject, &outcome, has_held);
            let result = trial_of(&record);
            has_held |= result.held;
            records.push(record);
            Ok(Some(result))
        };
        let found = search::<LoadError>(options, &mut trial)?;
        Ok(self.best(subject, records, found))
    }

    /// The outcome without a judgement, made by `who`.
    fn made_by(&self, who: &mut LoadInjector<'_>, watch: &mut dyn RunObserver) -> Result<Outcome, LoadError> {
        match who {
            LoadInjector::Here => self.outcome(watch),
            LoadInjector::Agents(fleet) => fleet.run(self, watch),
        }
    }

    /// The same job with this number of users, and with other random numbers for each attempt.
    fn with(&self, users: usize, attempt: u64) -> Self {
        let mut job = self.clone();
        match &mut job {
            Self::Simple(plan) => {
                plan.connections = users;
                plan.common.seed = plan.common.seed.wrapping_add(attempt);
            }
            Self::Sessions(plan) => {
                plan.users = users;
                plan.common.seed = plan.common.seed.wrapping_add(attempt);
            }
        }
        job
    }

    fn quality(&self) -> &Quality {
        match self {
            Self::Simple(plan) => &plan.quality,
            Self::Sessions(plan) => &plan.quality,
        }
    }

    fn doubts(&self, outcome: &Outcome) -> Vec<ValidityWarning> {
        match self {
            Self::Simple(_) => Gates::default().judge(outcome),
            Self::Sessions(plan) => Gates::for_quality(plan.quality.good).judge(outcome),
        }
    }

    /// A run over `http://` without a good answer may have met a TLS server.
    fn other_scheme(&self, outcome: &Outcome) -> Option<ValidityWarning> {
        let url = match self {
            Self::Simple(plan) => &plan.urls[0],
            Self::Sessions(plan) => &plan.url,
        };
        let total = &outcome.total;
        if url.scheme != Scheme::Http || total.good > 0 || total.failed() == 0 {
            return None;
        }
        let sets = self.common().sets_of(url).ok()?;
        let addr = *sets.first()?.addrs.first()?;
        speaks_tls(addr).then_some(ValidityWarning::SpeaksTls { addr })
    }

    /// The record of a trial. `has_held` says whether an earlier trial has held.
    fn judged(&self, subject: &RecordSubject, outcome: &Outcome, has_held: bool) -> Record {
        let quality = self.quality();
        let gates = Gates::for_quality(quality.good);
        let mut doubts = gates.judge(outcome);
        let (answers, window) = (outcome.total.good, outcome.window);
        // A run that overloads the server answers few pages, or none. That is the result of the
        // trial, not a doubt, unless no trial has ever held. Failures and waits are part of the
        // quality.
        doubts.retain(|doubt| {
            !matches!(
                doubt,
                ValidityWarning::TooShort { .. }
                    | ValidityWarning::Failures { .. }
                    | ValidityWarning::Hanging { .. }
            )
        });
        let is_too_much = if answers == 0 { has_held } else { !quality.is_undecided(&outcome.total) };
        if window < gates.window_min || !is_too_much {
            doubts.push(ValidityWarning::too_short(outcome));
        }
        let mut record = Record::new(subject.clone(), outcome, &doubts);
        record.quality = Some(quality.judge(&outcome.total, &subject.sets));
        record
    }

    /// The record of the last run with the found number of users, or else of the last run.
    fn best(&self, subject: &RecordSubject, mut records: Vec<Record>, found: SearchResult) -> Record {
        let place = records.iter().rposition(|record| record.users == found.users);
        let place = place.unwrap_or(records.len().saturating_sub(1));
        let mut record = match records.is_empty() {
            true => Record::nothing(subject.clone()),
            false => records.swap_remove(place),
        };
        if found.confidence.starts_with("ended early") {
            record.valid = false;
            record.doubts.push(format!("the search was not finished: {}", found.confidence));
        }
        record.search = Some(found);
        record
    }
}

fn trial_of(record: &Record) -> TrialResult {
    let quality = record.quality.clone().unwrap_or_default();
    TrialResult {
        users: record.users,
        held: quality.held,
        valid: record.valid,
        doubts: record.doubts.clone(),
        rate: record.rate,
        good_share: quality.good_share,
        tolerable_share: quality.tolerable_share,
        failed_share: quality.failed_share,
        p99_ns: record.response.percentile(99.0).map(|time| time.as_nanos() as u64),
    }
}

/// Runs to the end without a watcher.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl RunObserver for Unwatched {
    fn see(&mut self, _: RunProgress<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::SimplePlan;
    use crate::verdict::tests::fine;

    /// Regression: a search against a server that was down, or with too short runs, found that no
    /// user held the quality, and was valid.
    #[test]
    fn trial_without_measurements_raises_doubt() {
        let job = LoadJob::Simple(Box::new(SimplePlan::new("http://a/".parse().unwrap())));
        let doubts = |good: u64, within: u64, failed: u64, has_held: bool| {
            let mut outcome = fine();
            (outcome.total.good, outcome.total.within) = (good, [within; 2]);
            outcome.total.faults[crate::Fault::Refused as usize] = failed;
            job.judged(&RecordSubject::default(), &outcome, has_held).doubts.join("; ")
        };
        assert!(doubts(0, 0, 500, false).contains("not one good answer"));
        assert!(doubts(18, 18, 0, false).contains("--users-from"));
        assert!(doubts(18, 17, 0, true).contains("too little"));
        for (good, within, failed, has_held) in
            [(0, 0, 500, true), (18, 2, 0, false), (60, 0, 60, false), (500, 500, 0, false)]
        {
            assert_eq!(doubts(good, within, failed, has_held), "", "{good} {within} {failed}");
        }
    }
}
