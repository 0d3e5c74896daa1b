//! The events and rings of a recording: samples of all cpus or threads, and switches if these are
//! wanted.
//!
//! Opens the best events that the machine and the user's rights permit. Leaves out the meaning of
//! records (`event`) and their destination (`recorder`).

use std::io;

use crate::event::{EventKind, KernelEvent, OwnRecords, Sample};
use crate::perf::{
    self, DUMP_BYTES, ObservedThreads, RecordRing, SHORT_DUMP_BYTES, Sampling, SamplingEvent, SoftwareCounts,
    Trigger,
};
use crate::processes::{self, Processes};
use crate::{ProfileError, machine};

/// Events of one kind with the rings that they write to, a ring for each cpu.
#[derive(Default)]
struct EventSet {
    rings: Vec<RecordRing>,
    /// Events that write to a ring of another.
    further: Vec<SamplingEvent>,
}

impl EventSet {
    /// Opens an event for each cpu and observed thread by `open`.
    fn open(
        cpus: &[u32],
        observed: &[ObservedThreads],
        pages: usize,
        open: impl Fn(ObservedThreads, u32) -> io::Result<SamplingEvent>,
    ) -> Result<Self, ProfileError> {
        let mut set = Self::default();
        for &cpu in cpus {
            let mut ring = None;
            for &observed in observed {
                let event = match open(observed, cpu) {
                    Ok(event) => event,
                    // The thread has ended since it was listed.
                    Err(error) if error.raw_os_error() == Some(3) => continue,
                    Err(error) => return Err(refusal(error)),
                };
                match &ring {
                    None => {
                        ring = Some(
                            RecordRing::of(event, pages)
                                .map_err(|source| system("cannot map a ring", source))?,
                        )
                    }
                    Some(ring) => {
                        event.write_to(ring).map_err(|source| system("cannot share a ring", source))?;
                        set.further.push(event);
                    }
                }
            }
            set.rings.extend(ring);
        }
        Ok(set)
    }

    fn events(&self) -> impl Iterator<Item = &SamplingEvent> {
        self.rings.iter().map(RecordRing::event).chain(&self.further)
    }
}

/// The exchange of the sampling events for those with longer copies of stacks.
struct Deepened {
    /// From here on no first event is on.
    time: u64,
    /// The counts of each ring's first event at its end. The second event counts from zero.
    counts: Vec<SoftwareCounts>,
}

/// The events and rings of a recording.
pub(crate) struct StackSampler {
    samples: EventSet,
    deepened: Option<Deepened>,
    /// The switches of threads, or why they are not recorded; `None` if they are not wanted.
    switches: Option<Result<EventSet, String>>,
    pub(crate) sampling: Sampling,
    pub(crate) cpus: Vec<u32>,
    /// Whether each thread has events of its own, for want of rights.
    pub(crate) by_thread: bool,
    /// Whether the kernel starts the events, when the command has begun.
    on_exec: bool,
}

impl StackSampler {
    /// Opens the best events that the machine and the user's rights permit.
    pub(crate) fn open(hz: u32, dumps: bool, waits: bool, root: Option<i32>) -> Result<Self, ProfileError> {
        let cpus = machine::online_cpus();
        let probed = root.unwrap_or(0);
        // By thread, with the kernel's part, with counts.
        let rungs = [(false, true, true), (false, true, false), (true, true, false), (true, false, false)];
        let mut refused = None;
        for (by_thread, kernel, counts) in rungs {
            for trigger in [Trigger::Cycles, Trigger::CpuClock] {
                // Each thread's own event inherits its size, so there the long copies come first.
                let dump_bytes = if by_thread { DUMP_BYTES } else { SHORT_DUMP_BYTES };
                let frames_max = machine::frames_max();
                let dump_bytes = dumps.then_some(dump_bytes);
                let sampling = Sampling { trigger, hz, kernel, frames_max, dump_bytes, counts };
                let observed = if by_thread {
                    ObservedThreads::Thread { tid: probed, on_exec: false }
                } else {
                    ObservedThreads::Cpu
                };
                match SamplingEvent::open(&sampling, observed, cpus[0]) {
                    Ok(_probe) => {
                        let mut sampler = Self {
                            samples: EventSet::default(),
                            deepened: None,
                            switches: None,
                            sampling,
                            cpus,
                            by_thread,
                            on_exec: by_thread && root.is_none(),
                        };
                        sampler.open_all(root, waits)?;
                        return Ok(sampler);
                    }
                    Err(error) => refused = Some(error),
                }
            }
        }
        Err(refusal(refused.expect("each rung was tried")))
    }

    fn open_all(&mut self, root: Option<i32>, waits: bool) -> Result<(), ProfileError> {
        let observed: Vec<ObservedThreads> = match (self.by_thread, root) {
            (false, _) => vec![ObservedThreads::Cpu],
            // The command inherits the event of the thread that starts it.
            (true, None) => vec![ObservedThreads::Thread { tid: 0, on_exec: true }],
            (true, Some(root)) => {
                let tree = Processes::tree(root);
                let threads = tree.pids().flat_map(processes::threads);
                threads.map(|tid| ObservedThreads::Thread { tid, on_exec: false }).collect()
            }
        };
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let kinds = if waits && self.sampling.kernel { 2 } else { 1 };
        if limit.is_some_and(|limit| (kinds * observed.len() * self.cpus.len()) as u64 + 64 > limit) {
            let (threads, cpus) = (kinds * observed.len(), self.cpus.len());
            return Err(ProfileError::ThreadsMax { threads, cpus, limit: limit.unwrap_or(0) });
        }
        let (sampling, has_dumps) = (self.sampling, self.sampling.dump_bytes.is_some());
        let pages = perf::ring_pages(has_dumps, self.cpus.len());
        self.samples = EventSet::open(&self.cpus, &observed, pages, |observed, cpu| {
            SamplingEvent::open(&sampling, observed, cpu)
        })?;
        let long = self.deeper_sampling();
        let switches = || {
            if !sampling.kernel {
                return Err("the kernel's scheduler is hidden from this user; run as root, or `sysctl \
                            kernel.perf_event_paranoid=1`"
                    .to_owned());
            }
            let open = |observed, cpu| SamplingEvent::open_switches(&long, observed, cpu);
            EventSet::open(&self.cpus, &observed, pages, open).map_err(|error| error.to_string())
        };
        self.switches = waits.then(switches);
        Ok(())
    }

    /// The events with the longest copies of stacks.
    fn deeper_sampling(&self) -> Sampling {
        Sampling { dump_bytes: self.sampling.dump_bytes.map(|_| DUMP_BYTES), ..self.sampling }
    }

    /// Copies more of each stack from now on. Where the kernel refuses the events for that, samples
    /// stay as they are.
    pub(crate) fn deepen(&mut self) {
        let deeper = self.deeper_sampling();
        if self.deepened.is_some() || deeper.dump_bytes == self.sampling.dump_bytes {
            return;
        }
        let opened = self.samples.rings.iter().zip(&self.cpus).map(|(ring, &cpu)| {
            let event = SamplingEvent::open(&deeper, ObservedThreads::Cpu, cpu)?;
            event.write_to(ring).map(|()| event)
        });
        let Ok(events) = opened.collect::<io::Result<Vec<_>>>() else { return };
        let mut counts = Vec::new();
        for (event, ring) in events.into_iter().zip(&mut self.samples.rings) {
            // In this order, so that no new process or map is missed.
            let enabled = event.enable();
            let first = ring.event_mut();
            if enabled.is_ok() {
                let _stopped = first.disable();
            }
            counts.push(first.counts().unwrap_or_default());
            first.close_counters();
            self.samples.further.push(event);
        }
        self.deepened = Some(Deepened { time: machine::now_ns(), counts });
    }

    /// The counts of a cpu now, by its place in the list of cpus; `None` if samples have none.
    /// Interrupts the cpu, if its events are on.
    pub(crate) fn counts(&self, index: usize) -> Option<SoftwareCounts> {
        match &self.deepened {
            None => self.samples.rings.get(index)?.event().counts().ok(),
            Some(deepened) => {
                let counts = self.samples.further.get(index)?.counts().ok()?;
                Some(sum(counts, deepened.counts[index]))
            }
        }
    }

    /// Whether waits are recorded; an error says why not.
    pub(crate) fn records_waits(&self) -> Result<bool, &str> {
        match &self.switches {
            None => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err(why)) => Err(why),
        }
    }

    fn sets(&self) -> impl Iterator<Item = &EventSet> {
        self.switches.iter().flatten().chain([&self.samples])
    }

    pub(crate) fn enable(&self) -> Result<(), ProfileError> {
        if self.on_exec {
            return Ok(());
        }
        self.sets()
            .flat_map(EventSet::events)
            .try_for_each(|event| event.enable().map_err(|source| system("cannot start sampling", source)))
    }

    pub(crate) fn disable(&self) {
        for event in self.sets().flat_map(EventSet::events) {
            // An event whose thread has ended refuses, and has nothing to stop.
            let _ended = event.disable();
        }
    }

    /// Bytes of the smallest ring, and of a long sample.
    pub(crate) fn ring_and_sample_bytes(&self) -> (usize, usize) {
        let ring = self.samples.rings.iter().map(RecordRing::bytes_max).min().unwrap_or(0);
        let words = 32 + usize::from(self.sampling.frames_max);
        (ring, 8 * words + self.deeper_sampling().dump_bytes.unwrap_or(0) as usize)
    }

    /// Hands over the records up to a time, oldest first, and frees their places. Later records
    /// stay in the rings, because they may still lack predecessors.
    pub(crate) fn drain<E>(
        &mut self,
        until: u64,
        mut take: impl FnMut(KernelEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let records = OwnRecords { dumps: self.sampling.dump_bytes.is_some(), counts: self.sampling.counts };
        let deepened = self.deepened.as_ref();
        let samples = self.samples.rings.iter_mut().map(|ring| (ring, false));
        let switches = self.switches.iter_mut().flatten().flat_map(|set| &mut set.rings);
        let mut rings: Vec<(&mut RecordRing, bool)> =
            samples.chain(switches.map(|ring| (ring, true))).collect();
        rings.iter_mut().for_each(|(ring, _)| ring.look());
        let mut times: Vec<Option<u64>> = rings.iter().map(|(ring, _)| ring.first_time()).collect();
        let mut taken = Ok(());
        while let Some((index, _)) = oldest(&times, until) {
            let (ring, has_switches) = &mut rings[index];
            let records = if *has_switches { OwnRecords { counts: false, ..records } } else { records };
            let event = ring.first().and_then(|record| records.read(&record));
            let event = if *has_switches {
                event.and_then(of_switches)
            } else {
                event.map(|event| counted(event, deepened, index))
            };
            taken = event.map_or(Ok(()), &mut take);
            ring.pass();
            times[index] = ring.first_time();
            if taken.is_err() {
                break;
            }
        }
        rings.iter_mut().for_each(|(ring, _)| ring.free());
        taken
    }
}

/// The place and the value of the least of the times up to `until`; the first of equal ones.
fn oldest(times: &[Option<u64>], until: u64) -> Option<(usize, u64)> {
    let known = times.iter().enumerate().filter_map(|(index, time)| Some((index, (*time)?)));
    known.min_by_key(|(_, time)| *time).filter(|(_, time)| *time <= until)
}

fn sum(counts: SoftwareCounts, others: SoftwareCounts) -> SoftwareCounts {
    std::array::from_fn(|index| counts[index] + others[index])
}

/// An event of a ring with the counts of the whole recording.
fn counted<'a>(mut event: KernelEvent<'a>, deepened: Option<&Deepened>, ring: usize) -> KernelEvent<'a> {
    if let EventKind::Sample(Sample { counts: Some(counts), .. }) = &mut event.what
        && let Some(deepened) = deepened.filter(|deepened| event.time > deepened.time)
    {
        *counts = sum(*counts, deepened.counts[ring]);
    }
    event
}

/// The event of a record from a ring of switches.
fn of_switches(event: KernelEvent<'_>) -> Option<KernelEvent<'_>> {
    let what = match event.what {
        EventKind::Sample(sample) => EventKind::Leaves(sample),
        EventKind::Lost(count) => EventKind::SwitchesLost(count),
        what @ EventKind::Switched { .. } => what,
        // A pause of stacks only; the switches themselves go on.
        _ => return None,
    };
    Some(KernelEvent { what, ..event })
}

pub(crate) fn system(what: &'static str, source: io::Error) -> ProfileError {
    ProfileError::System { what, source }
}

fn refusal(source: io::Error) -> ProfileError {
    match source.raw_os_error() {
        // EPERM, EACCES
        Some(1 | 13) => ProfileError::NoRight { paranoid: machine::paranoid(), source },
        // ENOSYS
        Some(38) => ProfileError::NoEvents(source),
        // EMFILE and others.
        _ => system("cannot open a sampling event", source),
    }
}
