//! The ranges of a workload's numbers, and the words for colors. A value outside the range is an
//! error.
//!
//! Owns the bounds. A message names the workload, the object or handler, the key, the value and the
//! allowed values. Tested in `workload/tests.rs`.

use std::collections::BTreeSet;

use vermeil_sched::recording::Recording;

use super::spec::{HandlerSpec, NextSpec, ShiftSpec, SourceKind, SourceSpec, WorkloadSpec};
use crate::SimError;

/// Cycles of a run: five minutes at 3 GHz, far above any event that is worth a simulation.
const CYCLES_MAX: u64 = 1_000_000_000_000;
/// Bytes of a streamed object, of a touch and of received data.
const BYTES_MAX: u64 = 1 << 40;
/// Bytes of an object that caches keep, and of a handler's code: the memory counts the bytes of an
/// object in 32 bits.
const OBJECT_BYTES_MAX: u64 = u32::MAX as u64;
/// Requests in a second, also after a shift. More would need a fraction of a nanosecond for each.
const COUNT_MAX: u64 = 100_000_000;
/// Clients, and requests at once. A computer holds the state of each.
const CLIENTS_MAX: u64 = 1_000_000;
/// Handlers of a program, which have numbers of 16 bits.
pub(super) const HANDLERS_MAX: usize = u16::MAX as usize;
/// Milliseconds of a run: a day.
const MS_MAX: u64 = 86_400_000;
/// Maximum percentage of a shift of cycles or rates.
const PERCENT_MAX: u64 = 100_000;

/// Checks the number of handlers that the expansion of `repeat` makes.
pub(super) fn check_repeats(spec: &WorkloadSpec) -> Result<(), SimError> {
    let check = NumberRanges { workload: &spec.name };
    for handler in &spec.handler {
        let thing = format!("handler {:?}", handler.name);
        check.within("repeat", &thing, handler.repeat.into(), 1, HANDLERS_MAX as u64)?;
    }
    let all: u64 = spec.handler.iter().map(|handler| u64::from(handler.repeat)).sum();
    if all > HANDLERS_MAX as u64 {
        return Err(check.problem(format!("has {all} handlers; at most {HANDLERS_MAX} are possible")));
    }
    Ok(())
}

/// Checks every number of `spec`, after the expansion of `repeat`.
pub(super) fn check(spec: &WorkloadSpec) -> Result<(), SimError> {
    let check = NumberRanges { workload: &spec.name };
    check.within("run_ms", "the workload", spec.run_ms, 0, MS_MAX)?;
    check.within("warm_up_ms", "the workload", spec.warm_up_ms, 0, MS_MAX)?;
    if spec.run_ms > 0 && spec.warm_up_ms >= spec.run_ms {
        let problem = format!(
            "warm_up_ms = {} leaves nothing of run_ms = {}, which includes the warm-up; increase run_ms",
            spec.warm_up_ms, spec.run_ms
        );
        return Err(check.problem(problem));
    }
    for object in &spec.object {
        let thing = format!("object {:?}", object.name);
        let bytes_max = if object.streamed { BYTES_MAX } else { OBJECT_BYTES_MAX };
        check.within("bytes", &thing, object.bytes, 0, bytes_max)?;
        check.within("count", &thing, object.count.into(), 1, COUNT_MAX)?;
        check.within("skew_milli", &thing, object.skew_milli.into(), 0, 10_000)?;
    }
    check.unique("[[object]]", spec.object.iter().map(|object| &object.name))?;
    check.unique("[[handler]]", spec.handler.iter().map(|handler| &handler.name))?;
    check.unique("[[class]]", spec.class.iter().map(|class| &class.name))?;
    for handler in &spec.handler {
        check.handler(handler)?;
    }
    for source in &spec.source {
        check.source(source)?;
    }
    for shift in &spec.shift {
        check.shift(shift)?;
        check.shifted_rates(shift, &spec.source)?;
    }
    // A workload with only `start` sources counts a request as answered when the request's last
    // event has run.
    let waits_for_answers = |source: &SourceSpec| !matches!(source.load, SourceKind::Start { .. });
    if spec.source.iter().any(waits_for_answers) && spec.handler.iter().all(|handler| !handler.reply) {
        return Err(check.problem("no handler has reply = true, so no request would ever be answered"));
    }
    Ok(())
}

/// Checks the handlers of a recording and the bytes that its colors are to touch.
pub(super) fn check_recording(name: &str, recording: &Recording, bytes: u64) -> Result<(), SimError> {
    let check = NumberRanges { workload: name };
    check.within("the working set", "each color", bytes, 0, OBJECT_BYTES_MAX)?;
    let handlers: BTreeSet<&str> = recording.events.iter().map(|event| event.handler.as_str()).collect();
    let all = handlers.len();
    if all > HANDLERS_MAX {
        return Err(check.problem(format!("has {all} handlers; at most {HANDLERS_MAX} are possible")));
    }
    Ok(())
}

struct NumberRanges<'a> {
    workload: &'a str,
}

impl NumberRanges<'_> {
    fn problem(&self, problem: impl Into<String>) -> SimError {
        SimError::workload(self.workload, problem)
    }

    fn within(&self, key: &str, thing: &str, value: u64, least: u64, most: u64) -> Result<(), SimError> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(self.problem(format!("{key} = {value} of {thing}: allowed are {least} to {most}")))
    }

    fn unique<'n>(&self, table: &str, names: impl Iterator<Item = &'n String>) -> Result<(), SimError> {
        let mut names: Vec<&String> = names.collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(pair) => {
                Err(self.problem(format!("two {table} have the name {:?}; rename one of them", pair[0])))
            }
        }
    }

    fn handler(&self, handler: &HandlerSpec) -> Result<(), SimError> {
        let thing = format!("handler {:?}", handler.name);
        self.within("cycles", &thing, handler.cycles, 0, CYCLES_MAX)?;
        self.within("annotated_cycles", &thing, handler.annotated_cycles.unwrap_or(0), 0, CYCLES_MAX)?;
        self.within("annotated_penalty", &thing, handler.annotated_penalty.into(), 1, COUNT_MAX)?;
        self.within("spread_percent", &thing, handler.spread_percent.into(), 0, 100)?;
        self.within("tail_permille", &thing, handler.tail_permille.into(), 0, 1_000)?;
        self.within("tail_times", &thing, handler.tail_times.into(), 1, 1_000_000)?;
        self.within("code_bytes", &thing, handler.code_bytes, 0, OBJECT_BYTES_MAX)?;
        self.within("gather_us", &thing, handler.gather_us, 0, MS_MAX * 1_000)?;
        for touch in &handler.touch {
            self.within("bytes", &format!("a touch of {thing}"), touch.bytes.unwrap_or(0), 0, BYTES_MAX)?;
        }
        for next in handler.next.iter().chain(&handler.also) {
            self.next(&thing, next)?;
        }
        Ok(())
    }

    fn next(&self, thing: &str, next: &NextSpec) -> Result<(), SimError> {
        let thing = format!("the way from {thing} to {:?}", next.to);
        self.within("weight", &thing, next.weight.into(), 1, COUNT_MAX)?;
        self.within("after_us", &thing, next.after_us, 0, MS_MAX * 1_000)
    }

    fn source(&self, source: &SourceSpec) -> Result<(), SimError> {
        let thing = format!("the source of {:?}", source.entry);
        let within = |key, value: u64, least, most| self.within(key, &thing, value, least, most);
        match source.load {
            SourceKind::Closed { clients, think_us } => {
                within("clients", clients.into(), 1, CLIENTS_MAX)?;
                within("think_us", think_us, 0, MS_MAX * 1_000)?;
            }
            SourceKind::Open { per_s, clients, .. } => {
                within("per_s", per_s, 1, COUNT_MAX)?;
                within("clients", clients.into(), 1, CLIENTS_MAX)?;
            }
            SourceKind::Burst { count, every_us } => {
                within("count", count.into(), 1, CLIENTS_MAX)?;
                within("every_us", every_us, 1, MS_MAX * 1_000)?;
            }
            SourceKind::Start { count } => within("count", count.into(), 1, CLIENTS_MAX)?,
        }
        within("queues", source.queues.unwrap_or(1).into(), 1, 1 << 16)?;
        within("received_bytes", source.received_bytes, 0, BYTES_MAX)?;
        within("interrupt_cycles", source.interrupt_cycles, 0, CYCLES_MAX)?;
        if let Some(poll) = &source.poll {
            within("poll.cycles_each", poll.cycles_each, 0, CYCLES_MAX)?;
            within("poll.batch", poll.batch.into(), 1, COUNT_MAX)?;
        }
        Ok(())
    }

    fn shifted_rates(&self, shift: &ShiftSpec, sources: &[SourceSpec]) -> Result<(), SimError> {
        let percent = u64::from(shift.rate_percent.unwrap_or(100));
        for source in sources {
            if let SourceKind::Open { per_s, .. } = source.load {
                let thing = format!("the source of {:?} from {} ms on", source.entry, shift.at_ms);
                self.within("rate_percent of per_s", &thing, per_s * percent / 100, 0, COUNT_MAX)?;
            }
        }
        Ok(())
    }

    fn shift(&self, shift: &ShiftSpec) -> Result<(), SimError> {
        let thing = format!("the shift at {} ms", shift.at_ms);
        self.within("at_ms", &thing, shift.at_ms, 0, MS_MAX)?;
        if let Some(percent) = shift.cycles_percent {
            self.within("cycles_percent", &thing, percent.into(), 0, PERCENT_MAX)?;
        }
        if let Some(percent) = shift.rate_percent {
            self.within("rate_percent", &thing, percent.into(), 1, PERCENT_MAX)?;
        }
        let changes_nothing = match shift.handler {
            Some(_) => shift.cycles_percent.is_none(),
            None => shift.cycles_percent.is_none() && shift.rate_percent.is_none(),
        };
        if changes_nothing {
            return Err(
                self.problem(format!("{thing} changes nothing; write cycles_percent or rate_percent"))
            );
        }
        Ok(())
    }
}
