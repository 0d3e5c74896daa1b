//! Walks stacks by the unwind tables of files, for code without frame pointers.
//!
//! The kernel copies registers and the upper part of the stack with each sample; framehop walks it
//! with `.eh_frame`. Tables are read once for each file and shared by all processes. A walk that
//! fails keeps the frames that it found. Leaves out names (`symbols`). Tested below, and in
//! `tests/record.rs` on a program without frame pointers.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::{
    CacheAarch64 as Cache, UnwindRegsAarch64 as Registers, UnwinderAarch64 as ProcessUnwinder,
};
#[cfg(target_arch = "x86_64")]
use framehop::x86_64::{
    CacheX86_64 as Cache, UnwindRegsX86_64 as Registers, UnwinderX86_64 as ProcessUnwinder,
};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};
use object::{Object, ObjectSection, ObjectSegment, ReadRef};

use crate::event::{Dump, Map};
use crate::module_files::ModuleFiles;
use crate::perf::{DUMP_BYTES, SHORT_DUMP_BYTES};
use crate::processes::Processes;
use crate::vdso::{self, VDSO};

/// The least page of the architectures, at whose multiples maps begin.
const PAGE_BYTES: u64 = 4_096;
/// Unwind tables in memory, of all files together. Further files have none.
const TABLE_BYTES_MAX: usize = 256 << 20;

/// Walks the stacks of all processes of a recording.
#[derive(Default)]
pub(crate) struct Unwinder {
    files: HashMap<PathBuf, Option<Tables>>,
    table_bytes: usize,
    processes: HashMap<i32, ProcessUnwinder<Arc<[u8]>>>,
    cache: Cache,
    cut: u64,
}

/// The unwind tables of a file.
#[derive(Clone)]
struct Tables {
    /// The build-id of the file, empty if there is none.
    build_id: Vec<u8>,
    base_svma: u64,
    /// Offset in the file, address and length of each segment of code.
    segments: Vec<(u64, u64, u64)>,
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    eh_frame: Option<(Range<u64>, Arc<[u8]>)>,
    eh_frame_hdr: Option<(Range<u64>, Arc<[u8]>)>,
}

impl Unwinder {
    /// The maps of a process have changed.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    /// Walks that needed more of the stack than a short copy has, and that a longer copy may have.
    pub(crate) fn cut(&self) -> u64 {
        self.cut
    }

    /// Appends the addresses of a stack, innermost first; callers' are return addresses. Returns
    /// the bytes of the copy that hold the frames found.
    pub(crate) fn walk(
        &mut self,
        pid: i32,
        dump: &Dump<'_>,
        processes: &Processes,
        files: &mut ModuleFiles,
        frames_max: usize,
        found: &mut Vec<u64>,
    ) -> usize {
        if !self.processes.contains_key(&pid) {
            let mut unwinder = ProcessUnwinder::new();
            for map in processes.maps(pid) {
                let place = files.place(pid, map).to_owned();
                if let Some(module) = self.module(map, &place, files) {
                    unwinder.add_module(module);
                }
            }
            self.processes.insert(pid, unwinder);
        }
        let unwinder = &self.processes[&pid];
        let is_short = dump.stack.len() == SHORT_DUMP_BYTES as usize;
        let (mut is_cut, mut reach) = (false, 0);
        let mut read = |address: u64| -> Result<u64, ()> {
            let at = usize::try_from(address.checked_sub(dump.sp).ok_or(())?).map_err(|_| ())?;
            is_cut |= is_short && (SHORT_DUMP_BYTES as usize - 7..DUMP_BYTES as usize).contains(&at);
            let end = at.checked_add(8).ok_or(())?;
            let word = dump.stack.get(at..end).ok_or(())?;
            reach = reach.max(end);
            Ok(u64::from_ne_bytes(word.try_into().expect("eight bytes")))
        };
        #[cfg(target_arch = "x86_64")]
        let registers = Registers::new(dump.ip, dump.sp, dump.fp);
        #[cfg(target_arch = "aarch64")]
        let registers = Registers::new(dump.lr, dump.sp, dump.fp);
        let mut frames = unwinder.iter_frames(dump.ip, registers, &mut self.cache, &mut read);
        let is_whole = loop {
            match frames.next() {
                Ok(Some(frame)) if found.len() < frames_max => found.push(frame.address()),
                Ok(None) => break true,
                Ok(Some(_)) | Err(_) => break false,
            }
        };
        self.cut += u64::from(is_cut);
        if is_whole { reach } else { dump.stack.len() }
    }

    /// The module of a map, whose file can be read at `place`. The tables of another build would
    /// lead to wrong callers, so such a file has no module.
    fn module(&mut self, map: &Map, place: &Path, files: &ModuleFiles) -> Option<Module<Arc<[u8]>>> {
        if !self.files.contains_key(place) {
            let tables = Tables::read(place).filter(|tables| {
                self.table_bytes += tables.bytes();
                self.table_bytes <= TABLE_BYTES_MAX
            });
            self.files.insert(place.to_owned(), tables);
        }
        let tables = self.files[place].as_ref().filter(|tables| files.is_recorded(map, &tables.build_id))?;
        // A map begins at a page, which may lie before its segment.
        let (offset, address, _) = tables.segments.iter().find(|(offset, _, length)| {
            let page = offset - offset % PAGE_BYTES;
            (page..offset.saturating_add(*length)).contains(&map.offset)
        })?;
        let svma = map.offset.wrapping_sub(*offset).wrapping_add(*address);
        let base_avma = map.start.wrapping_sub(svma).wrapping_add(tables.base_svma);
        let sections = ExplicitModuleSectionInfo {
            base_svma: tables.base_svma,
            text_svma: tables.text.clone(),
            got_svma: tables.got.clone(),
            eh_frame_svma: tables.eh_frame.as_ref().map(|(range, _)| range.clone()),
            eh_frame: tables.eh_frame.as_ref().map(|(_, data)| Arc::clone(data)),
            eh_frame_hdr_svma: tables.eh_frame_hdr.as_ref().map(|(range, _)| range.clone()),
            eh_frame_hdr: tables.eh_frame_hdr.as_ref().map(|(_, data)| Arc::clone(data)),
            ..ExplicitModuleSectionInfo::default()
        };
        Some(Module::new(
            map.path.clone(),
            map.start..map.start.saturating_add(map.length),
            base_avma,
            sections,
        ))
    }
}

impl Tables {
    fn read(path: &Path) -> Option<Self> {
        if path == Path::new(VDSO) {
            return Some(Self::of(&object::File::parse(&*vdso::image()?).ok()?));
        }
        if !path.is_absolute() {
            return None;
        }
        let cache = object::ReadCache::new(fs::File::open(path).ok()?);
        Some(Self::of(&object::File::parse(&cache).ok()?))
    }

    fn of<'a>(file: &object::File<'a, impl ReadRef<'a>>) -> Self {
        let range = |name: &str| {
            file.section_by_name(name).map(|section| section.address()..section.address() + section.size())
        };
        let with_data = |name: &str| {
            let section = file.section_by_name(name)?;
            let data: Arc<[u8]> = section.data().ok()?.into();
            Some((section.address()..section.address() + section.size(), data))
        };
        let segments = file.segments().filter_map(|segment| {
            let is_code = segment.permissions().executable();
            let (offset, length) = segment.file_range();
            is_code.then(|| (offset, segment.address(), length))
        });
        Self {
            build_id: file.build_id().ok().flatten().unwrap_or_default().to_vec(),
            base_svma: file.relative_address_base(),
            segments: segments.collect(),
            text: range(".text"),
            got: range(".got"),
            eh_frame: with_data(".eh_frame"),
            eh_frame_hdr: with_data(".eh_frame_hdr"),
        }
    }

    fn bytes(&self) -> usize {
        [&self.eh_frame, &self.eh_frame_hdr].into_iter().flatten().map(|(_, data)| data.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module_files::ProcessesRun;

    /// Regression: stacks of an imported file were walked with the tables of another build, if a
    /// file of this machine had the same path.
    #[test]
    fn tables_of_another_build_are_not_used() {
        let pid = std::process::id() as i32;
        let here = tables_of_another_build_are_not_used as fn() as usize as u64;
        let map = Processes::tree(pid).find(pid, here).unwrap().clone();
        let path = PathBuf::from(&map.path);
        let mut unwinder = Unwinder::default();
        let mut is_used = |build_id: Option<Vec<u8>>, processes: ProcessesRun| {
            let map = Map { build_id, ..map.clone() };
            unwinder.module(&map, &path, &ModuleFiles::new(processes)).is_some()
        };
        let own = map.build_id.clone();
        assert!(own.is_some() && is_used(own, ProcessesRun::Elsewhere));
        assert!(!is_used(Some(vec![1; 20]), ProcessesRun::Elsewhere));
        assert!(!is_used(Some(vec![1; 20]), ProcessesRun::Now));
        assert!(!is_used(None, ProcessesRun::Elsewhere));
        assert!(is_used(None, ProcessesRun::Before));
    }
}
