//! Large files: sent from their descriptor, or from a sealed copy.

use super::*;
use std::{io::Write, os::unix::fs::PermissionsExt};

/// A file that is not asked for often, and its entry.
fn large(world: &mut FilesWorld) -> EntryHandle {
    world.write("large", &"0123456789".repeat(30_000));
    world.get_once("/large")
}

fn open_file(handle: &EntryHandle) -> &OpenFile {
    let EntryOutcome::File(file) = handle.outcome() else { panic!("a file") };
    match file.variant(Choice::Identity).content() {
        Content::Disk(file) => file,
        Content::Memory(_) | Content::Sealed(_) => panic!("in memory"),
    }
}

/// The entry of the file after as many requests as admit a path.
fn asked_often(world: &mut FilesWorld) -> EntryHandle {
    (0..ADMITTED_REQUESTS).map(|_| world.get_once("/large")).last().expect("a request")
}

/// The content of a sealed copy; `None` for a file that is sent from its descriptor.
fn sealed(handle: &EntryHandle) -> Option<&[u8]> {
    let EntryOutcome::File(file) = handle.outcome() else { panic!("a file") };
    match file.variant(Choice::Identity).content() {
        Content::Sealed(content) => Some(content.bytes()),
        Content::Disk(_) => None,
        Content::Memory(_) => panic!("too large for that"),
    }
}

#[test]
fn large_file_gets_a_sealed_copy_once_it_is_asked_for_often() {
    let mut world = FilesWorld::new();
    let first = large(&mut world);
    let tag_before = tag(&first);
    assert_eq!(sealed(&first), None);
    drop(first);
    assert_eq!(world.cache.store().usage().content_bytes, 0);
    let copied = asked_often(&mut world);
    assert!(sealed(&copied).is_some_and(|content| content == "0123456789".repeat(30_000).as_bytes()));
    assert_eq!(tag(&copied), tag_before, "the place of the bytes changes no tag");
    assert!(world.is_hit("/large"));
    let usage = world.cache.store().usage();
    assert_eq!((usage.content_bytes, usage.descriptors), (300_000, 1));
}

#[test]
fn sealed_copy_keeps_its_content_and_new_requests_get_the_new_file() {
    let mut world = FilesWorld::new();
    large(&mut world);
    let copied = asked_often(&mut world);
    world.write("large", &"abcdefghij".repeat(30_000));
    assert_eq!(sealed(&copied).map(|content| &content[..3]), Some(&b"012"[..]));
    assert!(describe(&world.get("/large")).starts_with("abc"));
    assert!(copied.is_stale());
}

#[test]
fn each_core_finds_the_sealed_copy_of_another() {
    let mut world = FilesWorld::new();
    let mut other = CoreCache::new(world.cache.store().clone());
    let mut look = |world: &FilesWorld| match other.lookup(&world.site, b"/large", world.now_ms) {
        Lookup::Hit(handle) => handle.clone(),
        Lookup::Miss(job) => other.insert(job.run()),
        Lookup::Never(_) => panic!("a path"),
    };
    large(&mut world);
    assert_eq!(sealed(&look(&world)), None);
    asked_often(&mut world);
    assert!(sealed(&look(&world)).is_some());
}

#[test]
fn large_file_without_room_is_sent_from_its_descriptor() {
    for (content_bytes_max, content_file_bytes_max) in [(299_999, 4 << 20), (1 << 20, 299_999)] {
        let options = StoreOptions { content_bytes_max, content_file_bytes_max, ..StoreOptions::default() };
        let mut world = FilesWorld::bounded(options);
        large(&mut world);
        assert_eq!(sealed(&asked_often(&mut world)), None);
        assert_eq!(world.cache.store().usage().content_bytes, 0);
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
