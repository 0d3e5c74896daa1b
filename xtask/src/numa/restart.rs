//! Measures the absence of a killed instance, on this machine and not on the emulated machine.
//!
//! From the signal to the supervisor's line that the instance serves again. Prints the times
//! without a judgement, because times depend on the machine. Each instance is killed once, because
//! after a second kill within ten seconds the supervisor waits.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Instances, each killed once.
const INSTANCES: usize = 5;

/// Maximum wait for any event: far more than necessary on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval of the checks.
const LOOK: Duration = Duration::from_micros(500);

/// The times, in a single line.
pub(super) fn measure(binary: &Path, folder: &Path) -> Result<String> {
    let said = folder.join("restart");
    let file = File::create(&said).map_err(Error::path("create", &said))?;
    let (site, control) = (folder.join("site"), folder.join("control"));
    fs::create_dir_all(&site).map_err(Error::path("create", &site))?;
    let mut command = Command::new(binary);
    command
        .arg("serve")
        .arg(&site)
        .args(["--listen", "127.0.0.1:0", "--log", "off", "--control"])
        .arg(&control);
    command.args(["--instances", &INSTANCES.to_string()]).stdin(Stdio::null()).stderr(file);
    let server = RestartServer(command.spawn().map_err(Error::path("run", binary))?);
    wait_for(&said, &format!("in {INSTANCES} instances"))?;
    let mut times = Vec::new();
    for number in 0..INSTANCES {
        let pid = pid_of(&said, number)?;
        let begun = Instant::now();
        run_kill("-KILL", pid)?;
        wait_for(&said, &format!("instance {number} serves again"))?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    drop(server);
    times.sort_by(f64::total_cmp);
    let listed: Vec<String> = times.iter().map(|time| format!("{time:.0}")).collect();
    Ok(format!(
        "on this machine itself, {INSTANCES} instances that were killed served again after {} ms",
        listed.join(", ")
    ))
}

/// Ended when dropped.
struct RestartServer(Child);

impl Drop for RestartServer {
    fn drop(&mut self) {
        let stopped = run_kill("-TERM", self.0.id()).is_ok();
        if !stopped {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

fn run_kill(signal: &str, pid: u32) -> Result<()> {
    crate::steps::run_command(Command::new("kill").args([signal, &pid.to_string()]))
}

fn wait_for(said: &Path, words: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(said).map_err(Error::path("read", said))?;
        if text.contains(words) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::form("the server", format!("did not say {words:?}; it said:\n{text}")));
        }
        thread::sleep(LOOK);
    }
}

/// The process of an instance, from its start line: `vermeil[0]: pid 31067, …`.
fn pid_of(said: &Path, number: usize) -> Result<u32> {
    let text = fs::read_to_string(said).map_err(Error::path("read", said))?;
    let start = format!("vermeil[{number}]: pid ");
    let pid = text.lines().find_map(|line| line.strip_prefix(&start)?.split(',').next()?.parse().ok());
    pid.ok_or_else(|| Error::form(said.display(), format!("has no process of instance {number}")))
}
