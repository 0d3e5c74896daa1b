//! Every bound holds, and paths beyond a bound still get correct answers.

use super::*;
use crate::content::SMALL_BYTES_MAX;
use std::os::unix::fs::symlink;

fn options(change: impl FnOnce(&mut StoreOptions)) -> StoreOptions {
    let mut options = StoreOptions::default();
    change(&mut options);
    options
}

#[test]
fn beyond_the_bound_of_watches_paths_are_looked_up_at_each_use() {
    for watches_max in 0..4 {
        let mut world = FilesWorld::bounded(options(|o| o.watches_max = watches_max));
        world.write("a/b/c/page", "one");
        world.write("a/page", "one");
        for (path, name) in
            [("/a/b/c/page", "a/b/c/page"), ("/a/page", "a/page"), ("/a/b/c/page", "a/b/c/page")]
        {
            world.write(name, "one");
            assert_eq!(world.text(path), "one");
            world.write(name, "two");
            assert_eq!(world.text(path), "two");
        }
        assert!(!world.is_hit("/a/b/c/page"), "{watches_max} watches are too few for four folders");
        fs::rename(world.at("a/b"), world.at("a/z")).unwrap();
        assert_eq!(world.text("/a/b/c/page"), "404");
        assert!(world.cache.store().usage().watches <= watches_max);
    }
}

#[test]
fn unneeded_watches_are_removed() {
    let mut world = FilesWorld::bounded(options(|o| o.entries_max = 8));
    for i in 0..100 {
        world.write(&format!("d{i}/e/page"), "page");
        assert_eq!(world.text(&format!("/d{i}/e/page")), "page");
    }
    let usage = world.cache.store().usage();
    assert!(usage.entries <= 8 && usage.watches <= 1 + 2 * 8, "{usage:?}");
    let hits = (0..100).filter(|i| world.is_hit(&format!("/d{i}/e/page"))).count();
    assert!(hits <= 8, "{hits}");
}

#[test]
fn entries_and_spellings_are_bounded_and_used_ones_stay() {
    let mut world = FilesWorld::bounded(options(|o| o.entries_max = 16));
    world.write("page", "page");
    for i in 0..1000 {
        assert_eq!(world.text("/page"), "page");
        assert_eq!(world.text(&format!("/missing{i}")), "404");
        assert_eq!(world.text(&format!("/{}page", "./".repeat(i % 50))), "page");
        assert!(world.cache.len() <= 16);
        assert!(world.cache.store().usage().entries <= 16);
    }
    assert!(world.is_hit("/page"), "it was used all the time");
}

#[test]
fn a_path_too_long_to_be_remembered_is_still_answered() {
    let mut world = FilesWorld::new();
    world.write("page", "page");
    let path = format!("/{}page", "./".repeat(1000));
    assert_eq!(world.text(&path), "page");
    assert!(!world.is_hit(&path));
}

/// Regression: a request for a name that is too long, or below a link, left an entry at once.
#[test]
fn made_up_names_leave_no_entries() {
    let mut world = FilesWorld::new();
    fs::create_dir(world.at("folder")).unwrap();
    symlink("folder", world.at("door")).unwrap();
    symlink("/etc", world.at("out")).unwrap();
    assert_eq!(describe(&world.get_once("/nothing")), "404");
    let before = world.cache.store().usage().entries;
    for i in 0..20 {
        let long = format!("/{i}{}", "n".repeat(4_000));
        for (path, expected) in [(long, "404"), (format!("/door/{i}"), "404"), (format!("/out/{i}"), "403")] {
            assert_eq!(describe(&world.get_once(&path)), expected, "{path}");
        }
    }
    assert_eq!(world.cache.store().usage().entries, before);
    assert_eq!(world.text("/door/nothing"), "404");
    assert_eq!(world.cache.store().usage().entries, before + 1, "it was asked for often");
}

#[test]
fn long_path_is_answered_without_entry() {
    let mut world = FilesWorld::new();
    let name = "d".repeat(200);
    let folder = [&*name; 6].join("/");
    for content in ["page".to_owned(), "x".repeat(SMALL_BYTES_MAX as usize + 1)] {
        world.write(&format!("{folder}/page"), &content);
        assert_eq!(world.text(&format!("/{folder}/page")), content);
        let usage = world.cache.store().usage();
        assert_eq!((usage.entries, usage.content_bytes, usage.descriptors), (0, 0, 0));
    }
}

#[test]
fn content_without_room_is_sent_from_descriptor() {
    let mut world = FilesWorld::bounded(options(|o| o.content_bytes_max = 10_000));
    let mut held = Vec::new();
    for i in 0..100 {
        world.write(&format!("page{i}"), &format!("{i:01000}"));
        // Keep half of the entries alive, as slow clients do, so that eviction cannot free them.
        let handle = world.get(&format!("/page{i}"));
        assert_eq!(describe(&handle), format!("{i:01000}"));
        if i % 2 == 0 && held.len() < 4 {
            held.push(handle);
        }
        assert!(world.cache.store().usage().content_bytes <= 10_000);
    }
    let in_memory = (0..100).filter(|i| world.is_hit(&format!("/page{i}"))).count();
    assert!(in_memory >= 4, "{in_memory} of the ten that fit are remembered");
    assert!(held.iter().all(|handle| describe(handle).len() == 1000));
}

#[test]
fn descriptors_are_bounded() {
    let mut world = FilesWorld::bounded(options(|o| {
        o.content_file_bytes_max = 0;
        o.descriptors_max = 5;
    }));
    for i in 0..50 {
        world.write(&format!("page{i}"), &format!("{i}"));
        assert_eq!(world.text(&format!("/page{i}")), format!("{i}"));
        assert!(world.cache.store().usage().descriptors <= 5);
    }
}

#[test]
fn idle_core_releases_entries_at_tick() {
    let mut world = FilesWorld::bounded(options(|o| o.content_bytes_max = 10_000));
    let mut idle = CoreCache::new(world.cache.store().clone());
    for i in 0..10 {
        world.write(&format!("page{i}"), &"x".repeat(1000));
        for _ in 0..ADMITTED_REQUESTS {
            let Lookup::Miss(job) = idle.lookup(&world.site, format!("/page{i}").as_bytes(), 10_000) else {
                panic!("a miss")
            };
            idle.insert(job.run());
        }
    }
    world.write("more", &"y".repeat(1000));
    let handle = world.get("/more");
    assert!(
        matches!(handle.outcome(), EntryOutcome::File(file) if !in_memory(file)),
        "the idle core holds it all"
    );
    idle.tick(world.now_ms);
    assert!(world.cache.store().usage().content_bytes < 10_000);
    world.now_ms += world.cache.store().options().recheck_ms;
    let handle = world.get("/more");
    assert!(
        matches!(handle.outcome(), EntryOutcome::File(file) if in_memory(file)),
        "looked at again, it finds room"
    );
}

fn in_memory(file: &FileEntry) -> bool {
    matches!(file.variant(Choice::Identity).content(), Content::Memory(_))
}
