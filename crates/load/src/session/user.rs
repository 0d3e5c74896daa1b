//! A user: one session after the other, page after page, with think times.
//!
//! Leaves out fetching (`visit`). Tested through `tests/`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::model::Judge;
use super::run::PageScript;
use super::visit::{UserBrowser, Visited};
use crate::fault::ExchangeFailure;
use crate::measure::{Tally, part};
use crate::random::Random;
use crate::run::{RunContext, until};

/// Pause of a user after a failed page, if there is no think time, so that a refusing server does
/// not get requests at full speed.
const PAUSE: Duration = Duration::from_millis(100);

/// A user.
pub(super) struct SessionUser {
    script: Arc<PageScript>,
    context: Arc<RunContext>,
    browser: UserBrowser,
    random: Random,
    index: usize,
}

impl Drop for SessionUser {
    fn drop(&mut self) {
        self.context.user_ends();
    }
}

impl SessionUser {
    pub(super) fn new(script: Arc<PageScript>, context: Arc<RunContext>, index: usize) -> Self {
        let browser = UserBrowser::new(script.clone(), context.clone(), index);
        let random = Random::new(context.seed, (context.first_user + index) as u64);
        Self { script, context, browser, random, index }
    }

    /// Runs sessions until the end of the run.
    pub(super) async fn live(mut self, begins: Instant) {
        until(begins).await;
        self.context.user_is_there();
        let _over = self.sessions().await;
    }

    /// Runs one session after the other. Returns `None` at the end of the run.
    async fn sessions(&mut self) -> Option<()> {
        let mut intended = match self.script.comes_by_itself {
            true => self.come().await?,
            false => self.begins(None)?,
        };
        loop {
            self.session(intended).await?;
            intended = if self.script.comes_by_itself {
                // The next session belongs to another user.
                self.browser.leave();
                self.come().await?
            } else {
                self.think().await?
            };
        }
    }

    /// Waits for the arrival of a session. Returns the intended start; `None` at the end of the
    /// run.
    async fn come(&mut self) -> Option<Instant> {
        let (_, intended) = self.context.arrival(self.index)?;
        let late = until(intended).await;
        self.begins(Some(late)).map(|_| intended)
    }

    /// Runs a session from the first page, whose ticket is taken, to the last page or the first
    /// failure. Returns `None` at the end of the run.
    async fn session(&mut self, intended: Instant) -> Option<()> {
        let (mut page, mut intended) = (0, intended);
        loop {
            self.context.ledger.here().begun += 1;
            // A page that is judged by its rate may take any time.
            let since = intended.saturating_duration_since(self.context.epoch);
            match self.script.pages[page].judge {
                Judge::Time => self.context.waits.begin(self.index, since, 1),
                Judge::Rate => self.context.waits.begin_unjudged(self.index, since),
            }
            let result = self.browser.visit(page, &mut self.random).await;
            self.context.waits.end(self.index);
            let has_failed = result.is_err();
            self.count(page, intended, result);
            self.context.have_ended(1);
            if has_failed {
                self.browser.leave();
                if self.script.think.is_none() {
                    vermeil::sleep(PAUSE).await;
                }
                return self.context.goes_on().then_some(());
            }
            let Some(next) = self.next_page(page) else { return Some(()) };
            page = next;
            intended = self.think().await?;
        }
    }

    fn next_page(&mut self, page: usize) -> Option<usize> {
        let mut left = self.random.unit();
        let next = self.script.pages[page].next.iter().find(|(_, probability)| {
            left -= probability;
            left < 0.0
        });
        next.map(|(next, _)| *next)
    }

    /// Waits for the think time. Returns the end of the wait; `None` at the end of the run.
    async fn think(&mut self) -> Option<Instant> {
        if self.script.think.is_none() {
            return self.begins(None);
        }
        let time = self.script.think.draw(&mut self.random);
        let late = until(Instant::now() + time).await;
        self.begins(Some(late))
    }

    /// Takes a ticket for a page that begins now. `late` is the lateness, if the page had an
    /// intended start. Returns `None` at the end of the run.
    fn begins(&self, late: Option<Duration>) -> Option<Instant> {
        if !self.context.goes_on() {
            return None;
        }
        self.context.tickets(1)?;
        if let Some(late) = late {
            self.context.ledger.here().late.record(late);
        }
        Some(Instant::now())
    }

    fn count(&self, page: usize, intended: Instant, result: Result<Visited, ExchangeFailure>) {
        let time = intended.elapsed();
        let mut tally = self.context.ledger.here();
        let several = (self.script.pages.len() > 1, self.context.sets.len() > 1);
        let set = self.browser.set();
        match result {
            Ok(visited) => {
                let within = match self.script.pages[page].judge {
                    Judge::Time => self.script.quality.of_time(time),
                    Judge::Rate => self.script.quality.of_rate(visited.content_bytes, visited.receiving),
                };
                let bytes = visited.content_bytes + visited.embedded_bytes;
                good(&mut tally, [(several.0, page), (several.1, set)], time, within, bytes);
            }
            Err(failure) => {
                tally.failure(&failure, 1, time);
                if several.0 {
                    part(&mut tally.pages, page).failed += 1;
                }
                if several.1 {
                    part(&mut tally.sets, set).failed += 1;
                }
            }
        }
    }
}

/// Counts a good page, in the total and in the parts.
fn good(
    tally: &mut Tally,
    [(has_pages, page), (has_sets, set)]: [(bool, usize); 2],
    time: Duration,
    within: [bool; 2],
    bytes: u64,
) {
    tally.good += 1;
    tally.response.record(time);
    let within = within.map(u64::from);
    tally.within = [tally.within[0] + within[0], tally.within[1] + within[1]];
    for (has, index, parts) in [(has_pages, page, &mut tally.pages), (has_sets, set, &mut tally.sets)] {
        if has {
            let part = part(parts, index);
            part.good += 1;
            part.bytes += bytes;
            part.response.record(time);
            part.within = [part.within[0] + within[0], part.within[1] + within[1]];
        }
    }
}
