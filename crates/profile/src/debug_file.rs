//! Separate files with the names of a stripped program, as `objcopy --only-keep-debug` writes them.
//!
//! A file is found by the build-id of the program in `/usr/lib/debug/.build-id`, or by the name in
//! the program's `.gnu_debuglink` section: beside the program, in `.debug` there, or in
//! `/usr/lib/debug`. A candidate counts only if its build-id, or without build-ids its checksum, is
//! that of the program. Leaves out names (`symbols`). Tested below and in `tests/bad_cases.rs`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use blazesym::helper::read_elf_build_id;
use object::{Object, ObjectSegment};

/// The folder in which distributions install separate files.
const FOLDER: &str = "/usr/lib/debug";

/// The separate file of a program, and the program's segments.
pub(crate) struct DebugFile {
    pub(crate) path: PathBuf,
    /// Offset in the program, virtual address and length of each segment. The separate file has
    /// other offsets, because the code is missing there.
    segments: Vec<(u64, u64, u64)>,
}

impl DebugFile {
    /// The separate file of the program at `path`, if there is one.
    pub(crate) fn of(path: &str) -> Option<Self> {
        Self::within(Path::new(path), Path::new(FOLDER))
    }

    fn within(program: &Path, folder: &Path) -> Option<Self> {
        // Before the real path, which of an open file of a container is another file here.
        let cache = object::ReadCache::new(File::open(program).ok()?);
        let program = program.canonicalize().ok()?;
        let file = object::File::parse(&cache).ok()?;
        let id = file.build_id().ok().flatten().map(<[u8]>::to_vec);
        let segments = file.segments().map(|segment| {
            let (offset, length) = segment.file_range();
            (offset, segment.address(), length)
        });
        let segments = segments.collect();
        let named = id.as_deref().and_then(|id| by_build_id(id, folder));
        let path = named.or_else(|| {
            let (name, checksum) = file.gnu_debuglink().ok().flatten()?;
            by_link(&program, std::str::from_utf8(name).ok()?, checksum, id.as_deref(), folder)
        })?;
        Some(Self { path, segments })
    }

    /// The virtual address of an offset in the program.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        let holds = |(start, _, length): &&(u64, u64, u64)| {
            offset.checked_sub(*start).is_some_and(|inside| inside < *length)
        };
        let (start, address, _) = self.segments.iter().find(holds)?;
        Some(offset - start + address)
    }
}

/// The build-id of a file.
pub(crate) fn build_id(path: &str) -> Option<Vec<u8>> {
    let path = Path::new(path);
    if !path.is_absolute() {
        return None;
    }
    read_elf_build_id(path).ok().flatten().map(|id| id.to_vec())
}

fn by_build_id(id: &[u8], folder: &Path) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = folder.join(format!(".build-id/{first:02x}/{rest}.debug"));
    (build_id(path.to_str()?).as_deref() == Some(id)).then_some(path)
}

fn by_link(program: &Path, name: &str, checksum: u32, id: Option<&[u8]>, folder: &Path) -> Option<PathBuf> {
    let beside = program.parent()?;
    // Without folders, as the format demands.
    let name = Path::new(name).file_name()?;
    let installed = folder.join(beside.strip_prefix("/").ok()?);
    let mut candidates = [beside.join(name), beside.join(".debug").join(name), installed.join(name)]
        .into_iter()
        .filter(|path| path != program && path.is_file());
    candidates.find(|path| {
        let found = path.to_str().and_then(build_id);
        match (id, found) {
            (Some(id), Some(found)) => found == id,
            _ => crc32(path).is_ok_and(|found| found == checksum),
        }
    })
}

/// The checksum of a whole file.
fn crc32(path: &Path) -> io::Result<u32> {
    let mut file = File::open(path)?;
    let mut hasher = crc32fast::Hasher::new();
    let mut bytes = vec![0; 256 << 10];
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(hasher.finalize()),
            read => hasher.update(&bytes[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    /// Runs a tool of binutils; `false` without the tool.
    fn run(tool: &str, words: &[&str]) -> bool {
        let done = Command::new(tool).args(words).status().is_ok_and(|status| status.success());
        if !done {
            eprintln!("skipped: {tool} is missing");
        }
        done
    }

    /// This test program without names, and its separate file; `None` without binutils.
    fn separated(folder: &Path, link: bool) -> Option<(PathBuf, PathBuf)> {
        let (program, separate) = (folder.join("prog"), folder.join("prog.debug"));
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let (short, long) = (program.to_str().unwrap(), separate.to_str().unwrap());
        let is_done = run("objcopy", &["--only-keep-debug", short, long])
            && run("strip", &[short])
            && (!link || run("objcopy", &["--add-gnu-debuglink", long, short]));
        is_done.then_some((program, separate))
    }

    #[test]
    fn linked_file_is_found_beside_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let Some((program, separate)) = separated(folder.path(), true) else { return };
        let nowhere = folder.path().join("none");
        let found = |program: &Path| Some(DebugFile::within(program, &nowhere)?.path);
        assert_eq!(found(&program).as_ref(), Some(&separate));
        let hidden = folder.path().join(".debug/prog.debug");
        fs::create_dir(folder.path().join(".debug")).unwrap();
        fs::rename(&separate, &hidden).unwrap();
        assert_eq!(found(&program), Some(hidden.clone()));
        // The file of another build does not count.
        fs::write(&hidden, "another").unwrap();
        assert_eq!(found(&program), None);
    }

    #[test]
    fn file_without_link_is_found_by_build_id() {
        let folder = tempfile::tempdir().unwrap();
        let Some((program, separate)) = separated(folder.path(), false) else { return };
        let id = build_id(program.to_str().unwrap()).expect("the linker writes build-ids");
        let rest: String = id[1..].iter().map(|byte| format!("{byte:02x}")).collect();
        let installed = folder.path().join(format!(".build-id/{:02x}/{rest}.debug", id[0]));
        fs::create_dir_all(installed.parent().unwrap()).unwrap();
        assert!(DebugFile::within(&program, folder.path()).is_none());
        fs::rename(&separate, &installed).unwrap();
        assert_eq!(DebugFile::within(&program, folder.path()).unwrap().path, installed);
    }

    #[test]
    fn offset_becomes_address_of_its_segment() {
        let file = DebugFile { path: PathBuf::new(), segments: vec![(0, 0, 16), (16, 0x1010, 32)] };
        let found = [15, 16, 47, 48].map(|offset| file.address(offset));
        assert_eq!(found, [Some(15), Some(0x1010), Some(0x102f), None]);
    }
}
