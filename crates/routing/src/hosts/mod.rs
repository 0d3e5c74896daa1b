//! Virtual hosts: their names, their folders and routes, and the look-up of a host by the `Host` of
//! a request.
//!
//! Reading order: [`Hosts`] (the table, made once and never changed), `name` (the normal form of a
//! name), `route` (paths that are not files), `open` (the open folders). This module knows no
//! connections. Tested in `tests.rs`.

mod answer_rules;
mod candidate;
mod compression_rules;
mod condition;
mod guard;
mod header_rules;
mod https;
mod name;
mod network;
mod open;
mod pattern;
mod proxies;
mod route;
mod table;

#[cfg(test)]
mod tests;

pub use answer_rules::{AnswerRules, ErrorPagePath, StatusRange, UnfitStatus};
pub use compression_rules::{
    CODINGS, COMPRESSED_BYTES_MIN, COMPRESSED_TYPES, CompressionLevels, CompressionRules, is_compressed,
};
pub use condition::{Asked, ConditionError, Conditions, RequestCondition};
pub use header_rules::check_value;
pub use header_rules::{HeaderRule, HeaderRuleError, HeaderRules};
pub use open::{AnswerRulesId, CoreHosts, Folder, HeldAnswerRules, Met, OpenJob, OpenSites, OpenedHost};
pub use pattern::{PatternError, TextPattern};

pub use candidate::{Candidate, CandidateError};
pub use guard::{Guard, Realm};
pub use name::{HostName, NAME_BYTES_MAX, NameError, without_port};
pub use network::{Network, NetworkError};
pub use proxies::TrustedProxies;
pub use route::{Action, Path, Route, TemplateError, TextTemplate};
pub use table::RunBy;
pub use table::{Host, HostId, HostPhp, Hosts, HostsBuilder, Rules, Taken, Unknown};
