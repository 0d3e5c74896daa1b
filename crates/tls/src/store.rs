//! The certificates in memory: loaded when a client first asks for a host, bounded in number,
//! loaded again when their files have changed.
//!
//! A look-up opens no file. A single caller at a time gets a [`LoadPermit`] for a host: at the
//! first use, and when the files were not compared for [`FRESH`]. That caller runs
//! [`LoadPermit::load`] where blocking is allowed. Meanwhile other clients of the host get the
//! certificates in memory, or wait for the first. A pair that became unfit is not used; the
//! certificates before stay in use, because an automatic renewal writes certificate and key one
//! after the other. Tested below.

use crate::{
    certificate::{CertificateError, CertificatePair, FileSource, FileStamp, OpenedFile, OpenedPair},
    policy::{ConfigMaker, HostTls, TlsPolicy},
    tickets::Tickets,
    validity::OutOfDate,
};
use rustls::{ServerConfig, sign::CertifiedKey};
use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard},
    task::{Poll, Waker},
    time::{Duration, Instant},
};

/// How long certificates are used before their files are compared again. Comparing costs some 20 µs
/// of a helper thread, a hundred-thousandth of the time.
pub(crate) const FRESH: Duration = Duration::from_secs(2);

/// How often files that change while they are read are read again.
const READS_MAX: u32 = 3;

/// The part of the entries that leave at once at the bound: 1/16, so that each entry pays for a
/// short search.
const EVICTED_PART: usize = 16;

/// The configuration for the handshakes of a host. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HostTlsConfig(pub(crate) Arc<ServerConfig>);

impl HostTlsConfig {
    /// Whether both were loaded at the same time.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The result of a look-up.
#[derive(Debug)]
pub enum LookUp {
    /// The certificates are in memory. Either they were compared with their files lately, or
    /// another caller compares them now.
    Ready(HostTlsConfig),
    /// The files were unfit lately, and no certificates of the host are in memory.
    Unfit,
    /// This caller loads the certificates, or compares them with their files.
    Load(LoadPermit),
    /// Another caller loads the first certificates of the host. Wait for
    /// [`CertificateStore::loaded`], then look again.
    Loading,
}

/// The result of loading.
#[derive(Debug)]
pub struct Loaded {
    /// The certificates to use.
    pub config: HostTlsConfig,
    /// Why changed files are not used, if they are unfit. Told once for each change.
    pub unfit: Option<CertificateError>,
    /// Why clients get no staple, where a host has one. Told once for each change.
    pub unfit_staples: Vec<CertificateError>,
    /// The certificates that clients refuse at this time. Told once for each change.
    pub out_of_date: Vec<OutOfDate>,
}

impl Loaded {
    fn without_news(config: HostTlsConfig) -> Self {
        Self { config, unfit: None, unfit_staples: Vec::new(), out_of_date: Vec::new() }
    }
}

/// What the files of a host say.
struct ReadFiles {
    config: ServerConfig,
    stamps: Vec<FileStamp>,
    unfit_staples: Vec<CertificateError>,
    out_of_date: Vec<OutOfDate>,
}

/// The certificates of all hosts.
pub struct CertificateStore {
    maker: ConfigMaker,
    source: Box<dyn FileSource>,
    hosts_max: usize,
    state: Mutex<StoreState>,
}

#[derive(Default)]
struct StoreState {
    entries: HashMap<Arc<HostTls>, StoreEntry>,
    /// The hosts whose files a caller reads at this moment, and the tasks that wait for that.
    loading: HashMap<Arc<HostTls>, Vec<Waker>>,
    /// Counts look-ups, to tell which entry was used last.
    clock: u64,
    loads: u64,
}

struct StoreEntry {
    /// `None` if no fit files were found since the entry exists.
    config: Option<HostTlsConfig>,
    stamps: Vec<FileStamp>,
    compared: Instant,
    used: u64,
    /// Why the files were unfit at the last comparison.
    unfit: Option<CertificateError>,
}

/// The right to read the files of a host. Without a call of [`load`](Self::load), another caller
/// gets the right.
pub struct LoadPermit {
    store: Arc<CertificateStore>,
    host: Arc<HostTls>,
    before: Option<HostTlsConfig>,
}

impl std::fmt::Debug for LoadPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadPermit").field("host", &self.host).finish_non_exhaustive()
    }
}

impl LoadPermit {
    /// The certificates in memory, if there are any.
    pub fn before(&self) -> Option<HostTlsConfig> {
        self.before.clone()
    }

    /// Opens the files of the host, and reads them if they have changed. Blocks.
    ///
    /// # Errors
    /// The files are unfit, and no certificates of the host are in memory.
    pub fn load(self, now: Instant) -> Result<Loaded, CertificateError> {
        self.store.load(&self.host, now)
    }
}

impl Drop for LoadPermit {
    fn drop(&mut self) {
        let waiting = self.store.state().loading.remove(&self.host);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

impl CertificateStore {
    /// An empty store, which opens files through `source`.
    pub fn new(policy: TlsPolicy, tickets: Arc<Tickets>, source: Box<dyn FileSource>) -> Self {
        Self {
            maker: ConfigMaker::new(policy.minimum, tickets),
            source,
            hosts_max: policy.hosts_max.max(1),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// The certificates of a host, or the means to get them.
    pub fn look_up(self: &Arc<Self>, host: &Arc<HostTls>, now: Instant) -> LookUp {
        let mut state = self.state();
        state.clock += 1;
        let StoreState { entries, loading, clock, .. } = &mut *state;
        let entry = entries.get_mut(host);
        let is_fresh = |entry: &&mut StoreEntry| now.duration_since(entry.compared) < FRESH;
        let is_loading = loading.contains_key(host);
        let before = match entry {
            Some(entry) => {
                entry.used = *clock;
                match &entry.config {
                    Some(config) if is_loading || is_fresh(&entry) => return LookUp::Ready(config.clone()),
                    None if is_fresh(&entry) => return LookUp::Unfit,
                    before => before.clone(),
                }
            }
            None => None,
        };
        if is_loading {
            return LookUp::Loading;
        }
        loading.insert(host.clone(), Vec::new());
        LookUp::Load(LoadPermit { store: self.clone(), host: host.clone(), before })
    }

    /// Waits until no caller reads the files of the host.
    pub async fn loaded(&self, host: &HostTls) {
        poll_fn(|context| match self.state().loading.get_mut(host) {
            None => Poll::Ready(()),
            Some(waiting) => {
                if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
        })
        .await;
    }

    /// See [`LoadPermit::load`].
    pub(crate) fn load(&self, host: &Arc<HostTls>, now: Instant) -> Result<Loaded, CertificateError> {
        let known = self.state().entries.get(host).map(|entry| entry.stamps.clone());
        match self.read(host, known.as_deref()) {
            Ok(Some(files)) => Ok(self.keep_read(host, files, now)),
            Ok(None) => self.unchanged(host, now).map_or_else(|| self.load_anew(host, now), Ok),
            Err(error) => self.keep(host, error, now),
        }
    }

    fn load_anew(&self, host: &Arc<HostTls>, now: Instant) -> Result<Loaded, CertificateError> {
        let read = self.read(host, None)?;
        Ok(self.keep_read(host, read.expect("files that are not compared are read"), now))
    }

    fn keep_read(&self, host: &Arc<HostTls>, files: ReadFiles, now: Instant) -> Loaded {
        let ReadFiles { config, stamps, unfit_staples, out_of_date } = files;
        let config = HostTlsConfig(Arc::new(config));
        self.insert(host, Some(config.clone()), stamps, now);
        Loaded { config, unfit: None, unfit_staples, out_of_date }
    }

    /// Reads the files, unless they are as `known`. Files that change meanwhile are read again,
    /// because a chain whose end is not written yet would look complete.
    fn read(
        &self,
        host: &HostTls,
        known: Option<&[FileStamp]>,
    ) -> Result<Option<ReadFiles>, CertificateError> {
        let mut last = self.read_once(host, known);
        for _ in 1..READS_MAX {
            match last {
                Err(CertificateError::Changing { .. }) => last = self.read_once(host, known),
                done => return done,
            }
        }
        last
    }

    fn read_once(
        &self,
        host: &HostTls,
        known: Option<&[FileStamp]>,
    ) -> Result<Option<ReadFiles>, CertificateError> {
        let source = &*self.source;
        let open = |pair: &CertificatePair| OpenedPair::open(source, pair);
        let opened = host.certificates.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let issuers =
            host.client_issuers.as_deref().map(|path| OpenedFile::open(source, path)).transpose()?;
        let stamps: Vec<_> = opened
            .iter()
            .flat_map(OpenedPair::stamps)
            .chain(issuers.as_ref().map(OpenedFile::stamp))
            .collect();
        if known == Some(&stamps[..]) {
            return Ok(None);
        }
        let mut unfit_staples = Vec::new();
        let load = |pair: &OpenedPair| {
            let mut key = pair.load(&self.maker.provider)?;
            key.ocsp = pair.staple().unwrap_or_else(|error| {
                unfit_staples.push(error);
                None
            });
            Ok(Arc::new(key))
        };
        let keys = opened.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let out_of_date =
            host.certificates.iter().zip(&keys).filter_map(|(pair, key)| out_of_date(pair, key)).collect();
        let config = self.maker.config(keys, host, issuers.as_ref())?;
        let files = opened.iter().flat_map(OpenedPair::files).chain(&issuers);
        files.into_iter().try_for_each(OpenedFile::refuse_changed)?;
        Ok(Some(ReadFiles { config, stamps, unfit_staples, out_of_date }))
    }

    fn unchanged(&self, host: &Arc<HostTls>, now: Instant) -> Option<Loaded> {
        let mut state = self.state();
        let entry = state.entries.get_mut(host)?;
        entry.compared = now;
        entry.unfit = None;
        Some(Loaded::without_news(entry.config.clone()?))
    }

    /// Uses the certificates before, if there are any.
    fn keep(
        &self,
        host: &Arc<HostTls>,
        error: CertificateError,
        now: Instant,
    ) -> Result<Loaded, CertificateError> {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(host) else {
            drop(state);
            // Remembered for a moment, so that clients of the host cost no reading each.
            self.insert(host, None, Vec::new(), now);
            return Err(error);
        };
        entry.compared = now;
        let Some(config) = entry.config.clone() else { return Err(error) };
        let unfit = (entry.unfit.as_ref() != Some(&error)).then_some(error);
        if unfit.is_some() {
            entry.unfit.clone_from(&unfit);
        }
        Ok(Loaded { unfit, ..Loaded::without_news(config) })
    }

    fn insert(
        &self,
        host: &Arc<HostTls>,
        config: Option<HostTlsConfig>,
        stamps: Vec<FileStamp>,
        now: Instant,
    ) {
        let mut state = self.state();
        state.loads += u64::from(config.is_some());
        state.clock += 1;
        let used = state.clock;
        if state.entries.len() >= self.hosts_max && !state.entries.contains_key(host) {
            state.evict(self.hosts_max);
        }
        let entry = StoreEntry { config, stamps, compared: now, used, unfit: None };
        state.entries.insert(host.clone(), entry);
    }

    /// Reads the files of a host without keeping anything.
    ///
    /// # Errors
    /// The files are unfit, staples included.
    pub fn check(&self, host: &HostTls) -> Result<(), CertificateError> {
        // A file that is missing is told before a file that is unfit.
        for staple in host.certificates.iter().filter_map(|pair| pair.staple.as_deref()) {
            OpenedFile::open(&*self.source, staple)?;
        }
        let read = self.read(host, None)?;
        read.and_then(|files| files.unfit_staples.into_iter().next()).map_or(Ok(()), Err)
    }

    /// Has the next use of every host compare the files, because an operator says that files have
    /// changed.
    pub fn expire_all(&self, now: Instant) {
        let long_ago = now.checked_sub(FRESH).unwrap_or(now);
        self.state().entries.values_mut().for_each(|entry| entry.compared = long_ago);
    }

    /// The number of hosts in memory, and how often certificates were loaded.
    pub fn counts(&self) -> (usize, u64) {
        let state = self.state();
        (state.entries.len(), state.loads)
    }
}

/// The certificate, if clients refuse it at this time.
fn out_of_date(pair: &CertificatePair, key: &CertifiedKey) -> Option<OutOfDate> {
    OutOfDate::of(&pair.certificate, key.cert.first()?)
}

impl StoreState {
    /// Drops the entries that were unused for the longest time.
    fn evict(&mut self, hosts_max: usize) {
        let count = (hosts_max / EVICTED_PART).max(1);
        let mut used: Vec<u64> = self.entries.values().map(|entry| entry.used).collect();
        let at = (count - 1).min(used.len() - 1);
        let (_, &mut last, _) = used.select_nth_unstable(at);
        self.entries.retain(|_, entry| entry.used > last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{certificate::PlainFiles, testing::MadeCertificate, tickets::Tickets};
    use std::{
        fs::{self, File},
        io::{self, Write as _},
        path::Path,
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
        task::Context,
    };

    fn store(hosts_max: usize) -> Arc<CertificateStore> {
        store_of(hosts_max, Box::new(PlainFiles))
    }

    fn store_of(hosts_max: usize, source: Box<dyn FileSource>) -> Arc<CertificateStore> {
        let policy = TlsPolicy { hosts_max, ..TlsPolicy::default() };
        Arc::new(CertificateStore::new(policy, Arc::new(Tickets::random()), source))
    }

    fn permit(store: &Arc<CertificateStore>, host: &Arc<HostTls>, now: Instant) -> LoadPermit {
        match store.look_up(host, now) {
            LookUp::Load(permit) => permit,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn certificate_is_loaded_at_first_use() {
        let (made, store, now) = (MadeCertificate::new(&["a.example"]), store(4), Instant::now());
        let host = made.host();
        let loaded = permit(&store, &host, now).load(now).expect("it fits");
        let LookUp::Ready(config) = store.look_up(&host, now) else { panic!("it is in memory") };
        assert!(config.is_same(&loaded.config));
        assert_eq!(store.counts(), (1, 1));
    }

    #[test]
    fn unchanged_files_are_not_read_again() {
        let (made, store, now) = (MadeCertificate::new(&["a.example"]), store(4), Instant::now());
        let host = made.host();
        let first = store.load(&host, now).unwrap().config;
        let later = now + FRESH;
        assert!(permit(&store, &host, later).load(later).unwrap().config.is_same(&first));
        assert_eq!(store.counts(), (1, 1));
    }

    #[test]
    fn one_client_at_a_time_reads_files() {
        let (made, store, now) = (MadeCertificate::new(&["a.example"]), store(4), Instant::now());
        let host = made.host();
        let first = permit(&store, &host, now);
        assert!(matches!(store.look_up(&host, now), LookUp::Loading));
        let context = &mut Context::from_waker(Waker::noop());
        let mut loaded = pin!(store.loaded(&host));
        assert!(loaded.as_mut().poll(context).is_pending());
        first.load(now).unwrap();
        assert!(loaded.poll(context).is_ready());
        // Others go on with the certificates in memory while a client compares them.
        let later = now + FRESH;
        let comparing = permit(&store, &host, later);
        assert!(comparing.before().is_some());
        assert!(matches!(store.look_up(&host, later), LookUp::Ready(_)));
        // A client that gives up leaves the comparison to another.
        drop(comparing);
        assert!(matches!(store.look_up(&host, later), LookUp::Load(_)));
    }

    #[test]
    fn unfit_files_are_remembered_for_a_moment() {
        let (made, store, now) = (MadeCertificate::new(&["a.example"]), store(4), Instant::now());
        let host = made.host();
        let key = fs::read(made.pair().key).unwrap();
        fs::write(made.pair().key, "no key").unwrap();
        permit(&store, &host, now).load(now).expect_err("there is no key");
        assert!(matches!(store.look_up(&host, now), LookUp::Unfit));
        fs::write(made.pair().key, key).unwrap();
        let later = now + FRESH;
        permit(&store, &host, later).load(later).expect("the key is there");
    }

    #[test]
    fn replaced_files_are_read_and_unfit_files_are_not_used() {
        let (made, other, store, now) = (
            MadeCertificate::new(&["a.example"]),
            MadeCertificate::new(&["a.example"]),
            store(4),
            Instant::now(),
        );
        let host = made.host();
        let first = store.load(&host, now).unwrap().config;
        fs::copy(other.pair().certificate, made.pair().certificate).unwrap();
        let between = store.load(&host, now).expect("the pair before stays");
        assert!(between.config.is_same(&first) && between.unfit.is_some());
        assert!(store.load(&host, now).unwrap().unfit.is_none(), "a change is told once");
        fs::copy(other.pair().key, made.pair().key).unwrap();
        let after = store.load(&host, now).expect("both files are of the new pair");
        assert!(!after.config.is_same(&first) && after.unfit.is_none());
    }

    /// Certificates that grow while the first `growths` keys are opened, as under a slow writer.
    struct GrowingFiles {
        growths: AtomicUsize,
    }

    impl FileSource for GrowingFiles {
        fn open(&self, path: &Path) -> io::Result<File> {
            let is_left = |left: usize| left.checked_sub(1);
            if path.ends_with("key.pem")
                && self.growths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_left).is_ok()
            {
                let certificate = path.with_file_name("cert.pem");
                File::options().append(true).open(certificate)?.write_all(b"\n")?;
            }
            File::open(path)
        }
    }

    #[test]
    fn files_that_change_are_read_again() {
        let (made, now) = (MadeCertificate::new(&["a.example"]), Instant::now());
        let growing = |growths| store_of(4, Box::new(GrowingFiles { growths: AtomicUsize::new(growths) }));
        growing(2).load(&made.host(), now).expect("the third reading sees a whole file");
        let why = growing(1000).load(&made.host(), now).map(drop).expect_err("it never ends");
        assert!(matches!(why, CertificateError::Changing { .. }), "{why}");
    }

    #[test]
    fn least_used_host_leaves_at_the_bound() {
        let (made, store, now) = (MadeCertificate::new(&["a.example"]), store(2), Instant::now());
        let hosts: Vec<_> = (0..3).map(|at| made.host_with_copies(at)).collect();
        store.load(&hosts[0], now).unwrap();
        store.load(&hosts[1], now).unwrap();
        assert!(matches!(store.look_up(&hosts[0], now), LookUp::Ready(_)));
        store.load(&hosts[2], now).unwrap();
        assert!(matches!(store.look_up(&hosts[0], now), LookUp::Ready(_)));
        assert!(matches!(store.look_up(&hosts[1], now), LookUp::Load(_)));
        assert_eq!(store.counts().0, 2);
    }
}
