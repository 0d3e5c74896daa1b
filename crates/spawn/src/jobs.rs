//! The running programs, indexed by process, by requester, and by deadline.
//!
//! Leaves out starting programs. Deadlines are compared with a time that the caller passes. Tested
//! below.

use crate::clone_stack::CloneStack;
use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process, kill_process_group},
};
use slab::Slab;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Instant,
};

/// Deadlines of ended programs that are kept, besides two for each program. Removing half of all
/// deadlines at once costs less than one step for each program.
const ENDED_DEADLINES_MAX: usize = 64;

/// The requester of a program: the channel, and the number that the server gave the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Asker {
    pub(crate) channel: usize,
    pub(crate) job: u64,
}

/// A program that runs, or has ended and was not waited for. Until the wait the kernel does not
/// reuse the process number.
pub(crate) struct SpawnedJob {
    pub(crate) asker: Asker,
    pub(crate) pid: Pid,
    /// The clone stack that the child may still use, unless the program is known to run.
    pub(crate) stack: Option<CloneStack>,
    /// Whether the spawner killed the program because its time was up.
    pub(crate) late: bool,
}

impl SpawnedJob {
    /// Sends a signal to the process group.
    pub(crate) fn signal(&self, signal: Signal) {
        let killed = match kill_process_group(self.pid, signal) {
            // The child was cloned a moment ago and does not lead its group yet. So far the child
            // is the whole group.
            Err(Errno::SRCH) => kill_process(self.pid, signal),
            killed => killed,
        };
        match killed {
            // Only processes remain that changed to a user beyond the reach of this process.
            Ok(()) | Err(Errno::PERM) => {}
            Err(errno) => debug_assert!(false, "kill of {:?}: {errno}", self.pid),
        }
    }
}

#[derive(Default)]
pub(crate) struct Jobs {
    all: Slab<SpawnedJob>,
    by_asker: HashMap<Asker, usize>,
    by_pid: HashMap<Pid, usize>,
    /// Deadlines, the earliest first. Deadlines of ended programs stay until their time, or until
    /// there are too many.
    deadlines: BinaryHeap<Reverse<(Instant, Asker)>>,
}

impl Jobs {
    /// Notes a program that was started.
    pub(crate) fn insert(&mut self, job: SpawnedJob, deadline: Option<Instant>) {
        let (asker, pid) = (job.asker, job.pid);
        let key = self.all.insert(job);
        self.by_asker.insert(asker, key);
        self.by_pid.insert(pid, key);
        if let Some(deadline) = deadline {
            if self.deadlines.len() > 2 * self.all.len() + ENDED_DEADLINES_MAX {
                let by_asker = &self.by_asker;
                self.deadlines.retain(|Reverse((_, asker))| by_asker.contains_key(asker));
            }
            self.deadlines.push(Reverse((deadline, asker)));
        }
    }

    /// Whether no program runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Removes the program with this process.
    pub(crate) fn remove(&mut self, pid: Pid) -> Option<SpawnedJob> {
        let job = self.all.remove(self.by_pid.remove(&pid)?);
        self.by_asker.remove(&job.asker);
        Some(job)
    }

    pub(crate) fn of(&self, asker: Asker) -> Option<&SpawnedJob> {
        self.all.get(*self.by_asker.get(&asker)?)
    }

    /// Kills the programs of the matching channels.
    pub(crate) fn kill_all(&self, of: impl Fn(usize) -> bool) {
        for (_, job) in self.all.iter().filter(|(_, job)| of(job.asker.channel)) {
            job.signal(Signal::KILL);
        }
    }

    /// Kills the programs whose time is up; returns the next deadline.
    pub(crate) fn kill_late(&mut self, now: Instant) -> Option<Instant> {
        while let Some(Reverse((deadline, asker))) = self.deadlines.peek().copied() {
            let Some(key) = self.by_asker.get(&asker) else {
                self.deadlines.pop();
                continue;
            };
            if deadline > now {
                return Some(deadline);
            }
            self.deadlines.pop();
            let job = &mut self.all[*key];
            job.late = true;
            job.signal(Signal::KILL);
        }
        None
    }

    /// Whether no program has a deadline, so that the caller need not read the clock.
    pub(crate) fn has_no_deadline(&self) -> bool {
        self.deadlines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::process::{CommandExt, ExitStatusExt},
        process::{Child, Command, Stdio},
        time::Duration,
    };

    /// A program that waits for the end of its input, leader of its process group.
    fn program() -> Child {
        Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().expect("cat")
    }

    fn pid(child: &Child) -> Pid {
        Pid::from_raw(child.id().cast_signed()).expect("a number above zero")
    }

    fn job(child: &Child, job: u64) -> SpawnedJob {
        SpawnedJob { asker: Asker { channel: 0, job }, pid: pid(child), stack: None, late: false }
    }

    #[test]
    fn deadlines_come_in_order_and_those_of_the_ended_are_passed_over() {
        let (mut jobs, start) = (Jobs::default(), Instant::now());
        let mut children = [program(), program(), program()];
        let after = |ms| start + Duration::from_millis(ms);
        jobs.insert(job(&children[0], 1), Some(after(10)));
        jobs.insert(job(&children[1], 2), Some(after(30)));
        jobs.insert(job(&children[2], 3), Some(after(20)));

        assert_eq!(jobs.kill_late(start), Some(after(10)));
        let removed = jobs.remove(pid(&children[0])).expect("it is there");
        assert!(!removed.late && jobs.of(removed.asker).is_none());
        assert_eq!(jobs.kill_late(after(1)), Some(after(20)));
        assert_eq!(jobs.kill_late(after(20)), Some(after(30)));
        assert!(jobs.of(Asker { channel: 0, job: 3 }).expect("not removed").late);
        assert_eq!(jobs.kill_late(after(31)), None);
        assert!(jobs.has_no_deadline());

        drop(children[0].stdin.take());
        let ends = children.map(|mut child| child.wait().expect("our own").signal());
        assert_eq!(ends, [None, Some(9), Some(9)]);
    }

    /// Regression: while the program with the earliest deadline ran, the deadlines of all later
    /// programs stayed.
    #[test]
    fn deadlines_of_ended_programs_do_not_pile_up() {
        let (mut jobs, start) = (Jobs::default(), Instant::now());
        let mut children = [program(), program()];
        let after = |ms| start + Duration::from_millis(ms);
        jobs.insert(job(&children[0], 0), Some(after(10)));
        for number in 1..1000 {
            jobs.insert(job(&children[1], number), Some(after(20 + number)));
            assert_eq!(jobs.kill_late(start), Some(after(10)));
            jobs.remove(pid(&children[1])).expect("it is there");
        }
        assert!(jobs.deadlines.len() <= ENDED_DEADLINES_MAX + 6, "{}", jobs.deadlines.len());
        for child in &mut children {
            drop(child.stdin.take());
            child.wait().expect("our own");
        }
    }
}
