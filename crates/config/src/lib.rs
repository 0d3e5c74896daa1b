//! The configuration of a server: keys, parsing, resolving, reference page.
//!
//! [`options`] has all options of a server, and [`mod@file`] makes the options from `vermeil.toml`.
//! `fixed` has the options that a reload cannot change. Must never know sockets or processes.

pub mod file;
mod fixed;
pub mod options;

pub use file::{
    AddressError, ConfigError, ConfigPlaces, ConfigText, FILE_NAME, GivenParts, PlacedKey, Surroundings,
    json_schema, load, load_with_places, of_json, reference_page, take, text_of, to_json, values,
};
pub use fixed::{CgiSettings, keep_what_is_fixed};
pub use options::{
    CONNECTIONS_MAX, HOSTS_SHOWN_MAX, SITES_OPEN_MAX, ServeOptions, Timeouts, WAIT_MAX, cpus_of,
    keys_that_differ, store_here,
};
