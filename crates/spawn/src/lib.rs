//! The small process that starts other processes, and its client.
//!
//! `fork` copies the page tables of the calling process, and even `vfork` copies its table of
//! descriptors. Therefore a server that holds gigabytes and thousands of connections pays
//! milliseconds for each program. So a server calls [`start`] before the server grows. That call
//! forks the **keeper**, which waits for [`Profile`]s and then forks the **spawner**:
//!
//! ```text
//! server ── control ──▶ keeper ── forks, and forks again when it is killed ──▶ spawner ── clone,
//!    exec ──▶ program └───────────────────────── one channel per core, outlives spawners
//!    ─────────▶┘
//! ```
//!
//! A [`ProgramRequest`] names a profile, never a user or a limit. The server defines the allowed
//! programs before the server listens. Later only the keeper reads them again ([`Reviser`]). So an
//! attacker that takes over the server cannot start a program that was never allowed. Descriptors
//! for standard input, output and error travel with the request. A program is the leader of a
//! process group, and of a session too if the program runs as another user. The group ends when the
//! program ends or is killed, when its time is up, and when the server ends.
//!
//! The keeper and the spawner are forked, not executed anew. A fork shares the relocated pages of
//! the server's binary, and needs no protocol for the inherited data. The private memory of a fork
//! is smaller by the size of those relocations.
//!
//! A process for another job of the server, without programs, is forked in the same way
//! ([`fork_beside`]).
//!
//! Reading order: [`Profile`] (user and limits), [`ProgramRequest`], [`Channel`] (the client),
//! `spawner` (the loop), `clone_stack`, `child` (between clone and exec), [`check`] (which programs
//! are refused), `supervisor`, `revise`, `beside`. The keeper and the spawner must never hold the
//! server's data. Tested with real processes in `tests/processes.rs`.

mod beside;
mod cgroup;
mod channel;
pub mod check;
mod child;
mod clone_stack;
mod confine;
mod error;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod jobs;
mod keeper_messages;
mod path_check;
mod process;
mod profile;
mod raw;
mod ready;
mod reap;
mod removal;
mod reply;
mod request;
mod revise;
pub mod socket;
mod spawner;
mod stall_watchdog;
mod start;
mod supervisor;
mod user;
mod wire;

pub use beside::{CompanionProcess, fork_beside};
pub use channel::{Channel, JobId, ProgramEvent, SEND_RETRY, SendObstacle, Stdio};
pub use error::{DefineError, ProcessStartError, SpawnError, StartFault, StartStep};
pub use profile::{Cgroup, Confinement, Identity, NewPrivileges, Profile, ProfileId, ResourceLimits};
pub use removal::Remover;
pub use reply::{ProgramEnd, ProgramExit, ProgramUsage};
pub use request::{Directory, Program, ProgramRequest, REQUEST_BYTES_MAX};
pub use revise::{PROFILES_MAX, Rereading, Reviser, Revisions};
pub use start::{Preparation, SpawnSupervisorHandle, start, start_revisable};
pub use supervisor::judge;
pub use user::{UserError, user_name};
