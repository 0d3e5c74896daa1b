//! Virtual hosts: which names there are, what is served under each, and finding one by the `Host` of a request.
//!
//! Reading order: [`Hosts`] (the table, made once and never changed), `name` (what counts as the same name), `route`
//! (what of a host's paths is no file), `open` (the folders that are open). Knows no connections. Tested in `tests.rs`.

mod name;
mod network;
mod open;
mod route;
mod table;

#[cfg(test)]
mod tests;

pub(crate) use open::{CoreHosts, Folder, Found, Met, OpenJob, OpenSites};

pub use name::{NAME_BYTES_MAX, Name, NameError};
pub use network::{Network, NetworkError};
pub use route::{Action, Path, Route, Template, TemplateError};
pub(crate) use table::RunBy;
pub use table::{Builder, Host, HostId, HostPhp, Hosts, Rules, Taken, Unknown};
