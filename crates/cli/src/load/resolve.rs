//! From the arguments to a job: reads files, splits sets of addresses, finds contradictions.
//!
//! Tested in `load/tests.rs`.

use super::conflicts::LoadRunKind;
use super::{LoadArgs, LoadIo};
use crate::Exit;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};
use vermeil_load::{
    CommonOptions, LoadError, LoadJob, Loop, Phases, Protocol, Set, SimplePlan, TlsSessions, TlsVerify,
    UNTIL_DONE, Url, UrlError,
    pace::{Arrivals, ArrivalsError, Think},
    replay,
    report::RecordSubject,
    session::{Builtin, Model, ModelError, SessionLoop, SessionPlan, manifest},
    wire::{LoadRequest, Reuse},
};
use vermeil_topology::CoreSelection;

/// Why a command line cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadUsage {
    #[error("{0}")]
    Load(#[from] LoadError),
    #[error("{0}")]
    Cores(#[from] vermeil_topology::TopologyError),
    #[error("{option} {}: cannot read it: {source}", path.display())]
    File { option: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "--address {set}: {why}; write [NAME=]ADDR:PORT[,ADDR:PORT…], such as node0=10.0.0.1:80,10.0.0.2:80"
    )]
    Address { set: String, why: String },
    #[error("{path}: {error}")]
    Model { path: String, error: ModelError },
    #[error("{path}: {why}")]
    Log { path: String, why: String },
    #[error("--arrivals {}: {error}", path.display())]
    Arrivals { path: PathBuf, error: ArrivalsError },
    #[error("--ca {}: {why}", path.display())]
    Certificates { path: PathBuf, why: String },
    #[error("{0}")]
    NoFiles(String),
    #[error(
        "{0:?} is neither a URL nor a workload: write http://…, support, specweb96, webstone, single, FILE.toml or FILE.log"
    )]
    Workload(String),
    #[error("the server that {0} is to load is missing: write its URL behind it, {0} http://…")]
    NoUrl(String),
    #[error("a workload asks one server: write one URL, and other addresses of it with --address")]
    ManyUrls,
    #[error(
        "--rate: the steps last {steps:?}, and --ramp-up and --warm-up take {before:?} of this time: lengthen the steps, \
         or give --duration"
    )]
    Steps { steps: Duration, before: Duration },
    #[error("{one} and {other} exclude each other: {cure}")]
    Together { one: &'static str, other: &'static str, cure: &'static str },
}

impl LoadUsage {
    /// The exit code: an error of the command line, or a missing resource.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::File { .. } | Self::NoFiles(_) => Exit::CannotStart,
            Self::Load(error) => exit_of(error),
            _ => Exit::Usage,
        }
    }
}

/// The exit code of an error before a run: an error of the command line, or a missing resource.
pub(super) fn exit_of(error: &LoadError) -> Exit {
    match error {
        LoadError::Url(UrlError::Form { .. })
        | LoadError::Request(_)
        | LoadError::Think(_)
        | LoadError::Arrivals(_)
        | LoadError::Plan(_) => Exit::Usage,
        _ => Exit::CannotStart,
    }
}

/// Default duration of a run that has no end of its own.
const DURATION: Duration = Duration::from_secs(10);

/// Default number of users.
const CONNECTIONS: usize = 64;

/// Default timeout of a request without a workload.
const TIMEOUT: Duration = Duration::from_secs(10);

impl LoadArgs {
    /// The job and its title.
    pub(super) fn resolve(&self) -> Result<(LoadJob, RecordSubject), LoadUsage> {
        let first = self.what.first().map_or("", String::as_str);
        let (workload, urls) = match first.contains("://") {
            true => (None, &self.what[..]),
            false => (Some(first), &self.what[1..]),
        };
        let urls: Vec<Url> =
            urls.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(LoadError::from)?;
        if !urls.is_empty() {
            self.check_tls(&urls)?;
        }
        match (workload, &urls[..]) {
            (None, _) => {
                self.check_conflicts(LoadRunKind::Urls)?;
                self.simple(urls)
            }
            (Some(workload), []) if is_workload(workload) => Err(LoadUsage::NoUrl(workload.to_owned())),
            (Some(workload), []) => Err(LoadUsage::Workload(workload.to_owned())),
            (Some(workload), [url]) if is_log(workload) => {
                self.check_conflicts(LoadRunKind::Log)?;
                self.replay(workload, url)
            }
            (Some(workload), [url]) => {
                self.check_conflicts(LoadRunKind::Sessions)?;
                self.sessions(workload, url)
            }
            (Some(_), _) => Err(LoadUsage::ManyUrls),
        }
    }

    fn connections(&self) -> usize {
        self.connections.unwrap_or(CONNECTIONS)
    }

    fn simple(&self, urls: Vec<Url>) -> Result<(LoadJob, RecordSubject), LoadUsage> {
        let arrivals = self.arrivals()?;
        let think = self.time.think.unwrap_or(Think::NONE).compressed(self.time.compress);
        let plan = SimplePlan {
            common: self.common(arrivals.as_ref())?,
            urls,
            request: self.request()?,
            connections: self.connections(),
            pace: arrivals.map_or(Loop::Closed { think }, |arrivals| Loop::Open { arrivals }),
            reuse: if self.requests.no_keepalive { Reuse::Close } else { Reuse::Keep },
            protocol: self.protocol(),
            pipeline: self.requests.pipeline,
            logged: None,
            order: None,
            quality: self.quality.quality(),
            requests_max: self.time.requests_max,
        };
        let subject = self.subject_of_simple(&plan);
        Ok((LoadJob::Simple(Box::new(plan)), subject))
    }

    /// An access log, replayed.
    fn replay(&self, path: &str, url: &Url) -> Result<(LoadJob, RecordSubject), LoadUsage> {
        let log = read("the log", Path::new(path), |path| fs::read(path))?;
        let replay = replay(&log, self.time.compress, self.protocol())
            .map_err(|why| LoadUsage::Log { path: path.to_owned(), why })?;
        let (lines, different) = (replay.order.len(), replay.requests.len());
        let mut methods: Vec<&str> = replay.requests.iter().map(|logged| logged.method.as_str()).collect();
        methods.sort_unstable();
        methods.dedup();
        let what = format!(
            "{path}, {lines} requests, {different} different ones ({}), {} lines of it passed over",
            methods.join(", "),
            replay.skipped
        );
        let plan = SimplePlan {
            common: self.common(Some(&replay.arrivals))?,
            request: self.request()?,
            connections: self.connections(),
            pace: Loop::Open { arrivals: replay.arrivals },
            reuse: if self.requests.no_keepalive { Reuse::Close } else { Reuse::Keep },
            protocol: self.protocol(),
            logged: Some(replay.requests),
            order: Some(replay.order.into()),
            quality: self.quality.quality(),
            requests_max: self.time.requests_max,
            ..SimplePlan::new(url.clone())
        };
        let mut subject = self.subject_of_simple(&plan);
        subject.target = url.authority();
        let connection = subject.workload.split_once(", ").map_or("", |(_, connection)| connection);
        subject.workload = format!("{what}; {connection}");
        Ok((LoadJob::Simple(Box::new(plan)), subject))
    }

    fn sessions(&self, workload: &str, url: &Url) -> Result<(LoadJob, RecordSubject), LoadUsage> {
        let arrivals = self.arrivals()?;
        let common = self.common(arrivals.as_ref())?;
        let mut model = self.model(workload, url, &common)?;
        if let Some(think) = self.time.think {
            model.think = think;
        }
        if let Some(timeout) = self.requests.timeout {
            model.timeout = timeout.into();
        }
        if self.requests.no_keepalive {
            model.keep_alive = vermeil_load::session::KeepAlive::NEVER;
        }
        let factor = self.time.compress;
        let model = model.compressed(factor);
        let pace = match arrivals {
            Some(arrivals) => SessionLoop::PartlyOpen { arrivals },
            None => SessionLoop::Closed,
        };
        let plan = SessionPlan {
            common,
            url: url.clone(),
            model,
            users: self.connections(),
            pace,
            quality: self.quality.quality().compressed(factor),
            request: self.request()?,
            pages_max: self.time.requests_max,
        };
        let subject = self.subject_of_sessions(&plan);
        Ok((LoadJob::Sessions(Box::new(plan)), subject))
    }

    /// The model of a workload: shipped, adapted to the server's manifest of files, or from a file.
    fn model(&self, workload: &str, url: &Url, common: &CommonOptions) -> Result<Model, LoadUsage> {
        if workload.ends_with(".toml") {
            let text = read("the workload", Path::new(workload), |path| fs::read_to_string(path))?;
            return Model::from_toml(&text)
                .map_err(|error| LoadUsage::Model { path: workload.to_owned(), error });
        }
        let builtin = Builtin::named(workload).ok_or_else(|| LoadUsage::Workload(workload.to_owned()))?;
        let manifest = match builtin.files() {
            None => None,
            Some(_) => {
                let addr = match common.sets.first() {
                    Some(set) => set.addrs[0],
                    None => url.resolve().map_err(LoadError::from)?,
                };
                manifest(url, addr, &common.tls_verify)
                    .map_err(|error| LoadUsage::NoFiles(error.to_string()))?
            }
        };
        builtin.model(manifest.as_ref(), &url.target).map_err(LoadUsage::NoFiles)
    }

    /// The length of the measured window: as given, or as long as there are requests. Arrivals
    /// count from the start of the run, so the time `before` the window is part of their steps.
    fn window(&self, arrivals: Option<&Arrivals>, before: Duration) -> Result<Duration, LoadUsage> {
        Ok(match (self.time.duration, self.time.requests_max, arrivals) {
            (Some(window), ..) => window.into(),
            (None, Some(_), _) | (None, None, Some(Arrivals::Recorded(_))) => UNTIL_DONE,
            (None, None, arrivals) => match arrivals.and_then(Arrivals::steps_last) {
                None => DURATION,
                Some(steps) if steps > before => steps - before,
                Some(steps) => return Err(LoadUsage::Steps { steps, before }),
            },
        })
    }

    fn common(&self, arrivals: Option<&Arrivals>) -> Result<CommonOptions, LoadUsage> {
        let around = vermeil_config::Surroundings::here()?;
        let cores = self.cores.as_ref().unwrap_or(&CoreSelection::All);
        let cpus = cores.resolve(&around.machine, &around.allowed)?;
        let time = &self.time;
        let or_none = |span: Option<crate::values::Span>| span.map_or(Duration::ZERO, Duration::from);
        let (ramp_up, warm_up) = (or_none(time.ramp_up), or_none(time.warm_up));
        Ok(CommonOptions {
            sets: self.addresses.address.iter().enumerate().map(set).collect::<Result<_, _>>()?,
            choice: self.addresses.choice.choice(),
            timeout: self.requests.timeout.map_or(TIMEOUT, Duration::from),
            phases: Phases {
                ramp_up,
                warm_up,
                window: self.window(arrivals, ramp_up + warm_up)?,
                ramp_down: or_none(time.ramp_down),
            },
            tls_verify: self.trust()?,
            tls_sessions: if self.requests.resume { TlsSessions::Resumed } else { TlsSessions::Full },
            cpus: cpus.into_iter().map(|cpu| cpu.0 as usize).collect(),
            io: self.io.unwrap_or(LoadIo::Auto).choice(),
            seed: self.seed,
            ..CommonOptions::default()
        })
    }

    fn protocol(&self) -> Protocol {
        if self.requests.http2 { Protocol::Http2 } else { Protocol::Http1 }
    }

    fn trust(&self) -> Result<TlsVerify, LoadUsage> {
        let Some(path) = &self.requests.ca else {
            return Ok(if self.requests.insecure { TlsVerify::Anyone } else { TlsVerify::System });
        };
        let text = read("--ca", path, |path| fs::read(path))?;
        TlsVerify::from_pem(&text).map_err(|why| LoadUsage::Certificates { path: path.clone(), why })
    }

    fn request(&self) -> Result<LoadRequest, LoadUsage> {
        let mut request = LoadRequest::default();
        if let Some(body) = &self.requests.body {
            let content = match body.strip_prefix('@') {
                Some(path) => read("--body", Path::new(path), |path| fs::read(path))?,
                None => body.clone().into_bytes(),
            };
            request = request.content(content).method("POST").map_err(LoadError::from)?;
        }
        if let Some(method) = &self.requests.method {
            request = request.method(method).map_err(LoadError::from)?;
        }
        for field in &self.requests.header {
            request = request.field(field).map_err(LoadError::from)?;
        }
        Ok(request)
    }

    fn arrivals(&self) -> Result<Option<Arrivals>, LoadUsage> {
        let Some(path) = &self.time.arrivals else { return Ok(self.time.rate.clone()) };
        let text = read("--arrivals", path, |path| fs::read_to_string(path))?;
        let arrivals = Arrivals::recorded(&text);
        arrivals.map(Some).map_err(|error| LoadUsage::Arrivals { path: path.clone(), error })
    }

    fn subject_of_simple(&self, plan: &SimplePlan) -> RecordSubject {
        let first = &plan.urls[0];
        let more = match plan.urls.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let method = self.requests.method.as_deref();
        let method = method.unwrap_or(if self.requests.body.is_some() { "POST" } else { "GET" });
        let over = if plan.protocol == Protocol::Http2 { " by HTTP/2" } else { "" };
        let connection =
            if plan.reuse == Reuse::Close { "a connection for each request" } else { "a connection each" };
        let mut workload = format!("{method}{over}, {connection}");
        if plan.pipeline > 1 {
            workload += &format!(", {} requests at a time", plan.pipeline);
        }
        let (pace, times_from) = match &plan.pace {
            Loop::Closed { think } => (format!("closed loop, {}", thinking(*think)), "sending"),
            Loop::Open { arrivals } => (
                format!("open loop, {arrivals}"),
                "the intended start: waiting for a connection is part of it, corrected once",
            ),
        };
        RecordSubject {
            title: "vermeil load".to_owned(),
            target: format!("{first}{more}"),
            workload,
            pace,
            times_from: times_from.to_owned(),
            is_open: matches!(plan.pace, Loop::Open { .. }),
            sets: plan.common.sets.iter().map(|set| set.name.clone()).collect(),
            ..RecordSubject::default()
        }
    }

    fn subject_of_sessions(&self, plan: &SessionPlan) -> RecordSubject {
        let model = &plan.model;
        let (pace, times_from) = match &plan.pace {
            SessionLoop::Closed => {
                (format!("closed loop, {}", thinking(model.think)), "asking for the page, with all it shows")
            }
            SessionLoop::PartlyOpen { arrivals } => (
                format!("partly open loop, sessions {arrivals}, {}", thinking(model.think)),
                "asking for the page, with all it shows; for the first of a session from its intended start",
            ),
        };
        RecordSubject {
            title: format!("vermeil load {}", model.name),
            target: plan.url.authority(),
            workload: format!(
                "{:.1} pages and {:.1} requests in a session",
                model.pages_per_session(),
                model.requests_per_session()
            ),
            pace,
            times_from: times_from.to_owned(),
            is_open: matches!(plan.pace, SessionLoop::PartlyOpen { .. }),
            pages: model.pages.iter().map(|page| page.name.clone()).collect(),
            expected_shares: model.shares(),
            sets: plan.common.sets.iter().map(|set| set.name.clone()).collect(),
        }
    }
}

fn is_workload(word: &str) -> bool {
    Builtin::named(word).is_some() || word.ends_with(".toml") || is_log(word)
}

/// `access.log`, and names after a rotation: `access.log.1`.
fn is_log(word: &str) -> bool {
    let number = word.rsplit_once('.').filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
    number.map_or(word, |(name, _)| name).ends_with(".log")
}

fn read<T>(
    option: &'static str,
    path: &Path,
    how: impl FnOnce(&Path) -> io::Result<T>,
) -> Result<T, LoadUsage> {
    how(path).map_err(|source| LoadUsage::File { option, path: path.to_owned(), source })
}

/// The pause of users between requests, for people.
fn thinking(think: Think) -> String {
    if think.is_none() { "no thinking".to_owned() } else { format!("thinking {think}") }
}

/// `[NAME=]ADDR:PORT[,ADDR:PORT…]`.
fn set((index, text): (usize, &String)) -> Result<Set, LoadUsage> {
    let wrong = |why: String| LoadUsage::Address { set: text.clone(), why };
    let (name, addrs) = match text.split_once('=') {
        Some((name, addrs)) => (name.to_owned(), addrs),
        None => (format!("set {}", index + 1), text.as_str()),
    };
    let addr = |text: &str| {
        text.trim().parse::<SocketAddr>().map_err(|_| wrong(format!("{text:?} is no address with a port")))
    };
    let addrs = addrs.split(',').map(addr).collect::<Result<_, _>>()?;
    Ok(Set { name, addrs })
}
