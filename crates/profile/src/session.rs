//! Turns events, in the order of time, into the records of a recording.
//!
//! Keeps the state for that: the process tree, the ids of modules and stacks, and the
//! places to be named at the end. All tables are bounded; a full table of stacks is emptied, and
//! its stacks are written again with new ids. The destination is a function, so that tests need no
//! file. Tested below.

use std::collections::{HashMap, HashSet};
use std::{io, mem};

use vermeil_io::StackMark;

use crate::debug_file::build_id;
use crate::event::{EventKind, KernelEvent, Sample};
use crate::format::{FileRecord, Frame, KERNEL, Module, UNKNOWN};
use crate::known_places::KnownPlaces;
use crate::module_files::{ModuleFiles, ProcessesRun};
use crate::processes::{self, Processes};
use crate::unwind::Unwinder;
use crate::waits::{LeftStack, Switch, WaitLedger};

/// Stacks that are known by id. With 40 frames each they take about 80 MiB.
const STACKS_MAX: usize = 131_072;
/// Stacks whose outer part may be missing, before the kernel copies more of each stack.
const CUT_MAX: u64 = 10;
/// Places to be named at the end of a recording. The others are named by the report.
const PLACES_MAX: usize = 1 << 20;
/// Modules that are told apart. Further ones count as unknown.
const MODULES_MAX: usize = 65_536;

/// The state of a recording in progress.
pub(crate) struct Session {
    pub(crate) processes: Processes,
    /// The names of the threads of the tree that run.
    names: HashMap<i32, String>,
    modules: WrittenModules,
    stacks: WrittenStacks,
    known: KnownPlaces,
    buffers: SampleBuffers,
    places: HashSet<Frame>,
    counts: Counts,
    files: ModuleFiles,
    unwinder: Unwinder,
    frames_max: usize,
    /// `None` if waits are not recorded.
    waits: Option<WaitLedger>,
}

/// The modules that were written.
#[derive(Default)]
struct WrittenModules {
    /// With the paths under which their files can be read now.
    readable: Vec<Module>,
    ids: HashMap<Module, u32>,
}

/// The stacks that were written.
#[derive(Default)]
struct WrittenStacks {
    /// Of the latest ones: forgotten when there are too many.
    ids: HashMap<Box<[Frame]>, u32>,
    count: u32,
}

/// Kept between samples for their memory.
#[derive(Default)]
struct SampleBuffers {
    frames: Vec<Frame>,
    walked: Vec<u64>,
}

/// Sums over a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) samples: u64,
    pub(crate) others: u64,
    pub(crate) lost: u64,
    pub(crate) throttled: u64,
}

impl Session {
    pub(crate) fn new(processes: Processes, run: ProcessesRun) -> Self {
        Self {
            processes,
            names: HashMap::new(),
            modules: WrittenModules::default(),
            stacks: WrittenStacks::default(),
            known: KnownPlaces::default(),
            buffers: SampleBuffers::default(),
            places: HashSet::new(),
            counts: Counts::default(),
            files: ModuleFiles::new(run),
            unwinder: Unwinder::default(),
            frames_max: usize::from(crate::machine::frames_max()),
            waits: None,
        }
    }

    /// Writes the names that the threads of the tree have now.
    ///
    /// # Errors
    /// The destination's.
    pub(crate) fn name_threads(
        &mut self,
        write: &mut impl FnMut(&FileRecord) -> io::Result<()>,
    ) -> io::Result<()> {
        let pids: Vec<i32> = self.processes.pids().collect();
        for pid in pids {
            for tid in processes::threads(pid) {
                if let Some(name) = processes::thread_name(pid, tid) {
                    self.name(pid, tid, name, write)?;
                }
            }
        }
        Ok(())
    }

    fn name(
        &mut self,
        pid: i32,
        tid: i32,
        name: String,
        write: &mut impl FnMut(&FileRecord) -> io::Result<()>,
    ) -> io::Result<()> {
        self.names.insert(tid, name.clone());
        write(&FileRecord::Thread { pid, tid, name })
    }

    /// Names a new thread as its parent, because the kernel reports changes of names only.
    fn inherit_name(
        &mut self,
        pid: i32,
        tid: i32,
        parent_tid: i32,
        write: &mut impl FnMut(&FileRecord) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.names.get(&parent_tid).cloned() {
            Some(name) if self.processes.contains(pid) => self.name(pid, tid, name, write),
            _ => Ok(()),
        }
    }

    /// Follows the waits of threads from now on. Threads that wait already count from `start_ns`.
    pub(crate) fn follow_waits(&mut self, start_ns: u64) {
        let mut waits = WaitLedger::default();
        for pid in self.processes.pids() {
            for tid in processes::threads(pid) {
                if let Some(cpu) = processes::waits_on(pid, tid) {
                    waits.waits_already(Switch { time: start_ns, cpu, pid, tid });
                }
            }
        }
        self.waits = Some(waits);
    }

    /// Switches that the kernel could not keep.
    pub(crate) fn switches_lost(&self) -> u64 {
        self.waits.as_ref().map_or(0, WaitLedger::switches_lost)
    }

    /// Writes the sums of waits up to a time, if they are due.
    ///
    /// # Errors
    /// The destination's.
    pub(crate) fn write_waits(
        &mut self,
        until: u64,
        write: &mut impl FnMut(&FileRecord) -> io::Result<()>,
    ) -> io::Result<()> {
        let records = self.waits.as_mut().map_or_else(Vec::new, |waits| waits.flush(until));
        records.iter().try_for_each(write)
    }

    /// Ends all waits at the end of the recording.
    ///
    /// # Errors
    /// The destination's.
    pub(crate) fn end_waits(
        &mut self,
        time: u64,
        write: &mut impl FnMut(&FileRecord) -> io::Result<()>,
    ) -> io::Result<()> {
        let records = self.waits.as_mut().map_or_else(Vec::new, |waits| waits.finish(time));
        records.iter().try_for_each(write)
    }

    /// Whether longer copies of stacks would show outer frames that are missing.
    pub(crate) fn wants_deeper_stacks(&self) -> bool {
        self.unwinder.cut() >= CUT_MAX
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The modules, with the paths under which their files can be read now.
    pub(crate) fn readable_modules(&self) -> &[Module] {
        &self.modules.readable
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = Frame> {
        self.places.iter().copied()
    }

    /// Takes the next event and writes its records.
    ///
    /// # Errors
    /// The destination's.
    pub(crate) fn take(
        &mut self,
        event: KernelEvent<'_>,
        write: &mut impl FnMut(&FileRecord) -> io::Result<()>,
    ) -> io::Result<()> {
        let KernelEvent { time, cpu, what } = event;
        match what {
            EventKind::Sample(sample) if self.processes.contains(sample.pid) => {
                let (stack, color) = self.stack(&sample, write)?;
                let Sample { pid, tid, weight, .. } = sample;
                self.counts.samples += 1;
                write(&FileRecord::Sample { time, cpu, pid, tid, stack, weight, color })?;
            }
            EventKind::Sample(_) => self.counts.others += 1,
            EventKind::Leaves(sample) if self.waits.is_some() && self.processes.contains(sample.pid) => {
                let left = LeftStack { stack: Some(self.stack(&sample, write)?.0), switches: sample.weight };
                self.waits.iter_mut().for_each(|waits| waits.leaves_with(sample.tid, left));
            }
            // The kernel no longer knows the number of a thread that ends.
            EventKind::Switched { pid, tid, to } if tid > 0 && self.processes.contains(pid) => {
                let at = Switch { time, cpu, pid, tid };
                let waited = self.waits.as_mut().and_then(|waits| waits.switched(at, to));
                waited.iter().try_for_each(write)?;
            }
            EventKind::Leaves(_) | EventKind::Switched { .. } => {}
            EventKind::SwitchesLost(count) => self.waits.iter_mut().for_each(|waits| waits.lost(count)),
            EventKind::Fork { pid, tid, parent, parent_tid } => {
                self.waits.iter_mut().for_each(|waits| waits.begins(tid));
                if pid != parent {
                    self.forget(pid);
                }
                self.processes.fork(pid, parent);
                self.inherit_name(pid, tid, parent_tid, write)?;
            }
            // The process stays known for now, because it may have other threads.
            EventKind::Exit { pid, tid } => {
                self.names.remove(&tid);
                self.processes.exit(pid);
                if self.processes.contains(pid) {
                    self.waits.iter_mut().for_each(|waits| waits.ends(tid));
                }
            }
            EventKind::Named { pid, tid, name, exec } => {
                if exec {
                    self.forget(pid);
                    self.processes.exec(pid);
                }
                if self.processes.contains(pid) {
                    self.name(pid, tid, name, write)?;
                }
            }
            EventKind::Mapped { pid, map } => {
                self.forget(pid);
                self.processes.map(pid, map);
            }
            EventKind::Lost(count) => {
                self.counts.lost += count;
                write(&FileRecord::Lost { time, cpu, count })?;
            }
            EventKind::Throttled => {
                self.counts.throttled += 1;
                write(&FileRecord::Throttled { time, cpu })?;
            }
        }
        Ok(())
    }

    /// Forgets the processes that had ended by `until`, up to which all events were taken.
    /// Otherwise a recording of a build would keep the maps of every compiler. `now` is the present
    /// time.
    pub(crate) fn forget_ended(&mut self, now: u64, until: u64) {
        for pid in self.processes.forget_ended(now, until) {
            self.unwinder.forget(pid);
        }
    }

    /// The maps of a process change.
    fn forget(&mut self, pid: i32) {
        self.unwinder.forget(pid);
        self.known.forget();
    }

    /// The number of a sample's stack, and the color that its thread ran, 0 for none.
    fn stack(
        &mut self,
        sample: &Sample<'_>,
        write: &mut impl FnMut(&FileRecord) -> io::Result<()>,
    ) -> io::Result<(u32, u64)> {
        let SampleBuffers { mut frames, mut walked } = mem::take(&mut self.buffers);
        frames.clear();
        walked.clear();
        for (depth, &address) in sample.kernel.iter().enumerate() {
            frames.push(self.place(None, address - u64::from(depth > 0), write)?);
        }
        let mut color = 0;
        if let Some(dump) = &sample.dump {
            let (unwinder, files) = (&mut self.unwinder, &mut self.files);
            let reach = unwinder.walk(sample.pid, dump, &self.processes, files, self.frames_max, &mut walked);
            // A mark stands in one of the frames. The rest of the copy, which is most of the bytes,
            // is not read.
            color = StackMark::find(&dump.stack[..reach], dump.sp).unwrap_or(0);
        }
        let user = if sample.dump.is_some() { &walked } else { &sample.user };
        for (depth, &address) in user.iter().enumerate() {
            // A caller's address is the one behind its call, which may be another function's first.
            let address = address.saturating_sub(u64::from(depth > 0));
            frames.push(self.place(Some(sample.pid), address, write)?);
        }
        let id = self.stack_id(&frames, write);
        self.buffers = SampleBuffers { frames, walked };
        Ok((id?, color))
    }

    /// The number of a stack, which is written if the stack is new.
    fn stack_id(
        &mut self,
        frames: &[Frame],
        write: &mut impl FnMut(&FileRecord) -> io::Result<()>,
    ) -> io::Result<u32> {
        if let Some(id) = self.stacks.ids.get(frames) {
            return Ok(*id);
        }
        if self.stacks.ids.len() == STACKS_MAX {
            self.stacks.ids.clear();
        }
        if self.places.len() < PLACES_MAX {
            self.places.extend(frames.iter().copied());
        }
        write(&FileRecord::Stack(frames.to_vec()))?;
        let id = self.stacks.count;
        self.stacks.count += 1;
        self.stacks.ids.insert(frames.into(), id);
        Ok(id)
    }

    /// The place of an address in a process, or in the kernel for `None`.
    fn place(
        &mut self,
        pid: Option<i32>,
        address: u64,
        write: &mut impl FnMut(&FileRecord) -> io::Result<()>,
    ) -> io::Result<Frame> {
        if let Some(place) = self.known.get(pid, address) {
            return Ok(place);
        }
        let bracketed = |name: &str| Module { path: name.to_owned(), build_id: Vec::new() };
        let map = pid.and_then(|pid| Some((pid, self.processes.find(pid, address)?)));
        let (module, offset) = match map {
            Some((pid, map)) => {
                let module = Module::of(map);
                if !self.modules.ids.contains_key(&module) {
                    self.files.place(pid, map);
                }
                (module, address - map.start + map.offset)
            }
            None => (bracketed(if pid.is_some() { UNKNOWN } else { KERNEL }), address),
        };
        let place = Frame { module: self.module(module, write)?, offset };
        self.known.put(pid, address, place);
        Ok(place)
    }

    fn module(
        &mut self,
        module: Module,
        write: &mut impl FnMut(&FileRecord) -> io::Result<()>,
    ) -> io::Result<u32> {
        if let Some(id) = self.modules.ids.get(&module) {
            return Ok(*id);
        }
        if self.modules.readable.len() == MODULES_MAX {
            let unknown = Module { path: UNKNOWN.to_owned(), build_id: Vec::new() };
            return Ok(self.modules.ids.get(&unknown).copied().unwrap_or(0));
        }
        let id = self.modules.readable.len() as u32;
        self.modules.ids.insert(module.clone(), id);
        let place = self.files.known(&module);
        let mut written = module;
        // The kernel does not wait for the disk to read the build-id of a map. On another machine
        // the path may name another build.
        if written.build_id.is_empty() && self.files.are_here() {
            written.build_id = place.to_str().and_then(build_id).unwrap_or_default();
        }
        write(&FileRecord::Module(written.clone()))?;
        self.modules.readable.push(Module { path: place.to_string_lossy().into_owned(), ..written });
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Map;

    fn sample(pid: i32, user: &[u64]) -> KernelEvent<'static> {
        let sample = Sample {
            pid,
            tid: pid,
            weight: 1,
            kernel: vec![0xffff_8000_0000_0001],
            user: user.to_vec(),
            dump: None,
            counts: None,
        };
        KernelEvent { time: 1, cpu: 0, what: EventKind::Sample(sample) }
    }

    fn run(session: &mut Session, events: Vec<KernelEvent<'_>>) -> Vec<FileRecord> {
        let mut records = Vec::new();
        for event in events {
            session
                .take(event, &mut |record| {
                    records.push(record.clone());
                    Ok(())
                })
                .unwrap();
        }
        records
    }

    fn event(what: EventKind<'static>) -> KernelEvent<'static> {
        KernelEvent { time: 0, cpu: 0, what }
    }

    fn map(pid: i32, start: u64) -> KernelEvent<'static> {
        let map = Map { start, length: 0x1000, offset: 0x400, path: "/bin/x".to_owned(), build_id: None };
        event(EventKind::Mapped { pid, map })
    }

    #[test]
    fn equal_places_of_two_processes_share_stack() {
        let mut session = Session::new(Processes::all(), ProcessesRun::Before);
        // The same file at two addresses, as with address space randomisation.
        let events =
            vec![map(1, 0x10_0000), map(2, 0x20_0000), sample(1, &[0x10_0010]), sample(2, &[0x20_0010])];
        let records = run(&mut session, events);
        let stacks: Vec<_> = records.iter().filter(|record| matches!(record, FileRecord::Stack(_))).collect();
        let place = Frame { module: 1, offset: 0x410 };
        assert_eq!(
            stacks,
            [&FileRecord::Stack(vec![Frame { module: 0, offset: 0xffff_8000_0000_0001 }, place])]
        );
        assert_eq!(session.counts().samples, 2);
    }

    /// Regression: the threads of a recorded command had no names.
    #[test]
    fn new_thread_has_name_of_its_parent() {
        let named = |tid, name: &str| EventKind::Named { pid: 1, tid, name: name.to_owned(), exec: false };
        let fork = |pid, tid, parent, parent_tid| EventKind::Fork { pid, tid, parent, parent_tid };
        let mut session = Session::new(Processes::all(), ProcessesRun::Before);
        let events = [
            named(1, "main"),
            fork(1, 2, 1, 1),
            named(2, "worker"),
            fork(1, 3, 1, 2),
            fork(4, 4, 1, 1),
            EventKind::Exit { pid: 1, tid: 2 },
            fork(1, 5, 1, 2),
        ];
        let records = run(&mut session, events.map(event).into());
        let thread = |pid, tid, name: &str| FileRecord::Thread { pid, tid, name: name.to_owned() };
        let expected = [
            thread(1, 1, "main"),
            thread(1, 2, "main"),
            thread(1, 2, "worker"),
            thread(1, 3, "worker"),
            thread(4, 4, "main"),
        ];
        assert_eq!(records, expected);
    }

    #[test]
    fn sample_outside_of_tree_is_counted() {
        let mut session = Session::new(Processes::tree(i32::MAX), ProcessesRun::Now);
        let records = run(&mut session, vec![sample(1, &[0x10])]);
        assert!(records.is_empty(), "{records:?}");
        assert_eq!(session.counts(), Counts { others: 1, ..Counts::default() });
    }

    #[test]
    fn address_outside_of_maps_is_kept_as_unknown() {
        let mut session = Session::new(Processes::all(), ProcessesRun::Before);
        let records = run(&mut session, vec![sample(1, &[0xdead])]);
        assert!(
            records
                .iter()
                .any(|record| matches!(record, FileRecord::Module(module) if module.path == UNKNOWN)),
            "{records:?}"
        );
    }

    /// Regression: an imported module without a build-id got the build-id of the file that has the
    /// same path on this machine, and then the names of that file.
    #[test]
    fn local_build_id_is_not_taken_for_foreign_module() {
        let path = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let has_id = |processes| {
            let mut session = Session::new(Processes::all(), processes);
            let map = Map { start: 0x1000, length: 0x1000, offset: 0, path: path.clone(), build_id: None };
            let records =
                run(&mut session, vec![event(EventKind::Mapped { pid: 1, map }), sample(1, &[0x1010])]);
            let has_id = |record: &FileRecord| match record {
                FileRecord::Module(module) => !module.build_id.is_empty(),
                _ => false,
            };
            records.iter().any(has_id)
        };
        assert!(has_id(ProcessesRun::Before) && !has_id(ProcessesRun::Elsewhere));
    }

    #[test]
    fn lost_samples_are_counted() {
        let mut session = Session::new(Processes::all(), ProcessesRun::Before);
        run(
            &mut session,
            vec![event(EventKind::Lost(5)), event(EventKind::Lost(2)), event(EventKind::Throttled)],
        );
        assert_eq!(session.counts(), Counts { lost: 7, throttled: 1, ..Counts::default() });
    }
}
