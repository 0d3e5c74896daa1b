//! The ready-made heads, byte for byte.

use super::*;
use std::os::unix::fs::MetadataExt;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("heads are ASCII")
}

#[test]
fn heads_of_a_file() {
    let mut world = World::new();
    world.write("page.html", "hello");
    set_mtime(&world.at("page.html"), 784_111_777);
    let inode = fs::metadata(world.at("page.html")).unwrap().ino();
    let handle = world.get("/page.html");
    let Outcome::File(file) = handle.outcome() else { panic!("a file") };
    let variant = file.variant(Choice::Identity);
    let validators = format!(
        "Server: vermeil\r\nETag: \"{inode:x}-5-2ebc98a1.0\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
    );
    assert_eq!(
        text(variant.head()),
        format!(
            "HTTP/1.1 200 OK\r\n{validators}Accept-Ranges: bytes\r\n\
             Content-Type: text/html; charset=utf-8\r\nContent-Length: 5\r\n"
        )
    );
    assert_eq!(text(variant.not_modified_head()), format!("HTTP/1.1 304 Not Modified\r\n{validators}"));
    assert_eq!(text(variant.partial_fields()), format!("{validators}Accept-Ranges: bytes\r\n"));
    assert_eq!(variant.media_type(), "text/html; charset=utf-8");
    assert_eq!((variant.bytes(), variant.validators().last_modified.seconds()), (5, 784_111_777));
}

#[test]
fn head_of_the_page_for_what_is_not_found() {
    let mut world = World::new();
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
