//! Cases about the descriptors of the whole process: leaks, and exhaustion.
//!
//! The cases must not run beside others, so they have a separate binary and run in turn.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vermeil_io::{DriverOptions, More};

#[allow(dead_code)] // the other binary uses the rest
mod suite;

use suite::{MakeDriver, on_epoll, on_uring, poll_once};

static ALONE: Mutex<()> = Mutex::new(());

macro_rules! alone_on_both_drivers {
    ($($case:ident => $epoll:ident, $uring:ident;)*) => { $(
        #[test]
        fn $epoll() {
            let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            on_epoll($case);
        }
        #[test]
        fn $uring() {
            let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            on_uring($case);
        }
    )* };
}

alone_on_both_drivers! {
    cycles_leak_nothing => cycles_leak_nothing_epoll, cycles_leak_nothing_uring;
    out_of_descriptors => out_of_descriptors_epoll, out_of_descriptors_uring;
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc/self/fd").count()
}

/// Thousands of connections closed in every state, then drivers dropped with work in flight.
fn cycles_leak_nothing(make: &MakeDriver) {
    let before_all = open_descriptors();
    {
        let world = make(DriverOptions::default());
        let before = open_descriptors();
        for round in 0..3000u32 {
            let (key, mut peer) = world.connected();
            let mut driver = world.driver.borrow_mut();
            if round % 2 == 0 {
                assert!(poll_once(|cx| driver.poll_recv(cx, key, &mut Vec::new())).is_pending());
            }
            if round % 3 == 0 {
                let bytes = if round % 200 == 0 { 8 << 20 } else { 100 };
                driver
                    .start_send(key, b"head".to_vec(), Bytes::from(vec![1; bytes]), More::No)
                    .expect("nothing is under way");
            }
            if round % 5 == 0 {
                peer.write_all(b"something").expect("write");
            }
            if round % 7 == 0 {
                driver.turn(Some(std::time::Duration::ZERO)).expect("turn");
            }
            driver.close_stream(key);
        }
        let deadline = std::time::Instant::now() + suite::DEADLINE;
        while world.driver.borrow().stream_count() > 0 || open_descriptors() > before {
            assert!(std::time::Instant::now() < deadline, "streams or descriptors stay");
            world.nudge();
        }
    }
    for _ in 0..20 {
        suite::turns::driver_drops_with_operations_in_flight(make);
    }
    // The kernel destroys rings in the background.
    let deadline = std::time::Instant::now() + suite::DEADLINE;
    while open_descriptors() > before_all {
        assert!(std::time::Instant::now() < deadline, "dropped drivers leave descriptors behind");
        std::thread::yield_now();
    }
}

/// Accepting fails, reports the failure without spinning, and works again once there are
/// descriptors.
fn out_of_descriptors(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (listener, addr) = world.listen();
    let clients: Vec<_> = (0..4)
        .map(|_| socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("socket"))
        .collect();
    let old = getrlimit(Resource::Nofile);
    let highest = std::fs::read_dir("/proc/self/fd")
        .expect("fds")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u64>().ok())
        .max()
        .expect("some");
    // Fill the gaps, then forbid any higher number.
    let _fillers = fill_up_to(highest);
    setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 1), ..old }).expect("setrlimit");
    for client in &clients {
        client.connect(&addr.into()).expect("connect");
    }
    let accepting = world.clone();
    let error =
        world.run(async move { accepting.accept_fd(listener).await.expect_err("no descriptor left") });
    let again = world.clone();
    let second = world.run(async move { again.accept_fd(listener).await.expect_err("still none") });
    let idle: usize = (0..20).map(|_| world.nudge()).sum();
    setrlimit(Resource::Nofile, old).expect("setrlimit");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
    assert_eq!(second.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
    assert_eq!(idle, 0, "a failed accept turns in circles");
    let accepting = world.clone();
    world.run(async move {
        for _ in 0..4 {
            accepting.accept_fd(listener).await.expect("accept");
        }
    });
    drop(clients);
}

/// Opens descriptors until every number up to `highest` is taken.
fn fill_up_to(highest: u64) -> Vec<std::fs::File> {
    let mut files = Vec::new();
    loop {
        let file = std::fs::File::open("/dev/null").expect("/dev/null");
        if std::os::fd::AsRawFd::as_raw_fd(&file) as u64 > highest {
            return files;
        }
        files.push(file);
    }
}
