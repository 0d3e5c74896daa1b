//! The open folders of hosts: a bounded number, whatever the number of hosts.
//!
//! The first request for a folder opens the folder. Hosts with the same folder and options share
//! the site. At the bound, the server closes a part of the sites that were not used since the last
//! scan. The cores drop their references with the next request or within a second. Until then these
//! sites are still correct, because a site lives as long as its last reference. Tested in
//! `open/tests.rs`.

use super::{AnswerRules, Host, Hosts, Rules, table::HostId};
use foldhash::fast::RandomState;
use std::{
    collections::{HashMap, HashSet},
    fmt,
    hash::BuildHasher,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};
use vermeil_files::{Doorkeeper, FileStore, Site, SiteError, SiteOptions, UnopenedFolder};
use vermeil_http::Status;
use vermeil_io::CacheOnly;

#[cfg(test)]
mod tests;

/// Share of the open folders to close at the bound, as a divisor. Each core scans its seats once
/// per such part, so the scan of a core is divided by a sixteenth of its folders.
const CLOSED_PART: usize = 16;

/// Requests for a host within a second for which the server opens the host's folder, if another
/// folder has to be closed. Below that, serving by path costs less (bench `tail`).
const OPENED_REQUESTS: u8 = 8;

/// A folder to serve, with its options. Hosts that agree in both share a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Folder {
    root: PathBuf,
    options: Arc<SiteOptions>,
}

impl Folder {
    /// The folder of a host, if the host has a folder.
    pub fn of(hosts: &Hosts, host: HostId) -> Option<Self> {
        let (root, options) = hosts.folder(host)?;
        Some(Self { root: root.to_owned(), options: Arc::new(options) })
    }
}

/// The options of a site with these rules.
fn options_of(rules: &Rules) -> Arc<SiteOptions> {
    Arc::new(SiteOptions { programs: rules.programs(), ..rules.files.clone() })
}

/// A place in the bounded set of open sites.
pub struct SitePermit {
    site: Arc<Site>,
    /// Set by use, cleared by the scan for a seat to close. Relaxed: a hint.
    used: AtomicBool,
    /// Set once, when the seat is closed. Release when set, Acquire when read.
    closed: AtomicBool,
}

impl SitePermit {
    #[inline]
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    #[inline]
    fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }
}

/// All open sites; shared by all cores.
pub struct OpenSites {
    store: Arc<FileStore>,
    max: usize,
    seats: Mutex<Seats>,
    /// Number of open sites, written under the lock. Relaxed: a hint.
    count: AtomicUsize,
    /// Number of closings. Relaxed: when the counter moves, cores check `SitePermit::closed`.
    closings: AtomicU64,
}

#[derive(Default)]
struct Seats {
    by_folder: HashMap<Folder, usize, RandomState>,
    /// Never longer than the bound.
    all: Vec<(Folder, Arc<SitePermit>)>,
    /// Position of the scan for unused seats.
    hand: usize,
}

impl OpenSites {
    /// An empty set for at most `max` sites of `store`.
    pub fn new(store: Arc<FileStore>, max: usize) -> Self {
        let (count, closings) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { store, max: max.max(1), seats: Mutex::default(), count, closings }
    }

    /// The store of all sites.
    pub fn store(&self) -> &Arc<FileStore> {
        &self.store
    }

    /// Number of open sites.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether another site would displace one.
    fn is_full(&self) -> bool {
        self.count() >= self.max
    }

    #[inline]
    fn closings(&self) -> u64 {
        self.closings.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().expect("nothing panics under this lock")
    }

    fn find(&self, folder: &Folder) -> Option<Arc<SitePermit>> {
        let seats = self.lock();
        let &place = seats.by_folder.get(folder)?;
        Some(seats.all[place].1.clone())
    }

    /// The site of `folder`. Opens the site if necessary.
    ///
    /// # Errors
    /// The folder cannot be served. With [`CacheOnly::Yes`] also [`io::ErrorKind::WouldBlock`], if
    /// the open would wait for the disk.
    pub fn open(&self, folder: &Folder, cache: CacheOnly) -> Result<Arc<SitePermit>, SiteError> {
        if let Some(seat) = self.find(folder) {
            return Ok(seat);
        }
        let site = self.store.open(&folder.root, folder.options.clone(), cache)?;
        Ok(self.seat(folder, site))
    }

    /// Gives `site` a seat. If another core was faster, returns the seat of that core.
    fn seat(&self, folder: &Folder, site: Arc<Site>) -> Arc<SitePermit> {
        let mut seats = self.lock();
        if let Some(&place) = seats.by_folder.get(folder) {
            return seats.all[place].1.clone();
        }
        if seats.all.len() >= self.max {
            let freed = seats.close_unused((self.max / CLOSED_PART).max(1));
            self.closings.fetch_add(1, Ordering::Relaxed);
            // The thread that drops the last reference closes the site, and the close takes the
            // store's lock.
            drop(freed);
        }
        let seat = Arc::new(SitePermit { site, used: AtomicBool::new(true), closed: AtomicBool::new(false) });
        let place = seats.all.len();
        seats.by_folder.insert(folder.clone(), place);
        seats.all.push((folder.clone(), seat.clone()));
        self.count.store(seats.all.len(), Ordering::Relaxed);
        seat
    }

    /// Closes all sites that no host of `hosts` serves.
    pub fn keep_only(&self, hosts: &Hosts) {
        let wanted: HashSet<Folder> = hosts.folders().filter_map(|host| Folder::of(hosts, host)).collect();
        let mut seats = self.lock();
        let mut gone = Vec::new();
        for place in (0..seats.all.len()).rev() {
            if !wanted.contains(&seats.all[place].0) {
                gone.push(seats.close(place));
            }
        }
        self.count.store(seats.all.len(), Ordering::Relaxed);
        drop(seats);
        if !gone.is_empty() {
            self.closings.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Seats {
    /// Closes `count` seats. Prefers seats that were not used since the last scan.
    fn close_unused(&mut self, count: usize) -> Vec<Arc<SitePermit>> {
        let mut closed = Vec::with_capacity(count);
        while closed.len() < count && !self.all.is_empty() {
            self.hand = if self.hand + 1 < self.all.len() { self.hand + 1 } else { 0 };
            if !self.all[self.hand].1.used.swap(false, Ordering::Relaxed) {
                closed.push(self.close(self.hand));
            }
        }
        closed
    }

    fn close(&mut self, place: usize) -> Arc<SitePermit> {
        let (folder, seat) = self.all.swap_remove(place);
        self.by_folder.remove(&folder);
        if let Some((moved, _)) = self.all.get(place) {
            *self.by_folder.get_mut(moved).expect("each seat has its folder") = place;
        }
        seat.closed.store(true, Ordering::Release);
        seat
    }
}

/// The hosts of a core: the present configuration, and the sites that the core has open.
pub struct CoreHosts {
    hosts: Arc<Hosts>,
    open: Arc<OpenSites>,
    seats: HashMap<HostId, Arc<SitePermit>, RandomState>,
    /// The host of the last request, because the next request is mostly for the same host.
    recent: Option<(HostId, Arc<SitePermit>)>,
    /// Value of [`OpenSites::closings`] at the last scan of the seats.
    seen: u64,
    /// Number of the present configuration on this core.
    number: u32,
    /// Earlier configurations that requests may still hold, by number.
    former: Vec<(u32, Weak<Hosts>)>,
    /// The options of unopened sites, by the address of their rules in `hosts`.
    options: HashMap<usize, Arc<SiteOptions>, RandomState>,
    doorkeeper: Doorkeeper,
}

/// The rules for an answer, in the configuration that was in force when the request arrived. A
/// request that outlives a reload must hold that configuration: see [`HeldAnswerRules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerRulesId {
    configuration: u32,
    host: HostId,
    rules: u32,
    route: Option<u32>,
    /// Whether another route of the request forbids compression.
    is_uncompressed: bool,
}

impl AnswerRulesId {
    /// The same rules, without compression.
    pub fn without_compression(self) -> Self {
        Self { is_uncompressed: true, ..self }
    }

    /// Whether the compression of these rules holds.
    pub fn may_compress(self) -> bool {
        !self.is_uncompressed
    }
}

/// Keeps the configuration of an answer's rules.
#[derive(Default)]
pub struct HeldAnswerRules {
    id: Option<AnswerRulesId>,
    _hosts: Option<Arc<Hosts>>,
}

impl HeldAnswerRules {
    /// Keeps the rules `id`. The request must not have waited since it got the rules.
    pub fn hold(&mut self, hosts: &CoreHosts, id: Option<AnswerRulesId>) {
        if self.id != id {
            *self = Self { id, _hosts: id.map(|_| hosts.hosts.clone()) };
        }
    }
}

/// The host of a request, in the configuration that was in force when the request arrived.
#[derive(Clone)]
pub struct Met {
    hosts: Arc<Hosts>,
    id: HostId,
}

impl Met {
    /// The folder and rules of the host.
    pub fn host(&self) -> Host<'_> {
        self.hosts.host(self.id)
    }

    /// The number of the host in its configuration.
    pub fn id(&self) -> HostId {
        self.id
    }
}

impl fmt::Debug for Met {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Met").field(&self.id).finish()
    }
}

/// The state of a host on a core.
pub enum OpenedHost {
    /// The site is open: [`CoreHosts::site`] returns the site.
    Open,
    /// The host has no folder.
    NoFolder,
    /// A thread that may wait has to open the folder.
    Wait(OpenJob),
    /// The folder cannot be served.
    Failed(SiteError),
}

/// Opens a folder; to be run on a thread that may wait.
pub struct OpenJob {
    open: Arc<OpenSites>,
    folder: Folder,
    host: Met,
}

/// An open folder of a host. The folder stays open while the result is held.
pub struct OpenedFolder {
    host: Met,
    seat: Arc<SitePermit>,
}

impl OpenedFolder {
    /// The site of the folder.
    pub fn site(&self) -> &Arc<Site> {
        self.seat.site()
    }
}

impl OpenJob {
    /// Opens the folder.
    ///
    /// # Errors
    /// The folder cannot be served.
    pub fn run(self) -> Result<OpenedFolder, SiteError> {
        let seat = self.open.open(&self.folder, CacheOnly::No)?;
        Ok(OpenedFolder { host: self.host, seat })
    }
}

impl CoreHosts {
    /// The view of a core on `hosts`, whose sites are in `open`.
    pub fn new(hosts: Arc<Hosts>, open: Arc<OpenSites>) -> Self {
        let seen = open.closings();
        let (seats, options) = (HashMap::default(), HashMap::default());
        Self {
            hosts,
            open,
            seats,
            recent: None,
            seen,
            number: 0,
            former: Vec::new(),
            options,
            doorkeeper: Doorkeeper::new(),
        }
    }

    /// The folder of a host, to stay closed for this request: if an open would displace another
    /// folder, and the host is not asked for often.
    pub fn unopened(&mut self, id: HostId, now_ms: u64) -> Option<UnopenedFolder> {
        self.let_go_of_closed();
        let is_recent = self.recent.as_ref().is_some_and(|(recent, _)| *recent == id);
        if is_recent || id.is_of_route() || self.seats.contains_key(&id) || !self.open.is_full() {
            return None;
        }
        let hash = self.seats.hasher().hash_one(id);
        if self.doorkeeper.count(hash, now_ms) >= OPENED_REQUESTS {
            return None;
        }
        let host = self.hosts.host(id);
        let root = host.root.filter(|root| root.is_absolute())?;
        let rules = std::ptr::from_ref(host.rules).addr();
        let options = self.options.entry(rules).or_insert_with(|| options_of(host.rules));
        let (store, options) = (self.open.store().clone(), options.clone());
        Some(UnopenedFolder { store, path: root.to_owned(), options })
    }

    /// The hosts of the present configuration.
    #[inline]
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The number of the present configuration.
    #[inline]
    pub fn configuration(&self) -> u32 {
        self.number
    }

    /// Replaces the configuration. Folders with the same options stay open.
    pub fn set_hosts(&mut self, hosts: Arc<Hosts>) {
        self.former.retain(|(_, hosts)| hosts.strong_count() > 0);
        self.former.push((self.number, Arc::downgrade(&self.hosts)));
        self.number = self.number.wrapping_add(1);
        self.hosts = hosts;
        self.seats.clear();
        self.options.clear();
        self.recent = None;
    }

    /// The rules for the answers of a host and its route, if there are any.
    #[inline]
    pub fn rules_of_answers(&self, host: HostId, route: Option<usize>) -> Option<AnswerRulesId> {
        let rules = self.hosts.differing(host, route)?;
        let route = route.map(|route| u32::try_from(route).expect("a file has fewer routes"));
        Some(AnswerRulesId { configuration: self.number, host, rules, route, is_uncompressed: false })
    }

    /// Calls `with` with the rules `id`. The rules are empty if the request does not hold its
    /// configuration.
    pub fn with_rules<R>(&self, id: AnswerRulesId, with: impl FnOnce(&AnswerRules) -> R) -> R {
        let AnswerRulesId { configuration, rules, route, .. } = id;
        let route = route.map(|route| route as usize);
        if configuration == self.number {
            return with(self.hosts.answer_rules(rules, route));
        }
        match self.former(configuration) {
            Some(hosts) => with(hosts.answer_rules(rules, route)),
            None => with(&AnswerRules::default()),
        }
    }

    fn former(&self, configuration: u32) -> Option<Arc<Hosts>> {
        self.former.iter().find(|(number, _)| *number == configuration)?.1.upgrade()
    }

    /// The page that the rules `id` have for errors with `status`: the host of the page and the
    /// path.
    #[cold]
    pub fn error_page(&self, id: AnswerRulesId, status: Status) -> Option<(Met, Box<str>)> {
        let path = self.with_rules(id, |rules| rules.error_page(status).map(Into::into))?;
        let hosts = match id.configuration == self.number {
            true => self.hosts.clone(),
            false => self.former(id.configuration)?,
        };
        Some((Met { hosts, id: id.host }, path))
    }

    /// Opens the site of `host`, if the open does not wait.
    #[inline]
    pub fn find(&mut self, host: HostId) -> OpenedHost {
        self.let_go_of_closed();
        if let Some((recent, seat)) = &self.recent
            && *recent == host
        {
            seat.touch();
            return OpenedHost::Open;
        }
        self.find_other(host)
    }

    fn find_other(&mut self, host: HostId) -> OpenedHost {
        if let Some(seat) = self.seats.get(&host) {
            seat.touch();
            self.recent = Some((host, seat.clone()));
            return OpenedHost::Open;
        }
        let Some(folder) = Folder::of(&self.hosts, host) else { return OpenedHost::NoFolder };
        match self.open.open(&folder, CacheOnly::Yes) {
            Ok(seat) => {
                self.seats.insert(host, seat.clone());
                self.recent = Some((host, seat));
                OpenedHost::Open
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                OpenedHost::Wait(OpenJob { open: self.open.clone(), folder, host: self.met(host) })
            }
            Err(error) => OpenedHost::Failed(error),
        }
    }

    /// Keeps a folder that another thread has opened, unless the configuration has changed or the
    /// folder was closed again.
    pub fn keep(&mut self, opened: &OpenedFolder) {
        let OpenedFolder { host: Met { hosts, id }, seat } = opened;
        if Arc::ptr_eq(&self.hosts, hosts) && !seat.closed.load(Ordering::Acquire) {
            self.seats.insert(*id, seat.clone());
            self.recent = Some((*id, seat.clone()));
        }
    }

    /// A host of the present configuration, for a request that may outlive the configuration.
    pub fn met(&self, id: HostId) -> Met {
        Met { hosts: self.hosts.clone(), id }
    }

    /// As [`find`](Self::find), for the host of a request.
    pub fn find_met(&mut self, met: &Met) -> OpenedHost {
        if Arc::ptr_eq(&self.hosts, &met.hosts) {
            return self.find(met.id);
        }
        match Folder::of(&met.hosts, met.id) {
            Some(folder) => OpenedHost::Wait(OpenJob { open: self.open.clone(), folder, host: met.clone() }),
            None => OpenedHost::NoFolder,
        }
    }

    /// The site of the last [`find`](Self::find).
    ///
    /// # Panics
    /// The last [`find`](Self::find) did not return [`OpenedHost::Open`].
    #[inline]
    pub fn site(&self) -> &Arc<Site> {
        let (_, seat) = self.recent.as_ref().expect("a site was found before");
        seat.site()
    }

    /// Drops references to closed sites. Call this about once a second, also on an idle core.
    pub fn tick(&mut self) {
        self.let_go_of_closed();
    }

    #[inline]
    fn let_go_of_closed(&mut self) {
        if self.seen != self.open.closings() {
            self.let_go();
        }
    }

    #[cold]
    fn let_go(&mut self) {
        self.seen = self.open.closings();
        let is_open = |seat: &Arc<SitePermit>| !seat.closed.load(Ordering::Acquire);
        self.seats.retain(|_, seat| is_open(seat));
        self.recent.take_if(|(_, seat)| !is_open(seat));
    }
}
