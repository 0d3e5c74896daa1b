//! Reads a file of `perf record` and writes a recording, so that machines without this program can
//! be looked at.
//!
//! The first event of the file is taken; samples of further events are counted. Names of files are
//! looked up here, by build-id; names of the kernel come from this machine if the file was recorded
//! in its present boot, or from a copy of `/proc/kallsyms`. Tested in `tests/import.rs`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::mem;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use linux_perf_data::linux_perf_event_reader::{
    HardwareEventId, PerfEventType, SamplingPolicy, SoftwareCounterType,
};
use linux_perf_data::{Feature, PerfFile, PerfFileReader, PerfFileRecord};

use crate::event::{EventKind, KernelEvent, typed};
use crate::format::{FileRecord, MAGIC, MissingCounter, Origin, Writer};
use crate::module_files::ProcessesRun;
use crate::perf::Trigger;
use crate::processes::Processes;
use crate::session::{Counts, Session};
use crate::symbols::{self, KernelNames};
use crate::{ProfileError, machine};

/// Most cpus of a recorded machine: more than Linux can be built for (8,192).
const CPUS_MAX: u32 = 1 << 16;

/// Sums over an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Samples.
    pub samples: u64,
    /// Samples of events other than the first, and of the idle task.
    pub others: u64,
    /// Samples that were lost on the other machine.
    pub lost: u64,
    /// Records that could not be read.
    pub unread: u64,
}

/// Reads `from`, a file of `perf record`, and writes the recording `to`.
///
/// # Errors
/// One of the files cannot be opened, or `from` is of another kind.
pub fn import(from: &Path, to: &Path, kallsyms: Option<&Path>) -> Result<Imported, ProfileError> {
    let unreadable = |source| ProfileError::File { path: from.to_owned(), action: "read", source };
    let refused = |why| ProfileError::NotImportable { path: from.to_owned(), why };
    let mut file = BufReader::new(File::open(from).map_err(unreadable)?);
    kind(file.fill_buf().map_err(unreadable)?).map_err(refused)?;
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(file).map_err(|_| refused(CUT))?;
    if perf_file.features().has_feature(Feature::COMPRESSED) {
        return Err(refused("`perf record` wrote it with -z; record again without -z"));
    }
    if is_same_file(from, to) {
        return Err(ProfileError::SameFile(to.to_owned()));
    }
    let (origin, is_here) = origin(&perf_file, from);
    let period = fixed_period(&perf_file).unwrap_or(1);
    let build_ids: HashMap<String, Vec<u8>> = perf_file
        .build_ids()
        .unwrap_or_default()
        .into_values()
        .map(|dso| (String::from_utf8_lossy(&dso.path).into_owned(), dso.build_id))
        .collect();
    let processes = if is_here { ProcessesRun::Before } else { ProcessesRun::Elsewhere };
    let mut recording = ImportedRecording::new(origin, to, processes);
    let (mut others, mut unread) = (0, 0);
    loop {
        let record = match record_iter.next_record(&mut perf_file) {
            Ok(Some(record)) => record,
            Ok(None) => break,
            // Damage inside the file: the records before the damage are kept.
            Err(_) => {
                unread += 1;
                break;
            }
        };
        let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
        let Some(mut event) = typed(&record, period) else { continue };
        match &mut event.what {
            EventKind::Sample(sample) if attr_index != 0 || sample.pid == 0 => {
                others += 1;
                continue;
            }
            EventKind::Mapped { map, .. } if map.build_id.is_none() => {
                map.build_id = build_ids.get(&map.path).cloned();
            }
            _ => {}
        }
        recording.take(event)?;
    }
    if unread > 0 && recording.is_empty() {
        return Err(refused(CUT));
    }
    let kernel = match kallsyms {
        Some(path) => KernelNames::Copy(path.to_owned()),
        None if is_here => KernelNames::Here,
        None => KernelNames::None,
    };
    let counts = recording.end(&kernel, others)?;
    Ok(Imported { samples: counts.samples, others, lost: counts.lost, unread })
}

/// A file whose end is missing. perf writes the facts that an import needs to the end.
const CUT: &str =
    "a file of `perf record` that is cut off or damaged; record again, and let perf end before the copy";

/// Checks by the first bytes whether a file is one of `perf record`. The error is the reason, with
/// the cure.
fn kind(begin: &[u8]) -> Result<(), &'static str> {
    // The header of a file has 104 bytes or more, that of a pipe 16.
    const PIPE_HEADER: u64 = 16;
    let (magic, rest) = begin.split_at(begin.len().min(8));
    let length = rest.first_chunk::<8>();
    match (magic, length) {
        ([], _) => Err("the file is empty"),
        (b"PERFILE2", Some(length)) if u64::from_le_bytes(*length) == PIPE_HEADER => Err(PIPE),
        (b"2ELIFREP", Some(length)) if u64::from_be_bytes(*length) == PIPE_HEADER => Err(PIPE),
        (b"PERFILE2" | b"2ELIFREP", Some(_)) => Ok(()),
        (b"PERFILE2" | b"2ELIFREP", None) => Err(CUT),
        _ if magic == MAGIC => {
            Err("a recording of `vermeil profile record` already; read it with `vermeil profile report`")
        }
        _ => Err("not a file of `perf record`"),
    }
}

const PIPE: &str = "`perf record` wrote it for a pipe; record again into a file, with -o FILE";

/// Whether both paths name one file, which is there.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    identity(one).is_some_and(|found| identity(other) == Some(found))
}

/// A recording that is made from events of another file. A recording begins with the time of the
/// first event. perf first writes the processes that already run, without a time, so these events
/// wait for the first event with a time.
struct ImportedRecording<'p> {
    path: &'p Path,
    origin: Origin,
    /// Events without a time, until the recording begins.
    early: Vec<KernelEvent<'static>>,
    writer: Option<Writer>,
    session: Session,
    /// The latest time.
    last: u64,
}

impl<'p> ImportedRecording<'p> {
    fn new(origin: Origin, path: &'p Path, processes: ProcessesRun) -> Self {
        let session = Session::new(Processes::all(), processes);
        Self { path, origin, early: Vec::new(), writer: None, session, last: 0 }
    }

    /// Whether no sample has come.
    fn is_empty(&self) -> bool {
        self.session.counts().samples == 0
    }

    fn unwritable(&self, source: io::Error) -> ProfileError {
        ProfileError::File { path: self.path.to_owned(), action: "write", source }
    }

    fn take(&mut self, event: KernelEvent<'_>) -> Result<(), ProfileError> {
        if self.writer.is_none() {
            if event.time == 0 {
                self.early.push(event.into_owned());
                return Ok(());
            }
            self.begin(event.time)?;
        }
        self.write(event)
    }

    /// Begins the recording at `start_ns`, with the events that waited.
    fn begin(&mut self, start_ns: u64) -> Result<(), ProfileError> {
        self.origin.start_ns = start_ns;
        self.writer = Some(Writer::create(self.path, &self.origin)?);
        for event in mem::take(&mut self.early) {
            self.write(KernelEvent { time: start_ns, ..event })?;
        }
        Ok(())
    }

    fn write(&mut self, event: KernelEvent<'_>) -> Result<(), ProfileError> {
        self.last = self.last.max(event.time);
        let Self { writer: Some(writer), session, .. } = self else { return Ok(()) };
        let written = session.take(event, &mut |record| writer.write(record));
        written.map_err(|source| self.unwritable(source))
    }

    /// Writes the names of functions and the end of the recording.
    fn end(mut self, kernel: &KernelNames, others: u64) -> Result<Counts, ProfileError> {
        if self.writer.is_none() {
            self.begin(0)?;
        }
        let missing: Vec<MissingCounter> = symbols::missing_names(kernel).into_iter().collect();
        let symbols = symbols::resolve(self.session.readable_modules(), self.session.places(), kernel);
        let last = self.last;
        let writer = self.writer.as_mut().expect("the recording has begun");
        let mut end = || -> io::Result<()> {
            writer.write(&FileRecord::Counters { series: Vec::new(), missing: missing.clone() })?;
            for some in symbols.chunks(10_000) {
                writer.write(&FileRecord::Symbols(some.to_vec()))?;
            }
            writer.write(&FileRecord::End { time: last, others })?;
            writer.flush()
        };
        let ended = end();
        ended.map_err(|source| self.unwritable(source))?;
        Ok(self.session.counts())
    }
}

/// The period of the first event, if the period is fixed. The samples then need not tell the
/// period, and perf leaves the field out.
fn fixed_period(perf_file: &PerfFile) -> Option<u64> {
    match perf_file.event_attributes().first()?.attr.sampling_policy {
        SamplingPolicy::Period(period) => Some(period.get()),
        _ => None,
    }
}

/// Facts about the recording, and whether it was made in the present boot of this machine.
fn origin(perf_file: &PerfFile, from: &Path) -> (Origin, bool) {
    let attribute = perf_file.event_attributes().first();
    let trigger = match attribute.map(|description| description.attr.type_) {
        Some(PerfEventType::Hardware(HardwareEventId::CpuCycles, _)) => Trigger::Cycles,
        Some(PerfEventType::Software(SoftwareCounterType::CpuClock | SoftwareCounterType::TaskClock)) => {
            Trigger::CpuClock
        }
        _ => Trigger::Events,
    };
    let hz = match attribute.map(|description| description.attr.sampling_policy) {
        Some(SamplingPolicy::Frequency(hz)) => hz,
        Some(SamplingPolicy::Period(period)) if trigger == Trigger::CpuClock => 1_000_000_000 / period.get(),
        _ => 0,
    };
    let text = |found: Result<Option<&str>, _>| found.ok().flatten().unwrap_or_default().to_owned();
    let command = perf_file.cmdline().ok().flatten().unwrap_or_default();
    let release = text(perf_file.os_release());
    // Only a damaged file has more cpus than any machine.
    let cpus = perf_file.nr_cpus().ok().flatten().map_or(1, |cpus| cpus.nr_cpus_online.min(CPUS_MAX));
    let origin = Origin {
        command: command.into_iter().map(str::to_owned).collect(),
        pid: 0,
        trigger,
        hz: hz as u32,
        kernel: true,
        cpus: (0..cpus).collect(),
        release: release.clone(),
        processor: text(perf_file.cpu_desc()),
        start_ns: 0,
        started_s: 0,
        boot: String::new(),
        version: format!("perf {}", text(perf_file.perf_version())),
    };
    let is_here = release == machine::release()
        && perf_file.hostname().ok().flatten() == Some(machine::host().as_str())
        && written_since_boot(from);
    (origin, is_here)
}

fn written_since_boot(path: &Path) -> bool {
    let written = fs::metadata(path).and_then(|found| found.modified()).ok();
    let (Some(written), Some(up)) = (written, machine::uptime()) else { return false };
    written.elapsed().is_ok_and(|age| age < up)
}

/// The path of a recording that an import writes, unless told otherwise.
pub fn default_output(from: &Path) -> PathBuf {
    from.with_extension("prof")
}
