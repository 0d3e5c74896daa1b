//! A program of `scale`: starts on chosen cpus, is read while it runs, ends with its descendants.
//!
//! Each program leads a process group of its own, so one signal reaches the descendants, too. A
//! signal of the terminal does not reach the group, so the caller passes it on. Leaves out the
//! recording. Tested below and in `tests/stopped.rs`.

use std::ffi::OsString;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::ProfileError;

/// How long a server may take until it accepts connections, and to end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two looks at a condition.
pub(crate) const LOOK: Duration = Duration::from_millis(10);
/// The bytes of output that are kept, from the end. The work stands in the last words.
const OUTPUT_MAX: usize = 16 << 20;

/// A program that ends with its run.
pub(crate) struct RunningProgram {
    child: Child,
    /// Reads piped output, because a program blocks at a full pipe.
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

impl RunningProgram {
    /// Starts a program, on these cpus if any are given.
    pub(crate) fn start(
        words: &[OsString],
        cpus: Option<&[u32]>,
        stdout: Stdio,
    ) -> Result<Self, ProfileError> {
        let failure = |source| ProfileError::Start { command: PathBuf::from(&words[0]), source };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(stdout).process_group(0);
        // The cpus of the thread that starts a program are the program's.
        let started = thread::scope(|scope| {
            let starting = scope.spawn(move || {
                if let Some(cpus) = cpus {
                    let mut set = CpuSet::new();
                    cpus.iter().for_each(|cpu| set.set(*cpu as usize));
                    sched_setaffinity(None, &set)?;
                }
                command.spawn()
            });
            starting.join().expect("starting a program does not panic")
        });
        let mut child = started.map_err(failure)?;
        let reading = child.stdout.take().map(|pipe| thread::spawn(move || read_last(pipe)));
        Ok(Self { child, reading })
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The end of the program, if it has ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the end of the program and returns its output. Once `is_stopped`, asks the program
    /// to end.
    pub(crate) fn output(mut self, is_stopped: &dyn Fn() -> bool) -> Result<Output, ProfileError> {
        let failure = |what| move |source| ProfileError::System { what, source };
        let is_read = |reading: &Option<JoinHandle<_>>| reading.as_ref().is_none_or(JoinHandle::is_finished);
        loop {
            if is_stopped() {
                self.end();
                return Err(ProfileError::Stopped);
            }
            // The output first: a waited-for program no longer keeps its group's number.
            if is_read(&self.reading) && !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            thread::sleep(LOOK);
        }
        let read = self.reading.take().map(|reading| reading.join().expect("reading does not panic"));
        let stdout =
            read.transpose().map_err(failure("cannot read the program's output"))?.unwrap_or_default();
        let status = self.child.wait().map_err(failure("cannot wait for a program"))?;
        Ok(Output { status, stdout, stderr: Vec::new() })
    }

    /// Waits until the program accepts connections at `address`. Once `stop` is set, asks the
    /// program to end.
    pub(crate) fn wait_until_ready(
        &mut self,
        address: SocketAddr,
        words: &[OsString],
        stop: &AtomicBool,
    ) -> Result<(), ProfileError> {
        let command = || Path::new(&words[0]).to_owned();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if stop.load(Ordering::Relaxed) {
                self.end();
                return Err(ProfileError::Stopped);
            }
            if let Some(status) = self.status() {
                return Err(ProfileError::EndedEarly { command: command(), address, status });
            }
            if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
                return Ok(());
            }
            thread::sleep(LOOK);
        }
        Err(ProfileError::NotReady { command: command(), address, seconds: PATIENCE.as_secs() })
    }

    /// Asks the program and its descendants to end, and waits for the program.
    pub(crate) fn end(&mut self) {
        self.signal(Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
    }

    /// Sends a signal to the group. The caller has not waited for the end of the program, because
    /// the number of the group may then belong to another group.
    fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _gone = kill_process_group(group, signal);
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // After an error, or when asking was in vain.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
        }
        let _waited = self.child.wait();
    }
}

/// Reads to the end, and keeps the last [`OUTPUT_MAX`] bytes.
fn read_last(mut pipe: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while pipe.by_ref().take(OUTPUT_MAX as u64).read_to_end(&mut bytes)? > 0 {
        // One byte more, which tells whether the cut divides a word.
        bytes.drain(..bytes.len().saturating_sub(OUTPUT_MAX + 1));
    }
    Ok(last_bytes(&bytes, OUTPUT_MAX).to_vec())
}

/// The last bytes, `most` at most, without a word that the cut divides.
fn last_bytes(bytes: &[u8], most: usize) -> &[u8] {
    let (cut, kept) = bytes.split_at(bytes.len().saturating_sub(most));
    if cut.last().is_none_or(u8::is_ascii_whitespace) {
        return kept;
    }
    let end = kept.iter().position(u8::is_ascii_whitespace).unwrap_or(kept.len());
    &kept[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(words: &[&str], stdout: Stdio) -> RunningProgram {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        RunningProgram::start(&words, None, stdout).expect("started")
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < deadline, "not so after {PATIENCE:?}: {what}");
            thread::yield_now();
        }
    }

    /// A free port of this machine.
    fn unused() -> SocketAddr {
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port")
    }

    fn not_ready(program: &str, is_stopped: bool) -> ProfileError {
        let mut running = started(&[program, "30"], Stdio::null());
        let stop = AtomicBool::new(is_stopped);
        let error = running.wait_until_ready(unused(), &[program.into()], &stop).unwrap_err();
        assert!(running.status().is_some(), "{program} still runs");
        error
    }

    #[test]
    fn program_that_ends_before_it_is_ready_is_reported_at_once() {
        let error = not_ready("false", false).to_string();
        assert!(error.contains("false: ended (exit status: 1) before it accepted a connection"), "{error}");
    }

    /// Regression: a signal was first seen when the server was ready.
    #[test]
    fn stop_ends_program_that_is_not_ready() {
        assert!(matches!(not_ready("sleep", true), ProfileError::Stopped));
    }

    /// Regression: a program with more output than the pipe holds blocked for ever.
    #[test]
    fn long_output_does_not_block_program() {
        let script = "head -c 300000 /dev/zero | tr '\\0' x; echo; echo work 7";
        let mut program = started(&["sh", "-c", script], Stdio::piped());
        let deadline = Instant::now() + PATIENCE;
        // The program ends before its output is asked for.
        while program.status().is_none() {
            assert!(Instant::now() < deadline, "the program is blocked");
            thread::yield_now();
        }
        let output = program.output(&|| false).expect("output").stdout;
        assert_eq!(output.len(), 300_008);
        assert!(output.ends_with(b"work 7\n"));
    }

    #[test]
    fn cut_output_has_no_divided_word() {
        let text = "aa network 5";
        for (most, kept) in [(6, " 5"), (9, "network 5"), (10, " network 5"), (11, " network 5"), (99, text)]
        {
            assert_eq!(last_bytes(text.as_bytes(), most), kept.as_bytes(), "{most}");
        }
        assert_eq!(last_bytes(b"word", 2), b"");
    }

    /// Regression: a signal reached the shell alone, and its descendants ran on.
    #[test]
    fn end_and_drop_reach_descendants() {
        for is_asked in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let mark = folder.path().join("mark");
            let script = "sleep 100000 & echo > \"$0\"; wait";
            let mut program = started(&["sh", "-c", script, mark.to_str().unwrap()], Stdio::piped());
            until("the descendant runs", || mark.exists());
            let reading = program.reading.take().expect("the output is piped");
            if is_asked {
                program.end();
            }
            drop(program);
            // The descendant holds the pipe while it runs.
            until("the descendant has ended", || reading.is_finished());
        }
    }
}
