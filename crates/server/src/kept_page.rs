//! The status that is served as a page, kept for a second, so that frequent requests cost nothing.
//!
//! A collection takes a fifth of a second. Two monitors often ask at the same moment, so a few
//! requests wait for the collection that is under way. Each occupies a thread for blocking work
//! meanwhile, so further requests are refused. Tested here.

use std::{
    sync::{
        Mutex, TryLockError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// The greatest age of a served status.
const AGE_MAX: Duration = Duration::from_secs(1);
/// Requests that wait for a collection: two monitors and a person may ask at once, and most of the
/// eight threads for blocking work stay free.
const WAITING_MAX: usize = 2;

/// The status that was served last, and the time when it was made.
pub(crate) struct KeptPage<T> {
    kept: Mutex<Option<(Instant, T)>>,
    waiting: AtomicUsize,
}

impl<T> Default for KeptPage<T> {
    fn default() -> Self {
        Self { kept: Mutex::default(), waiting: AtomicUsize::new(0) }
    }
}

impl<T> KeptPage<T> {
    /// The kept status, or one that `make` collects, as `show` writes it. `None` if too many
    /// requests wait.
    pub(crate) fn get<R>(&self, make: impl FnOnce() -> T, show: impl FnOnce(&T) -> R) -> Option<R> {
        let mut kept = match self.kept.try_lock() {
            Ok(kept) => kept,
            Err(TryLockError::Poisoned(_)) => return None,
            Err(TryLockError::WouldBlock) => {
                let before = self.waiting.fetch_add(1, Ordering::Relaxed);
                let kept = (before < WAITING_MAX).then(|| self.kept.lock().ok());
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                kept??
            }
        };
        if kept.as_ref().is_none_or(|(made, _)| made.elapsed() > AGE_MAX) {
            *kept = Some((Instant::now(), make()));
        }
        kept.as_ref().map(|(_, status)| show(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Regression: of two monitors that asked at the same moment, the second got 503.
    #[test]
    fn requests_wait_for_collection_under_way() {
        let page = KeptPage::default();
        let (begun, has_begun) = mpsc::channel();
        let (end, may_end) = mpsc::channel();
        std::thread::scope(|scope| {
            let page = &page;
            let first = scope.spawn(move || {
                let make = || {
                    begun.send(()).unwrap();
                    may_end.recv().unwrap();
                    7
                };
                page.get(make, |made| *made)
            });
            has_begun.recv().unwrap();
            let others: Vec<_> =
                (0..WAITING_MAX).map(|_| scope.spawn(|| page.get(|| 8, |made| *made))).collect();
            while page.waiting.load(Ordering::Relaxed) < WAITING_MAX {
                std::thread::yield_now();
            }
            assert_eq!(page.get(|| 9, |made| *made), None, "one too many");
            end.send(()).unwrap();
            assert_eq!(first.join().unwrap(), Some(7));
            assert!(others.into_iter().all(|other| other.join().unwrap() == Some(7)));
        });
        assert_eq!(page.get(|| 9, |made| *made), Some(7), "the status is kept");
    }
}
