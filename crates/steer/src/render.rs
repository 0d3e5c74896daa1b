//! Plans and measurements as text for people. JSON is the types themselves.
//!
//! Tested through the command.

use std::fmt::Write as _;

use crate::{Applied, Change, NicPlan, Plan, Restored, Verified};

/// A plan: per card where its packets go, then what would be set and why.
pub fn plan(plan: &Plan) -> String {
    let mut text = String::new();
    for nic in &plan.nics {
        card(&mut text, nic);
    }
    for note in &plan.notes {
        line(&mut text, format_args!("{note}"));
    }
    match plan.changes.len() {
        0 => line(&mut text, format_args!("nothing to change")),
        count => line(&mut text, format_args!("changes: {count}")),
    }
    for change in &plan.changes {
        self::change(&mut text, change);
    }
    for blocker in &plan.blockers {
        line(&mut text, format_args!("in the way: {blocker}"));
    }
    text
}

fn card(text: &mut String, nic: &NicPlan) {
    let node = nic.node.map_or(String::new(), |node| format!(", node {node}"));
    let driver = if nic.driver.is_empty() { "driver unknown" } else { &nic.driver };
    line(text, format_args!("{} ({driver}{node}): {}", nic.nic, nic.class.meaning()));
    for queue in &nic.queues {
        let irq = queue.irq.map_or(String::new(), |irq| format!(" by interrupt {irq}"));
        let to = if queue.listeners.len() == 1 { "listener" } else { "listeners" };
        line(
            text,
            format_args!("  queue {}: cpu {}{irq}, {to} on {}", queue.queue, queue.cpu, queue.listeners),
        );
    }
    for refusal in &nic.refusals {
        line(text, format_args!("  cannot: {refusal}"));
    }
}

fn change(text: &mut String, change: &Change) {
    let Change { setting, from, to, why } = change;
    line(text, format_args!("  {setting}: {} -> {}", setting.describe(from), setting.describe(to)));
    line(text, format_args!("      {why}"));
}

/// What was changed.
pub fn applied(applied: &Applied) -> String {
    let mut text = String::new();
    for Change { setting, from, to, .. } in &applied.changes {
        line(&mut text, format_args!("{setting}: {} -> {}", setting.describe(from), setting.describe(to)));
    }
    if applied.changes.is_empty() {
        line(&mut text, format_args!("nothing to change"));
    }
    text
}

/// What was brought back.
pub fn restored(restored: &Restored) -> String {
    let mut text = String::new();
    line(&mut text, format_args!("restored: {} settings", restored.settings.len()));
    for setting in &restored.gone {
        line(&mut text, format_args!("{setting}: not there any more"));
    }
    for setting in &restored.foreign {
        line(
            &mut text,
            format_args!("{setting}: somebody else had changed it; it has its old value again too"),
        );
    }
    text
}

/// What was measured.
pub fn verified(verified: &Verified) -> String {
    let mut text = String::new();
    match (&verified.not_measurable, verified.here_share) {
        (Some(why), _) => {
            line(&mut text, format_args!("reads on the cpu of their packets: not measurable here: {why}"))
        }
        (None, None) => line(
            &mut text,
            format_args!("reads on the cpu of their packets: nobody read in {:.1} s", verified.seconds),
        ),
        (None, Some(share)) => {
            let total: u64 = verified.reads.iter().map(|reads| reads.here + reads.elsewhere).sum();
            let percent = share * 100.0;
            line(
                &mut text,
                format_args!(
                    "reads on the cpu of their packets: {percent:.1} % of {total} in {:.1} s",
                    verified.seconds
                ),
            );
        }
    }
    for reads in &verified.reads {
        let total = reads.here + reads.elsewhere;
        let percent = reads.here as f64 * 100.0 / total as f64;
        line(&mut text, format_args!("  cpu {}: {percent:.1} % of {total}", reads.cpu));
    }
    for nic in &verified.nics {
        let queues: Vec<String> =
            nic.queues.iter().map(|(queue, count)| format!("{queue}: {count}")).collect();
        let each = match nic.interrupts {
            0 => String::new(),
            count => format!(", {:.2} per packet", count as f64 / nic.packets.max(1) as f64),
        };
        let by_queue =
            if queues.is_empty() { String::new() } else { format!(" (queue {})", queues.join(", ")) };
        line(
            &mut text,
            format_args!(
                "{}: {} packets, {} interrupts{each}{by_queue}",
                nic.nic, nic.packets, nic.interrupts
            ),
        );
    }
    for drift in &verified.drifted {
        line(
            &mut text,
            format_args!(
                "{}: was made {} and is {}: somebody changed it",
                drift.setting,
                drift.setting.describe(&drift.planned),
                drift.setting.describe(&drift.found)
            ),
        );
    }
    text
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a text does not fail.
    let _ = writeln!(text, "{line}");
}
