//! A colored-event runtime for multicore machines: pinned cores, colors, handlers, tasks.
