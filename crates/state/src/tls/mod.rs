//! HTTPS: the state that all cores share, and the handler that handshakes run on.
//!
//! `workers` runs the expensive step of a handshake on any core. Leaves out a connection's
//! handshake (the server) and TLS itself (`crates/tls`). Tested through the binary
//! (`crates/e2e/tests/e2e/tls.rs`).

mod workers;

pub use workers::StepFailure;

use std::{
    fs::File,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use vermeil::Handle;
use vermeil_address::ListenAddr;
use vermeil_config::ServeOptions;
use vermeil_ops::key_reader::KeyReader;
use vermeil_settings::{rights, tls::TlsOptions};
use vermeil_tls::{
    CertificateStore, ClientGreeting, FileSource, HostTlsConfig, PlainFiles, Tickets, TlsFlight, TlsSession,
};
use workers::HandshakeWorkers;

/// HTTPS of a server.
pub struct ServerTls {
    options: TlsOptions,
    certificates: Arc<CertificateStore>,
    life: Arc<TlsLife>,
}

/// The state that outlives a configuration.
struct TlsLife {
    tickets: Arc<Tickets>,
    /// Opens the files, if this process may not.
    keys: Option<KeyReader>,
    workers: HandshakeWorkers,
    counters: HandshakeCounters,
}

/// The cores that handshakes run on.
#[derive(Clone)]
pub struct TlsCores<'h> {
    /// The cores that serve.
    pub serving: &'h Handle,
    /// The cores that run in idle time.
    pub idle: Option<Handle>,
}

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeEnded {
    /// With a key exchange and a signature.
    Full,
    /// With the secrets of an earlier session.
    Resumed,
    /// The client was no client of TLS, or nothing fitted, or the client left or was late.
    Failed,
    /// Closed, because too many handshakes waited.
    Refused,
    /// The client sent a request without TLS.
    Plain,
}

/// Counts of handshakes since the start, by their ends.
#[derive(Default)]
struct HandshakeCounters {
    full: AtomicU64,
    resumed: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    plain: AtomicU64,
}

/// The counters and the present state.
#[derive(Clone, Copy, Debug)]
pub struct TlsSnapshot {
    /// Handshakes with a key exchange and a signature.
    pub full: u64,
    /// Handshakes with the secrets of an earlier session.
    pub resumed: u64,
    /// Handshakes that failed.
    pub failed: u64,
    /// Connections closed, because too many handshakes waited.
    pub refused: u64,
    /// Requests without TLS.
    pub plain: u64,
    /// Handshakes that wait for a core.
    pub waiting: u64,
    /// Hosts whose certificates are in memory.
    pub hosts: u64,
    /// How often certificates were loaded.
    pub loads: u64,
}

/// Opens files with the rights that the server has now.
struct OwnFiles;

impl FileSource for OwnFiles {
    fn open(&self, path: &Path) -> io::Result<File> {
        PlainFiles.open(path).map_err(rights::explain)
    }
}

impl ServerTls {
    /// HTTPS at the start, if a listener speaks TLS.
    pub fn of_start(
        options: &ServeOptions,
        tickets: Arc<Tickets>,
        keys: Option<KeyReader>,
        cores: TlsCores<'_>,
    ) -> Option<Arc<Self>> {
        (!options.tls.listen.is_empty()).then(|| Arc::new(Self::new(&options.tls, tickets, keys, cores)))
    }

    /// HTTPS after a reload.
    pub fn of_reload(
        before: Option<&Arc<Self>>,
        options: &ServeOptions,
        tickets: &Arc<Tickets>,
        cores: TlsCores<'_>,
    ) -> Option<Arc<Self>> {
        match before {
            Some(before) => Some(Arc::new(before.with(&options.tls, Instant::now()))),
            None => Self::of_start(options, tickets.clone(), None, cores),
        }
    }

    /// HTTPS as configured.
    fn new(
        options: &TlsOptions,
        tickets: Arc<Tickets>,
        keys: Option<KeyReader>,
        cores: TlsCores<'_>,
    ) -> Self {
        let life = Arc::new(TlsLife {
            workers: HandshakeWorkers::new(cores.serving, cores.idle),
            counters: HandshakeCounters::default(),
            tickets,
            keys,
        });
        Self::of(options, life)
    }

    fn of(options: &TlsOptions, life: Arc<TlsLife>) -> Self {
        let certificates = match &life.keys {
            Some(keys) => {
                let source = Box::new(keys.clone());
                Arc::new(CertificateStore::new(options.policy, life.tickets.clone(), source))
            }
            None => Self::certificates_of(options, life.tickets.clone()),
        };
        Self { options: options.clone(), certificates, life }
    }

    /// The certificates of a server that opens the files itself.
    pub fn certificates_of(options: &TlsOptions, tickets: Arc<Tickets>) -> Arc<CertificateStore> {
        Arc::new(CertificateStore::new(options.policy, tickets, Box::new(OwnFiles)))
    }

    /// The same with other options. Certificates stay in memory, and are compared with their files
    /// at the next use.
    fn with(&self, options: &TlsOptions, now: Instant) -> Self {
        if options.policy != self.options.policy {
            return Self::of(options, self.life.clone());
        }
        self.certificates.expire_all(now);
        Self { options: options.clone(), certificates: self.certificates.clone(), life: self.life.clone() }
    }

    /// Whether clients speak TLS at a listener, given as configured.
    #[inline]
    pub fn is_spoken_at(&self, addr: ListenAddr) -> bool {
        // A reload may change the mode of a unix socket while its connections go on.
        self.options.listen.iter().any(|listener| listener.is_at(&addr))
    }

    /// The certificates of all hosts.
    pub fn certificates(&self) -> &Arc<CertificateStore> {
        &self.certificates
    }

    /// Answers a client on any core.
    pub async fn answer(
        &self,
        greeting: ClientGreeting,
        config: HostTlsConfig,
    ) -> Result<TlsFlight, StepFailure> {
        self.life.workers.answer(greeting, config, self.options.handshakes_max).await
    }

    /// Answers received bytes of a handshake on any core: the second greeting of a client, or a
    /// client's certificate.
    pub async fn go_on(&self, session: TlsSession, received: Vec<u8>) -> Result<TlsFlight, StepFailure> {
        self.life.workers.go_on(session, received, self.options.handshakes_max).await
    }

    /// The cores that run handshakes in idle time.
    pub fn idle(&self) -> Option<&Handle> {
        self.life.workers.idle()
    }

    /// Counts a handshake.
    pub fn count(&self, ended: HandshakeEnded) {
        let HandshakeCounters { full, resumed, failed, refused, plain } = &self.life.counters;
        let counter = match ended {
            HandshakeEnded::Full => full,
            HandshakeEnded::Resumed => resumed,
            HandshakeEnded::Failed => failed,
            HandshakeEnded::Refused => refused,
            HandshakeEnded::Plain => plain,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The state for the status.
    pub fn snapshot(&self) -> TlsSnapshot {
        let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let HandshakeCounters { full, resumed, failed, refused, plain } = &self.life.counters;
        let (hosts, loads) = self.certificates.counts();
        TlsSnapshot {
            full: counted(full),
            resumed: counted(resumed),
            failed: counted(failed),
            refused: counted(refused),
            plain: counted(plain),
            waiting: self.life.workers.waiting() as u64,
            hosts: hosts as u64,
            loads,
        }
    }
}
