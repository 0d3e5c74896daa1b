//! Benchmarks against real peers and against measured floors.
//!
//! A bench starts servers as child processes ([`peers`]), loads the servers ([`wrk`]), measures
//! their cost ([`measure`]), and turns rounds into medians with their spread ([`stats`]). The
//! medians are printed ([`table`]), kept ([`rows`]), drawn ([`svg`]) and put into the documentation
//! ([`markdown`]), mostly by one [`report`]. Each bench has a smoke size that asserts nothing about
//! time; the tests run the smoke size, because an unused bench would stop working:
//!
//! - [`serve`]: the web server; [`tls`]: HTTPS; [`tail`]: many hosts and files; [`tail::loading`]:
//!   the start with many hosts; [`compression`]: compressed answers; [`metrics`]: a monitor that
//!   reads; [`overload`]: more load than can be served;
//! - [`runtime`]: the runtime; [`sim`]: the simulator;
//! - [`cgi`]: starting programs; [`php`]: passing requests to PHP; [`knet`]: the receive path;
//!   [`balancers`]: servers behind HAProxy;
//! - [`mechanisms`]: what each feedback loop and special path gains; [`pgo`]: the gain of
//!   profile-guided optimization;
//! - [`load`]: the load injector; [`findmax`]: the search for the most users.
//!
//! The crate never ships; only `cargo xtask bench NAME` runs the benches. The crate also holds
//! `vermeil-floor`, the least work of a server. `unsafe` is needed there, and for `getrusage(2)`.

pub mod accept;
pub mod app;
pub mod balancers;
pub mod cgi;
pub mod compression;
pub mod findmax;
pub mod knet;
pub mod load;
pub mod mechanisms;
pub mod metrics;
pub mod overload;
pub mod pgo;
pub mod php;
pub mod rates;
pub mod runtime;
pub mod serve;
pub mod sim;
pub mod tail;
pub mod tls;

pub mod debian;
pub mod dokuwiki;
pub mod peers;
pub mod probe;
pub mod site;
pub mod wrk;

mod slow_disk;

pub mod machine;
pub mod measure;
pub mod network;
pub mod rusage;
pub mod stop;

pub mod markdown;
pub mod options;
pub mod points;
pub mod report;
pub mod rows;
pub mod size;
pub mod stats;
pub mod svg;
pub mod table;

mod error;

pub use error::{BenchError, BenchResult};
