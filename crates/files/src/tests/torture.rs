//! Readers against writers that replace, truncate, grow, rename and delete. No body ever disagrees
//! with its length, and two bodies never share a tag. When the writers stop, every reader sees the
//! present files.

use super::*;
use std::{
    collections::HashMap,
    fs::File,
    io::Write,
    os::unix::fs::FileExt,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Rounds of the writer, some 3 ms each under load, so the test takes about two seconds.
const ROUNDS: u64 = 600;
const READERS: usize = 2;

/// Each tag, with a checksum of the body that came with the tag.
type Tags = Mutex<HashMap<Vec<u8>, u64>>;

/// A content that contains its own length and checksum.
fn content(seed: u64) -> String {
    let filler = "abcdefghij".repeat((seed * 7919 % 3000) as usize / 10);
    format!("{:08}:{:016x}:{filler}", filler.len(), checksum(filler.as_bytes()))
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).expect("text");
    let (length, rest) = text.split_at(8);
    let (sum, filler) = (&rest[1..17], &rest[18..]);
    length.parse() == Ok(filler.len()) && u64::from_str_radix(sum, 16) == Ok(checksum(filler.as_bytes()))
}

/// Checks an answer. A file replaced by renaming is always whole. A file edited in place need only
/// agree with its length and tag.
fn check(path: &str, entry: &Entry, tags: &Tags) {
    let EntryOutcome::File(file) = entry.outcome() else {
        assert!(matches!(entry.outcome(), EntryOutcome::NotFound(_)), "{path}: {entry:?}");
        return;
    };
    let variant = file.variant(Choice::Identity);
    let bytes = body(variant);
    match variant.content() {
        Content::Disk(file) if !file.still_same() => return,
        _ => assert_eq!(bytes.len() as u64, variant.bytes(), "{path}"),
    }
    if matches!(variant.content(), Content::Memory(_)) {
        let sum = checksum(&bytes);
        let known = *tags.lock().unwrap().entry(variant.validators().etag.to_vec()).or_insert(sum);
        assert_eq!(known, sum, "{path}: one tag, two bodies");
    }
    if path.contains("replaced") {
        assert!(is_whole(&bytes), "{path}: {}", String::from_utf8_lossy(&bytes));
    }
}

fn write_round(root: &Path, round: u64) {
    let text = content(round);
    let fresh = root.join("fresh");
    fs::write(&fresh, &text).unwrap();
    fs::rename(&fresh, root.join("a/b/replaced")).unwrap();
    let edited = root.join("a/edited");
    match round % 4 {
        0 => fs::write(&edited, &text).unwrap(),
        1 => File::options().append(true).open(&edited).unwrap().write_all(text.as_bytes()).unwrap(),
        2 => File::options().write(true).open(&edited).unwrap().set_len(round % 100).unwrap(),
        _ => File::options().write(true).open(&edited).unwrap().write_all_at(text.as_bytes(), 3).unwrap(),
    }
    match round % 8 {
        0 => fs::rename(root.join("a"), root.join("z"))
            .and_then(|()| fs::rename(root.join("z"), root.join("a")))
            .unwrap(),
        3 => {
            fs::create_dir(root.join("new")).unwrap();
            fs::write(root.join("new/replaced"), &text).unwrap();
            fs::rename(root.join("a/b"), root.join("old")).unwrap();
            fs::rename(root.join("new"), root.join("a/b")).unwrap();
            fs::remove_dir_all(root.join("old")).unwrap();
        }
        5 => fs::remove_file(root.join("a/b/replaced")).unwrap(),
        _ => {}
    }
}

const PATHS: [&str; 4] = ["/a/b/replaced", "/a/edited", "/a/b/", "/a/b/none"];

#[test]
fn readers_see_only_written_contents() {
    let (_dir, root) = folder();
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/edited"), "").unwrap();
    let options = StoreOptions { content_file_bytes_max: 2500, entries_max: 3, ..StoreOptions::default() };
    let site = FileStore::new(options).open(&root, SiteOptions::default(), CacheOnly::No).unwrap();
    let (done, clock, tags) = (AtomicBool::new(false), AtomicU64::new(10_000), Tags::default());
    std::thread::scope(|threads| {
        for _ in 0..READERS {
            threads.spawn(|| {
                let mut cache = CoreCache::new(site.store().clone());
                while !done.load(Ordering::Relaxed) {
                    site.store().handle_events();
                    for path in PATHS.iter().cycle().take(20) {
                        let handle = ask(&mut cache, &site, path, clock.load(Ordering::Relaxed));
                        if *path != "/a/b/" {
                            check(path, &handle, &tags);
                        }
                    }
                }
            });
        }
        let _done = Done(&done);
        let mut cache = CoreCache::new(site.store().clone());
        for round in 0..ROUNDS {
            write_round(&root, round);
            let now_ms = clock.fetch_add(7, Ordering::Relaxed);
            for path in PATHS {
                expect_what_is_there((&mut cache, &site), &root, path, now_ms);
            }
        }
    });
}

/// Stops the readers, also when the writer fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Expects the present content of the file. The writers have stopped, so the answer must match.
fn expect_what_is_there((cache, site): (&mut CoreCache, &Arc<Site>), root: &Path, path: &str, now_ms: u64) {
    cache.store().handle_events();
    let handle = ask(cache, site, path, now_ms);
    let there = fs::read(root.join(&path[1..])).ok();
    match handle.outcome() {
        EntryOutcome::File(file) => assert_eq!(Some(body(file.variant(Choice::Identity))), there, "{path}"),
        EntryOutcome::NotFound(_) => assert_eq!(there, None, "{path}"),
        EntryOutcome::Listing { .. } => assert!(root.join(&path[1..]).is_dir()),
        _ => panic!("{path}: {handle:?}"),
    }
}

fn ask(cache: &mut CoreCache, site: &Arc<Site>, path: &str, now_ms: u64) -> EntryHandle {
    match cache.lookup(site, path.as_bytes(), now_ms) {
        Lookup::Hit(handle) => handle.clone(),
        Lookup::Never(status) => panic!("{path} is {status:?}"),
        Lookup::Miss(mut job) => {
            let loaded = job.try_now().unwrap_or_else(|WouldBlock| job.run());
            cache.insert(loaded)
        }
    }
}
