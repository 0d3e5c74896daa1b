//! Events between opening a folder and adopting it, step by step.

use super::*;
use rustix::fs::inotify::CreateFlags;
use std::{fs, fs::File, os::fd::AsFd, path::PathBuf};

const SITE: SiteId = SiteId(1);

struct WatchWorld {
    _dir: tempfile::TempDir,
    root: PathBuf,
    tree: WatchTree,
}

impl WatchWorld {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
        let mut tree = WatchTree::new(Some(Arc::new(inotify)), 100);
        tree.set_root(SITE, Some(File::open(&root).unwrap().as_fd()));
        Self { _dir: dir, root, tree }
    }

    fn parent(&self, path: &str) -> ParentNode {
        match self.tree.descend(SITE, path.as_bytes()) {
            Descent::Partial { parent, .. } => parent,
            _ => panic!("the way to {path} is not watched to its end"),
        }
    }

    fn open(&self, name: &str) -> File {
        File::open(self.root.join(name)).unwrap()
    }

    fn drain(&mut self) -> Vec<RecordId> {
        let mut concerned = Vec::new();
        assert_eq!(self.tree.drain(&mut concerned), Drained::All);
        concerned
    }

    fn is_watched(&self, path: &str) -> bool {
        matches!(self.tree.descend(SITE, path.as_bytes()), Descent::Complete { .. })
    }
}

#[test]
fn folder_moved_after_open_is_not_adopted_after_event() {
    let mut world = WatchWorld::new();
    fs::create_dir(world.root.join("a")).unwrap();
    world.drain();
    let (parent, folder) = (world.parent("a/page"), world.open("a"));
    fs::rename(world.root.join("a"), world.root.join("z")).unwrap();
    fs::create_dir(world.root.join("a")).unwrap();
    world.drain();
    assert_eq!(world.tree.adopt(parent, b"a", folder.as_fd()), Adoption::Raced);
}

#[test]
fn folder_moved_after_open_is_dropped_at_event() {
    let mut world = WatchWorld::new();
    fs::create_dir(world.root.join("a")).unwrap();
    world.drain();
    let (parent, folder) = (world.parent("a/page"), world.open("a"));
    fs::rename(world.root.join("a"), world.root.join("z")).unwrap();
    fs::create_dir(world.root.join("a")).unwrap();
    assert_eq!(world.tree.adopt(parent, b"a", folder.as_fd()), Adoption::Done);
    let Descent::Complete { node, name } = world.tree.descend(SITE, b"a/page") else {
        panic!("it is watched")
    };
    world.tree.attach(7, node, name);
    assert!(world.drain().contains(&7));
    assert!(!world.is_watched("a/page"));
    assert_eq!(world.tree.watches(), 1);
}

#[test]
fn entry_is_not_kept_after_missing_name_appears() {
    let mut world = WatchWorld::new();
    let parent = world.parent("a/page");
    assert!(world.tree.unchanged(parent));
    fs::create_dir(world.root.join("a")).unwrap();
    world.drain();
    assert!(!world.tree.unchanged(parent));
}

#[test]
fn the_same_folder_at_two_places_keeps_its_watch_until_both_are_gone() {
    let mut world = WatchWorld::new();
    fs::create_dir(world.root.join("a")).unwrap();
    world.drain();
    let folder = world.open("a");
    for name in ["a", "z"] {
        let parent = world.parent(&format!("{name}/page"));
        assert_eq!(world.tree.adopt(parent, name.as_bytes(), folder.as_fd()), Adoption::Done);
        let Descent::Complete { node, .. } = world.tree.descend(SITE, format!("{name}/page").as_bytes())
        else {
            panic!("it is watched");
        };
        world.tree.attach(if name == "a" { 1 } else { 2 }, node, b"page");
    }
    assert_eq!(world.tree.watches(), 2, "the root's and one for both");
    fs::write(world.root.join("a/page"), "").unwrap();
    let mut concerned = world.drain();
    concerned.sort_unstable();
    concerned.dedup();
    assert_eq!(concerned, [1, 2]);
    let Descent::Complete { node, .. } = world.tree.descend(SITE, b"z/page") else { panic!("it is watched") };
    world.tree.detach(2, node, b"page");
    assert!(world.is_watched("a/page") && !world.is_watched("z/page"));
    assert_eq!(world.tree.watches(), 2);
}
