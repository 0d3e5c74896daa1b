//! Bugs planted on purpose, to see that the models would notice them.
//!
//! Only the model checkers' builds can have one, and only if the environment names it in `VERMEIL_CANARY`; in every other
//! build the question is a constant. `cargo xtask test` runs a model with each and fails if it passes.

/// A bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// A core announces its sleep without the fence.
    AnnounceWithoutFence,
    /// A producer looks whether a core sleeps without the fence.
    WakeWithoutFence,
    /// The producer of a second event makes a token too: a color runs twice at once.
    SecondToken,
    /// The inbox is read and emptied in two steps: what is linked between them is lost.
    TakeInTwoSteps,
    /// What a color posts to itself passes what others have posted to it before.
    OwnOvertakes,
    /// The newest event comes first.
    NewestFirst,
    /// Counting orders nothing: the next holder may miss what the last one did.
    RelaxedCount,
    /// A run of a repeating event clears its mark after it has run: a post meanwhile is lost.
    ClearAfterRun,
    /// A kept token is read and taken in two steps: its core and a thief have it.
    TakeKeptInTwoSteps,
    /// What is left for who asks is published without an order.
    RelaxedOutcome,
    /// Who waits for the end reads what has come before what has gone.
    CountComeFirst,
    /// What goes and the look whether somebody waits for it are in no order.
    GoesUnseen,
    /// Who would wake a searcher, and finds that one has just begun, does not fence.
    BeginSearchWithoutFence,
    /// Who has searched looks once more without a fence.
    EndSearchWithoutFence,
    /// A ring's owner overwrites what a reader may be at without a fence.
    OverwriteWithoutFence,
    /// A thief names its core for a color when it has let go of the victim's queue: an entry that is queued between stays behind, and
    /// its event with it.
    MoveAfterLock,
    /// Who queues an entry does not look under the lock whether the color is still there.
    QueueEntryWithoutLook,
    /// A thief queues a token where its color is not.
    StealWithoutMove,
    /// Who queues a token looks for a wish before it has the lock: one made between waits with the color.
    LookForWishBeforeLock,
    /// A wish is read and taken in two steps: one made between is forgotten.
    TakeWishInTwoSteps,
    /// Who queues a token asks for the end before it has the lock: it is queued where nobody comes any more.
    AskForEndBeforeLock,
    /// Two meetings are queued at once: each may have a color that the other waits for.
    MeetingsWithoutOrder,
    /// A color looks how many have come before it comes itself: none may be the last.
    CountBeforeArrival,
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
            "own-overtakes" => Bug::OwnOvertakes,
            "newest-first" => Bug::NewestFirst,
            "relaxed-count" => Bug::RelaxedCount,
            "clear-after-run" => Bug::ClearAfterRun,
            "take-kept-in-two-steps" => Bug::TakeKeptInTwoSteps,
            "relaxed-outcome" => Bug::RelaxedOutcome,
            "count-come-first" => Bug::CountComeFirst,
            "goes-unseen" => Bug::GoesUnseen,
            "begin-search-without-fence" => Bug::BeginSearchWithoutFence,
            "end-search-without-fence" => Bug::EndSearchWithoutFence,
            "overwrite-without-fence" => Bug::OverwriteWithoutFence,
            "move-after-lock" => Bug::MoveAfterLock,
            "queue-entry-without-look" => Bug::QueueEntryWithoutLook,
            "steal-without-move" => Bug::StealWithoutMove,
            "look-for-wish-before-lock" => Bug::LookForWishBeforeLock,
            "take-wish-in-two-steps" => Bug::TakeWishInTwoSteps,
            "ask-for-end-before-lock" => Bug::AskForEndBeforeLock,
            "meetings-without-order" => Bug::MeetingsWithoutOrder,
            "count-before-arrival" => Bug::CountBeforeArrival,
            _ => panic!("VERMEIL_CANARY: there is no bug called {name}"),
        })
    }) == Some(bug)
}
