//! Several sites in a store: isolation, and shared state.

use super::*;

/// Two folders, beside each other or nested, and a core.
struct Two {
    world: FilesWorld,
    other: Arc<Site>,
}

impl Two {
    fn new(store: StoreOptions, other: &str) -> Self {
        let world = FilesWorld::bounded(store);
        fs::create_dir_all(world.at(other)).unwrap();
        let other = world.site.store().open(&world.at(other), SiteOptions::default(), CacheOnly::No).unwrap();
        Self { world, other }
    }

    /// Looks a path up in the other site.
    fn other(&mut self, path: &str) -> String {
        std::mem::swap(&mut self.world.site, &mut self.other);
        let text = self.world.text(path);
        std::mem::swap(&mut self.world.site, &mut self.other);
        text
    }
}

#[test]
fn path_names_different_file_per_site() {
    let mut two = Two::new(StoreOptions::default(), "below");
    two.world.write("page", "outer");
    two.world.write("below/page", "inner");
    for _ in 0..3 {
        assert_eq!((two.world.text("/page"), two.other("/page")), ("outer".to_owned(), "inner".to_owned()));
    }
    assert_eq!(two.world.site.store().usage().sites, 2);
}

/// The folder of a site is below the other site's folder, so both sites share a watch.
#[test]
fn change_in_shared_folder_invalidates_both_sites() {
    let mut two = Two::new(StoreOptions::default(), "below");
    two.world.write("below/page", "one");
    for content in ["one", "two", "three"] {
        two.world.write("below/page", content);
        assert_eq!(
            (two.world.text("/below/page"), two.other("/page")),
            (content.to_owned(), content.to_owned())
        );
        assert!(two.world.is_hit("/below/page"));
    }
    fs::remove_file(two.world.at("below/page")).unwrap();
    assert_eq!((two.world.text("/below/page"), two.other("/page")), ("404".to_owned(), "404".to_owned()));
}

#[test]
fn a_closed_site_leaves_nothing_behind_and_others_go_on() {
    let mut two = Two::new(StoreOptions::default(), "below");
    two.world.write("below/page", "one");
    two.world.write("below/deep/er/page", "deep");
    assert_eq!(two.world.text("/below/page"), "one");
    let before = two.world.site.store().usage();
    assert_eq!(two.other("/deep/er/page"), "deep");
    assert_eq!(two.other("/page"), "one");
    two.other = two.world.site.clone();
    two.world.cache.tick(two.world.now_ms);
    let after = two.world.site.store().usage();
    assert_eq!(after, StoreUsage { sites: 1, ..before }, "what the closed site held is free");
    assert!(two.world.is_hit("/below/page"));
    two.world.write("below/page", "two");
    assert_eq!(two.world.text("/below/page"), "two", "the watch that both had is still there");
}

#[test]
fn the_bound_of_entries_is_one_for_all() {
    let mut two = Two::new(StoreOptions { entries_max: 10, ..StoreOptions::default() }, "below");
    for i in 0..20 {
        two.world.write(&format!("{i}"), "x");
        two.world.write(&format!("below/{i}"), "y");
        assert_eq!((two.world.text(&format!("/{i}")), two.other(&format!("/{i}"))), ("x".into(), "y".into()));
        assert!(two.world.site.store().usage().entries <= 10);
    }
    assert!(two.world.cache.len() <= 10);
}

#[test]
fn the_bound_of_contents_is_one_for_all() {
    let mut two = Two::new(StoreOptions { content_bytes_max: 10_000, ..StoreOptions::default() }, "below");
    two.world.write("large", &"x".repeat(9000));
    two.world.write("below/large", &"y".repeat(9000));
    for _ in 0..3 {
        assert_eq!(two.world.text("/large").len(), 9000);
        assert_eq!(two.other("/large").len(), 9000);
        two.world.cache.tick(two.world.now_ms);
        assert!(two.world.site.store().usage().content_bytes <= 10_000);
    }
}

/// The lost events may concern any site, so all sites start over.
#[test]
fn an_overflow_concerns_every_site() {
    let mut two = Two::new(StoreOptions::default(), "below");
    two.world.write("page", "one");
    two.world.write("below/page", "two");
    assert_eq!((two.world.text("/page"), two.other("/page")), ("one".to_owned(), "two".to_owned()));
    two.world.site.store().lock().lose_events();
    assert!(!two.world.is_hit("/page"));
    assert_eq!((two.world.text("/page"), two.other("/page")), ("one".to_owned(), "two".to_owned()));
    two.world.write("page", "three");
    two.world.write("below/page", "four");
    assert_eq!((two.world.text("/page"), two.other("/page")), ("three".to_owned(), "four".to_owned()));
}
