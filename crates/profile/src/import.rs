//! Reads a file of `perf record` and writes a recording, so that machines without this program can
//! be looked at.
//!
//! The first event of the file is taken; samples of further events are counted. Names of files are
//! looked up here, by build-id; names of the kernel come from this machine if the file was recorded
//! in its present boot, or from a copy of `/proc/kallsyms`. Tested below and in `tests/import.rs`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use linux_perf_data::linux_perf_event_reader::{
    HardwareEventId, PerfEventType, SamplingPolicy, SoftwareCounterType,
};
use linux_perf_data::{PerfFile, PerfFileReader, PerfFileRecord};

use crate::event::{EventKind, typed};
use crate::format::{FileRecord, MissingCounter, Origin, Writer};
use crate::perf::Trigger;
use crate::processes::Processes;
use crate::session::Session;
use crate::symbols::{self, KernelNames};
use crate::{ProfileError, machine};

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
    let file = BufReader::new(File::open(from).map_err(unreadable)?);
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(file).map_err(|_| ProfileError::Foreign {
            path: from.to_owned(),
            hint: "; import reads files that `perf record` wrote without -z",
        })?;
    let (mut origin, is_here) = origin(&perf_file, from);
    let build_ids: HashMap<String, Vec<u8>> = perf_file
        .build_ids()
        .unwrap_or_default()
        .into_values()
        .map(|dso| (String::from_utf8_lossy(&dso.path).into_owned(), dso.build_id))
        .collect();
    let unwritable = |source| ProfileError::File { path: to.to_owned(), action: "write", source };
    let mut writer: Option<Writer> = None;
    let mut session = Session::new(Processes::all());
    let (mut others, mut unread, mut last) = (0, 0, 0);
    loop {
        let record = match record_iter.next_record(&mut perf_file) {
            Ok(Some(record)) => record,
            Ok(None) => break,
            // A file that is cut off: the records before the cut are kept.
            Err(_) => {
                unread += 1;
                break;
            }
        };
        let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
        let Some(mut event) = typed(&record) else { continue };
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
        if event.time > 0 && origin.start_ns == 0 {
            origin.start_ns = event.time;
        }
        last = last.max(event.time);
        let writer = match &mut writer {
            Some(writer) => writer,
            None => writer.insert(Writer::create(to, &origin)?),
        };
        session.take(event, &mut |record| writer.write(record)).map_err(unwritable)?;
    }
    let mut writer = match writer {
        Some(writer) => writer,
        None => Writer::create(to, &origin)?,
    };
    let kernel = match kallsyms {
        Some(path) => KernelNames::Copy(path.to_owned()),
        None if is_here => KernelNames::Here,
        None => KernelNames::None,
    };
    let missing: Vec<MissingCounter> = symbols::missing_names(&kernel).into_iter().collect();
    let symbols = symbols::resolve(session.modules(), session.places(), &kernel);
    let mut end = || -> io::Result<()> {
        writer.write(&FileRecord::Counters { series: Vec::new(), missing: missing.clone() })?;
        for some in symbols.chunks(10_000) {
            writer.write(&FileRecord::Symbols(some.to_vec()))?;
        }
        writer.write(&FileRecord::End { time: last, others })?;
        writer.flush()
    };
    end().map_err(unwritable)?;
    let counts = session.counts();
    Ok(Imported { samples: counts.samples, others, lost: counts.lost, unread })
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
    let cpus = perf_file.nr_cpus().ok().flatten().map_or(1, |cpus| cpus.nr_cpus_online);
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
