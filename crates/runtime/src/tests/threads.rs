//! The threads of the cores.

use crate::{Pinning, Runtime};
use std::{
    fs,
    sync::{Mutex, mpsc},
    thread::{self, ThreadId},
};

/// The class of the calling thread: field 41 of `proc_pid_stat(5)`, the 39th behind the name.
fn scheduling_class() -> i32 {
    let stat = fs::read_to_string("/proc/thread-self/stat").expect("of this thread");
    let (_, fields) = stat.rsplit_once(") ").expect("behind the name");
    fields.split(' ').nth(38).expect("a class").parse().expect("a number")
}

/// The threads that have called [`note`], and their classes then.
static STARTED: Mutex<Vec<(ThreadId, i32)>> = Mutex::new(Vec::new());

fn note() {
    STARTED.lock().expect("no panic before").push((thread::current().id(), scheduling_class()));
}

#[test]
fn thread_starts_before_it_gets_the_idle_class() {
    let cpu = Runtime::builder().build().expect("it starts").handle().snapshot().cores[0].cpu;
    let runtime = Runtime::builder().cpus([cpu]).pinning(Pinning::InIdleTime).on_thread_start(note);
    let runtime = runtime.build().expect("it starts");
    let (to, now) = mpsc::channel();
    drop(runtime.handle().spawn(async move { to.send((thread::current().id(), scheduling_class())) }));
    let now = now.recv().expect("the task runs");
    assert_eq!(*STARTED.lock().expect("no panic"), [(now.0, libc::SCHED_OTHER)]);
    assert_eq!(now.1, libc::SCHED_IDLE);
}
