//! The machine as data: cpus, caches, memory nodes, distances.
