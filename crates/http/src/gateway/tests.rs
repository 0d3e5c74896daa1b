//! Tables of inputs and expected results.

mod bodies;
mod heads;
mod paths;
mod variables;
