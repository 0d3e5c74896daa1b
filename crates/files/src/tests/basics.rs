//! The results of look-ups when no file changes.

use super::*;

#[test]
fn a_file_is_read_once_and_then_a_hit() {
    let mut world = FilesWorld::new();
    world.write("a/page.html", "hello");
    world.settle("/a/page.html", "hello");
    assert!(!world.is_hit("/a/./page.html"), "another spelling is another key of the core's map");
    let (first, second) = (world.get("/a/page.html"), world.get("/a/%70age.html"));
    assert!(std::ptr::eq(&*first, &*second), "and the same entry");
}

#[test]
fn folders_redirect_to_their_slash_then_show_an_index_or_a_listing() {
    let mut world = FilesWorld::new();
    world.write("a b/index.html", "index");
    world.write("list/x", "x");
    world.settle("/a%20b", "-> /a%20b/");
    world.settle("/a%20b/", "index");
    world.settle("/list/", "listing");
    world.settle("//list", "-> /list/");
    world.settle("/list/x/", "404");
    world.settle("/", "listing");
}

#[test]
fn index_names_are_tried_in_order() {
    let options = SiteOptions {
        index_names: vec!["index.htm".into(), "default.html".into()],
        ..SiteOptions::default()
    };
    let mut world = FilesWorld::serving(options);
    world.write("default.html", "second");
    world.settle("/", "second");
    world.write("index.htm", "first");
    world.settle("/", "first");
}

#[test]
fn without_listings_a_folder_is_forbidden() {
    let mut world = FilesWorld::serving(SiteOptions { listing: Listing::Off, ..SiteOptions::default() });
    world.write("list/x", "x");
    world.settle("/list/", "403");
}

#[test]
fn core_uses_entry_found_by_another_core() {
    let mut world = FilesWorld::new();
    world.write("page", "shared");
    let mut other = CoreCache::new(world.cache.store().clone());
    let first = world.get("/page");
    let Lookup::Miss(mut job) = other.lookup(&world.site, b"/page", world.now_ms) else {
        panic!("a miss at first")
    };
    let second = other.insert(job.try_now().expect("it is in memory"));
    assert!(std::ptr::eq(&*first, &*second));
}

#[test]
fn a_file_that_is_not_in_memory_is_read_where_waiting_is_allowed() {
    let mut world = FilesWorld::new();
    world.write("page", "cold");
    let file = fs::File::open(world.at("page")).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let Lookup::Miss(mut job) = world.cache.lookup(&world.site, b"/page", world.now_ms) else {
        panic!("a miss at first")
    };
    // The kernel may or may not have dropped the page. Both ways lead to the same entry.
    let loaded = job.try_now().unwrap_or_else(|WouldBlock| job.run());
    assert_eq!(describe(&world.cache.insert(loaded)), "cold");
    world.settle("/page", "cold");
}

#[test]
fn empty_files_and_large_files_are_served() {
    let mut world =
        FilesWorld::bounded(StoreOptions { content_file_bytes_max: 10, ..StoreOptions::default() });
    world.write("empty", "");
    world.write("ten", "0123456789");
    world.write("eleven", "0123456789a");
    world.settle("/empty", "");
    world.settle("/ten", "0123456789");
    world.settle("/eleven", "0123456789a");
    assert_eq!((world.cache.store().usage().content_bytes, world.cache.store().usage().descriptors), (10, 1));
}

#[test]
fn missing_file_answers_with_site_page() {
    let mut world = FilesWorld::new();
    world.write("404.html", "sorry");
    world.settle("/nothing", "404 sorry");
    world.settle("/.hidden", "404 sorry");
    world.settle("/404.html", "sorry");
    let handle = world.get("/nothing");
    let head = handle.not_found_page().unwrap().variant(Choice::Identity).head();
    assert!(head.starts_with(b"HTTP/1.1 404 Not Found\r\n"));
}
