//! `vermeil topo`: draws a machine, and the cpus that a server would use.
//!
//! Leaves out reading and drawing, which belong to the topology crate. Tested in `topo/tests.rs`.

mod plan;

#[cfg(test)]
mod tests;

use crate::usage::UsageError;
use crate::values::parse_cores;
use crate::{Exit, print};
use clap::{Args, ValueHint};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use vermeil_config::Surroundings;
use vermeil_topology::{Allowed, CoreSelection, CpuId, InstanceSelection, Machine, render, synthetic, xml};

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &[
    "vermeil topo",
    "vermeil topo --cores 4",
    "vermeil topo --plan",
    "vermeil topo --synthetic 'node:2 l3:2 core:4 pu:2' --json",
    "lstopo --of xml - | vermeil topo --from -",
];

/// Draw the machine: memory nodes, caches, cores, and the cpus this process may use.
///
/// Draws this machine or a described machine. The description is an hwloc export (`lstopo --of xml
/// FILE.xml`), or a text in hwloc's synthetic notation, from the outside to the inside, for example
/// "node:4 l3:1 core:4 pu:1".
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES))]
pub(crate) struct TopoArgs {
    /// Draw the machine of an hwloc XML export instead; - reads standard input
    ///
    /// Default: this machine, from /sys. On a described machine every cpu is allowed.
    #[arg(long, value_name = "FILE.xml", conflicts_with = "synthetic", value_hint = ValueHint::FilePath)]
    from: Option<PathBuf>,

    /// Draw the machine that a text describes instead
    ///
    /// Default: this machine, from /sys. On a described machine every cpu is allowed.
    #[arg(long, short, value_name = "TEXT")]
    synthetic: Option<String>,

    /// Also print the cpus that `vermeil serve --cores` would use, in order: all, a number, or a
    /// list
    ///
    /// Default: not printed.
    #[arg(long, value_name = "LIST|N|all", value_parser = parse_cores)]
    cores: Option<CoreSelection>,

    /// The number of processes for these cores, as for `vermeil serve --instances`: per-node, one,
    /// or a number
    #[arg(long, value_name = "per-node|N|one", default_value_t = InstanceSelection::PerNode)]
    instances: InstanceSelection,

    /// Write the instances of a server as JSON instead of a drawing
    ///
    /// A list of objects with `instance`, `cpus`, `nodes`, `memory_bytes` of these nodes, and
    /// `queues`, the receive queues of cards whose interrupts come to these cpus, each with `nic`
    /// and `queue`. Default: a drawing.
    #[arg(long, conflicts_with = "json")]
    plan: bool,

    /// Write JSON instead of a drawing
    ///
    /// An object with `machine`, `allowed` (cpus, limit and their sources), `cores` (the number
    /// that a server would use), and with --cores also `chosen`, the cpus in order. Default: a
    /// drawing.
    #[arg(long)]
    json: bool,
}

impl TopoArgs {
    /// Draws.
    pub(crate) fn run(self) -> Exit {
        match self.text() {
            Ok(text) => print::result(&text),
            Err(error) => print::failure(&error, error.exit()),
        }
    }

    fn text(&self) -> Result<String, UsageError> {
        let (machine, allowed) = self.machine()?;
        let chosen = match &self.cores {
            Some(cores) => Some(cores.resolve(&machine, &allowed)?),
            None => None,
        };
        if self.json {
            return Ok(json(&machine, &allowed, chosen.as_deref()));
        }
        let cpus = match &chosen {
            Some(cpus) => cpus.clone(),
            None => CoreSelection::All.resolve(&machine, &allowed)?,
        };
        let instances = self.instances.divide(&machine, &cpus);
        let is_here = self.from.is_none() && self.synthetic.is_none();
        let plan = plan::of(&machine, &instances, if is_here { plan::cards() } else { Vec::new() });
        Ok(match self.plan {
            true => plan::to_json(&plan),
            false => {
                render::tree(&machine, &allowed) + &plan::to_text(&plan) + &chosen_line(chosen.as_deref())
            }
        })
    }

    fn machine(&self) -> Result<(Machine, Allowed), UsageError> {
        let machine = match (&self.from, &self.synthetic) {
            (Some(path), _) => {
                let text =
                    read(path).map_err(|source| UsageError::MachineFile { path: path.clone(), source })?;
                xml::parse(&text)?
            }
            (None, Some(text)) => synthetic::parse(text)?,
            (None, None) => {
                let Surroundings { machine, allowed, .. } = Surroundings::here()?;
                return Ok((machine, allowed));
            }
        };
        let allowed = Allowed::everything(&machine);
        Ok((machine, allowed))
    }
}

fn read(path: &Path) -> io::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(path)
}

fn chosen_line(chosen: Option<&[CpuId]>) -> String {
    let Some(chosen) = chosen else { return String::new() };
    let cpus: Vec<_> = chosen.iter().map(CpuId::to_string).collect();
    format!("chosen: cpus {}\n", cpus.join(", "))
}

fn json(machine: &Machine, allowed: &Allowed, chosen: Option<&[CpuId]>) -> String {
    let mut text = render::to_json(machine, allowed);
    if let Some(chosen) = chosen {
        let mut report: serde_json::Value = serde_json::from_str(&text).expect("our own JSON");
        report["chosen"] = chosen.iter().map(|cpu| cpu.0).collect();
        text = serde_json::to_string_pretty(&report).expect("a value is JSON");
    }
    text + "\n"
}
