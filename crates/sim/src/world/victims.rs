//! The victims of a thief, their order, and the time that a visit takes.
//!
//! A core's neighbours stand nearest first, in a few runs of consecutive cores. A neighbour without
//! stealable colors costs the thief a look and the simulation nothing. Owns the order and the sums
//! of looks. Leaves out the steal (`search.rs`). Tested below against the layout's order.

use vermeil_sched::{CoreIndex, Distance, Layout};

use super::sets::SimCoreSet;

/// Consecutive cores at one distance, in the order of the thief's looks, among the same 64 cores of
/// the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VictimRun {
    /// The group of 64 cores, and a bit for each core of the run in that group.
    word: u32,
    mask: u64,
    pub(crate) distance: Distance,
    /// Time of a look at one core.
    pub(crate) look_ns: u64,
    /// Time of the looks at all cores before this run.
    before_ns: u64,
}

impl VictimRun {
    /// The first core of `members`, which it removes from the bits that [`VictimRun::members`]
    /// gave. Also the time of all looks up to that core.
    pub(crate) fn next(&self, members: &mut u64) -> Option<(CoreIndex, u64)> {
        if *members == 0 {
            return None;
        }
        let bit = members.trailing_zeros();
        *members &= *members - 1;
        let place = bit - self.mask.trailing_zeros() + 1;
        Some((CoreIndex(self.word * u64::BITS + bit), self.before_ns + u64::from(place) * self.look_ns))
    }

    /// The cores of the run that are in a set, as bits.
    pub(crate) fn members(&self, set: &SimCoreSet) -> u64 {
        set.word(self.word) & self.mask
    }
}

/// All other cores, in the order in which one thief looks at them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Victims {
    runs: Box<[VictimRun]>,
    /// Time of a look at every victim.
    pub(crate) all_ns: u64,
}

impl Victims {
    /// The victims of a core. `look_ns` gives the time of a look at a neighbour, equal for all
    /// neighbours at a distance.
    pub(crate) fn new(
        layout: &Layout,
        thief: CoreIndex,
        look_ns: impl Fn(CoreIndex, Distance) -> u64,
    ) -> Self {
        let mut runs = Vec::new();
        let mut all_ns = 0;
        for (distance, group) in layout.groups(thief) {
            let look_ns = look_ns(group[0], distance);
            let word = |core: CoreIndex| core.0 / u64::BITS;
            for run in group.chunk_by(|&a, &b| a.0 + 1 == b.0 && word(a) == word(b)) {
                let mask = run.iter().fold(0, |mask, core| mask | 1 << (core.0 % u64::BITS));
                runs.push(VictimRun { word: word(run[0]), mask, distance, look_ns, before_ns: all_ns });
                all_ns += run.len() as u64 * look_ns;
            }
        }
        Self { runs: runs.into(), all_ns }
    }

    /// The runs, in order.
    pub(crate) fn runs(&self) -> &[VictimRun] {
        &self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{profile, profiles};

    #[test]
    fn members_come_in_the_order_of_the_layout_and_looks_add_up() {
        for name in profiles() {
            let machine = profile(name).unwrap();
            let layout = machine.layout();
            let every_third = |core: &CoreIndex| core.0.is_multiple_of(3);
            let mut set = SimCoreSet::none(layout.cores());
            layout.indices().filter(every_third).for_each(|core| set.insert(core));
            for thief in layout.indices() {
                let look_ns = |_, distance: Distance| 10 + distance.class() as u64;
                let victims = Victims::new(layout, thief, look_ns);
                let (mut found, mut sums) = (Vec::new(), Vec::new());
                for run in &victims.runs {
                    let mut members = run.members(&set);
                    while let Some((core, upto_ns)) = run.next(&mut members) {
                        assert_eq!(run.distance, layout.distance(thief, core));
                        found.push(core);
                        sums.push(upto_ns);
                    }
                }
                let neighbours = layout.neighbours(thief);
                let upto = |at: usize| {
                    neighbours[..=at]
                        .iter()
                        .map(|&core| look_ns(core, layout.distance(thief, core)))
                        .sum::<u64>()
                };
                let (places, expected): (Vec<usize>, Vec<CoreIndex>) =
                    neighbours.iter().copied().enumerate().filter(|(_, core)| every_third(core)).unzip();
                assert_eq!(found, expected, "{name}, {thief}");
                assert!(places.into_iter().map(upto).eq(sums), "{name}, {thief}");
                assert_eq!(victims.all_ns, upto(neighbours.len() - 1));
            }
        }
    }
}
