//! `vermeil steer xdp` and `vermeil steer compare`: an XDP program spreads a card's flows in front
//! of the network stack during the life of this process. The comparison shows whether the program
//! costs less than RPS.
//!
//! This file owns the end of the program: with a signal, with the card, or when packets are lost or
//! damaged. The kernel removes the program with the process, also if the process is killed. Tested
//! in `tests/steer/xdp.rs`.

use super::{SteerArgs, SteerFailure};
use crate::{Exit, print};
use clap::ValueEnum;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use vermeil_steer::{
    CardKernel, ChecksumWatch, Classifier, Nic, PlaceChoice, ProgramPosition, ROUNDS, SteerError, Steering,
    compare, read, render,
};
use vermeil_topology::CpuSet;

use crate::usage::UsageError;

/// How often the process checks for a signal, and whether packets arrive intact: five wake-ups per
/// second, and an end within a fifth of a second.
const LOOK: Duration = Duration::from_millis(200);

/// Where the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Xdp {
    /// In the driver if supported, and if packets arrive undamaged (not veth), else in the stack
    #[default]
    Auto,
    /// In the driver, or refuse to start
    Native,
    /// In the stack, before all other processing; works with every driver
    Generic,
}

impl Xdp {
    fn choice(self) -> PlaceChoice {
        match self {
            Self::Auto => PlaceChoice::Auto,
            Self::Native => PlaceChoice::Only(ProgramPosition::Native),
            Self::Generic => PlaceChoice::Only(ProgramPosition::Generic),
        }
    }
}

impl SteerArgs {
    /// Spreads the flows of a card until a signal arrives; returns a summary.
    pub(super) fn classify(&self, kernel: &dyn CardKernel) -> Result<String, SteerFailure> {
        let (nic, cpus) = self.card(kernel)?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register(signal, stop.clone())
                .map_err(|source| SteerError::Classify { nic: nic.name.clone(), source })?;
        }
        let mut checksums = ChecksumWatch::start(self.root());
        let classifier = Classifier::attach(&nic, &cpus, self.xdp.unwrap_or_default().choice())?;
        print::failure(
            &format_args!(
                "{} ({}): XDP, {}, hands each flow to one of cpus {cpus}; SIGINT or SIGTERM ends it",
                nic.name,
                nic.driver,
                render::place_name(classifier.place())
            ),
            Exit::Clean,
        );
        let place = self.root().join("sys/class/net").join(&nic.name);
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
            checksums.look(&nic, &classifier)?;
            if !place.exists() {
                return Err(SteerFailure::Gone(nic.name));
            }
        }
        Ok(self.text(&classifier.counts(), render::classified))
    }

    /// Measures RPS and XDP in turn on a card.
    pub(super) fn compare(
        &self,
        kernel: &dyn CardKernel,
        steering: &Steering<'_>,
    ) -> Result<String, SteerFailure> {
        let (nic, cpus) = self.card(kernel)?;
        let length = self.time() / (2 * ROUNDS);
        let mut window = || {
            thread::sleep(length);
            length
        };
        let mut plan = |cards: &[String]| self.plan(kernel, cards).map_err(super::into_steer);
        let mut guard = || self.start_guard();
        let asked = (&nic, &cpus, self.xdp.unwrap_or_default().choice());
        let comparison = compare(self.root(), asked, steering, &mut plan, &mut guard, (length, &mut window))?;
        Ok(self.text(&comparison, render::compared))
    }

    /// The named card, whose packets no program spreads yet, and the cpus for its flows.
    fn card(&self, kernel: &dyn CardKernel) -> Result<(Nic, CpuSet), SteerFailure> {
        let [name] = &self.nic[..] else { return Err(SteerFailure::OneCard) };
        let network = read(self.root(), kernel)?;
        let present = network.nics.iter().map(|nic| nic.name.clone()).collect();
        let nic = network.nics.into_iter().find(|nic| nic.name == *name);
        let nic = nic.ok_or_else(|| SteerError::NoSuchNic { name: name.clone(), present })?;
        if nic.rx.iter().any(|rx| rx.rps.as_ref().is_some_and(|cpus| !cpus.is_empty())) {
            return Err(SteerError::Spread { nic: nic.name }.into());
        }
        let (machine, allowed) = self.machine()?;
        let cores = self.cores().resolve(&machine, &allowed).map_err(UsageError::from)?;
        Ok((nic, cores.into_iter().collect()))
    }
}
