//! A profile ready for use: the profile turns an order into a [`ChildPlan`], and the plan becomes a
//! process.
//!
//! The spawner looks up, opens and allocates everything possible before the child exists. Folders,
//! cgroup and confinement are opened for each program and not kept, because a server may have
//! thousands of profiles, most of which are idle.

use crate::{
    cgroup::Cgroups,
    child::{ChildGroup, ChildRules},
    clone_stack::{ChildPlan, CloneStack, Descriptor, Membership, StartWait},
    confine,
    error::StartStep,
    path_check::{self, Refused},
    profile::{NewPrivileges, Profile},
    reply::at,
    request::{Directory, Program, ReceivedRequest, RunNews},
    stall_watchdog::StallWatchdog,
};
use rustix::{
    io::Errno,
    process::{Pid, Signal, getegid, geteuid, getpid, getrlimit},
    thread::Gid,
};
use std::{
    ffi::CString,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::PathBuf,
    sync::Arc,
};

/// A profile with its precomputed parts.
pub(crate) struct PreparedProfile {
    profile: Profile,
    rules: Arc<ChildRules>,
    runs_as: u32,
    /// Whether programs run as another user than the spawner.
    whose: RulesOwner,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RulesOwner {
    Ours,
    Others,
}

/// A program that was started.
pub(crate) struct StartedProgram {
    pub(crate) pid: Pid,
    /// A descriptor of the process, if the request asked for a descriptor.
    pub(crate) descriptor: Option<OwnedFd>,
}

impl PreparedProfile {
    pub(crate) fn new(profile: Profile) -> Self {
        let (own_uid, own_gid) = (geteuid().as_raw(), getegid().as_raw());
        let identity = profile.identity.clone().filter(|identity| {
            // A spawner that runs as the user already, and may not change groups, need not try.
            own_uid == 0 || identity.uid != own_uid || identity.gid != own_gid
        });
        let groups = identity.iter().flat_map(|identity| &identity.groups);
        let limits = profile.limits.each().into_iter().filter_map(|(resource, limit)| {
            let highest = getrlimit(resource).maximum.unwrap_or(u64::MAX);
            Some((resource, limit?.min(highest)))
        });
        let whose = match &identity {
            Some(identity) if identity.uid != own_uid => RulesOwner::Others,
            _ => RulesOwner::Ours,
        };
        let rules = ChildRules {
            groups: groups.map(|gid| Gid::from_raw(*gid)).collect(),
            limits: limits.collect(),
            umask: profile.umask,
            input_at_3: profile.input_at_3,
            no_new_privileges: profile.new_privileges == NewPrivileges::Refused,
            parent: getpid(),
            at_parents_death: if profile.ends_children { Signal::TERM } else { Signal::KILL },
            apart: match whose {
                RulesOwner::Ours => ChildGroup::Group,
                RulesOwner::Others => ChildGroup::Session,
            },
            identity,
        };
        let runs_as = rules.identity.as_ref().map_or(own_uid, |identity| identity.uid);
        Self { rules: Arc::new(rules), runs_as, whose, profile }
    }

    /// Records the cgroup that must be known before any program is started.
    pub(crate) fn tell(&self, cgroups: &mut Cgroups) {
        if let Some(cgroup) = &self.profile.cgroup {
            cgroups.learn(cgroup);
        }
    }

    /// Starts the program of `order` in `stack`.
    pub(crate) fn start(
        &self,
        order: &ReceivedRequest<'_>,
        stdio: [BorrowedFd<'_>; 3],
        stack: &mut CloneStack,
        cgroups: &mut Cgroups,
        stall: &StallWatchdog,
    ) -> Result<StartedProgram, Refused> {
        let found = self.find(order.program)?;
        let folder = self.folder(order.directory)?;
        let failed = |step, errno| (found.path.clone(), at(step)(errno));
        let path = CString::new(found.path.as_os_str().as_bytes())
            .map_err(|_| failed(StartStep::Request, Errno::INVAL))?;
        let ruleset = self.profile.confinement.as_ref().map(confine::ruleset).transpose();
        let ruleset = ruleset.map_err(|(path, errno)| (path, at(StartStep::Confinement)(errno)))?;
        let cgroup = self.profile.cgroup.as_ref().map(|cgroup| cgroups.open(cgroup)).transpose()?;
        let plan = ChildPlan {
            path,
            strings: order.strings(),
            stdio,
            folder: folder.as_ref().unwrap_or(&found.folder).as_fd(),
            ruleset: ruleset.as_ref().map(AsFd::as_fd),
            cgroup: cgroup
                .as_ref()
                .map(|(folder, members)| Membership { folder: folder.as_fd(), members: members.as_fd() }),
            rules: self.rules.clone(),
        };
        let descriptor = match order.told {
            RunNews::StartWithDescriptor => Descriptor::Wanted,
            RunNews::Start | RunNews::Nothing => Descriptor::Unwanted,
        };
        let started = match (order.told, self.whose) {
            (RunNews::Nothing, _) => stack.start(plan, StartWait::No, descriptor),
            // A user that could stop the child could stop the spawner as well, so no timer is
            // needed.
            (_, RulesOwner::Ours) => stack.start(plan, StartWait::UntilItRuns, descriptor),
            (_, RulesOwner::Others) => stall.watch(|| stack.start(plan, StartWait::UntilItRuns, descriptor)),
        };
        let (pid, descriptor) = started.map_err(|(step, errno)| failed(step, errno))?;
        Ok(StartedProgram { pid, descriptor })
    }

    fn find(&self, program: Program<'_>) -> Result<path_check::AllowedProgram, Refused> {
        match program {
            Program::Below(name) => path_check::program(&self.profile.root, name, self.runs_as),
            Program::Listed(position) => match self.profile.listed.get(position as usize) {
                Some(path) => path_check::listed(path, self.runs_as),
                None => Err((PathBuf::from("a listed program"), at(StartStep::Profile)(Errno::NOENT))),
            },
        }
    }

    /// The folder to run in, unless it is the program's folder.
    fn folder(&self, directory: Directory<'_>) -> Result<Option<OwnedFd>, Refused> {
        let root = &self.profile.root;
        match directory {
            Directory::OfProgram => Ok(None),
            Directory::Root => path_check::open_folder(root)
                .map(Some)
                .map_err(|errno| (root.clone(), at(StartStep::Folder)(errno))),
            Directory::Below(name) => path_check::folder(root, name).map(Some),
        }
    }

    /// Judges the listed programs and the folder of the others, as for each program later.
    pub(crate) fn verify(&self) -> Result<(), Refused> {
        let root = &self.profile.root;
        path_check::open_folder(root).map_err(|errno| (root.clone(), at(StartStep::Root)(errno)))?;
        for path in &self.profile.listed {
            path_check::listed(path, self.runs_as)?;
        }
        Ok(())
    }
}
