//! Whether cores take connections from cores with more work.

use vermeil::Policy;

/// Whether a core takes connections from a core with more work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MovePolicy {
    /// If the other core has much more work, measured over 10 ms.
    #[default]
    Adaptive,
    /// As `Adaptive`, within a memory node.
    PerNode,
    /// Never.
    None,
    /// As Libasync-SMP, for comparison.
    Libasync,
    /// As Mely, for comparison.
    Mely,
    /// At every request, for tests.
    Scatter,
}

impl From<MovePolicy> for Policy {
    fn from(policy: MovePolicy) -> Self {
        match policy {
            MovePolicy::Adaptive => Self::Adaptive,
            MovePolicy::PerNode => Self::PerNode,
            MovePolicy::None => Self::None,
            MovePolicy::Libasync => Self::Libasync,
            MovePolicy::Mely => Self::Mely,
            MovePolicy::Scatter => Self::Scatter,
        }
    }
}
