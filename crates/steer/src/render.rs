//! Plans and measurements as text for people. The JSON form is derived from the types.
//!
//! Tested through the command.

pub use crate::setting::but_for;

use std::fmt::Write as _;

use vermeil_topology::CpuId;

use crate::setting::switch_text;
use crate::{
    Applied, CardPolling, Classified, Comparison, NicPlan, PacketDrops, PlannedChange, ProgramPosition,
    Restored, SpreadWay, SteerPlan, Verified,
};

/// A plan: per card the destinations of packets, then the changes and the reasons.
pub fn plan(plan: &SteerPlan) -> String {
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
    polling(text, &nic.polling);
    for refusal in &nic.refusals {
        line(text, format_args!("  cannot: {refusal}"));
    }
}

/// The settings that a plan leaves unchanged, with the reason.
fn polling(text: &mut String, polling: &CardPolling) {
    let CardPolling { defer_hard_irqs, gro_flush_timeout_ns, threaded } = polling;
    let values = [
        defer_hard_irqs.map(|count| format!("napi_defer_hard_irqs {count}")),
        gro_flush_timeout_ns.map(|time| format!("gro_flush_timeout {time} ns")),
        threaded.map(|threaded| format!("threaded {}", switch_text(threaded))),
    ];
    let values: Vec<String> = values.into_iter().flatten().collect();
    if !values.is_empty() {
        let values = values.join(", ");
        line(
            text,
            format_args!(
                "  polling: {values}; left as it is, since whether another helps is to be measured on the card"
            ),
        );
    }
}

fn change(text: &mut String, change: &PlannedChange) {
    let PlannedChange { setting, from, to, why } = change;
    line(text, format_args!("  {setting}: {} -> {}", setting.describe(from), setting.describe(to)));
    line(text, format_args!("      {why}"));
}

/// The applied changes.
pub fn applied(applied: &Applied) -> String {
    let mut text = String::new();
    for PlannedChange { setting, from, to, .. } in &applied.changes {
        line(&mut text, format_args!("{setting}: {} -> {}", setting.describe(from), setting.describe(to)));
    }
    if applied.changes.is_empty() {
        line(&mut text, format_args!("nothing to change"));
    }
    text
}

/// The restored settings.
pub fn restored(restored: &Restored) -> String {
    let mut text = String::new();
    line(&mut text, format_args!("restored: {} settings", restored.settings.len()));
    for setting in &restored.gone {
        line(&mut text, format_args!("{setting}: no longer exists"));
    }
    for setting in &restored.foreign {
        line(
            &mut text,
            format_args!(
                "{setting}: another program had changed it; the value from before the plan is set again"
            ),
        );
    }
    text
}

/// The results of both ways to spread packets, and a recommendation.
pub fn compared(comparison: &Comparison) -> String {
    let mut text = String::new();
    let Comparison { nic, cpus, place, rows } = comparison;
    let place = place_name(*place);
    line(
        &mut text,
        format_args!("{nic}: RPS and XDP ({place}) in turn over cpus {cpus}, {} windows", rows.len()),
    );
    for (way, name) in [(SpreadWay::Rps, "RPS"), (SpreadWay::Xdp, "XDP")] {
        let (rate, cost) = comparison.medians(way);
        let here: Vec<f64> = comparison.of(way).filter_map(|row| row.here_share).collect();
        let here = match here.len() {
            0 => String::new(),
            count => {
                let mean = here.iter().sum::<f64>() / count as f64 * 100.0;
                format!(", {mean:.1} % of reads on the cpu of their packets")
            }
        };
        line(
            &mut text,
            format_args!("  {name}: {rate:.0} packets/s, {cost:.2} µs of kernel time each{here}"),
        );
    }
    let verdict = comparison.verdict();
    match verdict.saved {
        None => line(
            &mut text,
            format_args!("too few packets came to tell: put load on it, or measure for longer (--time)"),
        ),
        Some(saved) if verdict.is_gain => line(
            &mut text,
            format_args!(
                "XDP takes {:.0} % less: vermeil steer xdp --nic {nic} --cores {cpus}",
                saved * 100.0
            ),
        ),
        Some(saved) => line(
            &mut text,
            format_args!(
                "no gain that holds in every round ({:+.0} % of kernel time): stay with RPS",
                -saved * 100.0
            ),
        ),
    }
    text
}

/// The name of a position, for people.
pub fn place_name(place: ProgramPosition) -> &'static str {
    match place {
        ProgramPosition::Native => "native: in the driver",
        ProgramPosition::Generic => "generic: in the stack",
    }
}

/// The counts of a classifier.
pub fn classified(classified: &Classified) -> String {
    let mut text = String::new();
    for (cpu, count) in &classified.steered {
        line(&mut text, format_args!("cpu {cpu}: {count} packets"));
    }
    line(&mut text, format_args!("not steered: {} packets", classified.unsteered));
    match (classified.dropped, &classified.not_measurable) {
        (Some(PacketDrops { queue_full, no_memory }), _) => line(
            &mut text,
            format_args!(
                "dropped on the way to their cpu: {} packets ({queue_full} where too many waited, {no_memory} for want of memory)",
                queue_full + no_memory
            ),
        ),
        (None, why) => line(
            &mut text,
            format_args!(
                "dropped on the way to their cpu: not measurable here: {}",
                why.as_deref().unwrap_or_default()
            ),
        ),
    }
    text
}

/// The measurements.
pub fn verified(verified: &Verified) -> String {
    let mut text = String::new();
    let seconds = verified.seconds;
    let reads = verified.reads.iter().map(|reads| (reads.cpu, reads.here, reads.elsewhere)).collect();
    let not_measurable = verified.not_measurable.as_deref();
    shares(&mut text, "reads on the cpu of their packets", "no reads", not_measurable, reads, seconds);
    let woken = verified.woken.iter().map(|woken| (woken.cpu, woken.here, woken.elsewhere)).collect();
    let not_measurable = verified.wakes_not_measurable.as_deref();
    let what = "wake-ups of readers by the cpu of the reader";
    shares(&mut text, what, "no wake-ups", not_measurable, woken, seconds);
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
    if let Some(why) = &verified.drift_not_measurable {
        line(&mut text, format_args!("the plan in force: not measurable here: {why}"));
    }
    for drift in &verified.drifted {
        line(
            &mut text,
            format_args!(
                "{}: the plan set {}, the value is now {}: another program changed it",
                drift.setting,
                drift.setting.describe(&drift.planned),
                drift.setting.describe(&drift.found)
            ),
        );
    }
    text
}

/// The share of each cpu's first count in all counts.
fn shares(
    text: &mut String,
    what: &str,
    nobody: &str,
    not_measurable: Option<&str>,
    counts: Vec<(CpuId, u64, u64)>,
    seconds: f64,
) {
    let percent = |here: u64, total: u64| here as f64 * 100.0 / total as f64;
    let here: u64 = counts.iter().map(|(_, here, _)| here).sum();
    let total: u64 = here + counts.iter().map(|(.., elsewhere)| elsewhere).sum::<u64>();
    match not_measurable {
        Some(why) => line(text, format_args!("{what}: not measurable here: {why}")),
        None if total == 0 => line(text, format_args!("{what}: {nobody} in {seconds:.1} s")),
        None => {
            line(text, format_args!("{what}: {:.1} % of {total} in {seconds:.1} s", percent(here, total)));
        }
    }
    for (cpu, here, elsewhere) in counts {
        let total = here + elsewhere;
        line(text, format_args!("  cpu {cpu}: {:.1} % of {total}", percent(here, total)));
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a text does not fail.
    let _ = writeln!(text, "{line}");
}
