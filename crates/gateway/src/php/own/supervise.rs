//! The thread that keeps the pool running: asks the spawner for the pool, reads the output, waits
//! for the end, and asks again.
//!
//! Quick ends in a row lengthen the pause, and requests wait in the queue meanwhile. Children are
//! the pool's own business, because php-fpm and php-cgi replace children that end. The spawner ends
//! the pool with all children when the server ends, for whatever reason.

use super::{
    PhpError, PreparedPool,
    launch::{self, Hearing, described},
};
use crate::{
    parts::{ErrorLines, ErrorSink},
    php::{Php, pool::Pool, stream::ApplicationAddress},
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    io::write,
};
use std::{
    io::{self, Read as _, Write as _},
    mem,
    os::fd::OwnedFd,
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use vermeil::{BackOff, BackOffBounds};
use vermeil_fastcgi::request;
use vermeil_log::{NoticeKind, Notices};
use vermeil_spawn::{Channel, ProgramEvent, SEND_RETRY, SendObstacle};

/// The pause before the first restart, and the longest pause: each end doubles the pause.
pub(super) const RESTART_PAUSES: BackOffBounds =
    BackOffBounds::doubling(Duration::from_millis(50), Duration::from_secs(10));

/// A pool that lived this long was sound, so the next pause is the shortest again.
pub(super) const STEADY: Duration = Duration::from_secs(10);

/// Longest time until the pool listens. php-fpm takes 50 ms here; a machine that is booting may
/// take a hundred times that.
const START: Duration = Duration::from_secs(20);

/// Interval of checks whether the pool listens.
const START_LOOK: Duration = Duration::from_millis(5);

/// Bytes of output kept until the pool listens. php-fpm prints a line of about 100 bytes for each
/// mistake in a configuration, so this holds 160 mistakes.
const WORDS_BYTES_MAX: usize = 16 * 1024;

/// Bytes of this output in an error message: the last words.
const LAST_WORDS_BYTES: usize = 1000;

/// A pool under supervision. Dropping this ends the pool.
#[derive(Debug)]
pub struct PoolSupervisor {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl PoolSupervisor {
    /// Starts the pool of `php`, and waits for the first answer.
    ///
    /// # Errors
    /// The pool cannot be started, or ends at once.
    pub fn start(
        prepared: PreparedPool,
        channel: Channel,
        notices: &Arc<Notices>,
        php: &Php,
    ) -> Result<Self, PhpError> {
        let path = prepared.plan.program().to_owned();
        let files = |source| PhpError::Files { path: path.clone(), source };
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| files(errno.into()))?;
        let stop = Arc::new(stop);
        let address = prepared.plan.address();
        let first = Arc::new(First::default());
        let mut watch = PoolWatch {
            stop: stop.clone(),
            pool: php.pool.clone(),
            restarts: php.restarts.clone().unwrap_or_default(),
            spawner: channel.readiness().map_err(files)?,
            errors: ErrorLines::of_program(ErrorSink::new(notices.clone()), "php"),
            notices: notices.clone(),
            first: first.clone(),
            channel,
            prepared,
        };
        let thread = thread::Builder::new().name("vermeil-php".into()).spawn(move || watch.run());
        let supervisor = Self { stop, thread: Some(thread.map_err(files)?) };
        first.wait(&address).map_err(|why| PhpError::Failed {
            program: path,
            why,
            words: first.last_words(),
        })?;
        ErrorLines::of_program(ErrorSink::new(notices.clone()), "php").push(&first.take_lines());
        Ok(supervisor)
    }
}

impl Drop for PoolSupervisor {
    fn drop(&mut self) {
        let _ = write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // The panic of the thread was already reported.
            let _ = thread.join();
        }
    }
}

/// State that the starting thread waits for.
#[derive(Debug, Default)]
struct First {
    ended: AtomicBool,
    listens: AtomicBool,
    /// Output of the pool until the pool listens. If the pool never listens, this output is
    /// reported once, as the reason.
    words: Mutex<Vec<u8>>,
}

impl First {
    fn wait(&self, address: &ApplicationAddress) -> Result<(), &'static str> {
        let ApplicationAddress::Unix(path) = address else {
            unreachable!("a pool of our own has a UNIX socket")
        };
        let deadline = Instant::now() + START;
        let mut asked = None;
        while Instant::now() < deadline {
            if self.ended.load(Ordering::Acquire) {
                return Err("ended");
            }
            let Some(stream) = &mut asked else {
                asked = ask(path).ok();
                if asked.is_none() {
                    thread::sleep(START_LOOK);
                }
                continue;
            };
            match stream.read(&mut [0; 64]) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Err(_) => asked = None,
                // A child has accepted the connection, whatever the answer.
                Ok(_) => {
                    let _words = self.words();
                    self.listens.store(true, Ordering::Release);
                    return Ok(());
                }
            }
        }
        Err("does not answer")
    }

    fn words(&self) -> MutexGuard<'_, Vec<u8>> {
        self.words.lock().expect("nothing panics under this lock")
    }

    /// Takes output of the pool, and returns the part to log now.
    fn hear(&self, bytes: &[u8]) -> Vec<u8> {
        let mut words = self.words();
        if self.listens.load(Ordering::Acquire) {
            return [&mem::take(&mut *words), bytes].concat();
        }
        let room = WORDS_BYTES_MAX.saturating_sub(words.len());
        words.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Vec::new()
    }

    /// Takes the complete lines. The rest begins the next line.
    fn take_lines(&self) -> Vec<u8> {
        let mut words = self.words();
        let end = words.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        words.drain(..end).collect()
    }

    fn last_words(&self) -> String {
        let words = self.words();
        let last = &words[words.len().saturating_sub(LAST_WORDS_BYTES)..];
        String::from_utf8_lossy(last).trim().to_owned()
    }
}

/// Asks the pool for an answer. A successful connect proves nothing, because the socket accepts
/// connections before the pool runs.
fn ask(path: &Path) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(START_LOOK))?;
    let mut question = Vec::new();
    request::get_values(&mut question, &[]);
    stream.write_all(&question)?;
    Ok(stream)
}

/// State of the thread.
struct PoolWatch {
    prepared: PreparedPool,
    channel: Channel,
    /// Readable when the channel has an event.
    spawner: OwnedFd,
    stop: Arc<OwnedFd>,
    /// The queue of requests, which pauses while the pool does not run.
    pool: Arc<Pool>,
    restarts: Arc<AtomicU64>,
    errors: ErrorLines,
    notices: Arc<Notices>,
    first: Arc<First>,
}

/// Why the wait ended.
enum WakeReason {
    Stop,
    Timeout,
    Ready,
}

impl PoolWatch {
    fn run(&mut self) {
        let mut pauses = BackOff::new(&RESTART_PAUSES);
        loop {
            let began = Instant::now();
            let ended = self.one_life();
            let Some(ended) = ended else { return };
            self.pool.pause();
            self.first.ended.store(true, Ordering::Release);
            if !self.first.listens.load(Ordering::Acquire) {
                // The starting thread reports the failure, and nothing is restarted.
                return;
            }
            if began.elapsed() >= STEADY {
                pauses.reset();
            }
            let pause = pauses.advance();
            let line = format_args!("php: the pool {ended}; starting it again in {} ms", pause.as_millis());
            self.notices.say(NoticeKind::ProgramFailed, line);
            if let WakeReason::Stop = self.wait(None, Some(pause)) {
                return;
            }
            self.restarts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs the pool from start to end. Returns `None` when told to stop.
    fn one_life(&mut self) -> Option<String> {
        let PreparedPool { plan, profile, listener } = &self.prepared;
        let asked = launch::ask(&mut self.channel, *profile, plan, listener);
        let mut stderr = match asked {
            Ok(launch::PoolRequest { stderr, .. }) => Some(stderr),
            Err(why) => return Some(format!("cannot be started: {why}")),
        };
        loop {
            if let WakeReason::Stop = self.wait(stderr.as_ref(), None) {
                return None;
            }
            // A closed stream needs no further poll.
            stderr = stderr.filter(|stderr| self.hear(stderr) == Hearing::GoesOn);
            loop {
                match self.channel.receive() {
                    Ok(None) => break,
                    Ok(Some(ProgramEvent::Started { .. })) => self.pool.resume(),
                    Ok(Some(ProgramEvent::Failed { error, .. })) => return Some(error.to_string()),
                    Ok(Some(ProgramEvent::Exited { exit, .. })) => {
                        if let Some(stderr) = &stderr {
                            self.hear(stderr);
                        }
                        return Some(described(exit));
                    }
                    Err(error) => return Some(format!("is lost: {error}")),
                }
            }
        }
    }

    /// Waits for the order to stop, and for either the time to pass, or the spawner and output on
    /// `stderr`.
    fn wait(&self, stderr: Option<&OwnedFd>, time: Option<Duration>) -> WakeReason {
        let mut polled = vec![PollFd::new(&*self.stop, PollFlags::IN)];
        let mut time = time;
        if time.is_none() {
            polled.push(PollFd::new(&self.spawner, launch::awaited(&self.channel)));
            let is_refused = self.channel.obstacle() == Some(SendObstacle::Refused);
            time = is_refused.then_some(SEND_RETRY);
        }
        if let Some(stderr) = stderr {
            polled.push(PollFd::new(stderr, PollFlags::IN));
        }
        let time =
            time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        let count = rustix::io::retry_on_intr(|| poll(&mut polled, time.as_ref()));
        match count {
            Ok(0) => WakeReason::Timeout,
            Ok(_) if !polled[0].revents().is_empty() => WakeReason::Stop,
            _ => WakeReason::Ready,
        }
    }

    /// Reads the output of the pool.
    fn hear(&mut self, stderr: &OwnedFd) -> Hearing {
        let Self { first, errors, .. } = self;
        launch::hear(stderr, |bytes| errors.push(&first.hear(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_starting_pool_is_logged_once() {
        let fails = First::default();
        assert_eq!(fails.hear(b"ALERT: no\nERROR: so not"), b"");
        assert_eq!(fails.last_words(), "ALERT: no\nERROR: so not");

        let serves = First::default();
        assert_eq!(serves.hear(b"WARNING: old\nNOT"), b"");
        serves.listens.store(true, Ordering::Release);
        assert_eq!(serves.take_lines(), b"WARNING: old\n");
        assert_eq!(serves.hear(b"ICE: ready\n"), b"NOTICE: ready\n");
        assert_eq!(serves.hear(b"next\n"), b"next\n");
    }
}
