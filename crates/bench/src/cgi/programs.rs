//! The programs to start, compiled when the bench begins, because the programs must be the same
//! everywhere and as small as C.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peers::find_program;
use crate::site::BenchSite;
use crate::{BenchError, BenchResult};

/// Ends at once and has no C library to start, so only the cost of the start remains.
const NOTHING: &str = r#"
#include <sys/syscall.h>
void _start(void) {
    for (;;)
#if defined(__x86_64__)
        __asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(0) : "rcx", "r11", "memory");
#else
    {
        register long number __asm__("x8") = SYS_exit_group;
        register long code __asm__("x0") = 0;
        __asm__ volatile("svc 0" : : "r"(number), "r"(code) : "memory");
    }
#endif
}
"#;

/// The smallest program that answers.
const HELLO: &str = r#"
#include <stdio.h>
int main(void) {
    fputs("Content-Type: text/plain\r\n\r\nhello\n", stdout);
    return 0;
}
"#;

/// The start of the line of [`SLEEPS`] with the process ids.
pub(super) const SAYS: &str = "sleeping: ";

/// Two processes that print their process ids and then sleep for the rest of their lives.
const SLEEPS: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(void) {
    int child = fork();
    if (child == 0)
        for (;;) pause();
    printf("Content-Type: text/plain\r\n\r\nsleeping: %d %d\n", getpid(), child);
    fflush(stdout);
    for (;;) pause();
}
"#;

/// Makes a server large: megabytes of memory on 4 KB pages, and descriptors. With FAT_WHEN=start
/// this happens at the start, and children share the memory; otherwise on SIGUSR2, so that
/// processes started before stay small.
const FAT: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
static size_t bytes;
static int sockets;
static void grow(int signal) {
    (void)signal;
    char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
        madvise(memory, bytes, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
    }
    for (int i = 0; i < sockets; i++) socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}
__attribute__((constructor)) static void begin(void) {
    const char *mb = getenv("FAT_MB"), *count = getenv("FAT_SOCKETS"), *when = getenv("FAT_WHEN");
    if (!mb || !count || !when) return;
    bytes = (size_t)atol(mb) << 20;
    sockets = atoi(count);
    unsetenv("LD_PRELOAD");
    if (strcmp(when, "start") == 0) grow(0);
    else signal(SIGUSR2, grow);
}
"#;

/// The script for php-cgi; the first line makes the script an executable that any server starts
/// alike.
const PHPINFO: &str = "#!/usr/bin/env -S REDIRECT_STATUS=200 php-cgi\n<?php phpinfo();\n";

/// Compiled programs, in a folder that is removed with this.
#[derive(Debug)]
pub struct CompiledPrograms {
    site: BenchSite,
}

impl CompiledPrograms {
    /// Compiles the programs.
    ///
    /// # Errors
    /// When there is no C compiler, or the compiler fails.
    pub fn compile() -> BenchResult<Self> {
        if find_program("cc").is_none() {
            return Err(BenchError::Missing { program: "cc", package: "gcc" });
        }
        let programs = Self { site: BenchSite::new(&[])? };
        let bin = programs.root().join("cgi-bin");
        fs::create_dir(&bin).map_err(BenchError::path("create", &bin))?;
        compile(NOTHING, &bin.join("nothing"), &["-static", "-nostdlib"])?;
        compile(HELLO, &bin.join("hello"), &["-static"])?;
        compile(SLEEPS, &bin.join("sleeps"), &["-static"])?;
        compile(FAT, &programs.fat(), &["-shared", "-fPIC"])?;
        let phpinfo = bin.join("info.php");
        fs::write(&phpinfo, PHPINFO).map_err(BenchError::path("write", &phpinfo))?;
        executable(&phpinfo)?;
        Ok(programs)
    }

    /// The served folder; programs are in its `cgi-bin`.
    pub fn root(&self) -> PathBuf {
        self.site.root()
    }

    /// The program that does nothing.
    pub fn nothing(&self) -> PathBuf {
        self.root().join("cgi-bin/nothing")
    }

    /// The library that makes a server large.
    pub fn fat(&self) -> PathBuf {
        self.root().join("fat.so")
    }

    /// A new folder for a server's configuration, log and state.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn state_folder(&self, name: &str) -> BenchResult<PathBuf> {
        self.site.state_folder(name)
    }
}

fn compile(source: &str, to: &Path, options: &[&str]) -> BenchResult<()> {
    let text = to.with_extension("c");
    fs::write(&text, source).map_err(BenchError::path("write", &text))?;
    let mut command = Command::new("cc");
    command.arg("-O2").args(options).arg("-o").arg(to).arg(&text);
    let output = command.output().map_err(BenchError::thing("run", "cc"))?;
    fs::remove_file(&text).map_err(BenchError::path("remove", &text))?;
    if output.status.success() {
        return executable(to);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(BenchError::Command { command: format!("{command:?}"), output: format!("{}: {said}", output.status) })
}

fn executable(path: &Path) -> BenchResult<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).map_err(BenchError::path("make executable", path))
}
