//! Precompressed siblings: found, chosen, and correct when they appear and disappear.

use super::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vermeil_http::{
    ListField,
    negotiate::{EncodingSet, choose},
};

fn codings(world: &mut FilesWorld, path: &str) -> Vec<Choice> {
    match world.get(path).outcome() {
        EntryOutcome::File(file) => [Choice::Br, Choice::Zstd, Choice::Gzip]
            .into_iter()
            .filter(|&coding| file.codings().contains(coding))
            .collect(),
        _ => panic!("{path} is a file"),
    }
}

#[test]
fn siblings_are_representations_with_their_own_tag_length_and_coding() {
    let mut world = FilesWorld::new();
    world.write("app.js", "the original");
    world.write("app.js.br", "brotli");
    world.write("app.js.gz", "gzipped");
    world.write("app.js.zst", "zstandard");
    let handle = world.settle("/app.js", "the original");
    let EntryOutcome::File(file) = handle.outcome() else { panic!("a file") };
    let mut tags = vec![file.variant(Choice::Identity).validators().etag.to_vec()];
    for (coding, name, content) in
        [(Choice::Br, "br", "brotli"), (Choice::Zstd, "zstd", "zstandard"), (Choice::Gzip, "gzip", "gzipped")]
    {
        let variant = file.variant(coding);
        assert_eq!(body(variant), content.as_bytes());
        assert_eq!(variant.coding(), coding);
        let head = String::from_utf8(variant.head().to_vec()).unwrap();
        for line in [
            "Content-Type: text/javascript; charset=utf-8".to_owned(),
            format!("Content-Encoding: {name}"),
            format!("Content-Length: {}", content.len()),
            "Vary: Accept-Encoding".to_owned(),
        ] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{line} in {head}");
        }
        tags.push(variant.validators().etag.to_vec());
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 4);
    assert_eq!(choose(Some(ListField::Line(b"gzip, deflate, br")), file.codings()), Choice::Br);
}

#[test]
fn siblings_created_changed_and_removed_later() {
    let mut world = FilesWorld::new();
    world.write("a/app.js", "the original");
    world.settle("/a/app.js", "the original");
    assert_eq!(codings(&mut world, "/a/app.js"), []);
    world.write("a/app.js.gz", "gzip");
    assert_eq!(codings(&mut world, "/a/app.js"), [Choice::Gzip]);
    world.write("a/app.js.br", "br");
    world.write("a/app.js.zst", "zst");
    assert_eq!(codings(&mut world, "/a/app.js"), [Choice::Br, Choice::Zstd, Choice::Gzip]);
    world.write("a/app.js.gz", "gzip, edited");
    let handle = world.get("/a/app.js");
    let EntryOutcome::File(file) = handle.outcome() else { panic!("a file") };
    assert_eq!(body(file.variant(Choice::Gzip)), b"gzip, edited");
    for name in ["a/app.js.gz", "a/app.js.br", "a/app.js.zst"] {
        fs::remove_file(world.at(name)).unwrap();
    }
    assert_eq!(codings(&mut world, "/a/app.js"), []);
    let handle = world.settle("/a/app.js", "the original");
    let EntryOutcome::File(file) = handle.outcome() else { panic!("a file") };
    assert_eq!(file.codings(), EncodingSet::NONE);
    assert!(!file.variant(Choice::Identity).head().windows(5).any(|at| at == b"Vary:"));
}

#[test]
fn a_sibling_left_over_from_before_an_edit_is_ignored() {
    let mut world = FilesWorld::new();
    world.write("page", "edited");
    world.write("page.gz", "of what it was");
    world.write("page.br", "copied a second before its original");
    set_mtime(&world.at("page"), 1_000_010);
    set_mtime(&world.at("page.gz"), 1_000_005);
    set_mtime(&world.at("page.br"), 1_000_009);
    assert_eq!(codings(&mut world, "/page"), [Choice::Br]);
    set_mtime(&world.at("page.gz"), 1_000_010);
    assert_eq!(codings(&mut world, "/page"), [Choice::Br, Choice::Gzip]);
}

#[test]
fn a_folder_is_no_sibling_and_an_index_page_may_have_some() {
    let mut world = FilesWorld::new();
    world.write("a/index.html", "index");
    fs::create_dir(world.at("a/index.html.br")).unwrap();
    world.write("a/index.html.gz", "gzip");
    assert_eq!(codings(&mut world, "/a/"), [Choice::Gzip]);
}

/// Regression: the server kept that a file has no sibling, when only a descriptor was missing.
#[test]
fn missing_descriptor_does_not_hide_sibling_for_good() {
    const IN_CHILD: &str = "VERMEIL_TEST_DESCRIPTOR_BOUND";
    if std::env::var_os(IN_CHILD).is_none() {
        // The bound on descriptors counts for a whole process.
        let name = "tests::siblings::missing_descriptor_does_not_hide_sibling_for_good";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = child.args(["--exact", name, "--nocapture"]).env(IN_CHILD, "1").output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        return;
    }
    let mut world =
        FilesWorld::bounded(StoreOptions { content_file_bytes_max: 0, ..StoreOptions::default() });
    world.write("page", "page");
    world.write("page.gz", "gzip");
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..before }).unwrap();
    let mut held: Vec<_> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
    // The file itself takes the last descriptor.
    held.pop();
    let page = world.get_once("/page");
    let EntryOutcome::File(file) = page.outcome() else { panic!("a file") };
    assert!(file.codings().is_empty(), "the sibling cannot be opened");
    drop((page, held));
    assert_eq!(codings(&mut world, "/page"), [Choice::Gzip]);
}
