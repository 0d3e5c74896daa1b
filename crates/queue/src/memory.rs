//! Recycled memory of events that run once. After a peak number of queued events, no lower number
//! allocates (I16).
//!
//! Bonwick's magazines ("Magazines and Vmem", 2001): the thread that runs an event keeps the
//! memory, in chains of [`CHAIN`] pieces of equal size. Full chains pass through a depot to threads
//! that post more than they run, with one lock operation for a whole chain. Memory stays in the
//! process, and so on the same node. Events larger than [`BYTES_MAX`] use the allocator, and so do
//! chains that a full depot rejects. Leaves out the meaning of an event. Checked in `tests.rs`
//! (sizes, drops, threads that end) and, with the whole runtime, by its test `allocations`.
#![allow(unsafe_code)]

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    cell::Cell,
    ptr::{NonNull, null_mut},
    sync::{Mutex, MutexGuard},
};

/// Granularity of the size classes, in bytes.
const STEP_BYTES: usize = 32;

/// Largest event whose memory is kept, in bytes: the limit on the memory that a thread keeps, with
/// eight size classes of at most two chains each (144 KiB).
const BYTES_MAX: usize = 256;

/// Alignment of all kept memory. The allocator gives this alignment in any case.
const ALIGN: usize = 16;

/// Pieces in a chain. A lock of 20 ns, perhaps contended, then costs less than a nanosecond for
/// each event. A thread keeps at most two chains of a size.
const CHAIN: usize = 64;

/// Full chains of one size that the depot holds: 16,384 events, at most 4 MiB. This is
/// the limit on memory that producers of one core lend to consumers of another core.
const DEPOT_MAX: usize = 256;

const CLASSES: usize = BYTES_MAX / STEP_BYTES;

/// Uninitialised memory for a `T`.
#[inline]
pub(crate) fn get<T>() -> NonNull<T> {
    let memory = match class_of::<T>() {
        Some(class) => reuse(class).unwrap_or_else(|| allocate(layout(class))),
        None => allocate(Layout::new::<T>()),
    };
    memory.cast()
}

/// Recycles memory.
///
/// # Safety
/// `memory` came from [`get`] for the same type, contains no value any more, and belongs to the
/// caller alone.
#[inline]
pub(crate) unsafe fn give_back<T>(memory: NonNull<T>) {
    match class_of::<T>() {
        Some(class) => keep(class, memory.cast()),
        // SAFETY: `get` allocated the memory by this layout.
        None => unsafe { free(memory.cast(), Layout::new::<T>()) },
    }
}

/// The size class of `T`; none if such memory is not kept. The header alone makes every event
/// larger than zero bytes.
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

/// An unused piece of memory; the first bytes name the next piece of the chain.
struct FreePiece {
    next: *mut FreePiece,
}

/// Pieces of one size that belong to one thread: a chain to take from and add to, and perhaps a
/// full chain beside it. Because of the second chain, a thread that posts and runs by turns at the
/// end of a chain does not go to the depot each time.
struct ThreadPieces {
    first: Cell<*mut FreePiece>,
    number: Cell<usize>,
    full: Cell<*mut FreePiece>,
}

/// The pieces that a thread keeps, by class.
struct ThreadMemory([ThreadPieces; CLASSES]);

/// A full chain.
struct PieceChain(*mut FreePiece);

// SAFETY: the owner of a chain owns the pieces exclusively.
unsafe impl Send for PieceChain {}

/// Full chains that no thread owns, by class.
static DEPOT: [Mutex<Vec<PieceChain>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

thread_local! {
    static MINE: ThreadMemory = const { ThreadMemory([const { ThreadPieces::new() }; CLASSES]) };
}

impl ThreadPieces {
    const fn new() -> Self {
        Self { first: Cell::new(null_mut()), number: Cell::new(0), full: Cell::new(null_mut()) }
    }

    #[inline]
    fn pop(&self, class: usize) -> Option<NonNull<u8>> {
        if self.first.get().is_null() {
            self.load(class);
        }
        let first = NonNull::new(self.first.get())?;
        // SAFETY: this thread owns kept pieces, and each begins with the link that `push` wrote.
        self.first.set(unsafe { first.as_ref() }.next);
        self.number.set(self.number.get() - 1);
        Some(first.cast())
    }

    #[inline]
    fn push(&self, class: usize, memory: NonNull<u8>) {
        if self.number.get() == CHAIN {
            self.unload(class);
        }
        let piece = memory.cast::<FreePiece>();
        // SAFETY: the caller owns the memory, and every class is large and aligned enough for a
        // pointer.
        unsafe { piece.write(FreePiece { next: self.first.get() }) };
        self.first.set(piece.as_ptr());
        self.number.set(self.number.get() + 1);
    }

    /// The chain is empty: takes a full chain, if there is one.
    #[cold]
    fn load(&self, class: usize) {
        let full = match self.full.replace(null_mut()) {
            full if !full.is_null() => Some(PieceChain(full)),
            _ => depot(class).pop(),
        };
        if let Some(PieceChain(first)) = full {
            self.first.set(first);
            self.number.set(CHAIN);
        }
    }

    /// The chain is full: begins another chain.
    #[cold]
    fn unload(&self, class: usize) {
        let full = self.full.replace(self.first.replace(null_mut()));
        self.number.set(0);
        if full.is_null() {
            return;
        }
        let mut depot = depot(class);
        if depot.len() < DEPOT_MAX {
            depot.push(PieceChain(full));
        } else {
            drop(depot);
            free_chain(full, class);
        }
    }
}

impl Drop for ThreadMemory {
    fn drop(&mut self) {
        for (class, kept) in self.0.iter().enumerate() {
            free_chain(kept.first.replace(null_mut()), class);
            free_chain(kept.full.replace(null_mut()), class);
        }
    }
}

fn depot(class: usize) -> MutexGuard<'static, Vec<PieceChain>> {
    DEPOT[class].lock().expect("nothing panics under this lock")
}

fn free_chain(first: *mut FreePiece, class: usize) {
    let mut next = NonNull::new(first);
    while let Some(piece) = next {
        // SAFETY: this thread owns the chain; `push` wrote the link, and `get` allocated the piece
        // by the layout of the class.
        unsafe {
            next = NonNull::new(piece.as_ref().next);
            free(piece.cast(), layout(class));
        }
    }
}

/// A recycled piece. A thread that is ending has none.
#[inline]
fn reuse(class: usize) -> Option<NonNull<u8>> {
    MINE.try_with(|mine| mine.0[class].pop(class)).ok().flatten()
}

/// Keeps a piece.
#[inline]
fn keep(class: usize, memory: NonNull<u8>) {
    if MINE.try_with(|mine| mine.0[class].push(class, memory)).is_err() {
        // SAFETY: `get` allocated the memory by the layout of the class.
        unsafe { free(memory, layout(class)) };
    }
}

#[cold]
fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: an event has a header, so the size is not zero.
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
