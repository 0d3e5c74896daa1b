//! Sockets that leave the driver while they are idle, and events at that moment.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use vermeil_io::{DriverOptions, More};

use super::{MakeDriver, pattern, poll_once};

pub(crate) fn waiting_stream_is_released_repeatedly(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (mut key, mut peer) = world.connected();
    let working = world.clone();
    world.run(async move {
        for round in 0..50u8 {
            let mut heard = Vec::new();
            assert!(poll_once(|cx| working.driver.borrow_mut().poll_recv(cx, key, &mut heard)).is_pending());
            working.nudge();
            let socket = working.release(key).await.expect("release").expect("nothing has come");
            assert_eq!(working.driver.borrow().stream_count(), 0);
            peer.write_all(&[round; 3]).expect("write");
            poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).expect("poll");
            key = working.driver.borrow_mut().resume_stream(socket).expect("resume_stream");
            let first = poll_once(|cx| working.driver.borrow_mut().poll_recv(cx, key, &mut heard));
            assert!(first.is_ready(), "what has come is there without a turn");
            while heard.len() < 3 {
                working.recv(key, &mut heard).await.expect("recv");
            }
            assert_eq!(heard, [round; 3]);
            working.send(key, &heard, &Bytes::new(), More::No).await.expect("send");
            peer.read_exact(&mut heard).expect("read");
        }
    });
}

/// At every moment between the request and the release: bytes, and the end.
pub(crate) fn bytes_during_release_are_kept(make: &MakeDriver) {
    for moment in 0..4 {
        for message in [&b"next"[..], b""] {
            let world = make(DriverOptions::default());
            let (mut key, mut peer) = world.connected();
            let working = world.clone();
            let heard = world.run(async move {
                let mut heard = Vec::new();
                assert!(
                    poll_once(|cx| working.driver.borrow_mut().poll_recv(cx, key, &mut heard)).is_pending()
                );
                working.nudge();
                let mut says = |at| {
                    if moment == at {
                        peer.write_all(message).expect("write");
                        peer.shutdown(Shutdown::Write).expect("shutdown");
                    }
                };
                says(0);
                let mut released = poll_once(|cx| working.driver.borrow_mut().poll_release(cx, key));
                says(1);
                if released.is_pending() {
                    working.nudge();
                    says(2);
                    released = std::task::Poll::Ready(working.release(key).await);
                } else {
                    says(2);
                }
                says(3);
                let std::task::Poll::Ready(released) = released else { unreachable!("awaited") };
                if let Some(socket) = released.expect("release") {
                    key = working.driver.borrow_mut().add_stream(socket).expect("add_stream");
                }
                working.recv_to_end(key).await.expect("recv")
            });
            assert_eq!(heard, message, "moment {moment}");
        }
    }
}

pub(crate) fn reader_that_continues_receives(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, mut peer) = world.connected();
    let working = world.clone();
    world.run(async move {
        let mut heard = Vec::new();
        assert!(poll_once(|cx| working.driver.borrow_mut().poll_recv(cx, key, &mut heard)).is_pending());
        working.nudge();
        if poll_once(|cx| working.driver.borrow_mut().poll_release(cx, key)).is_ready() {
            return;
        }
        peer.write_all(b"abc").expect("write");
        peer.shutdown(Shutdown::Write).expect("shutdown");
        assert_eq!(working.recv_to_end(key).await.expect("recv"), b"abc");
    });
}

pub(crate) fn a_send_under_way_is_not_taken_away(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, mut peer) = world.connected();
    let message = pattern(30 << 20, 3);
    world
        .driver
        .borrow_mut()
        .start_send(key, message.clone(), Bytes::new(), More::No)
        .expect("nothing is under way");
    let working = world.clone();
    world.run(async move {
        for _ in 0..3 {
            assert!(working.release(key).await.expect("release").is_none(), "it is not idle");
            working.nudge();
        }
    });
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).map(|_| all)
    });
    let working = world.clone();
    world.run(async move {
        working.sent(key).await.expect("sent");
        working.close(key);
    });
    assert!(reader.join().expect("reader").expect("read") == message);
}

/// When the new owner closes the socket the peer learns of it, regardless of the driver.
pub(crate) fn the_new_owner_is_the_only_one(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, mut peer) = world.connected();
    let working = world.clone();
    let socket = world.run(async move {
        let mut heard = Vec::new();
        assert!(poll_once(|cx| working.driver.borrow_mut().poll_recv(cx, key, &mut heard)).is_pending());
        working.nudge();
        working.release(key).await.expect("release").expect("nothing has come")
    });
    let mut elsewhere = TcpStream::from(socket);
    std::thread::spawn(move || elsewhere.write_all(b"bye").expect("room")).join().expect("the new owner");
    let mut all = Vec::new();
    peer.read_to_end(&mut all).expect("an end");
    assert_eq!(all, b"bye");
}

pub(crate) fn stale_keys_release_nothing(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (key, _peer) = world.connected();
    let (other, _other_peer) = world.connected();
    world.close(key);
    world.nudge();
    let working = world.clone();
    world.run(async move {
        let refused = working.release(key).await.expect_err("stale");
        assert_eq!(refused.kind(), ErrorKind::NotConnected);
        let mut heard = Vec::new();
        assert!(poll_once(|cx| working.driver.borrow_mut().poll_recv(cx, other, &mut heard)).is_pending());
        working.nudge();
        assert!(working.release(other).await.expect("release").is_some());
        let gone = working.release(other).await.expect_err("stale");
        assert_eq!(gone.kind(), ErrorKind::NotConnected);
        // Ignored, as always.
        working.close(other);
    });
}
