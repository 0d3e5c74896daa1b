//! The program that the tests of this crate start: the same as the binary `vermeil`.
//!
//! Cargo gives a test the path of a binary only if both are in the same package, and builds that
//! binary before the test. A test that looked for `vermeil` itself could find an old build.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    vermeil_cli::run()
}
