//! What can go wrong at the runtime's edges, by whose fault it is.

use std::{fmt, io, path::PathBuf};
use thiserror::Error;
use vermeil_io::IoError;

/// The runtime could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// No cpu was given to run on.
    #[error("no cpu to run on: give at least one")]
    NoCores,
    /// The layout is one of another number of cores.
    #[error("the layout describes {described} cores, the runtime has {cores}: describe each cpu given")]
    Layout {
        /// Cores of the runtime.
        cores: usize,
        /// Cores of the layout.
        described: usize,
    },
    /// The file of a plan was refused.
    #[error(
        "cannot use the plan {path}: {reason}; a plan is round-robin, cache-aware, intermediate-1, intermediate-2, or a \
         file of handlers and their cores"
    )]
    Plan {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The bounds of a trial of plans were refused.
    #[error("cannot try plans: {reason}")]
    Trial {
        /// Which one, and what it may be.
        reason: String,
    },
    /// The system refused a thread.
    #[error(
        "cannot start the thread of core {core} (cpu {cpu}): {source}; is the limit of processes or memory reached?"
    )]
    Thread {
        /// Index of the core.
        core: u32,
        /// Cpu it was to be pinned to.
        cpu: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused to pin a thread.
    #[error("cannot pin core {core} to cpu {cpu}: {source}; is the cpu online and in this process's cpuset?")]
    Pin {
        /// Index of the core.
        core: u32,
        /// Cpu it was to be pinned to.
        cpu: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A core's thread panicked before it ran; the message went through the panic hook.
    #[error("a core panicked while it started: a bug, see the message before this one")]
    Panicked,
    /// The I/O driver of a core could not be made.
    #[error("cannot open the I/O driver of core {core}: {source}")]
    Driver {
        /// Index of the core.
        core: u32,
        /// What the driver said.
        source: IoError,
    },
}

/// The queue of posted events of a core, or of a color that is [bounded](crate::Color::bounded), is at its bound; the event comes back.
/// Post again later, [wait](crate::Handler::post_when_room), or shed it.
#[derive(Error, PartialEq, Eq)]
#[error("the {of} event queue is full ({bound} events): post again later")]
pub struct Full<E> {
    /// The event that was not posted.
    pub event: E,
    /// The bound: [`crate::Limits::events_per_core`], or the color's.
    pub bound: usize,
    /// Whose it is.
    pub of: FullOf,
}

/// Whose queue of events is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullOf {
    /// That of the core that the color is on.
    Core,
    /// The color's own.
    Color,
}

impl fmt::Display for FullOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Core => "core's",
            Self::Color => "color's",
        })
    }
}

impl<E> fmt::Debug for Full<E> {
    /// Whatever the event is, so that `expect` works with any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Full").field("bound", &self.bound).field("of", &self.of).finish_non_exhaustive()
    }
}

/// The runtime has ended, and takes no event any more; it comes back.
#[derive(Error, PartialEq, Eq)]
#[error("the event was not posted: its runtime has ended")]
pub struct Ended<E> {
    /// The event that was not posted.
    pub event: E,
}

impl<E> fmt::Debug for Ended<E> {
    /// As of [`Full`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended").finish_non_exhaustive()
    }
}

/// What was waited for does not come: the runtime has ended.
#[derive(Debug)]
pub(crate) struct Stops;

/// The blocking pool takes nothing: its queue is at its bound, [`crate::Limits::blocking_queue`], the system has no thread for it, or its
/// runtime has stopped.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[error(
    "the blocking pool takes nothing now: its queue is full ({bound} jobs), there are no threads, or its runtime has stopped"
)]
pub struct BlockingFull {
    /// The bound.
    pub bound: usize,
}

/// Something that belongs to a core's driver was used elsewhere.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[error(
    "a socket or timer can only be made and used on a core of the runtime, and a socket on the core that made it"
)]
pub struct OffCore;

impl From<OffCore> for io::Error {
    fn from(error: OffCore) -> Self {
        io::Error::other(error)
    }
}

/// Why a task has no result.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[non_exhaustive]
pub enum TaskError {
    /// It was cancelled, or the runtime stopped before it ended.
    #[error("the task was cancelled")]
    Cancelled,
    /// It panicked; the message went through the panic hook.
    #[error("the task panicked")]
    Panicked,
}
