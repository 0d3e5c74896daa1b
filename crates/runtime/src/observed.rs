//! The observation of a core's events: histograms of their waits and runs, and the ring of a
//! recording.
//!
//! A core writes its own words without a lock; a reader adds up the words of all cores. An observed
//! event carries the time of its posting, in units of 32 ns, and the name of the posting event.
//! Leaves out the choice of events (`vermeil_sched`: `Sampler`, `Stamps`) and the form of a
//! recording (`vermeil_sched::recording`). Tested in `tests/observed.rs`.

use crate::{
    core::{Core, current_of},
    counters::NOBODY,
    handle::Handle,
    shared::RuntimeShared,
    stamps::{Stamping, WORDS, waited_ns},
    times::HandlerTimes,
};
use vermeil_queue::{ColorId, Label, current_color};
use vermeil_sched::{
    CoreIndex, HandlerIndex, Observe, RunSample,
    recording::{EventName, RecordedEvent, Recording, RecordingHeader, VERSION},
};

thread_local! {
    /// For a thread that is not a core of the runtime it posts to.
    static OUTSIDE: Stamping = const { Stamping::new() };
}

impl RuntimeShared {
    /// The label of an event of `handler` that this thread posts. A separate function, so the label
    /// is passed in registers.
    #[inline]
    pub(crate) fn label(&self, handler: HandlerIndex, worth_ns: u32) -> Label {
        let of = handler.0 as u16;
        let of_core = |core: &Core| {
            core.count_post(handler);
            let posted = core.measures.stamping.next(self.settings.noting, &self.clock);
            let cause = if self.settings.noting.record > 0 { core.cause() } else { 0 };
            Label::new(of, core.index.0 as u16, worth_ns).stamped(posted, cause)
        };
        current_of(self, of_core).unwrap_or_else(|| {
            let posted =
                OUTSIDE.try_with(|outside| outside.next(self.settings.noting, &self.clock)).unwrap_or(0);
            Label::new(of, NOBODY as u16, worth_ns).stamped(posted, 0)
        })
    }
}

impl Core {
    /// The name of the running event on this core: its number in the ring, from 1; 0 if no event
    /// runs.
    fn cause(&self) -> u32 {
        let ring = self.mine().records.ring.as_ref().filter(|_| current_color().is_some());
        ring.map_or(0, |ring| (ring.pushed() as u32).wrapping_add(1))
    }

    /// An event with a stamp is about to run.
    #[cold]
    pub(crate) fn note_wait(&self, label: Label, start_ns: u64) {
        if let Some(times) = self.times(HandlerIndex(label.handler().into())) {
            times.queue_delay.add(waited_ns(label.posted(), start_ns));
        }
    }

    /// A timed event has run.
    #[inline]
    pub(crate) fn note_run(
        &self,
        color: ColorId,
        label: Label,
        start_ns: u64,
        sample: RunSample,
        from: Option<CoreIndex>,
    ) {
        if let Some(times) = self.times(HandlerIndex(label.handler().into())) {
            let runs = if sample.cold.is_some() { &times.cold_run } else { &times.warm_run };
            runs.add(sample.run_ns);
        }
        if let Some(ring) = &self.mine().records.ring {
            ring.push(
                EventRecord {
                    color: color.0.get(),
                    moved_from: from,
                    label,
                    start_ns,
                    run_ns: sample.run_ns,
                }
                .pack(),
            );
        }
    }

    fn times(&self, handler: HandlerIndex) -> Option<&HandlerTimes> {
        (self.shared.settings.noting.observe != Observe::Off)
            .then(|| &**self.mine().records.times[handler.0 as usize].get_or_init(Box::default))
    }
}

/// An event of a core's ring.
struct EventRecord {
    color: u64,
    moved_from: Option<CoreIndex>,
    label: Label,
    start_ns: u64,
    run_ns: u64,
}

/// Bits of a color's number in a record; the rest holds the previous core.
const COLOR_BITS: u32 = 48;

/// The mark of a run of at least this many nanoseconds (2.1 s), which a record has in coarse units.
const LONG_RUN: u32 = 1 << 31;

/// The unit of a long run, as a power of two of nanoseconds: 65.5 us, so a record holds runs of up
/// to 39 hours.
const LONG_RUN_BITS: u32 = 16;

/// A run's duration as a record has it.
#[inline]
fn pack_run(run_ns: u64) -> u32 {
    match u32::try_from(run_ns) {
        Ok(run_ns) if run_ns < LONG_RUN => run_ns,
        _ => LONG_RUN | (run_ns >> LONG_RUN_BITS).min(u64::from(LONG_RUN - 1)) as u32,
    }
}

/// The duration of a run in a record, in nanoseconds.
fn unpack_run(packed: u32) -> u64 {
    if packed < LONG_RUN { packed.into() } else { u64::from(packed & !LONG_RUN) << LONG_RUN_BITS }
}

impl EventRecord {
    fn pack(self) -> [u64; WORDS] {
        let Self { color, moved_from, label, start_ns, run_ns } = self;
        let from = moved_from.map_or(NOBODY, |core| core.0) as u16;
        [
            color & ((1 << COLOR_BITS) - 1) | u64::from(from) << COLOR_BITS,
            start_ns,
            u64::from(pack_run(run_ns)) | u64::from(label.posted()) << 32,
            u64::from(label.handler()) | u64::from(label.from()) << 16 | u64::from(label.cause()) << 32,
        ]
    }

    fn unpack(words: [u64; WORDS]) -> Self {
        let [color, start_ns, times, label] = words;
        let core = |core: u16| (core != NOBODY as u16).then(|| CoreIndex(core.into()));
        Self {
            color: color & ((1 << COLOR_BITS) - 1),
            moved_from: core((color >> COLOR_BITS) as u16),
            label: Label::new(label as u16, (label >> 16) as u16, 0)
                .stamped((times >> 32) as u32, (label >> 32) as u32),
            start_ns,
            run_ns: unpack_run(times as u32),
        }
    }

    fn poster(&self) -> Option<EventName> {
        let (from, cause) = (self.label.from(), self.label.cause());
        (cause != 0).then(|| (from.into(), cause.wrapping_sub(1)))
    }

    fn recorded(&self, core: u32, names: &[String]) -> RecordedEvent {
        RecordedEvent {
            handler: names.get(usize::from(self.label.handler())).cloned().unwrap_or_default(),
            color: self.color,
            core,
            posted_ns: self.start_ns - waited_ns(self.label.posted(), self.start_ns).min(self.start_ns),
            start_ns: self.start_ns,
            run_ns: self.run_ns,
            by: None,
            moved_from: self.moved_from.map(|core| core.0),
        }
    }
}

impl Handle {
    /// The events in the cores' rings: the last events that ran, at most [`crate::Builder::record`]
    /// on each core. `None` without `record`. Events that run during the call may be included or
    /// not.
    pub fn recording(&self) -> Option<Recording> {
        let shared = &self.shared;
        let names = shared.handlers.names();
        let (mut events, mut lost) = (Vec::new(), 0);
        for (core, theirs) in (0u32..).zip(&shared.cores) {
            let (first, records) = theirs.records.ring.as_ref()?.recent();
            lost += first;
            events.extend((first..).zip(records).map(|(number, words)| {
                let record = EventRecord::unpack(words);
                ((core, number as u32), record.poster(), record.recorded(core, &names))
            }));
        }
        let cpus = shared.cores.iter().map(|core| core.facts.cpu as u32).collect();
        let header =
            RecordingHeader { recording: VERSION, policy: shared.settings.policy.to_string(), cpus, lost };
        Some(Recording::assemble(header, events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamps::{STAMP_BITS, stamp};

    #[test]
    fn stamped_wait_is_exact_to_its_unit_and_never_negative() {
        assert_eq!(waited_ns(stamp(32_000), 96_031), 64_000);
        assert_eq!(waited_ns(stamp(1_000_100), 1_000_000), 0);
        let late = (1 << (32 + STAMP_BITS)) + 640;
        assert_eq!(waited_ns(stamp(late - 6_400), late), 6_400, "past the end of the stamp's numbers");
    }

    #[test]
    fn record_survives_packing() {
        let label = Label::new(3, 9, 0).stamped(77, u32::MAX);
        let record = |moved_from| EventRecord { color: 12, moved_from, label, start_ns: 5, run_ns: 6 }.pack();
        let back = EventRecord::unpack(record(Some(CoreIndex(4))));
        assert_eq!((back.color, back.moved_from, back.label), (12, Some(CoreIndex(4)), label));
        assert_eq!((back.start_ns, back.run_ns, back.poster()), (5, 6, Some((9, u32::MAX - 1))));
        assert_eq!(EventRecord::unpack(record(None)).moved_from, None);
    }

    /// Regression: a recording showed each run of more than 4.3 s as 4.3 s.
    #[test]
    fn record_keeps_length_of_long_run() {
        let packed = |run_ns| unpack_run(pack_run(run_ns));
        for exact_ns in [0, 1, u64::from(LONG_RUN) - 1] {
            assert_eq!(packed(exact_ns), exact_ns);
        }
        for long_ns in [u64::from(LONG_RUN), 10_000_000_000, 3_600_000_000_000] {
            assert!(long_ns - packed(long_ns) < 1 << LONG_RUN_BITS, "{long_ns}");
        }
        assert!(packed(u64::MAX) > 100_000_000_000_000);
    }
}
