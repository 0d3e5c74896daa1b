//! Symbolic links: which links the site follows, and that each use sees the present target.

use super::*;
use crate::{content::SMALL_BYTES_MAX, store::UNWATCHED_FILE_MS};
use std::os::unix::fs::symlink;

fn world(follow_symlinks: FollowSymlinks) -> FilesWorld {
    let world = FilesWorld::serving(SiteOptions { follow_symlinks, ..SiteOptions::default() });
    world.write("page", "inside");
    world.write("folder/page", "deep");
    fs::write(world.root.with_file_name("secret"), "outside").unwrap();
    symlink("page", world.at("near")).unwrap();
    symlink("folder", world.at("door")).unwrap();
    symlink("../page", world.at("folder/up")).unwrap();
    symlink("../secret", world.at("far")).unwrap();
    symlink("/etc/passwd", world.at("absolute")).unwrap();
    symlink(world.at("page"), world.at("absolute_inside")).unwrap();
    symlink("loop", world.at("loop")).unwrap();
    symlink("nothing", world.at("dangling")).unwrap();
    world
}

#[test]
fn policy_bounds_followed_links() {
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    for (path, within, all) in [
        ("/near", "inside", "inside"),
        ("/door/page", "deep", "deep"),
        ("/door", "-> /door/", "-> /door/"),
        ("/folder/up", "inside", "inside"),
        ("/far", "403", "outside"),
        ("/absolute", "403", &*passwd),
        ("/absolute_inside", "403", "inside"),
        ("/loop", "403", "403"),
        ("/dangling", "404", "404"),
    ] {
        assert_eq!(world(FollowSymlinks::Within).text(path), within, "{path} within");
        assert_eq!(world(FollowSymlinks::All).text(path), all, "{path} all");
        assert_eq!(world(FollowSymlinks::None).text(path), "403", "{path} none");
    }
}

#[test]
fn a_link_that_leads_elsewhere_is_seen_at_the_next_use() {
    let mut world = world(FollowSymlinks::Within);
    world.write("other", "other");
    assert_eq!(world.text("/near"), "inside");
    fs::remove_file(world.at("near")).unwrap();
    symlink("other", world.at("near")).unwrap();
    assert_eq!(world.text("/near"), "other");
    symlink("page", world.at("next")).unwrap();
    fs::rename(world.at("next"), world.at("near")).unwrap();
    assert_eq!(world.text("/near"), "inside");
    assert!(!world.is_hit("/near"));
}

#[test]
fn a_folder_behind_a_link_is_right_at_each_use() {
    let mut world = world(FollowSymlinks::All);
    let outside = world.root.with_file_name("releases");
    fs::create_dir_all(outside.join("1")).unwrap();
    fs::create_dir_all(outside.join("2")).unwrap();
    fs::write(outside.join("1/page"), "one").unwrap();
    fs::write(outside.join("2/page"), "two").unwrap();
    symlink("../releases/current", world.at("app")).unwrap();
    symlink("1", outside.join("current")).unwrap();
    assert_eq!(world.text("/app/page"), "one");
    symlink("2", outside.join("next")).unwrap();
    fs::rename(outside.join("next"), outside.join("current")).unwrap();
    assert_eq!(world.text("/app/page"), "two");
    fs::write(outside.join("2/page"), "two, edited").unwrap();
    assert_eq!(world.text("/app/page"), "two, edited");
    assert_eq!(world.text("/app/missing"), "404");
    fs::write(outside.join("2/missing"), "found").unwrap();
    assert_eq!(world.text("/app/missing"), "found");
}

/// Regression: the file stayed open for ever, so its file system could not be unmounted.
#[test]
fn unused_file_behind_link_is_closed() {
    let mut world = world(FollowSymlinks::Within);
    world.write("folder/large", &"x".repeat(SMALL_BYTES_MAX as usize + 1));
    let mut other = CoreCache::new(world.cache.store().clone());
    let open = |world: &FilesWorld| world.cache.store().usage().descriptors;
    world.get_once("/folder/large");
    world.get_once("/door/large");
    let Lookup::Miss(job) = other.lookup(&world.site, b"/door/large", world.now_ms) else { panic!("a miss") };
    other.insert(job.run());
    assert_eq!(open(&world), 2);
    for _ in 0..3 {
        world.now_ms += UNWATCHED_FILE_MS;
        world.get_once("/door/large");
        world.cache.tick(world.now_ms);
        other.tick(world.now_ms);
        assert_eq!(open(&world), 2, "the file is in use");
    }
    world.now_ms += UNWATCHED_FILE_MS + 1;
    let to_close = [world.cache.tick(world.now_ms), other.tick(world.now_ms)];
    assert_eq!(to_close.each_ref().map(Vec::len), [2, 1], "one from the index, and one from each core");
    assert_eq!((world.cache.len(), other.len()), (1, 0));
    assert_eq!(open(&world), 2, "a thread that may wait closes the file");
    drop(to_close);
    assert_eq!(open(&world), 1, "events tell of the file without a link on the way");
}

/// Regression: every core searched for unused files, and each find made all cores sweep their maps.
#[test]
fn one_core_looks_for_unused_files() {
    let mut world = world(FollowSymlinks::Within);
    for name in ["one", "two"] {
        world.write(&format!("folder/{name}"), &"x".repeat(SMALL_BYTES_MAX as usize + 1));
    }
    let mut other = CoreCache::new(world.cache.store().clone());
    world.get_once("/door/one");
    world.now_ms += 1;
    world.get_once("/door/two");
    world.now_ms += UNWATCHED_FILE_MS;
    assert_eq!(world.cache.tick(world.now_ms).len(), 2, "one file, from the index and from the core");
    world.now_ms += 1;
    assert!(other.tick(world.now_ms).is_empty(), "the other core has just looked");
    world.now_ms += 1000;
    assert_eq!(other.tick(world.now_ms).len(), 1, "the second file, from the index");
}

#[test]
fn a_folder_that_becomes_a_link() {
    let mut world = world(FollowSymlinks::Within);
    world.write("a/page", "in a");
    world.settle("/a/page", "in a");
    fs::rename(world.at("a"), world.at("b")).unwrap();
    symlink("folder", world.at("a")).unwrap();
    assert_eq!(world.text("/a/page"), "deep");
    world.write("folder/page", "deep, edited");
    assert_eq!(world.text("/a/page"), "deep, edited");
}
