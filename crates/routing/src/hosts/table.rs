//! The table of hosts: made once from a configuration, then only read.
//!
//! A look-up costs a hash of the name, and another hash for each part of the name if the table has
//! wildcards. A hundred thousand hosts take some 10 MB. Names and folders share a single buffer,
//! and hosts with the same rules share these rules. Tested in `tests.rs`.

mod certificates;
mod guards;
mod logs;

use super::{
    answer_rules::AnswerRules,
    candidate::Candidate,
    condition::Asked,
    guard::Guard,
    name::{self, HostName},
    proxies::TrustedProxies,
    route::{Action, Route},
};
use crate::paths;
use foldhash::fast::{FixedState, RandomState};
use hashbrown::HashTable;
use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    ffi::OsStr,
    hash::BuildHasher,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::Arc,
};
use vermeil_address::ListenAddr;
use vermeil_files::{RouteEffect, SiteOptions, SitePart, SitePrograms};
use vermeil_http::{Request, path};
use vermeil_settings::{
    cgi::HostPrograms,
    gateway::HostSends,
    php::{self, PoolOptions},
    tls::HttpsUse,
};
use vermeil_tls::HostTls;

/// The number of a host in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(u32);

impl HostId {
    /// The number of the first folder of a route. Such a folder is opened like the folder of a
    /// host.
    const FOLDERS: u32 = 1 << 31;

    /// The position of the host in the order of adding, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether this is the folder of a route, which has no host.
    pub(super) fn is_of_route(self) -> bool {
        self.0 >= Self::FOLDERS
    }
}

/// The answer to a request for an unknown name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unknown {
    /// The default host.
    #[default]
    Default,
    /// 421.
    Refuse,
}

/// The rules of a host; many hosts share the same rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Options for the files of the folder.
    pub files: SiteOptions,
    /// The PHP that answers files named `*.php`, if the host has PHP.
    pub php: HostPhp,
    /// User and limits of the host's CGI programs, if they differ from the server's.
    pub cgi: Option<Arc<HostPrograms>>,
    /// The folders from which the host's programs may send files, if they differ from the server's.
    pub sends: HostSends,
    /// Paths that are not files; the first match counts.
    pub routes: Vec<Route>,
    /// The paths to look up when the request's own path names nothing.
    pub tries: Vec<Candidate>,
    /// The rules about clients.
    pub guard: Option<Arc<Guard>>,
    /// How the answers of the host differ from those of the server.
    pub answers: AnswerRules,
    /// Whether requests must use HTTPS.
    pub https: HttpsUse,
}

impl Rules {
    /// Which files are programs, from PHP and the routes.
    pub fn programs(&self) -> SitePrograms {
        let parts = self.routes.iter().filter_map(|route| {
            let given = match route.action {
                Action::Cgi => RouteEffect::ToCgi,
                // A route for some requests leaves the file a program for the others.
                Action::Files
                    if route.path.is_none() && route.pattern.is_none() && route.conditions.is_empty() =>
                {
                    RouteEffect::ToFiles
                }
                _ => return None,
            };
            Some((SitePart { prefix: route.prefix.clone(), suffix: route.suffix.clone() }, given))
        });
        SitePrograms { last_index: self.php.is_on().then(|| php::INDEX.into()), parts: parts.collect() }
    }

    /// The names that CGI runs anywhere on the host, for a folder of a route, whose paths are no
    /// paths of the host.
    pub fn programs_of_folders(&self) -> SitePrograms {
        let is_named =
            |(part, effect): &(SitePart, RouteEffect)| part.suffix.is_some() && *effect == RouteEffect::ToCgi;
        let named = self.programs().parts.into_iter().filter(is_named);
        let parts = named.map(|(part, effect)| (SitePart { prefix: None, ..part }, effect));
        SitePrograms { last_index: None, parts: parts.collect() }
    }

    /// The first route that matches, and its number. After a rewrite, an earlier route that refuses
    /// the request comes first.
    #[inline]
    pub fn route(&self, path: &[u8], asked: Asked<'_>) -> Option<(usize, &Route)> {
        if asked.first > 0
            && let Some(refusal) = self.refusal(path, asked)
        {
            return Some(refusal);
        }
        let mut routes = self.routes.iter().enumerate().skip(asked.first);
        routes.find(|(_, route)| route.matches(path, asked))
    }

    /// Whether the routes leave `target`, a candidate of `try`, to files and programs.
    pub fn leaves_to_files(&self, target: &[u8], asked: Asked<'_>) -> bool {
        let route = self.route(target, asked).map(|(_, route)| route);
        route.is_none_or(|route| {
            route.lets_in(asked.peer) && matches!(route.action, Action::Files | Action::Cgi)
        })
    }

    /// The interpreter of the program at `script`, decoded. The first route that matches decides,
    /// as for a request. If that route is not for the client, the program does not run.
    pub fn run_by(&self, script: &[u8], asked: Asked<'_>) -> RunBy<'_> {
        match self.route(script, asked).map(|(_, route)| route) {
            Some(route) if !route.lets_in(asked.peer) => RunBy::Route(route),
            Some(Route { action: Action::Cgi, .. }) => RunBy::Cgi,
            Some(route) if route.action != Action::Files => RunBy::Route(route),
            _ if self.php.is_on() && php::is_named_php(script) => RunBy::Php,
            _ => RunBy::Nothing,
        }
    }

    /// The paths to look up when the request's own path, decoded, names nothing.
    pub fn candidates(&self, path: &[u8], asked: Asked<'_>) -> &[Candidate] {
        let of_route = self.route(path, asked).map(|(_, route)| route);
        of_route.and_then(|route| route.tries.as_ref()).unwrap_or(&self.tries)
    }

    /// Whether there are [candidates](Self::candidates) for `request`.
    pub fn has_candidates(&self, request: &Request<'_>, asked: Asked<'_>) -> bool {
        if self.tries.is_empty() && self.routes.is_empty() {
            return false;
        }
        let mut decoded = Vec::new();
        let path = path::decode_for_program(request.target.path, &mut decoded);
        path.is_ok_and(|path| !self.candidates(path.bytes, asked).is_empty())
    }
}

/// The answer for a program that is the index page of a folder.
pub enum RunBy<'r> {
    /// PHP runs the program.
    Php,
    /// CGI runs the program.
    Cgi,
    /// The program does not run, because a route covers its path.
    Route(&'r Route),
    /// The program does not run, and the server does not send its text.
    Nothing,
}

/// The PHP of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum HostPhp {
    /// No PHP: the server does not send such files either.
    #[default]
    Off,
    /// The server's PHP.
    Shared,
    /// A pool of the host's own, shared only with hosts that ask for the same options.
    Own(Arc<PoolOptions>),
}

impl HostPhp {
    /// Whether the host has PHP.
    pub fn is_on(&self) -> bool {
        *self != Self::Off
    }
}

/// A host of a table.
#[derive(Clone, Copy, Debug)]
pub struct Host<'t> {
    /// The served folder, absolute; a host without a folder has only routes.
    pub root: Option<&'t Path>,
    /// The first of its names that is no wildcard.
    pub name: Option<&'t [u8]>,
    /// The other settings of the host.
    pub rules: &'t Rules,
}

impl<'t> Host<'t> {
    /// The folder's path as passed to programs: without a slash at its end.
    pub fn document_root(&self) -> Option<&'t [u8]> {
        let bytes = self.root?.as_os_str().as_bytes();
        Some(bytes.strip_suffix(b"/").unwrap_or(bytes))
    }
}

/// A part of [`Hosts::text`].
#[derive(Clone, Copy, Debug)]
struct HostsText {
    start: u32,
    bytes: u32,
}

#[derive(Clone, Copy, Debug)]
struct NameOf {
    name: HostsText,
    host: HostId,
}

#[derive(Clone, Copy, Debug)]
struct HostRecord {
    root: Option<HostsText>,
    /// The first name that is no wildcard. Of a host with wildcards alone, the first of these.
    name: Option<HostsText>,
    log: logs::RecordedLog,
    rules: u32,
    /// Whether all names are wildcards.
    is_wildcard: bool,
    /// Whether there are rules about clients.
    is_guarded: bool,
}

/// The virtual hosts of a server.
#[derive(Debug)]
pub struct Hosts {
    /// All names and folders, back to back.
    text: Vec<u8>,
    names: HostNames,
    hosts: Vec<HostRecord>,
    rules: Vec<Rules>,
    /// Folders of routes, by number above [`HostId::FOLDERS`].
    folders: Vec<(Box<Path>, SiteOptions)>,
    default: HostId,
    unknown: Unknown,
    bound: BoundHosts,
    proxies: TrustedProxies,
    secure: SecureHosts,
    needs: RequestNeeds,
    hasher: RandomState,
}

/// What requests need because of the rules of any host.
#[derive(Debug, Default)]
struct RequestNeeds {
    /// The client and the listener: a host is bound to a listener, a route to clients, a host
    /// requires HTTPS or certificates of clients, or a proxy is believed.
    visitor: bool,
    /// The log of their host.
    logs: bool,
    /// The route of an index page: a route refuses clients, or has rules about clients or answers.
    index_pages: bool,
}

/// The names of hosts.
#[derive(Debug, Default)]
struct HostNames {
    exact: HashTable<NameOf>,
    /// Names that begin with a star, by the text behind the star and its dot.
    wildcards: HashTable<NameOf>,
    /// Dots of the longest wildcard, plus 1. The look-up skips the leading parts of a longer name.
    labels_max: usize,
}

/// Hosts with certificates.
#[derive(Debug, Default)]
struct SecureHosts {
    certificates: HashMap<HostId, Arc<HostTls>, RandomState>,
    /// The listeners that speak HTTPS, as configured.
    listeners: Vec<ListenAddr>,
    /// Whether a host asks clients for certificates.
    ask_clients: bool,
}

/// Hosts that answer at some listeners only.
#[derive(Debug, Default)]
struct BoundHosts {
    /// The places of each bound host. The modes of unix sockets do not count, because a reload may
    /// change a mode while connections go on.
    addrs: HashMap<HostId, Vec<ListenAddr>>,
    /// The host without a name that is bound to an address.
    nameless: HashMap<ListenAddr, HostId>,
    /// The first host that is bound to an address.
    first: HashMap<ListenAddr, HostId>,
}

impl Hosts {
    /// The host for the value of a request's `Host`, valid as `vermeil-http` says. `None` if the
    /// server refuses the request.
    #[inline]
    pub fn find(&self, host: Option<&[u8]>) -> Option<HostId> {
        if self.hosts.len() == 1 && self.unknown == Unknown::Default {
            return Some(self.default);
        }
        let mut buffer = [0; name::NAME_BYTES_MAX];
        let named = host.and_then(|host| self.named(name::normalised(host, &mut buffer)?));
        named.or_else(|| (self.unknown == Unknown::Default).then_some(self.default))
    }

    /// As [`Self::find`], for a request at the listener `at`, given as configured. The name of a
    /// host that does not answer there counts as unknown. Unless the server refuses unknown names,
    /// the request gets the nameless host bound to the listener. Otherwise the request gets the
    /// default host, if that host answers there, and else the first host bound to the listener.
    #[inline]
    pub fn find_at(&self, host: Option<&[u8]>, at: Option<ListenAddr>) -> Option<HostId> {
        if self.bound.addrs.is_empty() { self.find(host) } else { self.find_bound(host, at) }
    }

    fn find_bound(&self, host: Option<&[u8]>, at: Option<ListenAddr>) -> Option<HostId> {
        let mut buffer = [0; name::NAME_BYTES_MAX];
        let named = host.and_then(|host| self.named(name::normalised(host, &mut buffer)?));
        if let Some(id) = named.filter(|&id| self.answers_at(id, at)) {
            return Some(id);
        }
        if self.unknown == Unknown::Refuse {
            return None;
        }
        self.nameless_at(at)
    }

    /// The host for requests without a known name at the listener `at`, if such requests are not
    /// refused.
    fn nameless_at(&self, at: Option<ListenAddr>) -> Option<HostId> {
        let of_listener = |hosts: &HashMap<ListenAddr, HostId>| hosts.get(&at?.place()).copied();
        let default = Some(self.default).filter(|&id| self.answers_at(id, at));
        of_listener(&self.bound.nameless).or(default).or_else(|| of_listener(&self.bound.first))
    }

    /// Whether a host answers requests at the listener `at`.
    fn answers_at(&self, id: HostId, at: Option<ListenAddr>) -> bool {
        let Some(addrs) = self.bound.addrs.get(&id) else { return true };
        at.is_some_and(|at| addrs.iter().any(|addr| addr.is_at(&at)))
    }

    /// The believed proxies.
    pub fn proxies(&self) -> &TrustedProxies {
        &self.proxies
    }

    /// Whether an answer may depend on the listener or on the client's address.
    #[inline]
    pub fn ask_for_visitor(&self) -> bool {
        self.needs.visitor
    }

    /// The host of a normalised name.
    fn named(&self, name: &[u8]) -> Option<HostId> {
        if let Some(found) = self.look_up(&self.names.exact, name) {
            return Some(found);
        }
        if self.names.wildcards.is_empty() {
            return None;
        }
        // From the left, because the longest wildcard comes first. Suffixes with more parts than
        // any wildcard are skipped.
        let is_dot = |(at, &byte): (usize, &u8)| (byte == b'.').then_some(at);
        let dots = name.iter().filter(|byte| **byte == b'.').count();
        let skipped = dots.saturating_sub(self.names.labels_max);
        let mut starts = name.iter().enumerate().filter_map(is_dot).skip(skipped).map(|dot| dot + 1);
        starts.find_map(|start| self.look_up(&self.names.wildcards, &name[start..]))
    }

    #[inline]
    fn look_up(&self, table: &HashTable<NameOf>, name: &[u8]) -> Option<HostId> {
        let hash = self.hasher.hash_one(name);
        table.find(hash, |known| self.bytes(known.name) == name).map(|found| found.host)
    }

    fn bytes(&self, text: HostsText) -> &[u8] {
        &self.text[text.start as usize..][..text.bytes as usize]
    }

    /// The folder of a host or a route, with its options.
    pub fn folder(&self, id: HostId) -> Option<(&Path, SiteOptions)> {
        if let Some(folder) = id.0.checked_sub(HostId::FOLDERS) {
            let (root, options) = &self.folders[folder as usize];
            return Some((root, options.clone()));
        }
        let Host { root, rules, .. } = self.host(id);
        Some((root?, SiteOptions { programs: rules.programs(), ..rules.files.clone() }))
    }

    /// All folders of hosts and routes.
    pub fn folders(&self) -> impl Iterator<Item = HostId> {
        let of_routes = 0..self.folders.len() as u32;
        self.iter().chain(of_routes.map(|folder| HostId(HostId::FOLDERS + folder)))
    }

    /// The folder and rules of a host.
    pub fn host(&self, id: HostId) -> Host<'_> {
        let record = &self.hosts[id.0 as usize];
        let root = record.root.map(|root| Path::new(OsStr::from_bytes(self.bytes(root))));
        let name = record.name.filter(|_| !record.is_wildcard).map(|name| self.bytes(name));
        Host { root, name, rules: &self.rules[record.rules as usize] }
    }

    /// A number under which the rates and the requests in progress of a host are counted. The
    /// number follows from the host's first name, or from the listeners of a host without a name.
    /// So the number stays the same when a reload changes the order of the hosts.
    pub fn lasting_number(&self, id: HostId) -> u64 {
        let record = &self.hosts[id.index()];
        let name = record.name.map(|name| (self.bytes(name), record.is_wildcard));
        let hasher = FixedState::default();
        let bound = self.bound.addrs.get(&id).filter(|_| name.is_none());
        let listener = bound.and_then(|addrs| addrs.iter().map(|addr| hasher.hash_one(addr)).min());
        hasher.hash_one((name, listener))
    }

    /// The number of the rules of a host, if the answers of the host, or of its route `route`,
    /// differ from those of the server.
    #[inline]
    pub(super) fn differing(&self, id: HostId, route: Option<usize>) -> Option<u32> {
        let number = self.hosts[id.0 as usize].rules;
        (!self.answer_rules(number, route).is_empty()).then_some(number)
    }

    /// The rules for the answers of the hosts with the rules `number`.
    #[inline]
    pub(super) fn answer_rules(&self, number: u32, route: Option<usize>) -> &AnswerRules {
        let rules = &self.rules[number as usize];
        let of_route = route.and_then(|route| rules.routes[route].answers.as_ref());
        of_route.unwrap_or(&rules.answers)
    }

    /// Whether a host has rules about clients.
    #[inline]
    pub fn is_guarded(&self, id: HostId) -> bool {
        self.hosts[id.0 as usize].is_guarded
    }

    /// The host for unknown names, unless the server refuses such names.
    pub fn default_host(&self) -> HostId {
        self.default
    }

    /// The treatment of unknown names.
    pub fn unknown(&self) -> Unknown {
        self.unknown
    }

    /// All hosts, in the order of adding.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = HostId> + use<> {
        (0..self.hosts.len() as u32).map(HostId)
    }

    /// A single host for all requests, with the files below `root`.
    pub fn single(root: &Path, rules: Rules, certificates: Option<HostTls>) -> Self {
        let mut builder = HostsBuilder::new();
        let host = builder.add(Some(root), rules);
        if let Some(certificates) = certificates {
            builder.secure(host, certificates);
        }
        builder.build(Unknown::Default).expect("one host was added")
    }

    /// The folder, or the number of hosts, for a line at start.
    pub fn describe(&self) -> String {
        match (self.hosts.len(), self.host(self.default).root) {
            (1, Some(root)) => root.canonicalize().unwrap_or_else(|_| root.to_owned()).display().to_string(),
            (1, None) => "one host".to_owned(),
            (count, _) => format!("{count} hosts"),
        }
    }

    /// Bytes of memory of the table, and the number of different rules.
    #[cfg(test)]
    pub(super) fn footprint(&self) -> (usize, usize) {
        let names =
            (self.names.exact.capacity() + self.names.wildcards.capacity()) * (size_of::<NameOf>() + 1);
        let bytes = self.text.capacity() + names + self.hosts.capacity() * size_of::<HostRecord>();
        (bytes, self.rules.len())
    }

    /// All names, each with its host, in no order.
    pub fn all_names(&self) -> impl Iterator<Item = (HostId, String)> {
        let shown = |star: &'static str| {
            move |known: &NameOf| {
                (known.host, format!("{star}{}", String::from_utf8_lossy(self.bytes(known.name))))
            }
        };
        self.names.exact.iter().map(shown("")).chain(self.names.wildcards.iter().map(shown("*.")))
    }

    /// Whether a host has PHP.
    pub fn have_php(&self) -> bool {
        self.rules.iter().any(|rules| rules.php.is_on())
    }

    /// Whether a host has the server's PHP.
    pub fn have_shared_php(&self) -> bool {
        self.rules.iter().any(|rules| rules.php == HostPhp::Shared)
    }

    /// The hosts' settings for CGI programs.
    pub fn programs(&self) -> impl Iterator<Item = &Arc<HostPrograms>> {
        self.rules.iter().filter_map(|rules| rules.cgi.as_ref())
    }

    /// The hosts' settings for files that programs send.
    pub fn sends(&self) -> impl Iterator<Item = &HostSends> {
        self.rules.iter().map(|rules| &rules.sends)
    }

    /// The pools of single hosts, without duplicates.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<PoolOptions>> {
        let mut seen = HashSet::new();
        let pools = self.rules.iter().filter_map(|rules| match &rules.php {
            HostPhp::Own(pool) => Some(pool),
            HostPhp::Off | HostPhp::Shared => None,
        });
        pools.filter(move |pool| seen.insert(*pool))
    }

    /// Whether a host has CGI programs.
    pub fn have_cgi(&self) -> bool {
        self.rules.iter().flat_map(|rules| &rules.routes).any(|route| route.action == Action::Cgi)
    }

    /// Number of names in the table.
    pub fn names(&self) -> usize {
        self.names.exact.len() + self.names.wildcards.len()
    }
}

/// Makes a table.
#[derive(Debug)]
pub struct HostsBuilder {
    hosts: Hosts,
    rules: HashMap<Rules, u32>,
    /// The position of each folder of a route.
    folders: HashMap<(Box<Path>, SiteOptions), u32>,
}

impl Default for HostsBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// The error for a name that another host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another host has this name")]
pub struct Taken {
    /// The host that has the name.
    pub by: HostId,
}

impl HostsBuilder {
    /// An empty table.
    pub fn new() -> Self {
        let hosts = Hosts {
            text: Vec::new(),
            names: HostNames::default(),
            hosts: Vec::new(),
            rules: Vec::new(),
            folders: Vec::new(),
            default: HostId(0),
            unknown: Unknown::Default,
            bound: BoundHosts::default(),
            proxies: TrustedProxies::default(),
            secure: SecureHosts::default(),
            needs: RequestNeeds::default(),
            hasher: RandomState::default(),
        };
        Self { hosts, rules: HashMap::new(), folders: HashMap::new() }
    }

    /// Adds a host without a name. The first host is the default host until
    /// [`set_default`](Self::set_default).
    ///
    /// # Panics
    /// With 2^32 hosts, or 4 GB of names and folders.
    pub fn add(&mut self, root: Option<&Path>, rules: Rules) -> HostId {
        let root = root.map(|root| self.store(paths::absolute(root).as_os_str().as_bytes()));
        let is_guarded = rules.is_guarded();
        let next = u32::try_from(self.hosts.rules.len()).expect("fewer than 2^32 hosts");
        let rules = *self.rules.entry(rules).or_insert_with_key(|rules| {
            self.hosts.rules.push(rules.clone());
            next
        });
        let id = HostId(u32::try_from(self.hosts.hosts.len()).expect("fewer than 2^32 hosts"));
        self.hosts.hosts.push(HostRecord {
            root,
            name: None,
            log: logs::RecordedLog::Common,
            rules,
            is_wildcard: false,
            is_guarded,
        });
        id
    }

    /// Gives `host` a name.
    ///
    /// # Errors
    /// [`Taken`] if another host has the name. A second call for the same `host` is no error.
    pub fn name(&mut self, host: HostId, name: &HostName) -> Result<(), Taken> {
        let (text, is_exact) = match name {
            HostName::Exact(text) => (text.as_bytes(), true),
            HostName::Below(text) => (text.as_bytes(), false),
        };
        let table = if is_exact { &self.hosts.names.exact } else { &self.hosts.names.wildcards };
        match self.hosts.look_up(table, text) {
            Some(by) if by == host => return Ok(()),
            Some(by) => return Err(Taken { by }),
            None => {}
        }
        let name = self.store(text);
        let Hosts { names, hasher, hosts, text: all, .. } = &mut self.hosts;
        let named = &mut hosts[host.index()];
        if named.name.is_none() || is_exact && named.is_wildcard {
            (named.name, named.is_wildcard) = (Some(name), !is_exact);
        }
        if !is_exact {
            let labels = 1 + text.iter().filter(|byte| **byte == b'.').count();
            names.labels_max = labels.max(names.labels_max);
        }
        let hash_of =
            |known: &NameOf| hasher.hash_one(&all[known.name.start as usize..][..known.name.bytes as usize]);
        let table = if is_exact { &mut names.exact } else { &mut names.wildcards };
        table.insert_unique(hasher.hash_one(text), NameOf { name, host }, hash_of);
        Ok(())
    }

    /// Restricts `host` to the listeners with these addresses, given as configured.
    ///
    /// # Errors
    /// [`Taken`] if `is_nameless` and another nameless host is bound to an address of `addrs`.
    pub fn bind(&mut self, host: HostId, addrs: Vec<ListenAddr>, is_nameless: bool) -> Result<(), Taken> {
        let BoundHosts { addrs: all, nameless, first } = &mut self.hosts.bound;
        let addrs: Vec<_> = addrs.into_iter().map(ListenAddr::place).collect();
        for &addr in &addrs {
            first.entry(addr).or_insert(host);
            if is_nameless {
                match nameless.entry(addr) {
                    Entry::Occupied(taken) if *taken.get() != host => return Err(Taken { by: *taken.get() }),
                    entry => *entry.or_insert(host) = host,
                }
            }
        }
        all.insert(host, addrs);
        Ok(())
    }

    /// Believes these proxies.
    pub fn trust(&mut self, proxies: TrustedProxies) {
        self.hosts.proxies = proxies;
    }

    /// Whether requests of any proxy are believed.
    pub fn believes_proxies(&self) -> bool {
        let TrustedProxies { from, listeners, .. } = &self.hosts.proxies;
        !from.is_empty() || !listeners.is_empty()
    }

    /// Adds the folder of a route.
    ///
    /// # Panics
    /// With 2^31 folders.
    pub fn folder(&mut self, root: &Path, options: SiteOptions) -> HostId {
        let folder = (paths::absolute(root).into_boxed_path(), options);
        let next = u32::try_from(self.hosts.folders.len()).expect("fewer than 2^31");
        let number = *self.folders.entry(folder).or_insert_with_key(|folder| {
            self.hosts.folders.push(folder.clone());
            next
        });
        HostId(number.checked_add(HostId::FOLDERS).expect("fewer than 2^31"))
    }

    /// Gives `host` certificates.
    pub fn secure(&mut self, host: HostId, certificates: HostTls) {
        self.hosts.secure.ask_clients |= certificates.client_issuers.is_some();
        self.hosts.secure.certificates.insert(host, Arc::new(certificates));
    }

    /// Names the listeners that speak HTTPS.
    pub fn set_https_listeners(&mut self, listeners: &[ListenAddr]) {
        self.hosts.secure.listeners = listeners.to_vec();
    }

    /// The hosts without a name that no request reaches, if requests for unknown names get the
    /// answer `unknown`. If such requests are refused, a host without a name beside others counts
    /// as reached: the host may have the certificates for unknown names.
    pub fn unreachable(&self, unknown: Unknown) -> impl Iterator<Item = HostId> {
        let is_nameless = |id: HostId| self.hosts.hosts[id.index()].name.is_none();
        let all = (0..self.hosts.hosts.len() as u32).map(HostId);
        let have_names = all.clone().any(|id| !is_nameless(id));
        let is_reached = move |id: HostId| match unknown {
            Unknown::Refuse => have_names,
            Unknown::Default => self.hosts.bound.addrs.contains_key(&id) || self.hosts.default == id,
        };
        all.filter(move |&id| is_nameless(id) && !is_reached(id))
    }

    /// Makes `host` the host for unknown names.
    pub fn set_default(&mut self, host: HostId) {
        self.hosts.default = host;
    }

    fn store(&mut self, bytes: &[u8]) -> HostsText {
        let start = u32::try_from(self.hosts.text.len()).expect("less than 4 GB of names and folders");
        self.hosts.text.extend_from_slice(bytes);
        HostsText { start, bytes: u32::try_from(bytes.len()).expect("less than 4 GB of names and folders") }
    }

    /// The table, with the given treatment of unknown names. `None` if the table has no host.
    pub fn build(self, unknown: Unknown) -> Option<Hosts> {
        let mut hosts = self.hosts;
        if hosts.hosts.is_empty() {
            return None;
        }
        hosts.text.shrink_to_fit();
        hosts.hosts.shrink_to_fit();
        hosts.unknown = unknown;
        let is_private = |route: &Route| !route.from.is_empty() || !route.conditions.clients.is_empty();
        let has_private_routes = hosts.rules.iter().flat_map(|rules| &rules.routes).any(is_private);
        let have_guards = hosts.hosts.iter().any(|host| host.is_guarded);
        let has_proxies = !hosts.proxies.from.is_empty();
        let is_for_scheme = |route: &Route| match &route.action {
            Action::Redirect { to, .. } | Action::Rewrite { to } => to.has_scheme(),
            _ => false,
        };
        let have_schemes = hosts.rules.iter().flat_map(|rules| &rules.routes).any(is_for_scheme);
        let have_redirects = hosts.rules.iter().any(|rules| rules.https != HttpsUse::Optional);
        let mut routes = hosts.rules.iter().flat_map(|rules| &rules.routes);
        hosts.needs.index_pages = routes.any(|route| route.may_refuse() || route.answers.is_some());
        hosts.needs.visitor = hosts.secure.ask_clients
            || has_private_routes
            || have_guards
            || has_proxies
            || have_schemes
            || have_redirects
            || !hosts.bound.addrs.is_empty();
        Some(hosts)
    }
}
