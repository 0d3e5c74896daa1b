//! The log thread: receives batches, formats and writes them, and returns the empty buffers.
//!
//! A line is written whole before the next line starts. While the common log takes nothing, its
//! lines wait up to a bound (`waiting_text.rs`), and further records are dropped and counted. The
//! thread goes on taking batches meanwhile, because the logs of hosts must not wait for the common
//! log. Memory is bounded by the channel and the lines that wait. Retries, drops at the end and
//! notices about trouble are here too; descriptors are in `sink.rs`, the line format is in
//! `combined.rs`. Tested in `access_log/tests.rs`.

use super::batch::{Batch, LogMessage};
use super::format::Formatter;
use super::host_files::{HostFiles, LineCounts};
use super::notices::{NoticeKind, Notices};
use super::record::{KeptEntry, decode};
use super::shared::LogShared;
use super::sink::{LogSink, SinkProgress};
use super::waiting_text::WaitingText;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long the thread waits for a reader of the log before it looks for the next batch, at a
/// hundred wake-ups per second while lines wait and no reader comes. A busy core fills its part of
/// the channel in 13 ms (`BATCHES_WAITING_PER_CORE`).
const LOOK_AROUND: Duration = Duration::from_millis(10);
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
    /// The lines of the common log that are not written yet.
    text: WaitingText,
    hosts: HostLogs,
    /// The time of the next attempt, while the log cannot be written. Trouble is reported once, and
    /// the end once.
    trouble: Option<Instant>,
    dropped_said: DroppedSaid,
    /// End of waiting; set when the thread first sees the owner closing.
    patient_until: Option<Instant>,
    /// Set when the thread abandons a closing log. Further bytes would follow a torn line.
    gave_up: bool,
}

impl LogWriter {
    /// `text_bytes_max` is the most text that waits for the common log.
    pub(super) fn new(
        sink: LogSink,
        host_files: HostFiles,
        inbox: Receiver<LogMessage>,
        shared: Arc<LogShared>,
        notices: Arc<Notices>,
        text_bytes_max: usize,
    ) -> Self {
        let lines = Formatter::new(shared.format.of_hosts.clone());
        let hosts = HostLogs { files: host_files, lines, dropped: 0, said: DroppedSaid::default() };
        Self {
            sink,
            inbox,
            lines: Formatter::new(shared.format.common.clone()),
            shared,
            notices,
            text: WaitingText::new(text_bytes_max),
            hosts,
            trouble: None,
            dropped_said: DroppedSaid::default(),
            patient_until: None,
            gave_up: false,
        }
    }

    /// Runs until every sender is gone, the owner closes, or standard output has no reader any more
    /// and no host has a log.
    pub(super) fn run(mut self) {
        while let Some(message) = self.next() {
            self.tend();
            if self.text.is_empty() {
                self.sink.rotate_if_due(&self.notices);
            }
            let wait = match message {
                LogMessage::Batch(batch) => {
                    self.take(batch);
                    // More batches may be in the channel.
                    Duration::ZERO
                }
                LogMessage::Wake => LOOK_AROUND,
            };
            if self.write_text(wait).is_break() {
                break;
            }
            self.say_dropped(DROPPED_SAID_EVERY);
        }
        self.say_dropped(Duration::ZERO);
    }

    /// The next message, or [`LogMessage::Wake`] for another attempt to write the lines that wait.
    /// `None` at the end. A closing log ends when its queue is empty, even if senders remain.
    fn next(&self) -> Option<LogMessage> {
        if self.is_closing() {
            let rest = (!self.text.is_empty()).then_some(LogMessage::Wake);
            return self.inbox.try_recv().ok().or(rest);
        }
        if self.text.is_empty() {
            // The owner also sends a message with each request, unless messages are already queued.
            return self.inbox.recv().ok();
        }
        let pause = self.trouble.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        match self.inbox.recv_timeout(pause) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => Some(LogMessage::Wake),
            Err(RecvTimeoutError::Disconnected) => {
                // No owner is left that could close the log.
                self.shared.closing.store(true, Ordering::Release);
                Some(LogMessage::Wake)
            }
        }
    }

    fn is_closing(&self) -> bool {
        // Pairs with the store in `Log::close`.
        self.shared.closing.load(Ordering::Acquire)
    }

    /// Whether the next attempt to write a log in trouble is not due yet. A closing log gets its
    /// last attempt at once.
    fn is_pausing(&self) -> bool {
        !self.is_closing() && self.trouble.is_some_and(|at| Instant::now() < at)
    }

    /// Formats `batch`, and writes the lines of hosts.
    fn take(&mut self, batch: Batch) {
        let Batch { mut bytes, home, .. } = batch;
        let mut rest = bytes.as_slice();
        let has_common = !matches!(self.sink, LogSink::Nowhere);
        let (mut has_hosts, mut without_room) = (false, 0);
        while let Some(KeptEntry { record, file, rest: behind }) = decode(rest) {
            match file {
                Some(file) => {
                    self.hosts.lines.write(self.hosts.files.line(file, &self.notices), &record);
                    has_hosts = true;
                }
                None if has_common => {
                    let lines = &mut self.lines;
                    let has_room = self.text.add(|text| lines.write(text, &record));
                    without_room += u64::from(!has_room);
                }
                None => {}
            }
            rest = behind;
        }
        bytes.clear();
        // Freed if the core is gone or has enough spare buffers.
        let _ = home.try_send(bytes);

        self.count(0, without_room);
        if has_hosts {
            let LineCounts { written, dropped } = self.hosts.files.write(&self.notices);
            self.hosts.dropped += dropped;
            self.count(written, dropped);
        }
    }

    fn count(&self, written: u64, dropped: u64) {
        self.shared.dropped.fetch_add(dropped, Ordering::Relaxed);
        self.shared.written.fetch_add(written, Ordering::Relaxed);
    }

    /// Writes the lines that wait, as many as the log takes. Waits at most `wait` for a reader.
    /// Breaks when the reader is gone for good and no host has a log.
    fn write_text(&mut self, mut wait: Duration) -> ControlFlow<()> {
        if self.is_pausing() {
            return ControlFlow::Continue(());
        }
        while !self.text.is_empty() && !self.gave_up {
            match self.sink.write(self.text.unwritten(), wait) {
                SinkProgress::Wrote(bytes) => {
                    let lines = self.text.advance(bytes);
                    self.count(lines, 0);
                    // On a full disk, the last page often takes the start of a line.
                    if lines > 0 {
                        self.end_trouble();
                    }
                    // A slow reader must not keep the thread from the next batch.
                    wait = Duration::ZERO;
                    continue;
                }
                SinkProgress::Stuck => {}
                SinkProgress::Gone => return self.lose_reader(),
                SinkProgress::Failed(error) => {
                    // On a full disk: the first half of a record must not stay behind if the file
                    // is rotated.
                    if self.sink.take_back(self.text.begun()) {
                        self.text.restart_line();
                    }
                    self.begin_trouble(&error);
                }
            }
            self.gave_up = self.must_give_up();
            break;
        }
        if self.gave_up {
            let dropped = self.text.drop_all();
            self.count(0, dropped);
        }
        ControlFlow::Continue(())
    }

    /// The common log ends with the reader of standard output. The logs of hosts go on.
    fn lose_reader(&mut self) -> ControlFlow<()> {
        let dropped = self.text.drop_all();
        self.count(0, dropped);
        let goes_on = self.shared.hosts_have_files;
        let rest = if goes_on { "; the logs of hosts go on" } else { "" };
        let end = format_args!("standard output is closed: the access log ends here{rest}");
        self.notices.say(NoticeKind::LogTrouble, end);
        if !goes_on {
            return ControlFlow::Break(());
        }
        (self.sink, self.trouble) = (LogSink::Nowhere, None);
        ControlFlow::Continue(())
    }

    /// Opens the file again if the owner asked for it, if the file was moved, or if no file is
    /// open.
    fn tend(&mut self) {
        let mut anew = !self.sink.is_open() && !self.is_pausing();
        // Pairs with the store in `Log::reopen`.
        if self.shared.reopen.swap(false, Ordering::Acquire) {
            anew = true;
            self.hosts.files.reopen();
        }
        anew |= self.sink.has_moved();
        if !anew {
            return;
        }
        match self.sink.reopen() {
            Ok(()) => {
                // A line begun in one file starts over in the next file.
                self.text.restart_line();
                if let Some(at) = &mut self.trouble {
                    *at = Instant::now();
                }
            }
            Err(error) if self.sink.is_open() => {
                let line =
                    format_args!("cannot open {} anew: {error}; its lines go on in the old file", self.sink);
                self.notices.say(NoticeKind::LogTrouble, line);
            }
            Err(error) => self.begin_trouble(&error),
        }
    }

    /// Whether a closing log has waited long enough. A log in trouble gets no wait.
    fn must_give_up(&mut self) -> bool {
        if !self.is_closing() {
            return false;
        }
        let now = Instant::now();
        let until = *self.patient_until.get_or_insert(now + self.shared.patience.close);
        self.trouble.is_some() || now >= until
    }

    fn begin_trouble(&mut self, error: &io::Error) {
        let next_attempt = Instant::now() + self.shared.patience.retry;
        if self.trouble.replace(next_attempt).is_none() {
            let line = format_args!(
                "cannot write {}: {error}; its records wait until it can be written, and are dropped when there are too many",
                self.sink
            );
            self.notices.say(NoticeKind::LogTrouble, line);
        }
    }

    fn end_trouble(&mut self) {
        if self.trouble.take().is_some() {
            self.notices.say(NoticeKind::LogTrouble, format_args!("{} is written again", self.sink));
        }
    }

    /// Reports the number of dropped records if the number grew and the last report is older than
    /// `every`. The files of hosts have a report of their own.
    fn say_dropped(&mut self, every: Duration) {
        let HostLogs { files, dropped: of_hosts, said, .. } = &mut self.hosts;
        let dropped = self.shared.dropped.load(Ordering::Relaxed) - *of_hosts;
        if self.dropped_said.is_due(dropped, every) {
            let why =
                if self.trouble.is_some() { "it cannot be written" } else { "it is not taken fast enough" };
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
