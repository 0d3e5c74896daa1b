//! Parts of every test here: a server that is the real binary ([`TestServer`]), its folder
//! ([`TestSite`]), a client that writes bytes and reads strictly ([`TestClient`]), and waiting for
//! a condition with a deadline ([`until`]).
//!
//! [`on_both!`] makes two tests of one function, one for each I/O driver. [`on_usual!`] is for
//! functions that are independent of the driver: the test on the other driver runs in `cargo xtask
//! test --all` only.

mod client;
mod response;
mod server;
mod site;
mod stopped;

pub(crate) use client::{ConnectionEnd, TestClient};
pub(crate) use response::{ExpectedContent, Response, dechunked};
pub(crate) use server::{Io, TestProcess, TestServer, vermeil};
pub(crate) use site::{TestSite, noise};
pub(crate) use stopped::{StoppedThread, two_cpus};

use std::time::{Duration, Instant};

/// How long any step may take before the test fails. The limit is far above the usual time, because
/// test machines are busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Polls until `condition` returns a value; panics with `what` when [`PATIENCE`] is over.
#[track_caller]
pub(crate) fn until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    until_or(condition, || what.to_owned())
}

/// As [`until`], with a message that is built only on failure.
#[track_caller]
pub(crate) fn until_or<T>(mut condition: impl FnMut() -> Option<T>, what: impl FnOnce() -> String) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        if Instant::now() >= deadline {
            panic!("waited in vain until {}", what());
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Makes `mod epoll` and `mod uring` with one test per named function.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod epoll {
            $(#[test] fn $name() { super::$name($crate::support::Io::Epoll); })*
        }
        mod uring {
            $(#[test] fn $name() { $crate::support::Io::Uring.if_there(super::$name); })*
        }
    };
}
pub(crate) use on_both;

/// Makes `mod usual` with one test per named function, on the driver that `serve` chooses, and `mod
/// other` with the same tests on epoll for `--include-ignored`.
macro_rules! on_usual {
    ($($name:ident),* $(,)?) => {
        mod usual {
            $(#[test] fn $name() { super::$name($crate::support::Io::usual()); })*
        }
        mod other {
            $(#[test] #[ignore = "tests nothing of the driver: cargo xtask test --all"]
            fn $name() { super::$name($crate::support::Io::Epoll); })*
        }
    };
}
pub(crate) use on_usual;
