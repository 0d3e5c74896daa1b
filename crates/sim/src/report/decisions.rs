//! What the placement controller decided, when and why, with the names of handlers.
//!
//! Owns how much of it is shown. What a decision says is the scheduler's own text, as the runtime prints it. Tested in
//! `report/tests.rs`.

use serde_json::{Value, json};
use vermeil_sched::control::Decision;
use vermeil_sched::plan::Move;

use super::thousands;
use crate::results::Results;
use crate::workload::Program;

/// Most decisions in a text: about a screen. The JSON has all that the controller keeps.
const TOLD_MAX: usize = 24;

/// The last decisions, a line each; nothing where none was made.
pub(super) fn text(program: &Program, results: &Results) -> String {
    let all = &results.decisions;
    let told = &all[all.len().saturating_sub(TOLD_MAX)..];
    let mut text = match (told.len(), results.decided) {
        (0, _) => return String::new(),
        (told, decided) if told as u64 == decided => "\ndecisions:\n".to_owned(),
        (told, decided) => format!("\ndecisions, the last {told} of {}:\n", thousands(decided)),
    };
    for decision in told {
        text += &format!("  {}\n", decision.told(|handler| name(program, handler.0).to_owned()));
    }
    text
}

/// All that are kept.
pub(super) fn json(program: &Program, results: &Results) -> Value {
    let moved =
        |&Move { handler, to }: &Move| json!({ "handler": name(program, handler.0), "to_core": to.0 });
    let decision = |Decision { at_ns, event, moves }: &Decision| {
        let moves: Vec<Value> = moves.iter().map(moved).collect();
        json!({ "at_ns": at_ns, "what": event.to_string(), "moves": moves })
    };
    results.decisions.iter().map(decision).collect()
}

fn name(program: &Program, handler: u32) -> &str {
    program.handlers().nth(handler as usize).unwrap_or("?")
}
