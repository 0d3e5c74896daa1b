//! Memory of events that run once: once as many have stood in queues as ever stand there, none is allocated (I16).
//!
//! Bonwick's magazines ("Magazines and Vmem", 2001): who runs an event keeps its memory, in chains of [`CHAIN`] pieces of one
//! size; full chains go through a depot to whoever posts more than it runs, with one lock for as many events. Memory stays in
//! the process, and so on its node. What is larger than [`BYTES_MAX`] is the allocator's, as is what a full depot does not take.
//! Leaves out what an event is. Checked in `tests.rs` (sizes, drops, threads that end) and, with the whole runtime, by its test `allocations`.
#![allow(unsafe_code)]

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    cell::Cell,
    ptr::{NonNull, null_mut},
    sync::{Mutex, MutexGuard},
};

/// Sizes are told apart in steps of so many bytes.
const STEP_BYTES: usize = 32;

/// Largest event whose memory is kept, in bytes. Guess: what a handler is usually given is a few words.
const BYTES_MAX: usize = 256;

/// Alignment of all that is kept: what the allocator gives in any case.
const ALIGN: usize = 16;

/// Pieces of one chain. A lock of 20 ns, perhaps waited for, is then less than a nanosecond of each event. A thread keeps two chains
/// of a size at most.
const CHAIN: usize = 64;

/// Full chains of one size that the depot holds: 16,384 events, at most 4 MiB. Guess: more than a thousand cores have in two turns is
/// hardly ever between two of them.
const DEPOT_MAX: usize = 256;

const CLASSES: usize = BYTES_MAX / STEP_BYTES;

/// Memory for a `T`, in which nothing stands yet.
#[inline]
pub(crate) fn get<T>() -> NonNull<T> {
    let memory = match class_of::<T>() {
        Some(class) => reuse(class).unwrap_or_else(|| allocate(layout(class))),
        None => allocate(Layout::new::<T>()),
    };
    memory.cast()
}

/// Gives memory back.
///
/// # Safety
/// `memory` came from [`get`] for the same type, nothing stands there any more, and nobody else has it.
#[inline]
pub(crate) unsafe fn give_back<T>(memory: NonNull<T>) {
    match class_of::<T>() {
        Some(class) => keep(class, memory.cast()),
        // SAFETY: `get` allocated it by this layout.
        None => unsafe { free(memory.cast(), Layout::new::<T>()) },
    }
}

/// The class of sizes that `T` belongs to; none if its memory is not kept. A header alone makes every event larger than nothing.
const fn class_of<T>() -> Option<usize> {
    let layout = Layout::new::<T>();
    let fits = layout.size() > 0 && layout.size() <= BYTES_MAX && layout.align() <= ALIGN;
    if fits { Some((layout.size() - 1) / STEP_BYTES) } else { None }
}

const fn layout(class: usize) -> Layout {
    match Layout::from_size_align((class + 1) * STEP_BYTES, ALIGN) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

/// A piece of memory that nobody uses; its first bytes name the next of its chain.
struct Piece {
    next: *mut Piece,
}

/// Pieces of one size that belong to one thread: a chain that it takes from and adds to, and perhaps a full one beside it, so
/// that who posts and runs by turns at the end of a chain does not go to the depot each time.
struct Kept {
    first: Cell<*mut Piece>,
    number: Cell<usize>,
    full: Cell<*mut Piece>,
}

/// What a thread keeps, by class.
struct Mine([Kept; CLASSES]);

/// A full chain.
struct Chain(*mut Piece);

// SAFETY: whoever has a chain has its pieces, and nobody else does.
unsafe impl Send for Chain {}

/// Full chains of no thread, by class.
static DEPOT: [Mutex<Vec<Chain>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

thread_local! {
    static MINE: Mine = const { Mine([const { Kept::new() }; CLASSES]) };
}

impl Kept {
    const fn new() -> Self {
        Self { first: Cell::new(null_mut()), number: Cell::new(0), full: Cell::new(null_mut()) }
    }

    #[inline]
    fn pop(&self, class: usize) -> Option<NonNull<u8>> {
        if self.first.get().is_null() {
            self.load(class);
        }
        let first = NonNull::new(self.first.get())?;
        // SAFETY: what is kept is ours, and begins with what `push` wrote.
        self.first.set(unsafe { first.as_ref() }.next);
        self.number.set(self.number.get() - 1);
        Some(first.cast())
    }

    #[inline]
    fn push(&self, class: usize, memory: NonNull<u8>) {
        if self.number.get() == CHAIN {
            self.unload(class);
        }
        let piece = memory.cast::<Piece>();
        // SAFETY: it is ours, and every class is large and aligned enough for a pointer.
        unsafe { piece.write(Piece { next: self.first.get() }) };
        self.first.set(piece.as_ptr());
        self.number.set(self.number.get() + 1);
    }

    /// The chain is at its end: takes up a full one, if there is one.
    #[cold]
    fn load(&self, class: usize) {
        let full = match self.full.replace(null_mut()) {
            full if !full.is_null() => Some(Chain(full)),
            _ => depot(class).pop(),
        };
        if let Some(Chain(first)) = full {
            self.first.set(first);
            self.number.set(CHAIN);
        }
    }

    /// The chain is full: begins another.
    #[cold]
    fn unload(&self, class: usize) {
        let full = self.full.replace(self.first.replace(null_mut()));
        self.number.set(0);
        if full.is_null() {
            return;
        }
        let mut depot = depot(class);
        if depot.len() < DEPOT_MAX {
            depot.push(Chain(full));
        } else {
            drop(depot);
            free_chain(full, class);
        }
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        for (class, kept) in self.0.iter().enumerate() {
            free_chain(kept.first.replace(null_mut()), class);
            free_chain(kept.full.replace(null_mut()), class);
        }
    }
}

fn depot(class: usize) -> MutexGuard<'static, Vec<Chain>> {
    DEPOT[class].lock().expect("nothing panics under this lock")
}

fn free_chain(first: *mut Piece, class: usize) {
    let mut next = NonNull::new(first);
    while let Some(piece) = next {
        // SAFETY: the chain is ours; `push` wrote the link, and `get` allocated the piece by the layout of its class.
        unsafe {
            next = NonNull::new(piece.as_ref().next);
            free(piece.cast(), layout(class));
        }
    }
}

/// A piece that was used before. A thread that ends keeps none.
#[inline]
fn reuse(class: usize) -> Option<NonNull<u8>> {
    MINE.try_with(|mine| mine.0[class].pop(class)).ok().flatten()
}

/// Keeps a piece.
#[inline]
fn keep(class: usize, memory: NonNull<u8>) {
    if MINE.try_with(|mine| mine.0[class].push(class, memory)).is_err() {
        // SAFETY: `get` allocated it by the layout of its class.
        unsafe { free(memory, layout(class)) };
    }
}

#[cold]
fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: an event is not of size zero: it has a header.
    let memory = unsafe { alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// # Safety
/// `memory` was allocated by this layout and is the caller's alone.
#[cold]
unsafe fn free(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: as the caller promises.
    unsafe { dealloc(memory.as_ptr(), layout) }
}
