//! A core's timers: deadlines in order, cheap to move to a later time.
//!
//! A timer that is set repeatedly, for example a connection's time limit, stays armed at its old
//! time. If the deadline has moved on when the timer fires, the core arms the timer again and does
//! not wake the owner. So a move to a later deadline costs a store. Times are nanoseconds on the
//! runtime's clock, passed as arguments. Tested below on invented time.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
};
use vermeil_io::contain;

/// The deadline of a timer that is not set, and the armed time of a timer that is not armed.
pub(crate) const NEVER: u64 = u64::MAX;

/// A timer, shared by its owner and its core. Both run on that core, or do not race: the owner only
/// writes `deadline_ns` and `waker`, the core only `armed_ns`.
#[derive(Debug)]
pub(crate) struct Timer {
    serial: u64,
    armed_ns: AtomicU64,
    deadline_ns: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

/// A core's armed timers.
#[derive(Default)]
pub(crate) struct Timers {
    armed: BTreeMap<(u64, u64), Arc<Timer>>,
    serials: u64,
}

impl Timer {
    /// Moves the deadline; the core notices the move when the timer fires. An earlier deadline
    /// needs [`Timers::settle`].
    pub(crate) fn set_deadline(&self, deadline_ns: u64) {
        self.deadline_ns.store(deadline_ns, Ordering::Relaxed);
    }

    /// When the core will look at the timer.
    pub(crate) fn armed_ns(&self) -> u64 {
        self.armed_ns.load(Ordering::Relaxed)
    }

    /// Sets the waker for the deadline.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        let mut held = self.waker.lock().expect("nothing panics under this lock");
        if !held.as_ref().is_some_and(|held| held.will_wake(waker)) {
            *held = Some(waker.clone());
        }
    }

    /// The owner no longer waits; the core drops the timer when it fires.
    pub(crate) fn abandon(&self) {
        self.set_deadline(NEVER);
        *self.waker.lock().expect("nothing panics under this lock") = None;
    }
}

impl Timers {
    /// A new timer, not armed.
    pub(crate) fn timer(&mut self) -> Arc<Timer> {
        self.serials += 1;
        Arc::new(Timer {
            serial: self.serials,
            armed_ns: AtomicU64::new(NEVER),
            deadline_ns: AtomicU64::new(NEVER),
            waker: Mutex::new(None),
        })
    }

    /// Arms a timer of this core at its deadline, whether or not the timer was armed before.
    pub(crate) fn arm(&mut self, timer: &Arc<Timer>) {
        self.disarm(timer);
        let at_ns = timer.deadline_ns.load(Ordering::Relaxed);
        timer.armed_ns.store(at_ns, Ordering::Relaxed);
        self.armed.insert((at_ns, timer.serial), timer.clone());
    }

    /// Arms a timer of this core at a deadline that has moved. Removes a timer without a deadline.
    pub(crate) fn settle(&mut self, timer: &Arc<Timer>) {
        if timer.deadline_ns.load(Ordering::Relaxed) == NEVER {
            self.disarm(timer);
        } else {
            self.arm(timer);
        }
    }

    /// Removes a timer of this core.
    pub(crate) fn disarm(&mut self, timer: &Timer) {
        let at_ns = timer.armed_ns.swap(NEVER, Ordering::Relaxed);
        self.armed.remove(&(at_ns, timer.serial));
    }

    /// When the core must look at the next timer.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.armed.first_key_value().map(|((at_ns, _), _)| *at_ns)
    }

    /// Wakes the owners of the timers that are due at `now_ns`.
    pub(crate) fn fire(&mut self, now_ns: u64) {
        while let Some(first) = self.armed.first_entry() {
            if first.key().0 > now_ns {
                return;
            }
            let timer = first.remove();
            timer.armed_ns.store(NEVER, Ordering::Relaxed);
            let deadline_ns = timer.deadline_ns.load(Ordering::Relaxed);
            if deadline_ns == NEVER {
                continue;
            }
            if deadline_ns > now_ns {
                self.arm(&timer);
                continue;
            }
            let waker = timer.waker.lock().expect("nothing panics under this lock").take();
            if let Some(waker) = waker {
                contain(|| waker.wake());
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.armed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::atomic::AtomicUsize, task::Wake};

    #[derive(Default)]
    struct CountWakes(AtomicUsize);

    impl Wake for CountWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn set(timers: &mut Timers, woken: &Arc<CountWakes>, at_ns: u64) -> Arc<Timer> {
        let timer = timers.timer();
        timer.set_deadline(at_ns);
        timer.set_waker(&woken.clone().into());
        timers.arm(&timer);
        timer
    }

    #[test]
    fn fires_in_order_and_once() {
        let (mut timers, woken) = (Timers::default(), Arc::<CountWakes>::default());
        let _timers: Vec<_> = [30, 10, 20].map(|at| set(&mut timers, &woken, at)).into();
        assert_eq!(timers.next_ns(), Some(10));
        timers.fire(20);
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
        assert_eq!(timers.next_ns(), Some(30));
        timers.fire(100);
        timers.fire(200);
        assert_eq!(woken.0.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn later_deadline_causes_no_early_wake() {
        let (mut timers, woken) = (Timers::default(), Arc::<CountWakes>::default());
        let timer = set(&mut timers, &woken, 10);
        timer.set_deadline(50);
        timers.fire(10);
        assert_eq!((woken.0.load(Ordering::Relaxed), timers.next_ns()), (0, Some(50)));
        timers.fire(50);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn disarmed_and_abandoned_timers_leave_nothing() {
        let (mut timers, woken) = (Timers::default(), Arc::<CountWakes>::default());
        let (first, second) = (set(&mut timers, &woken, 10), set(&mut timers, &woken, 10));
        timers.disarm(&first);
        second.abandon();
        timers.fire(10);
        assert_eq!((woken.0.load(Ordering::Relaxed), timers.len()), (0, 0));
    }
}
