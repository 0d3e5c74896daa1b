//! The cases, and their small world: an executor over one driver, and peers on plain blocking
//! sockets.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use vermeil_io::{
    Driver, DriverOptions, IoChoice, ListenOptions, ListenerKey, More, SourceKey, StreamKey, listen,
};

pub(crate) mod connecting;
pub(crate) mod echo;
pub(crate) mod flow;
pub(crate) mod fresh;
pub(crate) mod listeners;
pub(crate) mod moves;
pub(crate) mod property;
pub(crate) mod releases;
pub(crate) mod sources;
pub(crate) mod streams;
pub(crate) mod tries;
pub(crate) mod turns;

/// No case takes a tenth of this time; the deadline only keeps a lost wake-up from hanging the run.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Makes the driver of a case.
pub(crate) type MakeDriver = dyn Fn(DriverOptions) -> DriverWorld;

pub(crate) fn on_epoll(case: fn(&MakeDriver)) {
    case(&|options| DriverWorld::new(&DriverOptions { choice: IoChoice::Epoll, ..options }));
}

pub(crate) fn on_uring(case: fn(&MakeDriver)) {
    let choice = IoChoice::Uring;
    if let Err(error) = Driver::new(&DriverOptions { choice, ..Default::default() }) {
        println!("skipped: {error}");
        eprintln!("skipped: {error}");
        return;
    }
    case(&move |options| DriverWorld::new(&DriverOptions { choice, ..options }));
}

struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(false)))
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        self.clone().into()
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

type TestTask = (Arc<Flag>, Pin<Box<dyn Future<Output = ()>>>);

/// A driver and its tasks.
#[derive(Clone)]
pub(crate) struct DriverWorld {
    pub(crate) driver: Rc<RefCell<Driver>>,
    tasks: Rc<RefCell<Vec<TestTask>>>,
    running: Rc<Cell<usize>>,
}

impl DriverWorld {
    fn new(options: &DriverOptions) -> Self {
        let driver = Driver::new(options).expect("the driver was made a moment ago");
        Self { driver: Rc::new(RefCell::new(driver)), tasks: Rc::default(), running: Rc::default() }
    }

    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.tasks.borrow_mut().push((Arc::new(Flag(AtomicBool::new(true))), Box::pin(future)));
        self.running.set(self.running.get() + 1);
    }

    /// Runs `main` and all spawned tasks until `main` is done.
    pub(crate) fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let slot = result.clone();
        self.spawn(async move {
            let value = main.await;
            *slot.borrow_mut() = Some(value);
        });
        self.run_while(|| result.borrow().is_none());
        result.take().expect("just seen")
    }

    /// Runs until every task is done.
    pub(crate) fn run_all(&self) {
        let running = self.running.clone();
        self.run_while(move || running.get() > 0);
    }

    fn run_while(&self, goes_on: impl Fn() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while goes_on() {
            if !self.poll_woken() && goes_on() {
                let left = deadline.saturating_duration_since(Instant::now());
                assert!(!left.is_zero(), "nothing has happened for too long: a wake-up was lost");
                self.driver.borrow_mut().turn(Some(left)).expect("turn");
            }
        }
        self.nudge();
    }

    /// Polls each woken task once. Returns whether there was any.
    pub(crate) fn poll_woken(&self) -> bool {
        let mut any = false;
        let mut at = 0;
        loop {
            let Some((flag, mut future)) = self.take_task(at) else { return any };
            if !flag.0.swap(false, Ordering::Acquire) {
                self.tasks.borrow_mut()[at].1 = future;
                at += 1;
                continue;
            }
            any = true;
            let waker = Waker::from(flag);
            if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                drop(self.tasks.borrow_mut().swap_remove(at));
                self.running.set(self.running.get() - 1);
            } else {
                self.tasks.borrow_mut()[at].1 = future;
                at += 1;
            }
        }
    }

    /// Takes a future out of its slot, so that the future may spawn others while it runs.
    fn take_task(&self, at: usize) -> Option<TestTask> {
        let mut tasks = self.tasks.borrow_mut();
        let task = tasks.get_mut(at)?;
        Some((task.0.clone(), std::mem::replace(&mut task.1, Box::pin(std::future::ready(())))))
    }

    /// Turns without waiting.
    pub(crate) fn nudge(&self) -> usize {
        self.driver.borrow_mut().turn(Some(Duration::ZERO)).expect("turn")
    }

    pub(crate) fn listen(&self) -> (ListenerKey, SocketAddr) {
        let fd =
            listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &ListenOptions::default()).expect("listen");
        let listener = TcpListener::from(fd);
        let addr = listener.local_addr().expect("a bound socket");
        let key = self.driver.borrow_mut().add_listener(listener.into()).expect("add_listener");
        (key, addr)
    }

    pub(crate) async fn accept(&self, key: ListenerKey) -> io::Result<StreamKey> {
        let fd = self.accept_fd(key).await?;
        self.driver.borrow_mut().add_stream(fd)
    }

    pub(crate) async fn accept_fd(&self, key: ListenerKey) -> io::Result<OwnedFd> {
        poll_fn(|cx| self.driver.borrow_mut().poll_accept(cx, key)).await
    }

    /// A stream of the driver and its peer.
    pub(crate) fn connected(&self) -> (StreamKey, TcpStream) {
        self.connected_by(Driver::add_stream)
    }

    /// As [`connected`](Self::connected), given to the driver by `add`.
    pub(crate) fn connected_by(
        &self,
        add: impl FnOnce(&mut Driver, OwnedFd) -> io::Result<StreamKey>,
    ) -> (StreamKey, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        let peer = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
        let (ours, _) = listener.accept().expect("accept");
        ours.set_nonblocking(true).expect("nonblocking");
        peer.set_read_timeout(Some(DEADLINE)).expect("timeout");
        (add(&mut self.driver.borrow_mut(), ours.into()).expect("the driver takes it"), peer)
    }

    pub(crate) async fn recv(&self, key: StreamKey, buf: &mut Vec<u8>) -> io::Result<usize> {
        poll_fn(|cx| self.driver.borrow_mut().poll_recv(cx, key, buf)).await
    }

    /// Receives until the end; returns all bytes.
    pub(crate) async fn recv_to_end(&self, key: StreamKey) -> io::Result<Vec<u8>> {
        let mut buf = Vec::new();
        while self.recv(key, &mut buf).await? > 0 {}
        Ok(buf)
    }

    pub(crate) async fn send(
        &self,
        key: StreamKey,
        head: &[u8],
        body: &Bytes,
        more: More,
    ) -> io::Result<Vec<u8>> {
        self.driver.borrow_mut().start_send(key, head.to_vec(), body.clone(), more)?;
        self.sent(key).await
    }

    pub(crate) async fn sent(&self, key: StreamKey) -> io::Result<Vec<u8>> {
        poll_fn(|cx| self.driver.borrow_mut().poll_sent(cx, key)).await
    }

    pub(crate) async fn sendfile(
        &self,
        key: StreamKey,
        file: BorrowedFd<'_>,
        offset: &mut u64,
        count: usize,
    ) -> io::Result<usize> {
        poll_fn(|cx| self.driver.borrow_mut().poll_sendfile(cx, key, file, offset, count)).await
    }

    pub(crate) async fn release(&self, key: StreamKey) -> io::Result<Option<OwnedFd>> {
        poll_fn(|cx| self.driver.borrow_mut().poll_release(cx, key)).await
    }

    pub(crate) async fn readable(&self, key: SourceKey) -> io::Result<()> {
        poll_fn(|cx| self.driver.borrow_mut().poll_readable(cx, key)).await
    }

    pub(crate) fn close(&self, key: StreamKey) {
        self.driver.borrow_mut().close_stream(key);
    }
}

/// Bytes that differ from their neighbours a page and a buffer away.
pub(crate) fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// Polls once with a waker without effect.
pub(crate) fn poll_once<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    poll(&mut Context::from_waker(Waker::noop()))
}
