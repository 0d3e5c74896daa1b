//! The programs that run, by the process that they are, by who asked for them, and by the time they have.
//!
//! Leaves out starting them. Deadlines are compared with a time that is handed in. Tested below.

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process_group},
};
use slab::Slab;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    os::fd::OwnedFd,
    time::Instant,
};

/// Who asked for a program: the channel, and the number the server gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Asker {
    pub(crate) channel: usize,
    pub(crate) job: u64,
}

/// A program that runs, or has ended and not been waited for: until then its number is nobody else's.
pub(crate) struct Job {
    pub(crate) asker: Asker,
    pub(crate) pid: Pid,
    /// Readable when it has ended.
    pub(crate) descriptor: OwnedFd,
    /// Whether it was killed because its time was up.
    pub(crate) late: bool,
}

impl Job {
    /// Sends a signal to its process group.
    pub(crate) fn signal(&self, signal: Signal) {
        match kill_process_group(self.pid, signal) {
            // Nobody left, or only those who changed to a user beyond our reach.
            Ok(()) | Err(Errno::SRCH | Errno::PERM) => {}
            Err(errno) => debug_assert!(false, "kill of group {:?}: {errno}", self.pid),
        }
    }
}

#[derive(Default)]
pub(crate) struct Jobs {
    all: Slab<Job>,
    by_asker: HashMap<Asker, usize>,
    /// Deadlines, the next one first. Those of programs that have ended stay until their time.
    deadlines: BinaryHeap<Reverse<(Instant, Asker)>>,
}

impl Jobs {
    /// The place of the next job.
    pub(crate) fn next_key(&self) -> usize {
        self.all.vacant_key()
    }

    /// Notes a program that was started; gives its place.
    pub(crate) fn insert(&mut self, job: Job, deadline: Option<Instant>) -> usize {
        let asker = job.asker;
        let key = self.all.insert(job);
        self.by_asker.insert(asker, key);
        if let Some(deadline) = deadline {
            self.deadlines.push(Reverse((deadline, asker)));
        }
        key
    }

    /// Forgets the program at `key`.
    pub(crate) fn remove(&mut self, key: usize) -> Option<Job> {
        let job = self.all.try_remove(key)?;
        self.by_asker.remove(&job.asker);
        Some(job)
    }

    pub(crate) fn of(&self, asker: Asker) -> Option<&Job> {
        self.all.get(*self.by_asker.get(&asker)?)
    }

    /// Kills what one channel has asked for, or everything.
    pub(crate) fn kill_all(&self, of: impl Fn(usize) -> bool) {
        for (_, job) in self.all.iter().filter(|(_, job)| of(job.asker.channel)) {
            job.signal(Signal::KILL);
        }
    }

    /// Kills the programs whose time is up; gives when the next one's will be.
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

    /// Whether no program has a deadline, so that nobody need look at the clock.
    pub(crate) fn has_no_deadline(&self) -> bool {
        self.deadlines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{PidfdFlags, pidfd_open};
    use std::{
        os::unix::process::{CommandExt, ExitStatusExt},
        process::{Child, Command, Stdio},
        time::Duration,
    };

    /// A program that waits for its input's end, leader of its group.
    fn program() -> Child {
        Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().expect("cat")
    }

    fn job(child: &Child, job: u64) -> Job {
        let pid = Pid::from_raw(child.id().cast_signed()).expect("a number above zero");
        let descriptor = pidfd_open(pid, PidfdFlags::empty()).expect("a descriptor");
        Job { asker: Asker { channel: 0, job }, pid, descriptor, late: false }
    }

    #[test]
    fn deadlines_come_in_order_and_those_of_the_ended_are_passed_over() {
        let (mut jobs, start) = (Jobs::default(), Instant::now());
        let mut children = [program(), program(), program()];
        let after = |ms| start + Duration::from_millis(ms);
        let first = jobs.insert(job(&children[0], 1), Some(after(10)));
        jobs.insert(job(&children[1], 2), Some(after(30)));
        jobs.insert(job(&children[2], 3), Some(after(20)));

        assert_eq!(jobs.kill_late(start), Some(after(10)));
        let removed = jobs.remove(first).expect("it is there");
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
}
