//! The whole server through its binary: real processes, real sockets, real files, on both I/O
//! drivers.
//!
//! One module per subject; each test's name is its claim. Leaves out behaviour that is testable
//! without sockets (parsing, conditions, ranges: `vermeil-http`), except for a sample.

mod access;
mod activation;
mod balance;
mod balancers;
mod bounds;
mod cgi;
mod changes;
mod closing;
mod compression;
mod conditions;
mod config;
mod corpus;
mod explain;
mod files;
mod handover;
mod headers;
mod host_cgi;
mod host_logs;
mod hosts;
mod in_progress;
mod includes;
mod instances;
mod kills;
mod links;
mod log;
mod log_fields;
mod log_rotation;
mod metrics;
mod moving;
mod operation;
mod php;
mod places;
mod private;
mod programs;
mod proxies;
mod ranges;
mod reload;
mod requests;
mod resources;
mod rest;
mod routes;
mod sandbox;
mod starts;
mod status;
mod strangers;
mod support;
mod tls;
mod tls_trust;
mod trace;
mod try_files;
mod unix;
mod user;
