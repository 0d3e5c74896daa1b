//! Tasks whose waits are always ready let other colors of their core run.

use super::runtimes_of_both_drivers;
use crate::{CoreIndex, Source, TcpStream, consume_budget};
use std::{
    io::Write as _,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

#[test]
fn task_that_is_always_ready_lets_others_run() {
    for runtime in runtimes_of_both_drivers() {
        let handle = runtime.handle();
        let (first, second) = (handle.color_on(CoreIndex(0)), handle.color_on(CoreIndex(0)));
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let busy = handle.spawn_on(&first, async move {
            while !ends.load(Ordering::Relaxed) {
                consume_budget().await;
            }
        });
        let other = handle.spawn_on(&second, async move { over.store(true, Ordering::Relaxed) });
        other.wait().expect("it has its turn");
        busy.wait().expect("it ends");
    }
}

#[test]
fn source_that_is_always_readable_lets_others_run() {
    for runtime in runtimes_of_both_drivers() {
        let handle = runtime.handle();
        let (first, second) = (handle.color_on(CoreIndex(0)), handle.color_on(CoreIndex(0)));
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(b"x").expect("room");
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let busy = handle.spawn_on(&first, async move {
            let source = Source::new(OwnedFd::from(reader))?;
            while !ends.load(Ordering::Relaxed) {
                source.readable().await?;
            }
            std::io::Result::Ok(())
        });
        let other = handle.spawn_on(&second, async move { over.store(true, Ordering::Relaxed) });
        other.wait().expect("it has its turn");
        busy.wait().expect("it ends").expect("no error");
    }
}

/// Regression: a probe took a pending receive for a silent connection, although the receive was
/// pending because the budget was spent.
#[test]
fn probe_sees_bytes_with_a_spent_budget() {
    for runtime in runtimes_of_both_drivers() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut peer =
            std::net::TcpStream::connect(listener.local_addr().expect("it is bound")).expect("peer");
        let (socket, _) = listener.accept().expect("a connection");
        socket.set_nonblocking(true).expect("non-blocking");
        peer.write_all(b"end").expect("room");
        let task = runtime.handle().spawn(async move {
            let stream = TcpStream::resume(socket.into())?;
            crate::core::current(|core| core.run.budget.set(0));
            let mut heard = Vec::new();
            std::future::poll_fn(|context| {
                assert!(stream.poll_recv(context, &mut heard).is_pending(), "the budget is spent");
                std::task::Poll::Ready(())
            })
            .await;
            assert_eq!(stream.try_recv(&mut heard)?, Some(3));
            assert_eq!(stream.try_recv(&mut heard)?, None);
            std::io::Result::Ok(heard)
        });
        assert_eq!(task.wait().expect("it ends").expect("no error"), b"end");
    }
}
