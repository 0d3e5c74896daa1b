//! Panics of foreign code that a core calls between two events.

use super::{eventually, moves::pair, runtimes_of_both_drivers};
use crate::{Handle, More, TcpStream, sleep};
use bytes::Bytes;
use std::{
    io::{Read, Write},
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};

fn panics(handle: &Handle) -> u64 {
    handle.snapshot().cores.iter().map(|core| core.panics).sum()
}

struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("planted");
    }
}

/// Regression: a waker that panicked in a turn of the driver, or for a timer, ended the core.
#[test]
fn panic_of_waker_ends_nothing() {
    for runtime in runtimes_of_both_drivers() {
        let handle = runtime.handle();
        let (socket, mut peer) = pair();
        let task = handle.spawn(async move {
            let waker = Waker::from(Arc::new(PanickingWaker));
            let mut context = Context::from_waker(&waker);
            let stream = TcpStream::new(socket).expect("the driver takes sockets");
            assert!(stream.poll_recv(&mut context, &mut Vec::new()).is_pending());
            let mut sleeps = Box::pin(sleep(Duration::from_millis(1)));
            assert!(sleeps.as_mut().poll(&mut context).is_pending());
            (stream, sleeps)
        });
        // The sleep is kept too, because a dropped sleep wakes nothing.
        let (stream, _sleeps) = task.wait().expect("it ends");
        peer.write_all(b"x").expect("room");
        eventually("both panics are counted", || panics(&handle) == 2);
        let task = handle.spawn(async move { stream.recv(&mut Vec::new()).await });
        assert_eq!(task.wait().expect("it ends").expect("no error"), 1);
    }
}

struct PanickingOwner;

impl AsRef<[u8]> for PanickingOwner {
    fn as_ref(&self) -> &[u8] {
        b"body"
    }
}

impl Drop for PanickingOwner {
    fn drop(&mut self) {
        panic!("planted");
    }
}

/// Regression: with io_uring, a body whose owner panicked after the send ended the core.
#[test]
fn panic_of_body_owner_ends_nothing() {
    for runtime in runtimes_of_both_drivers() {
        let handle = runtime.handle();
        let (socket, mut peer) = pair();
        let task = handle.spawn(async move {
            let stream = TcpStream::new(socket)?;
            stream.send(Vec::new(), Bytes::from_owner(PanickingOwner), More::No)?;
            stream.sent().await
        });
        assert!(task.wait().expect("it ends").expect("no error").is_empty());
        let mut heard = Vec::new();
        peer.read_to_end(&mut heard).expect("all, and an end");
        assert_eq!(heard, b"body");
        eventually("the panic is counted", || panics(&handle) == 1);
    }
}
