//! The work of a Vermeil server during a recording: requests, runs of colors and steals of each
//! core, bytes of bodies, read over the control socket.

use std::path::PathBuf;
use vermeil_ops::{
    control_client::{StatusForm, ask_status},
    status::ServerStatus,
};
use vermeil_profile::WorkCounts;

/// A server that is asked for its status.
pub(super) struct ServerWork {
    control: PathBuf,
    /// The cpu of each core, in the order of the first answer.
    cpus: Vec<u32>,
}

impl ServerWork {
    /// Asks the server at `control` for the first time. Returns also the process at the root of
    /// the server's process tree.
    ///
    /// # Errors
    /// The server does not answer, in words.
    pub(super) fn open(control: PathBuf) -> Result<(Self, i32), String> {
        let mut work = Self { control, cpus: Vec::new() };
        let status = work.status()?;
        let cores = status.instances.iter().flat_map(|instance| &instance.cores);
        work.cpus = cores.map(|core| core.cpu as u32).collect();
        Ok((work, root_of(status.pid as i32)))
    }

    fn status(&self) -> Result<ServerStatus, String> {
        let json = ask_status(Some(&self.control), StatusForm::Json).map_err(|error| error.to_string())?;
        serde_json::from_str(&json).map_err(|error| {
            let control = self.control.display();
            format!("{control}: not the status of a server of this version: {error}")
        })
    }
}

impl WorkCounts for ServerWork {
    fn columns(&self) -> Vec<(String, Option<u32>)> {
        let of_cores = ["requests", "runs of colors", "steals"]
            .into_iter()
            .flat_map(|name| self.cpus.iter().map(move |cpu| (name.to_owned(), Some(*cpu))));
        of_cores.chain([("bytes of bodies".to_owned(), None)]).collect()
    }

    fn read(&mut self) -> Result<Vec<u64>, String> {
        let status = self.status()?;
        let cores: Vec<_> = status.instances.iter().flat_map(|instance| &instance.cores).collect();
        if cores.len() != self.cpus.len() {
            return Err("an instance of the server did not answer".to_owned());
        }
        let bytes = status.instances.iter().map(|instance| instance.answers.body_bytes).sum();
        let requests = cores.iter().map(|core| core.requests);
        let runs = cores.iter().map(|core| core.activations);
        let steals = cores.iter().map(|core| core.steals);
        Ok(requests.chain(runs).chain(steals).chain([bytes]).collect())
    }
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
