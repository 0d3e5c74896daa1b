//! `vermeil sim machines` and `vermeil sim workloads`: list the shipped descriptions, or print the
//! text of a single description as a template.

use super::given::SimUsage;
use crate::{Exit, print};
use clap::Args;
use vermeil_sim::report::Table;

/// List the shipped machines, or print the description of a machine as a template.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(super::EXAMPLES))]
pub(super) struct MachinesArgs {
    /// Print only the description with this name
    ///
    /// Default: a list of all names.
    #[arg(value_name = "MACHINE")]
    name: Option<String>,
}

/// List the shipped workloads, or print the description of a workload as a template.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(super::EXAMPLES))]
pub(super) struct WorkloadsArgs {
    /// Print only the description with this name
    ///
    /// Default: a list of all names.
    #[arg(value_name = "WORKLOAD")]
    name: Option<String>,
}

impl MachinesArgs {
    /// Lists.
    pub(super) fn run(self) -> Exit {
        said(match &self.name {
            Some(name) => vermeil_sim::profile_text(name).map(str::to_owned),
            None => machines(),
        })
    }
}

impl WorkloadsArgs {
    /// Lists.
    pub(super) fn run(self) -> Exit {
        said(match &self.name {
            Some(name) => vermeil_sim::workload_text(name).map(str::to_owned),
            None => workloads(),
        })
    }
}

fn said(text: Result<String, vermeil_sim::SimError>) -> Exit {
    match text.map_err(SimUsage::from) {
        Ok(text) => print::result(&text),
        Err(error) => print::failure(&error, error.exit()),
    }
}

fn machines() -> Result<String, vermeil_sim::SimError> {
    let mut table = Table::new(&["machine", "cores", "nodes"]);
    let mut about = String::new();
    for name in vermeil_sim::profiles() {
        let machine = vermeil_sim::profile(name)?;
        table.row([name.to_owned(), machine.cores().to_string(), machine.nodes().to_string()]);
        about += &format!("{name}: {}\n", machine.about());
    }
    Ok(format!("{table}\n{about}"))
}

fn workloads() -> Result<String, vermeil_sim::SimError> {
    let line = |name| Ok(format!("{name}: {}\n", vermeil_sim::workload(name)?.about()));
    vermeil_sim::workloads().map(line).collect()
}
