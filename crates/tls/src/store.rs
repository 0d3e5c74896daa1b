//! The certificates in memory: loaded when a client first asks for a host, bounded in number,
//! loaded again when their files have changed.
//!
//! A look-up opens no file. The caller runs [`CertificateStore::load`] where blocking is allowed,
//! when a look-up says so: at the first use, and when the files were not compared for
//! [`FRESH`]. A pair that became unfit is not used; the certificates before stay in use, because an
//! automatic renewal writes certificate and key one after the other. Tested below.

use crate::{
    certificate::{CertificateError, CertificatePair, FileSource, FileStamp, OpenedFile, OpenedPair},
    policy::{ConfigMaker, HostTls, TlsPolicy},
    tickets::Tickets,
};
use rustls::ServerConfig;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// How long certificates are used before their files are compared again. Guess: a renewal shows at
/// once to a person, and comparing costs some 20 µs of a helper thread.
pub(crate) const FRESH: Duration = Duration::from_secs(2);

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
    /// The certificates are in memory, and were compared with their files lately.
    Ready(HostTlsConfig),
    /// [`CertificateStore::load`] is needed.
    Load,
}

/// The result of loading.
#[derive(Debug)]
pub struct Loaded {
    /// The certificates to use.
    pub config: HostTlsConfig,
    /// Why changed files are not used, if they are unfit. Told once for each change.
    pub unfit: Option<CertificateError>,
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
    /// Counts look-ups, to tell which entry was used last.
    clock: u64,
    loads: u64,
}

struct StoreEntry {
    config: HostTlsConfig,
    stamps: Vec<FileStamp>,
    compared: Instant,
    used: u64,
    /// Whether the last comparison found unfit files.
    was_unfit: bool,
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

    /// The certificates of a host, if they are in memory and were compared with their files lately.
    pub fn look_up(&self, host: &HostTls, now: Instant) -> LookUp {
        let mut state = self.state();
        state.clock += 1;
        let clock = state.clock;
        match state.entries.get_mut(host) {
            Some(entry) if now.duration_since(entry.compared) < FRESH => {
                entry.used = clock;
                LookUp::Ready(entry.config.clone())
            }
            _ => LookUp::Load,
        }
    }

    /// Opens the files of a host, and reads them if they have changed. Blocks.
    ///
    /// # Errors
    /// The files are unfit, and no certificates of the host are in memory.
    pub fn load(&self, host: &Arc<HostTls>, now: Instant) -> Result<Loaded, CertificateError> {
        let known = self.state().entries.get(host).map(|entry| entry.stamps.clone());
        match self.read(host, known.as_deref()) {
            Ok(Some((config, stamps))) => {
                let config = HostTlsConfig(Arc::new(config));
                self.insert(host, config.clone(), stamps, now);
                Ok(Loaded { config, unfit: None })
            }
            Ok(None) => self.unchanged(host, now).map_or_else(|| self.load_anew(host, now), Ok),
            Err(error) => self.keep(host, error, now),
        }
    }

    fn load_anew(&self, host: &Arc<HostTls>, now: Instant) -> Result<Loaded, CertificateError> {
        let read = self.read(host, None)?;
        let (config, stamps) = read.expect("files that are not compared are read");
        let config = HostTlsConfig(Arc::new(config));
        self.insert(host, config.clone(), stamps, now);
        Ok(Loaded { config, unfit: None })
    }

    /// Reads the files, unless they are as `known`.
    fn read(
        &self,
        host: &HostTls,
        known: Option<&[FileStamp]>,
    ) -> Result<Option<(ServerConfig, Vec<FileStamp>)>, CertificateError> {
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
        let load = |pair: &OpenedPair| pair.load(&self.maker.provider).map(Arc::new);
        let keys = opened.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        Ok(Some((self.maker.config(keys, host, issuers.as_ref())?, stamps)))
    }

    fn unchanged(&self, host: &Arc<HostTls>, now: Instant) -> Option<Loaded> {
        let mut state = self.state();
        let entry = state.entries.get_mut(host)?;
        entry.compared = now;
        entry.was_unfit = false;
        Some(Loaded { config: entry.config.clone(), unfit: None })
    }

    /// Uses the certificates before, if there are any.
    fn keep(
        &self,
        host: &Arc<HostTls>,
        error: CertificateError,
        now: Instant,
    ) -> Result<Loaded, CertificateError> {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(host) else { return Err(error) };
        entry.compared = now;
        let is_new = !std::mem::replace(&mut entry.was_unfit, true);
        Ok(Loaded { config: entry.config.clone(), unfit: is_new.then_some(error) })
    }

    fn insert(&self, host: &Arc<HostTls>, config: HostTlsConfig, stamps: Vec<FileStamp>, now: Instant) {
        let mut state = self.state();
        state.loads += 1;
        state.clock += 1;
        let used = state.clock;
        if state.entries.len() >= self.hosts_max && !state.entries.contains_key(host) {
            state.evict(self.hosts_max);
        }
        let entry = StoreEntry { config, stamps, compared: now, used, was_unfit: false };
        state.entries.insert(host.clone(), entry);
    }

    /// Reads the files of a host without keeping anything.
    ///
    /// # Errors
    /// The files are unfit.
    pub fn check(&self, host: &HostTls) -> Result<(), CertificateError> {
        self.read(host, None).map(drop)
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
    use std::fs;

    fn store(hosts_max: usize) -> CertificateStore {
        let policy = TlsPolicy { hosts_max, ..TlsPolicy::default() };
        CertificateStore::new(policy, Arc::new(Tickets::random()), Box::new(PlainFiles))
    }

    #[test]
    fn certificate_is_loaded_at_first_use() {
        let (made, store, now) = (MadeCertificate::new(&["a.example"]), store(4), Instant::now());
        let host = made.host();
        assert!(matches!(store.look_up(&host, now), LookUp::Load));
        let loaded = store.load(&host, now).expect("it fits");
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
        assert!(matches!(store.look_up(&host, later), LookUp::Load));
        assert!(store.load(&host, later).unwrap().config.is_same(&first));
        assert_eq!(store.counts(), (1, 1));
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

    #[test]
    fn least_used_host_leaves_at_the_bound() {
        let (made, store, now) = (MadeCertificate::new(&["a.example"]), store(2), Instant::now());
        let hosts: Vec<_> = (0..3).map(|at| made.host_with_copies(at)).collect();
        store.load(&hosts[0], now).unwrap();
        store.load(&hosts[1], now).unwrap();
        assert!(matches!(store.look_up(&hosts[0], now), LookUp::Ready(_)));
        store.load(&hosts[2], now).unwrap();
        assert!(matches!(store.look_up(&hosts[0], now), LookUp::Ready(_)));
        assert!(matches!(store.look_up(&hosts[1], now), LookUp::Load));
        assert_eq!(store.counts().0, 2);
    }
}
