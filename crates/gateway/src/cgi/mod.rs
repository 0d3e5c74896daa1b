//! CGI (RFC 3875): programs that are started for one request each, through the spawner.
//!
//! ```text
//! route (`Action::Cgi`) ─▶ find: which file is the program ─▶ run: content collected, a turn,
//!                                                                started └─▶ parts::relay: head
//!                                                                checked, content out
//! ```
//!
//! Reading order: [`CgiOptions`], `start` (the profiles for the spawner), `find`, `run`,
//! `spawning` (one core's channel to the spawner), `pipes`. The parts
//! shared with PHP are in `parts`. Leaves out the arguments of "indexed" queries (RFC 3875 §4.4),
//! because with those a client chooses a program's options (CVE-2012-1823). Tested with real
//! programs through the binary (`crates/e2e/tests/e2e/cgi.rs`); pure parts beside their files.

mod find;
mod nph;
mod pipes;
mod run;
mod spawning;
mod start;

pub use spawning::{install, watch};
pub use start::{CgiError, profiles};
pub(crate) use start::{PreparedCgi, ProgramSites, is_wanted, prepare};

use crate::parts::{Asking, Broken, FoundProgram, GatewayClient, Relayed};
use bytes::Bytes;
use find::{Looked, LookupWait, ProgramLookup, SiteFolder};
use run::CgiRun;
use std::{
    fs::File,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use vermeil::{More, blocking, now_ms};
use vermeil_exchange::{AnswerHead, Lost, ProgramTimes, nanoseconds};
use vermeil_http::{Method, Request, Status, path};
use vermeil_routing::{
    hosts::{Action, Asked, Met, Rules},
    turns::{HostNumber, HostTurns},
};
use vermeil_settings::cgi::{CgiOptions, HostPrograms, Nph};
use vermeil_spawn::ProfileId;

/// The state of CGI that all cores share.
#[derive(Debug)]
pub struct Cgi {
    options: CgiOptions,
    turns: Arc<HostTurns>,
    /// The sites of the configuration. During a reload, also the sites of the old configuration.
    sites: RwLock<ProgramSites>,
    /// The number of the next site.
    numbers: AtomicUsize,
    /// Requests whose program was found, and the failed requests among them.
    requests: AtomicU64,
    failed: AtomicU64,
    /// The waits for a turn, and the runs of programs. A lock takes a thousandth of the time that a
    /// program takes.
    times: Mutex<ProgramTimes>,
    /// `/dev/null`, for programs without content.
    null: File,
}

impl Cgi {
    /// Running programs, their maximum, and waiting requests.
    pub fn now(&self) -> (usize, usize, usize) {
        let (running, waiting) = self.turns.now();
        (running, self.options.bounds.running_max, waiting)
    }
}

impl Cgi {
    /// Requests whose program was found, and the failed requests among them.
    pub fn counts(&self) -> (u64, u64) {
        (self.requests.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// The waits of requests for a turn, and the times that programs took.
    pub fn times(&self) -> ProgramTimes {
        self.times.lock().expect("nothing panics under this lock").clone()
    }

    fn waited(&self, time: Duration) {
        self.times.lock().expect("nothing panics under this lock").wait.count(nanoseconds(time));
    }

    fn ran(&self, time: Duration) {
        self.times.lock().expect("nothing panics under this lock").run.count(nanoseconds(time));
    }

    fn count(&self, result: &Result<Relayed, Broken>) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let is_failure = matches!(result, Err(broken) if broken.failure.concerns_operator());
        self.failed.fetch_add(is_failure.into(), Ordering::Relaxed);
    }

    /// Returns `None` if the site's configuration is no longer in force.
    fn site(&self, key: &SiteKey) -> Option<Arc<CgiSite>> {
        self.sites.read().expect("nothing panics under this lock").get(key).cloned()
    }
}

/// The key of a site: the absolute path of the folder, and the options of its programs. Hosts with
/// the same key share a site.
pub type SiteKey = (Box<[u8]>, Option<Arc<HostPrograms>>);

/// A folder whose programs may run.
#[derive(Debug)]
pub struct CgiSite {
    /// The absolute path, without a slash at the end.
    root: Box<[u8]>,
    folder: SiteFolder,
    profile: ProfileId,
    number: HostNumber,
    /// The options that differ from the options for all hosts.
    programs: Arc<HostPrograms>,
}

/// Why no program answers a request.
pub struct NoProgram {
    /// The status of the answer.
    pub status: Status,
    /// The reason, if the operator can act on the reason.
    pub reason: Option<String>,
}

impl From<Status> for NoProgram {
    fn from(status: Status) -> Self {
        Self { status, reason: None }
    }
}

/// A program that may answer a request.
pub struct CgiProgram<'a> {
    cgi: &'a Arc<Cgi>,
    site: Arc<CgiSite>,
    found: FoundProgram,
}

impl CgiProgram<'_> {
    /// The path of the program in its host, decoded.
    pub fn script(&self) -> &[u8] {
        &self.found.script
    }

    /// Answers `request` by the program.
    pub async fn run(
        &self,
        connection: &mut impl GatewayClient,
        request: &Request<'_>,
        head: AnswerHead,
        asking: &Asking<'_>,
    ) -> Result<Relayed, Broken> {
        let run = CgiRun { cgi: self.cgi, site: &self.site, request, asking, program: &self.found, head };
        let result = run.run(connection).await;
        self.cgi.count(&result);
        result
    }
}

/// Finds the program that the path of `request` names, or `script`, decoded.
pub async fn find<'a>(
    connection: &mut impl GatewayClient,
    request: &Request<'_>,
    head: AnswerHead,
    host: &Met,
    cgi: Option<&'a Arc<Cgi>>,
    script: Option<&[u8]>,
) -> Result<Result<CgiProgram<'a>, NoProgram>, Lost> {
    let asked = match CgiRequestParts::of(request, host, cgi, script, head.asked(request)) {
        Ok(asked) => asked,
        Err(status) => return Ok(Err(status.into())),
    };
    let Some(site) = asked.cgi.site(&asked.site) else {
        return Ok(Err(Status::ServiceUnavailable.into()));
    };
    let CgiRequestParts { cgi, candidates, .. } = asked;
    let mut looked = look_up(&candidates, &site, LookupWait::No);
    let now_ms = now_ms();
    let may_be_elsewhere = !matches!(looked, Looked::Found(_)) && !site.folder.is_fresh(now_ms);
    if looked == Looked::MustWait || may_be_elsewhere {
        // Sends earlier answers of the pipeline first, so they need not wait.
        connection.flush(Bytes::new(), More::No).await?;
        let site = site.clone();
        let look = move || {
            site.folder.follow(&site.root, now_ms);
            look_up(&candidates, &site, LookupWait::Yes)
        };
        looked = match blocking(look).await {
            Ok(looked) => looked,
            Err(_) => return Ok(Err(Status::ServiceUnavailable.into())),
        };
    }
    let found = match found_program(looked) {
        Ok(found) => found,
        Err(none) => return Ok(Err(none)),
    };
    // This check follows the lookup, because a missing program is a 404 for every method.
    if matches!(request.method, Method::Trace | Method::Connect) {
        return Ok(Err(Status::MethodNotAllowed.into()));
    }
    Ok(Ok(CgiProgram { cgi, site, found }))
}

/// The program of the first candidate that names a program.
fn look_up(candidates: &[ProgramCandidate], site: &CgiSite, wait: LookupWait) -> Looked {
    let root = site.folder.now();
    let look = |ProgramCandidate { path, names_max, suffix }: &ProgramCandidate| {
        ProgramLookup { root: &root, path, names_max: *names_max, suffix: suffix.as_deref() }.now(wait)
    };
    candidates.iter().map(look).find(|looked| *looked != Looked::Nothing).unwrap_or(Looked::Nothing)
}

fn found_program(looked: Looked) -> Result<FoundProgram, NoProgram> {
    match looked {
        Looked::Found(program) => Ok(program),
        Looked::Nothing => Err(Status::NotFound.into()),
        Looked::Link(path) => {
            let reason = format!(
                "{} is a symbolic link, and none is followed to a program: put the program itself there, or a script that \
                 executes it",
                path.escape_ascii()
            );
            Err(NoProgram { status: Status::NotFound, reason: Some(reason) })
        }
        Looked::Refused(error) => {
            let reason = format!("the server may not look for the program: {error}");
            Err(NoProgram { status: Status::Forbidden, reason: Some(reason) })
        }
        Looked::MustWait => Err(Status::ServiceUnavailable.into()),
    }
}

/// The parts of a request that are known before any lookup.
struct CgiRequestParts<'a> {
    cgi: &'a Arc<Cgi>,
    site: SiteKey,
    /// The first candidate that names a program counts.
    candidates: Vec<ProgramCandidate>,
}

/// A path that may name the program.
struct ProgramCandidate {
    /// Decoded.
    path: Vec<u8>,
    /// The names of the program and its folders end before this offset.
    names_max: usize,
    /// The suffix of the route that assigns the path to CGI.
    suffix: Option<Box<str>>,
}

impl ProgramCandidate {
    /// Returns `None` if no route assigns `path` to CGI.
    fn of(path: Vec<u8>, names_max: usize, rules: &Rules, asked: Asked<'_>) -> Option<Self> {
        let (_, route) = rules.route(&path, asked)?;
        (route.action == Action::Cgi).then(|| Self { suffix: route.suffix.clone(), names_max, path })
    }

    /// The candidates of `path`: the path itself, and the index pages of the folder that the path
    /// may name.
    fn all(path: &[u8], names_max: usize, rules: &Rules, asked: Asked<'_>) -> Vec<Self> {
        let is_folder = path.ends_with(b"/") && names_max == path.len();
        let indexes = rules.files.index_names.iter().filter(|_| is_folder);
        let indexes = indexes.map(|name| [path, name.as_bytes()].concat()).map(|page| (page.len(), page));
        let all = std::iter::once((names_max, path.to_vec())).chain(indexes);
        all.filter_map(|(names_max, path)| Self::of(path, names_max, rules, asked)).collect()
    }
}

impl<'a> CgiRequestParts<'a> {
    fn of(
        request: &Request<'_>,
        host: &Met,
        cgi: Option<&'a Arc<Cgi>>,
        script: Option<&[u8]>,
        asked: Asked<'_>,
    ) -> Result<Self, Status> {
        let mut decoded = Vec::new();
        let path =
            path::decode_for_program(request.target.path, &mut decoded).map_err(|error| error.status())?;
        let (path, names_max) = match script {
            Some(script) => (script, script.len()),
            None => (path.bytes, path.names_max()),
        };
        let cgi = cgi.ok_or(Status::NotFound)?;
        let host = host.host();
        Ok(Self {
            cgi,
            site: (host.document_root().ok_or(Status::NotFound)?.into(), host.rules.cgi.clone()),
            candidates: ProgramCandidate::all(path, names_max, host.rules, asked),
        })
    }
}
