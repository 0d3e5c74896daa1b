//! If io_uring is forbidden, `auto` falls back and gives the reason, and `uring` fails and gives
//! the reason.
//!
//! A separate binary, because a process has a single verdict about io_uring.

use vermeil_io::{Driver, DriverOptions, IoChoice};

/// Makes `io_uring_setup` fail with EPERM on this thread, as container filters do.
#[allow(unsafe_code)]
fn forbid_io_uring() {
    let instruction = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // The system call's number is the first word.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_io_uring_setup as u32, 0, 1),
        instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
        instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter is well formed, outlives the calls, and concerns this thread only.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
    }
}

#[test]
fn falls_back_only_when_free_to_choose() {
    forbid_io_uring();
    let make = |choice| Driver::new(&DriverOptions { choice, ..Default::default() });
    let driver = make(IoChoice::Auto).expect("epoll is always there");
    let why = driver.description();
    assert!(why.starts_with("epoll (io_uring: setup refused:") && why.contains("not permitted"), "{why}");
    let error = make(IoChoice::Uring).expect_err("forbidden").to_string();
    assert!(error.contains("setup refused") && error.contains("choose epoll"), "{error}");
    assert_eq!(make(IoChoice::Epoll).expect("epoll").description(), "epoll");
}
