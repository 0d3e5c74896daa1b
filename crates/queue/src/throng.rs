//! Scenarios too large for every interleaving: cores that run, steal, park and hand over while others post and meet.
//!
//! The production files under shuttle, which draws schedules at random and by priorities that change a few times (that finds
//! what needs few unlucky moments); a schedule that fails is printed and replayed. It knows no weak memory: what orders
//! writes is loom's to check, in `model/`. Checked: an event of a color runs alone, once and in its producer's order, and no
//! wake-up is lost, which would be a deadlock. Run by `cargo xtask test`, alone by
//! `RUSTFLAGS="--cfg shuttle" cargo test -p vermeil-queue --release --lib`.

use crate::{
    Activation, ColorId, ColorQueue, Event, Held, Parking, ReadyQueue, Run, Token, bell::Bell, current_color,
    hold, run_together,
};
use shuttle::{
    rand::{Rng, thread_rng},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    thread,
};
use std::{
    collections::{HashMap, VecDeque},
    ops::ControlFlow,
    sync::Arc,
};

/// Schedules of each scenario and kind: together some seconds.
const SCHEDULES: usize = 1_500;

/// Changes of priority in a schedule of that kind: more than the two that most such bugs need.
const CHANGES: usize = 4;

const NOWHERE: u32 = u32::MAX;

/// The core that a placement wants a color on.
type Wanted = AtomicU32;

type Color = Arc<ColorQueue<Wanted>>;

fn drawn(scenario: fn()) {
    shuttle::check_random(scenario, SCHEDULES);
    shuttle::check_pct(scenario, SCHEDULES, CHANGES);
}

struct Core {
    ready: ReadyQueue<VecDeque<Token<Wanted>>>,
    parking: Parking,
    bell: Bell,
}

/// What a color's events do to its state: who came, in order, and whether two were inside at once.
#[derive(Default)]
struct Book {
    inside: AtomicBool,
    seen: Mutex<Vec<(u8, u8)>>,
}

impl Book {
    fn write(&self, producer: u8, number: u8) {
        assert!(!self.inside.swap(true, Ordering::SeqCst), "two events of a color at once");
        thread::yield_now();
        self.seen.lock().unwrap().push((producer, number));
        assert!(self.inside.swap(false, Ordering::SeqCst));
    }
}

/// Several colors at once, as the runtime's `when` has them.
struct Meeting {
    awaited: usize,
    arrived: Mutex<Vec<Held<Wanted>>>,
    producer: u8,
    number: u8,
}

struct Machine {
    cores: Vec<Core>,
    colors: Vec<Color>,
    books: HashMap<ColorId, Book>,
    /// Held while the events of one meeting are queued on all its colors.
    meetings: Mutex<()>,
    /// What a color that stands still stands still for.
    awaited: Mutex<HashMap<ColorId, Arc<Meeting>>>,
    /// Events that have not run.
    left: AtomicUsize,
}

struct Note {
    machine: Arc<Machine>,
    producer: u8,
    number: u8,
    /// Goes on to the color after this one.
    relays: bool,
}

impl Run for Note {
    fn run(self) {
        let Self { machine, producer, number, relays } = self;
        let color = current_color().expect("runs on a color");
        machine.books[&color].write(producer, number);
        if relays {
            let at = machine.colors.iter().position(|known| known.id() == color).expect("one of them");
            machine.post((at + 1) % machine.colors.len(), producer, number, false);
        }
    }
}

struct Arrive(Arc<Machine>, Arc<Meeting>);

impl Run for Arrive {
    fn run(self) {
        self.0.awaited.lock().unwrap().insert(current_color().expect("runs on a color"), self.1);
        hold();
    }
}

impl Machine {
    fn new(cores: usize, colors: usize, events: usize) -> Arc<Self> {
        let core = |_| Core {
            ready: ReadyQueue::new(VecDeque::new(), VecDeque::len),
            parking: Parking::default(),
            bell: Bell::default(),
        };
        let colors: Vec<_> =
            (0..colors).map(|at| ColorQueue::new((at % cores) as u32, Wanted::new(NOWHERE))).collect();
        Arc::new(Self {
            cores: (0..cores).map(core).collect(),
            books: colors.iter().map(|color| (color.id(), Book::default())).collect(),
            colors,
            meetings: Mutex::new(()),
            awaited: Mutex::default(),
            left: AtomicUsize::new(events),
        })
    }

    fn post(self: &Arc<Self>, color: usize, producer: u8, number: u8, relays: bool) {
        let note = Note { machine: self.clone(), producer, number, relays };
        self.schedule(self.colors[color].push(Event::once(note)));
    }

    /// As the runtime does: to where a placement wants the color, else to the core that it names.
    fn schedule(&self, token: Option<Token<Wanted>>) {
        let Some(token) = token else { return };
        let wanted = token.color().about.swap(NOWHERE, Ordering::Relaxed);
        if wanted != NOWHERE {
            token.move_to(wanted);
        }
        let core = &self.cores[token.color().core() as usize];
        core.ready.with(|tokens| tokens.push_back(token));
        if core.parking.must_wake(|| 0) {
            core.bell.ring();
        }
    }

    /// A placement wants a color elsewhere: at once if it waits in a queue.
    fn relocate(&self, color: usize, to: usize) {
        let color = &self.colors[color];
        color.about.store(to as u32, Ordering::Relaxed);
        let waiting = self.cores[color.core() as usize].ready.with(|tokens| {
            let at = tokens.iter().position(|token| token.color().id() == color.id())?;
            tokens.remove(at)
        });
        self.schedule(waiting);
    }

    fn meet(self: &Arc<Self>, colors: &[usize], producer: u8, number: u8) {
        let (awaited, arrived) = (colors.len(), Mutex::default());
        let meeting = Arc::new(Meeting { awaited, arrived, producer, number });
        let _order = self.meetings.lock().unwrap();
        for color in colors {
            let arrive = Arrive(self.clone(), meeting.clone());
            self.schedule(self.colors[*color].push(Event::once(arrive)));
        }
    }

    /// A color stands still; whoever brings the last one of a meeting runs it.
    fn arrived(&self, held: Held<Wanted>) {
        let meeting = self.awaited.lock().unwrap().remove(&held.color().id()).expect("held for a meeting");
        let all = {
            let mut arrived = meeting.arrived.lock().unwrap();
            arrived.push(held);
            if arrived.len() < meeting.awaited {
                return;
            }
            std::mem::take(&mut *arrived)
        };
        let names: Vec<_> = all.iter().map(|held| held.color().id()).collect();
        let panicked = run_together(&all, || {
            for name in &names {
                self.books[name].write(meeting.producer, meeting.number);
            }
        });
        assert!(!panicked);
        for held in all {
            self.go_on(held.release());
        }
    }

    fn go_on(&self, next: Activation<Wanted>) {
        match next {
            Activation::Again(token) => self.schedule(Some(token)),
            Activation::Held(held) => self.arrived(held),
            Activation::Empty => {}
        }
    }

    fn steal(&self, thief: usize) -> bool {
        let victim = &self.cores[(thief + 1) % self.cores.len()];
        let Some(Some(token)) = victim.ready.try_with(VecDeque::pop_front) else { return false };
        token.move_to(thief as u32);
        self.cores[thief].ready.with(|tokens| tokens.push_back(token));
        true
    }

    /// A core's loop until everything has run.
    fn run(&self, at: usize) {
        let core = &self.cores[at];
        while self.left.load(Ordering::SeqCst) > 0 {
            if let Some(token) = core.ready.with(VecDeque::pop_front) {
                let batch = thread_rng().gen_range(1..4);
                let (ran, next) = token.run(batch, |_, _| ControlFlow::Continue(()));
                self.go_on(next);
                if self.left.fetch_sub(ran.events, Ordering::SeqCst) == ran.events {
                    self.cores.iter().for_each(|core| core.bell.ring());
                }
            } else if !self.steal(at) {
                let sleep = core.parking.announce();
                if core.ready.is_empty() && self.left.load(Ordering::SeqCst) > 0 {
                    core.bell.wait();
                }
                core.parking.awake(sleep);
            }
        }
    }

    /// Runs the cores beside `others`, then looks into the books: each producer's numbers ascend on each color.
    fn play(self: &Arc<Self>, others: Vec<Box<dyn FnOnce(Arc<Self>) + Send>>, notes: usize) {
        let cores = (0..self.cores.len()).map(|at| {
            let machine = self.clone();
            thread::spawn(move || machine.run(at))
        });
        let cores: Vec<_> = cores.collect();
        let others = others.into_iter().map(|other| {
            let machine = self.clone();
            thread::spawn(move || other(machine))
        });
        let threads: Vec<_> = others.collect::<Vec<_>>().into_iter().chain(cores).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut written = 0;
        for (name, book) in &self.books {
            let seen = book.seen.lock().unwrap();
            written += seen.len();
            for producer in 0..u8::MAX {
                let mine: Vec<_> = seen.iter().filter(|(by, _)| *by == producer).collect();
                assert!(mine.windows(2).all(|pair| pair[0].1 < pair[1].1), "{name:?}: {seen:?}");
            }
        }
        assert_eq!(written, notes);
        assert!(self.colors.iter().all(|color| color.is_empty()));
    }
}

/// Three cores that steal from each other, three producers, and a controller that changes its mind.
#[test]
fn posts_steals_moves_and_sleep() {
    drawn(|| {
        let machine = Machine::new(3, 4, 3 * 8);
        let mut others: Vec<Box<dyn FnOnce(Arc<Machine>) + Send>> = Vec::new();
        for producer in 0..3 {
            others.push(Box::new(move |machine| {
                for number in 0..8 {
                    machine.post(usize::from(producer + number) % 4, producer, number, false);
                }
            }));
        }
        others.push(Box::new(|machine| {
            for step in 0..6 {
                machine.relocate(step % 4, (step + 1) % 3);
            }
        }));
        machine.play(others, 3 * 8);
    });
}

/// Events that post to other colors, so that cores are producers too.
#[test]
fn events_that_post_events() {
    drawn(|| {
        let machine = Machine::new(3, 3, 2 * 2 * 5);
        let producer = |producer: u8| -> Box<dyn FnOnce(Arc<Machine>) + Send> {
            Box::new(move |machine| {
                for number in 0..5 {
                    machine.post(usize::from(producer), producer, number, true);
                }
            })
        };
        machine.play(vec![producer(0), producer(1)], 2 * 2 * 5);
    });
}

/// Meetings of two and three colors among ordinary events, in every order of colors: none waits for ever.
#[test]
fn meetings_among_events() {
    drawn(|| {
        // Each meeting is an event of each of its colors.
        let machine = Machine::new(2, 3, 4 + 2 * (2 + 2 + 3));
        let mut others: Vec<Box<dyn FnOnce(Arc<Machine>) + Send>> = vec![Box::new(|machine| {
            for number in 0..4 {
                machine.post(usize::from(number) % 3, 9, number, false);
            }
        })];
        for producer in 0..2 {
            others.push(Box::new(move |machine| {
                machine.meet(if producer == 0 { &[0, 1] } else { &[1, 0] }, producer, 0);
                machine.meet(if producer == 0 { &[1, 2] } else { &[2, 0] }, producer, 1);
                machine.meet(&[2, 1, 0], producer, 2);
            }));
        }
        machine.play(others, 4 + 2 * (2 + 2 + 3));
    });
}
