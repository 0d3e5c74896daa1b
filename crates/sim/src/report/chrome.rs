//! The timeline as Chrome's JSON trace events, which Perfetto (ui.perfetto.dev) and
//! chrome://tracing open.

use std::fmt::Write;

use super::timeline::{Doing, Timeline};

impl Timeline {
    /// The timeline as JSON. `handlers`: the handlers' names in order.
    pub fn to_chrome(&self, handlers: &[&str]) -> String {
        let mut json = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
        for core in 0..self.cores() {
            let _ = writeln!(
                json,
                "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":{core},\"args\":{{\"name\":\"core {core}\"}}}},"
            );
        }
        for span in &self.spans {
            let (name, category, detail) = match span.doing {
                Doing::Handler { handler, color, event } => {
                    let name = handlers.get(usize::from(handler)).copied().unwrap_or("?");
                    (quote(name), "handler", format!("{{\"color\":{color},\"event\":{event}}}"))
                }
                Doing::Steal { victim } => {
                    ("\"steal\"".to_owned(), "steal", format!("{{\"victim\":{}}}", victim.0))
                }
                Doing::Asleep => ("\"asleep\"".to_owned(), "asleep", "{}".to_owned()),
            };
            // Microseconds, with nanoseconds after the point.
            let at = |ns: u64| format!("{}.{:03}", ns / 1_000, ns % 1_000);
            let _ = writeln!(
                json,
                "{{\"name\":{name},\"cat\":\"{category}\",\"ph\":\"X\",\"pid\":0,\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{detail}}},",
                span.core.0,
                at(span.from_ns),
                at(span.to_ns - span.from_ns)
            );
        }
        // The last entry, the name of the process, takes no comma.
        json += "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"simulated machine\"}}\n]}\n";
        json
    }
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
