//! Scenarios too large for every interleaving: cores run, steal, park and migrate colors while
//! other threads post and acquire.
//!
//! The production files run under shuttle, which draws schedules at random and by priorities that
//! change a few times. Such schedules find bugs that need a few unlucky moments. A failing schedule
//! is printed and replayed. Shuttle does not model weak memory, so loom checks the orderings, in
//! `model/`. Checked here: each event of a color runs alone, once and in its producer's order. No
//! wake-up is lost, because a lost wake-up would be a deadlock. `cargo xtask test` runs the
//! scenarios; `RUSTFLAGS="--cfg shuttle" cargo test -p vermeil-queue --release --lib` runs only
//! these.

use crate::{
    AcquireOrder, BatchRun, ColorHead, ColorId, ColorQueue, Cores, Event, HeldColor, MultiAcquire, Parking,
    PushOutcome, ReadyQueue, Run, StealBatch, StealBatchFill, Token, current_color,
    fake_eventfd::FakeEventfd, fake_queue::FakeQueue, hold,
};
use shuttle::{
    rand::{Rng, thread_rng},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};
use std::{collections::HashMap, ops::ControlFlow, sync::Arc};

/// Schedules of each scenario and kind; together some seconds.
const SCHEDULES: usize = 1_500;

/// Priority changes in a schedule of that kind: more than the two changes that most such bugs need.
const CHANGES: usize = 4;

fn drawn(scenario: fn()) {
    shuttle::check_random(scenario, SCHEDULES);
    shuttle::check_pct(scenario, SCHEDULES, CHANGES);
}

struct ShuttleCore {
    ready: ReadyQueue<FakeQueue>,
    parking: Parking,
    bell: FakeEventfd,
}

/// A color's state: the events that ran, in order, and whether two events were inside at once.
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

/// The caller of an acquisition, and the acquisition's number.
type CallerId = (u8, u8);

struct ShuttleMachine {
    cores: Vec<ShuttleCore>,
    colors: Vec<Arc<ColorQueue>>,
    books: HashMap<ColorId, Book>,
    /// No event runs without an entry.
    of_entries: bool,
    acquisitions: AcquireOrder,
    /// The acquisition for which a held color stands still.
    awaited: Mutex<HashMap<ColorId, Arc<MultiAcquire<(), CallerId>>>>,
    /// Events that have not run.
    left: AtomicUsize,
}

impl Cores for ShuttleMachine {
    type Meta = ();
    type Ready = FakeQueue;

    fn ready(&self, core: u32) -> &ReadyQueue<FakeQueue> {
        &self.cores[core as usize].ready
    }

    fn have_ended(&self) -> bool {
        false
    }

    fn put(&self, line: &mut FakeQueue, token: Token, entries: usize) {
        line.push(token, entries);
    }

    fn remove(&self, line: &mut FakeQueue, color: &ColorHead) -> Option<(Token, usize)> {
        line.remove(color)
    }

    fn put_entry(&self, line: &mut FakeQueue, color: &ColorHead) {
        line.push_entries(color, 1);
    }
}

struct ShuttleNote {
    machine: Arc<ShuttleMachine>,
    producer: u8,
    number: u8,
    /// Posts on to the next color.
    relays: bool,
}

impl Run for ShuttleNote {
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

struct Arrive(Arc<ShuttleMachine>, Arc<MultiAcquire<(), CallerId>>);

impl Run for Arrive {
    fn run(self) {
        self.0.awaited.lock().unwrap().insert(current_color().expect("runs on a color"), self.1);
        hold();
    }
}

impl ShuttleMachine {
    fn new(cores: usize, colors: usize, events: usize) -> Arc<Self> {
        Self::of((0..cores).map(|_| FakeQueue::default()), colors, events, false)
    }

    fn of_entries(cores: usize, colors: usize, events: usize) -> Arc<Self> {
        Self::of((0..cores).map(|_| FakeQueue::of_entries()), colors, events, true)
    }

    fn of(
        lines: impl Iterator<Item = FakeQueue>,
        colors: usize,
        events: usize,
        of_entries: bool,
    ) -> Arc<Self> {
        let core = |line| ShuttleCore {
            ready: ReadyQueue::new(line, FakeQueue::len),
            parking: Parking::default(),
            bell: FakeEventfd::default(),
        };
        let cores: Vec<_> = lines.map(core).collect();
        let colors: Vec<_> = (0..colors).map(|at| ColorQueue::new((at % cores.len()) as u32, ())).collect();
        Arc::new(Self {
            cores,
            books: colors.iter().map(|color| (color.id(), Book::default())).collect(),
            colors,
            of_entries,
            acquisitions: AcquireOrder::default(),
            awaited: Mutex::default(),
            left: AtomicUsize::new(events),
        })
    }

    fn post(self: &Arc<Self>, color: usize, producer: u8, number: u8, relays: bool) {
        let note = ShuttleNote { machine: self.clone(), producer, number, relays };
        self.push(&self.colors[color], Event::once(note));
    }

    fn push(&self, color: &Arc<ColorQueue>, event: Event) {
        match color.post(event) {
            PushOutcome::First(token) => self.schedule(token, 1),
            PushOutcome::Behind | PushOutcome::Own if self.of_entries => self.ring(self.queue_entry(color)),
            PushOutcome::Behind | PushOutcome::Own => {}
        }
    }

    fn schedule(&self, token: Token, entries: usize) {
        self.ring(self.queue(token, entries));
    }

    fn ring(&self, core: u32) {
        let core = &self.cores[core as usize];
        if core.parking.must_wake(|| 0) {
            core.bell.ring();
        }
    }

    /// A placement requests a migration.
    fn relocate(&self, color: usize, to: u16) {
        if let Some((token, entries)) = self.request_migration(&self.colors[color], to) {
            self.schedule(token, entries);
        }
    }

    fn meet(self: &Arc<Self>, colors: &[usize], producer: u8, number: u8) {
        let colors = colors.iter().map(|color| &self.colors[*color]);
        self.acquisitions.acquire_all(colors, (producer, number), |color, acquisition| {
            self.push(color, Event::once(Arrive(self.clone(), acquisition)));
        });
    }

    /// A held color arrives; the last arrival of an acquisition runs the acquisition.
    fn arrived(&self, held: HeldColor) {
        let acquisition =
            self.awaited.lock().unwrap().remove(&held.color().id()).expect("held for an acquisition");
        let Some((colors, (producer, number))) = acquisition.acquired(held) else { return };
        colors.run(|| {
            for held in colors.held() {
                self.books[&held.color().id()].write(producer, number);
            }
        });
        colors.release(|token| self.schedule(token, 0));
    }

    fn go_on(&self, next: BatchRun) {
        match next {
            BatchRun::Again(token) => self.schedule(token, 0),
            BatchRun::Held(held) => self.arrived(held),
            BatchRun::Empty => {}
        }
    }

    /// Steals one or two colors from the next core. Returns whether there were any.
    fn steal(&self, batch: &mut StealBatch, thief: usize) -> bool {
        let victim = (thief + 1) % self.cores.len();
        let choose = |line: &mut FakeQueue, taking: &mut StealBatchFill<'_>| {
            for _ in 0..thread_rng().gen_range(1..3) {
                line.steal().into_iter().for_each(|(token, entries)| taking.add(token, entries));
            }
        };
        batch.steal(self, victim as u32, choose, |_| ()) > 0
    }

    /// A core's loop until everything has run.
    fn run(&self, at: usize) {
        let core = &self.cores[at];
        let mut batch = StealBatch::new(at as u32, 2);
        while self.left.load(Ordering::SeqCst) > 0 {
            if let Some(token) = core.ready.with(FakeQueue::pop) {
                assert_eq!(token.color().core() as usize, at, "a token waits where its color is");
                let batch = if self.of_entries { 1 } else { thread_rng().gen_range(1..4) };
                let (ran, next) = token.run(batch, |_, _| ControlFlow::Continue(()));
                self.go_on(next);
                if self.left.fetch_sub(ran.events, Ordering::SeqCst) == ran.events {
                    self.cores.iter().for_each(|core| core.bell.ring());
                }
            } else if !self.steal(&mut batch, at) {
                let sleep = core.parking.announce();
                if core.ready.is_empty() && self.left.load(Ordering::SeqCst) > 0 {
                    core.bell.wait();
                }
                core.parking.awake(sleep);
            }
        }
    }

    /// Runs the cores beside `others`, then checks the books: each producer's numbers ascend on
    /// each color.
    fn play(self: &Arc<Self>, others: Vec<Other>, notes: usize) {
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

type Other = Box<dyn FnOnce(Arc<ShuttleMachine>) + Send>;

/// Three producers that post eight events each to four colors.
fn producers() -> Vec<Other> {
    let producer = |producer: u8| -> Other {
        Box::new(move |machine| {
            for number in 0..8 {
                machine.post(usize::from(producer + number) % 4, producer, number, false);
            }
        })
    };
    (0..3).map(producer).collect()
}

/// Three cores that steal from each other, three producers, and a controller that keeps moving
/// colors.
#[test]
fn posts_steals_moves_and_sleep() {
    drawn(|| {
        let mut others = producers();
        others.push(Box::new(|machine| {
            for step in 0..6 {
                machine.relocate(step % 4, (step as u16 + 1) % 3);
            }
        }));
        ShuttleMachine::new(3, 4, 3 * 8).play(others, 3 * 8);
    });
}

/// The same where each event has an entry in a core's queue, and nothing is placed.
#[test]
fn entries_among_steals_and_sleep() {
    drawn(|| ShuttleMachine::of_entries(3, 4, 3 * 8).play(producers(), 3 * 8));
}

/// Events post to other colors, so cores are producers too.
#[test]
fn events_that_post_events() {
    drawn(|| {
        let machine = ShuttleMachine::new(3, 3, 2 * 2 * 5);
        let producer = |producer: u8| -> Other {
            Box::new(move |machine| {
                for number in 0..5 {
                    machine.post(usize::from(producer), producer, number, true);
                }
            })
        };
        machine.play(vec![producer(0), producer(1)], 2 * 2 * 5);
    });
}

/// Acquisitions of two and three colors among ordinary events, in every order of colors: none waits
/// for ever.
#[test]
fn acquisitions_among_events() {
    drawn(|| {
        // Each acquisition is an event of each of its colors.
        let machine = ShuttleMachine::new(2, 3, 4 + 2 * (2 + 2 + 3));
        let mut others: Vec<Other> = vec![Box::new(|machine| {
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
