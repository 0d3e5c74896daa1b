//! The seccomp filter: a system call that `calls.txt` does not list does not exist for the server.
//!
//! Such a call fails with `ENOSYS`, as on a kernel that lacks the call. The C library and the
//! standard library then fall back to an older call, so a new version of either does not end the
//! server. A line of the list may allow a call for some arguments only. Operations of
//! io_uring do not pass the filter. So the driver restricts its instances of io_uring to the
//! operations that it uses (`crates/io/src/driver/uring/ring.rs`), and [`refuse_rings`] refuses new
//! instances once the cores run. `crates/e2e/tests/e2e/sandbox.rs` compares
//! the list with the calls of a running server. The form of the list is tested below.

use rustix::{io::Errno, process::getpid};
use seccompiler::{BpfProgram, TargetArch, apply_filter, apply_filter_all_threads, compile_from_json};
use serde_json::{Value, json};
use std::env::consts::ARCH;
use vermeil_io::SealedOpens;

/// The system calls of the server.
const CALLS: &str = include_str!("calls.txt");

/// The result of the filter.
pub(super) struct Filtered {
    /// The number of allowed calls.
    pub(super) calls: usize,
}

/// The calls that open files.
const OPENS: [&str; 2] = ["openat", "openat2"];

/// Forbids all other calls for this thread and the threads that it starts. With sealed arguments of
/// `openat2(2)`, also forbids opening files with truncation and without writing.
///
/// # Errors
/// Why the filter failed, in words.
pub(super) fn enter(opens: Option<SealedOpens>) -> Result<Filtered, String> {
    let arch = TargetArch::try_from(ARCH).map_err(|_| format!("none is made for {ARCH}"))?;
    let pid = u64::from(getpid().as_raw_nonzero().get().unsigned_abs());
    let mut lines = parse(CALLS, pid, opens.map_or(0, SealedOpens::address));
    if opens.is_none() {
        // Landlock refuses truncation instead.
        for line in lines.iter_mut().filter(|line| OPENS.contains(&line.name)) {
            line.conditions.clear();
        }
        lines.dedup();
    }
    let calls = count(&lines);
    let program = compile(&lines, arch)?;
    apply_filter(&program).map_err(|error| error.to_string())?;
    Ok(Filtered { calls })
}

/// Refuses io_uring_setup(2) to all threads of the process.
///
/// # Errors
/// Why the filter failed, in words.
pub(super) fn refuse_rings() -> Result<(), String> {
    let arch = TargetArch::try_from(ARCH).map_err(|_| format!("no filter is made for {ARCH}"))?;
    let refused = json!({ "errno": Errno::NOSYS.raw_os_error() });
    let program = program(
        json!({
            "mismatch_action": "allow", "match_action": refused, "filter": [{ "syscall": "io_uring_setup" }]
        }),
        arch,
    )?;
    apply_filter_all_threads(&program).map_err(|error| error.to_string())
}

/// One line of the list: a call, and the arguments for which it is allowed.
#[derive(Debug, PartialEq, Eq)]
struct FilterLine<'a> {
    name: &'a str,
    conditions: Vec<Condition>,
}

/// A condition on one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Equals {
        argument: u8,
        value: u64,
    },
    /// The bits of `mask` have this value.
    Bits {
        argument: u8,
        mask: u64,
        value: u64,
    },
}

/// Parses the list. `pid` and `sealed`, the address of the sealed arguments, replace these words in
/// it. Lines of other processors are left out.
///
/// # Panics
/// The list is malformed, which a test would have noticed.
fn parse(text: &str, pid: u64, sealed: u64) -> Vec<FilterLine<'_>> {
    let number = |text: &str| match (text, text.strip_prefix("0x")) {
        ("pid", _) => pid,
        ("sealed", _) => sealed,
        ("slot", _) => SealedOpens::MASK,
        (_, Some(digits)) => u64::from_str_radix(digits, 16).expect("a number"),
        _ => text.parse().expect("a number"),
    };
    let condition = |word: &str| {
        if let Some((argument, bits)) = word.split_once('&') {
            let (mask, value) = bits.split_once('=').unwrap_or((bits, bits));
            let argument = argument.parse().expect("an argument");
            Condition::Bits { argument, mask: number(mask), value: number(value) }
        } else {
            let (argument, value) = word.split_once('=').expect("a condition");
            Condition::Equals { argument: argument.parse().expect("an argument"), value: number(value) }
        }
    };
    let mut lines = Vec::new();
    for text in text.lines() {
        let (words, _reason) = text.split_once('#').unwrap_or((text, ""));
        let mut words = words.split_ascii_whitespace().peekable();
        let Some(name) = words.next() else { continue };
        if words.next_if_eq(&"x86_64").is_none() || ARCH == "x86_64" {
            lines.push(FilterLine { name, conditions: words.map(condition).collect() });
        }
    }
    lines
}

/// The number of calls that the lines allow, each counted once.
fn count(lines: &[FilterLine<'_>]) -> usize {
    let mut names: Vec<&str> = lines.iter().map(|line| line.name).collect();
    names.dedup();
    names.len()
}

fn compile(lines: &[FilterLine<'_>], arch: TargetArch) -> Result<BpfProgram, String> {
    let rules: Vec<Value> = lines.iter().map(rule).collect();
    let refused = json!({ "errno": Errno::NOSYS.raw_os_error() });
    program(json!({ "mismatch_action": refused, "match_action": "allow", "filter": rules }), arch)
}

fn program(filter: Value, arch: TargetArch) -> Result<BpfProgram, String> {
    let filters = json!({ "server": filter });
    let mut programs =
        compile_from_json(filters.to_string().as_bytes(), arch).map_err(|error| error.to_string())?;
    programs.remove("server").ok_or_else(|| "it was not made".to_owned())
}

fn rule(FilterLine { name, conditions }: &FilterLine<'_>) -> Value {
    if conditions.is_empty() {
        return json!({ "syscall": name });
    }
    let arguments: Vec<Value> = conditions
        .iter()
        .map(|condition| match condition {
            Condition::Equals { argument, value } => {
                json!({ "index": argument, "type": "dword", "op": "eq", "val": value })
            }
            Condition::Bits { argument, mask, value } => {
                json!({ "index": argument, "type": "qword", "op": { "masked_eq": mask }, "val": value })
            }
        })
        .collect();
    json!({ "syscall": name, "args": arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls by which a captured process would leave its bounds, or take over another process or
    /// the machine.
    const NEVER: [&str; 32] = [
        "execve",
        "execveat",
        "fork",
        "vfork",
        "clone3",
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "pidfd_getfd",
        "pidfd_open",
        "pidfd_send_signal",
        "mount",
        "umount2",
        "move_mount",
        "open_tree",
        "fsopen",
        "fsmount",
        "pivot_root",
        "chroot",
        "unshare",
        "setns",
        "init_module",
        "finit_module",
        "delete_module",
        "kexec_load",
        "kexec_file_load",
        "reboot",
        "setuid",
        "setresuid",
        "capset",
        "keyctl",
        "userfaultfd",
    ];

    /// Calls that are allowed for some arguments only.
    const BOUNDED: [&str; 12] = [
        "bpf",
        "clone",
        "ioctl",
        "kill",
        "openat",
        "openat2",
        "prctl",
        "sched_setscheduler",
        "seccomp",
        "socket",
        "socketpair",
        "tgkill",
    ];

    #[test]
    fn list_is_sorted_and_compiles() {
        let lines = parse(CALLS, 1, 0);
        let arch = TargetArch::try_from(ARCH).expect("known");
        compile(&lines, arch).expect("every name is a system call");
        assert!(lines.is_sorted_by_key(|line| line.name));
    }

    #[test]
    fn list_has_no_call_that_leaves_the_sandbox() {
        for line in parse(CALLS, 1, 0) {
            assert!(!NEVER.contains(&line.name), "{}", line.name);
            let is_bounded = BOUNDED.contains(&line.name);
            assert_eq!(is_bounded, !line.conditions.is_empty(), "{}", line.name);
        }
    }

    #[test]
    fn line_has_name_conditions_and_reason() {
        let lines =
            parse("# all\n\nread\nkill 0=pid # why\nsocket 0=2 1&0x800\nopenat2 2&0xf0=sealed\n", 7, 0x40);
        let [read, kill, socket, open] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(*read, FilterLine { name: "read", conditions: Vec::new() });
        assert_eq!(
            *kill,
            FilterLine { name: "kill", conditions: vec![Condition::Equals { argument: 0, value: 7 }] }
        );
        let both = vec![
            Condition::Equals { argument: 0, value: 2 },
            Condition::Bits { argument: 1, mask: 0x800, value: 0x800 },
        ];
        assert_eq!(*socket, FilterLine { name: "socket", conditions: both });
        let sealed = vec![Condition::Bits { argument: 2, mask: 0xf0, value: 0x40 }];
        assert_eq!(*open, FilterLine { name: "openat2", conditions: sealed });
        assert_eq!(count(&lines), 4);
    }
}
