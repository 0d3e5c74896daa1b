//! `vermeil load` as the load of other benches: one run with its record, or other clients in the
//! background.

use std::process::{Child, Command, Stdio};

use vermeil_load::report::Record;

use super::injectors::said_by;
use crate::{BenchError, BenchResult};

/// Runs a command of the load, and reads its record.
///
/// # Errors
/// The load cannot be run, or its output is no record.
pub(crate) fn record_of(command: &mut Command) -> BenchResult<Record> {
    // 5: the injector was the limit, which changes no cpu time of the server.
    let said = said_by(command, &[0, 5])?;
    Record::from_json(&said).map_err(|problem| BenchError::form("vermeil load", problem))
}

/// Clients that load a server until they are stopped; killed when dropped.
pub(crate) struct OtherClients(Option<Child>);

impl OtherClients {
    /// Starts the load in the background.
    pub(crate) fn begin(command: &mut Command) -> BenchResult<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Self(Some(command.spawn().map_err(BenchError::thing("run", "vermeil load"))?)))
    }

    /// Interrupts the clients, and returns their record.
    pub(crate) fn end(mut self) -> BenchResult<Record> {
        let child = self.0.take().expect("ended once");
        // The child is not yet waited for, so the id is valid.
        let _ended_already = rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::INT,
        );
        let output = child.wait_with_output().map_err(BenchError::thing("wait for", "vermeil load"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        Record::from_json(&said).map_err(|problem| BenchError::form("vermeil load", problem))
    }
}

impl Drop for OtherClients {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // The process may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
