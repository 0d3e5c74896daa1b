//! Operational lines on standard error: each kind is limited to a few lines per interval, and
//! always counted.
//!
//! Contains the kinds, their counts and their pace. There are no levels, targets or formats,
//! because operators read these lines; programs read the status. A line never blocks the sender: if
//! standard error cannot take the line, the line counts as suppressed. Tested below on an invented
//! clock.

use crate::operator_log::process_name;
use rustix::event::{PollFd, PollFlags, poll};
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Silence of a kind after a line, in milliseconds. Lines in between are counted, and the next line
/// reports the count. With lines of at most a kilobyte, a kind that repeats without end writes less
/// than 10 MB per day.
pub const INTERVAL_MS: u64 = 10_000;

/// Lines about failed programs in that time. Many sites cause such lines, and each site's operator
/// looks for its own reason. With [`INTERVAL_MS`] this is two lines per second at most, which
/// bounds the log as above.
pub const FAILURES_MAX: u64 = 20;

/// Longest line in bytes; the rest is cut. A pipe takes 4096 bytes in one piece (`PIPE_BUF`);
/// people read less.
const LINE_BYTES_MAX: usize = 1000;

/// Longest line in bytes of [`Notices::say_unpaced`], whose caller bounds the lines. A longer line
/// might not go into a pipe in one piece.
const UNPACED_BYTES_MAX: usize = 4080;
const KINDS: usize = NoticeKind::ALL.len();
/// `since_ms` of a kind without a line so far.
const NEVER: u64 = 0;

/// Subject of a notice. Each kind has a separate pace and count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// A file changed while being sent, so the connection was cut.
    FileChanged,
    /// A connection could not be accepted.
    AcceptTrouble,
    /// The limit of connections was reached.
    ConnectionsFull,
    /// A client address has reached its limit of connections.
    ClientFull,
    /// A connection at a listener for the PROXY protocol was closed.
    ProxyRefused,
    /// A client asked more often than its rate allows.
    RateLimited,
    /// The log file or standard output cannot be written.
    LogTrouble,
    /// Records of the access log were dropped.
    LogDropped,
    /// The folder of a host cannot be served.
    SiteTrouble,
    /// A program did not answer a request correctly.
    ProgramFailed,
    /// A program's answer was corrected, or a part of the answer was left out.
    ProgramMended,
    /// A request was refused because of a configurable limit.
    LimitReached,
    /// A program wrote to standard error.
    ProgramSaid,
    /// The spawner was killed, or does not answer.
    SpawnerTrouble,
    /// A core does not poll the network card as configured.
    NotPolled,
    /// The certificates of a host cannot be used.
    CertificateTrouble,
}

impl NoticeKind {
    /// All kinds, in the order of their counts.
    pub const ALL: [Self; 16] = [
        Self::FileChanged,
        Self::AcceptTrouble,
        Self::ConnectionsFull,
        Self::ClientFull,
        Self::ProxyRefused,
        Self::RateLimited,
        Self::LogTrouble,
        Self::LogDropped,
        Self::SiteTrouble,
        Self::ProgramFailed,
        Self::ProgramMended,
        Self::LimitReached,
        Self::ProgramSaid,
        Self::SpawnerTrouble,
        Self::NotPolled,
        Self::CertificateTrouble,
    ];

    /// Lines of this kind within [`INTERVAL_MS`].
    fn lines_max(self) -> u64 {
        if matches!(self, Self::ProgramFailed | Self::ProgramMended) { FAILURES_MAX } else { 1 }
    }

    /// A name for people and for the status page.
    pub fn name(self) -> &'static str {
        match self {
            Self::FileChanged => "file changed while sent",
            Self::AcceptTrouble => "connection not accepted",
            Self::ConnectionsFull => "connections at their limit",
            Self::ClientFull => "connections of one client at their limit",
            Self::ProxyRefused => "PROXY header refused",
            Self::RateLimited => "requests over their rate",
            Self::LogTrouble => "log not written",
            Self::LogDropped => "log records dropped",
            Self::SiteTrouble => "folder not served",
            Self::ProgramFailed => "program failed",
            Self::ProgramMended => "program's answer mended",
            Self::LimitReached => "request over a limit",
            Self::ProgramSaid => "program said",
            Self::SpawnerTrouble => "spawner",
            Self::NotPolled => "network card not polled",
            Self::CertificateTrouble => "certificate not used",
        }
    }
}

/// Prints operational lines: `vermeil: file changed while sent: /x (connection cut)`. Shared by all
/// threads.
#[derive(Debug)]
pub struct Notices {
    origin: Instant,
    kinds: [NoticeCounts; KINDS],
    output: NoticeOutput,
}

#[derive(Debug, Default)]
struct NoticeCounts {
    count: AtomicU64,
    unsaid: AtomicU64,
    /// Start of the current interval: milliseconds since `origin`, from 1; [`NEVER`] at first.
    since_ms: AtomicU64,
    /// Lines printed in that interval, plus attempts at more.
    said: AtomicU64,
}

#[derive(Debug)]
enum NoticeOutput {
    Stderr,
    Kept(Mutex<Vec<String>>),
    /// As standard error that no process reads.
    Full,
}

impl Notices {
    /// Notices on standard error.
    pub fn stderr() -> Self {
        Self::new(NoticeOutput::Stderr)
    }

    /// Notices kept in memory, for tests.
    pub fn kept() -> Self {
        Self::new(NoticeOutput::Kept(Mutex::default()))
    }

    /// Notices whose output takes no line, for tests.
    pub fn full() -> Self {
        Self::new(NoticeOutput::Full)
    }

    fn new(output: NoticeOutput) -> Self {
        Self { origin: Instant::now(), kinds: Default::default(), output }
    }

    /// Counts a notice of `kind` and prints it, unless the kind has used up its lines of this
    /// [`INTERVAL_MS`] (one line, or [`FAILURES_MAX`] for failed programs). Control characters are
    /// escaped, so a line may quote a peer.
    pub fn say(&self, kind: NoticeKind, line: fmt::Arguments<'_>) {
        self.say_at(self.now_ms(), kind, line);
    }

    /// Counts and prints a notice whose pace and length the caller controls. Returns false if
    /// standard error would block, or is gone.
    pub fn say_unpaced(&self, kind: NoticeKind, line: fmt::Arguments<'_>) -> bool {
        self.kind(kind).count.fetch_add(1, Ordering::Relaxed);
        self.put(&text(line, UNPACED_BYTES_MAX, 0))
    }

    /// Number of notices of `kind`, printed or not.
    pub fn count(&self, kind: NoticeKind) -> u64 {
        self.kind(kind).count.load(Ordering::Relaxed)
    }

    /// Prints the number of suppressed notices of each kind. For the end of the process.
    pub fn say_rest(&self) {
        for kind in NoticeKind::ALL {
            let unsaid = self.kind(kind).unsaid.swap(0, Ordering::Relaxed);
            if unsaid > 0 {
                self.put(&format!("{}: {}: {unsaid} more", process_name(), kind.name()));
            }
        }
    }

    /// The lines kept so far; empty for notices that are not kept.
    pub fn lines(&self) -> Vec<String> {
        match &self.output {
            NoticeOutput::Stderr | NoticeOutput::Full => Vec::new(),
            NoticeOutput::Kept(lines) => lines.lock().expect("no holder panics").clone(),
        }
    }

    fn kind(&self, kind: NoticeKind) -> &NoticeCounts {
        &self.kinds[kind as usize]
    }

    fn now_ms(&self) -> u64 {
        self.origin.elapsed().as_millis() as u64 + 1
    }

    fn say_at(&self, now_ms: u64, kind: NoticeKind, line: fmt::Arguments<'_>) {
        let state = self.kind(kind);
        state.count.fetch_add(1, Ordering::Relaxed);
        let since_ms = state.since_ms.load(Ordering::Relaxed);
        let is_new = since_ms == NEVER || now_ms >= since_ms.saturating_add(INTERVAL_MS);
        let begins = is_new
            && state
                .since_ms
                .compare_exchange(since_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if begins {
            // A thread that counts at this moment may print a line more or less.
            state.said.store(0, Ordering::Relaxed);
        }
        let won = state.said.fetch_add(1, Ordering::Relaxed) < kind.lines_max();
        if !won {
            state.unsaid.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let unsaid = state.unsaid.swap(0, Ordering::Relaxed);
        if !self.put(&text(line, LINE_BYTES_MAX, unsaid)) {
            state.unsaid.fetch_add(unsaid + 1, Ordering::Relaxed);
        }
    }

    /// Returns false if standard error would block, or is gone.
    fn put(&self, line: &str) -> bool {
        match &self.output {
            NoticeOutput::Kept(lines) => {
                lines.lock().expect("no holder panics").push(line.to_owned());
                true
            }
            NoticeOutput::Full => false,
            NoticeOutput::Stderr => {
                let stderr = std::io::stderr();
                let has_room = || {
                    let polled = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&Default::default()));
                    polled.is_ok_and(|ready| ready > 0)
                };
                // Before the lock, because its holder may wait for room, and again under the lock,
                // because the holder may have taken the room.
                has_room() && {
                    let mut locked = stderr.lock();
                    // One write, so that lines of several processes do not mix.
                    has_room() && locked.write_all(format!("{line}\n").as_bytes()).is_ok()
                }
            }
        }
    }
}

/// Formats the line: prefix, escaped text cut at `bytes_max`, number of suppressed lines since the
/// last line.
fn text(line: fmt::Arguments<'_>, bytes_max: usize, unsaid: u64) -> String {
    let mut said = format!("{}: ", process_name());
    for character in line.to_string().chars() {
        if said.len() >= bytes_max {
            said.push_str("...");
            break;
        }
        if character.is_control() {
            said.extend(character.escape_default());
        } else {
            said.push(character);
        }
    }
    if unsaid > 0 {
        write!(said, " (and {unsaid} more not said)").expect("a string takes every character");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use NoticeKind::{FileChanged, LogDropped};

    #[test]
    fn first_notice_is_immediate_and_later_ones_are_summed() {
        let notices = Notices::kept();
        for now_ms in [5, 6, 7, 5 + INTERVAL_MS - 1, 5 + INTERVAL_MS, 6 + INTERVAL_MS] {
            notices.say_at(now_ms, FileChanged, format_args!("at {now_ms}"));
        }
        notices.say_at(8, LogDropped, format_args!("another kind"));
        notices.say_rest();
        assert_eq!(
            notices.lines(),
            [
                "vermeil: at 5",
                "vermeil: at 10005 (and 3 more not said)",
                "vermeil: another kind",
                "vermeil: file changed while sent: 1 more"
            ]
        );
        assert_eq!((notices.count(FileChanged), notices.count(LogDropped)), (6, 1));
    }

    #[test]
    fn notice_quotes_failed_program() {
        let notices = Notices::kept();
        let say = |now_ms| notices.say_at(now_ms, NoticeKind::ProgramFailed, format_args!("failed"));
        (0..FAILURES_MAX + 3).for_each(|ms| say(5 + ms));
        assert_eq!(notices.lines(), vec!["vermeil: failed"; FAILURES_MAX as usize]);
        say(5 + INTERVAL_MS);
        say(6 + INTERVAL_MS);
        let last = &notices.lines()[FAILURES_MAX as usize..];
        assert_eq!(last, ["vermeil: failed (and 3 more not said)", "vermeil: failed"]);
    }

    #[test]
    fn a_quoted_peer_cannot_forge_a_line_or_drive_the_terminal() {
        let notices = Notices::kept();
        notices.say_at(1, FileChanged, format_args!("/a\nvermeil: all is well\u{1b}[2J\u{9b}é"));
        assert_eq!(notices.lines(), ["vermeil: /a\\nvermeil: all is well\\u{1b}[2J\\u{9b}é"]);
    }

    #[test]
    fn a_line_is_cut_at_its_bound() {
        let notices = Notices::kept();
        notices.say_at(1, FileChanged, format_args!("{}", "\n".repeat(10_000)));
        assert!(notices.lines()[0].len() <= LINE_BYTES_MAX + 10);
        // A pipe takes the whole line in one piece.
        assert!(notices.say_unpaced(NoticeKind::ProgramSaid, format_args!("{}", "\u{1}".repeat(10_000))));
        assert!((UNPACED_BYTES_MAX..4096).contains(&notices.lines()[1].len()));
    }

    #[test]
    fn refused_line_is_reported() {
        let notices = Notices::full();
        assert!(!notices.say_unpaced(NoticeKind::ProgramSaid, format_args!("words")));
        assert_eq!((notices.count(NoticeKind::ProgramSaid), notices.lines()), (1, Vec::new()));
    }

    #[test]
    fn each_kind_has_its_place() {
        for (place, kind) in NoticeKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
    }
}
