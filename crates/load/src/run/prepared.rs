//! A run that can begin at once: the addresses are known, the server is checked, and the users are
//! made.
//!
//! An agent prepares its run before the common start, so that neither a name lookup nor a handshake
//! delays its users. Tested through `tests/`.

use std::time::Instant;

use super::engine::{Engine, RunObserver, Supply};
use super::outcome::Outcome;
use crate::error::LoadError;
use crate::limits;
use crate::plan::CommonOptions;
use crate::preflight::try_server;
use crate::url::Url;

/// A run that can begin at once.
pub(crate) struct PreparedRun {
    /// With the sets of addresses.
    common: CommonOptions,
    supply: Box<dyn Supply>,
    /// Descriptors that the users leave free.
    spare_descriptors: u64,
}

impl PreparedRun {
    /// Prepares a run of the users of `supply` against `url`, and finds faults that would keep the
    /// run from beginning.
    pub(crate) fn new(common: &CommonOptions, url: &Url, supply: Box<dyn Supply>) -> Result<Self, LoadError> {
        let sets = common.sets_of(url)?;
        let spare_descriptors = limits::check(supply.sockets_max(), &sets)?;
        if let Some(set) = sets.first() {
            try_server(set.addrs[0], supply.dial().tls.as_ref(), supply.protocol(), common.timeout)?;
        }
        Ok(Self { common: CommonOptions { sets, ..common.clone() }, supply, spare_descriptors })
    }

    /// Sets the moment at which users begin.
    pub(crate) fn begin_at(&mut self, moment: Instant) {
        self.common.begins = Some(moment);
    }

    /// Runs to the end; `watch` may end the run early.
    pub(crate) fn run(&self, watch: &mut dyn RunObserver) -> Result<Outcome, LoadError> {
        Ok(Engine::start(&self.common, &*self.supply, self.spare_descriptors)?.finish(watch))
    }
}
