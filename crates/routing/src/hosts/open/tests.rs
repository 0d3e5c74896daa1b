//! A bounded number of sites: sites in use stay open, and all cores drop the closed sites.

use super::*;
use crate::hosts::{ErrorPagePath, HostsBuilder, Rules, Unknown};
use std::fs;
use vermeil_files::StoreOptions;

struct OpenWorld {
    _dir: tempfile::TempDir,
    hosts: Arc<Hosts>,
    open: Arc<OpenSites>,
}

impl OpenWorld {
    /// `count` hosts, each with a folder of its own, and room for `max` open sites.
    fn new(count: usize, max: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut builder = HostsBuilder::new();
        for i in 0..count {
            let root = dir.path().join(i.to_string());
            fs::create_dir(&root).unwrap();
            builder.add(Some(&root), Rules::default());
        }
        let hosts = Arc::new(builder.build(Unknown::Default).unwrap());
        Self {
            _dir: dir,
            hosts,
            open: Arc::new(OpenSites::new(FileStore::new(StoreOptions::default()), max)),
        }
    }

    fn core(&self) -> CoreHosts {
        CoreHosts::new(self.hosts.clone(), self.open.clone())
    }

    fn host(&self, index: usize) -> HostId {
        self.hosts.iter().nth(index).unwrap()
    }

    /// Makes a core find the site of a host, and waits for the open if necessary.
    fn site(&self, core: &mut CoreHosts, index: usize) -> Arc<Site> {
        let host = self.host(index);
        let found = match core.find(host) {
            OpenedHost::Wait(job) => {
                let _held = job.run().unwrap();
                core.find(host)
            }
            found => found,
        };
        assert!(matches!(found, OpenedHost::Open));
        core.site().clone()
    }

    fn sites(&self) -> usize {
        self.open.store().usage().sites
    }
}

#[test]
fn a_folder_is_opened_once_for_all_cores_and_hosts() {
    let world = OpenWorld::new(2, 10);
    let [mut a, mut b] = [world.core(), world.core()];
    let site = world.site(&mut a, 0);
    assert!(Arc::ptr_eq(&site, &world.site(&mut b, 0)));
    assert!(Arc::ptr_eq(&site, &world.site(&mut a, 0)));
    assert_eq!(world.sites(), 1, "the other is opened when it is asked for");
    assert!(!Arc::ptr_eq(&site, &world.site(&mut b, 1)));
    assert_eq!((world.sites(), world.open.count()), (2, 2));
}

#[test]
fn open_folders_stay_within_bound() {
    let world = OpenWorld::new(100, 8);
    let [mut busy, mut idle] = [world.core(), world.core()];
    world.site(&mut idle, 0);
    for i in 0..100 {
        let site = world.site(&mut busy, i);
        assert!(site.path().ends_with(i.to_string()));
        assert!(world.open.count() <= 8);
    }
    // Both cores may still hold a site that was closed to make room for the last open.
    assert!(world.sites() <= 10, "{} are held", world.sites());
    idle.tick();
    busy.tick();
    assert!(world.sites() <= 8, "{} are held", world.sites());
}

#[test]
fn used_folder_stays_open() {
    let world = OpenWorld::new(100, 8);
    let mut core = world.core();
    let first = world.site(&mut core, 0);
    for i in 1..100 {
        world.site(&mut core, i);
        assert!(Arc::ptr_eq(&first, &world.site(&mut core, 0)));
    }
}

#[test]
fn reload_keeps_unchanged_folders_open() {
    let world = OpenWorld::new(3, 8);
    let mut core = world.core();
    let sites = [0, 1, 2].map(|i| world.site(&mut core, i));
    let mut builder = HostsBuilder::new();
    builder.add(Some(sites[2].path()), Rules::default());
    let gone = world._dir.path().join("gone");
    builder.add(Some(&gone), Rules::default());
    builder.add(None, Rules::default());
    let hosts = Arc::new(builder.build(Unknown::Default).unwrap());
    world.open.keep_only(&hosts);
    core.set_hosts(hosts.clone());
    let ids: Vec<HostId> = hosts.iter().collect();
    assert!(matches!(core.find(ids[0]), OpenedHost::Open));
    assert!(Arc::ptr_eq(core.site(), &sites[2]));
    assert!(matches!(core.find(ids[2]), OpenedHost::NoFolder));
    match core.find(ids[1]) {
        OpenedHost::Failed(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
        OpenedHost::Wait(job) => assert_eq!(job.run().err().unwrap().kind(), io::ErrorKind::NotFound),
        _ => panic!("there is no such folder"),
    }
    drop(sites);
    core.tick();
    assert_eq!((world.sites(), world.open.count()), (1, 1));
}

#[test]
fn waiting_answer_keeps_rules_of_each_configuration() {
    let with_page = |path: &str| {
        let page = ErrorPagePath { statuses: "404".parse().unwrap(), path: path.into() };
        let answers = AnswerRules { error_pages: vec![page], ..AnswerRules::default() };
        let mut builder = HostsBuilder::new();
        builder.add(None, Rules { answers, ..Rules::default() });
        Arc::new(builder.build(Unknown::Default).unwrap())
    };
    let open = Arc::new(OpenSites::new(FileStore::new(StoreOptions::default()), 1));
    let mut core = CoreHosts::new(with_page("/first.html"), open);
    let mut held = HeldAnswerRules::default();
    for (path, next) in [("/first.html", "/second.html"), ("/second.html", "/third.html")] {
        let host = core.hosts().default_host();
        let id = core.rules_of_answers(host, None).unwrap();
        held.hold(&core, Some(id));
        core.set_hosts(with_page(next));
        // A later step of the answer keeps the rules that it has.
        held.hold(&core, Some(id));
        core.set_hosts(with_page("/last.html"));
        let page = core.with_rules(id, |rules| rules.error_page(Status::NotFound).map(str::to_owned));
        assert_eq!(page.as_deref(), Some(path));
        core.set_hosts(with_page(next));
    }
}

#[test]
fn closed_folder_is_served_by_path() {
    let world = OpenWorld::new(3, 2);
    let [mut core, mut other] = [world.core(), world.core()];
    world.site(&mut core, 0);
    world.site(&mut other, 1);
    assert!(core.unopened(world.host(0), 0).is_none(), "the folder is open");
    // The other core's opens close the folder.
    for i in [2, 1, 2, 1] {
        world.site(&mut other, i);
    }
    assert!(core.seats.values().all(|seat| seat.closed.load(Ordering::Relaxed)));
    assert!(core.unopened(world.host(0), 0).is_some());
    assert!(core.seats.is_empty() && core.recent.is_none());
}

#[test]
fn request_that_opened_its_folder_counts_once() {
    let world = OpenWorld::new(2, 1);
    let mut core = world.core();
    world.site(&mut core, 0);
    let host = world.host(1);
    for _ in 0..OPENED_REQUESTS - 1 {
        assert!(core.unopened(host, 0).is_some());
    }
    let folder = Folder::of(&world.hosts, host).unwrap();
    let job = OpenJob { open: world.open.clone(), folder, host: core.met(host) };
    core.keep(&job.run().unwrap());
    assert!(core.unopened(host, 0).is_none(), "the folder is open");
    assert!(matches!(core.find(host), OpenedHost::Open));
    let hash = core.seats.hasher().hash_one(host);
    assert_eq!(core.doorkeeper.count(hash, 0), OPENED_REQUESTS, "this count is the next one");
}
