//! The process tree that is profiled, and the code in the memory of each process.
//!
//! Starts from `/proc` for processes that run already, and follows forks, new programs and new maps
//! by the kernel's records. Leaves out threads: a thread shares the maps of its process. Tested
//! below, and with real processes in `tests/record.rs`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::rc::Rc;

use crate::debug_file::build_id;
use crate::event::Map;
use crate::module_files::seen_by;

/// The maps of one process by their first address.
type Maps = BTreeMap<u64, Rc<Map>>;

/// The processes of the tree.
pub(crate) struct Processes {
    /// Shared between a parent and its children until one of them changes.
    maps: HashMap<i32, Rc<Maps>>,
    /// Processes of which a thread has ended since the last look.
    ending: HashSet<i32>,
    /// Processes without a thread, with the time of the look.
    ended: Vec<(u64, i32)>,
    /// The first process. Its number is not used again during a recording, and its own beginning,
    /// as a child of the recorder, must not be taken for a stranger's.
    root: i32,
    /// Whether all processes belong to the tree, as in a file of `perf record`.
    all: bool,
}

impl Processes {
    /// A process and all its descendants that run now.
    pub(crate) fn tree(root: i32) -> Self {
        let mut processes = Self { root, ..Self::new() };
        let mut known = BuildIds::new();
        for pid in descendants(root, &parents()) {
            processes.maps.insert(pid, Rc::new(maps_of(pid, &mut known)));
        }
        processes
    }

    /// Each process that appears.
    pub(crate) fn all() -> Self {
        Self { all: true, ..Self::new() }
    }

    fn new() -> Self {
        Self { maps: HashMap::new(), ending: HashSet::new(), ended: Vec::new(), root: 0, all: false }
    }

    /// The numbers of the processes.
    pub(crate) fn pids(&self) -> impl Iterator<Item = i32> {
        self.maps.keys().copied()
    }

    pub(crate) fn contains(&self, pid: i32) -> bool {
        (self.all && pid != 0) || self.maps.contains_key(&pid)
    }

    /// A process began. A child of the tree joins the tree; a number that is used again leaves it.
    pub(crate) fn fork(&mut self, pid: i32, parent: i32) {
        if pid == parent {
            // A thread.
            return;
        }
        self.ending.remove(&pid);
        self.ended.retain(|(_, ended)| *ended != pid);
        match self.maps.get(&parent) {
            Some(maps) => {
                let maps = Rc::clone(maps);
                self.maps.insert(pid, maps);
            }
            None if pid == self.root => {}
            None => {
                self.maps.remove(&pid);
            }
        }
    }

    /// A process has a new program, and so new maps, which follow.
    pub(crate) fn exec(&mut self, pid: i32) {
        if self.contains(pid) {
            self.maps.insert(pid, Rc::default());
        }
    }

    /// A thread of a process has ended, and perhaps the process.
    pub(crate) fn exit(&mut self, pid: i32) {
        if !self.all && pid != self.root && self.maps.contains_key(&pid) {
            self.ending.insert(pid);
        }
    }

    /// Forgets the processes that had ended by `until`, up to which all events were taken. Returns
    /// the numbers of these processes. `now` is the present time.
    pub(crate) fn forget_ended(&mut self, now: u64, until: u64) -> Vec<i32> {
        self.ended.extend(self.ending.drain().filter(|pid| !runs(*pid)).map(|pid| (now, pid)));
        let is_over = |(time, _): &mut (u64, i32)| *time <= until;
        let over: Vec<i32> = self.ended.extract_if(.., is_over).map(|(_, pid)| pid).collect();
        for pid in &over {
            self.maps.remove(pid);
        }
        over
    }

    /// A process has mapped code in place of older maps.
    pub(crate) fn map(&mut self, pid: i32, map: Map) {
        if self.contains(pid) {
            insert(Rc::make_mut(self.maps.entry(pid).or_default()), map);
        }
    }

    /// The processes that run, if the process `first` does not.
    pub(crate) fn outliving(&self, first: i32) -> Vec<i32> {
        let mut running: Vec<i32> = self.pids().filter(|pid| !runs(first) && runs(*pid)).collect();
        running.sort_unstable();
        running
    }

    /// The maps of a process.
    pub(crate) fn maps(&self, pid: i32) -> impl Iterator<Item = &Map> {
        self.maps.get(&pid).into_iter().flat_map(|maps| maps.values()).map(|map| &**map)
    }

    /// The map that an address of a process lies in.
    pub(crate) fn find(&self, pid: i32, address: u64) -> Option<&Map> {
        let (_, map) = self.maps.get(&pid)?.range(..=address).next_back()?;
        (address - map.start < map.length).then_some(map)
    }
}

fn insert(maps: &mut Maps, map: Map) {
    let end = map.start.saturating_add(map.length);
    let reaches_in = |(start, before): (&u64, &Rc<Map>)| {
        (before.start.saturating_add(before.length) > map.start).then_some(*start)
    };
    // A map that begins earlier keeps its front part; the part behind the new map is rare (a hole
    // punched into code) and its addresses become unknown.
    if let Some(start) = maps.range(..map.start).next_back().and_then(reaches_in)
        && let Some(mut before) = maps.remove(&start)
    {
        Rc::make_mut(&mut before).length = map.start - start;
        maps.insert(start, before);
    }
    let covered: Vec<u64> = maps.range(map.start..end).map(|(start, _)| *start).collect();
    for start in covered {
        maps.remove(&start);
    }
    maps.insert(map.start, Rc::new(map));
}

/// The build-ids of files by device and inode. Processes of a pool have the same files.
type BuildIds = HashMap<(String, String), Option<Vec<u8>>>;

/// The code in the memory of a process now; empty for a process that has gone.
fn maps_of(pid: i32, known: &mut BuildIds) -> Maps {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut maps = Maps::new();
    for (mut map, file) in text.lines().filter_map(parse_map) {
        let read = || match seen_by(pid, &map) {
            Some(path) => build_id(path.to_str()?),
            None => build_id(&map.path),
        };
        map.build_id = known.entry(file).or_insert_with(read).clone();
        insert(&mut maps, map);
    }
    maps
}

/// Reads a line of `/proc/PID/maps`, with device and inode; `None` for data.
fn parse_map(line: &str) -> Option<(Map, (String, String))> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?;
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let file = (fields.next()?.to_owned(), fields.next()?.to_owned());
    let path = fields.next().unwrap_or_default().trim_start().to_owned();
    let start = u64::from_str_radix(start, 16).ok()?;
    let length = u64::from_str_radix(end, 16).ok()?.checked_sub(start)?;
    rights.contains('x').then_some((Map { start, length, offset, path, build_id: None }, file))
}

/// The parent of each process that runs now.
fn parents() -> HashMap<i32, i32> {
    let Ok(folder) = fs::read_dir("/proc") else { return HashMap::new() };
    folder
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, parent(pid)?))
        })
        .collect()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may contain anything, a parenthesis too.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn descendants(root: i32, parents: &HashMap<i32, i32>) -> HashSet<i32> {
    let mut found = HashSet::from([root]);
    loop {
        let before = found.len();
        found.extend(
            parents
                .iter()
                .filter(|(_, parent)| found.contains(parent))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        if found.len() == before {
            return found;
        }
    }
}

/// The threads of a process now.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    let Ok(folder) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a thread of a process has not ended. The first thread may end before others.
fn runs(pid: i32) -> bool {
    let runs = |tid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
    };
    threads(pid).into_iter().any(runs)
}

/// The cpu that a thread left last, if the thread waits for an event now.
pub(crate) fn waits_on(pid: i32, tid: i32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // The name before it may contain anything. State is field 3, the cpu field 39.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let waits = matches!(fields.next()?, "S" | "D" | "I");
    let cpu = fields.nth(35)?.parse().ok()?;
    waits.then_some(cpu)
}

/// The name of a thread now.
pub(crate) fn thread_name(pid: i32, tid: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn map(start: u64, length: u64, path: &str) -> Map {
        Map { start, length, offset: 0, path: path.to_owned(), build_id: None }
    }

    fn processes() -> Processes {
        Processes { maps: HashMap::from([(1, Rc::default())]), root: 1, ..Processes::new() }
    }

    #[test]
    fn child_inherits_maps_until_exec() {
        let mut processes = processes();
        processes.map(1, map(0x1000, 0x1000, "/bin/a"));
        processes.fork(2, 1);
        assert_eq!(processes.find(2, 0x1234).unwrap().path, "/bin/a");
        processes.exec(2);
        assert_eq!(processes.find(2, 0x1234), None);
        assert_eq!(processes.find(1, 0x1234).unwrap().path, "/bin/a");
        assert_eq!(processes.find(1, 0x2000), None);
    }

    #[test]
    fn stranger_with_reused_number_leaves_tree() {
        let mut processes = processes();
        processes.fork(2, 1);
        assert!(processes.contains(2));
        processes.fork(2, 99);
        assert!(!processes.contains(2));
        processes.map(2, map(0x1000, 0x1000, "/bin/b"));
        assert!(!processes.contains(2));
    }

    #[test]
    fn root_stays_although_recorder_is_its_parent() {
        let mut processes = processes();
        processes.fork(1, 99);
        assert!(processes.contains(1));
    }

    /// Regression: a recording kept the maps of each process that ended.
    #[test]
    fn ended_process_is_forgotten_after_its_last_event() {
        let mut child = Command::new("sleep").arg("100000").spawn().unwrap();
        let pid = child.id() as i32;
        let mut processes = processes();
        processes.fork(pid, 1);
        processes.exit(pid);
        processes.exit(1);
        assert!(processes.forget_ended(5, 0).is_empty(), "a thread ended, and others run");
        child.kill().unwrap();
        child.wait().unwrap();
        processes.exit(pid);
        assert!(processes.forget_ended(10, 9).is_empty());
        assert!(processes.forget_ended(20, 9).is_empty() && processes.contains(pid), "a sample may follow");
        assert_eq!(processes.forget_ended(30, 10), [pid]);
        assert!(!processes.contains(pid) && processes.contains(1));
        processes.fork(pid, 1);
        processes.exit(pid);
        assert!(processes.forget_ended(40, 30).is_empty());
        processes.fork(pid, 1);
        assert!(
            processes.forget_ended(50, 45).is_empty() && processes.contains(pid),
            "the number is used again"
        );
    }

    #[test]
    fn later_map_hides_earlier_map() {
        let mut processes = processes();
        processes.map(1, map(0x1000, 0x3000, "/old"));
        processes.map(1, map(0x2000, 0x1000, "/new"));
        assert_eq!(processes.find(1, 0x1fff).unwrap().path, "/old");
        assert_eq!(processes.find(1, 0x2000).unwrap().path, "/new");
        processes.map(1, map(0x0, 0x9000, "/all"));
        assert_eq!(processes.find(1, 0x1fff).unwrap().path, "/all");
    }

    #[test]
    fn maps_line_with_spaces_in_path_is_read() {
        let line = "5581e0c00000-5581e0c02000 r-xp 00001000 fd:01 131 /srv/a b/prog (deleted)";
        let (found, file) = parse_map(line).unwrap();
        assert_eq!(file, ("fd:01".to_owned(), "131".to_owned()));
        assert_eq!((found.length, found.offset, &*found.path), (0x2000, 0x1000, "/srv/a b/prog (deleted)"));
        assert_eq!(parse_map("7fff00000000-7fff00001000 rw-p 00000000 00:00 0 [stack]"), None);
    }

    #[test]
    fn this_process_has_maps_and_threads() {
        let pid = std::process::id() as i32;
        let processes = Processes::tree(pid);
        let here = this_process_has_maps_and_threads as fn() as usize as u64;
        let Map { path, build_id: found, .. } = processes.find(pid, here).unwrap();
        assert!(path.contains("vermeil_profile"), "{path}");
        assert!(found.is_some() && *found == build_id(path), "{found:?}");
        assert!(!threads(pid).is_empty());
    }
}
