//! Streams that no task has waited for yet: the kernel starts to watch them late, and no event may
//! be lost because of that.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::task::Poll;
use std::thread;

use bytes::Bytes;
use vermeil_io::{DriverOptions, More, StreamKey};

use super::streams::{TOO_MUCH, recv_now, sent_now};
use super::{DriverWorld, MakeDriver, pattern};

/// Receives without ever waiting.
fn hears(world: &DriverWorld, key: StreamKey, expected: &[u8]) {
    let mut heard = Vec::new();
    let deadline = std::time::Instant::now() + super::DEADLINE;
    while heard.len() < expected.len() {
        assert!(std::time::Instant::now() < deadline, "{} bytes are missing", expected.len() - heard.len());
        if recv_now(world, key, &mut heard).is_pending() {
            world.nudge();
        }
    }
    assert_eq!(heard, expected);
}

/// Bytes, and the end, after the first receive and before any task waits, with and without a turn
/// in between.
pub(crate) fn bytes_before_first_wait_are_received(make: &MakeDriver) {
    for (in_vain, turns, rest) in [
        (false, 0, &b"rest"[..]),
        (false, 1, b"rest"),
        (false, 0, b""),
        (false, 1, b""),
        (true, 0, b"rest"),
        (true, 1, b""),
    ] {
        let world = make(DriverOptions::default());
        let (other, _other_peer) = world.connected();
        if in_vain {
            // With io_uring the next stream is then armed, instead of tried.
            assert!(recv_now(&world, other, &mut Vec::new()).is_pending());
        }
        let (key, mut peer) = world.connected();
        peer.write_all(b"first").expect("write");
        hears(&world, key, b"first");
        peer.write_all(rest).expect("write");
        peer.shutdown(Shutdown::Write).expect("shutdown");
        for _ in 0..turns {
            world.nudge();
        }
        let reading = world.clone();
        assert_eq!(world.run(async move { reading.recv_to_end(key).await.expect("recv") }), rest);
    }
}

/// A send that waits for room on a stream without any receive, and a receive after it.
pub(crate) fn a_send_waits_before_the_first_receive(make: &MakeDriver) {
    for waits_first in [false, true] {
        let world = make(DriverOptions::default());
        let (key, mut peer) = world.connected();
        let body = Bytes::from(pattern(TOO_MUCH, 1));
        world
            .driver
            .borrow_mut()
            .start_send(key, Vec::new(), body.clone(), More::No)
            .expect("nothing is under way");
        while world.nudge() > 0 {}
        assert!(sent_now(&world, key).is_pending());
        if !waits_first {
            peer.write_all(b"stop").expect("write");
        }
        let reading = world.clone();
        world.spawn(async move {
            let mut heard = Vec::new();
            while heard.len() < 4 {
                assert!(reading.recv(key, &mut heard).await.expect("recv") > 0);
            }
        });
        world.poll_woken();
        if waits_first {
            peer.write_all(b"stop").expect("write");
        }
        world.run_all();
        let reader = thread::spawn(move || {
            let mut all = vec![0; TOO_MUCH];
            peer.read_exact(&mut all).map(|()| all)
        });
        let sending = world.clone();
        world.run(async move {
            std::future::poll_fn(|cx| sending.driver.borrow_mut().poll_sent(cx, key)).await.expect("sent")
        });
        assert!(reader.join().expect("reader").expect("read") == body);
    }
}

/// A stream that is not registered needs no deregistration.
pub(crate) fn stream_without_wait_is_released(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, mut peer) = world.connected();
    peer.write_all(b"question").expect("write");
    hears(&world, key, b"question");
    let working = world.clone();
    let heard = world.run(async move {
        let socket = working.release(key).await.expect("release").expect("nothing more has come");
        peer.write_all(b"next").expect("write");
        peer.shutdown(Shutdown::Write).expect("shutdown");
        let key = working.driver.borrow_mut().resume_stream(socket).expect("resume_stream");
        working.recv_to_end(key).await.expect("recv")
    });
    assert_eq!(heard, b"next");
}

/// Regression: a task that keeps a connection asks whether the connection still stands, and does
/// not wait for the answer. Registered that late, a connection that PHP had closed counted as open,
/// and the next request was sent on it.
pub(crate) fn the_end_of_a_connection_made_here_is_known_a_turn_later(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, mut peer) = world.connected_by(|driver, socket| driver.add_connected(socket));
    peer.write_all(b"answer").expect("write");
    hears(&world, key, b"answer");
    drop(peer);
    world.nudge();
    assert!(matches!(recv_now(&world, key, &mut Vec::new()), Poll::Ready(Ok(0))), "taken for alive");
}
