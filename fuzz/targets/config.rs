//! Configurations: any bytes give a plan, or errors that name a place; never a panic.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vermeil_config::{ConfigText, Surroundings, take};

static SURROUNDINGS: LazyLock<Surroundings> = LazyLock::new(|| {
    let mut surroundings = Surroundings::here().expect("this machine has cpus");
    // No name server is queried.
    surroundings.look_up = |_, _| Ok(Vec::new());
    surroundings
});

fuzz_target!(|text: &str| {
    let text = ConfigText::from(text.to_owned());
    if let Err(error) = take(Path::new("vermeil.toml"), &text, &SURROUNDINGS) {
        assert!(!error.to_string().is_empty());
    }
});
