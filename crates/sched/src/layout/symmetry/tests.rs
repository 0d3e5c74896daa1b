//! Symmetries against brute force: every permutation of the cores, every labeling.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A layout from distances written as one digit each: 2 is L2, 3 is L3, 5 and 6 are one and two
/// hops.
fn layout(rows: &[&str]) -> Layout {
    let distance = |digit: char| Distance::of_class(digit.to_digit(10).expect("a digit") as usize);
    let matrix: Vec<Vec<_>> = rows.iter().map(|row| row.chars().map(distance).collect()).collect();
    Layout::from_matrix(&matrix).expect("a layout")
}

/// The two processors with two cores each of the first experiments.
fn two_by_two() -> Layout {
    layout(&["0255", "2055", "5502", "5520"])
}

/// Four nodes in a square: opposite nodes are two hops apart.
fn square() -> Layout {
    layout(&["0556", "5065", "5605", "6550"])
}

fn permutations(cores: usize) -> Vec<Vec<usize>> {
    match cores {
        0 => vec![vec![]],
        _ => permutations(cores - 1)
            .into_iter()
            .flat_map(|shorter| {
                (0..cores).map(move |at| {
                    let mut longer = shorter.clone();
                    longer.insert(at, cores - 1);
                    longer
                })
            })
            .collect(),
    }
}

fn automorphisms(layout: &Layout) -> Vec<Vec<usize>> {
    let n = layout.cores();
    let distance = |a: usize, b: usize| layout.distance(CoreIndex(a as u32), CoreIndex(b as u32));
    let capacity = |a: usize| layout.capacity(CoreIndex(a as u32));
    let keeps = |p: &Vec<usize>| {
        (0..n)
            .all(|a| capacity(a) == capacity(p[a]) && (0..n).all(|b| distance(a, b) == distance(p[a], p[b])))
    };
    permutations(n).into_iter().filter(keeps).collect()
}

/// The canonical form of a placement of single handlers.
fn canonical(symmetry: &Symmetry, cores: usize, placed: &[usize]) -> Vec<u32> {
    let mut labels = vec![u32::MAX; cores];
    placed.iter().enumerate().rev().for_each(|(handler, &core)| labels[core] = handler as u32);
    let becomes = symmetry.relabel(&labels);
    placed.iter().map(|&core| becomes[core].0).collect()
}

fn placements(cores: usize, handlers: u32) -> impl Iterator<Item = Vec<usize>> {
    (0..cores.pow(handlers))
        .map(move |number| (0..handlers).map(|handler| number / cores.pow(handler) % cores).collect())
}

#[test]
fn automorphisms_are_counted() {
    let slow = two_by_two().with_capacities(vec![1024, 512, 1024, 512]);
    for (layout, expected) in [(two_by_two(), 8), (square(), 8), (slow, 2), (layout(&["0"]), 1)] {
        assert_eq!(automorphisms(&layout).len(), expected);
        assert_eq!(Symmetry::of(&layout).automorphisms(), Some(expected as u128));
    }
    let machine = vermeil_topology::synthetic::parse("node:4 l3:4 core:8 pu:1").expect("a machine");
    let cpus: Vec<_> = machine.pus().iter().map(|pu| pu.cpu).collect();
    let many = Symmetry::of(&Layout::from_machine(&machine, &cpus).expect("a layout"));
    assert_eq!((many.cores().len(), many.automorphisms()), (128, None));
}

/// The number of forms equals the number of orbits, counted by brute force on all placements of up
/// to six handlers.
#[test]
fn symmetric_placements_have_one_form_and_others_have_not() {
    let uneven = layout(&["02335", "20335", "33025", "33205", "55550"]);
    for (layout, handlers) in [(two_by_two(), 6), (square(), 6), (uneven, 5)] {
        let (symmetry, cores) = (Symmetry::of(&layout), layout.cores());
        let automorphisms = automorphisms(&layout);
        let mut forms = BTreeSet::new();
        let mut orbits = BTreeSet::new();
        for placed in placements(cores, handlers) {
            let images = automorphisms.iter().map(|p| placed.iter().map(|&core| p[core]).collect::<Vec<_>>());
            orbits.insert(images.min());
            forms.insert(canonical(&symmetry, cores, &placed));
        }
        assert_eq!(forms.len(), orbits.len());
    }
}

/// Burnside's lemma for 16 handlers on two times two cores: an eighth of the 4^16 placements
/// remains.
#[test]
fn sixteen_handlers_on_four_cores_by_burnside() {
    let layout = two_by_two();
    let automorphisms = automorphisms(&layout);
    let orbits = |handlers: u32| {
        let fixed = |p: &Vec<usize>| (0..4).filter(|&core| p[core] == core).count().pow(handlers);
        automorphisms.iter().map(fixed).sum::<usize>() / automorphisms.len()
    };
    let symmetry = Symmetry::of(&layout);
    let forms: BTreeSet<_> = placements(4, 5).map(|placed| canonical(&symmetry, 4, &placed)).collect();
    assert_eq!(forms.len(), orbits(5));
    assert_eq!((4_usize.pow(16), orbits(16)), (4_294_967_296, 536_887_296));
}

proptest! {
    /// A form is an image of the placement under an automorphism, on machines of any shape.
    #[test]
    fn relabeling_keeps_distances_and_speeds(
        digits in prop::collection::vec(1usize..8, 15),
        slow in 0usize..7,
        labels in prop::collection::vec(0u32..9, 6),
    ) {
        let mut matrix = vec![vec![Distance::Same; 6]; 6];
        let pairs = (0..6).flat_map(|a| (0..a).map(move |b| (a, b)));
        for ((a, b), digit) in pairs.zip(digits) {
            matrix[a][b] = Distance::of_class(digit);
            matrix[b][a] = matrix[a][b];
        }
        let capacities = (0..6).map(|core| if core == slow { 512 } else { 1024 }).collect();
        let layout = Layout::from_matrix(&matrix).expect("a layout").with_capacities(capacities);
        let symmetry = Symmetry::of(&layout);
        prop_assert_eq!(symmetry.automorphisms(), Some(automorphisms(&layout).len() as u128));
        let becomes = symmetry.relabel(&labels);
        for a in layout.indices() {
            prop_assert_eq!(layout.capacity(a), layout.capacity(becomes[a.0 as usize]));
            for b in layout.indices() {
                prop_assert_eq!(layout.distance(a, b), layout.distance(becomes[a.0 as usize], becomes[b.0 as usize]));
            }
        }
    }
}
