//! Compares the simulator with the real runtime: the same programs under the same policies, on this
//! machine and on its description.
//!
//! Contains the selection of programs (`script`), the runs (`compare`), the cpu time of other
//! programs (`others`) and the conclusions (`finding`). Policies whose real runs overlap are ties,
//! so only policies that the real runs distinguish test the simulator's ranking. Leaves out the
//! programs (`vermeil_programs`), the description (`vermeil_calibrate`) and both schedulers. Tested
//! in `finding.rs` on invented numbers and in `compare.rs` at smoke size; no test asserts a time.

mod compare;
mod finding;
mod others;
mod script;

pub use compare::{CompareOptions, POLICIES, compare};
pub use finding::{Better, Finding, PolicyLine};
pub use script::{RunSize, Script};

/// The errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParityError {
    /// The runtime does not start on these cpus.
    #[error("cannot start the runtime: {0}")]
    Runtime(String),
    /// The description is of another machine.
    #[error(
        "the machine described has {described} cores, and this process may use {here} cpus; describe this one with `vermeil sim calibrate`"
    )]
    OtherMachine {
        /// Cores of the description.
        described: usize,
        /// Cpus of this process.
        here: usize,
    },
    /// A program of the simulator does not compile.
    #[error("{0}")]
    Sim(#[from] vermeil_sim::SimError),
}
