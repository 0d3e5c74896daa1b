//! Errors at the runtime's edges, by the party at fault.

use std::{
    any::Any,
    fmt, io,
    path::PathBuf,
    sync::{Arc, Mutex},
};
use thiserror::Error;
use vermeil_io::IoError;

/// The runtime could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// No cpu was given to run on.
    #[error("no cpu to run on: give at least one")]
    NoCores,
    /// `build` was called on a core of a runtime, and would block that core.
    #[error("a runtime cannot be built on a core of another one: build it on a thread that is no core")]
    OnCore,
    /// A cpu was given more than once.
    #[error(
        "cpu {cpu} is given more than once: give each cpu once, because two cores on one cpu wait for each other"
    )]
    CpuTwice {
        /// The cpu.
        cpu: usize,
    },
    /// The layout describes a different number of cores.
    #[error("the layout describes {described} cores, the runtime has {cores}: describe each cpu given")]
    Layout {
        /// Cores of the runtime.
        cores: usize,
        /// Cores of the layout.
        described: usize,
    },
    /// The file of a plan was rejected.
    #[error(
        "cannot use the plan {path}: {reason}; a plan is round-robin, cache-aware, intermediate-1, intermediate-2, or a \
         file of handlers and their cores"
    )]
    Plan {
        /// The file.
        path: PathBuf,
        /// The error in the file.
        reason: String,
    },
    /// The bounds of a trial of plans were rejected.
    #[error("cannot try plans: {reason}")]
    Trial {
        /// The rejected bound and its limits.
        reason: String,
    },
    /// The system refused a thread.
    #[error(
        "cannot start the thread of core {core} (cpu {cpu}): {source}; is the limit of processes or memory reached?"
    )]
    Thread {
        /// Index of the core.
        core: u32,
        /// Cpu for the core.
        cpu: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused to pin a thread.
    #[error("cannot pin core {core} to cpu {cpu}: {source}; is the cpu online and in this process's cpuset?")]
    Pin {
        /// Index of the core.
        core: u32,
        /// Cpu for the core.
        cpu: usize,
        /// The system's error.
        source: io::Error,
    },
    /// A core's thread panicked before it ran; the panic hook has printed the message.
    #[error("a core panicked while it started: a bug, see the message before this one")]
    Panicked,
    /// The I/O driver of a core could not be opened.
    #[error("cannot open the I/O driver of core {core}: {source}")]
    Driver {
        /// Index of the core.
        core: u32,
        /// The driver's error.
        source: IoError,
    },
}

/// A handler, or a kind of tasks, was not registered.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum RegisterError {
    /// The runtime already has the maximum number.
    #[error(
        "a runtime has at most {bound} handlers and kinds of tasks: raise `Limits::handlers`, or register each once and post to it"
    )]
    TooMany {
        /// The bound: [`crate::Limits::handlers`].
        bound: usize,
    },
    /// The spec names a class that the runtime does not have.
    #[error("no class is called {name:?}: `Builder::classes` makes them")]
    NoClass {
        /// The name in the spec.
        name: String,
    },
    /// The spec's group is a concurrent color.
    #[error("a concurrent color excludes nothing: `Exclusion::None` says that")]
    FreeGroup,
}

/// The event was not posted and is returned: a queue is at its bound, or the runtime has ended. The
/// queue is a core's, or a [bounded](crate::Color::bounded) color's. Post to a full queue again
/// later, [wait](crate::Handler::post_when_room), or shed the event.
#[derive(PartialEq, Eq)]
pub struct Full<E> {
    /// The event that was not posted.
    pub event: E,
    /// The bound: [`crate::Limits::events_per_core`], or the color's.
    pub bound: usize,
    /// Which queue rejected the event.
    pub of: FullOf,
}

/// Which queue rejected the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullOf {
    /// The queue of the color's core.
    Core,
    /// The color's own queue.
    Color,
    /// No queue: the runtime has ended and takes no more events.
    Ended,
}

impl<E> fmt::Display for Full<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.of {
            FullOf::Core => "core's",
            FullOf::Color => "color's",
            FullOf::Ended => return f.write_str(NOT_POSTED),
        };
        write!(f, "the {of} event queue is full ({} events): post again later", self.bound)
    }
}

impl<E> std::error::Error for Full<E> {}

/// The message about an event that is posted after the end.
const NOT_POSTED: &str = "the event was not posted: its runtime has ended";

impl<E> fmt::Debug for Full<E> {
    /// Works for any event type, so that `expect` compiles with every event.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Full").field("bound", &self.bound).field("of", &self.of).finish_non_exhaustive()
    }
}

/// The runtime has ended and takes no more events; the event is returned.
#[derive(Error, PartialEq, Eq)]
#[error("{NOT_POSTED}")]
pub struct Ended<E> {
    /// The event that was not posted.
    pub event: E,
}

impl<E> fmt::Debug for Ended<E> {
    /// As for [`Full`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended").finish_non_exhaustive()
    }
}

/// The wait is in vain, because the runtime has ended.
#[derive(Debug)]
pub(crate) struct Stops;

/// The blocking pool takes no job: its queue is at its bound, [`crate::Limits::blocking_queue`],
/// the system has no thread, or the runtime has stopped.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[error(
    "the blocking pool takes nothing now: its queue is full ({bound} jobs), there are no threads, or its runtime has stopped"
)]
pub struct BlockingFull {
    /// The bound.
    pub bound: usize,
}

/// A socket or timer was made or used on a thread that is not a core of a runtime.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[error(
    "a socket or timer can only be made and used on a core of a runtime: in a task (`Handle::spawn`) or a handler"
)]
pub struct OffCore;

impl From<OffCore> for io::Error {
    fn from(error: OffCore) -> Self {
        io::Error::other(error)
    }
}

/// Why a task has no result.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum TaskError {
    /// The task was cancelled, or the runtime stopped before the task ended.
    #[error("the task was cancelled")]
    Cancelled,
    /// The task panicked; the panic hook has printed the message and its location.
    #[error("the task panicked: {0}")]
    Panicked(Panic),
}

impl TaskError {
    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }
}

/// The panic of a task. Cheap to clone; two values are equal if their messages are equal.
#[derive(Clone)]
pub struct Panic(Arc<Thrown>);

struct Thrown {
    message: Option<String>,
    payload: Mutex<Option<PanicPayload>>,
}

/// As in [`std::panic::catch_unwind`].
type PanicPayload = Box<dyn Any + Send>;

impl Panic {
    pub(crate) fn new(payload: PanicPayload) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Self(Arc::new(Thrown { message, payload: Mutex::new(Some(payload)) }))
    }

    /// The message, unless the payload is not text.
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// The payload, on the first call only: for [`std::panic::resume_unwind`], or for a downcast.
    pub fn take_payload(&self) -> Option<Box<dyn Any + Send>> {
        self.0.payload.lock().expect("nothing panics under this lock").take()
    }
}

impl PartialEq for Panic {
    fn eq(&self, other: &Self) -> bool {
        self.0.message == other.0.message
    }
}

impl Eq for Panic {}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.to_string()).finish()
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message().unwrap_or("with a payload that is no text"))
    }
}
