//! Bounds on ordinary folders with files of the kernel's names: which files are written, when, and
//! which conditions prevent the write.

use super::*;
use std::fs;
use tempfile::TempDir;

const FILES: [&str; 4] = ["cgroup.procs", "memory.max", "cpu.max", "pids.max"];

/// A folder with the files of a cgroup.
fn group(around: &TempDir) -> Cgroup {
    let folder = around.path().join("group");
    make(&folder);
    Cgroup { folder, memory_bytes: None, cpu_thousandths: None, processes: None }
}

fn make(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    for (file, text) in FILES.into_iter().zip(["", "max\n", "max 100000\n", "max\n"]) {
        fs::write(folder.join(file), text).expect("a file");
    }
}

fn shown(cgroup: &Cgroup) -> [String; 3] {
    ["memory.max", "cpu.max", "pids.max"]
        .map(|file| fs::read_to_string(cgroup.folder.join(file)).expect("a bound").trim_end().to_owned())
}

fn set(cgroup: &Cgroup, file: &str, text: &str) {
    fs::write(cgroup.folder.join(file), text).expect("a bound");
}

/// The state of a spawner that was told of these cgroups.
fn knowing(profiles: &[&Cgroup]) -> Cgroups {
    let mut cgroups = Cgroups::default();
    profiles.iter().for_each(|cgroup| cgroups.learn(cgroup));
    cgroups
}

fn open(cgroups: &mut Cgroups, cgroup: &Cgroup) {
    cgroups.open(cgroup).map(drop).unwrap_or_else(|(path, fault)| panic!("{}: {fault}", path.display()));
}

/// Regression: bounds were written only into folders that were made here. A folder that existed
/// already had no bounds, or its old bounds.
#[test]
fn a_folder_that_is_there_is_bounded_once() {
    let around = TempDir::new().expect("a folder");
    let plain = group(&around);
    let bounded = Cgroup {
        memory_bytes: Some(64 << 20),
        cpu_thousandths: Some(500),
        processes: Some(9),
        ..plain.clone()
    };
    set(&plain, "pids.max", "700\n");
    let mut cgroups = knowing(&[&bounded]);
    open(&mut cgroups, &bounded);
    assert_eq!(shown(&bounded), ["67108864", "50000 100000", "9"]);
    set(&bounded, "pids.max", "8\n");
    open(&mut cgroups, &bounded);
    assert_eq!(shown(&bounded)[2], "8", "not written at each start");
    open(&mut knowing(&[&bounded]), &bounded);
    assert_eq!(shown(&bounded)[2], "9", "but by the next spawner");
}

#[test]
fn a_reload_changes_bounds_takes_them_out_and_brings_them_back() {
    let around = TempDir::new().expect("a folder");
    let plain = group(&around);
    let first = Cgroup { processes: Some(9), cpu_thousandths: Some(2000), ..plain.clone() };
    let second = Cgroup { processes: Some(5), ..plain.clone() };
    let mut cgroups = knowing(&[&first]);
    open(&mut cgroups, &first);
    cgroups.learn(&second);
    open(&mut cgroups, &second);
    assert_eq!(shown(&second), ["max", "max", "5"]);
    open(&mut cgroups, &first);
    assert_eq!(shown(&first), ["max", "200000 100000", "9"], "a profile that was used before");
    cgroups.learn(&plain);
    open(&mut cgroups, &plain);
    assert_eq!(shown(&plain), ["max", "max", "max"]);
    // The successor of a killed spawner is told of all profiles.
    open(&mut cgroups, &first);
    open(&mut knowing(&[&first, &plain]), &plain);
    assert_eq!(shown(&plain), ["max", "max", "max"]);
}

#[test]
fn unnamed_bounds_stay_unchanged() {
    let around = TempDir::new().expect("a folder");
    let plain = group(&around);
    set(&plain, "memory.max", "4096\n");
    open(&mut knowing(&[&plain]), &plain);
    assert_eq!(shown(&plain), ["4096", "max 100000", "max"]);
    // A missing controller is no failure if no bound needs the controller.
    for file in ["memory.max", "cpu.max"] {
        fs::remove_file(plain.folder.join(file)).expect("removed");
    }
    let bounded = Cgroup { processes: Some(9), ..plain.clone() };
    open(&mut knowing(&[&plain, &bounded]), &bounded);
    assert_eq!(fs::read_to_string(plain.folder.join("pids.max")).expect("a bound"), "9");
    fs::remove_file(plain.folder.join("pids.max")).expect("removed");
    open(&mut knowing(&[&bounded, &plain]), &plain);
}

#[test]
fn a_folder_that_is_removed_and_made_again_is_bounded_again() {
    let around = TempDir::new().expect("a folder");
    let bounded = Cgroup { processes: Some(9), ..group(&around) };
    let mut cgroups = knowing(&[&bounded]);
    open(&mut cgroups, &bounded);
    // The folder is kept, so that the next folder does not get the same inode number.
    fs::rename(&bounded.folder, around.path().join("old")).expect("moved");
    make(&bounded.folder);
    open(&mut cgroups, &bounded);
    assert_eq!(shown(&bounded)[2], "9");
}

#[test]
fn a_bound_that_cannot_be_had_names_its_file_and_the_cure() {
    let around = TempDir::new().expect("a folder");
    let bounded = Cgroup { processes: Some(9), ..group(&around) };
    let file = bounded.folder.join("pids.max");
    fs::remove_file(&file).expect("removed");
    let mut cgroups = knowing(&[&bounded]);
    let (path, fault) = cgroups.open(&bounded).expect_err("no controller");
    assert_eq!(path, file);
    assert!(fault.to_string().contains("cgroup.subtree_control"), "{fault}");
    assert!(bounded.folder.exists(), "it was there");
    fs::create_dir(&file).expect("nothing that can be read");
    cgroups.open(&bounded).map(drop).expect_err("nothing is written there");
    fs::remove_dir(&file).expect("removed");
    fs::write(&file, "max\n").expect("a controller");
    open(&mut cgroups, &bounded);
    assert_eq!(shown(&bounded)[2], "9");

    // A folder made here has no controllers, because the parent is no cgroup.
    let missing = Cgroup { folder: around.path().join("missing"), ..bounded };
    let (path, _) = cgroups.open(&missing).expect_err("no controller");
    assert_eq!(path, missing.folder.join("pids.max"));
    assert!(!missing.folder.exists(), "one without its bounds is not left behind");
}

/// A folder that was given to the server's user. Its bounds have the wanted values, but the user
/// may not write the files.
#[test]
fn a_bound_that_stands_there_need_not_be_writable() {
    let around = TempDir::new().expect("a folder");
    let bounded = Cgroup { processes: Some(9), ..group(&around) };
    let file = bounded.folder.join("pids.max");
    fs::write(&file, "9\n").expect("written");
    let before = fs::metadata(&file).expect("it is there").modified().expect("a time");
    open(&mut knowing(&[&bounded]), &bounded);
    assert_eq!(fs::metadata(&file).expect("it is there").modified().expect("a time"), before);
    assert_eq!(shown(&bounded)[2], "9");
}
