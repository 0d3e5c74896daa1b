//! The processes of a Vermeil server, found by the control socket. Leaves out the counts of the
//! server's work, which the profiler reads from the memory of these processes.

use std::path::Path;
use vermeil_ops::{
    control_client::{StatusForm, ask_status},
    status::ServerStatus,
};

/// The process at the root of the process tree of the server at `control`.
///
/// # Errors
/// The server does not answer, in words.
pub(super) fn server_at(control: &Path) -> Result<i32, String> {
    let json = ask_status(Some(control), StatusForm::Json).map_err(|error| error.to_string())?;
    let status: ServerStatus = serde_json::from_str(&json).map_err(|error| {
        format!("{}: not the status of a server of this version: {error}", control.display())
    })?;
    Ok(root_of(status.pid as i32))
}

/// The outermost ancestor of a process that runs the same program: a server with several processes
/// answers from one of them.
fn root_of(pid: i32) -> i32 {
    let program = |pid: i32| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let parent = |pid: i32| -> Option<i32> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    let own = program(pid);
    let is_same = |pid: &i32| own.is_some() && program(*pid) == own;
    std::iter::successors(Some(pid), |pid| parent(*pid).filter(is_same)).last().unwrap_or(pid)
}
