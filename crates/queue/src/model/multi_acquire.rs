//! Acquisitions: the last arrival has all colors exclusively, and no two acquisitions wait for each
//! other.

use super::{Within, color, run};
use crate::{AcquireOrder, BatchRun, ColorQueue, Event, MultiAcquire, Run, Token, hold};
use loom::thread;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

/// The action is a number that identifies the acquisition.
type Both = MultiAcquire<(), u8>;

/// A color and the acquisition for which the color stands still. std's lock, because only the
/// thread that runs the color takes the lock.
struct HeldSeat {
    color: Arc<ColorQueue>,
    awaits: Arc<Mutex<Option<Arc<Both>>>>,
    within: Arc<Within>,
}

struct AcquireWorld {
    seats: [HeldSeat; 2],
    acquisitions: AcquireOrder,
    met: Mutex<Vec<u8>>,
}

struct AcquireOne(Arc<Both>, Arc<Mutex<Option<Arc<Both>>>>);

impl Run for AcquireOne {
    fn run(self) {
        *self.1.lock().unwrap() = Some(self.0);
        hold();
    }
}

struct TouchCell(Arc<Within>);

impl Run for TouchCell {
    fn run(self) {
        self.0.touch();
    }
}

impl AcquireWorld {
    fn new() -> Arc<Self> {
        let seat = || HeldSeat { color: color(), awaits: Arc::default(), within: Arc::default() };
        Arc::new(Self {
            seats: [seat(), seat()],
            acquisitions: AcquireOrder::default(),
            met: Mutex::default(),
        })
    }

    /// Returns the tokens of the colors that were empty.
    fn call(&self, number: u8) -> VecDeque<Token> {
        let mut tokens = VecDeque::new();
        self.acquisitions.acquire_all(self.seats.iter(), number, |seat, acquisition| {
            tokens.extend(seat.color.push(Event::once(AcquireOne(acquisition, seat.awaits.clone()))));
        });
        tokens
    }

    /// Runs these colors, and colors that an acquisition releases, until each is empty or stands
    /// still.
    fn run(&self, mut tokens: VecDeque<Token>) {
        while let Some(token) = tokens.pop_front() {
            match run(token, 1).1 {
                BatchRun::Again(token) => tokens.push_back(token),
                BatchRun::Empty => {}
                BatchRun::Held(held) => {
                    let of_it = |seat: &&HeldSeat| seat.color.id() == held.color().id();
                    let seat = self.seats.iter().find(of_it).expect("one of both");
                    let acquisition = seat.awaits.lock().unwrap().take().expect("held for an acquisition");
                    if let Some((colors, number)) = acquisition.acquired(held) {
                        colors.run(|| {
                            self.seats.iter().for_each(|seat| seat.within.touch());
                            self.met.lock().unwrap().push(number);
                        });
                        colors.release(|token| tokens.push_back(token));
                    }
                }
            }
        }
    }

    fn assert_met(&self, acquisitions: usize) {
        assert_eq!(self.met.lock().unwrap().len(), acquisitions, "each takes place once");
        assert!(self.seats.iter().all(|seat| seat.color.is_empty()));
    }
}

/// Each color arrives on a separate thread, and has an event behind the acquisition.
#[test]
fn last_acquired_color_runs_all_colors() {
    loom::model(|| {
        let world = AcquireWorld::new();
        let mut tokens = world.call(0);
        for seat in &world.seats {
            assert!(seat.color.push(Event::once(TouchCell(seat.within.clone()))).is_none());
        }
        let (other, second) = (world.clone(), tokens.split_off(1));
        let thread = thread::spawn(move || other.run(second));
        world.run(tokens);
        thread.join().unwrap();
        world.assert_met(1);
    });
}

/// Both acquisitions name the colors in the same order. That is not enough, because the events of
/// one acquisition could come between the events of the other.
#[test]
fn acquisitions_have_one_order() {
    loom::model(|| {
        let world = AcquireWorld::new();
        let other = world.clone();
        let thread = thread::spawn(move || other.call(0));
        let mut tokens = world.call(1);
        tokens.extend(thread.join().unwrap());
        world.run(tokens);
        world.assert_met(2);
    });
}
