//! A process beside the server: its open descriptors, and its end.

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{CWD, Mode, OFlags, openat},
    net::{RecvFlags, SendFlags, recv, send},
};
use std::{fs, os::fd::AsFd as _};
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

pub(crate) fn a_panic_ends_the_process_alone(_: &[String]) {
    let (process, socket) = fork_beside(c"vermeil-test", &[], |_| panic!("as planned")).expect("forked");
    poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).expect("waited");
    process.wait();
}
