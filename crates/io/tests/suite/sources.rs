//! Descriptors that are only watched.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use vermeil_io::{DriverOptions, ListenOptions, accept_queued, listen};

use super::{MakeDriver, poll_once};

pub(crate) fn ready_as_long_as_there_is_more(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (reader, mut writer) = std::io::pipe().expect("pipe");
    let mut reading = std::fs::File::from(std::os::fd::OwnedFd::from(reader.try_clone().expect("clone")));
    let key = world.driver.borrow_mut().add_source(reader.into()).expect("add_source");
    assert!(poll_once(|cx| world.driver.borrow_mut().poll_readable(cx, key)).is_pending());
    world.nudge();
    writer.write_all(b"abc").expect("write");
    let watching = world.clone();
    world.run(async move {
        for byte in b"abc" {
            watching.readable(key).await.expect("readable");
            let mut one = [0];
            reading.read_exact(&mut one).expect("read");
            assert_eq!(one[0], *byte);
        }
        assert!(poll_once(|cx| watching.driver.borrow_mut().poll_readable(cx, key)).is_pending());
        watching.nudge();
        drop(writer);
        watching.readable(key).await.expect("the end is something to read");
        assert_eq!(reading.read(&mut [0]).expect("read"), 0);
        watching.driver.borrow_mut().close_source(key);
    });
}

pub(crate) fn files_are_refused(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let file = tempfile::tempfile().expect("file");
    let error = world.driver.borrow_mut().add_source(file.into()).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
}

pub(crate) fn stale_keys(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (reader, _writer) = std::io::pipe().expect("pipe");
    let mut driver = world.driver.borrow_mut();
    let key = driver.add_source(reader.into()).expect("add_source");
    assert!(poll_once(|cx| driver.poll_readable(cx, key)).is_pending());
    driver.close_source(key);
    driver.close_source(key);
    let (other, _writer) = std::io::pipe().expect("pipe");
    let other = driver.add_source(other.into()).expect("add_source");
    assert!(poll_once(|cx| driver.poll_readable(cx, key)).is_ready(), "a stale key must fail at once");
    assert!(poll_once(|cx| driver.poll_readable(cx, other)).is_pending());
}

pub(crate) fn watcher_learns_of_untaken_connections(make: &MakeDriver) {
    let (owner, watcher) = (make(DriverOptions::default()), make(DriverOptions::default()));
    let socket =
        listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &ListenOptions::default()).expect("listen");
    let socket = TcpListener::from(socket);
    let addr = socket.local_addr().expect("a bound socket");
    let again = socket.try_clone().expect("clone");
    let listener = owner.driver.borrow_mut().add_listener(socket.into()).expect("add_listener");
    assert!(poll_once(|cx| owner.driver.borrow_mut().poll_accept(cx, listener)).is_pending());
    owner.nudge();
    let watch = watcher.driver.borrow_mut().add_watch(again.into()).expect("add_watch");
    assert!(poll_once(|cx| watcher.driver.borrow_mut().poll_readable(cx, watch)).is_pending());
    watcher.nudge();
    for _ in 0..3 {
        // The owner is busy: it does not turn.
        let _client = TcpStream::connect(addr).expect("connect");
        let watching = watcher.clone();
        watcher.run(async move { watching.readable(watch).await.expect("readable") });
        let driver = watcher.driver.borrow();
        let taken = accept_queued(driver.source_fd(watch).as_fd()).expect("accept");
        assert!(taken.is_some(), "a connection waits");
    }
    owner.nudge();
    assert!(poll_once(|cx| owner.driver.borrow_mut().poll_accept(cx, listener)).is_pending());
    let _client = TcpStream::connect(addr).expect("connect");
    let accepting = owner.clone();
    owner.run(async move { accepting.accept_fd(listener).await.expect("the owner is still told") });
}
