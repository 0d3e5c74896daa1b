//! The runtime on real threads: colors, handlers, tasks, timers, sockets, stopping.

mod acquisition;
mod background;
mod budget;
mod capacity;
mod concurrency_limit;
mod concurrent;
mod contained;
mod control;
mod handler;
mod kind;
mod lifo_slot;
mod load_page;
mod model;
mod move_counters;
mod moves;
mod net;
mod observed;
mod perf_counters;
mod socket_drop;
mod staying;
mod steal;
mod stopping;
mod task;
mod threads;
mod time;
mod unsubmitted;
mod watched;
mod work_page;

use crate::{DriverOptions, IoChoice, Limits, Pinning, Policy, Runtime, TcpStream};
use rustix::net::{RecvFlags, recv};
use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

/// Longest wait of a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The largest number of threads inside at once, and the total number of visits.
#[derive(Default)]
pub(crate) struct Inside {
    now: AtomicUsize,
    pub(crate) most: AtomicUsize,
    pub(crate) all: AtomicUsize,
}

impl Inside {
    pub(crate) fn visit(&self) {
        self.stay(std::thread::yield_now);
    }

    /// Stays until `met` threads have been inside at once.
    pub(crate) fn visit_until(&self, met: usize) {
        self.stay(|| eventually("they meet", || self.most.load(Ordering::SeqCst) >= met));
    }

    fn stay(&self, stay: impl FnOnce()) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        stay();
        self.now.fetch_sub(1, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
    }
}

/// Two cores, on a single cpu if the machine has only one.
pub(crate) fn runtime() -> Runtime {
    runtime_with(Limits::default())
}

pub(crate) fn runtime_with(limits: Limits) -> Runtime {
    let allowed = vermeil_io::current_affinity();
    Runtime::builder()
        .cpus([allowed[0], *allowed.last().expect("a process has a cpu")])
        .pinning(Pinning::Shared)
        .limits(limits)
        .build()
        .expect("a runtime starts")
}

/// Four cores, on as many cpus as the process may use.
pub(crate) fn four_cores(policy: Policy) -> Runtime {
    let allowed = vermeil_io::current_affinity();
    let cpus = (0..4).map(|core| allowed[core % allowed.len()]);
    Runtime::builder().cpus(cpus).pinning(Pinning::Shared).policy(policy).build().expect("a runtime starts")
}

/// A single-core runtime for each driver that this machine offers.
pub(crate) fn runtimes_of_both_drivers() -> Vec<Runtime> {
    let cpu = vermeil_io::current_affinity()[0];
    let build = |choice| {
        let io = DriverOptions { choice, ..DriverOptions::default() };
        Runtime::builder().cpus([cpu]).io(io).build()
    };
    let epoll = build(IoChoice::Epoll).expect("epoll works everywhere");
    match build(IoChoice::Uring) {
        Ok(uring) => vec![epoll, uring],
        Err(error) => {
            eprintln!("skipped: io_uring: {error}");
            vec![epoll]
        }
    }
}

/// Waits until bytes, or the end, are in the socket of a stream on this core.
pub(crate) fn until_arrived(stream: &TcpStream) {
    let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    eventually("bytes arrive", || {
        stream.with_fd(|fd| recv(fd, &mut [0u8; 1], peek)).expect("the stream is here").is_ok()
    });
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Fails a test that would hang.
pub(crate) fn within_patience<T: Send + 'static>(what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || done.send(f()));
    ended.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}"))
}
