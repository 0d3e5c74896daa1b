//! The reports to balancers in front of the server.

use std::net::SocketAddr;

/// The reports to balancers, and their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BalancerOptions {
    /// Addresses that answer HAProxy's agent checks.
    pub agent: Vec<SocketAddr>,
    /// How answers report the load.
    pub load_report: LoadReport,
}

impl BalancerOptions {
    /// Whether any report is configured.
    pub fn is_wanted(&self) -> bool {
        !self.agent.is_empty() || self.load_report != LoadReport::Off
    }
}

/// A field of every answer, `endpoint-load-metrics`, in one of the forms of ORCA (Open Request Cost
/// Aggregation), which Envoy and gRPC read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadReport {
    /// No field.
    #[default]
    Off,
    /// `TEXT cpu_utilization=0.31,…`
    Text,
    /// `JSON {"cpu_utilization":0.31,…}`
    Json,
}
