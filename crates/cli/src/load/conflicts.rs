//! Options that exclude each other, found before anything is read or asked: who writes both means something that a run
//! would not do.
//!
//! What excludes another option whatever their values are is said where the options are defined. Tested in `load/tests.rs`.

use super::LoadArgs;
use super::resolve::Wrong;

/// What is asked for, as far as it decides which options make sense.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// URLs in turn.
    Urls,
    /// The requests of an access log.
    Log,
    /// Sessions of a workload.
    Sessions,
}

/// Two options, whether both are there, and what to do about it.
type Conflict = (&'static str, &'static str, bool, &'static str);

impl LoadArgs {
    /// Finds the first two options that exclude each other.
    pub(super) fn check_conflicts(&self, asked: Asked) -> Result<(), Wrong> {
        let found =
            self.of_requests(asked).into_iter().chain(self.of_time(asked)).find(|(_, _, both, _)| *both);
        found.map_or(Ok(()), |(one, other, _, cure)| Err(Wrong::Together { one, other, cure }))
    }

    fn of_requests(&self, asked: Asked) -> [Conflict; 5] {
        let (requests, quality) = (&self.requests, &self.quality);
        let (pipelines, sessions) = (requests.pipeline > 1, asked == Asked::Sessions);
        let good_after_tolerable =
            std::time::Duration::from(quality.good) > std::time::Duration::from(quality.tolerable);
        [
            (
                "--pipeline",
                "a workload",
                sessions && pipelines,
                "its users wait for each answer: leave --pipeline out",
            ),
            (
                "--http2",
                "a workload",
                sessions && requests.http2,
                "its users have HTTP/1.1 connections, as published: leave --http2 out",
            ),
            (
                "--pipeline",
                "--no-keepalive",
                pipelines && requests.no_keepalive,
                "requests are pipelined on a connection that is kept: leave one of them out",
            ),
            (
                "--http2",
                "--no-keepalive",
                requests.http2 && requests.no_keepalive,
                "streams share a connection that is kept: leave one of them out",
            ),
            (
                "--good",
                "--tolerable",
                good_after_tolerable,
                "what is good is tolerable: give --good a time that is no longer",
            ),
        ]
    }

    fn of_time(&self, asked: Asked) -> [Conflict; 9] {
        let (time, search) = (&self.time, &self.search);
        let (rate, arrivals) = (time.rate.is_some(), time.arrivals.is_some());
        let (thinks, log, sessions) = (time.think.is_some(), asked == Asked::Log, asked == Asked::Sessions);
        let compresses = time.compress != 1.0;
        let own_think = "in an open loop requests arrive whatever the answers before took: leave --think out";
        let own_times = "requests arrive when the log says, and --compress makes that faster: leave it out";
        let searched = "the search varies the users of a closed loop: leave one of them out";
        [
            ("--rate", "an access log", log && rate, own_times),
            ("--arrivals", "an access log", log && arrivals, own_times),
            ("--think", "an access log", log && thinks, own_times),
            ("--think", "--rate", !sessions && thinks && rate, own_think),
            ("--think", "--arrivals", !sessions && thinks && arrivals, own_think),
            (
                "--compress",
                "URLs alone",
                asked == Asked::Urls && compresses && !thinks,
                "there are no think times to shorten: leave it out, or give --think or a workload",
            ),
            ("--find-max", "--rate", search.find_max && rate, searched),
            ("--find-max", "--arrivals", search.find_max && arrivals, searched),
            (
                "--find-max",
                "--requests",
                search.find_max && time.requests_max.is_some(),
                "each run of the search lasts --duration: leave --requests out",
            ),
        ]
    }
}
