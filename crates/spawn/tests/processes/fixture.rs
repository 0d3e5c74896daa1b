//! A folder of programs, a spawner for the folder, and functions that wait for events.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::{PipeFlags, pipe_with},
    process::{Pid, geteuid, test_kill_process},
};
use std::{
    fs::{self, File, Permissions},
    io::Read as _,
    os::{fd::OwnedFd, unix::fs::PermissionsExt as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use vermeil_spawn::{
    Channel, Identity, JobId, Profile, ProfileId, Program, ProgramEvent, ProgramExit, ProgramRequest,
    SpawnError, SpawnSupervisorHandle, Stdio,
};

/// How long a test waits for an event. The limit is far above the usual time, because test machines
/// are busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The user `nobody`, the owner of no file.
pub(crate) const NOBODY: u32 = 65_534;

/// A folder of programs.
pub(crate) struct ProgramFolder(TempDir);

impl ProgramFolder {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("its mode");
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes an executable shell script, with its parent folders.
    pub(crate) fn script(&self, name: &str, lines: &str) {
        self.file(name, &format!("#!/bin/sh\n{lines}\n"), 0o755);
    }

    pub(crate) fn file(&self, name: &str, text: &str, mode: u32) {
        let path = self.path(name);
        let folder = path.parent().expect("a name below the folder");
        fs::create_dir_all(folder).expect("folders");
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("their mode");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("its mode");
    }

    /// A profile for the programs of the folder. The programs run as `nobody` if the test is root.
    pub(crate) fn profile(&self) -> Profile {
        let identity = is_root().then(|| Identity { uid: NOBODY, gid: NOBODY, groups: vec![NOBODY] });
        Profile { identity, ..Profile::new(self.0.path()) }
    }
}

pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// Reports that a case cannot run on this machine.
pub(crate) fn skip(why: &str) {
    println!("SKIPPED: {why}");
}

/// A spawner with one channel and one profile, and the keeper that restarts the spawner.
pub(crate) struct SpawnerFixture {
    pub(crate) keeper: SpawnSupervisorHandle,
    pub(crate) channel: Channel,
    pub(crate) profile: ProfileId,
}

/// A requested program, and the reading ends of its output.
pub(crate) struct FixtureProgram {
    pub(crate) job: JobId,
    pub(crate) stdout: File,
    pub(crate) stderr: File,
}

/// The output of a program, and its end.
#[derive(Debug)]
pub(crate) struct FixtureOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: ProgramExit,
}

impl SpawnerFixture {
    pub(crate) fn start(profile: &Profile) -> Self {
        Self::start_with_channels(profile, 1).0
    }

    /// As [`start`](Self::start), with a second channel.
    pub(crate) fn start_with_second_channel(profile: &Profile) -> (Self, Channel) {
        let (fixture, mut others) = Self::start_with_channels(profile, 2);
        (fixture, others.remove(0))
    }

    /// Returns the channels after the first channel, too.
    fn start_with_channels(profile: &Profile, channels: usize) -> (Self, Vec<Channel>) {
        let mut preparation = vermeil_spawn::start().expect("a keeper");
        let profile = preparation.define(profile).expect("a sound profile");
        let (keeper, mut channels) = preparation.serve(channels).expect("a spawner");
        let channel = channels.remove(0);
        (Self { keeper, channel, profile }, channels)
    }

    pub(crate) fn request(&self, program: &str) -> ProgramRequest {
        ProgramRequest::new(self.profile, Program::Below(Path::new(program)))
    }

    /// Requests a program with an empty input.
    pub(crate) fn spawn(&mut self, request: ProgramRequest) -> Result<FixtureProgram, SpawnError> {
        self.spawn_with_stdin(File::open("/dev/null").expect("every system has it").into(), request)
    }

    pub(crate) fn spawn_with_stdin(
        &mut self,
        stdin: OwnedFd,
        request: ProgramRequest,
    ) -> Result<FixtureProgram, SpawnError> {
        let (stdout, stdout_end) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let (stderr, stderr_end) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let stdio = Stdio { stdin, stdout: stdout_end, stderr: stderr_end };
        let job = self.channel.spawn(request, stdio)?;
        Ok(FixtureProgram { job, stdout: stdout.into(), stderr: stderr.into() })
    }

    /// Waits for the next event.
    #[track_caller]
    pub(crate) fn event(&mut self) -> ProgramEvent {
        let deadline = Instant::now() + PATIENCE;
        let readiness = self.channel.readiness().expect("a descriptor");
        loop {
            if let Some(event) = self.channel.receive().expect("a sound socket") {
                return event;
            }
            assert!(Instant::now() < deadline, "no event: {:?}", self.channel);
            let mut polled = [PollFd::new(&readiness, PollFlags::IN)];
            let tick = Timespec { tv_sec: 1, tv_nsec: 0 };
            poll(&mut polled, Some(&tick)).expect("polled");
        }
    }

    /// Waits until the program runs, and returns its process id.
    #[track_caller]
    pub(crate) fn started(&mut self, program: &FixtureProgram) -> u32 {
        match self.event() {
            ProgramEvent::Started { job, pid, .. } if job == program.job => pid,
            other => panic!("not started: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn exited(&mut self, program: &FixtureProgram) -> ProgramExit {
        match self.event() {
            ProgramEvent::Exited { job, exit } if job == program.job => exit,
            other => panic!("not ended: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn failed(&mut self, program: &FixtureProgram) -> SpawnError {
        match self.event() {
            ProgramEvent::Failed { job, error } if job == program.job => error,
            other => panic!("not failed: {other:?}"),
        }
    }

    /// Runs a program to its end.
    #[track_caller]
    pub(crate) fn run(&mut self, request: ProgramRequest) -> FixtureOutput {
        let mut program = self.spawn(request).expect("a sent request");
        self.started(&program);
        let (stdout, stderr) = (read_all(&mut program.stdout), read_all(&mut program.stderr));
        FixtureOutput { stdout, stderr, exit: self.exited(&program) }
    }

    /// Requests a program that must not start, and returns the reason.
    #[track_caller]
    pub(crate) fn refused(&mut self, request: ProgramRequest) -> SpawnError {
        let program = self.spawn(request).expect("a sent request");
        self.failed(&program)
    }

    /// The process id of the spawner that serves now.
    #[track_caller]
    pub(crate) fn spawner_pid(&self) -> u32 {
        let keeper = self.keeper.pid();
        until("the keeper has a spawner", || {
            children(keeper).into_iter().find(|child| name_of(*child) == "vermeil-spawn")
        })
    }
}

fn read_all(file: &mut File) -> String {
    let mut text = String::new();
    file.read_to_string(&mut text).expect("text");
    text
}

/// Reads one line of a program's output, byte by byte, because a buffer would take more lines.
#[track_caller]
pub(crate) fn read_line(file: &mut File) -> String {
    let mut line = String::new();
    let mut byte = [0];
    while file.read(&mut byte).expect("readable") == 1 && byte[0] != b'\n' {
        line.push(byte[0].into());
    }
    line
}

/// Polls until `condition` returns a value.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

pub(crate) fn pid(number: u32) -> Pid {
    Pid::from_raw(number.cast_signed()).expect("a number above zero")
}

/// Whether a process runs: the process exists and is no zombie.
pub(crate) fn runs(number: u32) -> bool {
    test_kill_process(pid(number)).is_ok() && state_of(number).is_some_and(|state| state != 'Z')
}

/// The state of a process in `/proc/PID/stat`, for example `R`, `S` or `Z`.
fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

pub(crate) fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

pub(crate) fn children(pid: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_ascii_whitespace().map(|pid| pid.parse().expect("a number")).collect()
}

/// A field of `/proc/PID/status`.
#[track_caller]
pub(crate) fn status(pid: u32, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field}: {status}")).trim().to_owned()
}

/// The number of open descriptors of a process.
#[track_caller]
pub(crate) fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count()
}
