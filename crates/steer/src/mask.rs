//! Sets of cpus in the form of sysfs: words of 32 bits in hexadecimal, the highest first, between
//! commas.
//!
//! Lists (`0-3`) are [`CpuSet`]'s form.

use vermeil_topology::{CPUS_MAX, CpuId, CpuSet};

const WORD_BITS: u32 = u32::BITS;

/// Reads `00000000,0000000f`; `None` for malformed text.
pub(crate) fn parse(text: &str) -> Option<CpuSet> {
    let words: Vec<u32> = text
        .trim()
        .split(',')
        .map(|word| u32::from_str_radix(word.trim(), 16).ok())
        .collect::<Option<_>>()?;
    let mut cpus = CpuSet::new();
    for (word, first) in words.iter().rev().zip((0..).step_by(WORD_BITS as usize)) {
        for bit in (0..WORD_BITS).filter(|bit| word >> bit & 1 == 1) {
            let cpu = first + bit;
            if cpu >= CPUS_MAX {
                return None;
            }
            cpus.insert(CpuId(cpu));
        }
    }
    Some(cpus)
}

/// The shortest mask for `cpus`; `0` for none.
pub(crate) fn format(cpus: &CpuSet) -> String {
    let highest = cpus.iter().last().map_or(0, |cpu| cpu.0);
    let mut words = vec![0u32; (highest / WORD_BITS) as usize + 1];
    for cpu in cpus.iter() {
        words[(cpu.0 / WORD_BITS) as usize] |= 1 << (cpu.0 % WORD_BITS);
    }
    let mut words = words.iter().rev();
    let mut text = format!("{:x}", words.next().expect("at least one word"));
    for word in words {
        text += &format!(",{word:08x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_and_written() {
        for (mask, list) in [("0", ""), ("f", "0-3"), ("1,00000000", "32"), ("80000000,00000001", "0,63")] {
            let cpus: CpuSet = list.parse().unwrap();
            assert_eq!(parse(mask), Some(cpus.clone()), "{mask}");
            assert_eq!(format(&cpus), mask);
        }
        assert_eq!(parse("00000000,0000000f\n"), Some("0-3".parse().unwrap()));
        assert_eq!(parse("x"), None);
        assert_eq!(parse(""), None);
        assert_eq!(parse(&vec!["1"; 1000].join(",")), None, "no machine has that many cpus");
    }
}
