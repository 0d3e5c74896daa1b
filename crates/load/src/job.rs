//! The plan of a run of either kind, its parts, and its outcome in this process.
//!
//! Leaves out agents and the judgement (`injector.rs`).

use serde::{Deserialize, Serialize};

use crate::error::LoadError;
use crate::plan::{CommonOptions, LoadShare, SimplePlan};
use crate::run::{Outcome, PreparedRun, RunObserver};
use crate::session::{SessionPlan, prepare_sessions, run_sessions};
use crate::simple::{prepare_simple, run_simple};

/// The plan of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LoadJob {
    /// The same requests over and over.
    Simple(Box<SimplePlan>),
    /// Users with sessions.
    Sessions(Box<SessionPlan>),
}

impl LoadJob {
    /// The outcome, made by this process.
    pub(crate) fn outcome(&self, watch: &mut dyn RunObserver) -> Result<Outcome, LoadError> {
        match self {
            Self::Simple(plan) => run_simple(plan, watch),
            Self::Sessions(plan) => run_sessions(plan, watch),
        }
    }

    /// Prepares the job in this process, and checks whether the job can begin.
    pub(crate) fn prepare(&self) -> Result<PreparedRun, LoadError> {
        match self {
            Self::Simple(plan) => prepare_simple(plan),
            Self::Sessions(plan) => prepare_sessions(plan),
        }
    }

    pub(crate) fn common(&self) -> &CommonOptions {
        match self {
            Self::Simple(plan) => &plan.common,
            Self::Sessions(plan) => &plan.common,
        }
    }

    pub(crate) fn ground_mut(&mut self) -> &mut CommonOptions {
        match self {
            Self::Simple(plan) => &mut plan.common,
            Self::Sessions(plan) => &mut plan.common,
        }
    }

    /// Number of users or connections.
    pub(crate) fn users(&self) -> usize {
        match self {
            Self::Simple(plan) => plan.connections,
            Self::Sessions(plan) => plan.users,
        }
    }

    /// Part `index` of `of` parts of the job: a share of the users, of the arrivals, and of the
    /// maximum number of requests.
    pub(crate) fn part(&self, index: usize, of: usize) -> Self {
        let mut job = self.clone();
        let part = |whole: u64| LoadShare::part(whole, index, of);
        let first_user =
            (0..index).map(|before| LoadShare::part(self.users() as u64, before, of)).sum::<u64>();
        let (users, bound) = match &mut job {
            Self::Simple(plan) => (&mut plan.connections, &mut plan.requests_max),
            Self::Sessions(plan) => (&mut plan.users, &mut plan.pages_max),
        };
        *users = part(*users as u64) as usize;
        *bound = bound.map(part);
        job.ground_mut().share = LoadShare { index, of, first_user: first_user as usize };
        job
    }
}
