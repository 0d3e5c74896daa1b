//! What a path resolves to when nothing changes.

use super::*;

#[test]
fn a_file_is_read_once_and_then_a_hit() {
    let mut world = World::new();
    world.write("a/page.html", "hello");
    assert_eq!(world.text("/a/page.html"), "hello");
    assert!(world.is_hit("/a/page.html"));
    assert!(!world.is_hit("/a/./page.html"), "another spelling is another key of the core's map");
    let (first, second) = (world.get("/a/page.html"), world.get("/a/%70age.html"));
    assert!(std::ptr::eq(&*first, &*second), "and the same entry");
}

#[test]
fn folders_redirect_to_their_slash_then_show_an_index_or_a_listing() {
    let mut world = World::new();
    world.write("a b/index.html", "index");
    world.write("list/x", "x");
    assert_eq!(world.text("/a%20b"), "-> /a%20b/");
    assert_eq!(world.text("/a%20b/"), "index");
    assert_eq!(world.text("/list/"), "listing");
    assert_eq!(world.text("//list"), "-> /list/", "never a reference to another host");
    assert_eq!(world.text("/list/x/"), "404");
    assert_eq!(world.text("/"), "listing");
}
