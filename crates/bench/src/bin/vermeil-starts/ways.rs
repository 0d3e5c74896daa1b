//! The ways to start a program: copy this process, borrow its memory, or ask another process.

#![allow(unsafe_code)]

use std::{
    collections::HashMap,
    ffi::{CStr, CString, OsString, c_char, c_int, c_void},
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::Path,
    ptr, thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, poll};
use vermeil_bench::rusage;
use vermeil_spawn::{
    Channel, Identity, Profile, ProfileId, Program, ProgramEnd, ProgramEvent, ProgramRequest,
    SpawnSupervisorHandle, Stdio,
};

use crate::{awake, bare::Bare, one_cpu::OneCpu, timed};

/// Bytes of the stack of a child that borrows our memory.
const STACK_BYTES: usize = 64 << 10;
/// The user without rights, by convention.
const NOBODY: u32 = 65_534;

/// The number of simultaneous starts where there are several: the number of connections in the
/// bench's second part.
const SEVERAL: usize = 4;

/// How long a start takes, roughly.
const A_START: Duration = Duration::from_micros(200);

/// A way to start a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum StartWay {
    /// No start: the stalls that the machine alone causes the other thread.
    None,
    /// `fork` and `execve`, as most servers do.
    Fork,
    /// `posix_spawn` of the C library, by a separate process that holds nothing.
    Bare,
    /// `posix_spawn` of the C library.
    PosixSpawn,
    /// The semantics of `vfork`: the child borrows the memory until the program is executed.
    Vfork,
    /// As `Bare`, four starts at once.
    BareSeveral,
    /// Vermeil's spawner with the same work as the other ways.
    Spawner,
    /// As `Spawner`, four starts at once.
    SpawnerSeveral,
    /// As `Spawner`, and the program runs as another user.
    Sandboxed,
    /// As `Bare`, with cpus that are never halted.
    BareAwake,
    /// As `Spawner`, with cpus that are never halted.
    SpawnerAwake,
    /// As `Sandboxed`, with cpus that are never halted.
    SandboxedAwake,
    /// As `Bare`, on one cpu.
    BareOneCpu,
    /// As `Spawner`, all on one cpu.
    SpawnerOneCpu,
    /// As `Sandboxed`, all on one cpu.
    SandboxedOneCpu,
}

impl StartWay {
    /// Returns whether the way is possible here.
    pub(crate) fn is_possible(self) -> bool {
        (self.cpus() != StartCpus::Awake || awake::hold().is_ok())
            && (self.plain() != Self::Sandboxed || rustix::process::geteuid().is_root())
    }

    fn cpus(self) -> StartCpus {
        match self {
            Self::BareAwake | Self::SpawnerAwake | Self::SandboxedAwake => StartCpus::Awake,
            Self::BareOneCpu | Self::SpawnerOneCpu | Self::SandboxedOneCpu => StartCpus::One,
            _ => StartCpus::AsTheyAre,
        }
    }

    /// The same way with the cpus unchanged.
    fn plain(self) -> Self {
        match self {
            Self::BareAwake | Self::BareOneCpu => Self::Bare,
            Self::SpawnerAwake | Self::SpawnerOneCpu => Self::Spawner,
            Self::SandboxedAwake | Self::SandboxedOneCpu => Self::Sandboxed,
            plain => plain,
        }
    }
}

/// The cpus that programs are started on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartCpus {
    AsTheyAre,
    /// Never halted.
    Awake,
    /// One cpu for all participants.
    One,
}

/// One start.
pub(crate) struct Start {
    pub(crate) blocked: Duration,
    pub(crate) ended: Duration,
}

/// Everything needed to start the program in each way.
pub(crate) struct Ways {
    path: CString,
    bare: Bare,
    /// Relative to its folder, which is the root of the spawner's profiles.
    name: OsString,
    stack: Box<[u128]>,
    null: File,
    _keeper: SpawnSupervisorHandle,
    spawner_pid: u32,
    channel: Channel,
    readiness: OwnedFd,
    plain: ProfileId,
    sandboxed: Option<ProfileId>,
    /// Of programs that the spawner started.
    programs_cpu: Duration,
}

impl Ways {
    /// Starts the spawner, which must be done while this process is small.
    pub(crate) fn prepare(program: &Path) -> io::Result<Self> {
        let program = program.canonicalize()?;
        let folder = program.parent().expect("a file is in a folder");
        let path = CString::new(program.as_os_str().as_bytes())?;
        let bare = Bare::fork(&path)?;
        let is_root = rustix::process::geteuid().is_root();
        let ourselves = Identity { uid: 0, gid: 0, groups: vec![0] };
        let nobody = Identity { uid: NOBODY, gid: NOBODY, groups: vec![NOBODY] };
        let profile = |identity: Option<Identity>| Profile {
            identity: identity.filter(|_| is_root),
            ..Profile::new(folder)
        };
        let mut preparation = vermeil_spawn::start().map_err(io::Error::other)?;
        let plain = preparation.define(&profile(Some(ourselves))).map_err(io::Error::other)?;
        let sandboxed = is_root.then(|| preparation.define(&profile(Some(nobody)))).transpose();
        let (keeper, mut channels) = preparation.serve(1).map_err(io::Error::other)?;
        let channel = channels.remove(0);
        Ok(Self {
            path,
            bare,
            name: program.file_name().expect("a file has a name").to_owned(),
            stack: vec![0; STACK_BYTES / size_of::<u128>()].into(),
            null: File::options().read(true).write(true).open("/dev/null")?,
            spawner_pid: spawner_of(keeper.pid())?,
            _keeper: keeper,
            readiness: channel.readiness()?,
            channel,
            plain,
            sandboxed: sandboxed.map_err(io::Error::other)?,
            programs_cpu: Duration::ZERO,
        })
    }

    /// Kilobytes of page tables of the process that starts the program.
    pub(crate) fn page_tables_kb(&self, way: StartWay) -> io::Result<u64> {
        let pid = match way.plain() {
            StartWay::Bare | StartWay::BareSeveral => self.bare.pid(),
            StartWay::Spawner | StartWay::SpawnerSeveral | StartWay::Sandboxed => self.spawner_pid,
            _ => std::process::id(),
        };
        let path = format!("/proc/{pid}/status");
        let status = fs::read_to_string(&path)?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmPTE:"));
        let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        kb.ok_or_else(|| io::Error::other(format!("{path} has no line `VmPTE: N kB`")))
    }

    /// Starts the program `count` times; returns the starts and their total processor time.
    pub(crate) fn starts(&mut self, way: StartWay, count: usize) -> io::Result<(Vec<Start>, Duration)> {
        match way.cpus() {
            StartCpus::AsTheyAre => {}
            StartCpus::Awake => {
                let _awake = awake::hold()?;
                return self.starts(way.plain(), count);
            }
            StartCpus::One => {
                let _one_cpu = OneCpu::hold([self.bare.pid(), self.spawner_pid])?;
                return self.starts(way.plain(), count);
            }
        }
        let (profile, at_once) = match way {
            StartWay::None => return Ok((pass_time(count), Duration::ZERO)),
            StartWay::Bare => return self.bare.start(count, 1),
            StartWay::BareSeveral => return self.bare.start(count, SEVERAL),
            StartWay::Spawner => (self.plain, 1),
            StartWay::SpawnerSeveral => (self.plain, SEVERAL),
            StartWay::Sandboxed => {
                (self.sandboxed.ok_or_else(|| io::Error::other("only root starts as another user"))?, 1)
            }
            own => {
                let cpu = self.cpu()?;
                let starts = (0..count).map(|_| self.start(own)).collect::<io::Result<_>>()?;
                return Ok((starts, self.cpu()? - cpu));
            }
        };
        // Made before the measurement, because a caller with a reason for a start already has the
        // descriptors.
        let stdio = (0..count).map(|_| self.stdio()).collect::<io::Result<Vec<_>>>()?;
        let cpu = self.cpu()?;
        let starts = self.ask(profile, stdio, at_once)?;
        Ok((starts, self.cpu()? - cpu))
    }

    /// Starts the program once from this process, and waits for its end.
    fn start(&mut self, way: StartWay) -> io::Result<Start> {
        let begin = Instant::now();
        let (pid, blocked) = timed(|| match way {
            StartWay::Fork => self.fork(),
            StartWay::PosixSpawn => posix_spawn(&self.path),
            _ => self.vfork(),
        });
        wait(pid?)?;
        Ok(Start { blocked, ended: begin.elapsed() })
    }

    fn stdio(&self) -> io::Result<Stdio> {
        let null = || self.null.try_clone().map(OwnedFd::from);
        Ok(Stdio { stdin: null()?, stdout: null()?, stderr: null()? })
    }

    /// Processor time of this thread, of its ended children, and of the spawner and its programs.
    fn cpu(&self) -> io::Result<Duration> {
        let schedstat = fs::read_to_string(format!("/proc/{}/schedstat", self.spawner_pid))?;
        let spawner = schedstat.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let own = rusage::thread() + rusage::children();
        Ok(own + Duration::from_nanos(spawner) + self.programs_cpu)
    }

    /// Asks the spawner for the program with each of `stdio`, `at_once` at a time, and waits for
    /// the ends.
    fn ask(&mut self, profile: ProfileId, stdio: Vec<Stdio>, at_once: usize) -> io::Result<Vec<Start>> {
        let (mut starts, mut running, mut stdio) = (Vec::new(), HashMap::new(), stdio.into_iter().peekable());
        while stdio.peek().is_some() || !running.is_empty() {
            while running.len() < at_once
                && let Some(stdio) = stdio.next()
            {
                let mut request = ProgramRequest::new(profile, Program::Below(Path::new(&self.name)));
                // As the server asks for CGI programs.
                request.untold();
                let begin = Instant::now();
                let (asked, blocked) = timed(|| self.channel.spawn(request, stdio));
                running.insert(asked.map_err(io::Error::other)?, (begin, blocked));
            }
            poll(&mut [PollFd::new(&self.readiness, PollFlags::IN)], None)?;
            match self.channel.receive()? {
                Some(ProgramEvent::Exited { job, exit }) => {
                    if exit.end != ProgramEnd::Code(0) {
                        return Err(io::Error::other(format!("the program ended with {:?}", exit.end)));
                    }
                    self.programs_cpu += exit.usage.user + exit.usage.system;
                    let (begin, blocked) = running.remove(&job).expect("asked for");
                    starts.push(Start { blocked, ended: begin.elapsed() });
                }
                Some(ProgramEvent::Failed { error, .. }) => return Err(io::Error::other(error)),
                Some(ProgramEvent::Started { .. }) | None => {}
            }
        }
        Ok(starts)
    }

    fn arguments(&self) -> [*mut c_char; 2] {
        [self.path.as_ptr().cast_mut(), ptr::null_mut()]
    }

    fn fork(&self) -> io::Result<c_int> {
        let arguments = self.arguments();
        // SAFETY: the child of this process does nothing but execute the program, or end.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: the lists end with null pointers.
            0 => unsafe {
                libc::execve(self.path.as_ptr(), arguments.as_ptr().cast(), [ptr::null()].as_ptr());
                libc::_exit(127)
            },
            pid => Ok(pid),
        }
    }

    fn vfork(&mut self) -> io::Result<c_int> {
        let arguments = self.arguments();
        let program = (self.path.as_ptr(), arguments.as_ptr());
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let argument = ptr::from_ref(&program).cast_mut().cast();
        // SAFETY: the child has a separate stack, and this thread waits until the child has
        // executed the program or ended.
        match unsafe { libc::clone(execute, self.stack.as_mut_ptr_range().end.cast(), flags, argument) } {
            -1 => Err(io::Error::last_os_error()),
            pid => Ok(pid),
        }
    }
}

/// Sleeps `count` times for about as long as a start takes.
fn pass_time(count: usize) -> Vec<Start> {
    let pass = |_| Start { blocked: Duration::ZERO, ended: timed(|| thread::sleep(A_START)).1 };
    (0..count).map(pass).collect()
}

/// Starts a program by `posix_spawn`, without arguments or environment.
pub(crate) fn posix_spawn(path: &CStr) -> io::Result<c_int> {
    let (arguments, none) = ([path.as_ptr().cast_mut(), ptr::null_mut()], [ptr::null_mut()]);
    let mut pid = 0;
    // SAFETY: the lists end with null pointers, and nothing else is asked for.
    let error = unsafe {
        let (path, arguments) = (path.as_ptr(), arguments.as_ptr());
        libc::posix_spawn(&raw mut pid, path, ptr::null(), ptr::null(), arguments, none.as_ptr())
    };
    if error == 0 { Ok(pid) } else { Err(io::Error::from_raw_os_error(error)) }
}

extern "C" fn execute(program: *mut c_void) -> c_int {
    // SAFETY: `vfork` passes this, and waits; the lists end with null pointers.
    unsafe {
        let (path, arguments) = *program.cast::<(*const c_char, *const *mut c_char)>();
        libc::execve(path, arguments.cast(), [ptr::null()].as_ptr());
    }
    127
}

/// Waits for the end of a program; the exit status must be a success.
fn wait(pid: c_int) -> io::Result<()> {
    wait_for(pid).map(drop)
}

/// As [`wait`], for the first process that ends; returns its process id.
pub(crate) fn wait_for_any() -> io::Result<c_int> {
    wait_for(-1)
}

fn wait_for(pid: c_int) -> io::Result<c_int> {
    let mut status = 0;
    // SAFETY: the status is ours to be written to.
    match unsafe { libc::waitpid(pid, &raw mut status, 0) } {
        -1 => Err(io::Error::last_os_error()),
        ended if status == 0 => Ok(ended),
        _ => Err(io::Error::other(format!("the program ended with {status}"))),
    }
}

fn spawner_of(keeper: u32) -> io::Result<u32> {
    let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children"))?;
    let first = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
    first.ok_or_else(|| io::Error::other("the keeper has no spawner"))
}
