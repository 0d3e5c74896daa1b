//! Observations of events: histograms, and recordings that name posters.

use super::{PATIENCE, eventually};
use crate::{CoreIndex, Handle, Handler, Observe, Pinning, Runtime, Snapshot, recording::Recording};
use std::sync::{Arc, OnceLock};

fn runtime(policy: &str, observe: Observe, record: usize) -> Runtime {
    let allowed = vermeil_io::current_affinity();
    Runtime::builder()
        .cpus([allowed[0], *allowed.last().expect("a process has a cpu")])
        .pinning(Pinning::Shared)
        .policy(policy.parse().expect("a policy"))
        .observe(observe)
        .record(record)
        .build()
        .expect("a runtime starts")
}

/// An event of `first` on core 0 posts an event of `second` on core 1, `times` times. Returns the
/// handle of the runtime, which has ended, so its observations are complete.
fn relay(runtime: Runtime, times: u64) -> Handle {
    let handle = runtime.handle();
    let (near, far) = (handle.color_on(CoreIndex(0)), handle.color_on(CoreIndex(1)));
    let second = handle.handler("second", |()| ());
    let first: Arc<OnceLock<Handler<u64>>> = Arc::default();
    let again = (first.clone(), near.clone());
    let handler = handle.handler("first", move |left: u64| {
        second.post(&far, ()).expect("there is room");
        if left > 1 {
            again
                .0
                .get()
                .expect("set before the first event")
                .post(&again.1, left - 1)
                .expect("there is room");
        }
    });
    assert!(first.set(handler).is_ok());
    handler.post(&near, times).expect("there is room");
    eventually("all have run", || runs(&handle.snapshot(), "second") == times);
    runtime.shutdown(PATIENCE);
    handle
}

fn runs(snapshot: &Snapshot, name: &str) -> u64 {
    snapshot.handlers.iter().find(|handler| handler.name == name).map_or(0, |handler| handler.runs)
}

#[test]
fn full_observation_records_every_event() {
    for policy in ["none", "adaptive", "placed:round-robin", "libasync"] {
        let snapshot = relay(runtime(policy, Observe::All, 0), 500).snapshot();
        let times = |name| &snapshot.handlers.iter().find(|handler| handler.name == name).expect(name).times;
        let (first, second) = (times("first"), times("second"));
        assert_eq!(first.queue_delay.count(), 500, "{policy}");
        assert_eq!((first.warm_run.count(), first.cold_run.count()), (500, 0), "{policy}");
        // Posted by another core, so the run is cold wherever the color ran before.
        assert_eq!((second.queue_delay.count(), second.warm_run.count()), (500, 0), "{policy}");
        assert_eq!(second.cold_run.count(), 500, "{policy}");
        assert_eq!(snapshot.cores[1].times, *second, "{policy}");
    }
}

#[test]
fn nothing_is_observed_when_not_asked_for() {
    let snapshot = relay(runtime("adaptive", Observe::Off, 0), 500).snapshot();
    assert!(snapshot.cores.iter().all(|core| core.times == Default::default()));
}

#[test]
fn some_is_observed_by_default() {
    let snapshot = relay(runtime("none", Observe::default(), 0), 500).snapshot();
    let observed: u64 = snapshot.cores.iter().map(|core| core.times.queue_delay.count()).sum();
    assert!((1..=1_000).contains(&observed), "{observed}");
}

#[test]
fn recording_names_each_event_and_its_cause() {
    let handle = relay(runtime("none", Observe::Off, 4_096), 100);
    let recording = handle.recording().expect("it was asked for");
    assert_eq!(recording.events.len(), 200);
    assert_eq!((recording.header.lost, recording.header.policy.as_str()), (0, "none"));
    let (mut from_outside, mut seconds) = (0, 0);
    for event in &recording.events {
        assert!(event.posted_ns <= event.start_ns);
        let expected = if event.handler == "first" { 0 } else { 1 };
        assert_eq!((event.core, event.moved_from), (expected, None));
        seconds += u32::from(event.handler == "second");
        match event.by {
            Some(by) => {
                let poster = &recording.events[by as usize];
                assert_eq!(poster.handler, "first");
                assert!(poster.start_ns <= event.posted_ns + 32, "posted while its poster ran");
            }
            None => from_outside += 1,
        }
    }
    assert_eq!((seconds, from_outside), (100, 1));
    assert_eq!(Recording::parse(&recording.to_text()).expect("it is read as it was written"), recording);
}

#[test]
fn full_recording_keeps_the_last_events() {
    let recording = relay(runtime("none", Observe::Off, 16), 100).recording().expect("it was asked for");
    assert_eq!((recording.events.len(), recording.header.lost), (32, 168));
}

#[test]
fn nothing_is_recorded_unless_asked_for() {
    assert_eq!(runtime("none", Observe::All, 0).handle().recording(), None);
}
