//! When a turn returns.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use vermeil_io::{DriverOptions, More};

use super::{DEADLINE, MakeDriver, poll_once};

pub(crate) fn unparked_before_the_turn(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let unparker = world.driver.borrow().unparker();
    for _ in 0..100 {
        unparker.unpark();
        unparker.unpark();
        world.driver.borrow_mut().turn(None).expect("turn");
        // Two wake-ups may or may not be distinguished; none may be left over for ever.
        while world.nudge() > 0 {}
    }
}

pub(crate) fn unparked_from_another_thread(make: &MakeDriver) {
    const ROUNDS: usize = 2000;
    let world = make(DriverOptions::default());
    let unparker = world.driver.borrow().unparker();
    let (turned, wait_for_turn) = mpsc::channel();
    let ringing = thread::spawn(move || {
        for _ in 0..ROUNDS {
            unparker.unpark();
            wait_for_turn.recv_timeout(DEADLINE).expect("the bell was not heard");
        }
    });
    for _ in 0..ROUNDS {
        let count = world.driver.borrow_mut().turn(Some(DEADLINE)).expect("turn");
        assert_eq!(count, 1, "a turn without or with too many completions");
        turned.send(()).expect("the other thread lives");
    }
    ringing.join().expect("the ringing thread");
}

pub(crate) fn busy_polling_changes_nothing_but_the_wait(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    for up_to in [Duration::from_micros(50), Duration::ZERO, Duration::from_micros(20)] {
        let begun = world.driver.borrow_mut().busy_poll(up_to);
        if let Err(error) = begun {
            eprintln!("SKIPPED: busy polling: {error}");
            return;
        }
        let unparker = world.driver.borrow().unparker();
        unparker.unpark();
        assert_eq!(world.driver.borrow_mut().turn(Some(DEADLINE)).expect("turn"), 1, "polling {up_to:?}");
        assert_eq!(world.driver.borrow_mut().turn(Some(Duration::from_millis(1))).expect("turn"), 0);
    }
}

pub(crate) fn a_timeout_ends_a_turn(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    assert_eq!(world.nudge(), 0);
    for timeout in [Duration::from_nanos(1), Duration::from_micros(300), Duration::from_millis(15)] {
        let start = Instant::now();
        assert_eq!(world.driver.borrow_mut().turn(Some(timeout)).expect("turn"), 0);
        assert!(start.elapsed() >= timeout, "{timeout:?} ended too early");
    }
}

/// No other event happens, so only the send's result can end the turn.
pub(crate) fn a_send_that_is_waited_for_ends_the_turn(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, _peer) = world.connected();
    for _ in 0..3 {
        let mut driver = world.driver.borrow_mut();
        driver.start_send(key, b"x".to_vec(), Bytes::new(), More::No).expect("nothing is under way");
        if poll_once(|cx| driver.poll_sent(cx, key)).is_pending() {
            assert!(driver.has_unsubmitted());
            driver.turn(None).expect("turn");
            assert!(poll_once(|cx| driver.poll_sent(cx, key)).is_ready());
        }
        assert!(!driver.has_unsubmitted());
    }
}

pub(crate) fn driver_drops_with_operations_in_flight(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (listener, addr) = world.listen();
    assert!(poll_once(|cx| world.driver.borrow_mut().poll_accept(cx, listener)).is_pending());
    let mut kept = Vec::new();
    let much = Bytes::from(vec![3; 16 << 20]);
    for round in 0..20usize {
        let (key, peer) = world.connected();
        let mut driver = world.driver.borrow_mut();
        assert!(poll_once(|cx| driver.poll_recv(cx, key, &mut Vec::new())).is_pending());
        driver
            .start_send(key, b"head".to_vec(), much.slice(..round << 19), More::No)
            .expect("nothing is under way");
        drop(driver);
        kept.push(peer);
        if round % 2 == 0 {
            world.nudge();
        }
        if round % 3 == 0 {
            world.close(key);
        }
    }
    kept.push(std::net::TcpStream::connect(addr).expect("connect"));
    let (reader, writer) = std::io::pipe().expect("pipe");
    for round in 0..20usize {
        let mut driver = world.driver.borrow_mut();
        let key = driver.add_source(reader.try_clone().expect("clone").into()).expect("add_source");
        assert!(poll_once(|cx| driver.poll_readable(cx, key)).is_pending());
        if round % 3 == 0 {
            driver.close_source(key);
        }
    }
    drop((reader, world));
    let error = rustix::io::write(&writer, b"x").expect_err("the driver has let go of every reader");
    assert_eq!(error, rustix::io::Errno::PIPE);
}

/// Regression: the kernel completes some operations in a call and defers the rest, one of which may
/// accept a hundred connections. When the rest waited for the next turn, an overloaded server took
/// connections faster than it served them, until none was in time.
pub(crate) fn turn_takes_ready_events(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (reader, writer) = std::io::pipe().expect("pipe");
    let watch = |_| {
        let source = reader.try_clone().expect("clone");
        world.driver.borrow_mut().add_source(source.into()).expect("add_source")
    };
    let keys: Vec<_> = (0..400).map(watch).collect();
    let told = || {
        let mut driver = world.driver.borrow_mut();
        keys.iter().filter(|key| poll_once(|cx| driver.poll_readable(cx, **key)).is_ready()).count()
    };
    assert_eq!(told(), 0);
    world.nudge();
    rustix::io::write(&writer, b"x").expect("write");
    world.nudge();
    assert_eq!(told(), keys.len());
}
