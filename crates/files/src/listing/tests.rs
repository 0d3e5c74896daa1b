//! Pages of folders, and the order and sizes on the pages.

use super::super::{FileStore, SiteOptions, StoreOptions};
use super::*;
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path};
use vermeil_io::CacheOnly;

fn listed(root: &Path, path: &str, options: StoreOptions) -> Result<String, Status> {
    listed_page(root, path, options, 1)
}

fn listed_page(root: &Path, path: &str, options: StoreOptions, page: usize) -> Result<String, Status> {
    let site = FileStore::new(options).open(root, SiteOptions::default(), CacheOnly::No).expect("a site");
    let page = ListingJob::new(site, path.as_bytes(), page).run()?;
    let head = String::from_utf8(page.head).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nServer: vermeil\r\n"), "{head}");
    assert!(head.ends_with(&format!("Content-Length: {}\r\n", page.body.len())), "{head}");
    Ok(String::from_utf8(page.body).expect("pages are UTF-8"))
}

/// The links of a page, in order.
fn links(page: &str) -> Vec<&str> {
    page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn folders_come_first_then_names_in_natural_order() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["page10.html", "page9.html", "Page1.html", "zebra", ".hidden", "apple"] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    for name in ["sub10", "sub2", ".git"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let page = listed(dir.path(), "/", StoreOptions::default()).unwrap();
    assert_eq!(
        links(&page),
        ["sub2/", "sub10/", "apple", "Page1.html", "page9.html", "page10.html", "zebra"]
    );
    assert!(page.contains("width=device-width"));
}

#[test]
fn listing_escapes_any_name_and_encodes_any_link() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("<b>&");
    fs::create_dir(&folder).unwrap();
    for name in [b"<script>alert('1')&\"".as_slice(), b"a b?c#d%20", b"caf\xe9", b"java:x"] {
        fs::write(folder.join(OsStr::from_bytes(name)), "").unwrap();
    }
    let page = listed(dir.path(), "/<b>&/", StoreOptions::default()).unwrap();
    let expected =
        ["../", "%3Cscript%3Ealert%28%271%27%29%26%22", "a%20b%3Fc%23d%2520", "caf%E9", "java%3Ax"];
    assert_eq!(links(&page), expected);
    assert!(page.contains("<h1>/&lt;b&gt;&amp;/</h1>"));
    assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)&amp;&quot;</a>"));
    assert!(page.contains("caf\u{fffd}</a>"));
    assert!(!page.contains("<script>"));
}

#[test]
fn listing_hides_files_that_server_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("page"), "").unwrap();
    std::os::unix::fs::symlink("page", root.join("near")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("far")).unwrap();
    std::os::unix::fs::symlink("nothing", root.join("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let page = listed(&root, "/", StoreOptions::default()).unwrap();
    assert_eq!(links(&page), ["near", "page"]);
}

#[test]
fn pages_show_every_name_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..23).map(|i| i.to_string()).collect();
    for name in &names {
        fs::write(dir.path().join(name), "").unwrap();
    }
    let options = StoreOptions { listing_names_max: 10, ..StoreOptions::default() };
    let page = |number| listed_page(dir.path(), "/", options.clone(), number);
    let texts: Vec<_> = (1..=3).map(|number| page(number).unwrap()).collect();
    let shown: Vec<_> =
        texts.iter().flat_map(|text| links(text)).filter(|link| !link.starts_with('?')).collect();
    assert_eq!(shown, names);
    let others = |text: &str| -> Vec<String> {
        links(text).into_iter().filter(|link| link.starts_with('?')).map(str::to_owned).collect()
    };
    assert_eq!(others(&texts[0]), ["?page=2"]);
    assert_eq!(others(&texts[1]), ["?page=1", "?page=3"]);
    assert_eq!(others(&texts[2]), ["?page=2"]);
    assert!(texts[1].contains("Page 2 of 3"));
    assert_eq!(page(4), Err(Status::NotFound));
    assert!(!listed(dir.path(), "/", StoreOptions::default()).unwrap().contains("Page "));
}

#[test]
fn sizes_and_times_are_shown_and_a_folder_that_has_gone_is_not_found() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("page"), "x".repeat(1536)).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(784_111_777);
    fs::File::options().append(true).open(dir.path().join("page")).unwrap().set_modified(time).unwrap();
    let page = listed(dir.path(), "/", StoreOptions::default()).unwrap();
    assert!(page.contains("<td>1.50 KiB<td>06 Nov 1994 08:49 UTC\n"), "{page}");
    assert_eq!(listed(dir.path(), "/gone/", StoreOptions::default()), Err(Status::NotFound));
    assert_eq!(listed(dir.path(), "/page/", StoreOptions::default()), Err(Status::NotFound));
}

#[test]
fn sizes_are_rounded_to_three_digits() {
    for (bytes, expected) in [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (10_235, "10.0 KiB"),
        (102_400, "100 KiB"),
        (1_048_575, "1.00 MiB"),
        (5_000_000_000, "4.66 GiB"),
        (u64::MAX, "16.0 EiB"),
    ] {
        assert_eq!(human(bytes), expected, "{bytes}");
    }
}
