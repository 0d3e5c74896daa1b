//! The cores that run handshakes in idle time: a runtime beside the serving cores, whose threads
//! have the idle class of the kernel.
//!
//! Started with the first listener for HTTPS, also by a reload. Leaves out the choice of the steps
//! that run there (`crates/work/src/any_core.rs`). Tested through the binary
//! (`crates/e2e/tests/e2e/tls.rs`).

use crate::trace::EVENTS_PER_CORE;
use std::sync::Mutex;
use vermeil::{DriverOptions, Handle, IoChoice, Pinning, Runtime};
use vermeil_ablation::Mechanism;
use vermeil_config::ServeOptions;
use vermeil_log::operator_log::log_line;

/// The runtime, if it was started.
#[derive(Default)]
pub(crate) struct IdleCores(Mutex<Option<Runtime>>);

impl IdleCores {
    /// The cores, if a listener speaks TLS. Logs why there are none.
    pub(crate) fn wanted(&self, options: &ServeOptions) -> Option<Handle> {
        if options.tls.listen.is_empty() || Mechanism::IdleTime.is_off() {
            return None;
        }
        let mut runtime = self.0.lock().expect("no panic before");
        if runtime.is_none() {
            *runtime = start(options);
        }
        runtime.as_ref().map(Runtime::handle)
    }

    /// Ends the cores, once no step can come. Returns the handle of the cores, for their recording.
    pub(crate) fn end(&self) -> Option<Handle> {
        let runtime = self.0.lock().expect("no panic before").take()?;
        Some(runtime.handle())
    }
}

/// Starts a core for each serving core. The cores have no sockets, so epoll serves them, which the
/// sandbox allows at any time.
fn start(options: &ServeOptions) -> Option<Runtime> {
    let mut builder = Runtime::builder()
        .cpus(options.cpus.iter().map(|cpu| cpu.0 as usize).collect::<Vec<_>>())
        .pinning(Pinning::InIdleTime)
        .on_thread_start(vermeil_tls::prepare_random)
        .io(DriverOptions { choice: IoChoice::Epoll, ..DriverOptions::default() });
    if options.trace.is_some() {
        builder = builder.record(EVENTS_PER_CORE);
    }
    match builder.build() {
        Ok(runtime) => Some(runtime),
        Err(error) => {
            log_line(format_args!("handshakes run on the serving cores alone: {error}"));
            None
        }
    }
}
