//! The profile in the form that profiler.firefox.com and samply open. Counts are samples, of waits
//! microseconds.

use std::collections::HashMap;
use std::time::Duration;

use fxprof_processed_profile::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameInfo, Profile as Processed, ReferenceTimestamp,
    SamplingInterval, Timestamp,
};

use crate::StackProfile;

/// The profile as JSON.
pub fn firefox(profile: &StackProfile) -> String {
    let started =
        ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_secs(profile.origin.started_s));
    let period_ns = match profile.origin.hz {
        // Samples of a fixed number of events have no period in time.
        0 => profile.duration_ns / profile.samples.len().max(1) as u64,
        hz => 1_000_000_000 / u64::from(hz),
    };
    // A sample at a fixed rate stands for a period of cpu time. Other weights are no cpu time: of
    // events they are numbers, and a thread that waits uses none.
    let cpu_ns = if profile.origin.hz == 0 || profile.waiting.instead { 0 } else { period_ns };
    let count = |weight_ns: u64| match profile.waiting.instead {
        true => i32::try_from(weight_ns / 1_000).unwrap_or(i32::MAX),
        false => 1,
    };
    let product = profile.origin.command.join(" ");
    let mut processed = Processed::new(&product, started, SamplingInterval::from_nanos(period_ns));
    processed.set_symbolicated(true);
    let kernel = processed.add_category("Kernel", CategoryColor::Orange);
    let user = processed.add_category("User", CategoryColor::Yellow);
    let begin = Timestamp::from_nanos_since_reference(0);
    let (mut processes, mut threads, mut stacks) = (HashMap::new(), HashMap::new(), HashMap::new());
    for sample in &profile.samples {
        let key = (sample.pid, sample.tid);
        let name_of = |tid| profile.threads.get(&(sample.pid, tid)).map_or("?", String::as_str);
        let process = *processes
            .entry(sample.pid)
            .or_insert_with(|| processed.add_process(name_of(sample.pid), sample.pid as u32, begin));
        let thread = *threads.entry(key).or_insert_with(|| {
            let thread = processed.add_thread(process, sample.tid as u32, begin, sample.pid == sample.tid);
            processed.set_thread_name(thread, name_of(sample.tid));
            thread
        });
        let stack = *stacks.entry((key, sample.stack)).or_insert_with(|| {
            let frames: Vec<FrameInfo> = profile
                .stack(sample)
                .iter()
                .rev()
                .map(|id| {
                    let function = profile.function(*id);
                    let category = if function.module == crate::format::KERNEL { kernel } else { user };
                    FrameInfo {
                        frame: Frame::Label(processed.intern_string(&function.name)),
                        category_pair: category.into(),
                        flags: FrameFlags::empty(),
                    }
                })
                .collect();
            processed.intern_stack_frames(thread, frames.into_iter())
        });
        let time = Timestamp::from_nanos_since_reference(sample.time);
        processed.add_sample(thread, time, stack, CpuDelta::from_nanos(cpu_ns), count(sample.weight));
    }
    serde_json::to_string(&processed).expect("a profile has no map with keys other than text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::profile;

    #[test]
    fn firefox_profile_has_thread_with_all_samples() {
        let mut profile = profile(&[("main;f", 3), ("main;k_send", 1)]);
        profile.threads.insert((7, 7), "web".to_owned());
        let json: serde_json::Value = serde_json::from_str(&firefox(&profile)).unwrap();
        let thread = &json["threads"][0];
        assert_eq!(thread["name"], "web");
        assert_eq!(thread["samples"]["length"], 4);
        assert!(json.to_string().contains("k_send"));
    }

    /// Regression: each wait counted once, however long, and as time on a cpu.
    #[test]
    fn waits_count_by_their_time() {
        let mut profile = profile(&[("main;futex", 1), ("main;poll", 2)]);
        profile.waiting.instead = true;
        profile.samples.iter_mut().zip([10_000_000, 20_000, 30_000]).for_each(|(wait, ns)| wait.weight = ns);
        let json: serde_json::Value = serde_json::from_str(&firefox(&profile)).unwrap();
        let samples = &json["threads"][0]["samples"];
        assert_eq!(samples["weight"], serde_json::json!([10_000, 20, 30]));
        assert_eq!(samples["threadCPUDelta"], serde_json::json!([0, 0, 0]));
    }
}
