//! Changes that the kernel does not report: visible at each use, or within the time of a recheck.

use super::*;
use std::process::Command;

#[test]
fn hard_link_edited_under_its_other_name() {
    let mut world = FilesWorld::new();
    world.write("page", "one");
    fs::create_dir(world.at("unwatched")).unwrap();
    fs::hard_link(world.at("page"), world.at("unwatched/twin")).unwrap();
    assert_eq!(world.text("/page"), "one");
    assert!(!world.is_hit("/page"));
    world.write("unwatched/twin", "two");
    assert_eq!(world.text("/page"), "two");
}

#[test]
fn hard_link_made_after_the_file_was_remembered_is_noticed_by_the_recheck() {
    let mut world = FilesWorld::new();
    world.write("page", "one");
    world.settle("/page", "one");
    fs::create_dir(world.root.with_file_name("elsewhere")).unwrap();
    let twin = world.root.with_file_name("elsewhere").join("twin");
    fs::hard_link(world.at("page"), &twin).unwrap();
    fs::write(&twin, "two").unwrap();
    world.now_ms += world.cache.store().options().recheck_ms;
    assert_eq!(world.text("/page"), "two");
}

#[test]
fn a_write_through_a_mapping_is_noticed_by_the_recheck() {
    const WRITER: &str = "
import mmap, sys
file = open(sys.argv[1], 'r+b')
memory = mmap.mmap(file.fileno(), 0)
memory[0:3] = b'two'
print('written', flush=True)
sys.stdin.read()
";
    let mut world = FilesWorld::new();
    world.write("page", "one");
    fs::File::open(world.at("page")).unwrap().sync_all().unwrap();
    world.settle("/page", "one");
    let (stdin, stdout) = (std::process::Stdio::piped(), std::process::Stdio::piped());
    let writer = Command::new("python3")
        .args(["-c", WRITER])
        .arg(world.at("page"))
        .stdin(stdin)
        .stdout(stdout)
        .spawn();
    let Ok(mut writer) = writer else {
        eprintln!("skipped: writing through a mapping takes python3 here");
        return;
    };
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(writer.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(line, "written\n");
    world.now_ms += world.cache.store().options().recheck_ms;
    // tmpfs does not move a file's time for such a write. There the kernel reports the end of the
    // mapping.
    if world.root.starts_with("/dev/shm") {
        drop(writer.stdin.take());
        writer.wait().unwrap();
    }
    assert_eq!(world.text("/page"), "two");
    drop(writer.stdin.take());
    writer.wait().unwrap();
}

#[test]
fn a_recheck_that_finds_nothing_new_keeps_the_entry() {
    let mut world = FilesWorld::new();
    world.write("page", "one");
    let first = world.settle("/page", "one");
    world.settle("/nothing", "404");
    world.now_ms += world.cache.store().options().recheck_ms;
    assert!(!world.is_hit("/page"), "one of those who ask looks");
    assert!(world.is_hit("/page"), "the others need not");
    world.now_ms += world.cache.store().options().recheck_ms;
    let second = world.get("/page");
    assert!(std::ptr::eq(&*first, &*second));
    assert_eq!(world.text("/nothing"), "404");
    assert!(world.is_hit("/nothing"));
}

#[test]
fn without_inotify_every_use_looks() {
    let (dir, root) = folder();
    let site = FileStore::with(StoreOptions::default(), None, SETTLED)
        .open(&root, SiteOptions::default(), CacheOnly::No)
        .unwrap();
    assert_eq!(site.describe_changes(), "looked up at each use (no inotify)");
    assert!(site.store().notify_fd().is_none());
    let mut world = FilesWorld::of(dir, root, site);
    assert_eq!(world.text("/a/page"), "404");
    world.write("a/page", "one");
    assert_eq!(world.text("/a/page"), "one");
    assert!(!world.is_hit("/a/page"));
    world.write("a/page", "two");
    assert_eq!(world.text("/a/page"), "two");
    fs::rename(world.at("a"), world.at("b")).unwrap();
    assert_eq!(world.text("/a/page"), "404");
    world.write("404.html", "sorry");
    assert_eq!(world.text("/a/page"), "404 sorry");
}

#[test]
fn a_file_that_changed_a_moment_ago_is_read_again() {
    let (dir, root) = folder();
    let site = FileStore::with(StoreOptions::default(), inotify(), i64::MAX)
        .open(&root, SiteOptions::default(), CacheOnly::No)
        .unwrap();
    let mut world = FilesWorld::of(dir, root, site);
    world.write("page", "one");
    let first = world.settle("/page", "one");
    assert_eq!(tag(&first), tag(&world.get("/page")));
    world.now_ms += world.cache.store().options().recheck_ms;
    assert_eq!(tag(&first), tag(&world.get("/page")), "the tag of the same content");
    assert!(first.is_stale(), "for the other cores too");
}

/// Writes to `path` through a persistent mapping: the script writes each line of input at the start
/// of the file.
const MAPPER: &str = "
import mmap, sys
file = open(sys.argv[1], 'r+b')
memory = mmap.mmap(file.fileno(), 0)
for line in sys.stdin:
    memory[0:3] = line.strip().encode()
    print('written', flush=True)
";

/// A function that writes to a mapping of `path`; `None` without python3.
fn mapped(path: &Path) -> Option<impl FnMut(&str) + use<>> {
    let (stdin, stdout) = (std::process::Stdio::piped(), std::process::Stdio::piped());
    let writer = Command::new("python3").args(["-c", MAPPER]).arg(path).stdin(stdin).stdout(stdout).spawn();
    let Ok(mut writer) = writer else {
        eprintln!("skipped: writing through a mapping takes python3 here");
        return None;
    };
    let mut said = std::io::BufReader::new(writer.stdout.take().unwrap());
    let mut told = writer.stdin.take().unwrap();
    Some(move |text: &str| {
        std::io::Write::write_all(&mut told, format!("{text}\n").as_bytes()).unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        assert_eq!(line, "written\n");
        let _ = &writer;
    })
}

#[test]
fn repeated_store_through_a_mapping_is_noticed_and_gets_its_own_tag() {
    let mut world = FilesWorld::new();
    world.write("page", "one");
    let Some(mut store) = mapped(&world.at("page")) else { return };
    let mut tags = vec![tag(&world.settle("/page", "one"))];
    // The second store finds its page dirty already, so the store moves no time.
    for text in ["two", "six", "ten"] {
        store(text);
        world.now_ms += world.cache.store().options().recheck_ms;
        assert_eq!(world.text("/page"), text);
        tags.push(tag(&world.get("/page")));
    }
    let all = tags.len();
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), all, "one tag for each content");
}

#[test]
fn large_file_has_strong_tag_when_time_is_exact() {
    let mut world = FilesWorld::new();
    world.write("large", &"0123456789".repeat(30_000));
    let first = tag(&world.get("/large"));
    // On tmpfs no store through a mapping moves a time.
    assert_eq!(first.starts_with(b"W/"), world.root.starts_with("/dev/shm"));
    let Some(mut store) = mapped(&world.at("large")) else { return };
    for text in ["two", "six"] {
        let before = world.get("/large");
        store(text);
        world.now_ms += world.cache.store().options().recheck_ms;
        let after = tag(&world.get("/large"));
        assert!(after != tag(&before) || after.starts_with(b"W/"), "{text}");
    }
}

#[test]
fn large_file_that_changed_a_moment_ago_has_a_weak_tag() {
    let (dir, root) = folder();
    let site = FileStore::with(StoreOptions::default(), inotify(), i64::MAX)
        .open(&root, SiteOptions::default(), CacheOnly::No)
        .unwrap();
    let mut world = FilesWorld::of(dir, root, site);
    world.write("large", &"0123456789".repeat(30_000));
    let large = world.get("/large");
    assert!(tag(&large).starts_with(b"W/\""));
    let EntryOutcome::File(file) = large.outcome() else { panic!("a file") };
    assert!(file.variant(Choice::Identity).is_changing());
}
