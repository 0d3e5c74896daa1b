//! Values that only one host may have, and that several hosts have.
//!
//! With `skip_unfit_includes` a file that is left out must not take another file along. So
//! collisions with included files count once the files have no other problem, and a collision with
//! a host of a file that is about to be left out does not count. Tested in `tests/include.rs`.

use super::{problems::Problem, sources::ConfigText};
use std::{collections::HashSet, ops::Range};

/// A value that an earlier host has too.
pub(super) struct HostCollision {
    /// The place of the earlier host.
    pub(super) holder: usize,
    /// The place of the value.
    pub(super) at: Range<usize>,
    pub(super) value: UniqueValue,
}

/// A value that only one host may have.
pub(super) enum UniqueValue {
    /// A name, as in the table of hosts.
    Name(String),
    /// Answering unknown names.
    Default,
    /// A listener, of a host without a name.
    Listener,
    /// A cgroup with other bounds.
    Cgroup,
}

impl HostCollision {
    fn problem(&self, text: &ConfigText) -> Problem {
        let holder = || text.line_of(self.holder);
        let (key, what) = match &self.value {
            UniqueValue::Name(name) => {
                ("host.names", format!("\"{name}\": the host at {} has this name", holder()))
            }
            UniqueValue::Default => ("host.default", "another host is the default already".to_owned()),
            UniqueValue::Listener => {
                let bound = "is bound to this listener and has no name either; name one of them";
                ("host.listen", format!("the host at {} {bound}", holder()))
            }
            UniqueValue::Cgroup => {
                let what = "another host has this cgroup with other bounds; write the same ones, or name another \
                            folder";
                ("host.cgi.cgroup.folder", what.to_owned())
            }
        };
        Problem { at: self.at.clone(), key: key.to_owned(), what }
    }
}

/// The problems of all `collisions`.
pub(super) fn all(collisions: &[HostCollision], text: &ConfigText) -> Vec<Problem> {
    collisions.iter().map(|collision| collision.problem(text)).collect()
}

/// The problems of the `collisions` that leaving out unfit files does not end. `others` are the
/// other problems.
pub(super) fn lasting(collisions: &[HostCollision], others: &[Problem], text: &ConfigText) -> Vec<Problem> {
    let main = text.source(0).start;
    let mut in_order: Vec<&HostCollision> = collisions.iter().collect();
    in_order.sort_by_key(|collision| collision.at.start);
    // The files that are about to be left out, by their first places.
    let mut unfit = HashSet::new();
    let lasts = |collision: &&HostCollision| {
        let own = text.source(collision.at.start).start;
        let holder = text.source(collision.holder).start;
        if own == main {
            return true;
        }
        let counts = others.is_empty() && (holder == own || !unfit.contains(&holder));
        if counts {
            unfit.insert(own);
        }
        counts
    };
    in_order.into_iter().filter(lasts).map(|collision| collision.problem(text)).collect()
}
