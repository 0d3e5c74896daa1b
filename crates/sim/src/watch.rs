//! Notes about a world's steps, for watchers: checkers, recorders, the trace hash.
//!
//! A watcher sees notes and cannot change anything. A world whose watcher is `()` pays nothing for
//! notes. Owns the notes.

use vermeil_sched::CoreIndex;

/// A step of a world. Times are nanoseconds of virtual time. Events are numbered from 1 in the
/// order of posting. The number of a color is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// An event was posted.
    Posted {
        /// Time of the post.
        at_ns: u64,
        /// Number of the event.
        event: u64,
        /// Number of the event's color.
        color: u64,
        /// Position of the event's handler.
        handler: u16,
        /// The color's core.
        core: CoreIndex,
    },
    /// A core began to run an event.
    Started {
        /// Time of the start.
        at_ns: u64,
        /// The core.
        core: CoreIndex,
        /// Number of the event.
        event: u64,
        /// Number of the event's color.
        color: u64,
        /// Position of the event's handler.
        handler: u16,
    },
    /// An event has run.
    Finished {
        /// Time of the end.
        at_ns: u64,
        /// The core.
        core: CoreIndex,
        /// Number of the event.
        event: u64,
        /// Number of the event's color.
        color: u64,
    },
    /// A core took a color from another core.
    Stole {
        /// Time at which the thief began to visit the victim.
        at_ns: u64,
        /// Time at which the thief had the color.
        until_ns: u64,
        /// The core that took the color.
        thief: CoreIndex,
        /// The core that lost the color.
        victim: CoreIndex,
        /// Number of the color.
        color: u64,
    },
    /// A placement moved a color.
    Moved {
        /// Time of the move.
        at_ns: u64,
        /// The core before.
        from: CoreIndex,
        /// The core after.
        to: CoreIndex,
        /// Number of the color.
        color: u64,
    },
    /// A core went to sleep.
    Parked {
        /// Time at which the core began to park.
        at_ns: u64,
        /// The core.
        core: CoreIndex,
    },
    /// A sleeping core runs again.
    Unparked {
        /// Time at which the core is awake.
        at_ns: u64,
        /// The core.
        core: CoreIndex,
    },
}

/// A receiver of notes.
pub trait Watch {
    /// Takes a note.
    fn note(&mut self, note: Note);

    /// The run has ended. Events may run and cores may sleep at this time.
    fn ended(&mut self, _at_ns: u64) {}

    /// Whether the watcher has seen enough, so that the run may end. Asked before each moment.
    fn has_enough(&mut self) -> bool {
        false
    }
}

impl Watch for () {
    fn note(&mut self, _: Note) {}
}

impl<A: Watch, B: Watch> Watch for (A, B) {
    fn note(&mut self, note: Note) {
        self.0.note(note);
        self.1.note(note);
    }

    fn ended(&mut self, at_ns: u64) {
        self.0.ended(at_ns);
        self.1.ended(at_ns);
    }

    fn has_enough(&mut self) -> bool {
        self.0.has_enough() && self.1.has_enough()
    }
}

impl<W: Watch> Watch for Option<W> {
    fn note(&mut self, note: Note) {
        if let Some(watch) = self {
            watch.note(note);
        }
    }

    fn ended(&mut self, at_ns: u64) {
        if let Some(watch) = self {
            watch.ended(at_ns);
        }
    }

    fn has_enough(&mut self) -> bool {
        self.as_mut().is_some_and(W::has_enough)
    }
}
