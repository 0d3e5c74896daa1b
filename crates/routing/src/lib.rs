//! From a request to host, route and permission.
//!
//! [`hosts`] is the table of hosts with their folders, routes and rules. [`access`] has the parts
//! of access control: users, checks of passwords, rates. [`clients`] counts the connections of a
//! client, and [`turns`] shares programs among hosts. Must never know connections, answers or
//! configuration files.

pub mod access;
pub mod clients;
pub mod hosts;
pub mod paths;
pub mod turns;
