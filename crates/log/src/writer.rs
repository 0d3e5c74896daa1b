//! The log thread: receives batches, formats and writes them, and returns the empty buffers.
//!
//! A line is written whole before the next line starts. While the log cannot be written, the thread
//! keeps its formatted text and takes no more batches. Then the channel fills, and the cores drop
//! records and count them. Memory is bounded by the channel and one formatted batch, which is at
//! most four times as long as the batch (every byte escaped). Retries, drops at the end and notices
//! about trouble are here too; descriptors are in `sink.rs`, the line format is in `combined.rs`.
//! Tested in `access_log/tests.rs`.

use super::batch::{BATCH_BYTES, Batch, LogMessage};
use super::format::Formatter;
use super::host_files::{HostFiles, LineCounts};
use super::notices::{NoticeKind, Notices};
use super::record::{KeptEntry, decode};
use super::shared::LogShared;
use super::sink::{LogSink, SinkProgress};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

/// Interval of checks for requests of the owner while the thread waits for a reader. The interval
/// bounds the delay of a stop or a reopening, at ten wake-ups per second while no reader comes.
const LOOK_AROUND: Duration = Duration::from_millis(100);
/// Interval of notices about dropped records. Each notice has the count since the last one, so a
/// longer interval loses no information.
const DROPPED_SAID_EVERY: Duration = Duration::from_secs(60);

/// The logs of hosts.
#[derive(Debug)]
struct HostLogs {
    files: HostFiles,
    lines: Formatter,
    /// Records that files of hosts lost. The shared count includes these records.
    dropped: u64,
    said: DroppedSaid,
}

/// The last report of dropped records.
#[derive(Debug, Default)]
struct DroppedSaid {
    count: u64,
    at: Option<Instant>,
}

impl DroppedSaid {
    /// Whether `count` has grown and the last report is older than `every`. If so, the caller makes
    /// the next report.
    fn is_due(&mut self, count: u64, every: Duration) -> bool {
        let is_due = count != self.count && self.at.is_none_or(|at| at.elapsed() >= every);
        if is_due {
            *self = Self { count, at: Some(Instant::now()) };
        }
        is_due
    }
}

/// The log thread's state.
#[derive(Debug)]
pub(super) struct LogWriter {
    sink: LogSink,
    inbox: Receiver<LogMessage>,
    shared: Arc<LogShared>,
    notices: Arc<Notices>,
    lines: Formatter,
    text: Vec<u8>,
    hosts: HostLogs,
    /// Whether the last write failed. Trouble is reported once, and the end once.
    in_trouble: bool,
    dropped_said: DroppedSaid,
    /// End of waiting; set when the thread first sees the owner closing.
    patient_until: Option<Instant>,
    /// Set when the thread abandons a closing log. Further bytes would follow a torn line.
    gave_up: bool,
}

impl LogWriter {
    pub(super) fn new(
        sink: LogSink,
        host_files: HostFiles,
        inbox: Receiver<LogMessage>,
        shared: Arc<LogShared>,
        notices: Arc<Notices>,
    ) -> Self {
        let lines = Formatter::new(shared.format.of_hosts.clone());
        let hosts = HostLogs { files: host_files, lines, dropped: 0, said: DroppedSaid::default() };
        Self {
            sink,
            inbox,
            lines: Formatter::new(shared.format.common.clone()),
            shared,
            notices,
            text: Vec::with_capacity(2 * BATCH_BYTES),
            hosts,
            in_trouble: false,
            dropped_said: DroppedSaid::default(),
            patient_until: None,
            gave_up: false,
        }
    }

    /// Runs until every sender is gone, the owner closes, or standard output has no reader any
    /// more.
    pub(super) fn run(mut self) {
        while let Some(message) = self.next() {
            self.tend();
            self.sink.rotate_if_due(&self.notices);
            if let LogMessage::Batch(batch) = message
                && self.write_batch(batch).is_break()
            {
                let end = format_args!("standard output is closed: the access log ends here");
                self.notices.say(NoticeKind::LogTrouble, end);
                break;
            }
            self.say_dropped(DROPPED_SAID_EVERY);
        }
        self.say_dropped(Duration::ZERO);
    }

    /// The next message; `None` at the end. A closing log ends when its queue is empty, even if
    /// senders remain.
    fn next(&self) -> Option<LogMessage> {
        match self.is_closing() {
            true => self.inbox.try_recv().ok(),
            // The owner also sends a message with each request, unless messages are already queued.
            false => self.inbox.recv().ok(),
        }
    }

    fn is_closing(&self) -> bool {
        // Pairs with the store in `Log::close`.
        self.shared.closing.load(Ordering::Acquire)
    }

    /// Formats and writes `batch`. Breaks when the reader is gone for good.
    fn write_batch(&mut self, batch: Batch) -> ControlFlow<()> {
        let Batch { mut bytes, records, home } = batch;
        let mut text = std::mem::take(&mut self.text);
        let mut rest = bytes.as_slice();
        let mut of_hosts = 0;
        while let Some(KeptEntry { record, file, rest: behind }) = decode(rest) {
            match file {
                None => self.lines.write(&mut text, &record),
                Some(file) => {
                    self.hosts.lines.write(self.hosts.files.line(file, &self.notices), &record);
                    of_hosts += 1;
                }
            }
            rest = behind;
        }
        bytes.clear();
        // Freed if the core is gone or has enough spare buffers.
        let _ = home.try_send(bytes);

        if of_hosts > 0 {
            let LineCounts { written, dropped } = self.hosts.files.write(&self.notices);
            self.hosts.dropped += dropped;
            self.count(written, dropped);
        }
        let (written_bytes, flow) = self.write_text(&text);
        let unwritten = &text[written_bytes..];
        let dropped = unwritten.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.count(records - of_hosts - dropped, dropped);
        text.clear();
        self.text = text;
        flow
    }

    fn count(&self, written: u64, dropped: u64) {
        self.shared.dropped.fetch_add(dropped, Ordering::Relaxed);
        self.shared.written.fetch_add(written, Ordering::Relaxed);
    }

    /// Writes `text`, waiting and retrying while the owner is not closing. Returns the number of
    /// bytes written. Breaks when the reader is gone for good.
    fn write_text(&mut self, text: &[u8]) -> (usize, ControlFlow<()>) {
        let mut at = 0;
        while at < text.len() && !self.gave_up {
            match self.sink.write(&text[at..], LOOK_AROUND) {
                SinkProgress::Wrote(bytes) => {
                    let written = &text[at..at + bytes];
                    at += bytes;
                    // On a full disk, the last page often takes the start of a line.
                    if written.contains(&b'\n') {
                        self.end_trouble();
                    }
                    continue;
                }
                SinkProgress::Stuck => {}
                SinkProgress::Gone => return (at, ControlFlow::Break(())),
                SinkProgress::Failed(error) => {
                    // On a full disk: the first half of a record must not stay behind if the file
                    // is rotated.
                    let start = line_start(text, at);
                    if self.sink.take_back(at - start) {
                        at = start;
                    }
                    self.begin_trouble(&error);
                }
            }
            if self.must_give_up() {
                self.gave_up = true;
                break;
            }
            self.say_dropped(DROPPED_SAID_EVERY);
            if self.in_trouble {
                // `Log::reopen` and `Log::close` unpark.
                thread::park_timeout(self.shared.patience.retry);
            }
            if self.tend().is_new_file() {
                at = line_start(text, at);
            }
        }
        (at, ControlFlow::Continue(()))
    }

    /// Opens the file again if the owner asked for it, if the file was moved, or if no file is
    /// open.
    fn tend(&mut self) -> Tended {
        let mut anew = !self.sink.is_open();
        // Pairs with the store in `Log::reopen`.
        if self.shared.reopen.swap(false, Ordering::Acquire) {
            anew = true;
            self.hosts.files.reopen();
        }
        anew |= self.sink.has_moved();
        if !anew {
            return Tended::SameFile;
        }
        match self.sink.reopen() {
            Ok(()) => Tended::NewFile,
            Err(error) if self.sink.is_open() => {
                let line =
                    format_args!("cannot open {} anew: {error}; its lines go on in the old file", self.sink);
                self.notices.say(NoticeKind::LogTrouble, line);
                Tended::SameFile
            }
            Err(error) => {
                self.begin_trouble(&error);
                Tended::SameFile
            }
        }
    }

    /// Whether a closing log has waited long enough. A log in trouble gets no wait.
    fn must_give_up(&mut self) -> bool {
        if !self.is_closing() {
            return false;
        }
        let now = Instant::now();
        let until = *self.patient_until.get_or_insert(now + self.shared.patience.close);
        self.in_trouble || now >= until
    }

    fn begin_trouble(&mut self, error: &io::Error) {
        if !self.in_trouble {
            self.in_trouble = true;
            let line = format_args!(
                "cannot write {}: {error}; its records wait until it can be written, and are dropped when there are too many",
                self.sink
            );
            self.notices.say(NoticeKind::LogTrouble, line);
        }
    }

    fn end_trouble(&mut self) {
        if self.in_trouble {
            self.in_trouble = false;
            self.notices.say(NoticeKind::LogTrouble, format_args!("{} is written again", self.sink));
        }
    }

    /// Reports the number of dropped records if the number grew and the last report is older than
    /// `every`. The files of hosts have a report of their own.
    fn say_dropped(&mut self, every: Duration) {
        let HostLogs { files, dropped: of_hosts, said, .. } = &mut self.hosts;
        let dropped = self.shared.dropped.load(Ordering::Relaxed) - *of_hosts;
        if self.dropped_said.is_due(dropped, every) {
            let why = if self.in_trouble { "it cannot be written" } else { "it is not taken fast enough" };
            let line = format_args!("{}: {dropped} records dropped so far, {why}", self.sink);
            self.notices.say_unpaced(NoticeKind::LogDropped, line);
        }
        if let Some(path) = files.last_failed()
            && said.is_due(*of_hosts, every)
        {
            let path = path.display();
            let line = format_args!(
                "the access logs of hosts: {of_hosts} records dropped so far, the last of {path}, which cannot be written"
            );
            self.notices.say_unpaced(NoticeKind::LogDropped, line);
        }
    }
}

/// Result of [`LogWriter::tend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tended {
    SameFile,
    NewFile,
}

impl Tended {
    fn is_new_file(self) -> bool {
        self == Self::NewFile
    }
}

/// Start of the line that contains byte `at`. A line begun in one file starts over in the next
/// file.
fn line_start(text: &[u8], at: usize) -> usize {
    text[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1)
}
