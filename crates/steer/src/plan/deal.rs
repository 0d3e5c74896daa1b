//! Assigns a card's cores to its queues: groups of cores that share as much as possible, one group
//! per queue.
//!
//! With as many queues as cores, each core has a queue. With fewer queues, a group stays within one
//! cache of the outermost level if there are enough queues, and hardware threads of a core stay
//! together. With more queues than cores, the last queues stay unused. Tested on described machines
//! here.

use vermeil_topology::{CpuId, CpuSet, Machine};

/// `queues` groups of cpus (fewer if there are fewer cores), together `cores`, none empty.
pub(super) fn deal(machine: &Machine, cores: &CpuSet, queues: usize) -> Vec<Vec<CpuId>> {
    let queues = queues.clamp(1, cores.len().max(1));
    let domains = domains(machine, cores);
    if domains.len() > queues {
        return chunks(&domains.concat(), queues);
    }
    let mut shares = vec![1; domains.len()];
    for _ in domains.len()..queues {
        // To the domain whose queues have most cores to serve.
        let crowded = (0..domains.len())
            .max_by_key(|&at| (domains[at].len() * 1000 / shares[at], std::cmp::Reverse(at)))
            .expect("there is a domain");
        shares[crowded] += 1;
    }
    domains.iter().zip(shares).flat_map(|(domain, share)| chunks(domain, share)).collect()
}

/// The cores in groups that share their outermost cache and their node, hardware threads of a core
/// side by side.
fn domains(machine: &Machine, cores: &CpuSet) -> Vec<Vec<CpuId>> {
    let mut keyed: Vec<_> = cores
        .iter()
        .filter_map(|cpu| {
            let pu = machine.pu(cpu)?;
            let outer = machine.caches().iter().find(|cache| cache.cpus.contains(cpu));
            let shared = outer.filter(|cache| cache.cpus.len() > 1).and_then(|cache| cache.cpus.first());
            Some(((pu.node, shared), pu.core, cpu))
        })
        .collect();
    keyed.sort_unstable();
    let mut domains: Vec<((_, _), Vec<CpuId>)> = Vec::new();
    for (domain, _, cpu) in keyed {
        match domains.last_mut() {
            Some((last, cpus)) if *last == domain => cpus.push(cpu),
            _ => domains.push((domain, vec![cpu])),
        }
    }
    domains.into_iter().map(|(_, cpus)| cpus).collect()
}

/// `cpus` in `count` runs whose lengths differ by at most one.
fn chunks(cpus: &[CpuId], count: usize) -> Vec<Vec<CpuId>> {
    let count = count.clamp(1, cpus.len().max(1));
    let bound = |at: usize| cpus.len() * at / count;
    (0..count).map(|at| cpus[bound(at)..bound(at + 1)].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vermeil_topology::synthetic;

    fn dealt(machine: &str, cores: &str, queues: usize) -> String {
        let machine = synthetic::parse(machine).unwrap();
        let cores = cores.parse().unwrap();
        let groups = deal(&machine, &cores, queues).into_iter();
        let text = groups.map(|group| group.into_iter().collect::<CpuSet>().to_string());
        text.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn cores_are_dealt() {
        let eight = "node:1 l3:2 core:4 pu:1";
        assert_eq!(dealt(eight, "0-7", 8), "0 1 2 3 4 5 6 7");
        assert_eq!(dealt(eight, "0-7", 16), "0 1 2 3 4 5 6 7");
        assert_eq!(dealt(eight, "0-7", 4), "0-1 2-3 4-5 6-7");
        assert_eq!(dealt(eight, "0-7", 3), "0-1 2-3 4-7", "no group crosses a cache");
        assert_eq!(dealt(eight, "0-5", 2), "0-3 4-5");
        assert_eq!(dealt(eight, "0-7", 1), "0-7");
        assert_eq!(dealt("node:1 core:4 pu:2", "0-7", 4), "0-1 2-3 4-5 6-7", "threads of a core together");
        assert_eq!(dealt("node:2 core:2 pu:1", "0-3", 3), "0 1 2-3");
    }

    #[test]
    fn every_core_is_in_exactly_one_group() {
        let machine = synthetic::parse("node:2 l3:2 core:3 pu:2").unwrap();
        let all = machine.cpus().clone();
        for queues in 1..30 {
            let groups = deal(&machine, &all, queues);
            assert_eq!(groups.len(), queues.min(all.len()));
            let cpus: Vec<CpuId> = groups.concat();
            assert_eq!(cpus.len(), all.len());
            assert_eq!(cpus.into_iter().collect::<CpuSet>(), all);
            assert!(groups.iter().all(|group| !group.is_empty()));
        }
    }
}
