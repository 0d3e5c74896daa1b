//! How the answers of a host or a route differ from those of the server.
//!
//! Leaves out the choice of the answer (`answer.rs`). Tested through the binary.

use super::HeaderRules;

/// The rules for the answers of a host, or of a route. The rules of a route include the rules of
/// its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AnswerRules {
    /// Fields to set, to add and to remove.
    pub headers: HeaderRules,
}

impl AnswerRules {
    /// Whether answers are those of the server.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }
}
