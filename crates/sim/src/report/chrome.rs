//! The timeline in the form that Perfetto (ui.perfetto.dev) and chrome://tracing open: Chrome's JSON trace events.

use std::fmt::Write;

use super::timeline::{Doing, Timeline};

impl Timeline {
    /// The timeline as JSON. `handlers`: their names in order.
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
            // Microseconds, with the nanoseconds behind the point.
            let at = |ns: u64| format!("{}.{:03}", ns / 1_000, ns % 1_000);
            let _ = writeln!(
                json,
                "{{\"name\":{name},\"cat\":\"{category}\",\"ph\":\"X\",\"pid\":0,\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{detail}}},",
                span.core.0,
                at(span.from_ns),
                at(span.to_ns - span.from_ns)
            );
        }
        // The last entry takes no comma: the process has a name.
        json += "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"simulated machine\"}}\n]}\n";
        json
    }
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
