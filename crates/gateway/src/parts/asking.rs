//! The parts of a request that every kind of program needs.

use super::{Collected, ErrorSink, GatewayOptions, Spools};
use std::sync::Arc;
use vermeil_exchange::RequestName;
use vermeil_routing::hosts::Met;

/// A request to a program, besides its head.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// The host of the request.
    pub host: &'a Met,
    /// Path and query as received, if a route has rewritten them.
    pub uri: Option<&'a [u8]>,
    /// The options of the gateway.
    pub options: &'a GatewayOptions,
    /// The announcement of the request's content.
    pub content: Collected,
    /// The request's name in notices.
    pub name: RequestName,
    /// The user whose password was checked.
    pub user: Option<&'a [u8]>,
    /// The memory and the files for contents.
    pub spools: &'a Arc<Spools>,
    /// The target of the program's error output.
    pub errors: &'a Arc<ErrorSink>,
}
