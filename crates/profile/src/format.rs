//! The file of a recording: a header, then records, each with its length and a checksum.
//!
//! Whatever ends a recording early (a full disk, a kill, a cut copy), everything before the cut is
//! read. Only the header must be whole. Numbers are little-endian; a record's body is in postcard's
//! form. Ids of modules and stacks are their order in the file. Tested below by cutting and
//! damaging a file at each byte.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use vermeil_io::output::Output;

use crate::ProfileError;
use crate::event::Map;
use crate::perf::Trigger;

/// How each recording begins. The first byte is no text, so that tools take the file for binary.
pub(crate) const MAGIC: [u8; 8] = *b"\x89VMLPROF";
/// The form that this binary writes and reads.
const FORM: u32 = 3;
/// No record is longer, so a damaged length asks for no more memory than this.
const RECORD_BYTES_MAX: u32 = 64 << 20;

/// The machine and the command line of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The command line that was profiled, or the process's.
    pub command: Vec<String>,
    /// The first process, 0 if unknown.
    pub pid: i32,
    /// The event that triggered samples.
    pub trigger: Trigger,
    /// Samples per second and cpu.
    pub hz: u32,
    /// Whether samples hold the kernel's stacks.
    pub kernel: bool,
    /// Cpus of the machine that were on line.
    pub cpus: Vec<u32>,
    /// Kernel release.
    pub release: String,
    /// Processor model.
    pub processor: String,
    /// Nanoseconds of the monotonic clock at the start.
    pub start_ns: u64,
    /// Seconds since 1970 at the start.
    pub started_s: u64,
    /// The boot that the kernel's addresses belong to.
    pub boot: String,
    /// The version of this program.
    pub version: String,
}

/// Code that stands somewhere: a file, the kernel, or memory without a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Module {
    /// The path of the file, or a name in brackets.
    pub(crate) path: String,
    /// The build-id, empty if there is none.
    pub(crate) build_id: Vec<u8>,
}

impl Module {
    /// The module of a map.
    pub(crate) fn of(map: &Map) -> Self {
        let path = match map.path.as_str() {
            "" | "//anon" => UNKNOWN.to_owned(),
            // The mark " (deleted)" stays, so that no newer file of the same path is asked for
            // names.
            path => path.to_owned(),
        };
        Self { path, build_id: map.build_id.clone().unwrap_or_default() }
    }
}

/// The kernel's name among modules.
pub(crate) const KERNEL: &str = "[kernel]";
/// Memory without a file, and addresses outside of all maps.
pub(crate) const UNKNOWN: &str = "[unknown]";

/// A place in a module: an offset in its file, or an address for modules without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Frame {
    /// The module, by its order in the file.
    pub(crate) module: u32,
    /// The offset in the file, or the address.
    pub(crate) offset: u64,
}

/// The name of a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Symbol {
    /// The place.
    pub(crate) frame: Frame,
    /// The function that the code belongs to; empty if unknown.
    pub(crate) function: String,
    /// The functions inlined there, outermost first.
    pub(crate) inlined: Vec<String>,
    /// Source file and line, empty and 0 if unknown.
    pub(crate) file: String,
    /// The line, 0 if unknown.
    pub(crate) line: u32,
}

/// A column of the counters: a counter of a cpu, or of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// The counter's name.
    pub name: String,
    /// The cpu; `None` for the machine or the process tree.
    pub cpu: Option<u32>,
    /// The memory node that the counter belongs to; `None` for the machine or the process tree.
    pub node: Option<u32>,
    /// The unit of the values, which only grow.
    pub unit: String,
}

impl Series {
    /// A counter of a cpu.
    pub(crate) fn of_cpu(name: &str, unit: &str, cpu: u32, node: u32) -> Self {
        Self { name: name.to_owned(), cpu: Some(cpu), node: Some(node), unit: unit.to_owned() }
    }
}

/// A counter that this machine or user cannot read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingCounter {
    /// The counter's name.
    pub name: String,
    /// Why.
    pub why: String,
}

/// The work that was done during a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// How much.
    pub units: f64,
    /// The unit.
    pub unit: String,
    /// Cpus of the configuration.
    pub cpus: u32,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum FileRecord {
    /// First record.
    Origin(Origin),
    /// The next module.
    Module(Module),
    /// The next stack: places, innermost first.
    Stack(Vec<Frame>),
    /// A thread's name, from now on.
    Thread {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// Name.
        name: String,
    },
    /// A sample.
    Sample {
        /// Nanoseconds of the monotonic clock.
        time: u64,
        /// Cpu.
        cpu: u32,
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// The stack, by its order in the file.
        stack: u32,
        /// Nanoseconds or cycles.
        weight: u64,
        /// The color whose event ran, 0 for none.
        color: u64,
    },
    /// Samples that the kernel could not keep.
    Lost {
        /// The time of the notice.
        time: u64,
        /// Cpu.
        cpu: u32,
        /// How many.
        count: u64,
    },
    /// The kernel has paused sampling.
    Throttled {
        /// When.
        time: u64,
        /// Cpu.
        cpu: u32,
    },
    /// The columns of the ticks that follow.
    Counters {
        /// Readable counters.
        series: Vec<Series>,
        /// The others.
        missing: Vec<MissingCounter>,
    },
    /// The counters at a moment, in the order of the columns.
    Tick {
        /// Nanoseconds of the monotonic clock.
        time: u64,
        /// The values.
        values: Vec<u64>,
    },
    /// Waits of a thread since the record before, by the cpu that the thread left.
    Waited {
        /// Up to this time.
        time: u64,
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// Cpu.
        cpu: u32,
        /// Nanoseconds until an event came.
        blocked_ns: u64,
        /// Waits for an event that ended.
        blocked: u64,
        /// Nanoseconds in which another thread had the cpu.
        ready_ns: u64,
        /// Waits for the cpu that ended.
        ready: u64,
    },
    /// A wait for an event whose stack was sampled.
    Wait {
        /// The end.
        time: u64,
        /// The cpu that the thread left.
        cpu: u32,
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// The stack, by its order in the file; `None` for a wait that began before the recording.
        stack: Option<u32>,
        /// The duration.
        ns: u64,
        /// Switches of the cpu that this wait stands for.
        switches: u64,
    },
    /// Behind the last wait.
    WaitsEnd {
        /// Switches that the kernel could not keep.
        lost: u64,
    },
    /// Names of places.
    Symbols(Vec<Symbol>),
    /// Behind the last record, when the work is known.
    Work(Work),
    /// Last record: the recording ended in order.
    End {
        /// Nanoseconds of the monotonic clock.
        time: u64,
        /// Samples of processes outside of the tree, which were left out.
        others: u64,
    },
}

/// Writes a recording.
pub(crate) struct Writer {
    file: BufWriter<File>,
    body: Vec<u8>,
    /// Bytes of whole records.
    whole: u64,
}

impl Writer {
    /// Begins a file.
    pub(crate) fn create(path: &Path, origin: &Origin) -> Result<Self, ProfileError> {
        let failure = |source| ProfileError::File { path: path.to_owned(), action: "create", source };
        if is_locked(path) {
            return Err(ProfileError::Locked(path.to_owned()));
        }
        let file = Output::replace().open(path).map_err(failure)?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(ProfileError::Locked(path.to_owned()));
        }
        let file = BufWriter::with_capacity(256 << 10, file);
        let mut writer = Self { file, body: Vec::new(), whole: 0 };
        writer.begin(origin).map_err(failure)?;
        Ok(writer)
    }

    fn begin(&mut self, origin: &Origin) -> io::Result<()> {
        self.file.write_all(&MAGIC)?;
        self.file.write_all(&FORM.to_le_bytes())?;
        self.whole = MAGIC.len() as u64 + 4;
        self.write(&FileRecord::Origin(origin.clone()))?;
        self.flush()
    }

    /// Adds a record. After an error the file holds the records before it.
    pub(crate) fn write(&mut self, record: &FileRecord) -> io::Result<()> {
        self.body.clear();
        self.body = postcard::to_extend(record, std::mem::take(&mut self.body)).map_err(io::Error::other)?;
        let length = u32::try_from(self.body.len()).map_err(io::Error::other)?;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(&crc32fast::hash(&self.body).to_le_bytes())?;
        self.file.write_all(&self.body)?;
        self.whole += 8 + u64::from(length);
        Ok(())
    }

    /// Gives everything to the kernel.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// Bytes of all records so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.whole
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A program that another thread starts has the file too until it begins, and so the lock.
        let _left = self.file.get_ref().unlock();
    }
}

/// Whether another recorder writes a file. Looks before the file is opened for writing, which
/// empties the file.
fn is_locked(path: &Path) -> bool {
    // An open of a pipe would block.
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    let locked = |file: File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    is_file && File::open(path).is_ok_and(locked)
}

/// Adds the work to a recording that has ended.
pub(crate) fn append_work(path: &Path, work: &Work) -> Result<(), ProfileError> {
    let failure = |source| ProfileError::File { path: path.to_owned(), action: "write", source };
    let file = Output::append().open(path).map_err(failure)?;
    let mut writer = Writer { file: BufWriter::new(file), body: Vec::new(), whole: 0 };
    writer.write(&FileRecord::Work(work.clone())).and_then(|()| writer.flush()).map_err(failure)
}

/// Reads a recording.
pub(crate) struct Reader {
    file: BufReader<File>,
    at: u64,
    cut: Option<String>,
}

impl Reader {
    /// Opens a file and reads its first record.
    pub(crate) fn open(path: &Path) -> Result<(Self, Origin), ProfileError> {
        let failure = |source| ProfileError::File { path: path.to_owned(), action: "read", source };
        let mut file = BufReader::with_capacity(256 << 10, File::open(path).map_err(failure)?);
        let mut first = [0; 12];
        let found = read_up_to(&mut file, &mut first).map_err(failure)?;
        let foreign = |hint| ProfileError::Foreign { path: path.to_owned(), hint };
        match &first[..found] {
            [] => return Err(foreign(": the file is empty")),
            [b'P', b'E', b'R', b'F', b'I', b'L', b'E', b'2', ..] => {
                return Err(foreign(", but of `perf record`; read it with `vermeil profile import`"));
            }
            begin if begin.len() >= 8 && begin[..8] == MAGIC => {}
            begin if MAGIC.starts_with(begin) => {
                return Err(foreign(": the file is cut off in its first bytes"));
            }
            _ => return Err(foreign("")),
        }
        if found < first.len() {
            return Err(foreign(": the file is cut off in its first bytes"));
        }
        let form = u32::from_le_bytes(first[8..].try_into().expect("four bytes"));
        if form != FORM {
            return Err(ProfileError::Version { path: path.to_owned(), found: form, known: FORM });
        }
        let mut reader = Self { file, at: 12, cut: None };
        match reader.next() {
            Some(FileRecord::Origin(origin)) => Ok((reader, origin)),
            _ => Err(ProfileError::Damaged {
                path: path.to_owned(),
                at: reader.at,
                what: reader.cut.unwrap_or_else(|| "the first record is missing".to_owned()),
            }),
        }
    }

    /// The next record; `None` at the end and at the first damage.
    pub(crate) fn next(&mut self) -> Option<FileRecord> {
        if self.cut.is_some() {
            return None;
        }
        match self.try_next() {
            Ok(record) => record,
            Err(why) => {
                self.cut = Some(why);
                None
            }
        }
    }

    fn try_next(&mut self) -> Result<Option<FileRecord>, String> {
        let mut head = [0; 8];
        match read_up_to(&mut self.file, &mut head).map_err(|error| error.to_string())? {
            0 => return Ok(None),
            8 => {}
            _ => return Err(format!("cut off at byte {}", self.at)),
        }
        let length = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
        let checksum = u32::from_le_bytes(head[4..].try_into().expect("four bytes"));
        if length > RECORD_BYTES_MAX {
            return Err(format!("damaged at byte {}: a record of {length} bytes", self.at));
        }
        let mut body = Vec::new();
        let read = (&mut self.file).take(u64::from(length)).read_to_end(&mut body);
        if read.map_err(|error| error.to_string())? < length as usize {
            return Err(format!("cut off at byte {}", self.at));
        }
        if crc32fast::hash(&body) != checksum {
            return Err(format!("damaged at byte {}: the checksum differs", self.at));
        }
        let record =
            postcard::from_bytes(&body).map_err(|error| format!("damaged at byte {}: {error}", self.at))?;
        self.at += 8 + u64::from(length);
        Ok(Some(record))
    }

    /// Why reading stopped before the end of the file.
    pub(crate) fn cut(&self) -> Option<&str> {
        self.cut.as_deref()
    }
}

fn read_up_to(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn origin() -> Origin {
        Origin {
            command: vec!["prog".to_owned(), "-x".to_owned()],
            pid: 7,
            trigger: Trigger::CpuClock,
            hz: 997,
            kernel: true,
            cpus: vec![0, 1],
            release: "6.18".to_owned(),
            processor: "any".to_owned(),
            start_ns: 1,
            started_s: 1,
            boot: "b".to_owned(),
            version: "0".to_owned(),
        }
    }

    fn records() -> Vec<FileRecord> {
        vec![
            FileRecord::Module(Module { path: "/bin/prog".to_owned(), build_id: vec![1, 2] }),
            FileRecord::Stack(vec![Frame { module: 0, offset: 77 }]),
            FileRecord::Sample { time: 5, cpu: 1, pid: 7, tid: 8, stack: 0, weight: 1_003_009, color: 4 },
            FileRecord::Lost { time: 6, cpu: 0, count: 3 },
            FileRecord::End { time: 9, others: 0 },
        ]
    }

    /// Regression: two recorders with the same file damaged each other's recording.
    #[test]
    fn file_has_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.prof");
        let writer = Writer::create(&path, &origin()).unwrap();
        let Err(error) = Writer::create(&path, &origin()) else { panic!("a second writer") };
        assert!(error.to_string().contains("another recorder writes this file now"), "{error}");
        assert!(Reader::open(&path).is_ok(), "the content of the first writer is there");
        // As in a program that another thread is about to start.
        let _shared = writer.file.get_ref().try_clone().unwrap();
        drop(writer);
        assert!(Writer::create(&path, &origin()).is_ok());
    }

    fn written(path: &Path) -> Vec<u8> {
        let mut writer = Writer::create(path, &origin()).unwrap();
        records().iter().for_each(|record| writer.write(record).unwrap());
        writer.flush().unwrap();
        let bytes = fs::read(path).unwrap();
        assert_eq!(bytes.len() as u64, writer.bytes());
        bytes
    }

    fn read(path: &Path) -> Result<(Vec<FileRecord>, bool), ProfileError> {
        let (mut reader, found) = Reader::open(path)?;
        assert_eq!(found, origin());
        let records = std::iter::from_fn(|| reader.next()).collect();
        Ok((records, reader.cut().is_some()))
    }

    #[test]
    fn recording_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        written(&path);
        assert_eq!(read(&path).unwrap(), (records(), false));
    }

    #[test]
    fn cut_recording_keeps_whole_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let bytes = written(&path);
        let mut longest = 0;
        for length in 0..bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            match read(&path) {
                Ok((found, _)) => {
                    assert!(records().starts_with(&found), "{length}: {found:?}");
                    assert!(found.len() >= longest, "{length}: fewer records from more bytes");
                    longest = found.len();
                }
                Err(error) => assert_eq!(longest, 0, "{length}: {error}"),
            }
        }
        assert_eq!(longest, records().len() - 1);
    }

    #[test]
    fn damaged_recording_yields_no_wrong_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let bytes = written(&path);
        for at in 12..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x5a;
            fs::write(&path, damaged).unwrap();
            if let Ok((mut reader, _)) = Reader::open(&path) {
                let found: Vec<_> = std::iter::from_fn(|| reader.next()).collect();
                assert!(records().starts_with(&found), "byte {at}: {found:?}");
                assert!(reader.cut().is_some(), "byte {at}: damage went unnoticed");
            }
        }
    }

    #[test]
    fn foreign_file_is_named_with_cure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        for (content, says) in [
            (&b"PERFILE2........"[..], "vermeil profile import"),
            (b"", "empty"),
            (b"\x89VML", "cut off"),
            (b"<html>a page</html>", "not a recording"),
            (b"\x89VMLPROF\x63\0\0\0", "form 99"),
        ] {
            fs::write(&path, content).unwrap();
            let message = Reader::open(&path).err().unwrap().to_string();
            assert!(message.contains(says), "{message}");
        }
    }
}
