//! Tables of inputs and what becomes of them.

mod bodies;
mod heads;
mod paths;
mod variables;
