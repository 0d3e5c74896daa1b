//! Folded stacks, one line each: `outermost;…;innermost count`, as flame graph tools read them.

use std::collections::BTreeMap;

use crate::StackProfile;

/// The folded stacks of a profile, in the order of their text. The first part is the thread's name.
/// Counts are samples, of waits microseconds.
pub fn folded(profile: &StackProfile) -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for sample in &profile.samples {
        let thread = profile.threads.get(&(sample.pid, sample.tid)).map_or("?", String::as_str);
        let mut line = plain(thread);
        for function in profile.stack(sample).iter().rev() {
            line.push(';');
            line.push_str(&plain(&profile.function(*function).name));
        }
        let count = if profile.waiting.instead { sample.weight / 1_000 } else { 1 };
        *counts.entry(line).or_default() += count;
    }
    counts.into_iter().map(|(stack, count)| format!("{stack} {count}\n")).collect()
}

/// A name without the separators of the format.
fn plain(name: &str) -> String {
    name.replace(';', ":").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::profile;

    #[test]
    fn folded_stacks_are_sorted_and_counted() {
        let mut profile = profile(&[("main;f;k_send", 2), ("main", 1), ("main;f;k_send", 1)]);
        profile.threads.insert((7, 7), "web; server".to_owned());
        assert_eq!(folded(&profile), "web: server;main 1\nweb: server;main;f;k_send 3\n");
    }
}
