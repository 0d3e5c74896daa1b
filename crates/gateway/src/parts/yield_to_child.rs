//! Avoids preempting a program while the program writes an answer.
//!
//! Each write of a program wakes the core that gathers its answer. If the program runs on that
//! core's cpu, the core preempts the program, finds one more part, and yields the cpu again. Each
//! time both pay for a switch of address spaces. So a core does not preempt while it gathers an
//! answer: the core runs when the program blocks or has used up its time slice. Other events of the
//! core are late meanwhile, so a core that also sends files does not wait. Leaves out how long
//! answers are gathered (`relay.rs`). Tested below, and through the binary
//! (`crates/e2e/tests/e2e/php/application.rs`).

use std::{cell::Cell, future::poll_fn, io, mem, pin::pin};
use vermeil::now_ms;
use vermeil_ablation::Mechanism;
use vermeil_io::{preempt_when_woken, preempts_when_woken};
use vermeil_log::{NoticeKind, Notices};

/// How long a core must have sent no file before the core waits for programs, in milliseconds. A
/// browser requests the files of a page within a round trip of each other, and a hundred
/// milliseconds cover the round trip of a client on the same continent. So at most the first file
/// of a page is late.
const QUIET_MS: u64 = 100;

thread_local! {
    static CORE: YieldingCore = const { YieldingCore::new() };
}

/// The state of a core. This type has no destructor, so destructors of other values can use the
/// state when the rest of the core is gone.
struct YieldingCore {
    /// Number of exchanges that gather output.
    holding: Cell<usize>,
    /// When the core last sent part of a file.
    file_ms: Cell<u64>,
    /// Whether the core currently lets programs continue.
    waits: Cell<bool>,
    /// The kernel has refused, so the core does not ask again.
    refused: Cell<bool>,
}

impl YieldingCore {
    const fn new() -> Self {
        Self {
            holding: Cell::new(0),
            file_ms: Cell::new(0),
            waits: Cell::new(false),
            refused: Cell::new(false),
        }
    }

    fn begin(&self, now_ms: u64) -> io::Result<()> {
        self.holding.set(self.holding.get() + 1);
        let is_quiet = now_ms.saturating_sub(self.file_ms.get()) >= QUIET_MS;
        let is_due =
            !Mechanism::YieldToChild.is_off() && is_quiet && !self.waits.get() && !self.refused.get();
        // Another scheduling class was chosen by the operator, so it stays.
        if is_due && preempts_when_woken() == Some(true) {
            preempt_when_woken(false).inspect_err(|_| self.refused.set(true))?;
            self.waits.set(true);
        }
        Ok(())
    }

    fn end(&self) {
        self.holding.set(self.holding.get().saturating_sub(1));
        if self.holding.get() == 0 {
            self.stop_waiting();
        }
    }

    fn note_file(&self, now_ms: u64) {
        self.file_ms.set(now_ms);
        self.stop_waiting();
    }

    fn stop_waiting(&self) {
        if self.waits.replace(false) && preempts_when_woken() == Some(false) {
            // Leaving this class needs no privilege.
            let _ = preempt_when_woken(true);
        }
    }
}

/// Records that this core sends part of a file.
#[inline]
pub fn note_file() {
    CORE.with(|core| core.note_file(now_ms()));
}

/// From the first pending poll until this value is dropped, the core lets programs continue.
pub(super) struct YieldToChild<'n> {
    notices: &'n Notices,
    began: bool,
}

impl<'n> YieldToChild<'n> {
    /// Lets no program continue yet. `notices` get the kernel's refusal.
    pub(super) fn new(notices: &'n Notices) -> Self {
        Self { notices, began: false }
    }

    /// Awaits `future` and returns its output.
    pub(super) async fn while_pending<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let polled = future.as_mut().poll(context);
            if polled.is_pending()
                && !mem::replace(&mut self.began, true)
                && let Err(error) = CORE.with(|core| core.begin(now_ms()))
            {
                say_refused(self.notices, &error);
            }
            polled
        })
        .await
    }
}

fn say_refused(notices: &Notices, error: &io::Error) {
    let line =
        format_args!("programs cannot write undisturbed: the scheduler's class stays as it is ({error})");
    notices.say(NoticeKind::Disturbing, line);
}

impl Drop for YieldToChild<'_> {
    fn drop(&mut self) {
        if self.began {
            CORE.with(YieldingCore::end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Long after the last file.
    const LATER: u64 = 1000 + QUIET_MS;

    /// Runs the test on its own thread, which initially preempts when woken.
    fn on_a_core(test: impl FnOnce(&YieldingCore) + Send + 'static) {
        let core = || {
            preempt_when_woken(true).unwrap();
            test(&YieldingCore::new());
        };
        thread::spawn(core).join().unwrap();
    }

    #[test]
    fn batch_class_lasts_from_first_to_last_held_request() {
        on_a_core(|core| {
            for _ in 0..2 {
                core.begin(LATER).unwrap();
                core.begin(LATER).unwrap();
                core.end();
                assert_eq!(preempts_when_woken(), Some(false));
                core.end();
                assert_eq!(preempts_when_woken(), Some(true));
            }
        });
    }

    #[test]
    fn connection_sending_files_does_not_wait() {
        on_a_core(|core| {
            core.note_file(LATER);
            core.begin(LATER + QUIET_MS - 1).unwrap();
            assert_eq!(preempts_when_woken(), Some(true));
            core.begin(LATER + QUIET_MS).unwrap();
            assert_eq!(preempts_when_woken(), Some(false), "the next one finds it quiet");
            core.note_file(LATER + QUIET_MS);
            assert_eq!(preempts_when_woken(), Some(true), "whatever is held back");
        });
    }

    #[test]
    fn chosen_scheduling_class_stays() {
        on_a_core(|core| {
            preempt_when_woken(false).unwrap();
            core.begin(LATER).unwrap();
            core.end();
            assert_eq!(preempts_when_woken(), Some(false));
        });
    }
}
