//! Work that the subject counts itself, such as the requests of each core, in the same recording as
//! the samples.
//!
//! A thread reads the counts, because the subject may answer slowly and the rings of samples must
//! be emptied meanwhile. The recorder writes the newest counts with each tick. Leaves out the
//! question to the subject ([`WorkCounts`]) and the rates (`profile`). Tested below.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::ProfileError;
use crate::format::Series;

/// The pause between two readings. A status takes a server with two cores 1.7 ms of cpu time, and a
/// fifth of a second, so the answers cost 0.4 % of one cpu.
const PAUSE: Duration = Duration::from_millis(300);
/// The unit of these series in a recording. Their values grow only at each reading.
pub(crate) const POLLED: &str = "count, polled";

/// A source of the counts of finished work.
pub trait WorkCounts: Send {
    /// The columns: the name of each count, and its cpu. The counts with the first name are the
    /// units of work.
    fn columns(&self) -> Vec<(String, Option<u32>)>;

    /// The present counts, in the order of the columns.
    ///
    /// # Errors
    /// The reason, in words, why the subject does not answer.
    fn read(&mut self) -> Result<Vec<u64>, String>;
}

/// A thread that reads counts until it is dropped.
pub(crate) struct WorkReader {
    series: Vec<Series>,
    latest: Arc<Mutex<Vec<u64>>>,
    /// The thread ends when this end of the channel is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl WorkReader {
    /// Reads the counts for the first time, and starts the thread.
    ///
    /// # Errors
    /// The subject does not answer, or the system has no further thread.
    pub(crate) fn start(mut source: Box<dyn WorkCounts>) -> Result<Self, ProfileError> {
        let first = source.read().map_err(ProfileError::Work)?;
        let series = source
            .columns()
            .into_iter()
            .map(|(name, cpu)| Series { name, cpu, node: None, unit: POLLED.to_owned() })
            .collect();
        let latest = Arc::new(Mutex::new(first));
        let (stop, stopped) = mpsc::channel();
        let shared = Arc::clone(&latest);
        let body = move || {
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                // A subject that ends does not answer any more. The last counts stay.
                let Ok(values) = source.read() else { continue };
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = values;
            }
        };
        let thread = thread::Builder::new()
            .name("work-counts".to_owned())
            .spawn(body)
            .map_err(|source| ProfileError::System { what: "cannot start a thread", source })?;
        Ok(Self { series, latest, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn series(&self) -> &[Series] {
        &self.series
    }

    /// The counts of the last reading.
    pub(crate) fn latest(&self) -> Vec<u64> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for WorkReader {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct QueuedReadings(mpsc::Receiver<Result<Vec<u64>, String>>);

    impl WorkCounts for QueuedReadings {
        fn columns(&self) -> Vec<(String, Option<u32>)> {
            vec![("requests".to_owned(), Some(0))]
        }

        fn read(&mut self) -> Result<Vec<u64>, String> {
            self.0.recv().unwrap_or_else(|_| Err("the subject has ended".to_owned()))
        }
    }

    #[test]
    fn counts_of_ended_subject_stay() {
        let (sender, receiver) = mpsc::channel();
        for reading in [Ok(vec![3]), Ok(vec![8]), Err("gone".to_owned())] {
            sender.send(reading).unwrap();
        }
        drop(sender);
        let reader = WorkReader::start(Box::new(QueuedReadings(receiver))).unwrap();
        assert_eq!(reader.series()[0].cpu, Some(0));
        while reader.latest() != [8] {
            thread::yield_now();
        }
        drop(reader);
    }

    #[test]
    fn subject_without_first_answer_is_refused() {
        let (sender, receiver) = mpsc::channel();
        sender.send(Err("no such socket".to_owned())).unwrap();
        let refused = WorkReader::start(Box::new(QueuedReadings(receiver))).err().unwrap();
        assert!(refused.to_string().contains("no such socket"), "{refused}");
    }
}
