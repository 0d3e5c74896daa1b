//! A server in several processes: the supervisor, and its link to each instance.
//!
//! [`supervise()`] starts the instances and watches over them. An instance begins with
//! [`Assigned`], and obeys the supervisor as an [`InstanceServer`]. Must never know requests or the
//! parts of a server.

mod instance;
mod supervise;

#[cfg(feature = "fuzz")]
pub use instance::ipc::is_answer;
pub use instance::{Assigned, InstanceServer};
pub use supervise::{INSTANCE_COMMAND, InstanceProgram, SuperviseError, supervise};
