//! Benchmarks against real peers and against measured floors.
