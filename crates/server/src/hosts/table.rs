//! The table of hosts: made once from a configuration, then only read.
//!
//! Finding a host is one hash of its name, and one more for each part of the name where there are wildcards; a hundred
//! thousand hosts take some 10 MB. Names and folders stand in one piece of memory, and hosts that are configured alike
//! share their rules. Tested in `tests.rs`.

use super::{
    name::{self, Name},
    route::{Action, Route},
};
use crate::{
    cgi::HostPrograms,
    files::{Given, Part, Programs, SiteOptions},
    gateway::HostSends,
    paths,
    php::{self, PoolOptions},
};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    ffi::OsStr,
    hash::BuildHasher,
    net::{IpAddr, SocketAddr},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::Arc,
};

/// The number of a host in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(u32);

impl HostId {
    /// Its place in the order in which hosts were added, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a request for a name that no host has gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unknown {
    /// The default host.
    #[default]
    Default,
    /// 421.
    Refuse,
}

/// What hosts have in common as a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// What of the folder is served.
    pub files: SiteOptions,
    /// Which PHP answers files named `*.php`, if any does.
    pub php: HostPhp,
    /// What its CGI programs run as and within, if it is not as for all.
    pub cgi: Option<Arc<HostPrograms>>,
    /// The folders out of which its programs may have files sent, if they are not those of all.
    pub sends: HostSends,
    /// What is no file; the first that matches counts.
    pub routes: Vec<Route>,
}

impl Rules {
    /// Which files are programs, as PHP and the routes say.
    pub fn programs(&self) -> Programs {
        let parts = self.routes.iter().filter_map(|route| {
            let given = match route.action {
                Action::Cgi => Given::ToCgi,
                Action::Files => Given::ToFiles,
                Action::Status | Action::Ready | Action::Redirect { .. } => return None,
            };
            Some((Part { prefix: route.prefix.clone(), suffix: route.suffix.clone() }, given))
        });
        Programs { last_index: self.php.is_on().then(|| php::INDEX.into()), parts: parts.collect() }
    }

    /// What runs the program at `script`, decoded: the first route that matches says so, as for a request.
    /// A route that is not for the client `peer` keeps the program from running.
    pub(crate) fn run_by(&self, script: &[u8], peer: Option<IpAddr>) -> RunBy<'_> {
        match self.routes.iter().find(|route| route.matches(script)) {
            Some(route) if !route.lets_in(peer) => RunBy::Route(route),
            Some(Route { action: Action::Cgi, .. }) => RunBy::Cgi,
            Some(route) if route.action != Action::Files => RunBy::Route(route),
            _ if self.php.is_on() && php::is_named_php(script) => RunBy::Php,
            _ => RunBy::Nothing,
        }
    }
}

/// What answers for a program that a folder has as its index page.
pub(crate) enum RunBy<'r> {
    Php,
    Cgi,
    /// It is not run: a route takes its path.
    Route(&'r Route),
    /// It is not run, and its text is not sent.
    Nothing,
}

/// Which PHP a host has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum HostPhp {
    /// None: such files are not sent either.
    #[default]
    Off,
    /// The server's.
    Shared,
    /// A pool of its own, or one that it shares with hosts that ask for the same.
    Own(Arc<PoolOptions>),
}

impl HostPhp {
    /// Whether there is any.
    pub fn is_on(&self) -> bool {
        *self != Self::Off
    }
}

/// One host of a table.
#[derive(Clone, Copy, Debug)]
pub struct Host<'t> {
    /// The folder that is served, absolute; without one only routes are.
    pub root: Option<&'t Path>,
    /// The first of its names that is no wildcard.
    pub name: Option<&'t [u8]>,
    /// The rest.
    pub rules: &'t Rules,
}

impl<'t> Host<'t> {
    /// The folder's path as programs are told it: without a slash at its end.
    pub fn document_root(&self) -> Option<&'t [u8]> {
        let bytes = self.root?.as_os_str().as_bytes();
        Some(bytes.strip_suffix(b"/").unwrap_or(bytes))
    }
}

/// A part of [`Hosts::text`].
#[derive(Clone, Copy, Debug)]
struct Text {
    start: u32,
    bytes: u32,
}

#[derive(Clone, Copy, Debug)]
struct NameOf {
    name: Text,
    host: HostId,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    root: Option<Text>,
    name: Option<Text>,
    rules: u32,
}

/// The virtual hosts of a server.
#[derive(Debug)]
pub struct Hosts {
    /// All names and folders, one behind the other.
    text: Vec<u8>,
    exact: HashTable<NameOf>,
    /// By what stands behind the star and its dot.
    below: HashTable<NameOf>,
    /// Dots of the longest name in `below`, and one: no name with more parts needs to be looked up whole.
    below_labels_max: usize,
    hosts: Vec<Record>,
    rules: Vec<Rules>,
    default: HostId,
    unknown: Unknown,
    bound: Bound,
    /// Whether a host is bound to a listener, or a route to clients.
    asks_for_visitor: bool,
    hasher: RandomState,
}

/// Hosts that answer at some listeners only.
#[derive(Debug, Default)]
struct Bound {
    /// The addresses of such a host, as they were asked for.
    addrs: HashMap<HostId, Vec<SocketAddr>>,
    /// The host without a name that is bound to an address.
    nameless: HashMap<SocketAddr, HostId>,
    /// The first host that is bound to an address.
    first: HashMap<SocketAddr, HostId>,
}

impl Hosts {
    /// The host for the value of a request's `Host`, valid as `vermeil-http` says; nothing if the request is to be refused.
    #[inline]
    pub fn find(&self, host: Option<&[u8]>) -> Option<HostId> {
        if self.hosts.len() == 1 && self.unknown == Unknown::Default {
            return Some(self.default);
        }
        let mut buffer = [0; name::NAME_BYTES_MAX];
        let named = host.and_then(|host| self.named(name::normalised(host, &mut buffer)?));
        named.or_else(|| (self.unknown == Unknown::Default).then_some(self.default))
    }

    /// The same for a request that came to the listener `at`, as its address was asked for. A name
    /// of a host that does not answer there is a name that no host has. Unless such names are
    /// refused, they get the nameless host that is bound to the listener; else the default host, if
    /// that answers there; else the first host that is bound to the listener.
    #[inline]
    pub fn find_at(&self, host: Option<&[u8]>, at: Option<SocketAddr>) -> Option<HostId> {
        if self.bound.addrs.is_empty() { self.find(host) } else { self.find_bound(host, at) }
    }

    fn find_bound(&self, host: Option<&[u8]>, at: Option<SocketAddr>) -> Option<HostId> {
        let mut buffer = [0; name::NAME_BYTES_MAX];
        let named = host.and_then(|host| self.named(name::normalised(host, &mut buffer)?));
        let of_listener = |hosts: &HashMap<SocketAddr, HostId>| hosts.get(&at?).copied();
        if let Some(id) = named.filter(|&id| self.answers_at(id, at)) {
            return Some(id);
        }
        if self.unknown == Unknown::Refuse {
            return None;
        }
        let default = Some(self.default).filter(|&id| self.answers_at(id, at));
        of_listener(&self.bound.nameless).or(default).or_else(|| of_listener(&self.bound.first))
    }

    /// Whether a host answers requests that come to the listener `at`.
    fn answers_at(&self, id: HostId, at: Option<SocketAddr>) -> bool {
        self.bound.addrs.get(&id).is_none_or(|addrs| at.is_some_and(|at| addrs.contains(&at)))
    }

    /// Whether an answer may depend on the listener or on the client's address.
    #[inline]
    pub fn ask_for_visitor(&self) -> bool {
        self.asks_for_visitor
    }

    /// The host of a normalised name.
    fn named(&self, name: &[u8]) -> Option<HostId> {
        if let Some(found) = self.look_up(&self.exact, name) {
            return Some(found);
        }
        if self.below.is_empty() {
            return None;
        }
        // From the left: the longest wildcard first. What has more parts than any wildcard is not looked up.
        let is_dot = |(at, &byte): (usize, &u8)| (byte == b'.').then_some(at);
        let dots = name.iter().filter(|byte| **byte == b'.').count();
        let skipped = dots.saturating_sub(self.below_labels_max);
        let mut starts = name.iter().enumerate().filter_map(is_dot).skip(skipped).map(|dot| dot + 1);
        starts.find_map(|start| self.look_up(&self.below, &name[start..]))
    }

    #[inline]
    fn look_up(&self, table: &HashTable<NameOf>, name: &[u8]) -> Option<HostId> {
        let hash = self.hasher.hash_one(name);
        table.find(hash, |known| self.bytes(known.name) == name).map(|found| found.host)
    }

    fn bytes(&self, text: Text) -> &[u8] {
        &self.text[text.start as usize..][..text.bytes as usize]
    }

    /// What is served at a host.
    pub fn host(&self, id: HostId) -> Host<'_> {
        let record = &self.hosts[id.0 as usize];
        let root = record.root.map(|root| Path::new(OsStr::from_bytes(self.bytes(root))));
        let name = record.name.map(|name| self.bytes(name));
        Host { root, name, rules: &self.rules[record.rules as usize] }
    }

    /// The host for names that no host has, unless those are refused.
    pub fn default_host(&self) -> HostId {
        self.default
    }

    /// What becomes of names that no host has.
    pub fn unknown(&self) -> Unknown {
        self.unknown
    }

    /// All hosts, in the order they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = HostId> + use<> {
        (0..self.hosts.len() as u32).map(HostId)
    }

    /// One host for all requests, with the files below `root` and nothing else.
    pub fn single(root: &Path, rules: Rules) -> Self {
        let mut builder = Builder::new();
        builder.add(Some(root), rules);
        builder.build(Unknown::Default).expect("one host was added")
    }

    /// The folder, or how many hosts there are: for a line.
    pub fn describe(&self) -> String {
        match (self.hosts.len(), self.host(self.default).root) {
            (1, Some(root)) => root.canonicalize().unwrap_or_else(|_| root.to_owned()).display().to_string(),
            (1, None) => "one host".to_owned(),
            (count, _) => format!("{count} hosts"),
        }
    }

    /// Bytes of memory it takes, and how many different rules there are.
    #[cfg(test)]
    pub(super) fn footprint(&self) -> (usize, usize) {
        let names = (self.exact.capacity() + self.below.capacity()) * (size_of::<NameOf>() + 1);
        let bytes = self.text.capacity() + names + self.hosts.capacity() * size_of::<Record>();
        (bytes, self.rules.len())
    }

    /// All names, each with its host, in no order.
    pub fn all_names(&self) -> impl Iterator<Item = (HostId, String)> {
        let shown = |star: &'static str| {
            move |known: &NameOf| {
                (known.host, format!("{star}{}", String::from_utf8_lossy(self.bytes(known.name))))
            }
        };
        self.exact.iter().map(shown("")).chain(self.below.iter().map(shown("*.")))
    }

    /// Whether a host has PHP.
    pub fn have_php(&self) -> bool {
        self.rules.iter().any(|rules| rules.php.is_on())
    }

    /// Whether a host has the server's PHP.
    pub fn have_shared_php(&self) -> bool {
        self.rules.iter().any(|rules| rules.php == HostPhp::Shared)
    }

    /// What hosts say of their CGI programs.
    pub fn programs(&self) -> impl Iterator<Item = &Arc<HostPrograms>> {
        self.rules.iter().filter_map(|rules| rules.cgi.as_ref())
    }

    /// What hosts say of files that their programs have sent.
    pub fn sends(&self) -> impl Iterator<Item = &HostSends> {
        self.rules.iter().map(|rules| &rules.sends)
    }

    /// The pools that hosts have for themselves, each once.
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

    /// How many names are known.
    pub fn names(&self) -> usize {
        self.exact.len() + self.below.len()
    }
}

/// Makes a table.
#[derive(Debug)]
pub struct Builder {
    hosts: Hosts,
    rules: HashMap<Rules, u32>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

/// A name belongs to another host already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another host has this name")]
pub struct Taken {
    /// That host.
    pub by: HostId,
}

impl Builder {
    /// An empty table.
    pub fn new() -> Self {
        let hosts = Hosts {
            text: Vec::new(),
            exact: HashTable::new(),
            below: HashTable::new(),
            below_labels_max: 0,
            hosts: Vec::new(),
            rules: Vec::new(),
            default: HostId(0),
            unknown: Unknown::Default,
            bound: Bound::default(),
            asks_for_visitor: false,
            hasher: RandomState::default(),
        };
        Self { hosts, rules: HashMap::new() }
    }

    /// Adds a host without a name; the first one is the default host until another is [made](Self::set_default) that.
    ///
    /// # Panics
    /// With 2^32 hosts, or 4 GB of names and folders.
    pub fn add(&mut self, root: Option<&Path>, rules: Rules) -> HostId {
        let root = root.map(|root| self.store(paths::absolute(root).as_os_str().as_bytes()));
        let next = u32::try_from(self.hosts.rules.len()).expect("fewer than 2^32 hosts");
        let rules = *self.rules.entry(rules).or_insert_with_key(|rules| {
            self.hosts.rules.push(rules.clone());
            next
        });
        let id = HostId(u32::try_from(self.hosts.hosts.len()).expect("fewer than 2^32 hosts"));
        self.hosts.hosts.push(Record { root, name: None, rules });
        id
    }

    /// Gives `host` a name.
    ///
    /// # Errors
    /// [`Taken`] if another host has it. That `host` has it already is no error.
    pub fn name(&mut self, host: HostId, name: &Name) -> Result<(), Taken> {
        let (text, is_exact) = match name {
            Name::Exact(text) => (text.as_bytes(), true),
            Name::Below(text) => (text.as_bytes(), false),
        };
        let table = if is_exact { &self.hosts.exact } else { &self.hosts.below };
        match self.hosts.look_up(table, text) {
            Some(by) if by == host => return Ok(()),
            Some(by) => return Err(Taken { by }),
            None => {}
        }
        let name = self.store(text);
        let Hosts { exact, below, below_labels_max, hasher, hosts, text: all, .. } = &mut self.hosts;
        if is_exact {
            hosts[host.index()].name.get_or_insert(name);
        } else {
            let labels = 1 + text.iter().filter(|byte| **byte == b'.').count();
            *below_labels_max = labels.max(*below_labels_max);
        }
        let hash_of =
            |known: &NameOf| hasher.hash_one(&all[known.name.start as usize..][..known.name.bytes as usize]);
        let table = if is_exact { exact } else { below };
        table.insert_unique(hasher.hash_one(text), NameOf { name, host }, hash_of);
        Ok(())
    }

    /// Makes `host` answer at the listeners with these addresses only, as they were asked for.
    ///
    /// # Errors
    /// [`Taken`] if the host has no name, nor has another one that is bound to one of them.
    pub fn bind(&mut self, host: HostId, addrs: Vec<SocketAddr>, is_nameless: bool) -> Result<(), Taken> {
        let Bound { addrs: all, nameless, first } = &mut self.hosts.bound;
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

    /// Makes `host` the one for names that no host has.
    pub fn set_default(&mut self, host: HostId) {
        self.hosts.default = host;
    }

    fn store(&mut self, bytes: &[u8]) -> Text {
        let start = u32::try_from(self.hosts.text.len()).expect("less than 4 GB of names and folders");
        self.hosts.text.extend_from_slice(bytes);
        Text { start, bytes: u32::try_from(bytes.len()).expect("less than 4 GB of names and folders") }
    }

    /// The table, in which requests for names that no host has are treated as said; nothing if it has no host.
    pub fn build(self, unknown: Unknown) -> Option<Hosts> {
        let mut hosts = self.hosts;
        if hosts.hosts.is_empty() {
            return None;
        }
        hosts.text.shrink_to_fit();
        hosts.hosts.shrink_to_fit();
        hosts.unknown = unknown;
        let has_private_routes =
            hosts.rules.iter().flat_map(|rules| &rules.routes).any(|route| !route.from.is_empty());
        hosts.asks_for_visitor = has_private_routes || !hosts.bound.addrs.is_empty();
        Some(hosts)
    }
}
