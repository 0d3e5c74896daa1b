use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn set(text: &str) -> CpuSet {
    text.parse().expect("a cpu list")
}

#[test]
fn lists_are_read_and_printed_in_the_kernels_form() {
    let cases = [
        ("0-7,^3", "0-2,4-7"),
        ("^3,0-7", "0-2,4-7"),
        ("4,2,0", "0,2,4"),
        ("0,1", "0-1"),
        (" 0-3 , 8\n", "0-3,8"),
        ("", ""),
        ("\n", ""),
        ("5,^5", ""),
        ("0-3,2-5,64,8191", "0-5,64,8191"),
    ];
    for (text, printed) in cases {
        assert_eq!(set(text).to_string(), printed, "{text:?}");
    }
}

#[test]
fn errors_name_the_column_and_the_cure() {
    let cases = [
        ("0-3,x", "column 5: \"x\" is not a cpu number"),
        ("0, 7-4", "column 4: the range 7-4 runs backwards"),
        ("0-3,,5", "column 5: a cpu number is missing"),
        ("0-", "column 1: a cpu number is missing"),
        ("8192", "column 1: cpu 8192 is beyond 8191"),
        ("99999999999", "column 1: cpu 99999999999 is beyond 8191"),
        ("0-3,+4", "column 5: \"+4\" is not a cpu number"),
    ];
    for (text, message) in cases {
        let error = text.parse::<CpuSet>().expect_err(text).to_string();
        assert!(error.contains(message) && error.ends_with("write it like 0-7,^3"), "{error}");
    }
}

fn cpus() -> impl Strategy<Value = BTreeSet<u32>> {
    prop::collection::btree_set(prop_oneof![0..130_u32, 0..CPUS_MAX], 0..40)
}

fn of(cpus: &BTreeSet<u32>) -> CpuSet {
    cpus.iter().copied().map(CpuId).collect()
}

proptest! {
    #[test]
    fn printed_cpuset_reads_back(cpus in cpus()) {
        prop_assert_eq!(set(&of(&cpus).to_string()), of(&cpus));
    }

    #[test]
    fn sets_behave_as_sets(a in cpus(), b in cpus()) {
        let (x, y) = (of(&a), of(&b));
        prop_assert_eq!(x.union(&y), of(&a.union(&b).copied().collect()));
        prop_assert_eq!(x.intersection(&y), of(&a.intersection(&b).copied().collect()));
        prop_assert_eq!(x.difference(&y), of(&a.difference(&b).copied().collect()));
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        prop_assert_eq!(x.len(), a.len());
        prop_assert_eq!(x.is_empty(), a.is_empty());
        prop_assert_eq!(x.first().map(|cpu| cpu.0), a.first().copied());
        prop_assert!(b.iter().all(|&cpu| x.contains(CpuId(cpu)) == a.contains(&cpu)));
    }

    #[test]
    fn no_text_panics(text in "[0-9,^ -]{0,12}|.{0,12}") {
        let _ = text.parse::<CpuSet>();
    }
}
