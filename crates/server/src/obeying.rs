//! The server as one of several instances: the supervisor's [`InstanceServer`].

use crate::reload::{PreparedReload, RunningServer};
use std::path::PathBuf;
use vermeil_accept::listening::Listening;
use vermeil_config::ServeOptions;
use vermeil_instances::InstanceServer;
use vermeil_ops::reload::ReloadError;

impl InstanceServer for RunningServer {
    type Prepared = PreparedReload;

    fn file(&self) -> Option<PathBuf> {
        Self::file(self)
    }

    fn prepare_given(
        &self,
        options: ServeOptions,
        added: Vec<Listening>,
    ) -> Result<PreparedReload, ReloadError> {
        Self::prepare_given(self, options, added)
    }

    fn take_given(&self, prepared: PreparedReload) -> Vec<String> {
        Self::take_given(self, prepared)
    }

    fn note_handed_over(&self) {
        self.server().hand_over();
    }

    fn weight(&self) -> u32 {
        self.server().load().weight()
    }

    fn is_draining(&self) -> bool {
        self.server().is_draining()
    }
}
