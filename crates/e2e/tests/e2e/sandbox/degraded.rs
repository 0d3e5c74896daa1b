//! A kernel without Landlock, without seccomp, or without both: the server says which bounds do not
//! hold, and serves.
//!
//! A seccomp filter plays the kernel: the thread that starts the server refuses the system calls,
//! and the server inherits the filter.

use super::{HOST, sandbox_lines, site, user};
use crate::support::{Io, TestServer};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use std::{env::consts::ARCH, thread};

const LANDLOCK: &[i64] = &[nix::libc::SYS_landlock_create_ruleset];
const SECCOMP: &[i64] = &[nix::libc::SYS_seccomp];

const NO_LANDLOCK: &str = "no bounds on files and connections (this kernel has no Landlock)";
const NO_SECCOMP: &str = "all system calls (no seccomp filter: ";

/// Runs `f` on a thread whose kernel lacks `calls`.
fn on_kernel_without(calls: &[i64], f: impl FnOnce() + Send) {
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let lacks = SeccompAction::Errno(nix::libc::ENOSYS.unsigned_abs());
    let arch = ARCH.try_into().expect("a processor with a filter");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, lacks, arch).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a program");
    thread::scope(|scope| {
        let lacking = scope.spawn(|| {
            if let Err(error) = apply_filter(&program) {
                return eprintln!("SKIPPED: this kernel has no seccomp: {error}");
            }
            f();
        });
        lacking.join().expect("the server's part holds");
    });
}

#[test]
fn server_names_missing_bounds_and_serves() {
    for (calls, missing, held) in [
        (LANDLOCK, &[NO_LANDLOCK][..], &["(seccomp)"][..]),
        (SECCOMP, &[NO_SECCOMP], &[]),
        (&[LANDLOCK, SECCOMP].concat(), &[NO_LANDLOCK, NO_SECCOMP], &[]),
    ] {
        on_kernel_without(calls, || {
            let site = site();
            let server = TestServer::configured(Io::Epoll, &site, &format!("{}{HOST}", user()));
            let line = sandbox_lines(&server, 1).remove(0);
            for part in missing.iter().chain(held) {
                assert!(line.contains(part), "{part}: {line}");
            }
            assert_eq!(line.contains("(Landlock "), !missing.contains(&NO_LANDLOCK), "{line}");
            assert_eq!(server.get("/").status, 200);
            server.stops_clean();
        });
    }
}
