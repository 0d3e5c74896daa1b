//! Records of the kernel as typed events, from a ring of this machine or from a file of `perf
//! record`.
//!
//! Leaves out the order of events (`recorder` sorts them by time) and their meaning for processes
//! (`processes`). Tested below with records in the kernel's form.

use std::borrow::Cow;
use std::io;

use linux_perf_data::Endianness;
use linux_perf_data::linux_perf_event_reader::{
    BranchSampleFormat, ContextSwitchRecord, CpuMode, EventRecord, Mmap2FileId, RawData, RawEventRecord,
    ReadFormat, RecordIdParseInfo, RecordParseInfo, RecordType, SampleFormat, SampleRecord, TaskWasPreempted,
};

use crate::perf::{REGISTERS, RawRecord, SoftwareCounts};

/// Addresses from here on are marks between the parts of a call chain, not addresses.
const CONTEXT_MIN: u64 = -4095_i64 as u64;
/// The frames that follow are of the kernel.
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
/// The frames that follow are of the process.
const CONTEXT_USER: u64 = -512_i64 as u64;

/// An event of the kernel, with its time in nanoseconds of the recording's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelEvent<'a> {
    pub(crate) time: u64,
    pub(crate) cpu: u32,
    pub(crate) what: EventKind<'a>,
}

impl KernelEvent<'_> {
    /// The event with a copy of everything that it borrows.
    pub(crate) fn into_owned(self) -> KernelEvent<'static> {
        KernelEvent { time: self.time, cpu: self.cpu, what: self.what.into_owned() }
    }
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventKind<'a> {
    Sample(Sample<'a>),
    /// A process or thread began.
    Fork {
        pid: i32,
        tid: i32,
        /// The parent process, and the thread that made the process or thread.
        parent: i32,
        parent_tid: i32,
    },
    /// A thread ended.
    Exit {
        pid: i32,
        tid: i32,
    },
    /// A thread has a new name; with `exec`, its process has a new program.
    Named {
        pid: i32,
        tid: i32,
        name: String,
        exec: bool,
    },
    /// A process has mapped code.
    Mapped {
        pid: i32,
        map: Map,
    },
    Lost(u64),
    Throttled,
    /// The stack of a thread that leaves its cpu; the weight is a number of switches.
    Leaves(Sample<'a>),
    /// A thread left its cpu or took one.
    Switched {
        pid: i32,
        tid: i32,
        to: SwitchTarget,
    },
    SwitchesLost(u64),
}

impl EventKind<'_> {
    fn into_owned(self) -> EventKind<'static> {
        match self {
            Self::Sample(sample) => EventKind::Sample(sample.into_owned()),
            Self::Leaves(sample) => EventKind::Leaves(sample.into_owned()),
            Self::Fork { pid, tid, parent, parent_tid } => EventKind::Fork { pid, tid, parent, parent_tid },
            Self::Exit { pid, tid } => EventKind::Exit { pid, tid },
            Self::Named { pid, tid, name, exec } => EventKind::Named { pid, tid, name, exec },
            Self::Mapped { pid, map } => EventKind::Mapped { pid, map },
            Self::Lost(count) => EventKind::Lost(count),
            Self::Throttled => EventKind::Throttled,
            Self::Switched { pid, tid, to } => EventKind::Switched { pid, tid, to },
            Self::SwitchesLost(count) => EventKind::SwitchesLost(count),
        }
    }
}

/// The state of a thread after a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwitchTarget {
    Runs,
    /// The thread could run, but another thread has the cpu.
    Ready,
    /// The thread waits for an event.
    Blocked,
}

/// A sample of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample<'a> {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    /// Nanoseconds or cycles since the sample before.
    pub(crate) weight: u64,
    /// Addresses in the kernel, innermost first.
    pub(crate) kernel: Vec<u64>,
    /// Addresses in the process, innermost first.
    pub(crate) user: Vec<u64>,
    /// Instead of `user`: the start of a walk of the process's stack.
    pub(crate) dump: Option<Dump<'a>>,
    /// The counters of the cpu.
    pub(crate) counts: Option<SoftwareCounts>,
}

impl Sample<'_> {
    fn into_owned(self) -> Sample<'static> {
        let dump = self.dump.map(Dump::into_owned);
        Sample { dump, ..self }
    }
}

/// Registers of a thread and the upper part of its stack, which may still lie in a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dump<'a> {
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    pub(crate) fp: u64,
    /// The link register, 0 where there is none.
    pub(crate) lr: u64,
    pub(crate) stack: Cow<'a, [u8]>,
}

impl Dump<'_> {
    fn into_owned(self) -> Dump<'static> {
        let Dump { ip, sp, fp, lr, stack } = self;
        Dump { ip, sp, fp, lr, stack: Cow::Owned(stack.into_owned()) }
    }
}

/// A file that stands in the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Map {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) offset: u64,
    pub(crate) path: String,
    pub(crate) build_id: Option<Vec<u8>>,
}

/// Reads the records of the recorder's own events.
#[derive(Clone, Copy)]
pub(crate) struct OwnRecords {
    /// Whether samples hold registers and a copy of the stack.
    pub(crate) dumps: bool,
    /// Whether samples hold the counts of [`SOFTWARE`](crate::perf::SOFTWARE).
    pub(crate) counts: bool,
}

/// Where the records of the recorder's events other than samples have the common fields.
const OTHER_RECORDS: RecordParseInfo = RecordParseInfo {
    endian: Endianness::NATIVE,
    sample_format: SampleFormat::TID.union(SampleFormat::TIME).union(SampleFormat::CPU),
    branch_sample_format: BranchSampleFormat::empty(),
    read_format: ReadFormat::empty(),
    // Behind a record stand thread (8 bytes), time (8) and cpu (8).
    common_data_offset_from_end: Some(24),
    nonsample_record_time_offset_from_end: Some(16),
    sample_record_time_offset_from_start: None,
    sample_regs_user: 0,
    user_regs_count: 0,
    sample_regs_intr: 0,
    intr_regs_count: 0,
    id_parse_info: RecordIdParseInfo {
        nonsample_record_id_offset_from_end: None,
        sample_record_id_offset_from_start: None,
    },
};

impl OwnRecords {
    /// The event of a record; `None` for kinds that mean nothing here.
    pub(crate) fn read<'a>(self, record: &RawRecord<'a>) -> Option<KernelEvent<'a>> {
        let kind = RecordType(record.kind);
        if kind == RecordType::SAMPLE {
            return self.sample(record.body).ok();
        }
        typed(&RawEventRecord::new(kind, record.misc, record.body, OTHER_RECORDS), 1)
    }

    /// A sample, whose fields stand in the order of `perf::SAMPLE_FIELDS`.
    fn sample(self, mut body: RawData<'_>) -> io::Result<KernelEvent<'_>> {
        let rest = &mut body;
        let _address = word(rest)?;
        let [pid, tid] = halves(rest)?;
        let time = word(rest)?;
        let [cpu, _] = halves(rest)?;
        let weight = word(rest)?;
        let counts = if self.counts { counts(rest)? } else { None };
        let length = word(rest)?.min(rest.len() as u64 / 8);
        let (kernel, user) = split((0..length).map_while(|_| word(rest).ok()));
        let dump = if self.dumps { own_dump(rest)? } else { None };
        let sample = Sample { pid: pid as i32, tid: tid as i32, weight, kernel, user, dump, counts };
        Ok(KernelEvent { time, cpu, what: EventKind::Sample(sample) })
    }
}

fn word(rest: &mut RawData<'_>) -> io::Result<u64> {
    if let RawData::Single(bytes) = *rest
        && let Some((word, after)) = bytes.split_first_chunk()
    {
        *rest = RawData::Single(after);
        return Ok(u64::from_ne_bytes(*word));
    }
    let mut bytes = [0; 8];
    rest.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Two numbers of four bytes.
fn halves(rest: &mut RawData<'_>) -> io::Result<[u32; 2]> {
    let [a, b, c, d, e, f, g, h] = word(rest)?.to_ne_bytes();
    Ok([[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes))
}

/// The counts of a sample: their number, the sampling event's own, then the others.
fn counts(rest: &mut RawData<'_>) -> io::Result<Option<SoftwareCounts>> {
    let length = word(rest)?;
    let mut counts = SoftwareCounts::default();
    for index in 0..length {
        let count = word(rest)?;
        let place = (index as usize).checked_sub(1).and_then(|place| counts.get_mut(place));
        place.into_iter().for_each(|place| *place = count);
    }
    Ok((length as usize > counts.len()).then_some(counts))
}

/// Registers and stack; `None` for threads of the kernel.
fn own_dump<'a>(rest: &mut RawData<'a>) -> io::Result<Option<Dump<'a>>> {
    let mut registers = [0; REGISTERS.len()];
    let has_registers = word(rest)? != 0;
    if has_registers {
        for number in registers_in_order() {
            registers[number] = word(rest)?;
        }
    }
    let length = word(rest)? as usize;
    if length == 0 {
        return Ok(None);
    }
    let copied = rest.split_off_prefix(length)?;
    let filled = word(rest)? as usize;
    let of = |index: usize| registers.get(index).copied().unwrap_or(0);
    let stack = first_bytes(copied, filled);
    Ok(has_registers.then(|| Dump { ip: of(0), sp: of(1), fp: of(2), lr: of(3), stack }))
}

/// The first bytes of a copy, without a copy unless the bytes go around the end of a ring.
fn first_bytes(bytes: RawData<'_>, length: usize) -> Cow<'_, [u8]> {
    match bytes.as_slice() {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..length.min(bytes.len())]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(length);
            Cow::Owned(bytes)
        }
    }
}

/// The places in `REGISTERS` in the kernel's order, by number.
fn registers_in_order() -> [usize; REGISTERS.len()] {
    let mut order = std::array::from_fn(|place| place);
    order.sort_unstable_by_key(|place: &usize| REGISTERS[*place]);
    order
}

/// The event of a record of any source; `None` for kinds that mean nothing here, and for records
/// that end too early. `period` is the weight of a sample that tells none itself.
pub(crate) fn typed<'a>(record: &RawEventRecord<'a>, period: u64) -> Option<KernelEvent<'a>> {
    let common = record.common_data().ok()?;
    let time = record.timestamp().unwrap_or(0);
    let what = match record.parse().ok()? {
        EventRecord::Sample(sample) => {
            let chain = sample.callchain.iter();
            let addresses = chain.flat_map(|chain| (0..chain.len()).filter_map(|index| chain.get(index)));
            let (mut kernel, mut user) = split(addresses);
            let dump = dump(&sample);
            if kernel.is_empty() && user.is_empty() && dump.is_none() {
                // Recorded without call chains: the address alone.
                let frames = if sample.cpu_mode == CpuMode::Kernel { &mut kernel } else { &mut user };
                frames.extend(sample.ip);
            }
            EventKind::Sample(Sample {
                pid: sample.pid?,
                tid: sample.tid?,
                weight: sample.period.unwrap_or(period),
                kernel,
                user,
                dump,
                counts: None,
            })
        }
        EventRecord::Fork(fork) => {
            EventKind::Fork { pid: fork.pid, tid: fork.tid, parent: fork.ppid, parent_tid: fork.ptid }
        }
        EventRecord::Exit(exit) => EventKind::Exit { pid: exit.pid, tid: exit.tid },
        EventRecord::Comm(comm) => {
            EventKind::Named { pid: comm.pid, tid: comm.tid, name: text(comm.name), exec: comm.is_execve }
        }
        EventRecord::Mmap2(map) if map.cpu_mode == CpuMode::User => {
            let build_id = match map.file_id {
                Mmap2FileId::BuildId(id) => Some(id),
                Mmap2FileId::InodeAndVersion(_) => None,
            };
            let (start, length, offset) = (map.address, map.length, map.page_offset);
            EventKind::Mapped {
                pid: map.pid,
                map: Map { start, length, offset, path: text(map.path), build_id },
            }
        }
        EventRecord::Mmap(map) if map.cpu_mode == CpuMode::User && map.is_executable => {
            let (start, length, offset) = (map.address, map.length, map.page_offset);
            let path = text(map.path);
            EventKind::Mapped { pid: map.pid, map: Map { start, length, offset, path, build_id: None } }
        }
        EventRecord::Lost(lost) => EventKind::Lost(lost.count),
        EventRecord::Throttle(_) => EventKind::Throttled,
        EventRecord::ContextSwitch(switch) => EventKind::Switched {
            pid: common.pid?,
            tid: common.tid?,
            to: match switch {
                ContextSwitchRecord::In { .. } => SwitchTarget::Runs,
                ContextSwitchRecord::Out { preempted: TaskWasPreempted::Yes, .. } => SwitchTarget::Ready,
                ContextSwitchRecord::Out { preempted: TaskWasPreempted::No, .. } => SwitchTarget::Blocked,
            },
        },
        _ => return None,
    };
    Some(KernelEvent { time, cpu: common.cpu.unwrap_or(0), what })
}

/// Registers and stack of a sample; `None` for threads of the kernel and samples without them.
fn dump<'a>(sample: &SampleRecord<'a>) -> Option<Dump<'a>> {
    let registers = sample.user_regs.as_ref()?;
    let of = |index: usize| REGISTERS.get(index).map(|number| registers.get(u64::from(*number)));
    let (stack, filled) = sample.user_stack.as_ref()?;
    let stack = first_bytes(*stack, *filled as usize);
    Some(Dump { ip: of(0)??, sp: of(1)??, fp: of(2)??, lr: of(3).flatten().unwrap_or(0), stack })
}

fn text(bytes: RawData<'_>) -> String {
    String::from_utf8_lossy(&bytes.as_slice()).into_owned()
}

/// Splits a call chain at its marks into the kernel's addresses and those of the process.
fn split(chain: impl Iterator<Item = u64>) -> (Vec<u64>, Vec<u64>) {
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    let mut of_kernel = false;
    for address in chain {
        match address {
            CONTEXT_KERNEL => of_kernel = true,
            CONTEXT_USER => of_kernel = false,
            // A guest or a hypervisor: nothing here names their addresses.
            CONTEXT_MIN.. => {}
            // A frame pointer that leads nowhere.
            0 => {}
            address if of_kernel => kernel.push(address),
            address => user.push(address),
        }
    }
    (kernel, user)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn pair(low: u32, high: u32) -> u64 {
        u64::from_ne_bytes([low.to_ne_bytes(), high.to_ne_bytes()].concat().try_into().unwrap())
    }

    #[test]
    fn sample_splits_kernel_from_process() {
        let chain = [CONTEXT_KERNEL, 0xffff_8000_0000_1000, CONTEXT_USER, 0x40_1000, 0x40_2000];
        let mut words = vec![0xffff_8000_0000_1000, pair(7, 8), 5_000, pair(1, 0), 1_003_009, 5];
        words.extend(chain);
        let body = bytes(&words);
        let event = OwnRecords { dumps: false, counts: false }
            .read(&RawRecord { kind: 9, misc: 1, body: body[..].into() })
            .unwrap();
        let what = EventKind::Sample(Sample {
            pid: 7,
            tid: 8,
            weight: 1_003_009,
            kernel: vec![0xffff_8000_0000_1000],
            user: vec![0x40_1000, 0x40_2000],
            dump: None,
            counts: None,
        });
        assert_eq!(event, KernelEvent { time: 5_000, cpu: 1, what });
    }

    #[test]
    fn sample_has_counts_registers_and_stack() {
        let mut words = vec![0x40_1000, pair(7, 8), 5_000, pair(1, 0), 1_003_009];
        words.extend([4, 99, 10, 20, 30]);
        words.extend([2, CONTEXT_KERNEL, 0xffff_8000_0000_1000]);
        // The kernel writes registers by number: frame, stack and instruction pointer.
        let numbers: Vec<u64> = (0..REGISTERS.len() as u64).map(|order| 0x100 + order).collect();
        words.push(2);
        words.extend(&numbers);
        words.extend([16, 0x77, 0x88, 8]);
        let body = bytes(&words);
        let own = OwnRecords { dumps: true, counts: true };
        for split in [0, 60, 150, body.len() - 20] {
            let parts = RawData::Split(&body[..split], &body[split..]);
            let event = own.read(&RawRecord { kind: 9, misc: 1, body: parts }).unwrap();
            let EventKind::Sample(sample) = event.what else { panic!("{event:?}") };
            assert_eq!(sample.counts, Some([10, 20, 30]));
            let dump = sample.dump.unwrap();
            assert_eq!(*dump.stack, 0x77_u64.to_ne_bytes(), "the part of the copy that is filled");
            let order = registers_in_order();
            let found = [dump.ip, dump.sp, dump.fp];
            let expected = [0, 1, 2].map(|place| numbers[order.iter().position(|at| *at == place).unwrap()]);
            assert_eq!(found, expected);
        }
        for length in 0..body.len() {
            let cut = RawRecord { kind: 9, misc: 1, body: body[..length].into() };
            assert_eq!(own.read(&cut), None, "{length} bytes");
        }
    }

    #[test]
    fn lost_record_has_time_and_cpu() {
        let body = bytes(&[3, 12, pair(7, 7), 9_000, pair(2, 0)]);
        let event = OwnRecords { dumps: false, counts: false }
            .read(&RawRecord { kind: 2, misc: 0, body: body[..].into() })
            .unwrap();
        assert_eq!(event, KernelEvent { time: 9_000, cpu: 2, what: EventKind::Lost(12) });
    }

    #[test]
    fn switch_record_tells_state_of_thread() {
        // The other thread, then this thread, time and cpu.
        let body = bytes(&[pair(5, 5), pair(7, 8), 9_000, pair(1, 0)]);
        for (misc, to) in
            [(0, SwitchTarget::Runs), (1 << 13, SwitchTarget::Blocked), (3 << 13, SwitchTarget::Ready)]
        {
            let event = OwnRecords { dumps: true, counts: true }
                .read(&RawRecord { kind: 15, misc, body: body[..].into() })
                .unwrap();
            let what = EventKind::Switched { pid: 7, tid: 8, to };
            assert_eq!(event, KernelEvent { time: 9_000, cpu: 1, what });
        }
    }

    #[test]
    fn short_record_is_no_event() {
        assert_eq!(
            OwnRecords { dumps: false, counts: false }.read(&RawRecord {
                kind: 9,
                misc: 0,
                body: [1, 2, 3][..].into()
            }),
            None
        );
        assert_eq!(
            OwnRecords { dumps: false, counts: false }.read(&RawRecord {
                kind: 3,
                misc: 0,
                body: [][..].into()
            }),
            None
        );
    }
}
