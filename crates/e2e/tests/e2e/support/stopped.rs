//! A core that is really stuck, because a tracer stops its thread.

use super::TestServer;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Two cpus, if there are.
pub(crate) fn two_cpus() -> Option<[usize; 2]> {
    match vermeil_io::current_affinity()[..] {
        [first, second, ..] => Some([first, second]),
        _ => {
            eprintln!("SKIPPED: one cpu has no neighbour");
            None
        }
    }
}

/// Seizes a thread, stops the thread, reports so, and lets the thread continue at the end of the
/// input.
const STOPPER: &str = r"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
tid = int(sys.argv[1])
def ptrace(request):
    if libc.ptrace(request, tid, None, None) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
ptrace(0x4206)
ptrace(0x4207)
os.waitpid(tid, 0x40000000)
print('stopped', flush=True)
sys.stdin.read()
ptrace(17)
";

/// A stopped thread, which continues when this is dropped.
pub(crate) struct StoppedThread {
    stopper: Child,
    words: BufReader<ChildStdout>,
}

impl StoppedThread {
    /// Stops the thread of a core; `None` with a message where tracing is not allowed.
    pub(crate) fn core(server: &TestServer, core: usize) -> Option<Self> {
        let tid = thread_named(server, &format!("vermeil-{core}"));
        let mut command = Command::new("python3");
        command.args(["-c", STOPPER, &tid.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut stopper = command.spawn().ok()?;
        let words = BufReader::new(stopper.stdout.take()?);
        let mut stopped = Self { stopper, words };
        let mut word = String::new();
        stopped.words.read_line(&mut word).ok()?;
        if word != "stopped\n" {
            eprintln!("SKIPPED: a thread cannot be stopped here (python3, ptrace)");
            return None;
        }
        Some(stopped)
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        drop(self.stopper.stdin.take());
        let _ = self.stopper.wait();
    }
}

fn thread_named(server: &TestServer, name: &str) -> u32 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("a process that runs");
    let mut tasks = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_named = |tid: &u32| {
        let comm = format!("/proc/{}/task/{tid}/comm", server.pid());
        std::fs::read_to_string(comm).is_ok_and(|comm| comm.trim() == name)
    };
    tasks.find(is_named).expect("a core has a thread")
}
