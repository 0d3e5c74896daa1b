//! Why a recording, a report or a comparison fails: the thing, the place and the cure.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::window::Window;

/// The reason why the profiler cannot carry out a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The kernel does not let this user sample.
    #[error(
        "cannot sample: the kernel refuses (kernel.perf_event_paranoid is {paranoid}: {source}); run as root, \
         give the binary the right with `setcap cap_perfmon,cap_sys_ptrace=ep FILE`, or lower the limit with \
         `sysctl kernel.perf_event_paranoid=1`"
    )]
    NoRight {
        /// The setting, or "unknown".
        paranoid: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The process belongs to another user. No setting permits another user to sample it.
    #[error(
        "cannot sample process {pid}: it belongs to user {owner}, and this is user {user}: run as root or as user {owner}, or \
         give the binary the right with `setcap cap_perfmon,cap_sys_ptrace=ep FILE`"
    )]
    OtherUser {
        /// The process.
        pid: i32,
        /// The number of its user.
        owner: u32,
        /// The number of this process' user.
        user: u32,
    },
    /// The kernel has no perf events, or a filter of system calls hides them.
    #[error("cannot sample: this kernel has no perf events, or a sandbox hides perf_event_open(2): {0}")]
    NoEvents(io::Error),
    /// More threads than descriptors.
    #[error(
        "cannot sample {threads} threads on {cpus} cpus: that takes {} descriptors and the limit is {limit}; \
         run as root or with CAP_PERFMON, where one descriptor for each cpu is enough, or raise `ulimit -n`",
        threads * cpus
    )]
    ThreadsMax {
        /// Threads of the process tree.
        threads: usize,
        /// Cpus of the machine.
        cpus: usize,
        /// The soft limit of descriptors.
        limit: u64,
    },
    /// A process that is not there.
    #[error("process {0}: no such process; `pgrep -a NAME` finds its number")]
    NoProcess(i32),
    /// A command that does not start.
    #[error("cannot start {}: {source}", command.display())]
    Start {
        /// The program.
        command: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that cannot be read or written.
    #[error("{}: cannot {action} it: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// "read", "write" or "create".
        action: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A file of another kind.
    #[error("{}: not a recording of `vermeil profile record`{hint}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The kind of the file, and the cure; may be empty.
        hint: &'static str,
    },
    /// A file that cannot be imported.
    #[error("{}: {why}", path.display())]
    NotImportable {
        /// The file.
        path: PathBuf,
        /// The kind of the file, and the cure.
        why: &'static str,
    },
    /// An import that would write over the file that it reads.
    #[error("{}: the import would write over the file that it reads; name another file with -o", _0.display())]
    SameFile(PathBuf),
    /// A file that another recorder writes.
    #[error("{}: another recorder writes this file now; name another file with -o", _0.display())]
    Locked(PathBuf),
    /// A recording of another version.
    #[error("{}: a recording of form {found}; this binary reads form {known}: record again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The file's form.
        found: u32,
        /// The form that this binary reads and writes.
        known: u32,
    },
    /// A recording that is damaged before its first sample.
    #[error("{}: damaged at byte {at}: {what}; nothing before that can be reported", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        at: u64,
        /// The damage.
        what: String,
    },
    /// A recording without samples.
    #[error("{}: no samples; the process was idle, or ended before the first sample", .0.display())]
    Empty(PathBuf),
    /// A folder without recordings.
    #[error("{}: no recordings (*.prof) in this folder", .0.display())]
    NoRecordings(PathBuf),
    /// A window without samples, or behind the end of the recording.
    #[error(
        "{}: no samples in the window {window}, and the recording lasts {seconds:.1} s; choose another part with \
         --window, or leave --window out",
        path.display()
    )]
    EmptyWindow {
        /// The file.
        path: PathBuf,
        /// The window.
        window: Window,
        /// The length of the recording.
        seconds: f64,
    },
    /// A recording without waits.
    #[error("{}: holds no waits; record with --waits, as root or with kernel.perf_event_paranoid at 1", .0.display())]
    NoWaits(PathBuf),
    /// More cpus than there are.
    #[error("{wanted} cpus wanted and the machine has {found} on line")]
    Cpus {
        /// Wanted.
        wanted: u32,
        /// There.
        found: usize,
    },
    /// More memory nodes than there are.
    #[error(
        "{wanted} memory nodes wanted and the machine has {found} with cpus that are on line; `vermeil topo` draws \
         them, and --cores compares numbers of cpus"
    )]
    Nodes {
        /// Wanted.
        wanted: u32,
        /// There.
        found: usize,
    },
    /// The output of a run does not tell the work.
    #[error(
        "no work named {work:?} in the output, whose last line is {output:?}; name a key of its JSON, or a word \
         before a number, with --work"
    )]
    NoWork {
        /// The name.
        work: String,
        /// The last line.
        output: String,
    },
    /// A server that does not accept connections.
    #[error("{}: accepts no connection at {address} after {seconds} s", command.display())]
    NotReady {
        /// The program.
        command: PathBuf,
        /// Its address.
        address: SocketAddr,
        /// The time that the profiler waited.
        seconds: u64,
    },
    /// A server that ended instead of accepting connections.
    #[error("{}: ended ({status}) before it accepted a connection at {address}; its messages are above", command.display())]
    EndedEarly {
        /// The program.
        command: PathBuf,
        /// The address at which it was expected.
        address: SocketAddr,
        /// The end of the program.
        status: std::process::ExitStatus,
    },
    /// A load that ended before there was a sample.
    #[error(
        "{}: the load ended ({status}) after {seconds} s, before the recording; let it run for the warm-up, \
         --settle-max and the recording together",
        command.display()
    )]
    LoadEnded {
        /// The load program.
        command: PathBuf,
        /// The end of the program.
        status: std::process::ExitStatus,
        /// Seconds from the start to the end of the program.
        seconds: u64,
    },
    /// Another program already accepts connections at the address of the server.
    #[error("{0}: another program already accepts connections here; stop it, or choose another address")]
    PortTaken(SocketAddr),
    /// A recording without its work, in a comparison.
    #[error("{}: does not say how much work was done; give --work BASE,NOW", .0.display())]
    WorkUnknown(PathBuf),
    /// Recordings whose samples stand for different units.
    #[error(
        "{}: a sample stands for {other_unit}, and for {unit} in {}; record both sides with the same event",
        other.display(),
        path.display()
    )]
    Units {
        /// The first recording.
        path: PathBuf,
        /// The unit of its samples.
        unit: String,
        /// The other recording.
        other: PathBuf,
        /// The unit of the other samples.
        other_unit: String,
    },
    /// A recording that has no partner in a comparison of folders.
    #[error(
        "{}: no recording in {} pairs with it; two folders are compared in pairs of equal names, so remove the file, \
         or name one recording of each side",
        path.display(),
        other.display()
    )]
    Unpaired {
        /// The recording.
        path: PathBuf,
        /// The other side.
        other: PathBuf,
    },
    /// A folder that has recordings of an earlier plan.
    #[error(
        "{}: holds recordings of an earlier run, and a comparison would mix old and new runs; remove the folder, or \
         name another with --folder",
        .0.display()
    )]
    OldRuns(PathBuf),
    /// A run that failed after complete blocks.
    #[error(
        "block {block}: {source}; the recordings of the blocks before are complete: compare the folders in {} with \
         `vermeil profile compare`",
        folder.display()
    )]
    BlockFailed {
        /// The block of the run, from 1.
        block: u32,
        /// The folder of the recordings.
        folder: PathBuf,
        /// The failure of the run.
        source: Box<ProfileError>,
    },
    /// Stopped by a signal.
    #[error("stopped by a signal before the first block was complete, so there is nothing to compare")]
    Stopped,
    /// The system does not answer.
    #[error("{what}: {source}")]
    System {
        /// The request.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}
