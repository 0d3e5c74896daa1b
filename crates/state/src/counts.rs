//! Counts of a core's answers: by status, by duration and by host.
//!
//! Only the core writes its counts, and no other thread reads them. The status asks each core by
//! message for a copy, so counting needs neither locks nor shared cache lines. Leaves out the form
//! for readers (`crates/server/src/status.rs`). Tested below, and through the binary
//! (`crates/e2e/tests/e2e/metrics.rs`).

mod shown_hosts;

pub use shown_hosts::ShownHosts;

use foldhash::fast::RandomState;
use std::{collections::HashMap, iter::Sum, sync::Arc};
use vermeil_exchange::{DurationCounts, Sent};
use vermeil_io::Clock;
use vermeil_routing::hosts::{Host, HostId, Hosts};

/// The lowest status code, and the number of codes (RFC 9110, section 15).
const STATUS_MIN: u16 = 100;
const STATUSES: usize = 500;

/// Hosts that a core counts one by one. If another host is to be counted at the bound, the core
/// adds the counts of the quieter half to [`OTHERS`], and counts these hosts from zero again
/// (`counts/shown_hosts.rs`). The bound is 200 times the hosts that a status shows, and some
/// 300 KB.
const HOSTS_COUNTED_MAX: usize = 4096;

/// At the bound, every 16th request for another host adds that host to the counted hosts; the other
/// requests count with [`OTHERS`]. A busy host is soon counted again, and a crowd of quiet hosts
/// does not pay for names and sorting.
const ADMITTED_PART: u32 = 16;

/// The name of a host that has no name, and answers requests for unknown names.
const DEFAULT_HOST: &str = "(default)";
/// The name of any other host without a name, for example a wildcard.
const NAMELESS_HOST: &str = "(without name)";
/// The name of all hosts that are not counted one by one.
pub const OTHERS: &str = "(others)";

/// The start of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestStart {
    /// When the core had the whole head, on the clock of [`RequestCounts::now_ns`].
    pub began_ns: u64,
    /// The host, once known.
    host: Option<CountedHost>,
}

/// A host of one table of hosts. A reload brings another table.
#[derive(Clone, Copy, Debug)]
struct CountedHost {
    host: HostId,
    reloads: u64,
}

/// Whether an answer reached its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEnd {
    /// The kernel has the whole answer, or will get it without further steps.
    Complete,
    /// The client left, was too late, or the server cut the answer.
    Aborted,
}

/// The counts of one core.
pub struct RequestCounts {
    clock: Clock,
    answers: AnswerCounts,
    hosts: CountedHosts,
    /// The host of the request that is being answered.
    host: Option<HostId>,
    reloads: u64,
}

/// Counts of answers.
#[derive(Clone)]
pub struct AnswerCounts {
    statuses: Box<[u64; STATUSES]>,
    /// The durations of all answers.
    pub durations: DurationCounts,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Answers that did not reach their end.
    pub aborted: u64,
}

/// Counts of a host's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// All answers.
    pub requests: u64,
    /// Answers with a status from 500.
    pub errors: u64,
    /// Bytes of bodies.
    pub body_bytes: u64,
}

/// The counts of hosts, each by its name.
#[derive(Default)]
struct CountedHosts {
    counts: Vec<(Arc<str>, HostCounts)>,
    by_name: HashMap<Arc<str>, usize, RandomState>,
    by_id: HashMap<HostId, usize, RandomState>,
    /// The host of the last answer, because the next answer is mostly of the same host.
    recent: Option<(HostId, usize)>,
    others: HostCounts,
    /// Requests at the bound for hosts that are not counted one by one.
    turned_away: u32,
}

/// Requests and bytes of bodies of a core, at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerTotals {
    /// All answers.
    pub requests: u64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// When the core read its counts, on the clock of [`RequestCounts::now_ns`].
    pub at_ns: u64,
}

/// Requests and bytes of bodies per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AnswerRates {
    /// Requests per second.
    pub requests_per_s: f64,
    /// Bytes of bodies per second.
    pub body_bytes_per_s: f64,
}

/// A copy of a core's counts.
#[derive(Clone, Default)]
pub struct CountsSnapshot {
    /// The counts of all answers.
    pub answers: AnswerCounts,
    /// The counts of hosts, by name.
    pub hosts: Vec<(Arc<str>, HostCounts)>,
    /// The sum of all other hosts.
    pub others: HostCounts,
}

impl Default for AnswerCounts {
    fn default() -> Self {
        Self {
            statuses: Box::new([0; STATUSES]),
            durations: DurationCounts::default(),
            body_bytes: 0,
            aborted: 0,
        }
    }
}

impl Default for RequestCounts {
    fn default() -> Self {
        Self {
            clock: Clock::get(),
            answers: AnswerCounts::default(),
            hosts: CountedHosts::default(),
            host: None,
            reloads: 0,
        }
    }
}

impl RequestCounts {
    /// The present time, for durations.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// A request begins, and its host is not known yet.
    #[inline]
    pub fn begin(&mut self) {
        self.host = None;
    }

    /// The host that answers the request.
    #[inline]
    pub fn set_host(&mut self, host: HostId) {
        self.host = Some(host);
    }

    /// The start of the request that is being answered, for its end.
    #[inline]
    pub fn start(&self, began_ns: u64) -> RequestStart {
        let host = self.host.map(|host| CountedHost { host, reloads: self.reloads });
        RequestStart { began_ns, host }
    }

    /// The start of a request whose host is not known, now.
    pub fn start_now(&self) -> RequestStart {
        RequestStart { began_ns: self.now_ns(), host: None }
    }

    /// Counts an answer, and returns its duration in nanoseconds.
    #[inline]
    pub fn count(&mut self, hosts: &Hosts, start: RequestStart, sent: Sent, end: AnswerEnd) -> u64 {
        let duration_ns = self.now_ns().saturating_sub(start.began_ns);
        self.answers.count(duration_ns, sent, end);
        let host = self.host_of(start);
        self.hosts.of(hosts, host).count(sent);
        duration_ns
    }

    /// The host of a request, if known. A request that began before a reload may have an id of the
    /// former table.
    #[inline]
    pub(crate) fn host_of(&self, start: RequestStart) -> Option<HostId> {
        start.host.filter(|host| host.reloads == self.reloads).map(|host| host.host)
    }

    /// The table of hosts has changed, so ids have other meanings. Names keep their counts.
    pub fn change_hosts(&mut self) {
        self.reloads += 1;
        self.host = None;
        self.hosts.by_id.clear();
        self.hosts.recent = None;
    }

    /// Requests and bytes of bodies, now.
    pub fn totals(&self) -> AnswerTotals {
        AnswerTotals {
            requests: self.answers.requests(),
            body_bytes: self.answers.body_bytes,
            at_ns: self.now_ns(),
        }
    }

    /// A copy of the counts.
    pub fn snapshot(&self) -> CountsSnapshot {
        CountsSnapshot {
            answers: self.answers.clone(),
            hosts: self.hosts.counts.clone(),
            others: self.hosts.others,
        }
    }
}

impl AnswerTotals {
    /// The rates since `former`, the totals of the same core before. A core that answers late has
    /// counted for longer than the status slept, so only the core's own clock gives its rates.
    pub fn rates_since(&self, former: &Self) -> AnswerRates {
        let elapsed_s = self.at_ns.saturating_sub(former.at_ns) as f64 / 1e9;
        if elapsed_s == 0.0 {
            return AnswerRates::default();
        }
        let per_s = |before: u64, now: u64| now.saturating_sub(before) as f64 / elapsed_s;
        AnswerRates {
            requests_per_s: per_s(former.requests, self.requests),
            body_bytes_per_s: per_s(former.body_bytes, self.body_bytes),
        }
    }
}

impl Sum for AnswerRates {
    fn sum<I: Iterator<Item = Self>>(cores: I) -> Self {
        cores.fold(Self::default(), |sum, core| Self {
            requests_per_s: sum.requests_per_s + core.requests_per_s,
            body_bytes_per_s: sum.body_bytes_per_s + core.body_bytes_per_s,
        })
    }
}

impl AnswerCounts {
    #[inline]
    fn count(&mut self, duration_ns: u64, sent: Sent, end: AnswerEnd) {
        let status = usize::from(sent.status.saturating_sub(STATUS_MIN)).min(STATUSES - 1);
        self.statuses[status] += 1;
        self.durations.count(duration_ns);
        self.body_bytes += sent.body_bytes;
        self.aborted += u64::from(end == AnswerEnd::Aborted);
    }

    /// The status codes that were sent, each with its count, in order.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> {
        (STATUS_MIN..).zip(self.statuses.iter().copied()).filter(|(_, count)| *count > 0)
    }

    /// The number of counted answers.
    pub fn requests(&self) -> u64 {
        self.statuses.iter().sum()
    }

    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        self.statuses.iter_mut().zip(other.statuses.iter()).for_each(|(sum, count)| *sum += count);
        self.durations.add(&other.durations);
        self.body_bytes += other.body_bytes;
        self.aborted += other.aborted;
    }
}

impl HostCounts {
    #[inline]
    fn count(&mut self, sent: Sent) {
        self.requests += 1;
        self.errors += u64::from(sent.status >= 500);
        self.body_bytes += sent.body_bytes;
    }

    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.body_bytes += other.body_bytes;
    }

    /// Raises each count to the count of `other`, if that is higher.
    pub(crate) fn raise(&mut self, other: &Self) {
        self.requests = self.requests.max(other.requests);
        self.errors = self.errors.max(other.errors);
        self.body_bytes = self.body_bytes.max(other.body_bytes);
    }
}

impl CountedHosts {
    /// The counts of a host.
    #[inline]
    fn of(&mut self, hosts: &Hosts, host: Option<HostId>) -> &mut HostCounts {
        match (host, self.recent) {
            (Some(host), Some((recent, at))) if host == recent => &mut self.counts[at].1,
            (Some(host), _) => match self.find(hosts, host) {
                Some(at) => {
                    self.recent = Some((host, at));
                    &mut self.counts[at].1
                }
                None => &mut self.others,
            },
            (None, _) => &mut self.others,
        }
    }

    /// The position of a host's counts, which begin now if need be; `None` if the request counts
    /// with those of other hosts.
    fn find(&mut self, hosts: &Hosts, host: HostId) -> Option<usize> {
        if let Some(&at) = self.by_id.get(&host) {
            return Some(at);
        }
        let Host { name, .. } = hosts.host(host);
        let name = match name {
            Some(name) => String::from_utf8_lossy(name),
            None if host == hosts.default_host() => DEFAULT_HOST.into(),
            None => NAMELESS_HOST.into(),
        };
        let at = match self.by_name.get(&*name) {
            Some(&at) => at,
            None => {
                if self.counts.len() == HOSTS_COUNTED_MAX {
                    self.turned_away = (self.turned_away + 1) % ADMITTED_PART;
                    if self.turned_away != 0 {
                        return None;
                    }
                    self.forget_quieter_half();
                }
                let name: Arc<str> = name.into();
                self.counts.push((name.clone(), HostCounts::default()));
                self.by_name.insert(name, self.counts.len() - 1);
                self.counts.len() - 1
            }
        };
        self.by_id.insert(host, at);
        Some(at)
    }

    #[cold]
    fn forget_quieter_half(&mut self) {
        self.counts.sort_unstable_by_key(|(_, counts)| std::cmp::Reverse(counts.requests));
        for (_, counts) in self.counts.drain(HOSTS_COUNTED_MAX / 2..) {
            self.others.add(&counts);
        }
        self.by_id.clear();
        self.recent = None;
        let places = self.counts.iter().enumerate();
        self.by_name = places.map(|(at, (name, _))| (name.clone(), at)).collect();
    }
}

impl CountsSnapshot {
    /// The sum of the counts of cores.
    pub fn sum<'c>(cores: impl IntoIterator<Item = &'c Self>) -> Self {
        let mut sum = Self::default();
        let mut hosts: HashMap<Arc<str>, HostCounts, RandomState> = HashMap::default();
        for core in cores {
            sum.answers.add(&core.answers);
            sum.others.add(&core.others);
            for (name, counts) in &core.hosts {
                hosts.entry(name.clone()).or_default().add(counts);
            }
        }
        sum.hosts = hosts.into_iter().collect();
        sum
    }

    /// The counts of the `max` busiest hosts, the busiest first. The other hosts are added to
    /// [`others`](Self::others).
    pub(crate) fn keep_busiest(&mut self, max: usize) {
        self.hosts
            .sort_unstable_by(|(a_name, a), (b_name, b)| (b.requests, a_name).cmp(&(a.requests, b_name)));
        for (_, counts) in self.hosts.drain(max.min(self.hosts.len())..) {
            self.others.add(&counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vermeil_routing::hosts::{HostsBuilder, Rules, Unknown};

    const SENT: Sent = Sent { status: 200, body_bytes: 10 };

    fn hosts(names: impl IntoIterator<Item = String>) -> Hosts {
        let mut builder = HostsBuilder::new();
        for name in names {
            let host = builder.add(None, Rules::default());
            builder.name(host, &name.parse().expect("a name")).expect("each name once");
        }
        builder.build(Unknown::Refuse).expect("some hosts")
    }

    fn count(counts: &mut RequestCounts, hosts: &Hosts, name: &str, sent: Sent) {
        counts.begin();
        counts.set_host(hosts.find(Some(name.as_bytes())).expect("a host"));
        let start = counts.start(counts.now_ns());
        counts.count(hosts, start, sent, AnswerEnd::Complete);
    }

    #[test]
    fn busiest_hosts_are_counted_one_by_one() {
        let hosts = hosts(["a.example".to_owned(), "b.example".to_owned(), "c.example".to_owned()]);
        let mut counts = RequestCounts::default();
        for (name, times) in [("a.example", 1), ("b.example", 3), ("c.example", 2)] {
            (0..times).for_each(|_| count(&mut counts, &hosts, name, SENT));
        }
        count(&mut counts, &hosts, "c.example", Sent { status: 502, body_bytes: 1 });
        let mut sum = CountsSnapshot::sum([&counts.snapshot(), &counts.snapshot()]);
        sum.keep_busiest(2);
        let host = |requests, errors, body_bytes| HostCounts { requests, errors, body_bytes };
        assert_eq!(sum.hosts, [("b.example".into(), host(6, 0, 60)), ("c.example".into(), host(6, 2, 42))]);
        assert_eq!((sum.others, sum.answers.requests()), (host(2, 0, 20), 14));
        assert_eq!(sum.answers.statuses().collect::<Vec<_>>(), [(200, 12), (502, 2)]);
    }

    /// Regression: the counts of a stalled core, which answered late, were divided by the time that
    /// the status had slept.
    #[test]
    fn rates_follow_clock_of_each_core() {
        let at_ms = |requests: u64, ms: u64| {
            let (body_bytes, at_ns) = (10 * requests, ms * 1_000_000);
            AnswerTotals { requests, body_bytes, at_ns }
        };
        let prompt = at_ms(150, 1250).rates_since(&at_ms(100, 1000));
        let stalled = at_ms(200, 1500).rates_since(&at_ms(100, 1000));
        let each = AnswerRates { requests_per_s: 200.0, body_bytes_per_s: 2000.0 };
        assert_eq!([prompt, stalled], [each; 2]);
        let both = AnswerRates { requests_per_s: 400.0, body_bytes_per_s: 4000.0 };
        assert_eq!([prompt, stalled].into_iter().sum::<AnswerRates>(), both);
        assert_eq!(at_ms(100, 1000).rates_since(&at_ms(100, 1000)), AnswerRates::default());
    }

    #[test]
    fn number_of_counted_hosts_is_bounded() {
        let name = |n: usize| format!("h{n}.example");
        let hosts = hosts((0..HOSTS_COUNTED_MAX + 10).map(name));
        let mut counts = RequestCounts::default();
        (0..3).for_each(|_| count(&mut counts, &hosts, "h7.example", SENT));
        for n in 0..HOSTS_COUNTED_MAX + 10 {
            count(&mut counts, &hosts, &name(n), SENT);
        }
        let mut sum = counts.snapshot();
        assert!(sum.hosts.len() <= HOSTS_COUNTED_MAX);
        sum.keep_busiest(1);
        assert_eq!(sum.hosts[0].0.as_ref(), "h7.example");
        assert_eq!(sum.hosts[0].1.requests, 4);
        assert_eq!(sum.others.requests, (HOSTS_COUNTED_MAX + 10 - 1) as u64);
        // At the bound, most requests of other hosts do not add their host.
        let mut counts = RequestCounts::default();
        (0..HOSTS_COUNTED_MAX).for_each(|n| count(&mut counts, &hosts, &name(n), SENT));
        for n in 1..ADMITTED_PART as usize {
            count(&mut counts, &hosts, &name(HOSTS_COUNTED_MAX + n % 9), SENT);
            assert_eq!(counts.snapshot().hosts.len(), HOSTS_COUNTED_MAX);
        }
        count(&mut counts, &hosts, &name(HOSTS_COUNTED_MAX + 1), SENT);
        assert_eq!(counts.snapshot().hosts.len(), HOSTS_COUNTED_MAX / 2 + 1);
        for n in 0..HOSTS_COUNTED_MAX {
            count(&mut counts, &hosts, &name(n), SENT);
        }
        // A host that becomes busy is counted after a few requests.
        let last = name(HOSTS_COUNTED_MAX + 9);
        (0..100).for_each(|_| count(&mut counts, &hosts, &last, SENT));
        let mut sum = counts.snapshot();
        sum.keep_busiest(1);
        assert_eq!(*sum.hosts[0].0, *last);
        assert!(sum.hosts[0].1.requests > 100 - u64::from(ADMITTED_PART));
    }

    #[test]
    fn reload_keeps_counts_of_names() {
        let before = hosts(["a.example".to_owned(), "b.example".to_owned()]);
        let after = hosts(["b.example".to_owned(), "a.example".to_owned()]);
        let mut counts = RequestCounts::default();
        count(&mut counts, &before, "a.example", SENT);
        counts.set_host(before.find(Some(b"a.example")).expect("a host"));
        let old = counts.start(0);
        counts.change_hosts();
        count(&mut counts, &after, "a.example", SENT);
        counts.count(&after, old, SENT, AnswerEnd::Aborted);
        let sum = counts.snapshot();
        assert_eq!(sum.hosts, [("a.example".into(), HostCounts { requests: 2, errors: 0, body_bytes: 20 })]);
        assert_eq!((sum.others.requests, sum.answers.aborted), (1, 1));
    }
}
