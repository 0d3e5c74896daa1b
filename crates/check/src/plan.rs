//! The plan of a server in words: for `vermeil check`.
//!
//! Reads only the served folders, the names at their top, and the working directories of programs;
//! binds nothing.

use crate::{conditions, doubts, folders::folder_trouble, start};
use rustix::process::geteuid;
use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    fmt, fs,
    os::unix::ffi::OsStrExt as _,
    path::Path,
};
use vermeil_config::{ConfigPlaces, PlacedKey, ServeOptions};
use vermeil_files::has_program_name;
use vermeil_log::HostLog;
use vermeil_routing::hosts::{Action, Asked, Host, HostId, HostPhp, Route, Rules, RunBy, Unknown};
use vermeil_settings::{User, cgi::CgiOptions, php::PoolOptions};
use vermeil_tls::OutOfDate;
use vermeil_topology::CpuSet;

/// The purpose of a host's own folder, whose place in the file is known.
const SERVE: &str = "serve";

/// Hosts shown individually, and folders with a warning. The limit bounds the report of a
/// configuration with a hundred thousand hosts.
const SHOWN_MAX: usize = 20;

/// The plan of a server. Shown as lines.
pub struct ServePlan<'o> {
    options: &'o ServeOptions,
    names: HashMap<HostId, Vec<String>>,
    places: Option<&'o ConfigPlaces>,
}

impl<'o> ServePlan<'o> {
    /// The plan of a server that is asked for `options`.
    pub fn new(options: &'o ServeOptions) -> Self {
        let mut names: HashMap<HostId, Vec<String>> = HashMap::new();
        for (host, name) in options.hosts.all_names() {
            names.entry(host).or_default().push(name);
        }
        names.values_mut().for_each(|names| names.sort());
        Self { options, names, places: None }
    }

    /// The same, with the places of keys in the file. Problems then name their places.
    #[must_use]
    pub fn with_places(self, places: &'o ConfigPlaces) -> Self {
        Self { places: Some(places), ..self }
    }

    /// `what`, with the place of `key` if places are known.
    fn tell(&self, key: PlacedKey, what: String) -> String {
        match self.places {
            Some(places) => places.tell(key, what),
            None => what,
        }
    }

    /// The reasons why the server would not start, checked without a start; one line each.
    pub fn refusals(&self) -> Vec<String> {
        conditions::refusals(self.options, &|key, what| self.tell(key, what))
    }

    /// Further problems that do not prevent a start, one line each.
    pub fn warnings(&self) -> Vec<String> {
        let hosts = &self.options.hosts;
        let forbidden = start::forbidden_roots(self.options);
        let of_host = |id| {
            let forbidden = forbidden.get(&id).map(|why| format!("{}: {why}", self.called(id)));
            let forbidden = forbidden.map(|told| self.tell(PlacedKey::Root(id), told));
            let all = self.warning(id).into_iter().chain(self.of_routes(id)).chain(self.of_missing_files(id));
            forbidden.into_iter().chain(all)
        };
        let php = doubts::missing_pool(self.options).map(|what| self.tell(PlacedKey::PhpSource, what));
        let of_hosts = hosts.iter().flat_map(of_host).chain(self.of_certificates());
        let all: Vec<_> = php.into_iter().chain(of_hosts).collect();
        let left_out = self.options.left_out.iter().map(|problem| format!("{problem} (left out)"));
        let more = all.len().saturating_sub(SHOWN_MAX);
        let mut shown: Vec<_> = all.into_iter().take(SHOWN_MAX).collect();
        if more > 0 {
            shown.push(format!("{more} more warnings about hosts"));
        }
        left_out.chain(shown).collect()
    }

    fn warning(&self, id: HostId) -> Option<String> {
        let Host { root, rules, .. } = self.options.hosts.host(id);
        let (root, runs_programs) = (root?, rules.routes.iter().any(|route| route.action == Action::Cgi));
        let trouble = |(what, folder): (&str, &Path)| {
            let why = folder_trouble(folder)?;
            let told = format!("{}: cannot {what} {}: {why}", self.called(id), folder.display());
            Some(if what == SERVE { self.tell(PlacedKey::Root(id), told) } else { told })
        };
        let log = match self.options.hosts.log(id) {
            Some(HostLog::File(path)) => path.parent(),
            Some(HostLog::Off) | None => None,
        };
        if let Some(warning) = log.and_then(|folder| trouble(("write the access log in", folder))) {
            return Some(warning);
        }
        let own = rules.cgi.as_ref().filter(|_| runs_programs);
        let directory = own.and_then(|own| Some(root.join(own.directory.as_ref()?)));
        let parent = own.and_then(|own| own.cgroup.as_ref()?.folder.parent());
        // For other hosts, this problem is a refusal.
        let is_needed = runs_programs || id == self.options.hosts.default_host();
        let folders = [
            (!is_needed).then_some((SERVE, root)),
            directory.as_deref().map(|folder| ("run programs in", folder)),
            parent.map(|folder| ("run programs in a cgroup below", folder)),
        ];
        let idle = || {
            let name = idle_program(root, rules)?;
            Some(format!(
                "{}: nothing runs {}, and the text of programs and of their copies is never sent (403); write \
                 php = true for *.php, or a route with action = \"cgi\", or take it away",
                self.called(id),
                root.join(name).display()
            ))
        };
        folders.into_iter().flatten().find_map(trouble).or_else(idle)
    }

    /// The doubts about the routes of a host.
    fn of_routes(&self, id: HostId) -> impl Iterator<Item = String> {
        let doubts = doubts::of_routes(self.options, id).into_iter();
        doubts.map(move |(key, what)| self.tell(key, format!("{}: {what}", self.called(id))))
    }

    /// The pages of errors and the files of `try` that are missing.
    fn of_missing_files(&self, id: HostId) -> impl Iterator<Item = String> {
        let host = self.options.hosts.host(id);
        let pages = host.root.map(|root| doubts::missing_error_pages(root, host.rules));
        let candidates = host.root.map(|root| doubts::missing_candidates(root, host.rules));
        pages.into_iter().chain(candidates).flatten().map(move |what| format!("{}: {what}", self.called(id)))
    }

    /// The certificates that clients refuse at this time, each with its first host.
    fn of_certificates(&self) -> impl Iterator<Item = String> {
        let mut seen = HashSet::new();
        let pairs = self.options.hosts.all_certificates();
        let pairs = pairs.flat_map(|(id, host)| host.certificates.iter().map(move |pair| (id, pair)));
        let first = pairs.filter(move |(_, pair)| seen.insert(&pair.certificate));
        first.filter_map(|(id, pair)| {
            let out_of_date = OutOfDate::of_pair(pair)?;
            Some(self.tell(PlacedKey::Certificate(id), format!("{}: {out_of_date}", self.called(id))))
        })
    }

    pub(crate) fn called(&self, id: HostId) -> String {
        match self.names.get(&id) {
            Some(names) => names.join(", "),
            None => "the default host".to_owned(),
        }
    }
}

/// Names checked in a folder for programs that no route runs. The limit bounds the check of a
/// folder with a million files.
const LOOKED_AT_MAX: usize = 1000;

/// The name of a program at the top of `root` that no route runs.
fn idle_program(root: &Path, rules: &Rules) -> Option<OsString> {
    let names =
        fs::read_dir(root).ok()?.take(LOOKED_AT_MAX).filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut names = names.filter(|name| {
        let path = [b"/", name.as_bytes()].concat();
        has_program_name(&path) && matches!(rules.run_by(&path, Asked::PATH_ONLY), RunBy::Nothing)
    });
    names.next()
}

impl fmt::Display for ServePlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServeOptions { hosts, listen, cpus, io, log, .. } = self.options;
        let listen: Vec<_> = listen.iter().map(ToString::to_string).collect();
        let cpu_set: CpuSet = cpus.iter().copied().collect();
        writeln!(f, "listen: {}", listen.join(", "))?;
        writeln!(f, "cores: {} (cpus {cpu_set}); io: {io}; log: {}", cpus.len(), log.target)?;
        let others = match hosts.unknown() {
            Unknown::Refuse => "421".to_owned(),
            Unknown::Default => self.called(hosts.default_host()),
        };
        writeln!(f, "hosts: {}, names: {}; every other name: {others}", hosts.iter().len(), hosts.names())?;
        let user = self.options.user.as_ref();
        let server_uid = user.map_or_else(|| geteuid().as_raw(), |user| user.identity().uid);
        for id in hosts.iter().take(SHOWN_MAX) {
            let served = ServedHost { host: hosts.host(id), cgi: &self.options.cgi, server_uid };
            writeln!(f, "  {}: {served}", self.called(id))?;
        }
        match hosts.iter().len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more"),
        }
    }
}

/// The content of a host.
struct ServedHost<'h> {
    host: Host<'h>,
    /// The settings of CGI programs that hosts share.
    cgi: &'h CgiOptions,
    /// The user of the server, if this process starts the server.
    server_uid: u32,
}

impl ServedHost<'_> {
    /// The CGI programs, with their user if the host names a user, or if the user is the server's.
    fn cgi(&self) -> String {
        let user = self.host.rules.cgi.as_ref().and_then(|programs| programs.user.as_ref());
        let identity = user.map(User::identity).or(self.cgi.identity.as_ref());
        match user {
            _ if identity.is_none_or(|identity| identity.uid == self.server_uid) => {
                "CGI as the server's user".to_owned()
            }
            Some(user) => format!("CGI as {user}"),
            None => "CGI".to_owned(),
        }
    }
}

/// The paths of a route.
pub(crate) struct PlaceOf<'r>(pub(crate) &'r Route);

impl fmt::Display for PlaceOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Route { path, prefix, suffix, pattern, .. } = self.0;
        match (path, pattern) {
            (Some(path), _) => f.write_str(path),
            (None, Some(pattern)) => write!(f, "{}~{pattern}", prefix.as_deref().unwrap_or_default()),
            (None, None) => {
                let [prefix, suffix] = [prefix, suffix].map(|part| part.as_deref().unwrap_or_default());
                write!(f, "{prefix}*{suffix}")
            }
        }
    }
}

/// The pool of a single host.
struct Pooled<'h>(&'h PoolOptions);

impl fmt::Display for Pooled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolOptions { user, children, idle_stop, .. } = self.0;
        if let Some(user) = user {
            write!(f, "as {user}, ")?;
        }
        write!(f, "{children} children, stopped after {} s", idle_stop.as_secs_f64())
    }
}

impl fmt::Display for ServedHost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { root, rules, .. } = &self.host;
        match root {
            Some(root) => write!(f, "files of {}", root.display())?,
            None => f.write_str("no files")?,
        }
        match &rules.php {
            HostPhp::Off => {}
            HostPhp::Shared => f.write_str("; *.php: PHP")?,
            HostPhp::Own(pool) => write!(f, "; *.php: PHP {}", Pooled(pool))?,
        }
        for route in &rules.routes {
            let place = PlaceOf(route);
            let what = match &route.action {
                Action::Files => "files".to_owned(),
                Action::Cgi => self.cgi(),
                Action::Status => "status".to_owned(),
                Action::Metrics => "metrics".to_owned(),
                Action::Ready => "readiness".to_owned(),
                Action::Redirect { to, status } => format!("{} to {to}", status.code()),
                Action::Alias(_) => "files of another folder".to_owned(),
                Action::Rewrite { to } => format!("as {to}"),
                Action::Fixed { status, .. } => format!("{} with a text", status.code()),
                Action::Deny(status) => status.code().to_string(),
            };
            write!(f, "; {place}: {what}")?;
        }
        Ok(())
    }
}
