//! Tasks whose waits are always ready let other colors of their core run.

use super::runtimes_of_both_drivers;
use crate::{CoreIndex, Source, consume_budget};
use std::{
    io::Write as _,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

#[test]
fn task_that_is_always_ready_lets_others_run() {
    for runtime in runtimes_of_both_drivers() {
        let handle = runtime.handle();
        let (first, second) = (handle.color_on(CoreIndex(0)), handle.color_on(CoreIndex(0)));
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let busy = handle.spawn_on(&first, async move {
            while !ends.load(Ordering::Relaxed) {
                consume_budget().await;
            }
        });
        let other = handle.spawn_on(&second, async move { over.store(true, Ordering::Relaxed) });
        other.wait().expect("it has its turn");
        busy.wait().expect("it ends");
    }
}

#[test]
fn source_that_is_always_readable_lets_others_run() {
    for runtime in runtimes_of_both_drivers() {
        let handle = runtime.handle();
        let (first, second) = (handle.color_on(CoreIndex(0)), handle.color_on(CoreIndex(0)));
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(b"x").expect("room");
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let busy = handle.spawn_on(&first, async move {
            let source = Source::new(OwnedFd::from(reader))?;
            while !ends.load(Ordering::Relaxed) {
                source.readable().await?;
            }
            std::io::Result::Ok(())
        });
        let other = handle.spawn_on(&second, async move { over.store(true, Ordering::Relaxed) });
        other.wait().expect("it has its turn");
        busy.wait().expect("it ends").expect("no error");
    }
}
