//! From what was written to a plan: files are read, sets of addresses come apart, contradictions are found.
//!
//! Tested in `load/tests.rs`.

use super::{ChoiceArg, Io, LoadArgs};
use crate::Exit;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};
use vermeil_load::pace::{Arrivals, Think};
use vermeil_load::report::Subject;
use vermeil_load::wire::{Request, Reuse};
use vermeil_load::{Choice, Ground, LoadError, Loop, Phases, Set, SimplePlan, Url};

/// Why a command line cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum Wrong {
    #[error("{0}")]
    Load(#[from] LoadError),
    #[error("--cores: {0}")]
    Cores(#[from] vermeil_topology::Error),
    #[error("{option} {}: cannot read it: {source}", path.display())]
    File { option: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "--address {set}: {why}; write [NAME=]ADDR:PORT[,ADDR:PORT…], such as node0=10.0.0.1:80,10.0.0.2:80"
    )]
    Address { set: String, why: String },
}

impl Wrong {
    /// Whether the command line is to blame or what it found.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::File { .. } => Exit::CannotStart,
            Self::Load(LoadError::Url(vermeil_load::UrlError::Form { .. })) => Exit::Usage,
            Self::Load(LoadError::Url(_) | LoadError::Descriptors { .. } | LoadError::Ports { .. }) => {
                Exit::CannotStart
            }
            Self::Load(_) | Self::Cores(_) | Self::Address { .. } => Exit::Usage,
        }
    }
}

/// A window that only the number of requests ends.
const UNTIL_DONE: Duration = Duration::from_secs(24 * 3600);

impl LoadArgs {
    /// The plan, and what to call it.
    pub(super) fn resolve(&self) -> Result<(SimplePlan, Subject), Wrong> {
        let urls: Vec<Url> =
            self.what.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(LoadError::from)?;
        let plan = SimplePlan {
            ground: self.ground()?,
            urls,
            request: self.request()?,
            connections: self.connections,
            pace: self.pace()?,
            reuse: if self.requests.no_keepalive { Reuse::Close } else { Reuse::Keep },
            pipeline: self.requests.pipeline,
            requests_max: self.time.requests_max,
        };
        let subject = self.subject(&plan);
        Ok((plan, subject))
    }

    fn ground(&self) -> Result<Ground, Wrong> {
        let around = vermeil_server::config::Surroundings::here()?;
        let cpus = self.cores.resolve(&around.machine, &around.allowed)?;
        let time = &self.time;
        let or_none = |span: Option<crate::values::Span>| span.map_or(Duration::ZERO, Duration::from);
        let window = match (time.duration, time.requests_max) {
            (Some(window), _) => window.into(),
            (None, Some(_)) => UNTIL_DONE,
            (None, None) => Duration::from_secs(10),
        };
        Ok(Ground {
            sets: self.addresses.address.iter().enumerate().map(set).collect::<Result<_, _>>()?,
            choice: match self.addresses.choice {
                ChoiceArg::Fixed => Choice::Fixed,
                ChoiceArg::RoundRobin => Choice::RoundRobin,
                ChoiceArg::LeastPending => Choice::LeastPending,
            },
            timeout: self.requests.timeout.into(),
            phases: Phases {
                ramp_up: or_none(time.ramp_up),
                warm_up: or_none(time.warm_up),
                window,
                ramp_down: or_none(time.ramp_down),
            },
            cpus: cpus.into_iter().map(|cpu| cpu.0 as usize).collect(),
            io: match self.io {
                Io::Auto => vermeil_io::IoChoice::Auto,
                Io::Uring => vermeil_io::IoChoice::Uring,
                Io::Epoll => vermeil_io::IoChoice::Epoll,
            },
            seed: self.seed,
        })
    }

    fn request(&self) -> Result<Request, Wrong> {
        let mut request = Request::default();
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

    fn pace(&self) -> Result<Loop, Wrong> {
        let arrivals = match &self.time.arrivals {
            Some(path) => {
                let text = read("--arrivals", path, |path| fs::read_to_string(path))?;
                Some(Arrivals::recorded(&text).map_err(LoadError::from)?)
            }
            None => self.time.rate.clone(),
        };
        Ok(match arrivals {
            Some(arrivals) => Loop::Open { arrivals },
            None => Loop::Closed { think: self.time.think.unwrap_or(Think::NONE) },
        })
    }

    fn subject(&self, plan: &SimplePlan) -> Subject {
        let first = &plan.urls[0];
        let more = match plan.urls.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let method = self.requests.method.as_deref();
        let method = method.unwrap_or(if self.requests.body.is_some() { "POST" } else { "GET" });
        let mut workload = format!("{method} over {} connections", plan.connections);
        if plan.reuse == Reuse::Close {
            workload += ", one request each";
        }
        if plan.pipeline > 1 {
            workload += &format!(", {} requests at a time", plan.pipeline);
        }
        let (pace, times_from) = match &plan.pace {
            Loop::Closed { think } if think.is_none() => ("closed loop, no thinking".to_owned(), "sending"),
            Loop::Closed { think } => (format!("closed loop, thinking {think}"), "sending"),
            Loop::Open { arrivals } => (
                format!("open loop, {arrivals} a second"),
                "the intended start: waiting for a connection is part of it, corrected once",
            ),
        };
        Subject {
            title: "vermeil load".to_owned(),
            target: format!("{first}{more}"),
            workload,
            pace,
            times_from: times_from.to_owned(),
            sets: plan.ground.sets.iter().map(|set| set.name.clone()).collect(),
            ..Subject::default()
        }
    }
}

fn read<T>(option: &'static str, path: &Path, how: impl FnOnce(&Path) -> io::Result<T>) -> Result<T, Wrong> {
    how(path).map_err(|source| Wrong::File { option, path: path.to_owned(), source })
}

/// `[NAME=]ADDR:PORT[,ADDR:PORT…]`.
fn set((index, text): (usize, &String)) -> Result<Set, Wrong> {
    let wrong = |why: String| Wrong::Address { set: text.clone(), why };
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
