//! Virtual hosts: which names there are, what is served under each, and finding one by the `Host` of a request.
//!
//! Reading order: [`Hosts`] (the table, made once and never changed), `name` (what counts as the same name), `route`
//! (what of a host's paths is no file). Knows neither connections nor open files: a host is a number and what was
//! configured for it. Tested in `tests.rs`.

mod name;
mod route;
mod table;

#[cfg(test)]
mod tests;

pub use name::{NAME_BYTES_MAX, Name, NameError};
pub use route::{Action, Path, Route, Template, TemplateError};
pub use table::{Builder, Host, HostId, Hosts, Rules, Taken, Unknown};
