//! Sockets that are dropped anywhere, awaited by two tasks, or used by a task on another core.

use super::{PATIENCE, eventually};
use crate::{
    CoreIndex, DriverOptions, Handle, IoChoice, ListenOptions, More, Pinning, Runtime, Source, TcpListener,
    TcpStream, hop, listen, sleep, yield_now, yield_turn,
};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    future::pending,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream},
    os::fd::{BorrowedFd, OwnedFd},
    panic::panic_any,
    sync::{Arc, mpsc},
    time::Duration,
};

/// Two cores, with each driver that this machine offers.
fn both_drivers() -> Vec<Runtime> {
    let allowed = vermeil_io::current_affinity();
    let cpus = [allowed[0], *allowed.last().expect("a process has a cpu")];
    let build = |choice| {
        let io = DriverOptions { choice, ..DriverOptions::default() };
        Runtime::builder().cpus(cpus).pinning(Pinning::Shared).io(io).build()
    };
    let mut runtimes = vec![build(IoChoice::Epoll).expect("epoll works everywhere")];
    match build(IoChoice::Uring) {
        Ok(uring) => runtimes.push(uring),
        Err(error) => eprintln!("skipped: io_uring: {error}"),
    }
    runtimes
}

fn listener() -> (StdListener, SocketAddr) {
    let listener = StdListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

fn accepted(listener: &StdListener) -> StdStream {
    let (peer, _) = listener.accept().expect("a connection");
    peer.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    peer
}

async fn connected(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("a connection")
}

/// Regression: a drop off the core of a socket was a silent error, and the socket stayed open.
#[test]
fn stream_dropped_on_any_thread_is_closed() {
    type Way = fn(&Handle, SocketAddr);
    let ways: [(&str, Way); 7] = [
        ("after a hop", |handle, address| {
            let there = handle.color_on(CoreIndex(1));
            let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
                let stream = connected(address).await;
                hop(&there).await;
                drop(stream);
            });
            task.wait().expect("it ends");
        }),
        ("by a panic after a hop", |handle, address| {
            let there = handle.color_on(CoreIndex(1));
            let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
                let _stream = connected(address).await;
                hop(&there).await;
                panic_any("planted");
            });
            assert!(task.wait().is_err_and(|error| error.is_panic()));
        }),
        ("by a cancellation after a hop", |handle, address| {
            let (there, (begun, begins)) = (handle.color_on(CoreIndex(1)), mpsc::channel());
            let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
                let _stream = connected(address).await;
                hop(&there).await;
                begun.send(()).expect("the test waits");
                pending::<()>().await;
            });
            begins.recv().expect("it hops");
            task.cancel();
        }),
        ("on another thread", |handle, address| {
            let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), connected(address));
            drop(task.wait().expect("it ends"));
        }),
        ("by the last owner elsewhere", |handle, address| {
            let task = handle
                .spawn_on(&handle.color_on(CoreIndex(0)), async move { Arc::new(connected(address).await) });
            let owner = task.wait().expect("it ends");
            handle
                .spawn_on(&handle.color_on(CoreIndex(1)), async move { drop(owner) })
                .wait()
                .expect("it ends");
        }),
        ("in a channel", |handle, address| {
            let (sender, receiver) = mpsc::channel();
            let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
                sender.send(connected(address).await).expect("the channel is open");
            });
            task.wait().expect("it ends");
            drop(receiver);
        }),
        ("by a time limit elsewhere", |handle, address| {
            let there = handle.color_on(CoreIndex(1));
            let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
                let stream = connected(address).await;
                hop(&there).await;
                let holds = async move {
                    pending::<()>().await;
                    drop(stream);
                };
                sleep(Duration::from_millis(1)).limit(holds).await.expect_err("it never ends");
            });
            task.wait().expect("it ends");
        }),
    ];
    for runtime in both_drivers() {
        let handle = runtime.handle();
        for (name, way) in ways {
            let (listener, address) = listener();
            way(&handle, address);
            assert_eq!(accepted(&listener).read(&mut [0]).expect(name), 0, "{name}");
        }
    }
}

#[test]
fn listener_dropped_on_any_thread_is_closed() {
    for runtime in both_drivers() {
        let handle = runtime.handle();
        let color = handle.color_on(CoreIndex(0));
        let socket = listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
        let address = StdListener::from(socket.try_clone().unwrap()).local_addr().unwrap();
        let (pipe, source) = std::io::pipe().map(|(reader, writer)| (writer, OwnedFd::from(reader))).unwrap();
        let task = handle.spawn_on(&color, async move {
            let (listener, source) = (TcpListener::new(socket).unwrap(), Source::new(source).unwrap());
            // Both wait twice, so the driver watches both.
            for _ in 0..2 {
                let mut limit = sleep(Duration::from_millis(1));
                limit.limit(listener.accept()).await.expect_err("nothing comes");
                limit.limit(source.readable()).await.expect_err("nothing comes");
            }
            (listener, source)
        });
        drop(task.wait().expect("it ends"));
        let mut pipe = pipe;
        eventually("the pipe has no reader", || pipe.write(b"x").is_err());
        eventually("connections are refused", || StdStream::connect(address).is_err());
    }
}

/// Regression: connections of a dropped listener stayed open, because nothing could accept them.
#[test]
fn connections_of_a_dropped_listener_are_closed() {
    for runtime in both_drivers() {
        let handle = runtime.handle();
        let socket = listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
        let address = StdListener::from(socket.try_clone().unwrap()).local_addr().unwrap();
        let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
            let listener = TcpListener::new(socket).unwrap();
            drop(listener.accept().await.unwrap());
            listener
        });
        let (_first, mut second) =
            (StdStream::connect(address).unwrap(), StdStream::connect(address).unwrap());
        drop(task.wait().expect("it ends"));
        second.set_read_timeout(Some(PATIENCE)).unwrap();
        let end = second.read(&mut [0]);
        assert!(
            matches!(&end, Ok(0)) || end.as_ref().is_err_and(|e| e.kind() == ErrorKind::ConnectionReset),
            "{end:?}"
        );
    }
}

/// Regression: a timer that was dropped on another core stayed armed until its deadline.
#[test]
fn sleep_dropped_on_another_core_leaves_no_timer() {
    for runtime in both_drivers() {
        let handle = runtime.handle();
        let color = handle.color_on(CoreIndex(0));
        let sleeps = handle.spawn_on(&color, async {
            let mut sleeps: Vec<_> = (0..100).map(|_| Box::pin(sleep(Duration::from_secs(3600)))).collect();
            for sleep in &mut sleeps {
                std::future::poll_fn(|context| {
                    assert!(sleep.as_mut().poll(context).is_pending());
                    std::task::Poll::Ready(())
                })
                .await;
            }
            sleeps
        });
        drop(sleeps.wait().expect("it ends"));
        let armed = handle.spawn_on(&color, async {
            let armed = || crate::core::current(|core| core.io.timers.borrow().len()).expect("a core");
            let mut looks = 0;
            while armed() > 0 && looks < 10_000 {
                looks += 1;
                crate::yield_turn().await;
            }
            armed()
        });
        assert_eq!(armed.wait(), Ok(0));
    }
}

/// Regression: the waker of the first task was lost, and that task waited for ever.
#[test]
fn second_waiter_on_a_socket_is_refused() {
    for runtime in both_drivers() {
        let handle = runtime.handle();
        let color = handle.color_on(CoreIndex(0));
        let (listener, address) = listener();
        let socket = listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
        let (pipe, source) = std::io::pipe().map(|(reader, writer)| (writer, OwnedFd::from(reader))).unwrap();
        let inner = (handle.clone(), color.clone());
        let (refused, is_refused) = mpsc::channel();
        let task = handle.spawn_on(&color, async move {
            let stream = Arc::new(connected(address).await);
            let listener = Arc::new(TcpListener::new(socket).unwrap());
            let source = Arc::new(Source::new(source).unwrap());
            let (handle, color) = inner;
            let firsts = {
                let (stream, listener, source) = (stream.clone(), listener.clone(), source.clone());
                let receives =
                    handle.spawn_on(&color, async move { stream.recv(&mut Vec::new()).await.unwrap() });
                handle.spawn_on(&color, async move { listener.accept().await.map(drop) });
                handle.spawn_on(&color, async move { source.readable().await });
                receives
            };
            // The first tasks are polled before this task continues.
            yield_now().await;
            yield_now().await;
            let errors = [
                stream.recv(&mut Vec::new()).await.unwrap_err(),
                stream.release().await.map(drop).unwrap_err(),
                listener.accept().await.map(drop).unwrap_err(),
                source.readable().await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::ResourceBusy);
                assert!(error.to_string().contains("only one task may"), "{error}");
            }
            refused.send(()).expect("the test waits");
            firsts.await.expect("it ends")
        });
        let mut peer = accepted(&listener);
        // Not earlier, because a first task that has received its byte no longer waits.
        is_refused.recv().expect("the second tasks are refused");
        peer.write_all(b"x").unwrap();
        assert_eq!(task.wait(), Ok(1));
        drop(pipe);
    }
}

/// Regression: the second send panicked.
#[test]
fn a_second_send_before_sent_is_an_error() {
    for runtime in both_drivers() {
        let handle = runtime.handle();
        let (_listener, address) = listener();
        let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
            let stream = connected(address).await;
            stream.send(vec![1; 16 << 20], Bytes::new(), More::No).expect("the first");
            let file = std::fs::File::open("/proc/self/exe").expect("the test's program");
            let file = std::os::fd::AsFd::as_fd(&file);
            [
                stream.send(vec![2], Bytes::new(), More::No).unwrap_err(),
                stream.shutdown_write().unwrap_err(),
                stream.sendfile(file, &mut 0, 1).await.map(drop).unwrap_err(),
            ]
        });
        for error in task.wait().expect("it ends") {
            assert_eq!(error.kind(), ErrorKind::ResourceBusy);
            assert!(error.to_string().contains("`sent`"), "{error}");
        }
    }
}

/// Regression: the peer saw a clean end after partial data.
#[test]
fn a_drop_before_all_is_sent_resets_the_connection() {
    for runtime in both_drivers() {
        let handle = runtime.handle();
        for size in [1, 100 << 10, 16 << 20] {
            let (listener, address) = listener();
            let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
                connected(address).await.send(vec![7; size], Bytes::new(), More::No).expect("the send");
            });
            let mut peer = accepted(&listener);
            task.wait().expect("it ends");
            let mut bytes = Vec::new();
            match peer.read_to_end(&mut bytes) {
                Ok(_) => assert_eq!(bytes.len(), size, "a clean end tells that all has come"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
            }
        }
    }
}

/// Regression: after a send that had failed within its bytes, the peer saw a clean end.
#[test]
fn failed_send_resets_the_connection() {
    for runtime in both_drivers() {
        let handle = runtime.handle();
        let (listener, address) = listener();
        let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
            let stream = connected(address).await;
            stream.send(vec![7; 16 << 20], Bytes::new(), More::No).expect("the send");
            // The peer does not read, so the send is blocked after these turns.
            for _ in 0..3 {
                yield_turn().await;
            }
            let shutdown = |fd: BorrowedFd<'_>| rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
            stream.with_fd(shutdown).expect("the stream is here").expect("shutdown");
            stream.sent().await.map(drop).map_err(|error| error.kind())
        });
        let mut peer = accepted(&listener);
        assert_eq!(task.wait(), Ok(Err(ErrorKind::BrokenPipe)));
        // The socket may be closed two turns later. Until then the peer does not read, because room
        // would let the end of the shutdown through.
        let patience = Timespec::try_from(PATIENCE).expect("a short time");
        let reset = poll(&mut [PollFd::new(&peer, PollFlags::empty())], Some(&patience)).expect("a poll");
        assert_eq!(reset, 1, "the connection is not reset");
        let error = peer.read_to_end(&mut Vec::new()).expect_err("a part is no whole");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn shutdown_resets_connections_with_unsent_data() {
    for runtime in both_drivers() {
        const SIZE: usize = 16 << 20;
        let (listener, address) = listener();
        let (sent, is_sent) = mpsc::channel();
        runtime.handle().spawn_on(&runtime.handle().color_on(CoreIndex(0)), async move {
            let stream = connected(address).await;
            stream.send(vec![7; SIZE], Bytes::new(), More::No).expect("the send");
            sent.send(()).expect("the test waits");
            stream.sent().await.map(drop)
        });
        let mut peer = accepted(&listener);
        is_sent.recv().expect("it sends");
        drop(runtime);
        let error = peer.read_to_end(&mut Vec::new()).expect_err("a part is no whole");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}

/// Regression: a task with a socket that was stolen before its first poll got an error for every
/// call.
#[test]
fn task_on_any_core_uses_its_socket() {
    for policy in ["none", "mely", "adaptive"] {
        let runtime =
            Runtime::builder().policy(policy.parse().expect("a policy")).build().expect("it starts");
        let handle = runtime.handle();
        let (listener, address) = listener();
        for core in handle.cores() {
            let stream = handle.spawn_on(&handle.color_on(core), connected(address)).wait().expect("it ends");
            let mut peer = accepted(&listener);
            // The color of this task may be on any core.
            let task = handle.spawn(async move {
                let mut got = Vec::new();
                for _ in 0..3 {
                    stream.recv(&mut got).await.expect("the socket comes");
                    stream.send(std::mem::take(&mut got), Bytes::new(), More::No).expect("it is here");
                    got = stream.sent().await.expect("sent");
                }
            });
            for _ in 0..3 {
                peer.write_all(b"x").unwrap();
                peer.read_exact(&mut [0]).unwrap();
            }
            task.wait().expect("it ends");
        }
    }
}
