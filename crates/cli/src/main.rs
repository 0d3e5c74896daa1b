//! The binary `vermeil`: the library's commands and a fast allocator.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    vermeil_cli::run()
}
