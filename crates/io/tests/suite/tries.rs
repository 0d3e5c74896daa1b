//! Receives without a wait, on streams that the kernel watches, receives or leaves alone.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::task::Context;
use std::time::Instant;

use rustix::net::{RecvFlags, recv};
use vermeil_io::{Driver, DriverOptions, StreamKey};

use super::streams::recv_now;
use super::{DriverWorld, Flag, MakeDriver};

fn try_now(world: &DriverWorld, key: StreamKey, buf: &mut Vec<u8>) -> Option<usize> {
    world.driver.borrow_mut().try_recv(key, buf).expect("the stream is open")
}

/// Waits until bytes, or the end, are in the socket.
fn until_arrived(world: &DriverWorld, key: StreamKey) {
    let (deadline, flags) = (Instant::now() + super::DEADLINE, RecvFlags::PEEK | RecvFlags::DONTWAIT);
    while recv(world.driver.borrow().stream_fd(key), &mut [0u8; 1], flags).is_err() {
        assert!(Instant::now() < deadline, "nothing arrives");
        std::thread::yield_now();
    }
}

/// With io_uring a try sees the present state of the socket. With epoll a try sees the state at the
/// last turn.
fn turn_if_epoll(world: &DriverWorld) {
    let is_uring = world.driver.borrow().description().starts_with("io_uring");
    if !is_uring {
        world.nudge();
    }
}

/// Regression: with io_uring, a try only armed a receive, and answered that nothing was there.
pub(crate) fn bytes_and_end_need_no_wait(make: &MakeDriver) {
    type Add = fn(&mut Driver, OwnedFd) -> io::Result<StreamKey>;
    for add in [Driver::add_stream as Add, Driver::resume_stream, Driver::add_connected] {
        let world = make(DriverOptions::default());
        // With io_uring the next stream is then armed at its first wait, instead of tried.
        let (other, _other_peer) = world.connected();
        assert!(recv_now(&world, other, &mut Vec::new()).is_pending());
        let (key, mut peer) = world.connected_by(add);
        assert_eq!(try_now(&world, key, &mut Vec::new()), None);
        for part in [&b"first"[..], b"second"] {
            peer.write_all(part).expect("write");
            until_arrived(&world, key);
            turn_if_epoll(&world);
            let mut heard = Vec::new();
            assert_eq!(try_now(&world, key, &mut heard), Some(part.len()));
            assert_eq!(heard, part);
            assert_eq!(try_now(&world, key, &mut heard), None);
        }
        drop(peer);
        until_arrived(&world, key);
        turn_if_epoll(&world);
        assert_eq!(try_now(&world, key, &mut Vec::new()), Some(0));
    }
}

/// Regression: a try replaced the waker of the waiting task.
pub(crate) fn waiting_task_is_woken_after_a_try(make: &MakeDriver) {
    for turns_first in [false, true] {
        let world = make(DriverOptions::default());
        let (key, mut peer) = world.connected();
        let (flag, mut heard) = (Flag::new(), Vec::new());
        let waker = flag.waker();
        let mut cx = Context::from_waker(&waker);
        assert!(world.driver.borrow_mut().poll_recv(&mut cx, key, &mut heard).is_pending());
        if turns_first {
            world.nudge();
        }
        assert_eq!(try_now(&world, key, &mut heard), None);
        peer.write_all(b"bytes").expect("write");
        until_arrived(&world, key);
        world.nudge();
        assert!(flag.is_set(), "after a turn: {turns_first}");
        assert_eq!(try_now(&world, key, &mut heard), Some(5));
    }
}

/// With io_uring, the kernel has not begun the receive when the bytes arrive.
pub(crate) fn bytes_come_although_receive_has_not_begun(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, mut peer) = world.connected();
    let mut heard = Vec::new();
    assert!(recv_now(&world, key, &mut heard).is_pending());
    peer.write_all(b"bytes").expect("write");
    until_arrived(&world, key);
    turn_if_epoll(&world);
    assert_eq!(try_now(&world, key, &mut heard), Some(5));
    assert_eq!(heard, b"bytes");
}

/// With io_uring, a stream without a shared buffer is watched. A try leaves the watch in place.
pub(crate) fn bytes_come_although_no_buffer_is_left(make: &MakeDriver) {
    let world = make(DriverOptions { recv_buffers: 1, ..DriverOptions::default() });
    let (unread, mut loud) = world.connected();
    assert!(recv_now(&world, unread, &mut Vec::new()).is_pending());
    loud.write_all(b"x").expect("write");
    until_arrived(&world, unread);
    world.nudge();
    let (key, mut peer) = world.connected();
    let mut heard = Vec::new();
    assert!(recv_now(&world, key, &mut heard).is_pending());
    peer.write_all(b"watched").expect("write");
    until_arrived(&world, key);
    turn_if_epoll(&world);
    assert_eq!(try_now(&world, key, &mut heard), Some(7));
    world.nudge();
    peer.write_all(b" and read").expect("write");
    let reading = world.clone();
    let heard = world.run(async move {
        while heard.len() < b"watched and read".len() {
            assert!(reading.recv(key, &mut heard).await.expect("recv") > 0);
        }
        heard
    });
    assert_eq!(heard, b"watched and read");
}
