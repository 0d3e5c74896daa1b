//! Files that the site must not serve, and files that must not block the core.

use super::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::os::unix::{ffi::OsStrExt, net::UnixListener};

#[test]
fn no_spelling_of_a_path_leaves_the_root() {
    let mut world = FilesWorld::new();
    fs::write(world.root.with_file_name("secret"), "outside").unwrap();
    world.write("a/page", "page");
    for path in [
        "/../secret",
        "/%2e%2e/secret",
        "/.%2E/secret",
        "/a/../../secret",
        "/a/%2e%2e/%2e%2e/secret",
        "/a//..//..//secret",
        "/../root/../secret",
    ] {
        assert_eq!(world.text(path), "404", "{path}");
    }
    for path in ["/..%2fsecret", "/a%2fpage", "/page%00", "/%", "/%zz", "a/page"] {
        let lookup = world.cache.lookup(&world.site, path.as_bytes(), 10_000);
        assert!(matches!(lookup, Lookup::Never(_)), "{path} names nothing");
    }
    assert_eq!(world.text("/%2e%2e/a/page"), "page", "what climbs above the root stays at the root");
}

#[test]
fn dotfiles_are_not_served_except_well_known() {
    let mut world = FilesWorld::new();
    world.write(".htpasswd", "secret");
    world.write(".git/config", "secret");
    world.write("a/.env", "secret");
    world.write(".well-known/security.txt", "contact");
    world.write(".well-known/.hidden", "secret");
    world.write("a/.well-known/x", "secret");
    for path in
        ["/.htpasswd", "/.git/config", "/.git", "/.git/", "/a/.env", "/a/%2eenv", "/.well-known/.hidden"]
    {
        world.settle(path, "404");
    }
    world.settle("/a/.well-known/x", "404");
    world.settle("/.well-known/security.txt", "contact");
    world.settle("/.well-known", "-> /.well-known/");
}

#[test]
fn pipes_sockets_and_devices_are_not_there_and_do_not_block() {
    let mut world = FilesWorld::new();
    mknodat(CWD, world.at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _socket = UnixListener::bind(world.at("socket")).unwrap();
    world.settle("/pipe", "404");
    world.settle("/socket", "404");
    fs::create_dir(world.at("a")).unwrap();
    mknodat(CWD, world.at("a/index.html"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    world.settle("/a/", "listing");
    world.write("page", "page");
    mknodat(CWD, world.at("page.br"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    world.settle("/page", "page");
    fs::remove_file(world.at("page")).unwrap();
    mknodat(CWD, world.at("page"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    world.settle("/page", "404");
}

#[test]
fn names_that_cannot_be_are_not_found() {
    let mut world = FilesWorld::new();
    let long_name = format!("/{}", "n".repeat(300));
    world.settle(&long_name, "404");
    let long_path = format!("/{}", "d/".repeat(2040));
    assert_eq!(world.text(&long_path), "404");
    let Lookup::Never(status) =
        world.cache.lookup(&world.site, format!("/{}", "d/".repeat(3000)).as_bytes(), 10_000)
    else {
        panic!("longer than any path");
    };
    assert_eq!(status.code(), 414);
}

#[test]
fn names_that_are_not_utf_8_are_served() {
    let mut world = FilesWorld::new();
    fs::write(world.root.join(std::ffi::OsStr::from_bytes(b"caf\xe9 \xff")), "coffee").unwrap();
    world.settle("/caf%e9%20%ff", "coffee");
}

#[test]
fn a_root_that_is_no_folder_is_refused_in_words() {
    let world = FilesWorld::new();
    world.write("file", "");
    let refused = |path: &str| {
        FileStore::new(StoreOptions::default())
            .open(&world.at(path), SiteOptions::default(), CacheOnly::No)
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    let missing = refused("nothing");
    assert!(missing.ends_with("there is no such folder; make it, or name another"), "{missing}");
    assert!(refused("file").ends_with("it is not a folder; name the folder it is in"), "{}", refused("file"));
}
