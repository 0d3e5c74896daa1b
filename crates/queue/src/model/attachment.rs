//! An attachment: one driver has the object, a waiting task is woken, and a drop closes once.

use super::Within;
use crate::{Attachment, Close, Come, Direction, DriverCore, Leave};
use loom::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use std::{
    sync::Arc,
    task::{Wake, Waker},
};

/// Counts wake-ups.
#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The address of a core.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Address(u64);

impl DriverCore for Address {
    fn number(&self) -> u64 {
        self.0
    }
}

const A: Address = Address(1);
const B: Address = Address(2);
const C: Address = Address(3);

/// An object that counts its drops, with a cell that only its holder may touch.
#[derive(Default)]
struct Socket {
    uses: Within,
    drops: Option<Arc<AtomicUsize>>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(drops) = &self.drops {
            drops.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An object that core B has asked core A for.
fn detaching() -> Arc<Attachment<Address, Socket>> {
    let attachment = Arc::new(Attachment::new(A, 7));
    assert!(matches!(attachment.come(&B, None), Come::Ask(A, 7)));
    attachment
}

#[test]
fn asking_task_gets_the_object_or_is_woken() {
    loom::model(|| {
        let attachment = detaching();
        let leaves = {
            let attachment = attachment.clone();
            thread::spawn(move || {
                let leave = attachment.detached(Socket::default(), |_, _| false);
                assert!(matches!(leave, Leave::Rest));
            })
        };
        let woken = Arc::new(WakeCount::default());
        let waker = Waker::from(woken.clone());
        let mut answer = attachment.come(&B, Some((Direction::Read, &waker)));
        leaves.join().unwrap();
        if matches!(answer, Come::Wait) {
            assert_eq!(woken.0.load(Ordering::Relaxed), 1, "the end of the step wakes the task");
            answer = attachment.come(&B, Some((Direction::Read, &waker)));
        }
        assert!(matches!(answer, Come::Attach(_)));
        assert_eq!(attachment.attached(&B, 9), None);
        assert_eq!((attachment.key_on(A.0), attachment.key_on(B.0)), (None, Some(9)));
    });
}

#[test]
fn attaching_core_wakes_the_tasks_of_other_cores() {
    loom::model(|| {
        let attachment = detaching();
        attachment.detached(Socket::default(), |_, _| false);
        let attaches = {
            let attachment = attachment.clone();
            thread::spawn(move || {
                let taken = matches!(attachment.come(&B, None), Come::Attach(_));
                assert!(!taken || attachment.attached(&B, 9).is_none());
            })
        };
        let woken = Arc::new(WakeCount::default());
        let answer = attachment.come(&C, Some((Direction::Write, &Waker::from(woken.clone()))));
        attaches.join().unwrap();
        match answer {
            Come::Attach(_) => assert_eq!(attachment.attached(&C, 11), None),
            Come::Wait => assert_eq!(woken.0.load(Ordering::Relaxed), 1),
            Come::Ask(core, 9) => assert_eq!(core, B),
            _ => panic!("an object has a place"),
        }
    });
}

#[test]
fn old_core_is_asked_once() {
    loom::model(|| {
        let attachment = Arc::new(Attachment::<_, Socket>::new(A, 7));
        let other = attachment.clone();
        let asks = thread::spawn(move || matches!(other.come(&B, None), Come::Ask(A, 7)));
        let asked = matches!(attachment.come(&C, None), Come::Ask(A, 7));
        assert!(asked != asks.join().unwrap(), "one of the two asks");
    });
}

#[test]
fn drop_during_a_move_closes_once() {
    loom::model(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let attachment = detaching();
        let leaves = {
            let (attachment, drops) = (attachment.clone(), drops.clone());
            thread::spawn(move || {
                let socket = Socket { uses: Within::default(), drops: Some(drops) };
                match attachment.detached(socket, |_, _| true) {
                    Leave::Close(socket) => drop(socket),
                    Leave::Send(to) => {
                        assert_eq!(to, B);
                        if let Come::Attach(socket) = attachment.come(&B, None) {
                            // The driver of B has the socket from here on, or closes the socket.
                            if attachment.attached(&B, 9).is_none() {
                                std::mem::forget(socket);
                            }
                        }
                    }
                    Leave::Rest => panic!("a task waits"),
                }
            })
        };
        let close = attachment.close();
        leaves.join().unwrap();
        let on_driver = matches!(close, Close::On(B, 9));
        drop(close);
        drop(attachment);
        assert_eq!(drops.load(Ordering::Relaxed) + usize::from(on_driver), 1);
    });
}

/// The driver of a core, which only the thread of the core may touch, and the requests to the core.
struct Driver {
    address: Address,
    socket: Option<Socket>,
}

impl Driver {
    /// Uses the socket, or asks for the socket. Returns whether the socket was used.
    fn uses(&mut self, attachment: &Attachment<Address, Socket>, requests: &Requests) -> bool {
        if attachment.key_on(self.address.0).is_none() {
            match attachment.come(&self.address, None) {
                Come::Ask(to, _) => {
                    requests.lock().unwrap().push(to);
                    return false;
                }
                Come::Attach(socket) => {
                    self.socket = Some(socket);
                    assert_eq!(attachment.attached(&self.address, 0), None);
                }
                Come::Wait => return false,
                Come::Here(_) | Come::Gone => panic!("the word says otherwise"),
            }
        }
        self.socket.as_ref().expect("the driver has the socket").uses.touch();
        true
    }

    /// Does as it was asked.
    fn attend(&mut self, attachment: &Attachment<Address, Socket>, requests: &Requests) {
        let asked = {
            let mut requests = requests.lock().unwrap();
            let before = requests.len();
            requests.retain(|to| *to != self.address);
            requests.len() < before
        };
        if asked {
            let socket = self.socket.take().expect("the driver has the socket");
            attachment.detached(socket, |_, _| false);
        }
    }
}

type Requests = Mutex<Vec<Address>>;

#[test]
fn object_is_used_by_one_core_at_a_time() {
    loom::model(|| {
        let attachment = Arc::new(Attachment::new(A, 0));
        let requests = Arc::new(Requests::default());
        let mut first = Driver { address: A, socket: Some(Socket::default()) };
        let mut second = Driver { address: B, socket: None };
        let other = {
            let (attachment, requests) = (attachment.clone(), requests.clone());
            thread::spawn(move || {
                second.uses(&attachment, &requests);
                second.attend(&attachment, &requests);
                second.uses(&attachment, &requests);
                second
            })
        };
        first.uses(&attachment, &requests);
        first.attend(&attachment, &requests);
        first.uses(&attachment, &requests);
        let mut second = other.join().unwrap();
        for _ in 0..2 {
            first.attend(&attachment, &requests);
            second.attend(&attachment, &requests);
        }
        let sockets = usize::from(first.socket.is_some()) + usize::from(second.socket.is_some());
        let rests = matches!(attachment.close(), Close::Now(_));
        assert_eq!(sockets + usize::from(rests), 1, "the socket is in one place");
    });
}
