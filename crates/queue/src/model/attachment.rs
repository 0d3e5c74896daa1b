//! An attachment: one driver has the object, a waiting task is woken, and a drop closes once.

use super::Within;
use crate::{Attachment, CloseOutcome, ComeOutcome, DetachOutcome, Direction, DriverCore, OwnWaiters};
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
struct AskerWakes(AtomicUsize);

impl Wake for AskerWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The address of a core.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ModelCore(u64);

impl DriverCore for ModelCore {
    fn number(&self) -> u64 {
        self.0
    }
}

const A: ModelCore = ModelCore(1);
const B: ModelCore = ModelCore(2);
const C: ModelCore = ModelCore(3);

/// An object that counts its drops, with a cell that only its holder may touch.
#[derive(Default)]
struct ModelSocket {
    uses: Within,
    drops: Option<Arc<AtomicUsize>>,
}

impl Drop for ModelSocket {
    fn drop(&mut self) {
        if let Some(drops) = &self.drops {
            drops.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An object that core B has asked core A for.
fn detaching() -> Arc<Attachment<ModelCore, ModelSocket>> {
    let attachment = Arc::new(Attachment::new(A, 7));
    assert!(matches!(attachment.come(&B, None), ComeOutcome::Ask(A, 7)));
    attachment
}

#[test]
fn asking_task_gets_the_object_or_is_woken() {
    loom::model(|| {
        let attachment = detaching();
        let leaves = {
            let attachment = attachment.clone();
            thread::spawn(move || {
                let leave = attachment.detached(ModelSocket::default(), |_, _| OwnWaiters::default());
                assert!(matches!(leave, DetachOutcome::Rest));
            })
        };
        let woken = Arc::new(AskerWakes::default());
        let waker = Waker::from(woken.clone());
        let mut answer = attachment.come(&B, Some((Direction::Read, &waker)));
        leaves.join().unwrap();
        if matches!(answer, ComeOutcome::Wait) {
            assert_eq!(woken.0.load(Ordering::Relaxed), 1, "the end of the step wakes the task");
            answer = attachment.come(&B, Some((Direction::Read, &waker)));
        }
        assert!(matches!(answer, ComeOutcome::Attach(_)));
        assert_eq!(attachment.attached(&B, 9), None);
        assert_eq!((attachment.key_on(A.0), attachment.key_on(B.0)), (None, Some(9)));
    });
}

/// Core B asks for a task that then loses interest. Another task waits in the driver of core A, in
/// the same direction.
#[test]
fn task_that_waits_in_the_driver_is_woken() {
    loom::model(|| {
        let attachment = Arc::new(Attachment::<_, ModelSocket>::new(A, 7));
        let asks = {
            let attachment = attachment.clone();
            thread::spawn(move || {
                let waker = Waker::from(Arc::new(AskerWakes::default()));
                matches!(attachment.come(&B, Some((Direction::Read, &waker))), ComeOutcome::Ask(A, 7))
            })
        };
        // Core C asks too, so that core A may take the object out before core B has asked.
        let is_first = matches!(attachment.come(&C, None), ComeOutcome::Ask(A, 7));
        assert!(attachment.key_on(A.0).is_some(), "the driver of A still has the object");
        let woken = Arc::new(AskerWakes::default());
        let waiting = Waker::from(woken.clone());
        let outcome = attachment.detached(ModelSocket::default(), |_, asked| OwnWaiters {
            needs_driver: !asked[0],
            asked_too: [asked[0].then_some(waiting), None],
        });
        let asked = asks.join().unwrap();
        assert!(!(is_first && asked), "one of the two asks");
        let is_sent = matches!(outcome, DetachOutcome::Send(_));
        assert_eq!(woken.0.load(Ordering::Relaxed), usize::from(!is_sent));
    });
}

#[test]
fn attaching_core_wakes_the_tasks_of_other_cores() {
    loom::model(|| {
        let attachment = detaching();
        attachment.detached(ModelSocket::default(), |_, _| OwnWaiters::default());
        let attaches = {
            let attachment = attachment.clone();
            thread::spawn(move || {
                let taken = matches!(attachment.come(&B, None), ComeOutcome::Attach(_));
                assert!(!taken || attachment.attached(&B, 9).is_none());
            })
        };
        let woken = Arc::new(AskerWakes::default());
        let answer = attachment.come(&C, Some((Direction::Write, &Waker::from(woken.clone()))));
        attaches.join().unwrap();
        match answer {
            ComeOutcome::Attach(_) => assert_eq!(attachment.attached(&C, 11), None),
            ComeOutcome::Wait => assert_eq!(woken.0.load(Ordering::Relaxed), 1),
            ComeOutcome::Ask(core, 9) => assert_eq!(core, B),
            _ => panic!("an object has a place"),
        }
    });
}

#[test]
fn old_core_is_asked_once() {
    loom::model(|| {
        let attachment = Arc::new(Attachment::<_, ModelSocket>::new(A, 7));
        let other = attachment.clone();
        let asks = thread::spawn(move || matches!(other.come(&B, None), ComeOutcome::Ask(A, 7)));
        let asked = matches!(attachment.come(&C, None), ComeOutcome::Ask(A, 7));
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
                let socket = ModelSocket { uses: Within::default(), drops: Some(drops) };
                match attachment
                    .detached(socket, |_, _| OwnWaiters { needs_driver: true, ..OwnWaiters::default() })
                {
                    DetachOutcome::Close(socket) => drop(socket),
                    DetachOutcome::Send(to) => {
                        assert_eq!(to, B);
                        if let Some(socket) = attachment.claim() {
                            // The driver of B has the socket from here on, or closes the socket.
                            if attachment.attached(&B, 9).is_none() {
                                std::mem::forget(socket);
                            }
                        }
                    }
                    DetachOutcome::Rest => panic!("a task waits"),
                }
            })
        };
        let close = attachment.close();
        leaves.join().unwrap();
        let on_driver = matches!(close, CloseOutcome::On(B, 9));
        drop(close);
        drop(attachment);
        assert_eq!(drops.load(Ordering::Relaxed) + usize::from(on_driver), 1);
    });
}

/// The driver of a core, which only the thread of the core may touch, and the requests to the core.
struct ModelDriver {
    address: ModelCore,
    socket: Option<ModelSocket>,
}

impl ModelDriver {
    /// Uses the socket, or asks for the socket. Returns whether the socket was used.
    fn uses(&mut self, attachment: &Attachment<ModelCore, ModelSocket>, requests: &Requests) -> bool {
        if attachment.key_on(self.address.0).is_none() {
            match attachment.come(&self.address, None) {
                ComeOutcome::Ask(to, _) => {
                    requests.lock().unwrap().push(to);
                    return false;
                }
                ComeOutcome::Attach(socket) => {
                    self.socket = Some(socket);
                    assert_eq!(attachment.attached(&self.address, 0), None);
                }
                ComeOutcome::Wait => return false,
                ComeOutcome::Here(_) | ComeOutcome::Gone => panic!("the word says otherwise"),
            }
        }
        self.socket.as_ref().expect("the driver has the socket").uses.touch();
        true
    }

    /// Does as it was asked.
    fn attend(&mut self, attachment: &Attachment<ModelCore, ModelSocket>, requests: &Requests) {
        let asked = {
            let mut requests = requests.lock().unwrap();
            let before = requests.len();
            requests.retain(|to| *to != self.address);
            requests.len() < before
        };
        if asked {
            let socket = self.socket.take().expect("the driver has the socket");
            attachment.detached(socket, |_, _| OwnWaiters::default());
        }
    }
}

type Requests = Mutex<Vec<ModelCore>>;

#[test]
fn object_is_used_by_one_core_at_a_time() {
    loom::model(|| {
        let attachment = Arc::new(Attachment::new(A, 0));
        let requests = Arc::new(Requests::default());
        let mut first = ModelDriver { address: A, socket: Some(ModelSocket::default()) };
        let mut second = ModelDriver { address: B, socket: None };
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
        let rests = matches!(attachment.close(), CloseOutcome::Now(_));
        assert_eq!(sockets + usize::from(rests), 1, "the socket is in one place");
    });
}
