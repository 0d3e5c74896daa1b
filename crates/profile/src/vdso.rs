//! The kernel's code in the memory of each process (vDSO), such as `clock_gettime`:
//! an ELF image without a file.
//!
//! All 64-bit processes of a boot have the image of this process. Leaves out walking stacks
//! (`unwind`) and names of other code (`symbols`). Tested below and in `tests/record.rs`.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use object::{Object as _, ObjectSymbol as _};

/// The path of the image in a list of maps.
pub(crate) const VDSO: &str = "[vdso]";

/// The image in the memory of this process.
pub(crate) fn image() -> Option<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with(VDSO))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).ok());
    let mut bytes = vec![0; usize::try_from(end?.checked_sub(start?)?).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start?).ok()?;
    Some(bytes)
}

/// The addresses and names of the image's functions.
pub(crate) fn functions() -> Vec<(Range<u64>, String)> {
    let image = image().unwrap_or_default();
    let Ok(file) = object::File::parse(&*image) else { return Vec::new() };
    let function = |symbol: object::Symbol<'_, '_>| {
        let range = symbol.address()..symbol.address().saturating_add(symbol.size());
        let name = symbol.name().ok()?;
        // Each function has two names, and programs call the plain name.
        (!range.is_empty() && !name.starts_with("__")).then(|| (range, name.to_owned()))
    };
    file.dynamic_symbols().filter_map(function).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_of_this_process_has_clock() {
        let Some(image) = image() else { return eprintln!("skipped: no image in this process") };
        assert!(image.starts_with(b"\x7fELF"));
        let functions = functions();
        assert!(functions.iter().any(|(_, name)| name == "clock_gettime"), "{functions:?}");
    }
}
