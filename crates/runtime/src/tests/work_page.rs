//! The work page: the finished events of cores, for profilers.

use super::eventually;
use crate::{CoreIndex, Pinning, Runtime, WorkPage};
use std::sync::Arc;

#[test]
fn work_page_shows_events_of_each_core() {
    let cpus = [vermeil_io::current_affinity()[0]; 2];
    let page = Arc::new(WorkPage::create(&cpus));
    let runtime = Runtime::builder().cpus(cpus).pinning(Pinning::Shared).work(page.clone()).build().unwrap();
    let handle = runtime.handle();
    let color = handle.color_on(CoreIndex(1));
    for _ in 0..3 {
        handle.spawn_on(&color, async {}).wait().unwrap();
    }
    let events = || page.cores()[1].counts()[2];
    eventually("the core has shown its events", || events() >= 3);
    let [requests, body_bytes, _, runs, _] = page.cores()[1].counts();
    assert_eq!((requests, body_bytes), (0, 0), "the runtime knows no requests");
    assert!(runs >= 1);
}
