//! Names of places: functions of files by their symbols and debug information, of the kernel by
//! `/proc/kallsyms`.
//!
//! A file is asked only if its build-id is still the recorded one, because names of another build
//! would be wrong. A file without a build-id is asked only in the boot of the recording. Leaves out
//! grouping (`profile`). Tested below on this test program.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};
use object::{Object, ObjectSection};

use crate::debug_file::{DebugFile, build_id};
use crate::format::{Frame, KERNEL, MissingCounter, Module, Symbol};
use crate::machine::{self, KALLSYMS};
use crate::vdso::{self, VDSO};

/// The names of the kernel among the things that a recording lacks.
pub(crate) const KERNEL_NAMES: &str = "names of kernel functions";

/// The source of the kernel's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelNames {
    /// The kernel that runs now is the recorded one.
    Here,
    /// A copy of `/proc/kallsyms`.
    Copy(PathBuf),
    /// Another kernel, whose addresses mean nothing here.
    None,
}

impl KernelNames {
    /// Why no function of the kernel can be named, if so.
    pub(crate) fn lacking(&self) -> Option<&'static str> {
        match self {
            Self::Here if !machine::shows_kernel_symbols(Path::new(KALLSYMS)) => Some(
                "their addresses are hidden from this user; record as root, or with kernel.kptr_restrict at 0",
            ),
            Self::Copy(path) if !machine::shows_kernel_symbols(path) => Some(
                "the copy of /proc/kallsyms has no addresses; copy it as root, or with kernel.kptr_restrict at 0",
            ),
            Self::None => {
                Some("they are of another kernel or boot; import with --kallsyms, a copy of /proc/kallsyms")
            }
            Self::Here | Self::Copy(_) => None,
        }
    }

    /// The names of this kernel, if a recording is of its present boot.
    pub(crate) fn of_boot(boot: &str) -> Self {
        if boot == machine::boot() { Self::Here } else { Self::None }
    }
}

/// What a recording with the kernel's part lacks, if its functions cannot be named.
pub(crate) fn missing_names(kernel: &KernelNames) -> Option<MissingCounter> {
    let why = kernel.lacking()?.to_owned();
    Some(MissingCounter { name: KERNEL_NAMES.to_owned(), why })
}

/// The names of places. Places without a name are left out.
pub(crate) fn resolve(
    modules: &[Module],
    places: impl Iterator<Item = Frame>,
    kernel: &KernelNames,
) -> Vec<Symbol> {
    let mut by_module: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for place in places {
        by_module.entry(place.module).or_default().push(place.offset);
    }
    let symbolizer = Symbolizer::builder().enable_auto_reload(false).build();
    let mut symbols = Vec::new();
    for (module_id, mut offsets) in by_module {
        let Some(module) = modules.get(module_id as usize) else { continue };
        offsets.sort_unstable();
        offsets.dedup();
        if module.path == VDSO && *kernel == KernelNames::Here {
            symbols.extend(of_vdso(module_id, &offsets));
            continue;
        }
        let found = match source(module, kernel) {
            Some(NameSource::Kernel(source)) => symbolize(&symbolizer, &source, Input::AbsAddr(&offsets)),
            Some(NameSource::File) => of_file(&symbolizer, &module.path, &offsets),
            None => continue,
        };
        for (offset, found) in offsets.iter().zip(found) {
            if let Some(found) = found {
                symbols.push(symbol(Frame { module: module_id, offset: *offset }, &found));
            }
        }
    }
    symbols
}

/// Names of the kernel's functions in the memory of processes, whose offsets are addresses.
fn of_vdso(module: u32, offsets: &[u64]) -> Vec<Symbol> {
    let functions = vdso::functions();
    let named = offsets.iter().filter_map(|offset| {
        let (_, name) = functions.iter().find(|(range, _)| range.contains(offset))?;
        let frame = Frame { module, offset: *offset };
        let (inlined, file) = Default::default();
        Some(Symbol { frame, function: name.clone(), inlined, file, line: 0 })
    });
    named.collect()
}

/// The source of a module's names.
enum NameSource {
    Kernel(Source<'static>),
    File,
}

fn source(module: &Module, kernel: &KernelNames) -> Option<NameSource> {
    if module.path == KERNEL {
        let kallsyms = match kernel {
            names if names.lacking().is_some() => return None,
            KernelNames::Copy(path) => MaybeDefault::Some(path.clone()),
            KernelNames::Here | KernelNames::None => MaybeDefault::Default,
        };
        // Without a search for the kernel's image, which is large and seldom installed.
        let kernel = Kernel { kallsyms, vmlinux: MaybeDefault::None, debug_syms: false, ..Kernel::default() };
        return Some(NameSource::Kernel(Source::Kernel(kernel)));
    }
    let is_same = Path::new(&module.path).is_absolute()
        && (!module.build_id.is_empty() || *kernel == KernelNames::Here)
        && build_id(&module.path).unwrap_or_default() == module.build_id;
    is_same.then_some(NameSource::File)
}

/// Names of a file's functions, also from its separate file. The table of symbols has whole names,
/// and debug information often only their last parts; but debug information alone knows lines and
/// inlined functions.
fn of_file<'a>(symbolizer: &'a Symbolizer, path: &str, offsets: &[u64]) -> Vec<Option<Sym<'a>>> {
    let [mut detailed, mut named] = of_elf(symbolizer, Path::new(path), Input::FileOffset(offsets));
    if let Some(separate) = DebugFile::of(path) {
        // No function is at the highest address.
        let address = |offset: &u64| separate.address(*offset).unwrap_or(u64::MAX);
        let addresses: Vec<u64> = offsets.iter().map(address).collect();
        let places = Input::VirtOffset(&*addresses);
        let [more_detailed, more_named] = of_elf(symbolizer, &separate.path, places);
        fill(&mut detailed, more_detailed);
        fill(&mut named, more_named);
    }
    let joined = detailed.into_iter().zip(named).map(|(detailed, named)| match (detailed, named) {
        (Some(mut detailed), Some(named)) => {
            detailed.name = named.name;
            Some(detailed)
        }
        (detailed, named) => detailed.or(named),
    });
    joined.collect()
}

fn fill<'a>(found: &mut [Option<Sym<'a>>], more: Vec<Option<Sym<'a>>>) {
    found.iter_mut().zip(more).for_each(|(found, more)| *found = found.take().or(more));
}

/// Symbols by debug information where there is any, and by the table of symbols alone.
fn of_elf<'a>(symbolizer: &'a Symbolizer, path: &Path, places: Input<&[u64]>) -> [Vec<Option<Sym<'a>>>; 2] {
    let sections = sections(path);
    [true, false].map(|debug_syms| {
        let elf = Elf { debug_syms, ..Elf::new(path) };
        let mut found = symbolize(symbolizer, &Source::Elf(elf), places);
        found.iter_mut().for_each(|found| *found = found.take().filter(|found| is_code_of(found, &sections)));
        found
    })
}

/// The addresses of a file's sections; none if the file cannot be read.
fn sections(path: &Path) -> Vec<Range<u64>> {
    let read = || {
        let cache = object::ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let ranges = file.sections().map(|section| section.address()..section.address() + section.size());
        // Sections that are not in memory have no address.
        Some(ranges.filter(|range| range.start > 0).collect())
    };
    read().unwrap_or_default()
}

/// Whether a place belongs to its symbol. A symbol without a size reaches to the next symbol, but
/// not into another section: behind `_init` stand the stubs of calls into other libraries.
fn is_code_of(found: &Sym<'_>, sections: &[Range<u64>]) -> bool {
    let is_sized = found.size.is_some_and(|size| size > 0);
    is_sized || is_one_section(found.addr, found.addr + found.offset as u64, sections)
}

fn is_one_section(symbol: u64, place: u64, sections: &[Range<u64>]) -> bool {
    !sections.iter().any(|range| range.contains(&symbol) && !range.contains(&place))
}

/// The symbol of each place; none at all if the source cannot be read.
fn symbolize<'a>(
    symbolizer: &'a Symbolizer,
    source: &Source<'_>,
    input: Input<&[u64]>,
) -> Vec<Option<Sym<'a>>> {
    match symbolizer.symbolize(source, input) {
        Ok(found) => found.into_iter().map(Symbolized::into_sym).collect(),
        Err(_) => vec![None; input.as_inner_ref().len()],
    }
}

fn symbol(frame: Frame, found: &Sym<'_>) -> Symbol {
    let code = found.code_info.as_deref();
    Symbol {
        frame,
        function: found.name.to_string(),
        inlined: found.inlined.iter().map(|inlined| inlined.name.to_string()).collect(),
        file: code.map(|code| code.to_path().to_string_lossy().into_owned()).unwrap_or_default(),
        line: code.and_then(|code| code.line).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::Processes;

    #[inline(never)]
    fn a_function_to_be_named() -> u64 {
        std::hint::black_box(1)
    }

    #[test]
    fn function_of_this_program_has_name() {
        a_function_to_be_named();
        let address = a_function_to_be_named as fn() -> u64 as usize as u64;
        let pid = std::process::id() as i32;
        let processes = Processes::tree(pid);
        let map = processes.find(pid, address).unwrap();
        let module = Module { path: map.path.clone(), build_id: build_id(&map.path).unwrap_or_default() };
        let place = Frame { module: 0, offset: address - map.start + map.offset };
        let found = resolve(std::slice::from_ref(&module), [place].into_iter(), &KernelNames::Here);
        assert!(found[0].function.contains("symbols::tests::a_function_to_be_named"), "{found:?}");
        // A build without debug information knows no lines.
        if option_env!("CARGO_PROFILE_DEV_DEBUG") != Some("0") {
            assert!(found[0].file.ends_with("symbols.rs"), "{found:?}");
        }
        let rebuilt = Module { build_id: vec![1; 20], ..module };
        assert!(resolve(&[rebuilt], [place].into_iter(), &KernelNames::Here).is_empty());
    }

    /// Regression: places of an imported file had the names of a file of this machine with the same
    /// path, if neither had a build-id.
    #[test]
    fn file_without_build_id_is_asked_in_boot_of_recording() {
        let mut bytes = std::fs::read("/proc/self/exe").unwrap();
        let pid = std::process::id() as i32;
        let address = a_function_to_be_named as fn() -> u64 as usize as u64;
        let processes = Processes::tree(pid);
        let map = processes.find(pid, address).unwrap();
        let offset = address - map.start + map.offset;
        let note = |bytes: &[u8]| {
            let file = object::File::parse(bytes).unwrap();
            let section = file.section_by_name(".note.gnu.build-id").unwrap();
            section.file_range().unwrap().0 as usize
        };
        // Behind the lengths of the note's name and content stands its kind.
        let kind = note(&bytes) + 8;
        bytes[kind..kind + 4].fill(0);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prog").to_str().unwrap().to_owned();
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(build_id(&path), None);
        let module = Module { path, build_id: Vec::new() };
        let place = Frame { module: 0, offset };
        let named =
            |kernel: &KernelNames| resolve(std::slice::from_ref(&module), [place].into_iter(), kernel).len();
        assert_eq!([&KernelNames::Here, &KernelNames::None].map(named), [1, 0]);
    }

    /// Regression: the stubs of calls into other libraries had the name `_init` or `_fini`.
    #[test]
    fn stub_of_a_call_has_no_name() {
        let path = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let cache = object::ReadCache::new(File::open(&path).unwrap());
        let file = object::File::parse(&cache).unwrap();
        let Some((offset, _)) = file.section_by_name(".plt").and_then(|stubs| stubs.file_range()) else {
            return eprintln!("skipped: this program has no stubs");
        };
        let module = Module { build_id: build_id(&path).unwrap_or_default(), path };
        let stub = Frame { module: 0, offset };
        assert_eq!(resolve(&[module], [stub].into_iter(), &KernelNames::Here), []);
    }

    #[test]
    fn symbol_without_size_ends_with_its_section() {
        let sections = [0x1000..0x1017, 0x1020..0x2000];
        assert!(is_one_section(0x1000, 0x1010, &sections));
        assert!(!is_one_section(0x1000, 0x1020, &sections));
        assert!(is_one_section(0x1000, 0x1020, &[]), "of an unreadable file");
    }

    #[test]
    fn kernel_of_another_boot_has_no_names() {
        let kernel = Module { path: KERNEL.to_owned(), build_id: Vec::new() };
        let place = Frame { module: 0, offset: 0xffff_ffff_8100_0000 };
        assert!(resolve(&[kernel], [place].into_iter(), &KernelNames::None).is_empty());
    }
}
