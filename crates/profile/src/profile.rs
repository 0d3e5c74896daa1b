//! A recording in memory: functions, stacks of functions, samples.
//!
//! Places become functions here, by name and module, so that a function of several processes or
//! with several clones is one function. A place without a name counts for its module. Nothing is
//! left out except samples outside of a window. Leaves out output (`report`). Tested below and by
//! each report.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::ProfileError;
use crate::format::{
    FileRecord, Frame, KERNEL, MissingCounter, Module, Origin, Reader, Series, Symbol, UNKNOWN, Work,
};
use crate::perf::Trigger;
use crate::symbols::{self, KernelNames};
use crate::waiting::{BlockedTime, RecordedWaits, UnknownStack};
use crate::window::Window;
use crate::work::OF_SUBJECT;

/// A function, by its order in the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// A function, or the code of a module that has no name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// The name, in brackets for code without a name.
    pub name: String,
    /// The file name of the module.
    pub module: String,
    /// Whether the name was found.
    pub is_named: bool,
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Nanoseconds since the start of the recording.
    pub time: u64,
    /// Cpu.
    pub cpu: u32,
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// The index of the stack.
    pub stack: u32,
    /// Nanoseconds or cycles.
    pub weight: u64,
    /// The color whose event ran, 0 for none.
    pub color: u64,
}

/// Counters at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Nanoseconds since the start of the recording.
    pub time: u64,
    /// Values in the order of the series.
    pub values: Vec<u64>,
}

/// The choices in reading a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// Only this part.
    pub window: Option<Window>,
    /// Whether functions that the compiler inlined count as functions of their own.
    pub inlined: bool,
}

/// A recording in memory.
#[derive(Clone, Debug)]
pub struct StackProfile {
    /// The machine and the command line.
    pub origin: Origin,
    /// All functions.
    pub functions: Vec<Function>,
    /// Stacks of functions, innermost first.
    pub stacks: Vec<Vec<FunctionId>>,
    /// Samples by time.
    pub samples: Vec<Sampled>,
    /// Names of threads.
    pub threads: HashMap<(i32, i32), String>,
    /// Columns of the ticks.
    pub series: Vec<Series>,
    /// Counters that could not be read.
    pub missing: Vec<MissingCounter>,
    /// Counters over time.
    pub ticks: Vec<Tick>,
    /// Samples that the kernel could not keep.
    pub lost: u64,
    /// Times that the kernel has paused sampling.
    pub throttled: u64,
    /// Samples of other processes, which were left out.
    pub others: u64,
    /// Nanoseconds from the first to the last moment of the recording or the window.
    pub duration_ns: u64,
    /// Why the file ends early, if it does.
    pub cut: Option<String>,
    /// The work that was done meanwhile, if the file says so.
    pub work: Option<Work>,
    /// The waits of threads, if the recording has any.
    pub waiting: RecordedWaits,
}

impl StackProfile {
    /// Reads a recording.
    ///
    /// # Errors
    /// The file cannot be read, is of another kind, or has no sample in the window.
    pub fn read(path: &Path, options: ReadOptions) -> Result<Self, ProfileError> {
        let (mut reader, origin) = Reader::open(path)?;
        let mut raw = Raw::default();
        let mut profile = Self::empty(origin);
        let is_within = |time: u64| options.window.is_none_or(|window| window.contains(time));
        let start = profile.origin.start_ns;
        let mut last = 0;
        let mut ended = false;
        while let Some(record) = reader.next() {
            match record {
                FileRecord::Origin(_) => {}
                FileRecord::Module(module) => raw.modules.push(module),
                FileRecord::Stack(frames) => raw.stacks.push(frames),
                FileRecord::Thread { pid, tid, name } => {
                    profile.threads.insert((pid, tid), name);
                }
                FileRecord::Sample { time, cpu, pid, tid, stack, weight, color } => {
                    let time = time.saturating_sub(start);
                    last = last.max(time);
                    if is_within(time) && (stack as usize) < raw.stacks.len() {
                        profile.samples.push(Sampled { time, cpu, pid, tid, stack, weight, color });
                    }
                }
                FileRecord::Lost { time, count, .. } => {
                    profile.lost += if is_within(time.saturating_sub(start)) { count } else { 0 };
                }
                FileRecord::Throttled { time, .. } => {
                    profile.throttled += u64::from(is_within(time.saturating_sub(start)));
                }
                FileRecord::Counters { series, missing } => {
                    profile.series = series;
                    profile.missing = missing;
                }
                FileRecord::Tick { time, values } => {
                    let time = time.saturating_sub(start);
                    last = last.max(time);
                    if is_within(time) {
                        profile.ticks.push(Tick { time, values });
                    }
                }
                FileRecord::Symbols(symbols) => {
                    raw.symbols.extend(symbols.into_iter().map(|symbol| (symbol.frame, symbol)));
                }
                record @ (FileRecord::Waited { .. }
                | FileRecord::Wait { .. }
                | FileRecord::WaitsEnd { .. }) => {
                    profile.waiting.take(&record, start, options.window);
                }
                FileRecord::Work(work) => profile.work = Some(work),
                FileRecord::End { time, others } => {
                    last = last.max(time.saturating_sub(start));
                    profile.others = others;
                    ended = true;
                }
            }
        }
        profile.cut = match reader.cut() {
            Some(why) => Some(why.to_owned()),
            None => (!ended).then(|| "the recording was ended before it was complete".to_owned()),
        };
        profile.check_content(path, options.window, last)?;
        profile.duration_ns = match options.window {
            None => last,
            Some(window) => {
                let to = window.to.map_or(last, |to| last.min(to.as_nanos() as u64));
                to.saturating_sub(window.from.as_nanos() as u64)
            }
        };
        if !ended {
            raw.name_what_is_missing(&KernelNames::of_boot(&profile.origin.boot));
        }
        profile.waiting.estimate();
        profile.take_stacks(&raw, options.inlined);
        if options.window.is_some() {
            // The file's number is for the whole recording.
            profile.work = None;
        }
        profile.work = profile.work.take().or_else(|| profile.counted_work());
        Ok(profile)
    }

    /// Checks that there is something to report. `last` is the last moment of the whole recording.
    fn check_content(&self, path: &Path, window: Option<Window>, last: u64) -> Result<(), ProfileError> {
        let is_empty = self.samples.is_empty() && !self.waiting.recorded;
        let path = path.to_owned();
        match window {
            Some(window) if is_empty || window.from.as_nanos() > u128::from(last) => {
                Err(ProfileError::EmptyWindow { path, window, seconds: last as f64 / 1e9 })
            }
            None if is_empty => Err(ProfileError::Empty(path)),
            _ => Ok(()),
        }
    }

    /// The mean weight of a sample: the period, if that is fixed.
    pub(crate) fn mean_weight(&self) -> u64 {
        self.weight() / self.samples.len().max(1) as u64
    }

    /// The profile with waits as samples, whose weights are nanoseconds.
    ///
    /// # Errors
    /// The recording of `path` holds no waits.
    pub fn of_waits(mut self, path: &Path) -> Result<Self, ProfileError> {
        if !self.waiting.recorded {
            return Err(ProfileError::NoWaits(path.to_owned()));
        }
        let sample = |wait: &BlockedTime| {
            let BlockedTime { time, cpu, pid, tid, stack, ns, .. } = *wait;
            Some(Sampled { time, cpu, pid, tid, stack: stack.ok()?, weight: ns, color: 0 })
        };
        self.samples = self.waiting.blocked.iter().filter_map(sample).collect();
        self.origin.trigger = Trigger::CpuClock;
        self.waiting.instead = true;
        Ok(self)
    }

    /// The growth of a column between the first and the last tick that have the column, and the
    /// seconds between.
    pub(crate) fn growth(&self, column: usize) -> Option<(u64, f64)> {
        let value = |tick: &Tick| Some((tick.time, *tick.values.get(column)?));
        let mut found = self.ticks.iter().filter_map(value);
        let (from, first) = found.next()?;
        let (to, last) = found.next_back()?;
        let seconds = to.saturating_sub(from) as f64 / 1e9;
        (seconds > 0.0).then_some((last.checked_sub(first)?, seconds))
    }

    /// The work of the recording or the window by the counts of the subject, if there are any.
    fn counted_work(&self) -> Option<Work> {
        let cores = self.work_of_cores();
        let units: f64 = cores.iter().map(|core| core.units).sum();
        let unit = self.work_columns().next()?.1.name.clone();
        (units > 0.0).then_some(Work { units, unit, cpus: cores.len() as u32 })
    }

    /// The columns with the subject's units of work, one for each core.
    fn work_columns(&self) -> impl Iterator<Item = (usize, &Series)> {
        let counted = || self.series.iter().enumerate().filter(|(_, series)| series.unit == OF_SUBJECT);
        let unit = counted().next().map(|(_, series)| &series.name);
        counted().filter(move |(_, series)| Some(&series.name) == unit)
    }

    /// The work of each core in the recording or the window, if the subject counts its work.
    pub fn work_of_cores(&self) -> Vec<CoreUnits> {
        let (Some(first), Some(last)) = (self.ticks.first(), self.ticks.last()) else { return Vec::new() };
        // Ticks lie up to 10 ms within the recording or the window.
        let whole = self.duration_ns as f64 / last.time.saturating_sub(first.time).max(1) as f64;
        let mut weights: HashMap<u32, u64> = HashMap::new();
        for sample in &self.samples {
            *weights.entry(sample.cpu).or_default() += sample.weight;
        }
        let core = |(column, series): (usize, &Series)| {
            let (cpu, (growth, _)) = (series.cpu?, self.growth(column)?);
            let weight = weights.get(&cpu).copied().unwrap_or(0);
            Some(CoreUnits { cpu, units: growth as f64 * whole, weight })
        };
        self.work_columns().filter_map(core).collect()
    }

    /// A profile without samples.
    pub(crate) fn empty(origin: Origin) -> Self {
        Self {
            origin,
            functions: Vec::new(),
            stacks: Vec::new(),
            samples: Vec::new(),
            threads: HashMap::new(),
            series: Vec::new(),
            missing: Vec::new(),
            ticks: Vec::new(),
            lost: 0,
            throttled: 0,
            others: 0,
            duration_ns: 0,
            cut: None,
            work: None,
            waiting: RecordedWaits::default(),
        }
    }

    /// Names the functions of the stacks, and joins stacks with equal names.
    fn take_stacks(&mut self, raw: &Raw, inlined: bool) {
        let mut names = FunctionNames {
            raw,
            inlined,
            ids: HashMap::new(),
            functions: Vec::new(),
            places: HashMap::new(),
        };
        let mut stacks = HashMap::new();
        let mut new_ids = HashMap::new();
        let mut new_id = |old: Result<u32, UnknownStack>| -> u32 {
            *new_ids.entry(old).or_insert_with(|| {
                let frames = |id: u32| raw.stacks.get(id as usize).map_or(&[][..], Vec::as_slice);
                let stack = match old {
                    Ok(id) => names.stack(frames(id)),
                    Err(unknown) => vec![names.unknown(unknown.name())],
                };
                let next = stacks.len() as u32;
                *stacks.entry(stack).or_insert(next)
            })
        };
        self.samples.iter_mut().for_each(|sample| sample.stack = new_id(Ok(sample.stack)));
        self.waiting.blocked.iter_mut().for_each(|wait| wait.stack = Ok(new_id(wait.stack)));
        let mut ordered: Vec<_> = stacks.into_iter().collect();
        ordered.sort_by_key(|(_, id)| *id);
        self.stacks = ordered.into_iter().map(|(stack, _)| stack).collect();
        self.functions = names.functions;
    }

    /// A function.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// The functions of a sample, innermost first.
    pub fn stack(&self, sample: &Sampled) -> &[FunctionId] {
        &self.stacks[sample.stack as usize]
    }

    /// The sum of all weights.
    pub fn weight(&self) -> u64 {
        self.samples.iter().map(|sample| sample.weight).sum()
    }

    /// Own and total weight of each function, most own weight first.
    pub fn costs(&self) -> Vec<FunctionCost> {
        let mut costs: Vec<FunctionCost> = (0..self.functions.len() as u32)
            .map(|id| FunctionCost { function: FunctionId(id), own: 0, total: 0, samples: 0 })
            .collect();
        let mut seen = HashSet::new();
        for sample in &self.samples {
            let stack = self.stack(sample);
            if let Some(innermost) = stack.first() {
                costs[innermost.0 as usize].own += sample.weight;
                costs[innermost.0 as usize].samples += 1;
            }
            seen.clear();
            for function in stack.iter().filter(|function| seen.insert(**function)) {
                costs[function.0 as usize].total += sample.weight;
            }
        }
        costs.sort_by(|a, b| (b.own, b.total).cmp(&(a.own, a.total)).then(a.function.cmp(&b.function)));
        costs
    }
}

/// The work of a core of the subject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreUnits {
    /// The cpu of the core.
    pub cpu: u32,
    /// Units of work.
    pub units: f64,
    /// The weight of all samples on this cpu.
    pub weight: u64,
}

/// The cost of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionCost {
    /// The function.
    pub function: FunctionId,
    /// Weight of the samples in the function itself.
    pub own: u64,
    /// Weight of the samples in the function and all that it calls.
    pub total: u64,
    /// Number of the samples in the function itself.
    pub samples: u64,
}

/// The content of the file, before places become functions.
#[derive(Default)]
struct Raw {
    modules: Vec<Module>,
    stacks: Vec<Vec<Frame>>,
    symbols: HashMap<Frame, Symbol>,
}

impl Raw {
    /// Names the places that the recording left unnamed because it ended early.
    fn name_what_is_missing(&mut self, kernel: &KernelNames) {
        let places: HashSet<Frame> = self.stacks.iter().flatten().copied().collect();
        let unnamed = places.into_iter().filter(|place| !self.symbols.contains_key(place));
        let found = symbols::resolve(&self.modules, unnamed.collect::<Vec<_>>().into_iter(), kernel);
        self.symbols.extend(found.into_iter().map(|symbol| (symbol.frame, symbol)));
    }
}

/// Gives functions their ids.
struct FunctionNames<'a> {
    raw: &'a Raw,
    inlined: bool,
    ids: HashMap<Function, FunctionId>,
    functions: Vec<Function>,
    /// The functions of each place, innermost first.
    places: HashMap<Frame, Vec<FunctionId>>,
}

impl FunctionNames<'_> {
    fn stack(&mut self, frames: &[Frame]) -> Vec<FunctionId> {
        let mut stack = Vec::with_capacity(frames.len());
        for frame in frames {
            if let Some(known) = self.places.get(frame) {
                stack.extend(known);
                continue;
            }
            let named = self.place(*frame);
            stack.extend(&named);
            self.places.insert(*frame, named);
        }
        stack
    }

    fn place(&mut self, frame: Frame) -> Vec<FunctionId> {
        let path = self.raw.modules.get(frame.module as usize).map_or(UNKNOWN, |module| &module.path);
        let module =
            Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy()).into_owned();
        let Some(symbol) = self.raw.symbols.get(&frame) else {
            let name = match path {
                UNKNOWN => UNKNOWN.to_owned(),
                KERNEL => "[no name in the kernel]".to_owned(),
                _ => format!("[no name in {module}]"),
            };
            return vec![self.id(Function { name, module, is_named: false })];
        };
        let names = symbol.inlined.iter().rev().filter(|_| self.inlined).chain([&symbol.function]);
        let functions: Vec<_> = names
            .map(|name| Function {
                name: plain_name(name).to_owned(),
                module: module.clone(),
                is_named: true,
            })
            .collect();
        functions.into_iter().map(|function| self.id(function)).collect()
    }

    /// A place without code.
    fn unknown(&mut self, name: &str) -> FunctionId {
        self.id(Function { name: name.to_owned(), module: UNKNOWN.to_owned(), is_named: false })
    }

    fn id(&mut self, function: Function) -> FunctionId {
        if let Some(id) = self.ids.get(&function) {
            return *id;
        }
        let id = FunctionId(self.functions.len() as u32);
        self.functions.push(function.clone());
        self.ids.insert(function, id);
        id
    }
}

/// The name without the marks that compilers add to clones of a function. The cost of a function
/// would be divided among its clones otherwise.
fn plain_name(name: &str) -> &str {
    let mut name = name;
    while let Some((front, last)) = name.rsplit_once('.') {
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) && !last.is_empty();
        let is_mark = ["cold", "isra", "part", "constprop", "llvm", "lto_priv"].contains(&last);
        if front.is_empty() || !(is_number || is_mark) {
            break;
        }
        name = front;
    }
    match name.rsplit_once("::h") {
        Some((front, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => front,
        _ => name,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::format::tests::origin;
    use std::time::Duration;

    /// A profile of stacks, written outermost first and separated by `;`, with their numbers of
    /// samples.
    pub(crate) fn profile(stacks: &[(&str, u64)]) -> StackProfile {
        let mut profile = StackProfile::empty(origin());
        let mut ids = HashMap::new();
        let mut time = 0;
        for (stack, count) in stacks {
            let functions = stack.rsplit(';').map(|name| {
                *ids.entry(name.to_owned()).or_insert_with(|| {
                    let module = if name.starts_with("k_") { KERNEL } else { "prog" };
                    profile.functions.push(Function {
                        name: name.to_owned(),
                        module: module.to_owned(),
                        is_named: true,
                    });
                    FunctionId(profile.functions.len() as u32 - 1)
                })
            });
            let functions = functions.collect();
            profile.stacks.push(functions);
            for _ in 0..*count {
                time += 1_003_009;
                let stack = profile.stacks.len() as u32 - 1;
                let cpu = (time / 1_003_009 % 2) as u32;
                profile.samples.push(Sampled {
                    time,
                    cpu,
                    pid: 7,
                    tid: 7,
                    stack,
                    weight: 1_003_009,
                    color: 0,
                });
            }
        }
        profile.duration_ns = time;
        profile
    }

    /// Regression: the message said that the process was idle.
    #[test]
    fn window_behind_the_end_is_named() {
        let of = |from: u64, to: Option<u64>| Window {
            from: Duration::from_secs(from),
            to: to.map(Duration::from_secs),
        };
        let checked = |samples: u64, window| {
            let profile = profile(&[("main", samples)]);
            let checked = profile.check_content(Path::new("x.prof"), window, 10_000_000_000);
            checked.map_err(|error| error.to_string())
        };
        assert_eq!([checked(1, None), checked(1, Some(of(10, None)))], [Ok(()), Ok(())]);
        let behind = "x.prof: no samples in the window 100s..200s, and the recording lasts 10.0 s";
        for samples in [0, 1] {
            let why = checked(samples, Some(of(100, Some(200)))).unwrap_err();
            assert!(why.starts_with(behind) && why.contains("--window"), "{why}");
        }
        assert!(checked(0, Some(of(1, None))).unwrap_err().contains("window 1s.., and"));
        assert!(checked(0, None).unwrap_err().contains("the process was idle"));
    }

    #[test]
    fn late_column_grows_from_its_first_tick() {
        let mut profile = profile(&[("main", 10)]);
        let column = |name: &str, unit: &str| Series::of_cpu(name, unit, 0, 0);
        profile.series = vec![column("busy", "count"), column("requests", OF_SUBJECT)];
        // The subject begins to count after a second.
        let values = [vec![0], vec![100, 40], vec![200, 140], vec![300, 240]];
        profile.ticks =
            (0..).zip(values).map(|(s, values)| Tick { time: s * 1_000_000_000, values }).collect();
        assert_eq!(profile.growth(0), Some((300, 3.0)));
        assert_eq!(profile.growth(1), Some((200, 2.0)));
        profile.duration_ns = 3_000_000_000;
        let work = profile.counted_work().unwrap();
        assert_eq!((work.units, work.unit.as_str(), work.cpus), (200.0, "requests", 1));
        let weight =
            profile.samples.iter().filter(|sample| sample.cpu == 0).map(|sample| sample.weight).sum();
        assert_eq!(profile.work_of_cores(), [CoreUnits { cpu: 0, units: 200.0, weight }]);
    }

    #[test]
    fn recursion_counts_once_in_total() {
        let profile = profile(&[("main;f;f;g", 3), ("main;f", 1)]);
        let of = |name: &str| {
            let costs = profile.costs();
            let cost = costs.into_iter().find(|cost| profile.function(cost.function).name == name).unwrap();
            (cost.own / 1_003_009, cost.total / 1_003_009)
        };
        assert_eq!([of("main"), of("f"), of("g")], [(0, 4), (1, 4), (3, 3)]);
    }

    #[test]
    fn clones_of_function_have_one_name() {
        for (name, plain) in [
            ("copy.cold", "copy"),
            ("copy.isra.0.cold", "copy"),
            ("copy.constprop.12", "copy"),
            ("core::fmt::write::h0123456789abcdef", "core::fmt::write"),
            ("core::fmt::write", "core::fmt::write"),
            ("a.b", "a.b"),
            (".text", ".text"),
        ] {
            assert_eq!(plain_name(name), plain);
        }
    }
}
