//! Options that exclude each other, found before any file is read or any server is asked, because
//! no run could satisfy both options.
//!
//! Options that exclude each other for every value are declared with the options. Tested in
//! `load/tests.rs`.

use super::LoadArgs;
use super::resolve::LoadUsage;
use vermeil_load::{Scheme, Url};

/// The kind of run, as far as the kind decides which options make sense.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadRunKind {
    /// URLs in turn.
    Urls,
    /// The requests of an access log.
    Log,
    /// Sessions of a workload.
    Sessions,
}

/// Two options, whether both are present, and the cure.
type OptionConflict = (&'static str, &'static str, bool, &'static str);

impl LoadArgs {
    /// Finds the first two options that exclude each other.
    pub(super) fn check_conflicts(&self, asked: LoadRunKind) -> Result<(), LoadUsage> {
        let found = self
            .of_requests(asked)
            .into_iter()
            .chain(self.of_time(asked))
            .chain(self.of_log(asked))
            .chain(self.of_quality(asked))
            .chain(self.of_bounds(asked))
            .chain(self.of_place())
            .find(|(_, _, both, _)| *both);
        found.map_or(Ok(()), |(one, other, _, cure)| Err(LoadUsage::Together { one, other, cure }))
    }

    fn of_requests(&self, asked: LoadRunKind) -> [OptionConflict; 5] {
        let (requests, quality) = (&self.requests, self.quality.quality());
        let (pipelines, sessions) = (requests.pipeline > 1, asked == LoadRunKind::Sessions);
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
                quality.good > quality.tolerable,
                "a good answer is tolerable too: give --good a time that is not longer",
            ),
        ]
    }

    fn of_time(&self, asked: LoadRunKind) -> [OptionConflict; 12] {
        let (time, search) = (&self.time, &self.search);
        let (rate, arrivals) = (time.rate.is_some(), time.arrivals.is_some());
        let (thinks, log, sessions) =
            (time.think.is_some(), asked == LoadRunKind::Log, asked == LoadRunKind::Sessions);
        let compresses = time.compress != 1.0;
        let own_think = "in an open loop requests do not wait for earlier answers: leave --think out";
        let own_times = "requests arrive when the log says, and --compress makes that faster: leave it out";
        let one_each =
            "each arrival is one request on a free connection: leave --pipeline out, or raise the rate";
        let pipelines = self.requests.pipeline > 1;
        let last_request = self.ends_with_requests(asked);
        let searched = "the search varies the users of a closed loop: leave one of them out";
        [
            ("--rate", "an access log", log && rate, own_times),
            ("--arrivals", "an access log", log && arrivals, own_times),
            ("--think", "an access log", log && thinks, own_times),
            ("--think", "--rate", !sessions && thinks && rate, own_think),
            ("--think", "--arrivals", !sessions && thinks && arrivals, own_think),
            ("--pipeline", "--rate", !sessions && pipelines && rate, one_each),
            ("--pipeline", "--arrivals", !sessions && pipelines && arrivals, one_each),
            (
                "--ramp-down",
                last_request.unwrap_or("--requests"),
                time.ramp_down.is_some() && last_request.is_some(),
                "the run ends with the last request, before any ramp-down: leave --ramp-down out, or give --duration",
            ),
            (
                "--compress",
                "URLs alone",
                asked == LoadRunKind::Urls && compresses && !thinks,
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

    /// The option by which the last request ends the run; `None` if a time ends the run.
    fn ends_with_requests(&self, asked: LoadRunKind) -> Option<&'static str> {
        let time = &self.time;
        let given = [
            ("--requests", time.requests_max.is_some()),
            ("--arrivals", time.arrivals.is_some()),
            ("an access log", asked == LoadRunKind::Log),
        ];
        let found = given.into_iter().find(|(_, is_given)| *is_given && time.duration.is_none());
        found.map(|(option, _)| option)
    }

    /// Bounds in the wrong order, given or by default.
    fn of_bounds(&self, asked: LoadRunKind) -> [OptionConflict; 2] {
        let (search, quality) = (&self.search, self.quality.quality());
        [
            (
                "--users-from",
                "--users-max",
                search.users_from.is_some_and(|from| from > search.users_max),
                "the first run would have more users than any run may have: give --users-from a number that is not higher",
            ),
            (
                "--good-rate",
                "--tolerable-rate",
                asked == LoadRunKind::Sessions && quality.good_rate < quality.tolerable_rate,
                "a good download is tolerable too: give --tolerable-rate a rate that is not higher",
            ),
        ]
    }

    /// Options that another option decides. Not declared with the options, because clap takes an
    /// option that conflicts with a given option as present. So `-c 2 --users-from 5` would need no
    /// --find-max.
    fn of_place(&self) -> [OptionConflict; 3] {
        let by_agents = !self.agents.agents.is_empty();
        let own = "each agent sets it for itself: give it to `vermeil load agent`";
        [
            (
                "--find-max",
                "--connections",
                self.search.find_max && self.connections.is_some(),
                "the search varies the users: leave --connections out, or write --users-from and --users-max",
            ),
            ("--agents", "--cores", by_agents && self.cores.is_some(), own),
            ("--agents", "--io", by_agents && self.io.is_some(), own),
        ]
    }

    /// Options that conflict with a log, because the log decides these settings.
    fn of_log(&self, asked: LoadRunKind) -> [OptionConflict; 3] {
        let (requests, log) = (&self.requests, asked == LoadRunKind::Log);
        [
            (
                "--method",
                "an access log",
                log && requests.method.is_some(),
                "the log has methods: leave it out",
            ),
            (
                "--pipeline",
                "an access log",
                log && requests.pipeline > 1,
                "its requests come one by one, when the log says: leave --pipeline out",
            ),
            (
                "--find-max",
                "an access log",
                log && self.search.find_max,
                "the log says how many requests arrive: leave --find-max out",
            ),
        ]
    }

    /// Options of quality where no quality is judged.
    fn of_quality(&self, asked: LoadRunKind) -> impl Iterator<Item = OptionConflict> {
        let is_judged = asked == LoadRunKind::Sessions || self.search.find_max;
        let has_downloads = asked == LoadRunKind::Sessions;
        let what = if asked == LoadRunKind::Log { "an access log" } else { "URLs alone" };
        self.quality.given().into_iter().enumerate().map(move |(index, (option, is_given))| {
            let has_meaning = if index < 5 { is_judged } else { has_downloads };
            let cure = match (asked, index < 5) {
                (LoadRunKind::Log, _) => "no quality is judged there: leave it out, or use --fail-if",
                (_, true) => {
                    "no quality is judged there: leave it out, add --find-max or a workload, or use --fail-if"
                }
                (_, false) => "only pages of a workload are judged by their bytes per second, with or without --find-max: leave it out",
            };
            (option, what, is_given && !has_meaning, cure)
        })
    }

    /// Options of TLS where no URL has the scheme https.
    pub(super) fn check_tls(&self, urls: &[Url]) -> Result<(), LoadUsage> {
        let is_plain = urls.iter().all(|url| url.scheme == Scheme::Http);
        let given = [
            ("--insecure", self.requests.insecure),
            ("--ca", self.requests.ca.is_some()),
            ("--resume", self.requests.resume),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given && is_plain) {
            Some((one, _)) => Err(LoadUsage::Together {
                one,
                other: "http://",
                cure: "there is no TLS: leave it out, or give https://",
            }),
            None => Ok(()),
        }
    }
}
