//! The broker: the small process that opens for a confined server the files and addresses that the
//! server's sandbox refuses.
//!
//! ```text
//! vermeil (every thread in the sandbox) ── Order ──▶ vermeil-broker (outside) ── forks, to read
//!                   the file ──▶ vermeil-reread ◀── Answer, with descriptors ──┘
//! ```
//!
//! The server forks the broker with the rights that serving has, just before the server enters the
//! sandbox. The broker opens and rotates logs, binds addresses, publishes and removes the names of
//! unix sockets, and removes the names of the control socket and of the private folder. If the
//! server ends before it serves, the broker removes the names that the start published.
//!
//! An order names a log or an address, and the broker checks that the configuration names it too:
//! the configuration of the start, or the file, which the broker reads itself. So a captured server
//! reaches nothing outside its configuration. Descriptors of sockets and files keep working in the
//! sandbox, so the server writes its log and accepts connections itself.
//!
//! Leaves out the orders' work (`process.rs`), and programs, because the keeper starts those
//! (`vermeil-spawn`). Tested below and through the binary (`crates/e2e/tests/e2e/sandbox.rs`).

mod logs;
mod process;

use crate::control::BoundControl;
use crate::messages::Messages;
use crate::order_line::OrderLine;
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use vermeil_accept::{
    balance::Balancing,
    listen::Published,
    listening::{Listening, SocketKeeper},
};
use vermeil_address::{ListenAddr, UnixAddr};
use vermeil_config::ServeOptions;
use vermeil_log::{LogAccess, LogFileId, Rotation};
use vermeil_spawn::{CompanionProcess, ProcessStartError, Remover, fork_beside};
use vermeil_steer::Group;

/// How long the broker may take to carry out an order: more than reading the configuration file may
/// take (`process.rs`).
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// An order of the server.
#[derive(Debug, Serialize, Deserialize)]
enum BrokerOrder {
    /// Open the log at this path, given as bytes. The answer has one descriptor.
    OpenLog(Vec<u8>),
    /// Rotate the log at this path.
    RotateLog {
        /// The path, as bytes.
        path: Vec<u8>,
        /// The file that the server writes.
        file: LogFileId,
        /// The rotation in the server's configuration.
        rotation: Rotation,
    },
    /// Read the configuration file, whose logs the server is about to use.
    Learn,
    /// Bind these addresses, with a socket for each core. Unix sockets get their paths with
    /// `Publish`.
    Listen {
        /// The addresses as configured.
        addrs: Vec<ListenAddr>,
        /// Addresses on which this server listens already, as bound. The broker ignores an address
        /// that neither this server nor the broker has bound.
        ours: Vec<ListenAddr>,
    },
    /// Give the unix sockets of the last `Listen` their paths.
    Publish,
    /// Drop the unix sockets of the last `Listen`.
    Withdraw,
    /// Leave the names that the start published, because the server serves.
    Keep,
    /// Remove the file of a unix socket.
    RemoveSocket(ListenAddr),
    /// Remove the name of the control socket.
    RemoveControl,
    /// Remove the private folder.
    RemoveFolder,
}

/// An answer of the broker.
#[derive(Debug, Serialize, Deserialize)]
enum BrokerAnswer {
    Opened,
    /// Whether the log was renamed. If not, another process has renamed the log.
    Rotated(bool),
    Learned,
    /// The descriptors of the addresses, in this order.
    Listening(Vec<BoundAddress>),
    Published,
    Kept,
    Removed,
    Refused {
        why: String,
        /// The number of the system's error, if any.
        code: Option<i32>,
    },
}

/// An address that was bound.
#[derive(Debug, Serialize, Deserialize)]
struct BoundAddress {
    asked: ListenAddr,
    addr: ListenAddr,
    /// The number of descriptors that are sockets. The two of the kernel's program follow, if it
    /// was loaded.
    sockets: usize,
    /// The kernel's program that will choose among the sockets, or the error of loading the
    /// program. `None` if no program is to choose.
    chooser: Option<Result<(), String>>,
}

/// The state that the broker inherits.
pub struct Knowledge<'k> {
    /// The options of the server.
    pub options: &'k ServeOptions,
    /// The assignment of connections to cores.
    pub balancing: &'k Balancing,
    /// The control socket, unless another process has the socket.
    pub control: Option<&'k BoundControl>,
    /// The private folder.
    pub folder: Option<&'k Path>,
    /// The addresses, as bound, on which this server listens.
    pub listening: Vec<ListenAddr>,
    /// Unix sockets, as bound, whose files this server removes.
    pub sockets: Vec<UnixAddr>,
    /// The names that the start published. The broker removes them unless the server serves.
    pub published: Mutex<Published>,
}

impl Knowledge<'_> {
    fn take_published(&self) -> Published {
        std::mem::take(&mut *self.published.lock().expect("nothing panics under this lock"))
    }
}

/// An address that the broker has bound, and the kernel's program for it.
pub struct NewAddress {
    /// The sockets.
    pub listening: Listening,
    /// The group of the kernel's program that chooses among the sockets, if there is one.
    pub group: Option<io::Result<Group>>,
}

/// The server's end of the line to the broker. Clones share the line.
#[derive(Clone, Debug)]
pub struct Broker(Arc<BrokerInner>);

#[derive(Debug)]
struct BrokerInner {
    /// `None` once the broker has ended.
    line: Mutex<Option<OrderLine>>,
    /// Set until the process was waited for.
    process: Option<CompanionProcess>,
}

impl Broker {
    /// Forks the broker. Call this function when this process has the rights that it serves with,
    /// and one thread.
    ///
    /// # Errors
    /// When there are other threads, or the system refuses.
    pub fn start(knowledge: &Knowledge<'_>) -> Result<Self, ProcessStartError> {
        let stdout = io::stdout();
        let mut kept = knowledge.descriptors();
        // A log may be a link to /dev/stdout, which is the standard output of the process that
        // opens the log.
        kept.push(stdout.as_fd());
        let (process, socket) =
            fork_beside(c"vermeil-broker", &kept, |socket| process::run(Messages::new(socket), knowledge))?;
        // The broker has a copy, and removes the names if the start fails.
        knowledge.take_published().keep();
        let line = Mutex::new(Some(OrderLine::new(Messages::new(socket))));
        Ok(Self(Arc::new(BrokerInner { line, process: Some(process) })))
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.0.process.as_ref().map_or(0, CompanionProcess::pid)
    }

    /// Opens the log at `path` for appending, as the configuration names it.
    ///
    /// # Errors
    /// The configuration does not name this log, or the system's error.
    fn open_log(&self, path: &Path) -> io::Result<File> {
        let (answer, descriptors) =
            self.ask(&BrokerOrder::OpenLog(path.as_os_str().as_bytes().to_owned()))?;
        match (answer, descriptors.into_iter().next()) {
            (BrokerAnswer::Opened, Some(file)) => Ok(file.into()),
            (answer, _) => Err(refusal(answer)),
        }
    }

    /// Rotates the log at `path`.
    ///
    /// # Errors
    /// The configuration does not ask for this, or the system's error.
    fn rotate_log(&self, path: &Path, file: LogFileId, rotation: Rotation) -> io::Result<bool> {
        let path = path.as_os_str().as_bytes().to_owned();
        match self.ask(&BrokerOrder::RotateLog { path, file, rotation })? {
            (BrokerAnswer::Rotated(is_rotated), _) => Ok(is_rotated),
            (answer, _) => Err(refusal(answer)),
        }
    }

    /// Has the broker learn the logs of the configuration file, so that a later change of the file
    /// keeps no log from being opened.
    pub fn learn(&self) {
        // If this fails, the broker reads the file when it is to open one of the logs.
        drop(self.ask(&BrokerOrder::Learn));
    }

    /// The access to log files, for the log's thread.
    pub fn log_access(&self) -> Arc<dyn LogAccess> {
        Arc::new(self.clone())
    }

    /// Binds addresses that the configuration names, all or none. `ours` are the addresses on which
    /// this server listens already, as bound. Unix sockets get their paths later, from the caller.
    ///
    /// # Errors
    /// The configuration does not name an address, or an address cannot be bound, in words for
    /// people.
    pub fn listen(
        &self,
        addrs: Vec<ListenAddr>,
        ours: Vec<ListenAddr>,
    ) -> io::Result<(Vec<NewAddress>, BrokerNames)> {
        if addrs.is_empty() {
            return Ok((Vec::new(), BrokerNames(None)));
        }
        let has_names = addrs.iter().any(|addr| addr.unix().is_some());
        // Before the order, because the broker may have bound the sockets although its answer was
        // lost.
        let names = BrokerNames(has_names.then(|| self.clone()));
        match self.ask(&BrokerOrder::Listen { addrs, ours })? {
            (BrokerAnswer::Listening(bound), descriptors) => Ok((addresses(bound, descriptors)?, names)),
            (answer, _) => Err(refusal(answer)),
        }
    }

    /// Leaves the names that the start published, because the server serves.
    pub fn keep_names(&self) {
        // Fails only if the broker has ended, and then the broker removes no more names.
        drop(self.ask(&BrokerOrder::Keep));
    }

    /// Removes the file of a unix socket, unless another server has replaced it.
    pub fn remove_socket(&self, bound: UnixAddr) {
        // If this fails, the next start replaces the file.
        drop(self.ask(&BrokerOrder::RemoveSocket(ListenAddr::Unix(bound))));
    }

    /// A remover of the control socket's name.
    pub fn control_remover(&self) -> Remover {
        self.remover(|| BrokerOrder::RemoveControl)
    }

    /// A remover of the private folder.
    pub fn folder_remover(&self) -> Remover {
        self.remover(|| BrokerOrder::RemoveFolder)
    }

    fn remover(&self, order: fn() -> BrokerOrder) -> Remover {
        let broker = self.clone();
        Remover::new(move || drop(broker.ask(&order())))
    }

    fn ask(&self, order: &BrokerOrder) -> io::Result<(BrokerAnswer, Vec<OwnedFd>)> {
        let mut line = self.0.line.lock().expect("nothing panics under this lock");
        let gone = || io::Error::new(io::ErrorKind::NotConnected, "the broker has ended; restart the server");
        match line.as_mut().ok_or_else(gone)?.ask(order, ANSWER_PATIENCE) {
            Ok(Some(answered)) => Ok(answered),
            Ok(None) => {
                *line = None;
                Err(gone())
            }
            // A slow disk, or a large configuration. The next order may be answered.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let why = format!("the broker has not answered for {ANSWER_PATIENCE:?}");
                Err(io::Error::new(error.kind(), why))
            }
            Err(error) => Err(error),
        }
    }
}

/// The unix sockets of a [`Broker::listen`], which have no paths yet. Dropping this value drops the
/// broker's copies and the temporary names.
#[must_use = "a dropped socket has no path"]
#[derive(Debug)]
pub struct BrokerNames(Option<Broker>);

impl BrokerNames {
    /// Gives the sockets their paths, all or none.
    ///
    /// # Errors
    /// Another process has taken a path meanwhile, or the system refuses.
    pub fn publish(mut self) -> io::Result<()> {
        let Some(broker) = self.0.take() else { return Ok(()) };
        match broker.ask(&BrokerOrder::Publish)? {
            (BrokerAnswer::Published, _) => Ok(()),
            (answer, _) => Err(refusal(answer)),
        }
    }
}

impl Drop for BrokerNames {
    fn drop(&mut self) {
        if let Some(broker) = self.0.take() {
            // If the broker has ended, the broker has removed the names.
            drop(broker.ask(&BrokerOrder::Withdraw));
        }
    }
}

impl LogAccess for Broker {
    fn open(&self, path: &Path) -> io::Result<File> {
        self.open_log(path)
    }

    fn rotate(&self, path: &Path, file: LogFileId, rotation: &Rotation) -> io::Result<bool> {
        self.rotate_log(path, file, *rotation)
    }
}

impl Drop for BrokerInner {
    fn drop(&mut self) {
        drop(self.line.get_mut().map(Option::take));
        if let Some(process) = self.process.take() {
            process.wait();
        }
    }
}

impl<'k> Knowledge<'k> {
    /// The descriptors that must stay open in the broker's process.
    fn descriptors(&self) -> Vec<BorrowedFd<'k>> {
        let control = self.control.into_iter().flat_map(BoundControl::descriptors);
        self.balancing.descriptors().into_iter().chain(control).collect()
    }
}

/// The broker's refusal as an error of the system.
fn refusal(answer: BrokerAnswer) -> io::Error {
    match answer {
        BrokerAnswer::Refused { code: Some(code), .. } => io::Error::from_raw_os_error(code),
        BrokerAnswer::Refused { why, .. } => io::Error::other(why),
        answer => io::Error::other(format!("the broker answers {answer:?}")),
    }
}

/// Addresses with their descriptors.
fn addresses(bound: Vec<BoundAddress>, descriptors: Vec<OwnedFd>) -> io::Result<Vec<NewAddress>> {
    let mut descriptors = descriptors.into_iter();
    let mut all = Vec::with_capacity(bound.len());
    for BoundAddress { asked, addr, sockets, chooser } in bound {
        let sockets = descriptors.by_ref().take(sockets).collect();
        let listening = Listening { asked, addr, sockets, keeper: SocketKeeper::Server };
        let mut next = || descriptors.next().ok_or(io::ErrorKind::UnexpectedEof);
        let group = match chooser {
            None => None,
            Some(Ok(())) => Some(Ok(Group::from_parts(next()?, next()?))),
            Some(Err(why)) => Some(Err(io::Error::other(why))),
        };
        all.push(NewAddress { listening, group });
    }
    Ok(all)
}

fn path_of(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

/// Whether the bytes are an order.
#[cfg(feature = "fuzz")]
pub fn is_order(bytes: &[u8]) -> bool {
    crate::messages::read::<crate::order_line::NumberedBody<BrokerOrder>>(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        io::Write as _,
        net::SocketAddr,
        os::unix::{
            fs::MetadataExt as _,
            net::{UnixListener, UnixStream},
        },
        thread,
    };
    use vermeil_accept::listen::bind_all;
    use vermeil_address::SocketFile;
    use vermeil_config::Surroundings;
    use vermeil_log::{LogOptions, LogTarget};
    use vermeil_settings::Balance;
    use vermeil_topology::CpuId;

    /// A broker on a thread, for a server whose command line names this log and this address.
    fn with_broker(log: &Path, listen: ListenAddr, test: impl FnOnce(&Broker)) {
        let surroundings = Surroundings::here().expect("this machine has cpus");
        let text = "[[listener]]\naddress = \"127.0.0.1:0\"\n[[host]]\nroot = \"/\"\n";
        let options = vermeil_config::take(Path::new("vermeil.toml"), &text.to_owned().into(), &surroundings)
            .expect("a configuration");
        let log = LogOptions::new(LogTarget::File(log.to_owned()));
        let options = ServeOptions { file: None, log, listen: vec![listen], ..options };
        let balancing = Balancing::choose(Balance::Hash, &options.cpus);
        let (ours, theirs) = Messages::pair().expect("a pair");
        thread::scope(|scope| {
            let knowledge = Knowledge {
                options: &options,
                balancing: &balancing,
                control: None,
                folder: None,
                listening: Vec::new(),
                sockets: Vec::new(),
                published: Mutex::default(),
            };
            scope.spawn(move || process::run(Messages::new(theirs), &knowledge));
            let line = Mutex::new(Some(OrderLine::new(ours)));
            test(&Broker(Arc::new(BrokerInner { line, process: None })));
        });
    }

    #[test]
    fn broker_opens_named_files_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let (log, other) = (folder.path().join("log"), folder.path().join("other"));
        let named = "127.0.0.1:0".parse::<SocketAddr>().expect("an address").into();
        with_broker(&log, named, |broker| {
            let mut file = broker.open_log(&log).expect("it is named");
            file.write_all(b"line").expect("written");
            assert_eq!(fs::read_to_string(&log).expect("there"), "line");
            let error = broker.open_log(&other).expect_err("it is not named").to_string();
            assert!(error.contains("the configuration does not name the log"), "{error}");
            assert!(!other.exists());
            let (opened, _names) = broker.listen(vec![named], Vec::new()).expect("it is named");
            assert!(opened[0].listening.addr.port().is_some());
            let unnamed = "127.0.0.2:0".parse::<SocketAddr>().expect("an address").into();
            let error = broker.listen(vec![named, unnamed], Vec::new()).map(|_| ()).expect_err("not named");
            assert!(error.to_string().contains("does not name"), "{error}");
        });
    }

    #[test]
    fn broker_publishes_unix_socket_on_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let named = ListenAddr::Unix(UnixAddr::new(&path).expect("a short path"));
        with_broker(&folder.path().join("log"), named, |broker| {
            let (_sockets, names) = broker.listen(vec![named], Vec::new()).expect("it is named");
            assert!(!path.exists());
            drop(names);
            assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "withdrawn");
            let (sockets, names) = broker.listen(vec![named], Vec::new()).expect("it is named");
            names.publish().expect("a free path");
            UnixStream::connect(&path).expect("it listens");
            assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
            let bound = sockets[0].listening.addr;
            drop(broker.listen(vec![named], vec![bound]).expect("its own socket may be replaced"));
            broker.remove_socket(sockets[0].listening.addr.unix().expect("a unix socket"));
            assert!(!path.exists());
        });
    }

    /// Regression: a captured server named another server's socket as its own, and the broker
    /// replaced that socket.
    #[test]
    fn broker_ignores_foreign_addresses_of_captured_server() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, log) = (folder.path().join("socket"), folder.path().join("log"));
        let _another = UnixListener::bind(&path).expect("a free path");
        let found = fs::metadata(&path).expect("there");
        let addr = UnixAddr::new(&path).expect("a short path");
        let foreign = addr.bound_as(SocketFile { dev: found.dev(), ino: found.ino() });
        let any = "127.0.0.1:0".parse::<SocketAddr>().expect("an address").into();
        let balancing = Balancing::choose(Balance::Hash, &[CpuId(0)]);
        let (tcp, _no_names) = bind_all(&[any], &[CpuId(0)], &balancing, &[]).expect("a free port");
        for (named, foreign) in
            [(ListenAddr::Unix(addr), ListenAddr::Unix(foreign)), (tcp[0].addr, tcp[0].addr)]
        {
            with_broker(&log, named, |broker| {
                let error = broker.listen(vec![named], vec![foreign]).map(drop).expect_err("another listens");
                assert!(error.to_string().contains("the address is in use"), "{error}");
            });
        }
        assert_eq!(fs::metadata(&path).expect("there").ino(), found.ino());
    }

    #[test]
    fn broker_passes_on_system_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("none/log");
        with_broker(&log, "127.0.0.1:0".parse::<SocketAddr>().expect("an address").into(), |broker| {
            let error = broker.open_log(&log).expect_err("the folder is missing");
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        });
    }

    #[test]
    fn server_goes_on_without_its_broker() {
        let (ours, theirs) = Messages::pair().expect("a pair");
        let line = Mutex::new(Some(OrderLine::new(ours)));
        let broker = Broker(Arc::new(BrokerInner { line, process: None }));
        drop(theirs);
        for _ in 0..2 {
            let error = broker.open_log(Path::new("/log")).expect_err("it is gone");
            assert_eq!(error.kind(), io::ErrorKind::NotConnected, "{error}");
        }
        broker.folder_remover().remove();
    }
}
