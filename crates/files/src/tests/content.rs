//! Files that are sent from their descriptor.

use super::*;
use std::{io::Write, os::unix::fs::PermissionsExt};

/// A file too large for memory, and its entry.
fn large(world: &mut FilesWorld) -> EntryHandle {
    world.write("large", &"0123456789".repeat(30_000));
    world.get("/large")
}

fn open_file(handle: &EntryHandle) -> &OpenFile {
    let EntryOutcome::File(file) = handle.outcome() else { panic!("a file") };
    match file.variant(Choice::Identity).content() {
        Content::Disk(file) => file,
        Content::Memory(_) => panic!("too large for memory"),
    }
}

#[test]
fn an_edit_of_the_content_is_noticed_before_the_next_part_is_sent() {
    type Edit = fn(&std::path::Path);
    let edits: [(&str, Edit); 5] = [
        ("truncated", |path| fs::File::options().write(true).open(path).unwrap().set_len(10).unwrap()),
        ("grown", |path| fs::File::options().append(true).open(path).unwrap().write_all(b"more").unwrap()),
        ("edited in place", |path| {
            fs::File::options().write(true).open(path).unwrap().write_all(b"x").unwrap()
        }),
        ("edited in place, time put back", |path| {
            let modified = fs::metadata(path).unwrap().modified().unwrap();
            let mut file = fs::File::options().write(true).open(path).unwrap();
            file.write_all(b"x").unwrap();
            file.set_modified(modified).unwrap();
        }),
        ("emptied and written again", |path| fs::write(path, "0123456789".repeat(30_000)).unwrap()),
    ];
    for (how, edit) in edits {
        let mut world = FilesWorld::new();
        let handle = large(&mut world);
        assert!(open_file(&handle).still_same());
        edit(&world.at("large"));
        assert!(!open_file(&handle).still_same(), "{how}");
        world.cache.store().handle_events();
        assert!(handle.is_stale(), "{how}");
    }
}

#[test]
fn metadata_change_cuts_off_no_transfer() {
    type Act = fn(&std::path::Path);
    let acts: [(&str, Act); 4] = [
        ("replaced by renaming", |path| {
            fs::write(path.with_extension("new"), "new").unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        }),
        ("deleted", |path| fs::remove_file(path).unwrap()),
        ("mode changed", |path| fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap()),
        ("linked", |path| fs::hard_link(path, path.with_extension("twin")).unwrap()),
    ];
    for (how, act) in acts {
        let mut world = FilesWorld::new();
        let handle = large(&mut world);
        act(&world.at("large"));
        assert!(open_file(&handle).still_same(), "{how}");
    }
}

#[test]
fn parts_are_warmed_and_then_resident() {
    let mut world = FilesWorld::new();
    let handle = large(&mut world);
    let file = open_file(&handle);
    file.warm_job(0, 300_000).run().unwrap();
    file.warm_job(299_000, u64::MAX).run().unwrap();
    // Some file systems cannot report residence and return `false`, so only the ends of the range
    // are certain everywhere.
    assert!(file.is_resident(300_000, 10), "nothing is beyond the end");
    assert!(file.is_resident(5, 0));
    if file.is_resident(0, 1) {
        assert!(file.is_resident(0, 300_000));
        assert!(file.is_resident(100_001, u64::MAX));
    }
}
