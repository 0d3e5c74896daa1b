//! Starts on a system that refuses a thread or a part of a driver: the error names the part and the
//! cure, and neither a thread nor a descriptor is left.
//!
//! A seccomp filter of one thread plays the system. The runtime's threads inherit the filter.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, apply_filter};
use std::{
    collections::BTreeMap,
    env::consts::ARCH,
    fs,
    sync::{Mutex, PoisonError},
    thread,
};
use vermeil::{DriverOptions, IoChoice, Pinning, Runtime, StartError};

/// The tests count threads and descriptors of the process, so a single test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A system call, and the arguments for which it is refused; no rule: always.
type RefusedCall = (i64, Vec<SeccompRule>);

/// Operation 22 of io_uring_register(2): a ring of buffers.
const REGISTER_BUFFERS: u64 = 22;

fn argument(index: u8, value: u64) -> Vec<SeccompRule> {
    use seccompiler::{SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, SeccompCondition};
    let condition = SeccompCondition::new(index, Dword, Eq, value).expect("an argument");
    vec![SeccompRule::new(vec![condition]).expect("a condition")]
}

/// Runs `f` on a thread for which the system refuses these calls with `error`.
fn with_refused<T: Send>(refused: Vec<RefusedCall>, error: i32, f: impl FnOnce() -> T + Send) -> T {
    let rules: BTreeMap<_, _> = refused.into_iter().collect();
    let action = SeccompAction::Errno(error.unsigned_abs());
    let arch = ARCH.try_into().expect("a processor with a filter");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a program");
    thread::scope(|scope| {
        let refused = scope.spawn(|| {
            apply_filter(&program).expect("the kernel has seccomp");
            f()
        });
        refused.join().expect("no panic")
    })
}

/// Looks for threads that are ending, before the threads count as held.
const LOOKS: usize = 10_000;

/// The number of descriptors, and the names of the runtime's threads.
fn held() -> (usize, Vec<String>) {
    let running = || {
        let names = fs::read_dir("/proc/self/task").expect("a process has threads").flatten();
        let names = names.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.starts_with("vermeil")).collect::<Vec<_>>()
    };
    // The kernel lists a thread for a moment after its join.
    let ended = (0..LOOKS).find(|_| {
        std::thread::yield_now();
        running().is_empty()
    });
    let names = ended.map_or_else(running, |_| Vec::new());
    (fs::read_dir("/proc/self/fd").expect("a process has descriptors").count(), names)
}

fn build(choice: IoChoice, cores: usize) -> Result<Runtime, StartError> {
    let cpu = vermeil_io::current_affinity()[0];
    let io = DriverOptions { choice, ..DriverOptions::default() };
    Runtime::builder().cpus(vec![cpu; cores]).pinning(Pinning::Shared).io(io).build()
}

/// The errors of starts with 1 to 3 cores under the filter. Each start gives back all that it took.
fn refusals(choice: IoChoice, refused: &[RefusedCall], error: i32) -> Vec<StartError> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // The first start opens descriptors that the process keeps.
    drop(build(choice, 1));
    let before = held();
    let start = |cores| {
        let built = with_refused(refused.to_vec(), error, move || build(choice, cores).err());
        assert_eq!(held(), before, "{cores} cores, {choice:?}: {built:?}");
        built.expect("the system refuses")
    };
    (1..=3).map(start).collect()
}

fn has_uring() -> bool {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let works = build(IoChoice::Uring, 1);
    if let Err(error) = &works {
        eprintln!("SKIPPED: io_uring: {error}");
    }
    works.is_ok()
}

#[test]
fn refused_thread_is_start_error() {
    for choice in [IoChoice::Epoll, IoChoice::Auto] {
        let calls = [(libc::SYS_clone3, Vec::new()), (libc::SYS_clone, Vec::new())];
        for error in refusals(choice, &calls, libc::EAGAIN) {
            assert!(matches!(error, StartError::Thread { core: 0, .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("cannot start the thread of core 0"), "{text}");
            assert!(text.contains("is the limit of processes or memory reached?"), "{text}");
        }
    }
}

#[test]
fn refused_buffers_are_start_error() {
    if !has_uring() {
        return;
    }
    let calls = [(libc::SYS_io_uring_register, argument(1, REGISTER_BUFFERS))];
    for error in refusals(IoChoice::Uring, &calls, libc::ENOMEM) {
        assert!(matches!(error, StartError::Driver { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("cannot open the I/O driver of core"), "{text}");
        assert!(text.contains("buffer") && text.contains("Cannot allocate memory"), "{text}");
    }
}

/// Without a choice of the driver, a core without io_uring's buffers uses epoll.
#[test]
fn refused_buffers_lead_to_epoll() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let calls = vec![(libc::SYS_io_uring_register, argument(1, REGISTER_BUFFERS))];
    with_refused(calls, libc::ENOMEM, || {
        let runtime = build(IoChoice::Auto, 2).expect("epoll needs no such buffers");
        let answer = runtime.handle().spawn(async { 7 });
        assert_eq!(answer.wait(), Ok(7));
    });
}

#[test]
fn refused_driver_is_start_error() {
    let calls = [(libc::SYS_epoll_create1, Vec::new()), (libc::SYS_io_uring_setup, Vec::new())];
    for choice in [IoChoice::Epoll, IoChoice::Auto] {
        for error in refusals(choice, &calls, libc::EMFILE) {
            assert!(matches!(error, StartError::Driver { .. }), "{error}");
            assert!(error.to_string().contains("Too many open files"), "{error}");
        }
    }
}
