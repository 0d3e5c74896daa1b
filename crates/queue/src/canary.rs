//! Canaries: bugs planted on purpose, to prove that the models notice such bugs.
//!
//! Only loom and shuttle builds contain canaries, and `VERMEIL_CANARY` in the environment selects a
//! single canary. In every other build `planted` is a constant. `cargo xtask test` runs a model
//! with each canary and fails if the model passes.

/// A planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// The core announces its sleep without the fence.
    AnnounceWithoutFence,
    /// The producer checks for a sleeping core without the fence.
    WakeWithoutFence,
    /// The producer of a second event also makes a token, so a color runs twice at once.
    SecondToken,
    /// The holder reads and empties the inbox in two steps. An event linked between the steps is
    /// lost.
    TakeInTwoSteps,
    /// An event that a color posts to itself overtakes events posted earlier by other threads.
    OwnPostOvertakes,
    /// The newest event runs first.
    NewestFirst,
    /// The count has no ordering, so the next holder may miss writes of the previous holder.
    RelaxedCount,
    /// A task cell clears the mark after the run, so a post during the run is lost.
    ClearAfterRun,
    /// The LIFO slot is read and emptied in two steps, so the core and a thief both get the token.
    TakeLifoSlotInTwoSteps,
    /// The result is published without an ordering.
    RelaxedResult,
    /// `all_done` reads the `entered` counters before the `left` counters.
    CountEnteredFirst,
    /// Counting an item as left and reading `awaited` are unordered.
    LeaveUnseen,
    /// `begin_search` omits the fence, although a producer may find a search that has just begun.
    BeginSearchWithoutFence,
    /// The searcher's last look has no fence before it.
    EndSearchWithoutFence,
    /// The last look of a core that gives up the duty to watch has no fence before it.
    EndDutyWithoutFence,
    /// The ring's owner overwrites a record that a reader may be reading, without a fence.
    OverwriteWithoutFence,
    /// A thief sets a color's core after releasing the victim's lock. An entry queued in between
    /// stays behind, and so does the entry's event.
    MoveAfterLock,
    /// A producer queues an entry without checking under the lock that the color is still there.
    QueueEntryWithoutLook,
    /// A thief queues a token on a core that the color does not name.
    StealWithoutMove,
    /// The thread that queues a token reads the pending migration before taking the lock. A
    /// migration requested in between is delayed until the color has run.
    ReadMigrationBeforeLock,
    /// A pending migration is read and taken in two steps, so a request made in between is
    /// forgotten.
    TakeMigrationInTwoSteps,
    /// The thread that queues a token checks for the end before taking the lock, so the token may
    /// enter a queue that no core reads any more.
    AskForEndBeforeLock,
    /// Two acquisitions queue their events at the same time, so each may hold a color that the
    /// other waits for.
    AcquireWithoutOrder,
    /// A color counts the arrivals before its own arrival, so no arrival may be the last.
    CountBeforeAcquired,
    /// Each core that needs a socket asks its core, so the socket is detached twice.
    AskTwice,
    /// The wakers are taken before the socket is detached. A task that asks in between waits for
    /// ever.
    TakeAskersFirst,
    /// A core that has detached a socket still takes the socket for its own.
    LeaveAddress,
    /// A drop between two drivers leaves no mark, so the socket stays open.
    DropDuringMove,
    /// A task that waits in the driver is not woken if another task has asked in the same
    /// direction.
    ForgetOwnWaiter,
    /// A waiter joins without looking again for a free permit, so a permit returned in between is
    /// lost.
    WaitWithoutLook,
    /// The free permits are read and written in two steps, so a waiter that joins in between is
    /// never granted.
    ReturnPermitInTwoSteps,
    /// A permit is returned without an ordering.
    RelaxedPermit,
    /// The last waiter that leaves keeps the mark of waiters, so the next returned permit is lost.
    LeaveMark,
}

/// Whether `bug` is planted.
#[cfg(not(any(loom, shuttle)))]
#[inline(always)]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

/// Whether `bug` is planted.
#[cfg(any(loom, shuttle))]
pub(crate) fn planted(bug: Bug) -> bool {
    use std::sync::OnceLock;

    static PLANTED: OnceLock<Option<Bug>> = OnceLock::new();
    *PLANTED.get_or_init(|| {
        let name = std::env::var("VERMEIL_CANARY").ok()?;
        Some(match name.as_str() {
            "announce-without-fence" => Bug::AnnounceWithoutFence,
            "wake-without-fence" => Bug::WakeWithoutFence,
            "second-token" => Bug::SecondToken,
            "take-in-two-steps" => Bug::TakeInTwoSteps,
            "own-post-overtakes" => Bug::OwnPostOvertakes,
            "newest-first" => Bug::NewestFirst,
            "relaxed-count" => Bug::RelaxedCount,
            "clear-after-run" => Bug::ClearAfterRun,
            "take-lifo-slot-in-two-steps" => Bug::TakeLifoSlotInTwoSteps,
            "relaxed-result" => Bug::RelaxedResult,
            "count-entered-first" => Bug::CountEnteredFirst,
            "leave-unseen" => Bug::LeaveUnseen,
            "begin-search-without-fence" => Bug::BeginSearchWithoutFence,
            "end-search-without-fence" => Bug::EndSearchWithoutFence,
            "end-duty-without-fence" => Bug::EndDutyWithoutFence,
            "overwrite-without-fence" => Bug::OverwriteWithoutFence,
            "move-after-lock" => Bug::MoveAfterLock,
            "queue-entry-without-look" => Bug::QueueEntryWithoutLook,
            "steal-without-move" => Bug::StealWithoutMove,
            "read-migration-before-lock" => Bug::ReadMigrationBeforeLock,
            "take-migration-in-two-steps" => Bug::TakeMigrationInTwoSteps,
            "ask-for-end-before-lock" => Bug::AskForEndBeforeLock,
            "acquire-without-order" => Bug::AcquireWithoutOrder,
            "count-before-acquired" => Bug::CountBeforeAcquired,
            "ask-twice" => Bug::AskTwice,
            "take-askers-first" => Bug::TakeAskersFirst,
            "leave-address" => Bug::LeaveAddress,
            "drop-during-move" => Bug::DropDuringMove,
            "forget-own-waiter" => Bug::ForgetOwnWaiter,
            "wait-without-look" => Bug::WaitWithoutLook,
            "return-permit-in-two-steps" => Bug::ReturnPermitInTwoSteps,
            "relaxed-permit" => Bug::RelaxedPermit,
            "leave-mark" => Bug::LeaveMark,
            _ => panic!("VERMEIL_CANARY: there is no bug called {name}"),
        })
    }) == Some(bug)
}
