//! Not to be in a program's way while it writes an answer.
//!
//! What a program writes wakes the core that holds back its answer for what follows. If the program runs on that core's cpu, the core
//! takes it away, finds one more part, and gives it back: each time both pay for a change of address spaces. So as long as it holds
//! something back it does not: it runs when the program stops, or has used up its slice. For what else wakes it meanwhile that is
//! late, so a core that is asked for files as well does not wait. Leaves out how long answers are held back
//! (`relay.rs`). Tested through the binary (`crates/cli/tests/e2e/php/application.rs`).

use crate::{local, log::NoticeKind};
use std::{cell::Cell, future::poll_fn, mem, pin::pin};
use vermeil::now_ms;
use vermeil_io::{preempt_when_woken, preempts_when_woken};

/// For how long a core must not have been asked for a file before it waits for programs, in milliseconds. Guess: longer than the pauses between
/// the files of a page, so that at most the first of them comes a slice later.
const QUIET_MS: u64 = 100;

thread_local! {
    static CORE: Core = const { Core::new() };
}

/// What a core knows of its manners. Destructors have it even when nothing else of the core is left.
struct Core {
    /// How many exchanges hold something back.
    holding: Cell<usize>,
    /// When it was asked for a file.
    asked_ms: Cell<u64>,
    /// Whether it lets programs go on.
    waits: Cell<bool>,
    /// Whether its class is ours to change; asked once.
    may: Cell<Option<bool>>,
}

impl Core {
    const fn new() -> Self {
        Self { holding: Cell::new(0), asked_ms: Cell::new(0), waits: Cell::new(false), may: Cell::new(None) }
    }

    fn begin(&self, now_ms: u64) {
        self.holding.set(self.holding.get() + 1);
        if !self.waits.get() && now_ms.saturating_sub(self.asked_ms.get()) >= QUIET_MS {
            self.change(true);
        }
    }

    fn end(&self) {
        self.holding.set(self.holding.get().saturating_sub(1));
        if self.waits.get() && self.holding.get() == 0 {
            self.change(false);
        }
    }

    fn change(&self, waits: bool) {
        let may = self.may.get().unwrap_or_else(|| preempts_when_woken() == Some(true));
        self.may.set(Some(may));
        if !may {
            return;
        }
        match preempt_when_woken(!waits) {
            Ok(()) => self.waits.set(waits),
            Err(error) => {
                self.may.set(Some(false));
                local::try_with(|local| {
                    let line = format_args!(
                        "programs cannot write undisturbed, the scheduler's class stays as it is: {error}"
                    );
                    local.server.notices.say(NoticeKind::Disturbing, line);
                });
            }
        }
    }
}

/// Says that this core is asked for a file, at `now_ms`.
pub(crate) fn note_file(now_ms: u64) {
    CORE.with(|core| core.asked_ms.set(now_ms));
}

/// From the first time that something was not there at once, until it is dropped, this core lets programs go on.
#[derive(Default)]
pub(super) struct Patience {
    began: bool,
}

impl Patience {
    /// What `future` gives.
    pub(super) async fn while_pending<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let polled = future.as_mut().poll(context);
            if polled.is_pending() && !mem::replace(&mut self.began, true) {
                CORE.with(|core| core.begin(now_ms()));
            }
            polled
        })
        .await
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        if self.began {
            CORE.with(Core::end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// On a thread of its own, which is in the class that threads begin in.
    fn on_a_core(test: impl FnOnce(&Core) + Send + 'static) {
        thread::spawn(|| test(&Core::new())).join().unwrap();
    }

    #[test]
    fn it_lasts_from_the_first_that_is_held_back_to_the_last() {
        on_a_core(|core| {
            for (step, waits) in [
                (Core::begin as fn(&Core, u64), true),
                (Core::begin, true),
                (|core, _| core.end(), true),
                (|core, _| core.end(), false),
                (Core::begin, true),
            ] {
                step(core, QUIET_MS);
                assert_eq!(preempts_when_woken(), Some(!waits));
            }
        });
    }

    #[test]
    fn who_is_asked_for_files_does_not_wait() {
        on_a_core(|core| {
            core.asked_ms.set(1000);
            core.begin(1000 + QUIET_MS - 1);
            assert_eq!(preempts_when_woken(), Some(true));
            core.begin(1000 + QUIET_MS);
            assert_eq!(preempts_when_woken(), Some(false), "the next one finds it quiet");
        });
    }

    #[test]
    fn a_class_that_somebody_chose_stays() {
        on_a_core(|core| {
            preempt_when_woken(false).unwrap();
            core.begin(QUIET_MS);
            core.end();
            assert_eq!(preempts_when_woken(), Some(false));
        });
    }
}
