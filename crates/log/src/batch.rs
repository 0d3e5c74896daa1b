//! One core's end of the access log: records go into a batch, and batches go to the log thread.
//!
//! Handing over a batch never waits: if the channel is full, the records stay in the batch, and the
//! batch is lost only when it is full too. Formatting and writing are in `writer.rs`. The core
//! passes the time in. Tested below (buffers come home, drops are counted) and in
//! `access_log/tests.rs` (dropping a `CoreLog` loses nothing).

use super::record::{LogRecord, RECORD_BYTES_MAX, encode};
use super::shared::{LogCounts, LogShared};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

/// Batch size in bytes: about 300 records of 200 bytes. Handing over takes about a microsecond with
/// the wake-up, so a record costs a few nanoseconds. A batch fits in the second-level cache.
pub const BATCH_BYTES: usize = 64 * 1024;
/// Age of a record at which the batch is handed over, in milliseconds. An idle core wakes four
/// times per second at most for this, and a reader of the log sees a line within this time.
pub const FLUSH_MS: u64 = 250;

/// Empty buffers that wait for the core, because the core fills one buffer while another returns.
/// After a burst the further buffers are freed.
const SPARES: usize = 2;

/// A message to the log thread.
#[derive(Debug)]
pub(super) enum LogMessage {
    Batch(Batch),
    /// Check the requests in `LogShared`.
    Wake,
}

/// Records of a core, and the channel that returns the buffer.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) records: u64,
    pub(super) home: SyncSender<Vec<u8>>,
}

/// One core's end of the log; lives on the core. Dropping it hands its records over, and may wait a
/// moment.
#[derive(Debug)]
pub struct CoreLog {
    /// `None` when nothing is recorded: the log is off, or ended because the reader of its pipe
    /// closed.
    link: Option<BatchLink>,
}

#[derive(Debug)]
struct BatchLink {
    bytes: Vec<u8>,
    records: u64,
    flushed_ms: u64,
    messages: SyncSender<LogMessage>,
    spares: Receiver<Vec<u8>>,
    home: SyncSender<Vec<u8>>,
    shared: Arc<LogShared>,
}

impl CoreLog {
    /// A log that drops every record.
    pub fn off() -> Self {
        Self { link: None }
    }

    pub(super) fn new(messages: SyncSender<LogMessage>, shared: Arc<LogShared>) -> Self {
        let (home, spares) = mpsc::sync_channel(SPARES);
        let (bytes, records, flushed_ms) = (Vec::new(), 0, 0);
        Self { link: Some(BatchLink { bytes, records, flushed_ms, messages, spares, home, shared }) }
    }

    /// Whether records are kept. If not, the caller need not gather any.
    pub fn is_on(&self) -> bool {
        self.link.is_some()
    }

    /// Whether lines have the name of the request.
    pub fn has_request_id(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.shared.format.have_request_id())
    }

    /// Adds `record` to the batch, for the log `file` of a host, or for the common log. Never
    /// waits; long fields are cut at their bounds and marked.
    #[inline]
    pub fn record(&mut self, record: &LogRecord<'_>, file: Option<&Path>) {
        let Some(link) = &mut self.link else { return };
        if file.is_none() && !link.shared.has_common {
            return;
        }
        if link.bytes.capacity() - link.bytes.len() < RECORD_BYTES_MAX && !link.make_room() {
            self.link = None;
            return;
        }
        let host = record.host.filter(|_| link.shared.format.have_host());
        encode(&mut link.bytes, &LogRecord { host, ..*record }, file);
        link.records += 1;
    }

    /// Hands the batch over if it holds records and the last flush was [`FLUSH_MS`] ago. `now_ms`
    /// is any monotonic clock, the same at every call.
    pub fn flush_if_due(&mut self, now_ms: u64) {
        if self.due_ms().is_none_or(|due_ms| now_ms < due_ms) {
            return;
        }
        let Some(link) = &mut self.link else { return };
        link.flushed_ms = now_ms;
        // A full channel has no room for a few old records, but the buffer has room for more.
        if link.hand_over() == Err(HandOverError::LogEnded) {
            self.link = None;
        }
    }

    /// Time of the next flush, perhaps in the past. `None` while the batch is empty, because an
    /// idle core needs no timer.
    pub fn due_ms(&self) -> Option<u64> {
        let link = self.link.as_ref()?;
        (link.records > 0).then_some(link.flushed_ms.saturating_add(FLUSH_MS))
    }

    /// Counts of the records of all cores.
    pub fn counts(&self) -> LogCounts {
        self.link.as_ref().map_or_else(LogCounts::default, |link| link.shared.counts())
    }

    /// Hands over the records of several ends, which may wait as long as dropping a single end.
    pub fn end_all(ends: Vec<Self>) {
        let mut until = None;
        for mut end in ends {
            let Some(mut link) = end.link.take() else { continue };
            let until = *until.get_or_insert_with(|| link.patient_until());
            link.hand_over_last(until);
        }
    }
}

/// Why a batch was not handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandOverError {
    /// The channel has no room. The records are still in the batch.
    ChannelFull,
    LogEnded,
}

impl BatchLink {
    /// Sends a full batch, or allocates the first buffer. If the channel is full too, drops the
    /// records and keeps the buffer. Returns false once the log has ended.
    #[cold]
    fn make_room(&mut self) -> bool {
        if self.records > 0 {
            match self.hand_over() {
                Ok(()) => {}
                Err(HandOverError::ChannelFull) => self.drop_records(),
                Err(HandOverError::LogEnded) => return false,
            }
        }
        if self.bytes.capacity() == 0 {
            self.bytes = self.spares.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH_BYTES));
        }
        true
    }

    /// Sends the batch, unless the channel is full.
    fn hand_over(&mut self) -> Result<(), HandOverError> {
        let bytes = std::mem::take(&mut self.bytes);
        let records = std::mem::take(&mut self.records);
        let batch = Batch { bytes, records, home: self.home.clone() };
        match self.messages.try_send(LogMessage::Batch(batch)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(unsent)) => {
                if let LogMessage::Batch(Batch { bytes, records, .. }) = unsent {
                    (self.bytes, self.records) = (bytes, records);
                }
                Err(HandOverError::ChannelFull)
            }
            Err(TrySendError::Disconnected(_)) => Err(HandOverError::LogEnded),
        }
    }

    fn drop_records(&mut self) {
        self.shared.dropped.fetch_add(std::mem::take(&mut self.records), Ordering::Relaxed);
        self.bytes.clear();
    }

    /// When a last batch that begins to wait now gives up.
    fn patient_until(&self) -> Instant {
        Instant::now() + self.shared.patience.close
    }

    /// Sends the last batch and waits for room until `end`.
    fn hand_over_last(&mut self, end: Instant) {
        while self.records > 0 && self.hand_over() == Err(HandOverError::ChannelFull) {
            if Instant::now() >= end {
                self.drop_records();
            } else {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Drop for CoreLog {
    fn drop(&mut self) {
        if let Some(link) = &mut self.link {
            // The core serves no more requests, so the thread may wait.
            link.hand_over_last(link.patient_until());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{options::LogOptions, shared::LogTimeouts};
    use super::*;

    const RECORD: LogRecord<'_> = LogRecord { request_line: b"GET / HTTP/1.1", ..LogRecord::EMPTY };

    fn core(batches_waiting: usize) -> (CoreLog, Receiver<LogMessage>) {
        let (messages, inbox) = mpsc::sync_channel(batches_waiting);
        (CoreLog::new(messages, LogShared::new(LogTimeouts::USUAL, &LogOptions::default())), inbox)
    }

    fn hand_over_one(core: &mut CoreLog) {
        core.record(&RECORD, None);
        core.flush_if_due(u64::MAX);
    }

    fn next_batch(inbox: &Receiver<LogMessage>) -> Batch {
        match inbox.try_recv() {
            Ok(LogMessage::Batch(batch)) => batch,
            other => panic!("no batch: {other:?}"),
        }
    }

    #[test]
    fn an_emptied_buffer_comes_home() {
        let (mut core, inbox) = core(1);
        hand_over_one(&mut core);
        let Batch { mut bytes, home, .. } = next_batch(&inbox);
        let buffer = bytes.as_ptr();
        bytes.clear();
        home.try_send(bytes).unwrap();
        hand_over_one(&mut core);
        assert_eq!(next_batch(&inbox).bytes.as_ptr(), buffer);
    }

    /// Regression: each flush of a few records to a full channel lost them.
    #[test]
    fn flush_to_full_channel_keeps_records() {
        let (mut core, inbox) = core(1);
        hand_over_one(&mut core);
        hand_over_one(&mut core);
        hand_over_one(&mut core);
        assert_eq!(core.counts(), LogCounts::default());
        assert!(core.due_ms().is_some());
        assert_eq!(next_batch(&inbox).records, 1);
        core.flush_if_due(u64::MAX);
        assert_eq!((next_batch(&inbox).records, core.due_ms()), (2, None));
    }

    #[test]
    fn full_batch_for_full_channel_is_dropped_and_keeps_its_buffer() {
        let (mut core, inbox) = core(1);
        hand_over_one(&mut core);
        let mut records = 0;
        while core.counts().dropped == 0 {
            core.record(&RECORD, None);
            records += 1;
        }
        assert_eq!(core.counts(), LogCounts { written: 0, dropped: records - 1 });
        assert!(core.link.as_ref().unwrap().bytes.capacity() >= BATCH_BYTES);
        assert_eq!(next_batch(&inbox).records, 1);
        core.flush_if_due(u64::MAX);
        assert_eq!((next_batch(&inbox).records, core.counts().dropped), (1, records - 1));
    }

    #[test]
    fn ends_that_end_together_count_lost_records() {
        let (messages, inbox) = mpsc::sync_channel(1);
        let patience = LogTimeouts { close: Duration::from_millis(10), ..LogTimeouts::USUAL };
        let shared = LogShared::new(patience, &LogOptions::default());
        let mut ends: Vec<_> = (0..3).map(|_| CoreLog::new(messages.clone(), shared.clone())).collect();
        ends.iter_mut().for_each(|end| end.record(&RECORD, None));
        CoreLog::end_all(ends);
        assert_eq!((next_batch(&inbox).records, shared.counts().dropped), (1, 2));
    }

    #[test]
    fn a_batch_never_outgrows_its_buffer() {
        let (mut core, inbox) = core(1);
        let long = [b'x'; 5000];
        let record =
            LogRecord { request_line: &long, referer: Some(&long), user_agent: Some(&long), ..RECORD };
        let mut records = 0;
        let batch = loop {
            core.record(&record, None);
            records += 1;
            if let Ok(LogMessage::Batch(batch)) = inbox.try_recv() {
                break batch;
            }
        };
        assert_eq!(batch.records, records - 1);
        assert!(batch.bytes.len() <= BATCH_BYTES && batch.bytes.capacity() == BATCH_BYTES);
    }

    #[test]
    fn a_log_that_ended_turns_the_core_off() {
        let (mut core, inbox) = core(1);
        drop(inbox);
        hand_over_one(&mut core);
        assert!(!core.is_on());
    }
}
