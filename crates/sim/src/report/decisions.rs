//! The decisions of the placement controller, with times, reasons and the names of handlers.
//!
//! Owns the number of shown decisions. The text of a decision is the scheduler's, as in the
//! runtime. Tested in `report/tests.rs`.

use serde_json::{Value, json};
use vermeil_sched::control::Decision;
use vermeil_sched::plan::Move;

use super::thousands;
use crate::results::Results;
use crate::workload::CompiledProgram;

/// Maximum number of decisions in a text: about a screen. The JSON has all decisions that the
/// controller keeps.
const TOLD_MAX: usize = 24;

/// The last decisions, a line each. Empty without decisions.
pub(super) fn text(program: &CompiledProgram, results: &Results) -> String {
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

/// All kept decisions.
pub(super) fn json(program: &CompiledProgram, results: &Results) -> Value {
    let moved =
        |&Move { handler, to }: &Move| json!({ "handler": name(program, handler.0), "to_core": to.0 });
    let decision = |Decision { at_ns, event, moves }: &Decision| {
        let moves: Vec<Value> = moves.iter().map(moved).collect();
        json!({ "at_ns": at_ns, "what": event.to_string(), "moves": moves })
    };
    results.decisions.iter().map(decision).collect()
}

fn name(program: &CompiledProgram, handler: u32) -> &str {
    program.handlers().nth(handler as usize).unwrap_or("?")
}
