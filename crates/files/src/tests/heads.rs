//! The ready-made heads, byte for byte.

use super::*;
use std::os::unix::fs::MetadataExt;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("heads are ASCII")
}

#[test]
fn heads_of_a_file() {
    let mut world = FilesWorld::new();
    world.write("page.html", "hello");
    set_mtime(&world.at("page.html"), 784_111_777);
    let metadata = fs::metadata(world.at("page.html")).unwrap();
    let (inode, seconds, nanoseconds) = (metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
    let handle = world.get("/page.html");
    let EntryOutcome::File(file) = handle.outcome() else { panic!("a file") };
    let variant = file.variant(Choice::Identity);
    let tag = text(variant.validators().etag);
    let hash = tag
        .strip_prefix(&format!("\"{inode:x}-5-{seconds:x}.{nanoseconds:x}-"))
        .and_then(|rest| rest.strip_suffix('"'));
    assert!(hash.is_some_and(|hash| u64::from_str_radix(hash, 16).is_ok()), "{tag}");
    let validators =
        format!("Server: vermeil\r\nETag: {tag}\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    assert_eq!(
        text(variant.head()),
        format!(
            "HTTP/1.1 200 OK\r\n{validators}Accept-Ranges: bytes\r\n\
             Content-Type: text/html; charset=utf-8\r\nContent-Length: 5\r\n"
        )
    );
    assert_eq!(text(variant.shared_fields()), validators);
    assert_eq!(text(variant.partial_fields()), format!("{validators}Accept-Ranges: bytes\r\n"));
    assert_eq!(variant.media_type(), "text/html; charset=utf-8");
    let date = variant.validators().last_modified.expect("a date");
    assert_eq!((variant.bytes(), date.seconds()), (5, 784_111_777));
}

#[test]
fn not_found_page_has_complete_head() {
    let mut world = FilesWorld::new();
    world.write("404.html", "sorry");
    world.write("404.html.gz", "zip");
    let handle = world.get("/nothing");
    let page = handle.not_found_page().expect("there is one");
    let common = "HTTP/1.1 404 Not Found\r\nServer: vermeil\r\nVary: Accept-Encoding\r\n";
    let html = "Content-Type: text/html; charset=utf-8\r\n";
    assert_eq!(text(page.variant(Choice::Identity).head()), format!("{common}{html}Content-Length: 5\r\n"));
    assert_eq!(
        text(page.variant(Choice::Gzip).head()),
        format!("{common}Content-Encoding: gzip\r\n{html}Content-Length: 3\r\n")
    );
}

/// Once two contents of the same second shared a `Last-Modified`, and `If-Range` mixed parts of
/// both. Also, a date in the future was sent.
#[test]
fn date_is_sent_when_no_other_content_shares_it() {
    let (dir, root) = folder();
    let store = FileStore::with(StoreOptions::default(), inotify(), super::super::entry::SETTLE_MS);
    let site = store.open(&root, SiteOptions::default(), CacheOnly::No).expect("a site");
    let mut world = FilesWorld::of(dir, root, site);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    for (name, modified, expected) in
        [("past", now - 60, true), ("present", now, false), ("future", now + 86_400, false)]
    {
        world.write(name, "content");
        set_mtime(&world.at(name), modified);
        let handle = world.get(&format!("/{name}"));
        let EntryOutcome::File(file) = handle.outcome() else { panic!("a file") };
        let variant = file.variant(Choice::Identity);
        assert_eq!(variant.validators().last_modified.is_some(), expected, "{name}");
        for head in [variant.head(), variant.shared_fields(), variant.partial_fields()] {
            assert_eq!(text(head).contains("\r\nLast-Modified: "), expected, "{name}");
        }
        assert!(!handle.is_stale());
        world.now_ms += world.cache.store().options().recheck_ms;
        world.get(&format!("/{name}"));
        assert!(handle.is_stale(), "it is made again, until all of it is settled");
    }
}
