//! A status as metrics, in the OpenMetrics text format (OpenMetrics 1.0,
//! <https://prometheus.io/docs/specs/om/open_metrics_spec/>).
//!
//! Every number comes from the records of the status, so a monitor and `vermeil status` agree. The
//! label `process` is the number of the instance. The label `instance` belongs to the monitor. The
//! number of series is bounded: hosts by `[hosts] counted_max`, cores and pools by the
//! configuration. Tested through the binary (`crates/e2e/tests/e2e/metrics.rs`).

use super::records::{
    AnswersStatus, CgiStatus, CompressionStatus, CoreStatus, DurationCount, HandlerStatus, HostAnswers,
    InstanceStatus, PhpPoolStatus, PhpStatus, ServerStatus, TlsStatus,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeMetric, NoLabelSet, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};
use std::fmt;

/// The exponents of the upper bounds of the duration histogram, in nanoseconds as powers of two:
/// from 33 µs to 17 s. The bounds are bounds of the counted classes too, so the counts are exact.
const BOUNDS: &[u32] = &[15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34];

/// The same for the times of programs: from 0.26 ms to 73 minutes, because programs may take that
/// long. Wider steps, because each pool has two histograms.
const PROGRAM_BOUNDS: &[u32] = &[18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42];

type Labels = Vec<(&'static str, String)>;

/// Durations in classes, and their sum in seconds.
type Durations<'s> = (&'s [DurationCount], f64);

/// A count of a status.
type TlsCount = fn(&TlsStatus) -> u64;

/// A label set with a value.
type SeriesValue<N> = (Labels, N);

/// The metrics of a status.
#[derive(Debug)]
struct StatusMetrics(ServerStatus);

impl ServerStatus {
    /// The status in the OpenMetrics text format.
    pub fn to_metrics(&self) -> String {
        let mut registry = Registry::with_prefix("vermeil");
        registry.register_collector(Box::new(StatusMetrics(self.clone())));
        let mut metrics = String::new();
        text::encode(&mut metrics, &registry).expect("a string takes every character");
        metrics
    }
}

impl Collector for StatusMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(status) = self;
        let families = &mut Families { encoder: &mut encoder };
        server(families, status)?;
        requests(families, &status.instances)?;
        hosts(families, &status.instances)?;
        cores(families, &status.instances)?;
        caches(families, &status.instances)?;
        php(families, &status.instances)?;
        cgi(families, &status.instances)?;
        tls(families, &status.instances)?;
        compression(families, &status.instances)?;
        handlers(families, &status.instances)?;
        logs(families, &status.instances)
    }
}

fn server(families: &mut Families<'_, '_>, status: &ServerStatus) -> fmt::Result {
    let version: Labels = vec![("version", status.version.clone())];
    let help = "The version of the server, as a label";
    let mut info = families.encoder.encode_descriptor("build", help, None, MetricType::Info)?;
    info.encode_info(&version)?;
    let silent = status.silent.len() as u64;
    families.gauge("processes_silent", "Instances that did not answer", None, [(Vec::new(), silent)])?;
    families.counter("reloads", "Reloads that took effect", None, [(Vec::new(), status.reloads)])?;
    let each =
        |of: fn(&InstanceStatus) -> u64| status.instances.iter().map(move |one| (process(one), of(one)));
    let uptime = status.instances.iter().map(|one| (process(one), one.uptime_s));
    families.gauge("uptime", "Time since the start of the process", Some(Unit::Seconds), uptime)?;
    families.counter("restarts", "Restarts after an unexpected end", None, each(|one| one.restarts))?;
    let resident = each(|one| one.memory.resident_bytes);
    families.gauge("resident_memory", "Resident memory of the process", Some(Unit::Bytes), resident)?;
    families.gauge("connections", "Open connections", None, each(|one| one.connections))
}

fn requests(families: &mut Families<'_, '_>, instances: &[InstanceStatus]) -> fmt::Result {
    let answers =
        |of: fn(&AnswersStatus) -> u64| instances.iter().map(move |one| (process(one), of(&one.answers)));
    let statuses = instances.iter().flat_map(|one| {
        one.answers.statuses.iter().map(move |status| {
            let class = format!("{}xx", status.status / 100);
            let labels = [("code", status.status.to_string()), ("class", class)];
            ([process(one), labels.into()].concat(), status.count)
        })
    });
    families.counter("requests", "Requests that have ended, by status", None, statuses)?;
    let help = "Requests whose answer did not reach its end";
    families.counter("requests_aborted", help, None, answers(|answers| answers.aborted))?;
    let help = "Answers that were cut because their file changed";
    let cut = instances.iter().map(|one| (process(one), one.answers_cut));
    families.counter("answers_cut", help, None, cut)?;
    let bytes = answers(|answers| answers.body_bytes);
    families.counter("sent_body", "Bodies of answers", Some(Unit::Bytes), bytes)?;
    let durations = instances.iter().map(|one| {
        let AnswersStatus { durations, duration_s_sum, .. } = &one.answers;
        (process(one), (&durations[..], *duration_s_sum))
    });
    let help = "Time from the head of a request to the end of its answer";
    families.histogram("request_duration", help, BOUNDS, durations)
}

fn hosts(families: &mut Families<'_, '_>, instances: &[InstanceStatus]) -> fmt::Result {
    let each = |of: fn(&HostAnswers) -> u64| {
        instances.iter().flat_map(move |one| {
            let hosts = one.hosts.busiest.iter().chain([&one.hosts.others]);
            hosts.map(move |host| ([process(one), vec![("host", host.host.clone())]].concat(), of(host)))
        })
    };
    let help = "Requests of the busiest hosts, and of all others together";
    families.counter("host_requests", help, None, each(|host| host.requests))?;
    let help = "Answers of these hosts with a status from 500";
    families.counter("host_errors", help, None, each(|host| host.errors))?;
    let help = "Bodies of the answers of these hosts";
    families.counter("host_sent_body", help, Some(Unit::Bytes), each(|host| host.body_bytes))
}

fn cores(families: &mut Families<'_, '_>, instances: &[InstanceStatus]) -> fmt::Result {
    fn each<'i, N>(
        instances: &'i [InstanceStatus],
        of: fn(&CoreStatus) -> N,
    ) -> impl Iterator<Item = SeriesValue<N>> + 'i
    where
        N: 'i,
    {
        instances.iter().flat_map(move |one| {
            let label = |core: &CoreStatus| vec![("core", core.core.to_string())];
            one.cores.iter().map(move |core| ([process(one), label(core)].concat(), of(core)))
        })
    }
    let help = "Time that the core's thread has run";
    families.counter("core_cpu", help, Some(Unit::Seconds), each(instances, |core| core.cpu_s))?;
    let help = "Share of the last fifth of a second in which the core ran";
    families.gauge("core_busy", help, Some(Unit::Ratios), each(instances, |core| core.busy))?;
    let help = "Requests that the core answered";
    families.counter("core_requests", help, None, each(instances, |core| core.requests))?;
    families.gauge("core_connections", "Open connections", None, each(instances, |core| core.connections))?;
    families.counter("core_accepted", "Accepted connections", None, each(instances, |core| core.accepted))?;
    let help = "Connections refused with 503 after too long a wait";
    families.counter("core_refused", help, None, each(instances, |core| core.refused))?;
    let help = "Colors that are ready to run on the core";
    families.gauge("core_ready_colors", help, None, each(instances, |core| core.ready_colors))?;
    let help = "Runs of a color on the core";
    families.counter("core_activations", help, None, each(instances, |core| core.activations))?;
    let help = "Colors that the core stole from other cores";
    families.counter("core_steals", help, None, each(instances, |core| core.steals))?;
    let help = "Requests whose path the core remembered";
    families.counter("cache_hits", help, None, each(instances, |core| core.cache_hits))?;
    let help = "Requests for which the core looked up a path, for the first time or again";
    families.counter("cache_misses", help, None, each(instances, |core| core.looked_up))
}

fn caches(families: &mut Families<'_, '_>, instances: &[InstanceStatus]) -> fmt::Result {
    let each = |of: fn(&InstanceStatus) -> u64| instances.iter().map(move |one| (process(one), of(one)));
    let bytes = each(|one| one.cache.content_bytes);
    families.gauge("cache_content", "File contents in memory", Some(Unit::Bytes), bytes)?;
    let files = each(|one| one.cache.descriptors);
    families.gauge("cache_open_files", "Files that the cache holds open", None, files)?;
    families.gauge("cache_paths", "Remembered paths", None, each(|one| one.cache.paths))
}

fn php(families: &mut Families<'_, '_>, instances: &[InstanceStatus]) -> fmt::Result {
    fn each<'p, N: 'p>(
        pools: &'p [(Labels, &'p PhpStatus)],
        of: fn(&'p PhpStatus) -> N,
    ) -> impl Iterator<Item = SeriesValue<N>> + 'p {
        pools.iter().map(move |(labels, pool)| (labels.clone(), of(pool)))
    }
    let pools: &Vec<(Labels, &PhpStatus)> = &instances.iter().flat_map(pools_of).collect();
    families.gauge("php_children", "Children of the pool", None, each(pools, |pool| pool.children))?;
    families.gauge("php_busy", "Children that serve a request", None, each(pools, |pool| pool.busy))?;
    families.gauge("php_queue", "Requests that wait for a child", None, each(pools, |pool| pool.queue))?;
    families.counter("php_requests", "Requests that got a child", None, each(pools, |pool| pool.requests))?;
    let help = "Requests refused because the queue was full";
    families.counter("php_refused", help, None, each(pools, |pool| pool.refused))?;
    let help = "Requests that PHP did not answer properly";
    families.counter("php_failed", help, None, each(pools, |pool| pool.failed))?;
    let help = "Time that requests waited for a child";
    let waits = each(pools, |pool| (&pool.waits[..], pool.wait_s_sum));
    families.histogram("php_wait", help, PROGRAM_BOUNDS, waits)?;
    let help = "Time that children took for requests";
    let services = each(pools, |pool| (&pool.services[..], pool.service_s_sum));
    families.histogram("php_service", help, PROGRAM_BOUNDS, services)?;
    families.counter("php_restarts", "Restarts of the pool", None, each(pools, |pool| pool.restarts))
}

/// The PHP pools of an instance. The server's own pool has the number 0.
fn pools_of(one: &InstanceStatus) -> impl Iterator<Item = (Labels, &PhpStatus)> {
    let own = one.php.iter().map(|pool| (0, "", pool));
    let used = one.php_pools_used.iter().map(|used| {
        let PhpPoolStatus { number, user, pool, .. } = used;
        (*number, user.as_deref().unwrap_or_default(), pool)
    });
    own.chain(used).map(move |(number, user, pool)| {
        let labels = [("pool", number.to_string()), ("user", user.to_owned())];
        ([process(one), labels.into()].concat(), pool)
    })
}

fn cgi(families: &mut Families<'_, '_>, instances: &[InstanceStatus]) -> fmt::Result {
    let each = |of: fn(&CgiStatus) -> u64| {
        instances.iter().filter_map(move |one| Some((process(one), of(one.cgi.as_ref()?))))
    };
    families.gauge("cgi_running", "Running programs", None, each(|cgi| cgi.running))?;
    families.gauge("cgi_queue", "Requests that wait for a turn", None, each(|cgi| cgi.waiting))?;
    families.counter("cgi_requests", "Requests for programs", None, each(|cgi| cgi.requests))?;
    let help = "Requests whose program gave no valid answer, or that got no turn";
    families.counter("cgi_failed", help, None, each(|cgi| cgi.failed))?;
    let times = |of: fn(&CgiStatus) -> Durations<'_>| {
        instances.iter().filter_map(move |one| Some((process(one), of(one.cgi.as_ref()?))))
    };
    let help = "Time that requests waited for their turn";
    families.histogram("cgi_wait", help, PROGRAM_BOUNDS, times(|cgi| (&cgi.waits, cgi.wait_s_sum)))?;
    let help = "Time from the start of a program to the end of its answer";
    families.histogram("cgi_run", help, PROGRAM_BOUNDS, times(|cgi| (&cgi.runs, cgi.run_s_sum)))
}

fn compression(families: &mut Families<'_, '_>, instances: &[InstanceStatus]) -> fmt::Result {
    fn each<'i, N: 'i>(
        instances: &'i [InstanceStatus],
        of: fn(&CompressionStatus) -> N,
    ) -> impl Iterator<Item = SeriesValue<N>> + 'i {
        instances.iter().filter_map(move |one| Some((process(one), of(one.compression.as_ref()?))))
    }
    let files = each(instances, |of| of.files);
    families.counter("compressed_files", "Files that were compressed", None, files)?;
    let help = "Answers of programs that were compressed";
    families.counter("compressed_answers", help, None, each(instances, |of| of.answers))?;
    let help = "Answers for files whose compressed content was in memory";
    families.counter("compressed_hits", help, None, each(instances, |of| of.file_hits))?;
    let help = "Answers that went as they are, because too much was being compressed or sent";
    families.counter("compression_refused", help, None, each(instances, |of| of.refused))?;
    let bytes = Some(Unit::Bytes);
    families.counter(
        "compression_input",
        "Compressed content",
        bytes,
        each(instances, |of| of.input_bytes),
    )?;
    let help = "The same content after compression";
    let bytes = Some(Unit::Bytes);
    families.counter("compression_output", help, bytes, each(instances, |of| of.output_bytes))?;
    let help = "Time of cores for compression";
    families.counter("compression_work", help, Some(Unit::Seconds), each(instances, |of| of.work_s))?;
    let help = "Memory of the cache of compressed files";
    families.gauge("compression_cache", help, Some(Unit::Bytes), each(instances, |of| of.cache_bytes))?;
    let help = "Compressed contents of files, with evicted contents that clients still receive";
    families.gauge("compression_content", help, Some(Unit::Bytes), each(instances, |of| of.content_bytes))
}

fn tls(families: &mut Families<'_, '_>, instances: &[InstanceStatus]) -> fmt::Result {
    let each = |of: fn(&TlsStatus) -> u64| {
        instances.iter().filter_map(move |one| Some((process(one), of(one.tls.as_ref()?))))
    };
    let ends: [(&str, TlsCount); 5] = [
        ("full", |tls| tls.handshakes_full),
        ("resumed", |tls| tls.handshakes_resumed),
        ("failed", |tls| tls.handshakes_failed),
        ("refused", |tls| tls.handshakes_refused),
        ("plain", |tls| tls.plain_requests),
    ];
    let handshakes = ends.into_iter().flat_map(|(end, of)| {
        each(of).map(move |(labels, count)| ([labels, vec![("end", end.to_owned())]].concat(), count))
    });
    families.counter("tls_handshakes", "Handshakes of TLS, by their end", None, handshakes)?;
    let help = "Handshakes that wait for a core";
    families.gauge("tls_handshakes_waiting", help, None, each(|tls| tls.handshakes_waiting))
}

fn handlers(families: &mut Families<'_, '_>, instances: &[InstanceStatus]) -> fmt::Result {
    let each = |of: fn(&HandlerStatus) -> u64| {
        instances.iter().flat_map(move |one| {
            let label = |handler: &HandlerStatus| vec![("handler", handler.handler.clone())];
            one.handlers.iter().map(move |handler| ([process(one), label(handler)].concat(), of(handler)))
        })
    };
    families.counter("handler_runs", "Events that ran, by handler", None, each(|handler| handler.runs))?;
    let help = "Times that an idle core took a waiting event from another core";
    families.counter("handler_steals", help, None, each(|handler| handler.steals))
}

fn logs(families: &mut Families<'_, '_>, instances: &[InstanceStatus]) -> fmt::Result {
    let each = |of: fn(&InstanceStatus) -> u64| instances.iter().map(move |one| (process(one), of(one)));
    families.counter("log_written", "Lines of the access log", None, each(|one| one.log.written))?;
    let help = "Records that the access log lost";
    families.counter("log_dropped", help, None, each(|one| one.log.dropped))?;
    let notices = instances.iter().flat_map(|one| {
        let labels = move |kind: &str| [process(one), vec![("kind", kind.to_owned())]].concat();
        one.notices.iter().map(move |notice| (labels(&notice.kind), notice.count))
    });
    families.counter("notices", "Notices on standard error, by kind", None, notices)
}

/// Writes families of metrics.
struct Families<'f, 'e> {
    encoder: &'f mut DescriptorEncoder<'e>,
}

impl Families<'_, '_> {
    /// Writes a family of counters, if there are any.
    fn counter<N: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        samples: impl IntoIterator<Item = SeriesValue<N>>,
    ) -> fmt::Result {
        let samples = samples.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value)));
        self.family((name, MetricType::Counter), help, unit, samples)
    }

    /// Writes a family of gauges, if there are any.
    fn gauge<N: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        samples: impl IntoIterator<Item = SeriesValue<N>>,
    ) -> fmt::Result {
        let samples = samples.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value)));
        self.family((name, MetricType::Gauge), help, unit, samples)
    }

    /// Writes a family of one kind, if there are any samples.
    fn family<M: EncodeMetric>(
        &mut self,
        (name, kind): (&str, MetricType),
        help: &str,
        unit: Option<Unit>,
        samples: impl Iterator<Item = (Labels, M)>,
    ) -> fmt::Result {
        let mut samples = samples.peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut family = self.encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
        samples.try_for_each(|(labels, metric)| metric.encode(family.encode_family(&labels)?))
    }
}

impl Families<'_, '_> {
    /// Writes a family of histograms of durations, if there are any. The exponents in `bounds` are
    /// those of bounds of the counted classes.
    fn histogram<'s>(
        &mut self,
        name: &str,
        help: &str,
        bounds: &[u32],
        samples: impl IntoIterator<Item = SeriesValue<Durations<'s>>>,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let kind = MetricType::Histogram;
        let mut family = self.encoder.encode_descriptor(name, help, Some(&Unit::Seconds), kind)?;
        let bounds = bounds.iter().map(|power| (1_u64 << power) as f64 / 1e9).chain([f64::INFINITY]);
        let empty: Vec<(f64, u64)> = bounds.map(|bound| (bound, 0)).collect();
        for (labels, (counts, sum)) in samples {
            let mut buckets = empty.clone();
            for count in counts {
                let bucket = buckets.iter_mut().find(|(bound, _)| count.at_most_s <= *bound);
                bucket.expect("the last bound is infinite").1 += count.count;
            }
            let count = counts.iter().map(|count| count.count).sum();
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

/// The label of a process.
fn process(one: &InstanceStatus) -> Labels {
    vec![("process", one.instance.to_string())]
}
