//! The profile in the form of pprof: a protocol buffer, compressed with gzip.
//!
//! The message types below are the part of `profile.proto` that a sampled profile needs. Each
//! function has one location without an address, because names are already known. Tested by
//! decoding the written file.

use std::collections::HashMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::StackProfile;
use crate::perf::Trigger;

#[derive(Clone, PartialEq, Message)]
struct Proto {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<ProtoSample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<ProtoFunction>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoSample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoFunction {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// The profile as a pprof file.
pub fn pprof(profile: &StackProfile) -> Vec<u8> {
    let message = message(profile).encode_to_vec();
    let mut zipped = GzEncoder::new(Vec::new(), Compression::default());
    zipped.write_all(&message).expect("a vector takes every byte");
    zipped.finish().expect("a vector takes every byte")
}

fn message(profile: &StackProfile) -> Proto {
    let mut strings = StringTable::default();
    strings.id("");
    let mut proto = Proto::default();
    let unit = match profile.origin.trigger {
        Trigger::CpuClock => ("cpu", "nanoseconds"),
        Trigger::Cycles => ("cycles", "count"),
        Trigger::Events => ("events", "count"),
    };
    let cost = ValueType { kind: strings.id(unit.0), unit: strings.id(unit.1) };
    proto.sample_type =
        vec![ValueType { kind: strings.id("samples"), unit: strings.id("count") }, cost.clone()];
    proto.period_type = Some(cost);
    proto.period = match (profile.origin.trigger, profile.origin.hz) {
        // The kernel adapts the number of cycles between samples to the rate.
        (Trigger::Cycles | Trigger::Events, _) | (_, 0) => profile.mean_weight() as i64,
        (Trigger::CpuClock, hz) => 1_000_000_000 / i64::from(hz),
    };
    proto.time_nanos = profile.origin.started_s as i64 * 1_000_000_000;
    proto.duration_nanos = profile.duration_ns as i64;
    let mut mappings: HashMap<&str, u64> = HashMap::new();
    for (index, function) in profile.functions.iter().enumerate() {
        let id = index as u64 + 1;
        let next = mappings.len() as u64 + 1;
        let mapping_id = *mappings.entry(&function.module).or_insert_with(|| {
            proto.mapping.push(Mapping {
                id: next,
                filename: strings.id(&function.module),
                has_functions: true,
            });
            next
        });
        let name = strings.id(&function.name);
        proto.function.push(ProtoFunction {
            id,
            name,
            system_name: name,
            filename: strings.id(&function.module),
        });
        proto.location.push(Location { id, mapping_id, line: vec![Line { function_id: id }] });
    }
    let mut sums: HashMap<u32, (i64, i64)> = HashMap::new();
    for sample in &profile.samples {
        let sum = sums.entry(sample.stack).or_default();
        sum.0 += 1;
        sum.1 += sample.weight as i64;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable();
    proto.sample = sums
        .into_iter()
        .map(|(stack, (count, weight))| ProtoSample {
            location_id: profile.stacks[stack as usize].iter().map(|id| u64::from(id.0) + 1).collect(),
            value: vec![count, weight],
        })
        .collect();
    proto.string_table = strings.texts;
    proto
}

#[derive(Default)]
struct StringTable {
    ids: HashMap<String, i64>,
    texts: Vec<String>,
}

impl StringTable {
    fn id(&mut self, text: &str) -> i64 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.texts.len() as i64;
        self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::profile;
    use std::io::Read;

    #[test]
    fn pprof_reads_back() {
        let bytes = pprof(&profile(&[("main;f", 3), ("main", 1)]));
        let mut message = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut message).unwrap();
        let proto = Proto::decode(&message[..]).unwrap();
        let name = |location: &u64| {
            let function = proto.location[*location as usize - 1].line[0].function_id;
            &*proto.string_table[proto.function[function as usize - 1].name as usize]
        };
        let stacks: Vec<(Vec<&str>, i64)> = proto
            .sample
            .iter()
            .map(|sample| (sample.location_id.iter().map(name).collect(), sample.value[0]))
            .collect();
        assert_eq!(stacks, [(vec!["f", "main"], 3), (vec!["main"], 1)]);
        assert_eq!(proto.string_table[0], "");
    }

    /// Regression: the period of cycles was in nanoseconds.
    #[test]
    fn period_has_unit_of_weights() {
        let mut profile = profile(&[("main", 3)]);
        assert_eq!(message(&profile).period, 1_003_009);
        (profile.origin.trigger, profile.samples[0].weight) = (Trigger::Cycles, 4_012_036);
        assert_eq!(message(&profile).period, 2 * 1_003_009);
    }
}
