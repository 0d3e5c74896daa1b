//! Paths that were not asked for lately: looked up without entry and watch, and right at each use.

use super::*;
use crate::content::SMALL_BYTES_MAX;

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
    for _ in 0..ADMITTED_REQUESTS {
        world.get_once("/a/page");
    }
    assert!(world.is_hit("/a/page"), "often enough in a window");
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

/// Large files, folders and links are looked up the regular way, so their entries enter the caches.
#[test]
fn crawler_of_entries_leaves_hot_paths_remembered() {
    let options = StoreOptions { entries_max: 256, descriptors_max: 128, ..StoreOptions::default() };
    let mut world = FilesWorld::bounded(options);
    let large = "x".repeat(SMALL_BYTES_MAX as usize + 1);
    for i in 0..300 {
        world.write(&format!("list{i}/page"), "page");
        world.write(&format!("large{i}"), &large);
        std::os::unix::fs::symlink("list0/page", world.at(&format!("link{i}"))).unwrap();
    }
    for i in 0..32 {
        world.write(&format!("hot/{i}"), "hot");
        world.settle(&format!("/hot/{i}"), "hot");
    }
    let mut hits = 0;
    for i in 0..300 {
        for cold in [format!("/list{i}/"), format!("/large{i}"), format!("/link{i}")] {
            world.get_once(&cold);
        }
        hits += usize::from(world.is_hit(&format!("/hot/{}", i % 32)));
    }
    assert_eq!(hits, 300);
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
    next_window(&mut world);
    assert!(codings(&mut world, "/a/page2").contains(Choice::Gzip));
    assert!(codings(&mut world, "/a/page3").is_empty());
    folder.set_modified(time).unwrap();
    next_window(&mut world);
    assert!(codings(&mut world, "/a/page2").contains(Choice::Gzip), "the folder is known to have some");
    fs::remove_file(world.at("a/page2.gz")).unwrap();
    next_window(&mut world);
    assert!(codings(&mut world, "/a/page2").is_empty());
}

#[test]
fn sibling_appears_within_the_age_of_a_recheck() {
    let mut world = FilesWorld::new();
    let has_gzip = |world: &mut FilesWorld, path: &str| match world.get_once(path).outcome() {
        EntryOutcome::File(file) => file.codings().contains(Choice::Gzip),
        _ => panic!("{path} is a file"),
    };
    for i in 0..20 {
        world.write(&format!("a/page{i}"), "page");
    }
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    fs::File::open(world.at("a")).unwrap().set_modified(time).unwrap();
    assert!(!has_gzip(&mut world, "/a/page0"));
    world.write("a/page10.gz", "gzip");
    assert!(!has_gzip(&mut world, "/a/page10"), "the folder was looked at");
    next_window(&mut world);
    assert!(has_gzip(&mut world, "/a/page10"));
    fs::remove_file(world.at("a/page10.gz")).unwrap();
    assert!(!has_gzip(&mut world, "/a/page10"), "a sibling that goes is noticed at once");
}

/// The files of the project have not changed for long, so a single read suffices.
#[test]
fn old_file_is_read_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let (dir, _) = folder();
    let store = FileStore::with(StoreOptions::default(), inotify(), SETTLED);
    let site = store.open(root, SiteOptions::default(), CacheOnly::No).unwrap();
    let mut world = FilesWorld::of(dir, root.to_owned(), site);
    let expected = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert_eq!(describe(&world.get_once("/Cargo.toml")), expected);
    let large = fs::read_to_string(root.join("docs/reference.md")).unwrap();
    assert!(large.len() > 16 * 1024, "more than the first read");
    assert_eq!(describe(&world.get_once("/docs/reference.md")), large);
}

/// The result of a look-up in a folder that stays closed; `None` if the folder has to be opened.
fn unopened(world: &mut FilesWorld, root: &Path, path: &str) -> Option<String> {
    let store = world.cache.store().clone();
    let folder = UnopenedFolder { store, path: root.to_owned(), options: Arc::default() };
    let job = world.cache.look_past(folder, path.as_bytes(), world.now_ms).expect("a path");
    let entry = job.try_now().unwrap_or_else(|WouldBlock| job.run())?;
    Some(describe(&EntryHandle::from(entry)))
}

#[test]
fn unopened_folder_answers_files_and_missing_paths() {
    let mut world = FilesWorld::new();
    world.write("a/page", "page");
    world.write("a/index.html", "index");
    world.write("list/x", "x");
    world.write("large", &"x".repeat(SMALL_BYTES_MAX as usize + 1));
    std::os::unix::fs::symlink("a/page", world.at("link")).unwrap();
    let (root, store) = (world.root.clone(), world.cache.store().clone());
    let before = (store.usage(), store.evictions());
    let mut look = |path: &str| unopened(&mut world, &root, path);
    assert_eq!(look("/a/page").as_deref(), Some("page"));
    assert_eq!(look("/a/").as_deref(), Some("index"));
    for missing in ["/nothing", "/a/nothing", "/nothing/", "/a/page/", "/a/page/x", "/.hidden"] {
        assert_eq!(look(missing).as_deref(), Some("404"), "{missing}");
    }
    assert_eq!(look(&format!("/{}", "n".repeat(300))).as_deref(), Some("404"), "no file has such a name");
    for regular in ["/list/", "/a", "/link", "/large"] {
        assert_eq!(look(regular), None, "{regular}");
    }
    fs::write(root.join("404.html"), "sorry").unwrap();
    for missing in ["/nothing", "/nothing/", "/.hidden"] {
        assert_eq!(look(missing).as_deref(), Some("404 sorry"), "{missing}");
    }
    assert_eq!((store.usage(), store.evictions()), before, "nothing was opened, no core has to sweep");
}

#[test]
fn unopened_folder_follows_no_link() {
    let mut world = FilesWorld::new();
    let root = world.root.clone();
    std::os::unix::fs::symlink("root", root.with_file_name("link")).unwrap();
    world.write("page", "inside");
    assert_eq!(unopened(&mut world, &root, "/page").as_deref(), Some("inside"));
    for path in ["/page", "/nothing", "/.hidden"] {
        for root in ["link", "nothing"] {
            let root = world.root.with_file_name(root);
            assert_eq!(unopened(&mut world, &root, path), None, "{path} in {}", root.display());
        }
    }
}
