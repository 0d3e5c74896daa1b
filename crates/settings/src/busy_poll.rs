//! Whether cores poll their network card (`busy_poll.rs`).

/// Whether cores poll their network card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPoll {
    /// Never.
    #[default]
    Off,
    /// While the load of the core is high.
    Load,
}
