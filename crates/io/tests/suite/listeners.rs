//! Incoming connections, and closing listeners.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use vermeil_io::{DriverOptions, queued_count};

use super::{MakeDriver, poll_once};

pub(crate) fn closing_returns_queued_connections(make: &MakeDriver) {
    const CLIENTS: usize = 20;
    for armed in ["never polled", "polled", "polled and turned"] {
        let world = make(DriverOptions::default());
        let (listener, addr) = world.listen();
        if armed != "never polled" {
            assert!(poll_once(|cx| world.driver.borrow_mut().poll_accept(cx, listener)).is_pending());
        }
        if armed == "polled and turned" {
            world.nudge();
        }
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(addr).expect("connect")).collect();
        world.driver.borrow_mut().close_listener(listener);
        world.driver.borrow_mut().close_listener(listener);
        let accepting = world.clone();
        let streams = world.run(async move {
            let mut streams = Vec::new();
            loop {
                match accepting.accept(listener).await {
                    Ok(stream) => streams.push(stream),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NotConnected, "{armed}");
                        break;
                    }
                }
            }
            assert!(accepting.accept(listener).await.is_err());
            streams
        });
        assert_eq!(streams.len(), CLIENTS, "{armed}: connections were lost");
        for client in &mut clients {
            client.write_all(b"x").expect("write");
        }
        let reading = world.clone();
        world.run(async move {
            for stream in streams {
                assert_eq!(reading.recv(stream, &mut Vec::new()).await.expect("recv"), 1, "{armed}");
            }
        });
        assert!(TcpStream::connect(addr).is_err(), "{armed}: still listening");
    }
}

/// A discarded listener closes the accepted connections and the connections in the kernel's queue.
pub(crate) fn discarding_closes_queued_connections(make: &MakeDriver) {
    for armed in ["never polled", "polled", "polled and turned", "closed before"] {
        let world = make(DriverOptions::default());
        let (listener, addr) = world.listen();
        if armed != "never polled" {
            assert!(poll_once(|cx| world.driver.borrow_mut().poll_accept(cx, listener)).is_pending());
        }
        if armed == "polled and turned" {
            world.nudge();
        }
        let clients: Vec<_> = (0..20).map(|_| TcpStream::connect(addr).expect("connect")).collect();
        if armed == "closed before" {
            world.driver.borrow_mut().close_listener(listener);
            world.nudge();
        }
        world.driver.borrow_mut().discard_listener(listener);
        world.driver.borrow_mut().discard_listener(listener);
        for _ in 0..4 {
            world.nudge();
        }
        assert!(world.driver.borrow().listener_fd(listener).is_none(), "{armed}: the key is stale");
        for mut client in clients {
            client.set_read_timeout(Some(super::DEADLINE)).expect("a time limit");
            let end = client.read(&mut [0]);
            let reset = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionReset;
            assert!(matches!(end, Ok(0)) || end.as_ref().is_err_and(reset), "{armed}: {end:?}");
        }
        assert!(TcpStream::connect(addr).is_err(), "{armed}: still listening");
    }
}

pub(crate) fn closing_wakes_waiting_task(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (listener, _) = world.listen();
    let (waiting, closing) = (world.clone(), world.clone());
    world.spawn(async move {
        let error = waiting.accept(listener).await.expect_err("closed");
        assert_eq!(error.to_string(), "listener closed");
    });
    assert!(world.poll_woken());
    world.nudge();
    world.spawn(async move { closing.driver.borrow_mut().close_listener(listener) });
    world.run_all();
}

pub(crate) fn more_connections_than_are_held(make: &MakeDriver) {
    const CLIENTS: usize = 64;
    let world = make(DriverOptions { accept_backlog_max: 4, ..Default::default() });
    let (listener, addr) = world.listen();
    assert!(poll_once(|cx| world.driver.borrow_mut().poll_accept(cx, listener)).is_pending());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            world.nudge();
            TcpStream::connect(addr).expect("connect")
        })
        .collect();
    let accepting = world.clone();
    world.run(async move {
        for _ in 0..CLIENTS {
            accepting.accept_fd(listener).await.expect("accept");
        }
    });
    assert!(poll_once(|cx| world.driver.borrow_mut().poll_accept(cx, listener)).is_pending());
    drop(clients);
}

/// The kernel accepts all waiting connections at once. While many arrive, the driver does not
/// request that, because otherwise the bound of the kernel's queue would have no effect.
pub(crate) fn a_crowd_waits_in_the_kernel(make: &MakeDriver) {
    const CROWD: usize = 8;
    let world = make(DriverOptions { accept_backlog_max: 4, ..Default::default() });
    let (listener, addr) = world.listen();
    let nobody_came = || poll_once(|cx| world.driver.borrow_mut().poll_accept(cx, listener)).is_pending();
    let take = |count: usize| {
        for _ in 0..count {
            assert!(!nobody_came(), "one waits");
        }
    };
    let mut clients = Vec::new();
    let mut connect = |count: usize| {
        clients.extend((0..count).map(|_| TcpStream::connect(addr).expect("connect")));
        world.nudge();
        world.nudge();
    };
    assert!(nobody_came());
    connect(CROWD);
    connect(CROWD);
    take(2 * CROWD);
    for _ in 0..3 {
        assert!(nobody_came());
        connect(CROWD);
        let driver = world.driver.borrow();
        let queued = queued_count(driver.listener_fd(listener).expect("open")).expect("a listener");
        assert!(queued as usize >= CROWD - 1, "the driver has taken in all but {queued}");
        drop(driver);
        take(CROWD);
    }
    for _ in 0..3 {
        assert!(nobody_came());
        connect(1);
        take(1);
    }
    assert!(nobody_came());
}

pub(crate) fn accepted_sockets_are_ready_for_use(make: &MakeDriver) {
    let world = make(DriverOptions::default());
    let (listener, addr) = world.listen();
    let client = TcpStream::connect(addr).expect("connect");
    let accepting = world.clone();
    let fd = world.run(async move { accepting.accept_fd(listener).await.expect("accept") });
    let status = rustix::fs::fcntl_getfl(&fd).expect("F_GETFL");
    assert!(status.contains(rustix::fs::OFlags::NONBLOCK), "the socket blocks");
    let flags = rustix::io::fcntl_getfd(&fd).expect("F_GETFD");
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "the socket survives exec");
    let peer = vermeil_io::peer_addr(std::os::fd::AsFd::as_fd(&fd)).expect("peer");
    assert_eq!(peer, Some(client.local_addr().expect("local")));
    assert!(TcpStream::from(fd).nodelay().expect("TCP_NODELAY"), "small segments are held back");
}
