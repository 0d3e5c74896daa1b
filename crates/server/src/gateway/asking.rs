//! The parts of a request that every kind of program needs.

use super::{Collected, ErrorSink, GatewayOptions, Spools};
use std::sync::Arc;
use vermeil_exchange::RequestName;
use vermeil_routing::hosts::Met;

/// A request to a program, besides its head.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) host: &'a Met,
    /// Path and query as received, if a route has rewritten them.
    pub(crate) uri: Option<&'a [u8]>,
    pub(crate) options: &'a GatewayOptions,
    pub(crate) content: Collected,
    pub(crate) name: RequestName,
    /// The user whose password was checked.
    pub(crate) user: Option<&'a [u8]>,
    /// The memory and the files for contents.
    pub(crate) spools: &'a Arc<Spools>,
    /// The target of the program's error output.
    pub(crate) errors: &'a Arc<ErrorSink>,
}
