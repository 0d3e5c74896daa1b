//! One core's scheduler and the policies, without threads or clocks.
