//! The board: the published activity of cores.

use super::{eventually, runtime};
use crate::{CoreIndex, monotonic_ns};
use std::sync::mpsc;

#[test]
fn a_core_that_does_not_come_to_its_sockets_shows_since_when() {
    let runtime = runtime();
    let handle = runtime.handle();
    let board = |core| handle.board().core(core);
    eventually("an idle core waits", || board(0).busy_ns(monotonic_ns()).is_none());
    let before_ns = monotonic_ns();
    let (release, released) = mpsc::channel::<()>();
    let color = handle.color_on(CoreIndex(0));
    let stuck = handle.spawn_on(&color, async move { released.recv().is_err() });
    eventually("a stuck core is busy", || board(0).busy_ns(monotonic_ns()).is_some_and(|ns| ns > 1_000_000));
    assert!(board(0).busy_ns(monotonic_ns()).unwrap() <= monotonic_ns() - before_ns);
    let looks = board(0).searches();
    assert_eq!(board(0).searches(), looks, "it does not look");
    eventually("the other core waits", || board(1).busy_ns(monotonic_ns()).is_none());
    drop(release);
    assert!(stuck.wait().unwrap());
    eventually("it waits again", || board(0).busy_ns(monotonic_ns()).is_none());
}
