//! `vermeil steer`: which flow lands on which core of this machine; planned, carried out, verified
//! and undone.
//!
//! This file owns the order of a command's steps. First the command completes the undo of a killed
//! command. Plans are only printed, except with `apply`. Changes with a confirmation deadline have
//! a separate process that takes the changes back. Leaves out planning and setting, which belong to
//! the steer crate, and the commands that act as long as their process lives (`steer/xdp.rs`).
//! Tested in `tests/steer`, on software cards in a network namespace.

mod xdp;

use crate::usage::UsageError;
use crate::values::{Span, parse_cores};
use crate::{Exit, print};
use clap::{Args, ValueEnum, ValueHint};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use vermeil_config::Surroundings;
use vermeil_steer::{
    CardKernel, CardNetwork, LiveKernel, PlanRequest, Queues, RecordedCard, Recovered, STATE_FOLDER,
    StateStore, SteerError, SteerPlan, Steering, System, advise, now, plan, read, render, verify,
};
use vermeil_topology::{Allowed, CoreSelection, Machine, sysfs};

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &[
    "vermeil steer",
    "vermeil steer plan --cores 0-7 --nic eth0 --json",
    "vermeil steer apply --confirm 30s",
    "vermeil steer confirm",
    "vermeil steer verify --port 443 --time 10s",
    "vermeil steer undo",
    "vermeil steer compare --nic eth0 --cores 0-3 --time 20s",
    "vermeil steer xdp --nic eth0 --cores 0-3",
];

/// How often the guard process checks whether the changes were confirmed. No user waits for the
/// guard, and five wake-ups per second cost nothing measurable.
const GUARD_LOOK: Duration = Duration::from_millis(200);

/// Default measuring time of verify and compare.
const TIME: Duration = Duration::from_secs(5);

/// The action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SteerAction {
    /// Print the changes with their reasons; change nothing
    Plan,
    /// Make all changes or none, after saving the old values
    Apply,
    /// Keep the changes of `apply --confirm`
    Confirm,
    /// Measure under traffic which cpus handle and read packets
    Verify,
    /// Restore the old values exactly
    Undo,
    /// Spread a card's flows over the cores in front of the stack (XDP), until SIGINT or SIGTERM
    Xdp,
    /// Measure under traffic whether XDP costs less than spreading in the stack (RPS)
    Compare,
    /// Undo changes that are not confirmed in time
    #[value(hide = true)]
    Guard,
}

/// Whether the number of a card's queues may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum QueueChoice {
    /// A queue for each core, up to the number that the card supports; the link goes down for a
    /// moment
    Fit,
    /// Keep the present number
    Keep,
}

/// Bring each flow's packets, interrupts and consumer to a single core of the card's memory node.
///
/// Reads network cards, queues, interrupts and steering tables, and prints the changes for a server
/// on these cores, each with its reason. Only `apply` changes settings. The old values are saved on
/// disk first. A failure undoes all changes, and `undo` restores every value. The output names each
/// missing function of a card's driver.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES))]
pub(crate) struct SteerArgs {
    /// The action
    #[arg(value_enum, value_name = "WHAT", default_value = "plan")]
    action: SteerAction,

    /// With plan, apply, xdp and compare: the cpus of the server's cores, as for `vermeil serve
    /// --cores`: all, a number, or a list
    ///
    /// Default: all.
    #[arg(long, value_name = "LIST|N|all", value_parser = parse_cores)]
    cores: Option<CoreSelection>,

    /// With plan, apply, xdp and compare: a card to steer; may be repeated, but not with xdp and
    /// compare
    ///
    /// Default: every card with a device that is up. Cards made by software (veth) are steered only
    /// when named.
    #[arg(long, value_name = "NAME")]
    nic: Vec<String>,

    /// With plan, apply and compare: whether the number of a card's queues may change
    ///
    /// Default: fit.
    #[arg(long, value_enum, value_name = "CHOICE")]
    queues: Option<QueueChoice>,

    /// With apply: undo all changes unless `vermeil steer confirm` follows within this time, in
    /// seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. The undo also happens if this command is killed, because a separate process
    /// waits, and every other `vermeil steer` command checks the deadline. Default: changes stay
    /// until `undo`.
    #[arg(long, value_name = "TIME")]
    confirm: Option<Span>,

    /// With verify: count only reads from sockets of this local port
    ///
    /// Default: every TCP connection of the machine counts.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// With verify and compare: how long to measure, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Default: 5s.
    #[arg(long, value_name = "TIME")]
    time: Option<Span>,

    /// With xdp and compare: where the program runs
    ///
    /// Default: auto.
    #[arg(long, value_enum, value_name = "PLACE")]
    xdp: Option<xdp::Xdp>,

    /// The folder with the saved old values, until an undo
    #[arg(long, value_name = "DIR", default_value = STATE_FOLDER, value_hint = ValueHint::DirPath)]
    state: PathBuf,

    /// With plan: a recorded machine instead of this one
    ///
    /// A folder with copies of the needed files of /sys and /proc, and
    /// `ethtool/NIC/{driver,channels,rss}`. Default: this machine.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    root: Option<PathBuf>,

    /// Write JSON instead of text
    ///
    /// Default: text.
    #[arg(long)]
    json: bool,
}

/// Why the command ends.
#[derive(Debug, thiserror::Error)]
enum SteerFailure {
    #[error("{0}")]
    Usage(#[from] UsageError),
    #[error("{0}")]
    Steer(#[from] SteerError),
    #[error("name the one card whose packets are to be spread: --nic NAME")]
    OneCard,
    #[error("{0} is gone, and with it the program; nothing is left to undo")]
    Gone(String),
    #[error("{option} goes with `vermeil steer {action}` only")]
    Misplaced { option: &'static str, action: String },
}

impl SteerFailure {
    fn exit(&self) -> Exit {
        match self {
            Self::Usage(error) => error.exit(),
            Self::Misplaced { .. } | Self::OneCard | Self::Steer(SteerError::NoSuchNic { .. }) => Exit::Usage,
            Self::Steer(
                SteerError::Sysfs { .. }
                | SteerError::State { .. }
                | SteerError::Blocked(_)
                | SteerError::Classify { .. }
                | SteerError::Spread { .. },
            ) => Exit::CannotStart,
            Self::Gone(_) | Self::Steer(_) => Exit::Failed,
        }
    }
}

impl SteerArgs {
    /// Runs the action.
    pub(crate) fn run(self) -> Exit {
        match self.result() {
            Ok(text) => print::result(&text),
            Err(error) => print::failure(&error, error.exit()),
        }
    }

    fn result(&self) -> Result<String, SteerFailure> {
        self.refuse_misplaced()?;
        let kernel: Box<dyn CardKernel> = match &self.root {
            Some(root) => Box::new(RecordedCard::new(root)),
            None => Box::new(LiveKernel),
        };
        let system = System { root: self.root().to_owned(), kernel: &*kernel };
        let store = StateStore::new(&self.state, self.root());
        let steering = Steering { settings: &system, store: &store };
        if self.action == SteerAction::Guard {
            self.guard(&steering)?;
            return Ok(String::new());
        }
        let recovers = self.root.is_none() && self.action != SteerAction::Undo;
        let recovered = if recovers { self.recover(&steering) } else { Ok(()) };
        match self.action {
            SteerAction::Plan => {
                let mut plan = self.plan(&*kernel, &[])?.1;
                if recovers {
                    self.add_what_is_remembered(recovered, &mut plan, &store)?;
                }
                Ok(self.text(&plan, render::plan))
            }
            _ => recovered.and_then(|()| self.act(&*kernel, &steering, &system)),
        }
    }

    /// Adds the results of an earlier measurement. A user without permission to read the results
    /// still gets a plan.
    fn add_what_is_remembered(
        &self,
        recovered: Result<(), SteerFailure>,
        plan: &mut SteerPlan,
        store: &StateStore,
    ) -> Result<(), SteerFailure> {
        match recovered.and_then(|()| Ok(advise(plan, store)?)) {
            Err(SteerFailure::Steer(SteerError::State { path, source, .. }))
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                let path = path.display();
                plan.notes
                    .push(format!("whether anything is in force is not known: cannot read {path}: {source}"));
                Ok(())
            }
            result => result,
        }
    }

    /// Does all but planning.
    fn act(
        &self,
        kernel: &dyn CardKernel,
        steering: &Steering<'_>,
        system: &System<'_>,
    ) -> Result<String, SteerFailure> {
        match self.action {
            SteerAction::Apply => {
                let mut again = |cards: &[String]| self.plan(kernel, cards).map_err(into_steer);
                let confirm = self.confirm.map(Duration::from);
                let mut guard = || if self.confirm.is_some() { self.start_guard() } else { Ok(()) };
                let applied = steering.apply(&mut again, confirm, &mut guard)?;
                Ok(self.text(&applied, render::applied) + &self.remaining())
            }
            SteerAction::Confirm => {
                steering.confirm(now())?;
                Ok(self.done("kept until undone\n"))
            }
            SteerAction::Verify => {
                let network = read(self.root(), kernel)?;
                let time = self.time();
                let mut wait = || {
                    thread::sleep(time);
                    time
                };
                let verified = verify(self.root(), &network, system, steering.store, self.port, &mut wait)?;
                Ok(self.text(&verified, render::verified))
            }
            SteerAction::Undo => Ok(self.text(&steering.undo()?, render::restored)),
            SteerAction::Xdp => self.classify(kernel),
            SteerAction::Compare => self.compare(kernel, steering),
            SteerAction::Plan | SteerAction::Guard => unreachable!("done before"),
        }
    }

    fn refuse_misplaced(&self) -> Result<(), SteerFailure> {
        let only = |given: bool, option, of: &[SteerAction]| match given && !of.contains(&self.action) {
            true => Err(SteerFailure::Misplaced { option, action: names(of) }),
            false => Ok(()),
        };
        let planning = [SteerAction::Plan, SteerAction::Apply, SteerAction::Compare, SteerAction::Xdp];
        only(!self.nic.is_empty(), "--nic", &planning)?;
        only(self.cores.is_some(), "--cores", &planning)?;
        only(self.queues.is_some(), "--queues", &planning[..3])?;
        only(self.confirm.is_some(), "--confirm", &[SteerAction::Apply])?;
        only(self.port.is_some(), "--port", &[SteerAction::Verify])?;
        only(self.time.is_some(), "--time", &[SteerAction::Verify, SteerAction::Compare])?;
        only(self.xdp.is_some(), "--xdp", &[SteerAction::Xdp, SteerAction::Compare])?;
        only(self.root.is_some(), "--root", &[SteerAction::Plan])
    }

    fn cores(&self) -> &CoreSelection {
        self.cores.as_ref().unwrap_or(&CoreSelection::All)
    }

    fn time(&self) -> Duration {
        self.time.map_or(TIME, Duration::from)
    }

    fn root(&self) -> &Path {
        self.root.as_deref().unwrap_or(Path::new("/"))
    }

    /// Plans for `cards`; if empty, for the cards of `--nic`.
    fn plan(
        &self,
        kernel: &dyn CardKernel,
        cards: &[String],
    ) -> Result<(CardNetwork, SteerPlan), SteerFailure> {
        let (machine, allowed) = self.machine()?;
        let network = read(self.root(), kernel)?;
        let request = PlanRequest {
            cores: self.cores().resolve(&machine, &allowed).map_err(UsageError::from)?,
            nics: if cards.is_empty() { self.nic.clone() } else { cards.to_vec() },
            queues: match self.queues.unwrap_or(QueueChoice::Fit) {
                QueueChoice::Fit => Queues::Fit,
                QueueChoice::Keep => Queues::Keep,
            },
        };
        let plan = plan(&machine, &network, &request)?;
        Ok((network, plan))
    }

    fn machine(&self) -> Result<(Machine, Allowed), UsageError> {
        let Some(root) = &self.root else {
            let Surroundings { machine, allowed, .. } = Surroundings::here()?;
            return Ok((machine, allowed));
        };
        let machine = sysfs::read(root)?;
        let allowed = Allowed::everything(&machine);
        Ok((machine, allowed))
    }

    fn recover(&self, steering: &Steering<'_>) -> Result<(), SteerFailure> {
        let (why, restored) = match steering.recover(now())? {
            Recovered::Nothing => return Ok(()),
            Recovered::Interrupted(restored) => ("an earlier command was interrupted", restored),
            Recovered::Unconfirmed(restored) => ("no confirmation came in time", restored),
        };
        print::failure(
            &format_args!(
                "{why}; the former settings are restored ({}){}",
                restored.settings.len(),
                render::but_for(&restored.gone)
            ),
            Exit::Clean,
        );
        Ok(())
    }

    /// Starts a process that outlives this process, and that takes the changes back unless the user
    /// confirms.
    fn start_guard(&self) -> io::Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        // The guard has another current folder than this command, so the path must be absolute.
        command.args(["steer", "guard", "--state"]).arg(std::path::absolute(&self.state)?);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        command.spawn().map(drop)
    }

    fn guard(&self, steering: &Steering<'_>) -> Result<(), SteerFailure> {
        // The guard leaves the terminal of the command, because the changes may have cut the
        // terminal's connection.
        let _ = rustix::process::setsid();
        while let Some(deadline) = steering.store.load()?.and_then(|state| state.confirm_by) {
            if deadline <= now() {
                steering.recover(now())?;
            } else {
                thread::sleep(GUARD_LOOK.min(deadline.saturating_sub(now())));
            }
        }
        Ok(())
    }

    fn remaining(&self) -> String {
        match self.confirm {
            Some(time) if !self.json => {
                format!("taken back in {time} unless you say `vermeil steer confirm`\n")
            }
            _ => String::new(),
        }
    }

    fn text<T: Serialize>(&self, what: &T, render: impl Fn(&T) -> String) -> String {
        if !self.json {
            return render(what);
        }
        serde_json::to_string_pretty(what).expect("our own types are JSON") + "\n"
    }

    fn done(&self, text: &str) -> String {
        if self.json { "{}\n".to_owned() } else { text.to_owned() }
    }
}

/// The names of the actions on the command line.
fn names(actions: &[SteerAction]) -> String {
    let name = |action: &SteerAction| action.to_possible_value().map(|value| value.get_name().to_owned());
    let names = actions.iter().filter_map(name).collect::<Vec<_>>();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// A failure of a plan between changes becomes an error of the steer crate.
fn into_steer(failure: SteerFailure) -> SteerError {
    match failure {
        SteerFailure::Steer(error) => error,
        other => SteerError::Blocked(vec![other.to_string()]),
    }
}
