//! What happens in a world, told to whoever watches: checkers, recorders, the trace hash.
//!
//! Watchers stand outside: they see notes and cannot change anything. Owns the notes. A world whose watcher is `()` pays
//! nothing for them.

use vermeil_sched::CoreIndex;

/// One thing that happened. Times are nanoseconds of virtual time, events are numbered from 1 in the order of their
/// posting, colors by numbers that are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// An event was posted.
    Posted {
        /// When.
        at_ns: u64,
        /// Its number.
        event: u64,
        /// Its color.
        color: u64,
        /// Its handler, by position.
        handler: u16,
    },
    /// A core began to run an event.
    Started {
        /// When.
        at_ns: u64,
        /// Where.
        core: CoreIndex,
        /// Its number.
        event: u64,
        /// Its color.
        color: u64,
        /// Its handler, by position.
        handler: u16,
    },
    /// The event has run.
    Finished {
        /// When.
        at_ns: u64,
        /// Where.
        core: CoreIndex,
        /// Its number.
        event: u64,
        /// Its color.
        color: u64,
    },
    /// A core took a color from another.
    Stole {
        /// When the thief began to look.
        at_ns: u64,
        /// When it had the color.
        until_ns: u64,
        /// Who took.
        thief: CoreIndex,
        /// From whom.
        victim: CoreIndex,
        /// What.
        color: u64,
    },
    /// A placement moved a color.
    Moved {
        /// When.
        at_ns: u64,
        /// From here.
        from: CoreIndex,
        /// To there.
        to: CoreIndex,
        /// What.
        color: u64,
    },
    /// A core went to sleep.
    Parked {
        /// When.
        at_ns: u64,
        /// Which.
        core: CoreIndex,
    },
    /// A sleeping core runs again.
    Unparked {
        /// When.
        at_ns: u64,
        /// Which.
        core: CoreIndex,
    },
}

/// Somebody who is told.
pub trait Watch {
    /// Something happened.
    fn note(&mut self, note: Note);
}

impl Watch for () {
    fn note(&mut self, _: Note) {}
}

impl<A: Watch, B: Watch> Watch for (A, B) {
    fn note(&mut self, note: Note) {
        self.0.note(note);
        self.1.note(note);
    }
}

impl<W: Watch> Watch for Option<W> {
    fn note(&mut self, note: Note) {
        if let Some(watch) = self {
            watch.note(note);
        }
    }
}
