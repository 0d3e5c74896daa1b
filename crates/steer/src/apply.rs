//! Applies a plan wholly or not at all, and restores exactly the former state.
//!
//! The protocol. The former values are on the disk before the first change. Every change is read
//! back. The first change that fails or does not stick undoes all changes. Changing the number of a
//! card's queues makes the driver forget other settings and brings new queues. So that change comes
//! first, all settings of that card are saved, and the rest is planned again. A file that says
//! "applying" or "undoing" while no process holds the lock means that a process was killed.
//! [`Steering::recover`] finishes that process's work, and every command begins with a recovery.
//! Before a restore, each setting is located (`find.rs`). A guard (`vermeil steer guard`) undoes
//! unconfirmed changes or, if the guard was killed too, the next command does. Tested in
//! `apply/tests.rs`.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde::Serialize;

use crate::state::{CommandPhase, Saved, StateLock, StateStore, SteerState};
use crate::{CardNetwork, InterruptOwner, PlannedChange, Setting, Settings, SteerError, SteerPlan};

/// Reads the cards and plans for those with these names, or chooses cards if there are no names.
pub type Planner<'p> = dyn FnMut(&[String]) -> Result<(CardNetwork, SteerPlan), SteerError> + 'p;

#[cfg(test)]
mod tests;

/// Changes settings, and saves the former values.
pub struct Steering<'a> {
    /// The settings.
    pub settings: &'a dyn Settings,
    /// The store of the former values.
    pub store: &'a StateStore,
}

/// The changes of an applied plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The changes, in order.
    pub changes: Vec<PlannedChange>,
}

/// The result of a restore.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Settings that had another value and have their old value again.
    pub settings: Vec<Setting>,
    /// Settings that no longer exist, because their card is gone.
    pub gone: Vec<Setting>,
    /// Settings that another program had changed meanwhile; these also have their old value again.
    pub foreign: Vec<Setting>,
}

/// The work that a command found and finished at its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "found")]
pub enum Recovered {
    /// Nothing.
    Nothing,
    /// Another command was killed in the middle; the former state is restored.
    Interrupted(Restored),
    /// No confirmation came in time; the former state is restored.
    Unconfirmed(Restored),
}

impl Steering<'_> {
    /// Finishes the work of a killed command: rolls back changes that were interrupted or not
    /// confirmed in time.
    ///
    /// # Errors
    /// [`SteerError::State`], [`SteerError::Restore`].
    pub fn recover(&self, now: Duration) -> Result<Recovered, SteerError> {
        // Reading takes no lock and makes no folder, because a process that only reads may lack the
        // right to write.
        if self.store.load()?.is_none() {
            return Ok(Recovered::Nothing);
        }
        let lock = self.store.lock()?;
        self.recover_locked(now, &lock)
    }

    fn recover_locked(&self, now: Duration, lock: &StateLock) -> Result<Recovered, SteerError> {
        let Some(state) = self.store.load()? else { return Ok(Recovered::Nothing) };
        let late = state.confirm_by.is_some_and(|deadline| deadline <= now);
        match state.phase {
            CommandPhase::Applied if late => Ok(Recovered::Unconfirmed(self.restore(state, lock)?)),
            CommandPhase::Applied => Ok(Recovered::Nothing),
            CommandPhase::Applying | CommandPhase::Undoing => {
                Ok(Recovered::Interrupted(self.restore(state, lock)?))
            }
        }
    }

    /// Applies the plan that `plan` makes of the current network. The first call of `plan` names no
    /// cards, so `plan` chooses the cards. After a change of the number of queues, a second call
    /// names the cards of the first plan, because their links may still be down. With `confirm`,
    /// all changes are undone after that time unless confirmed. `guard` is called when the former
    /// state is on the disk and nothing has changed yet, to start the process that will undo
    /// unconfirmed changes.
    ///
    /// # Errors
    /// [`SteerError::Blocked`], [`SteerError::AlreadyApplied`], [`SteerError::Unreadable`],
    /// [`SteerError::State`] and errors of `guard`: nothing was changed.
    /// [`SteerError::RolledBack`]: the former state is restored. [`SteerError::Restore`]: the
    /// restore failed, and [`Steering::undo`] may be tried again.
    pub fn apply(
        &self,
        plan: &mut Planner<'_>,
        confirm: Option<Duration>,
        guard: &mut dyn FnMut() -> io::Result<()>,
    ) -> Result<Applied, SteerError> {
        let lock = self.store.lock()?;
        self.recover_locked(crate::state::now(), &lock)?;
        if self.store.load()?.is_some() {
            return Err(SteerError::AlreadyApplied);
        }
        let (network, first) = plan(&[])?;
        if !first.blockers.is_empty() {
            return Err(SteerError::Blocked(first.blockers));
        }
        if first.changes.is_empty() {
            return Ok(Applied::default());
        }
        let confirm_by = confirm.map(|confirm| crate::state::now() + confirm);
        let saved = self.saved(&network, &first.changes)?;
        let cards = self.cards_of(&saved);
        let mut state = self.store.begin(confirm_by, saved, cards);
        self.store.save(&state)?;
        if let Err(source) = guard() {
            self.store.remove()?;
            return Err(SteerError::Guard(source));
        }
        match self.carry_out(first, plan, &mut state) {
            Ok(applied) => {
                state.phase = CommandPhase::Applied;
                self.store.save(&state)?;
                Ok(applied)
            }
            Err(cause) => {
                let gone = self.restore(state, &lock)?.gone;
                Err(SteerError::RolledBack { cause: Box::new(cause), gone })
            }
        }
    }

    fn carry_out(
        &self,
        first: SteerPlan,
        plan: &mut Planner<'_>,
        state: &mut SteerState,
    ) -> Result<Applied, SteerError> {
        let mut applied = Applied::default();
        let mut rest = first;
        let channels: Vec<PlannedChange> =
            rest.changes.extract_if(.., |change| is_channels(&change.setting)).collect();
        if !channels.is_empty() {
            for change in channels {
                self.make(&change)?;
                applied.changes.push(change);
            }
            let cards: Vec<String> = rest.nics.iter().map(|card| card.nic.clone()).collect();
            let network;
            (network, rest) = plan(&cards)?;
            // New queues after a change of channels have interrupts that the first plan did not
            // know.
            if !rest.blockers.is_empty() {
                return Err(SteerError::BlockedLate(rest.blockers));
            }
            if let Some(again) = rest.changes.iter().find(|change| is_channels(&change.setting)) {
                return Err(SteerError::NotTaken {
                    setting: again.setting.clone(),
                    wanted: again.to.clone(),
                    found: again.from.clone(),
                });
            }
            let known = |setting: &Setting| state.saved.iter().any(|saved| saved.setting == *setting);
            let new: Vec<Saved> = rest
                .changes
                .iter()
                .filter(|change| !known(&change.setting))
                .map(|change| saved(change.setting.clone(), None, None, &network))
                .collect();
            state.saved.extend(new);
            for saved in &mut state.saved {
                let change = rest.changes.iter().find(|change| change.setting == saved.setting);
                // Without a change, the first plan's value counts only if the value is in force.
                // For example, a setting of a removed queue has no planned value any more.
                saved.planned = match change {
                    Some(change) => Some(change.to.clone()),
                    None => saved.planned.take().filter(|planned| self.is_in_force(&saved.setting, planned)),
                };
            }
            self.store.save(state)?;
        }
        for change in rest.changes {
            self.make(&change)?;
            applied.changes.push(change);
        }
        Ok(applied)
    }

    /// Whether a setting has this canonical value.
    fn is_in_force(&self, setting: &Setting, value: &str) -> bool {
        self.settings.get(setting).is_ok_and(|now| setting.canonical(&now) == value)
    }

    /// Makes a change, and checks that the change took effect.
    fn make(&self, change: &PlannedChange) -> Result<(), SteerError> {
        let PlannedChange { setting, to, .. } = change;
        let refused = |source| SteerError::Refused { setting: setting.clone(), source };
        self.settings.set(setting, &setting.raw(to)).map_err(refused)?;
        let found = setting.canonical(&self.settings.get(setting).map_err(refused)?);
        if found != *to {
            return Err(SteerError::NotTaken { setting: setting.clone(), wanted: to.clone(), found });
        }
        Ok(())
    }

    /// The current values of all settings in `changes`, and of all settings that a change of
    /// channels may affect.
    fn saved(&self, network: &CardNetwork, changes: &[PlannedChange]) -> Result<Vec<Saved>, SteerError> {
        let mut all: Vec<Saved> = Vec::new();
        for change in changes {
            let before = self.settings.get(&change.setting);
            let before = before
                .map_err(|source| SteerError::Unreadable { setting: change.setting.clone(), source })?;
            let planned = Some(change.to.clone());
            all.push(saved(change.setting.clone(), Some(before), planned, network));
        }
        for change in changes {
            let Setting::Channels { nic } = &change.setting else { continue };
            for setting in settings_of(network, nic) {
                let known = all.iter().any(|saved| saved.setting == setting);
                if !known && let Ok(before) = self.settings.get(&setting) {
                    all.push(saved(setting, Some(before), None, network));
                }
            }
        }
        Ok(all)
    }

    /// The numbers of the cards of these settings.
    fn cards_of(&self, saved: &[Saved]) -> BTreeMap<String, u32> {
        let names = saved.iter().filter_map(|saved| saved.setting.nic());
        names.filter_map(|nic| Some((nic.to_owned(), self.settings.number_of(nic)?))).collect()
    }

    /// Keeps the applied changes.
    ///
    /// # Errors
    /// [`SteerError::NothingApplied`], also if the time was up; [`SteerError::State`].
    pub fn confirm(&self, now: Duration) -> Result<(), SteerError> {
        let lock = self.store.lock()?;
        self.recover_locked(now, &lock)?;
        let mut state = self.store.load()?.ok_or(SteerError::NothingApplied)?;
        state.confirm_by = None;
        self.store.save(&state)
    }

    /// Restores the state before [`Steering::apply`].
    ///
    /// # Errors
    /// [`SteerError::NothingApplied`]; [`SteerError::Restore`] names the settings that failed, and
    /// the call may be repeated.
    pub fn undo(&self) -> Result<Restored, SteerError> {
        if self.store.load()?.is_none() {
            return Err(SteerError::NothingApplied);
        }
        let lock = self.store.lock()?;
        let state = self.store.load()?.ok_or(SteerError::NothingApplied)?;
        self.restore(state, &lock)
    }

    fn restore(&self, mut state: SteerState, _lock: &StateLock) -> Result<Restored, SteerError> {
        state.phase = CommandPhase::Undoing;
        self.store.save(&state)?;
        let mut order: Vec<&Saved> = state.saved.iter().rev().collect();
        order.sort_by_key(|saved| match saved.setting {
            Setting::Channels { .. } => 0,
            Setting::Rss { .. } => 1,
            _ => 2,
        });
        let mut restored = Restored::default();
        let mut failed = Vec::new();
        for saved in order {
            let Some(before) = &saved.before else { continue };
            // Located only now, because a change of channels renumbers interrupts, and so does
            // undoing the change.
            let Some(setting) = saved.setting_now(self.settings, &state.cards) else {
                restored.gone.push(saved.setting.clone());
                continue;
            };
            if let Err(why) = self.restore_one(&setting, before, saved.planned.as_ref(), &mut restored) {
                failed.push(format!("{setting}: {why}"));
            }
        }
        if !failed.is_empty() {
            return Err(SteerError::Restore(failed));
        }
        self.store.remove()?;
        Ok(restored)
    }

    fn restore_one(
        &self,
        setting: &Setting,
        before: &str,
        planned: Option<&String>,
        restored: &mut Restored,
    ) -> Result<(), String> {
        let now = match self.settings.get(setting) {
            Ok(now) => setting.canonical(&now),
            Err(error) if is_gone(&error) => {
                restored.gone.push(setting.clone());
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
        };
        let before_canonical = setting.canonical(before);
        if now == before_canonical {
            return Ok(());
        }
        if planned.is_some_and(|planned| *planned != now) {
            restored.foreign.push(setting.clone());
        }
        self.settings.set(setting, before).map_err(|error| error.to_string())?;
        let back = self.settings.get(setting).map_err(|error| error.to_string())?;
        if setting.canonical(&back) != before_canonical {
            return Err(format!("it was {before_canonical:?}, and the driver made {back:?} of it"));
        }
        restored.settings.push(setting.clone());
        Ok(())
    }
}

fn saved(setting: Setting, before: Option<String>, planned: Option<String>, network: &CardNetwork) -> Saved {
    let owner = InterruptOwner::of(&setting, network);
    Saved { setting, before, planned, owner }
}

fn is_channels(setting: &Setting) -> bool {
    matches!(setting, Setting::Channels { .. })
}

/// Whether a card, a queue or an interrupt no longer exists.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

/// All settings of a card that the driver may forget when the number of queues changes.
fn settings_of(network: &CardNetwork, name: &str) -> Vec<Setting> {
    let Some(nic) = network.nics.iter().find(|nic| nic.name == name) else { return Vec::new() };
    let named = || name.to_owned();
    let rx = nic.rx.iter().flat_map(|rx| {
        [Setting::Rps { nic: named(), queue: rx.queue }, Setting::RpsFlows { nic: named(), queue: rx.queue }]
    });
    let tx = nic.tx.iter().map(|tx| Setting::Xps { nic: named(), queue: tx.queue });
    let irqs = nic.rx.iter().map(|rx| &rx.irq).chain(nic.tx.iter().map(|tx| &tx.irq)).flatten();
    let irqs = irqs.map(|irq| Setting::Interrupt { irq: irq.number, name: irq.name.clone() });
    let adaptive = nic.adaptive.map(|_| Setting::Adaptive { nic: named() });
    std::iter::once(Setting::Rss { nic: named() }).chain(adaptive).chain(rx).chain(tx).chain(irqs).collect()
}
