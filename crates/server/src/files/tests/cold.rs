//! Paths that were not asked for lately: looked up without entry and watch, and right at each use.

use super::*;

/// A world in which the requests of a path are a window apart.
fn next_window(world: &mut FilesWorld) {
    world.now_ms += 1000;
}

#[test]
fn first_request_leaves_nothing_behind() {
    let mut world = FilesWorld::new();
    world.write("a/page", "one");
    for _ in 0..3 {
        assert_eq!(describe(&world.get_once("/a/page")), "one");
        let usage = world.cache.store().usage();
        assert_eq!((usage.entries, usage.watches, usage.content_bytes), (0, 0, 0));
        assert!(world.cache.is_empty());
        next_window(&mut world);
    }
    world.get_once("/a/page");
    world.get_once("/a/page");
    assert!(world.is_hit("/a/page"), "the second request of a window");
}

#[test]
fn each_cold_request_sees_the_present_file() {
    let mut world = FilesWorld::new();
    fs::create_dir(world.at("a")).unwrap();
    for content in ["one", "two", "longer", "", "again"] {
        world.write("a/page", content);
        assert_eq!(describe(&world.get_once("/a/page")), content);
        next_window(&mut world);
        world.write("a/new", content);
        fs::rename(world.at("a/new"), world.at("a/page")).unwrap();
        assert_eq!(describe(&world.get_once("/a/page")), content);
        next_window(&mut world);
    }
    fs::remove_file(world.at("a/page")).unwrap();
    assert_eq!(describe(&world.get_once("/a/page")), "404");
    world.write("404.html", "sorry");
    next_window(&mut world);
    assert_eq!(describe(&world.get_once("/a/page")), "404 sorry");
}

#[test]
fn crawler_leaves_hot_paths_remembered() {
    let options = StoreOptions { entries_max: 64, content_bytes_max: 4096, ..StoreOptions::default() };
    let mut world = FilesWorld::bounded(options);
    let page = "x".repeat(32);
    for i in 0..1_000 {
        world.write(&format!("cold{}/{i}", i % 10), &page);
    }
    for i in 0..32 {
        world.write(&format!("hot/{i}"), &page);
        world.settle(&format!("/hot/{i}"), &page);
    }
    let mut hits = 0;
    for i in 0..1_000 {
        assert_eq!(describe(&world.get_once(&format!("/cold{}/{i}", i % 10))), page);
        hits += usize::from(world.is_hit(&format!("/hot/{}", i % 32)));
    }
    assert_eq!(hits, 1_000);
}

#[test]
fn sibling_appears_in_a_folder_that_had_none() {
    let mut world = FilesWorld::new();
    let codings = |world: &mut FilesWorld, path: &str| match world.get_once(path).outcome() {
        EntryOutcome::File(file) => file.codings(),
        _ => panic!("{path} is a file"),
    };
    for i in 0..4 {
        world.write(&format!("a/page{i}"), "page");
    }
    // The folder counts as unchanged for long, so the server keeps that the folder has no siblings.
    let folder = fs::File::open(world.at("a")).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    folder.set_modified(time).unwrap();
    assert!(codings(&mut world, "/a/page0").is_empty());
    assert!(codings(&mut world, "/a/page1").is_empty());
    world.write("a/page2.gz", "gzip");
    assert!(codings(&mut world, "/a/page2").contains(Choice::Gzip));
    assert!(codings(&mut world, "/a/page3").is_empty());
    folder.set_modified(time).unwrap();
    next_window(&mut world);
    assert!(codings(&mut world, "/a/page2").contains(Choice::Gzip), "the folder is known to have some");
    fs::remove_file(world.at("a/page2.gz")).unwrap();
    next_window(&mut world);
    assert!(codings(&mut world, "/a/page2").is_empty());
}

/// The files of this crate have not changed for long, so a single read suffices.
#[test]
fn old_file_is_read_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (dir, _) = folder();
    let store = FileStore::with(StoreOptions::default(), inotify(), SETTLED);
    let site = store.open(root, SiteOptions::default(), CacheOnly::No).unwrap();
    let mut world = FilesWorld::of(dir, root.to_owned(), site);
    let expected = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert_eq!(describe(&world.get_once("/Cargo.toml")), expected);
    let large = fs::read_to_string(root.join("src/answer.rs")).unwrap();
    assert!(large.len() > 16 * 1024, "more than the first read");
    assert_eq!(describe(&world.get_once("/src/answer.rs")), large);
}

#[test]
fn unopened_site_serves_files_and_opens_for_the_rest() {
    let mut world = FilesWorld::new();
    world.write("a/page", "page");
    world.write("a/index.html", "index");
    world.write("list/x", "x");
    let store = world.cache.store().clone();
    world.site = store.unopened(world.root.clone(), Arc::default());
    let before = store.usage();
    let look = |world: &mut FilesWorld, path: &str| {
        let Lookup::Miss(mut job) = world.cache.look_past(&world.site, path.as_bytes(), world.now_ms) else {
            panic!("a miss")
        };
        match job.try_unopened() {
            Ok(found) => found.map(|loaded| describe(&world.cache.insert(loaded))),
            Err(WouldBlock) => Some(describe(&world.cache.insert(job.run()))),
        }
    };
    assert_eq!(look(&mut world, "/a/page").as_deref(), Some("page"));
    assert_eq!(look(&mut world, "/a/").as_deref(), Some("index"));
    assert_eq!(store.usage(), before, "nothing is left open");
    for (path, expected) in [("/list/", "listing"), ("/a", "-> /a/"), ("/nothing", "404")] {
        if let Some(found) = look(&mut world, path) {
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(world.text(path), expected);
    }
}

#[test]
fn unopened_site_follows_no_link() {
    let mut world = FilesWorld::new();
    fs::write(world.root.with_file_name("secret"), "outside").unwrap();
    std::os::unix::fs::symlink("../secret", world.at("far")).unwrap();
    std::os::unix::fs::symlink("root", world.root.with_file_name("link")).unwrap();
    world.write("page", "inside");
    let store = world.cache.store().clone();
    for (root, path, expected) in [
        (world.root.clone(), "/far", "403"),
        (world.root.clone(), "/page", "inside"),
        (world.root.with_file_name("link"), "/page", "inside"),
        (world.root.with_file_name("nothing"), "/page", "404"),
    ] {
        let site = store.unopened(root, Arc::default());
        let Lookup::Miss(job) = world.cache.look_past(&site, path.as_bytes(), world.now_ms) else {
            panic!("a miss")
        };
        let handle = world.cache.insert(job.run());
        assert_eq!(describe(&handle), expected, "{path}");
    }
}
