//! Sends are submitted before a core runs a color in the background or a stolen color. The event of
//! that color waits for the sent byte. Epoll sends at once, so there the tests cannot fail.

use super::{
    PATIENCE,
    moves::{on_both_drivers, pair},
    runtimes_of_both_drivers,
};
use crate::{CoreIndex, Handle, Handler, More, Policy, TcpStream};
use bytes::Bytes;
use std::{
    io::Read,
    net::TcpStream as StdStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

/// A handler whose event waits until `peer` gets a byte, and reports whether the byte came.
fn reads(handle: &Handle, peer: StdStream) -> (Handler<()>, mpsc::Receiver<bool>) {
    let (to, came) = mpsc::channel();
    let handler = handle.handler("read", move |()| {
        to.send((&peer).read_exact(&mut [0]).is_ok()).expect("the test waits");
    });
    (handler, came)
}

#[test]
fn sends_are_submitted_before_a_background_color() {
    for runtime in runtimes_of_both_drivers() {
        let handle = runtime.handle();
        let (socket, peer) = pair();
        let (read, came) = reads(&handle, peer);
        let in_background = handle.color().background();
        let task = handle.spawn(async move {
            let stream = TcpStream::new(socket)?;
            read.post(&in_background, ()).expect("no bound");
            stream.send(vec![1], Bytes::new(), More::No)?;
            stream.sent().await
        });
        assert!(came.recv_timeout(2 * PATIENCE).expect("it runs"));
        task.wait().expect("it ends").expect("no error");
    }
}

/// Core 1 sends, and then steals the long event that waits behind an event of core 0.
#[test]
fn sends_are_submitted_before_a_stolen_color() {
    // This policy moves colors only by stealing.
    for runtime in on_both_drivers(&Policy::Libasync) {
        let handle = runtime.handle();
        let (socket, peer) = pair();
        let (read, came) = reads(&handle, peer);
        let [is_sent, is_posted] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let [tells_sent, knows_posted] = [&is_sent, &is_posted].map(Arc::clone);
        let sender = handle.spawn_on(&handle.color_on(CoreIndex(1)), async move {
            let stream = TcpStream::new(socket)?;
            stream.send(vec![1], Bytes::new(), More::No)?;
            tells_sent.store(true, Ordering::SeqCst);
            super::eventually("the event is posted", || knows_posted.load(Ordering::SeqCst));
            stream.sent().await
        });
        let (came_to, came_at) = mpsc::channel();
        let came = Mutex::new(came);
        // The policy spreads colors over the cores.
        let mut colors = std::iter::repeat_with(|| handle.color()).take(64);
        let queued = colors.find(|color| color.core() == CoreIndex(0)).expect("some color is on core 0");
        let busy = handle.handler("busy", move |()| {
            super::eventually("the byte is sent", || is_sent.load(Ordering::SeqCst));
            read.post(&queued, ()).expect("no bound");
            is_posted.store(true, Ordering::SeqCst);
            // Keeps this core until the other has run the event.
            came_to.send(came.lock().unwrap().recv_timeout(2 * PATIENCE)).expect("the test waits");
        });
        busy.post(&handle.color_on(CoreIndex(0)), ()).expect("no bound");
        assert!(came_at.recv().expect("it ends").expect("it runs"));
        sender.wait().expect("it ends").expect("no error");
    }
}
