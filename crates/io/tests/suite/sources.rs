//! Descriptors that are only watched.

use std::io::{ErrorKind, Read, Write};

use vermeil_io::DriverOptions;

use super::{Make, poll_once};

pub(crate) fn ready_as_long_as_there_is_more(make: &Make) {
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

pub(crate) fn files_are_refused(make: &Make) {
    let world = make(DriverOptions::default());
    let file = tempfile::tempfile().expect("file");
    let error = world.driver.borrow_mut().add_source(file.into()).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
}

pub(crate) fn stale_keys(make: &Make) {
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
