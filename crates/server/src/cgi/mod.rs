//! CGI (RFC 3875): programs that are started for one request each, through the spawner.
//!
//! ```text
//! route (`Action::Cgi`) ─▶ find: which file is the program ─▶ run: content collected, a turn, started
//!                                                                └─▶ gateway::relay: head checked, content out
//! ```
//!
//! Reading order: [`CgiOptions`], `start` (what the spawner is told), `find`, `run`, `turns` (whose program may run),
//! `spawning` (one core's line to the spawner), `pipes`. What CGI shares with PHP is in `gateway`. Leaves out the
//! arguments of "indexed" queries (RFC 3875 §4.4): they let a client choose a program's options (CVE-2012-1823).
//! Tested with real programs through the binary (`crates/cli/tests/e2e/cgi.rs`); pure parts beside their files.

mod find;
mod nph;
mod options;
mod pipes;
mod run;
mod spawning;
mod start;
mod turns;

pub use options::{
    CgiOptions, Cgroup, Confinement, HOST_RUNNING_MAX, HOST_WAITING_MAX, HostPrograms, Identity,
    NewPrivileges, Nph, ProgramBounds, RUNNING_MAX, ResourceLimits, TIME_LIMIT, UserError,
};
pub(crate) use spawning::{Spawning, watch};
pub use start::CgiError;
pub(crate) use start::{PreparedCgi, Sites, is_wanted, prepare, profiles};

use crate::{
    connection::{Connection, Head, Lost},
    gateway::{Broken, Call, Relayed, Shared},
    hosts::{Action, Rules},
    local,
};
use bytes::Bytes;
use find::{Look, Looked, Wait};
use run::Run;
use std::{
    fs::File,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};
use turns::{HostNumber, Turns};
use vermeil::{More, blocking};
use vermeil_http::{Method, Request, Status, path};
use vermeil_spawn::ProfileId;

/// CGI, as all cores share it.
#[derive(Debug)]
pub(crate) struct Cgi {
    options: CgiOptions,
    turns: Arc<Turns>,
    /// Those of the configuration; while it is changed, of the one before too.
    sites: RwLock<Sites>,
    /// The number of the next site.
    numbers: AtomicUsize,
    /// Requests whose program was found, and of these those that failed.
    requests: AtomicU64,
    failed: AtomicU64,
    /// `/dev/null`, for programs without content.
    null: File,
}

impl Cgi {
    /// Programs that run now, how many may, and requests that wait.
    pub(crate) fn now(&self) -> (usize, usize, usize) {
        let (running, waiting) = self.turns.now();
        (running, self.options.bounds.running_max, waiting)
    }
}

impl Cgi {
    /// Requests whose program was found, and those of them that failed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.requests.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    fn count(&self, result: &Result<Relayed, Broken>) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let is_failure = matches!(result, Err(broken) if broken.failure.concerns_operator());
        self.failed.fetch_add(is_failure.into(), Ordering::Relaxed);
    }

    /// Nothing if its configuration is not in force any more.
    fn site(&self, key: &SiteKey) -> Option<Arc<CgiSite>> {
        self.sites.read().expect("nothing panics under this lock").get(key).cloned()
    }
}

/// What hosts that share a site have in common: the folder, absolute, and what its programs run within.
pub(crate) type SiteKey = (Box<[u8]>, Option<Arc<HostPrograms>>);

/// A folder whose programs may run.
#[derive(Debug)]
pub(crate) struct CgiSite {
    /// Absolute, without a slash at its end.
    root: Box<[u8]>,
    folder: Arc<File>,
    profile: ProfileId,
    number: HostNumber,
    /// What is another than for all.
    programs: Arc<HostPrograms>,
}

/// What a request for a program came to.
pub(crate) enum Answered {
    /// There is no program, or it may not be asked; and the reason, if it is one for whoever runs
    /// the server.
    No(Status, Option<String>),
    /// It was asked.
    Yes(Result<Relayed, Broken>),
}

/// Has `request` answered by the program its path names.
pub(crate) async fn answer(
    connection: &mut Connection,
    request: &Request<'_>,
    head: Head,
    call: &Call,
) -> Result<Answered, Lost> {
    let asked = match Asked::of(request, call) {
        Ok(asked) => asked,
        Err(status) => return Ok(Answered::No(status, None)),
    };
    let Some(site) = asked.cgi.site(&asked.site) else {
        return Ok(Answered::No(Status::ServiceUnavailable, None));
    };
    let site = &*site;
    let mut looked = Looked::Nothing;
    for Candidate { path, names_max, suffix } in asked.candidates {
        let look = Look { root: site.folder.clone(), path, names_max, suffix };
        looked = match look.now(Wait::No) {
            Looked::MustWait => {
                // Earlier answers of a pipeline need not wait.
                connection.flush(Bytes::new(), More::No).await?;
                match blocking(move || look.now(Wait::Yes)).await {
                    Ok(looked) => looked,
                    Err(_) => return Ok(Answered::No(Status::ServiceUnavailable, None)),
                }
            }
            looked => looked,
        };
        if looked != Looked::Nothing {
            break;
        }
    }
    let program = match looked {
        Looked::Found(program) => program,
        Looked::Nothing => return Ok(Answered::No(Status::NotFound, None)),
        Looked::Link(path) => {
            let why = format!(
                "{} is a symbolic link, and none is followed to a program: put the program itself there, or a script that \
                 executes it",
                path.escape_ascii()
            );
            return Ok(Answered::No(Status::NotFound, Some(why)));
        }
        Looked::Refused(why) => {
            let why = format!("the server may not look for the program: {why}");
            return Ok(Answered::No(Status::Forbidden, Some(why)));
        }
        Looked::MustWait => return Ok(Answered::No(Status::ServiceUnavailable, None)),
    };
    // Behind the look: a program that is not there takes no method.
    if matches!(request.method, Method::Trace | Method::Connect) {
        return Ok(Answered::No(Status::MethodNotAllowed, None));
    }
    let run = Run { cgi: &asked.cgi, shared: &asked.shared, site, request, call, program: &program, head };
    let result = run.run(connection).await;
    asked.cgi.count(&result);
    Ok(Answered::Yes(result))
}

/// What is known of a request before anything is looked up.
struct Asked {
    cgi: Arc<Cgi>,
    shared: Arc<Shared>,
    site: SiteKey,
    /// The first that names a program counts.
    candidates: Vec<Candidate>,
}

/// A path that may name the program.
struct Candidate {
    /// Decoded.
    path: Vec<u8>,
    /// The names of a program and its folders end before here.
    names_max: usize,
    /// Of the route that gives the path to CGI.
    suffix: Option<Box<str>>,
}

impl Candidate {
    /// Nothing if no route gives `path` to CGI.
    fn of(path: Vec<u8>, names_max: usize, rules: &Rules) -> Option<Self> {
        let route = rules.routes.iter().find(|route| route.matches(&path))?;
        (route.action == Action::Cgi).then(|| Self { suffix: route.suffix.clone(), names_max, path })
    }

    /// For a request of `path`: the path itself, and the index pages of the folder that it may name.
    fn all(path: &[u8], names_max: usize, rules: &Rules) -> Vec<Self> {
        let is_folder = path.ends_with(b"/") && names_max == path.len();
        let indexes = rules.files.index_names.iter().filter(|_| is_folder);
        let indexes = indexes.map(|name| [path, name.as_bytes()].concat()).map(|page| (page.len(), page));
        let all = std::iter::once((names_max, path.to_vec())).chain(indexes);
        all.filter_map(|(names_max, path)| Self::of(path, names_max, rules)).collect()
    }
}

impl Asked {
    fn of(request: &Request<'_>, call: &Call) -> Result<Self, Status> {
        let mut decoded = Vec::new();
        let path =
            path::decode_for_program(request.target.path, &mut decoded).map_err(|error| error.status())?;
        let (path, names_max) = match call.script.as_deref() {
            Some(script) => (script, script.len()),
            None => (path.bytes, path.names_max()),
        };
        local::with(|local| {
            let programs = local.programs.as_ref().ok_or(Status::NotFound)?;
            let cgi = programs.shared.cgi().cloned().ok_or(Status::NotFound)?;
            let host = call.host.host();
            Ok(Self {
                cgi,
                shared: programs.shared.clone(),
                site: (host.document_root().ok_or(Status::NotFound)?.into(), host.rules.cgi.clone()),
                candidates: Candidate::all(path, names_max, host.rules),
            })
        })
    }
}
