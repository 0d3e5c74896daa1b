//! The folders of hosts that are open: few at a time, whatever the number of hosts.
//!
//! A folder is opened by the first request for it and shared by hosts that serve it alike. At the bound those not used
//! since they were last looked at are closed, a part of them at once; the cores let go of them with their next request or
//! within a second. Until then they are still right, since a site is as long as somebody holds it. Tested in
//! `open/tests.rs`.

use super::{Host, Hosts, table::HostId};
use crate::files::{Site, SiteError, SiteOptions, Store};
use foldhash::fast::RandomState;
use std::{
    collections::{HashMap, HashSet},
    fmt, io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use vermeil_io::CacheOnly;

#[cfg(test)]
mod tests;

/// What part of the open folders is closed when there is room for no more. Guess: the cores look through what they hold
/// once for each such part.
const CLOSED_PART: usize = 16;

/// A folder to serve, and what of it: hosts that agree in both share a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Folder {
    root: PathBuf,
    options: SiteOptions,
}

impl Folder {
    /// The folder of a host; nothing if it has none.
    pub(crate) fn of(hosts: &Hosts, host: HostId) -> Option<Self> {
        let host = hosts.host(host);
        let options = SiteOptions { programs: host.rules.programs(), ..host.rules.files.clone() };
        Some(Self { root: host.root?.to_owned(), options })
    }
}

/// An open site among those that are open.
pub(crate) struct Seat {
    site: Arc<Site>,
    /// Set by use, cleared when a seat is needed. Relaxed: a hint.
    used: AtomicBool,
    /// Set once, when the seat is given to another. Release when set, Acquire when read.
    closed: AtomicBool,
}

impl Seat {
    #[inline]
    pub(crate) fn site(&self) -> &Arc<Site> {
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
pub(crate) struct OpenSites {
    store: Arc<Store>,
    max: usize,
    seats: Mutex<Seats>,
    /// How often seats were closed. Relaxed: cores look at `Seat::closed` when it has moved.
    closings: AtomicU64,
}

#[derive(Default)]
struct Seats {
    by_folder: HashMap<Folder, usize, RandomState>,
    /// Never longer than the bound.
    all: Vec<(Folder, Arc<Seat>)>,
    /// Where to go on looking for what was not used.
    hand: usize,
}

impl OpenSites {
    /// At most `max` sites of `store`.
    pub(crate) fn new(store: Arc<Store>, max: usize) -> Self {
        Self { store, max: max.max(1), seats: Mutex::default(), closings: AtomicU64::new(0) }
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.lock().all.len()
    }

    #[inline]
    fn closings(&self) -> u64 {
        self.closings.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().expect("nothing panics under this lock")
    }

    fn find(&self, folder: &Folder) -> Option<Arc<Seat>> {
        let seats = self.lock();
        let &place = seats.by_folder.get(folder)?;
        Some(seats.all[place].1.clone())
    }

    /// The site of `folder`, opened unless it is open.
    ///
    /// # Errors
    /// It cannot be served, or with [`CacheOnly::Yes`] would have to be waited for: [`io::ErrorKind::WouldBlock`].
    pub(crate) fn open(&self, folder: &Folder, cache: CacheOnly) -> Result<Arc<Seat>, SiteError> {
        if let Some(seat) = self.find(folder) {
            return Ok(seat);
        }
        let site = self.store.open(&folder.root, folder.options.clone(), cache)?;
        Ok(self.seat(folder, site))
    }

    /// Gives `site` a seat, unless another core was faster.
    fn seat(&self, folder: &Folder, site: Arc<Site>) -> Arc<Seat> {
        let mut seats = self.lock();
        if let Some(&place) = seats.by_folder.get(folder) {
            return seats.all[place].1.clone();
        }
        if seats.all.len() >= self.max {
            let freed = seats.close_unused((self.max / CLOSED_PART).max(1));
            self.closings.fetch_add(1, Ordering::Relaxed);
            // Sites are closed by whoever drops them last, and that takes the store's lock.
            drop(freed);
        }
        let seat = Arc::new(Seat { site, used: AtomicBool::new(true), closed: AtomicBool::new(false) });
        let place = seats.all.len();
        seats.by_folder.insert(folder.clone(), place);
        seats.all.push((folder.clone(), seat.clone()));
        seat
    }

    /// Closes what no host of `hosts` serves.
    pub(crate) fn keep_only(&self, hosts: &Hosts) {
        let wanted: HashSet<Folder> = hosts.iter().filter_map(|host| Folder::of(hosts, host)).collect();
        let mut seats = self.lock();
        let mut gone = Vec::new();
        for place in (0..seats.all.len()).rev() {
            if !wanted.contains(&seats.all[place].0) {
                gone.push(seats.close(place));
            }
        }
        drop(seats);
        if !gone.is_empty() {
            self.closings.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Seats {
    /// Closes `count` seats, first those that were not used since they were last looked at.
    fn close_unused(&mut self, count: usize) -> Vec<Arc<Seat>> {
        let mut closed = Vec::with_capacity(count);
        while closed.len() < count && !self.all.is_empty() {
            self.hand = if self.hand + 1 < self.all.len() { self.hand + 1 } else { 0 };
            if !self.all[self.hand].1.used.swap(false, Ordering::Relaxed) {
                closed.push(self.close(self.hand));
            }
        }
        closed
    }

    fn close(&mut self, place: usize) -> Arc<Seat> {
        let (folder, seat) = self.all.swap_remove(place);
        self.by_folder.remove(&folder);
        if let Some((moved, _)) = self.all.get(place) {
            *self.by_folder.get_mut(moved).expect("each seat has its folder") = place;
        }
        seat.closed.store(true, Ordering::Release);
        seat
    }
}

/// What one core knows of the hosts: those of the present configuration, and the sites it has open.
pub(crate) struct CoreHosts {
    hosts: Arc<Hosts>,
    open: Arc<OpenSites>,
    seats: HashMap<HostId, Arc<Seat>, RandomState>,
    /// The last host asked for: mostly the next one too.
    recent: Option<(HostId, Arc<Seat>)>,
    /// What [`OpenSites::closings`] was when the seats were last looked through.
    seen: u64,
}

/// A host as a request has met it: of the configuration that was in force then, whatever is by now.
#[derive(Clone)]
pub(crate) struct Met {
    hosts: Arc<Hosts>,
    id: HostId,
}

impl Met {
    /// What is served there.
    pub(crate) fn host(&self) -> Host<'_> {
        self.hosts.host(self.id)
    }
}

impl fmt::Debug for Met {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Met").field(&self.id).finish()
    }
}

/// What a host is to a core at one moment.
pub(crate) enum Found {
    /// Its site is open: [`CoreHosts::site`] has it.
    Open,
    /// It has no folder.
    NoFolder,
    /// Its folder has to be opened where waiting is allowed.
    Wait(OpenJob),
    /// Its folder cannot be served.
    Failed(SiteError),
}

/// Opens a folder; to be run where waiting is allowed.
pub(crate) struct OpenJob {
    open: Arc<OpenSites>,
    folder: Folder,
}

impl OpenJob {
    /// Opens it; it stays open while the result is held.
    ///
    /// # Errors
    /// It cannot be served.
    pub(crate) fn run(self) -> Result<Arc<Seat>, SiteError> {
        self.open.open(&self.folder, CacheOnly::No)
    }
}

impl CoreHosts {
    pub(crate) fn new(hosts: Arc<Hosts>, open: Arc<OpenSites>) -> Self {
        let seen = open.closings();
        Self { hosts, open, seats: HashMap::default(), recent: None, seen }
    }

    /// The hosts of the present configuration.
    #[inline]
    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// From now on `hosts` are served. Folders that are served as before stay open.
    pub(crate) fn set_hosts(&mut self, hosts: Arc<Hosts>) {
        self.hosts = hosts;
        self.seats.clear();
        self.recent = None;
    }

    /// Makes sure that the site of `host` is open, if that takes no waiting.
    #[inline]
    pub(crate) fn find(&mut self, host: HostId) -> Found {
        if self.seen != self.open.closings() {
            self.let_go();
        }
        if let Some((recent, seat)) = &self.recent
            && *recent == host
        {
            seat.touch();
            return Found::Open;
        }
        self.find_other(host)
    }

    fn find_other(&mut self, host: HostId) -> Found {
        if let Some(seat) = self.seats.get(&host) {
            seat.touch();
            self.recent = Some((host, seat.clone()));
            return Found::Open;
        }
        let Some(folder) = Folder::of(&self.hosts, host) else { return Found::NoFolder };
        match self.open.open(&folder, CacheOnly::Yes) {
            Ok(seat) => {
                self.seats.insert(host, seat.clone());
                self.recent = Some((host, seat));
                Found::Open
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Found::Wait(OpenJob { open: self.open.clone(), folder })
            }
            Err(error) => Found::Failed(error),
        }
    }

    /// A host of the present configuration, for a request that may outlast it.
    pub(crate) fn met(&self, id: HostId) -> Met {
        Met { hosts: self.hosts.clone(), id }
    }

    /// As [`find`](Self::find), for a host that a request has met.
    pub(crate) fn find_met(&mut self, met: &Met) -> Found {
        if Arc::ptr_eq(&self.hosts, &met.hosts) {
            return self.find(met.id);
        }
        match Folder::of(&met.hosts, met.id) {
            Some(folder) => Found::Wait(OpenJob { open: self.open.clone(), folder }),
            None => Found::NoFolder,
        }
    }

    /// The site found last.
    ///
    /// # Panics
    /// Unless [`find`](Self::find) said [`Found::Open`] before.
    #[inline]
    pub(crate) fn site(&self) -> &Arc<Site> {
        let (_, seat) = self.recent.as_ref().expect("a site was found before");
        seat.site()
    }

    /// Lets go of what was closed. To be called about once a second, also by a core that has nothing to do.
    pub(crate) fn tick(&mut self) {
        if self.seen != self.open.closings() {
            self.let_go();
        }
    }

    #[cold]
    fn let_go(&mut self) {
        self.seen = self.open.closings();
        let is_open = |seat: &Arc<Seat>| !seat.closed.load(Ordering::Acquire);
        self.seats.retain(|_, seat| is_open(seat));
        self.recent.take_if(|(_, seat)| !is_open(seat));
    }
}
