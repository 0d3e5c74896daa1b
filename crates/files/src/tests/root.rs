//! The root itself: renamed, removed, or switched to another folder as deployments do.

use super::*;
use std::os::unix::fs::symlink;

#[test]
fn recheck_follows_link_to_new_root() {
    let (dir, root) = folder();
    let (current, next) = (root.with_file_name("current"), root.with_file_name("next"));
    let other = root.with_file_name("other");
    fs::create_dir(&other).unwrap();
    fs::write(root.join("page"), "one").unwrap();
    fs::write(other.join("page"), "two").unwrap();
    symlink("root", &current).unwrap();
    let site = FileStore::with(StoreOptions::default(), inotify(), SETTLED)
        .open(&current, SiteOptions::default(), CacheOnly::No)
        .unwrap();
    let mut world = FilesWorld::of(dir, other, site);
    world.settle("/page", "one");
    world.settle("/nothing", "404");
    symlink("other", &next).unwrap();
    fs::rename(&next, &current).unwrap();
    world.now_ms += world.cache.store().options().recheck_ms;
    assert_eq!(world.text("/page"), "two");
    world.settle("/page", "two");
    world.write("page", "two, edited");
    world.settle("/page", "two, edited");
    world.write("nothing", "something");
    world.settle("/nothing", "something");
}

#[test]
fn a_root_that_is_removed_has_nothing_and_one_in_its_place_is_found() {
    let mut world = FilesWorld::new();
    world.write("page", "one");
    world.settle("/page", "one");
    fs::remove_dir_all(&world.root).unwrap();
    assert_eq!(world.text("/page"), "404");
    fs::create_dir(&world.root).unwrap();
    world.write("page", "two");
    world.now_ms += world.cache.store().options().recheck_ms;
    world.settle("/page", "two");
    world.write("page", "three");
    world.settle("/page", "three");
}

#[test]
fn a_root_that_is_renamed_is_still_served_until_another_takes_its_name() {
    let mut world = FilesWorld::new();
    world.write("page", "one");
    world.settle("/page", "one");
    let moved = world.root.with_file_name("moved");
    fs::rename(&world.root, &moved).unwrap();
    world.now_ms += world.cache.store().options().recheck_ms;
    assert_eq!(world.text("/page"), "one");
    fs::write(moved.join("page"), "edited").unwrap();
    world.settle("/page", "edited");
    fs::create_dir(&world.root).unwrap();
    world.now_ms += world.cache.store().options().recheck_ms;
    world.settle("/page", "404");
}
