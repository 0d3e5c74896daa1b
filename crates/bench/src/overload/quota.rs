//! A cpu quota for a server: a private control group with a bound of its time and priority over
//! other groups.
//!
//! Supports both versions of the kernel's control groups (Documentation/admin-guide/cgroup-v1,
//! cgroup-v2.rst). The bound counts the work of the server's threads, but not the packets that
//! arrive for the server. Groups have this process's id in their names; `Drop` always removes these
//! groups and no others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::{BenchError, BenchResult};

/// Time of one cpu in each period, in microseconds: a twentieth, because the load's requests cost
/// as much as the server's, and the load must be able to offer four times as much on its cpu with
/// room to spare. The period is not a multiple of the timer's tick (1, 4 or 10 ms), at which the
/// kernel notices the end of the time, because in step with the tick a whole run would have either
/// short bursts or long bursts, and long bursts have warmer caches.
const QUOTA_US: u32 = 1_065;
const PERIOD_US: u32 = 21_300;

/// The smallest quota that the kernel accepts.
const QUOTA_US_MIN: u32 = 1_000;

/// The number of tries and the pause between tries until a group must be empty after its processes
/// have ended.
const EMPTY_TRIES: u32 = 200;
const EMPTY_PAUSE: Duration = Duration::from_millis(10);

/// Adds the shell to the group of `$0` and executes the remaining arguments.
const ENTER: &str = "echo $$ > \"$0\" && exec \"$@\"";

/// A control group.
#[derive(Debug)]
pub struct Quota {
    folder: PathBuf,
    /// The file that processes are added by.
    entrance: PathBuf,
}

impl Quota {
    /// Makes a group with the quota of a server in the bench of overload.
    ///
    /// # Errors
    /// As for [`of`](Self::of).
    pub fn of_a_part() -> BenchResult<Self> {
        Self::of("server", QUOTA_US * 1000 / PERIOD_US)
    }

    /// Makes a group with a quota of `thousandths` of a cpu.
    ///
    /// # Errors
    /// The right is missing, or the kernel has no such groups.
    pub fn of(name: &str, thousandths: u32) -> BenchResult<Self> {
        // Longer periods for smaller parts.
        let period_us = PERIOD_US.max((QUOTA_US_MIN * 1000).div_ceil(thousandths.max(1)));
        let (quota, quota_us) = (Self::weighty(name)?, thousandths * period_us / 1000);
        if quota.folder.join("cpu.cfs_quota_us").exists() {
            quota.set("cpu.cfs_period_us", period_us)?;
            quota.set("cpu.cfs_quota_us", quota_us)?;
        } else {
            quota.set("cpu.max", format!("{quota_us} {period_us}"))?;
        }
        Ok(quota)
    }

    /// Makes a group with priority over others, so that other groups do not change the numbers.
    ///
    /// # Errors
    /// As above.
    pub fn weighty(name: &str) -> BenchResult<Self> {
        let name = format!("vermeil-bench-{}-{name}", std::process::id());
        let version_1 = Path::new("/sys/fs/cgroup/cpu");
        let (parent, entrance, weight) = match version_1.join("cpu.cfs_quota_us").exists() {
            true => (version_1, "tasks", ("cpu.shares", 200_000)),
            false => (Path::new("/sys/fs/cgroup"), "cgroup.procs", ("cpu.weight", 10_000)),
        };
        let folder = parent.join(name);
        fs::create_dir(&folder).map_err(BenchError::path("make the control group", &folder))?;
        let quota = Self { entrance: folder.join(entrance), folder };
        quota.set(weight.0, weight.1)?;
        Ok(quota)
    }

    fn set(&self, key: &str, value: impl ToString) -> BenchResult<()> {
        let path = self.folder.join(key);
        fs::write(&path, value.to_string()).map_err(BenchError::path("write", &path))
    }

    /// `command`, to be started in the group.
    pub fn within(&self, command: &Command) -> Command {
        let mut within = Command::new("sh");
        within.arg("-c").arg(ENTER).arg(&self.entrance).arg(command.get_program()).args(command.get_args());
        within
    }

    /// For people.
    pub fn describe() -> String {
        let [quota_ms, period_ms] = [QUOTA_US, PERIOD_US].map(|us| f64::from(us) / 1e3);
        format!("{quota_ms:.1} ms of one cpu in every {period_ms:.1} ms")
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        for _ in 0..EMPTY_TRIES {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(EMPTY_PAUSE);
        }
        eprintln!("warning: the control group {} is left behind", self.folder.display());
    }
}
