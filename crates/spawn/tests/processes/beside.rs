//! A process beside the server: its open descriptors, and its end.

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{CWD, Mode, OFlags, openat},
    net::{RecvFlags, SendFlags, recv, send},
};
use std::{
    fs,
    os::fd::{AsFd as _, BorrowedFd},
};
use vermeil_spawn::fork_beside;

pub(crate) fn worker_keeps_chosen_descriptors_and_ends_with_socket(_: &[String]) {
    let open = || openat(CWD, "/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).expect("there");
    let (kept, _other) = (open(), open());
    let (process, socket) = fork_beside(c"vermeil-test", &[kept.as_fd()], |socket| {
        let count = fs::read_dir("/proc/self/fd").expect("listed").count();
        let name = fs::read_to_string("/proc/self/comm").expect("a name");
        let said = format!("{count} {}", name.trim_end());
        send(&socket, said.as_bytes(), SendFlags::empty()).expect("sent");
        // Until the other end is closed.
        poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).expect("waited");
    })
    .expect("forked");
    poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).expect("waited");
    let mut buffer = [0; 64];
    let (count, _) = recv(&socket, &mut buffer, RecvFlags::empty()).expect("heard");
    // Six descriptors: three standard descriptors, the kept descriptor, the socket, and the listed
    // folder.
    assert_eq!(std::str::from_utf8(&buffer[..count]), Ok("6 vermeil-test"));
    let folder = format!("/proc/{}", process.pid());
    assert!(fs::exists(&folder).expect("looked"));
    drop(socket);
    process.wait();
    assert!(!fs::exists(&folder).expect("looked"));
}

/// Regression: the broker opened a log that is a link to /dev/stdout, and got /dev/null.
pub(crate) fn standard_output_is_kept_if_chosen(_: &[String]) {
    let stdout = std::io::stdout();
    let said = |kept: &[BorrowedFd<'_>]| {
        let (process, socket) = fork_beside(c"vermeil-test", kept, |socket| {
            let target = |number: u8| fs::read_link(format!("/proc/self/fd/{number}")).expect("open");
            let said = format!("{:?} {:?} {:?}", target(0), target(1), target(2));
            send(&socket, said.as_bytes(), SendFlags::empty()).expect("sent");
        })
        .expect("forked");
        poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).expect("waited");
        let mut buffer = [0; 1024];
        let (count, _) = recv(&socket, &mut buffer, RecvFlags::empty()).expect("heard");
        drop(socket);
        process.wait();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let target = |number: u8| fs::read_link(format!("/proc/self/fd/{number}")).expect("open");
    assert_eq!(said(&[]), format!("\"/dev/null\" \"/dev/null\" {:?}", target(2)));
    assert_eq!(said(&[stdout.as_fd()]), format!("\"/dev/null\" {:?} {:?}", target(1), target(2)));
}

pub(crate) fn a_panic_ends_the_process_alone(_: &[String]) {
    let (process, socket) = fork_beside(c"vermeil-test", &[], |_| panic!("as planned")).expect("forked");
    poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).expect("waited");
    process.wait();
}
