//! Meetings: the last arrival has all colors exclusively, and no two meetings wait for each other.

use super::{Within, color, run};
use crate::{Activation, ColorQueue, Event, Meeting, Meetings, Run, Token, hold};
use loom::thread;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

/// The purpose is a number that identifies the meeting.
type Both = Meeting<(), u8>;

/// A color and the meeting for which the color stands still. std's lock, because only the thread
/// that runs the color takes the lock.
struct Seat {
    color: Arc<ColorQueue>,
    awaits: Arc<Mutex<Option<Arc<Both>>>>,
    within: Arc<Within>,
}

struct World {
    seats: [Seat; 2],
    meetings: Meetings,
    met: Mutex<Vec<u8>>,
}

struct Arrive(Arc<Both>, Arc<Mutex<Option<Arc<Both>>>>);

impl Run for Arrive {
    fn run(self) {
        *self.1.lock().unwrap() = Some(self.0);
        hold();
    }
}

struct Touch(Arc<Within>);

impl Run for Touch {
    fn run(self) {
        self.0.touch();
    }
}

impl World {
    fn new() -> Arc<Self> {
        let seat = || Seat { color: color(), awaits: Arc::default(), within: Arc::default() };
        Arc::new(Self { seats: [seat(), seat()], meetings: Meetings::default(), met: Mutex::default() })
    }

    /// Returns the tokens of the colors that were empty.
    fn call(&self, number: u8) -> VecDeque<Token> {
        let mut tokens = VecDeque::new();
        self.meetings.call(self.seats.iter(), number, |seat, meeting| {
            tokens.extend(seat.color.push(Event::once(Arrive(meeting, seat.awaits.clone()))));
        });
        tokens
    }

    /// Runs these colors, and colors that a meeting releases, until each is empty or stands still.
    fn run(&self, mut tokens: VecDeque<Token>) {
        while let Some(token) = tokens.pop_front() {
            match run(token, 1).1 {
                Activation::Again(token) => tokens.push_back(token),
                Activation::Empty => {}
                Activation::Held(held) => {
                    let of_it = |seat: &&Seat| seat.color.id() == held.color().id();
                    let seat = self.seats.iter().find(of_it).expect("one of both");
                    let meeting = seat.awaits.lock().unwrap().take().expect("held for a meeting");
                    if let Some((colors, number)) = meeting.arrive(held) {
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

    fn assert_met(&self, meetings: usize) {
        assert_eq!(self.met.lock().unwrap().len(), meetings, "each takes place once");
        assert!(self.seats.iter().all(|seat| seat.color.is_empty()));
    }
}

/// Each color arrives on a separate thread, and has an event behind the meeting.
#[test]
fn who_comes_last_has_all_colors_alone() {
    loom::model(|| {
        let world = World::new();
        let mut tokens = world.call(0);
        for seat in &world.seats {
            assert!(seat.color.push(Event::once(Touch(seat.within.clone()))).is_none());
        }
        let (other, second) = (world.clone(), tokens.split_off(1));
        let thread = thread::spawn(move || other.run(second));
        world.run(tokens);
        thread.join().unwrap();
        world.assert_met(1);
    });
}

/// Both meetings name the colors in the same order. That is not enough, because the events of one
/// meeting could come between the events of the other.
#[test]
fn meetings_have_one_order() {
    loom::model(|| {
        let world = World::new();
        let other = world.clone();
        let thread = thread::spawn(move || other.call(0));
        let mut tokens = world.call(1);
        tokens.extend(thread.join().unwrap());
        world.run(tokens);
        world.assert_met(2);
    });
}
