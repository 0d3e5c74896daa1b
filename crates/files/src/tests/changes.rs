//! The first request after a change sees the change, for every kind of change that the kernel
//! reports.

use super::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

#[test]
fn changed_by_writing() {
    let mut world = FilesWorld::new();
    world.write("a/page", "one");
    world.settle("/a/page", "one");
    world.write("a/page", "two");
    world.settle("/a/page", "two");
}

#[test]
fn truncated_in_place() {
    let mut world = FilesWorld::new();
    world.write("page", "something long");
    let old = world.settle("/page", "something long");
    fs::File::options().write(true).open(world.at("page")).unwrap().set_len(4).unwrap();
    world.settle("/page", "some");
    assert_eq!(describe(&old), "something long", "what is being sent stays whole");
}

#[test]
fn appended() {
    let mut world = FilesWorld::new();
    world.write("page", "one");
    world.settle("/page", "one");
    let mut file = fs::File::options().append(true).open(world.at("page")).unwrap();
    file.write_all(b" two").unwrap();
    world.settle("/page", "one two");
    file.write_all(b" three").unwrap();
    world.settle("/page", "one two three");
}

#[test]
fn replaced_by_renaming() {
    let mut world = FilesWorld::new();
    world.write("page", "old");
    let old = world.settle("/page", "old");
    world.write("new", "new");
    set_mtime(&world.at("page"), 1_000_000);
    set_mtime(&world.at("new"), 1_000_000);
    fs::rename(world.at("new"), world.at("page")).unwrap();
    let new = world.settle("/page", "new");
    assert_ne!(tag(&old), tag(&new), "same size and time, another file");
}

/// Once the tag used the time of modification, which deployment tools set. Two contents then got
/// the same tag.
#[test]
fn rewritten_with_size_and_times_kept() {
    let mut world = FilesWorld::new();
    world.write("page", "old");
    set_mtime(&world.at("page"), 1_000_000);
    let old = world.settle("/page", "old");
    let changed = |world: &FilesWorld| {
        let metadata = fs::metadata(world.at("page")).unwrap();
        (metadata.ctime(), metadata.ctime_nsec())
    };
    let before = changed(&world);
    // The kernel's clock ticks up to 10 ms apart.
    while changed(&world) == before {
        world.write("page", "new");
        set_mtime(&world.at("page"), 1_000_000);
    }
    let new = world.settle("/page", "new");
    assert_ne!(tag(&old), tag(&new));
}

#[test]
fn deleted_and_created_again() {
    let mut world = FilesWorld::new();
    world.write("page", "here");
    world.settle("/page", "here");
    fs::remove_file(world.at("page")).unwrap();
    world.settle("/page", "404");
    world.write("page", "again");
    world.settle("/page", "again");
}

#[test]
fn created_where_nothing_was_found() {
    let mut world = FilesWorld::new();
    world.settle("/a/b/page", "404");
    fs::create_dir(world.at("a")).unwrap();
    world.settle("/a/b/page", "404");
    world.settle("/a", "-> /a/");
    fs::create_dir(world.at("a/b")).unwrap();
    world.settle("/a/b/page", "404");
    world.write("a/b/page", "here");
    world.settle("/a/b/page", "here");
}

#[test]
fn a_file_where_a_folder_was_looked_for() {
    let mut world = FilesWorld::new();
    world.write("a", "file");
    world.settle("/a/page", "404");
    fs::remove_file(world.at("a")).unwrap();
    world.write("a/page", "page");
    world.settle("/a/page", "page");
    world.settle("/a", "-> /a/");
    fs::remove_dir_all(world.at("a")).unwrap();
    world.write("a", "file again");
    world.settle("/a", "file again");
    world.settle("/a/page", "404");
}

#[test]
fn parent_renamed() {
    let mut world = FilesWorld::new();
    world.write("a/page", "page");
    world.settle("/a/page", "page");
    fs::rename(world.at("a"), world.at("z")).unwrap();
    world.settle("/a/page", "404");
    world.settle("/z/page", "page");
    fs::rename(world.at("z"), world.at("a")).unwrap();
    world.settle("/z/page", "404");
    world.settle("/a/page", "page");
    world.write("a/page", "edited after it all");
    world.settle("/a/page", "edited after it all");
}

#[test]
fn grandparent_renamed() {
    let mut world = FilesWorld::new();
    world.write("a/b/c/page", "page");
    world.write("n/b/c/page", "other page");
    world.settle("/a/b/c/page", "page");
    world.settle("/a/b/c", "-> /a/b/c/");
    fs::rename(world.at("a"), world.at("z")).unwrap();
    fs::rename(world.at("n"), world.at("a")).unwrap();
    world.settle("/a/b/c/page", "other page");
    world.settle("/z/b/c/page", "page");
    world.write("a/b/c/page", "edited");
    world.settle("/a/b/c/page", "edited");
}

#[test]
fn moved_out_of_the_root_and_back() {
    let mut world = FilesWorld::new();
    world.write("a/page", "page");
    world.settle("/a/page", "page");
    let outside = world.root.with_file_name("outside");
    fs::rename(world.at("a"), &outside).unwrap();
    world.settle("/a/page", "404");
    fs::write(outside.join("page"), "edited outside").unwrap();
    fs::rename(&outside, world.at("a")).unwrap();
    world.settle("/a/page", "edited outside");
}

#[test]
fn folders_exchanged() {
    let mut world = FilesWorld::new();
    world.write("a/page", "a");
    world.write("b/page", "b");
    world.settle("/a/page", "a");
    world.settle("/b/page", "b");
    renameat_with(CWD, world.at("a"), CWD, world.at("b"), RenameFlags::EXCHANGE).unwrap();
    world.settle("/a/page", "b");
    world.settle("/b/page", "a");
    world.write("a/page", "edited");
    world.settle("/a/page", "edited");
    world.settle("/b/page", "a");
}

#[test]
fn mode_of_a_file_or_of_any_folder_on_the_way_changed() {
    let mut world = FilesWorld::new();
    world.write("a/b/page", "page");
    for path in ["a/b/page", "a/b", "a", ""] {
        let handle = world.settle("/a/b/page", "page");
        let mode = |mode| fs::set_permissions(world.at(path), fs::Permissions::from_mode(mode)).unwrap();
        mode(0o000);
        world.cache.store().handle_events();
        assert!(handle.is_stale(), "'{path}' has another mode");
        // The superuser may read the file all the same.
        let expected = if rustix::process::geteuid().is_root() { "page" } else { "403" };
        assert_eq!(world.text("/a/b/page"), expected);
        let mode = |mode| fs::set_permissions(world.at(path), fs::Permissions::from_mode(mode)).unwrap();
        mode(0o755);
        world.settle("/a/b/page", "page");
    }
}

#[test]
fn index_page_appears_and_disappears() {
    let mut world = FilesWorld::new();
    world.write("a/x", "x");
    world.settle("/a/", "listing");
    world.write("a/index.html", "index");
    world.settle("/a/", "index");
    world.write("a/index.html", "edited index");
    world.settle("/a/", "edited index");
    fs::remove_file(world.at("a/index.html")).unwrap();
    world.settle("/a/", "listing");
    fs::create_dir(world.at("a/index.html")).unwrap();
    world.settle("/a/", "listing");
}

#[test]
fn not_found_page_appears_changes_and_disappears() {
    let mut world = FilesWorld::new();
    world.settle("/nothing", "404");
    world.settle("/nothing/else", "404");
    world.write("404.html", "sorry");
    world.settle("/nothing", "404 sorry");
    world.settle("/nothing/else", "404 sorry");
    world.write("404.html", "very sorry");
    world.settle("/nothing", "404 very sorry");
    fs::remove_file(world.at("404.html")).unwrap();
    world.settle("/nothing", "404");
}

#[test]
fn lost_kernel_events_invalidate_every_entry() {
    let mut world = FilesWorld::new();
    world.write("a/page", "one");
    world.write("filler", "");
    world.write("feller", "");
    world.settle("/a/page", "one");
    let queue_max: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    // Alternate between two names, because the kernel merges equal consecutive events.
    for i in 0..queue_max / 2 + 1 {
        for name in ["filler", "feller"] {
            let mode = fs::Permissions::from_mode(0o600 + (i % 2) as u32);
            fs::set_permissions(world.at(name), mode).unwrap();
        }
    }
    world.write("a/page", "two");
    fs::rename(world.at("a"), world.at("b")).unwrap();
    world.settle("/a/page", "404");
    world.settle("/b/page", "two");
    assert_eq!(world.cache.store().usage().overflows, 1);
    world.write("b/page", "three");
    world.settle("/b/page", "three");
}
