//! The holder of a port, on invented `/proc` folders and on a socket of our own.

use super::*;
use proptest::prelude::*;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// The id of this process for cases where it holds no socket; no process has this id.
const OWN: u32 = u32::MAX;

const HEADER: &str =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";

/// A `/proc` with listeners and the processes that hold the sockets.
struct Proc(TempDir);

impl Proc {
    fn new(listeners: &[(&str, u64)], processes: &[(u32, &str, &[u64])]) -> Self {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("net")).unwrap();
        let (mut tcp, mut tcp6) = (HEADER.to_owned(), HEADER.to_owned());
        for &(addr, inode) in listeners {
            let addr: SocketAddr = addr.parse().unwrap();
            let table = if addr.is_ipv4() { &mut tcp } else { &mut tcp6 };
            table.push_str(&table_line(addr, STATE_LISTEN, inode));
        }
        fs::write(proc.path().join("net/tcp"), tcp).unwrap();
        fs::write(proc.path().join("net/tcp6"), tcp6).unwrap();
        for &(pid, command, inodes) in processes {
            let process = proc.path().join(pid.to_string());
            fs::create_dir_all(process.join("fd")).unwrap();
            fs::write(process.join("comm"), format!("{command}\n")).unwrap();
            symlink("/dev/null", process.join("fd/0")).unwrap();
            for (number, inode) in inodes.iter().enumerate() {
                symlink(format!("socket:[{inode}]"), process.join(format!("fd/{}", number + 3))).unwrap();
            }
        }
        Self(proc)
    }

    fn holder(&self, addr: &str) -> Option<String> {
        who_listens_in(self.0.path(), addr.parse().unwrap(), OWN).map(|holder| holder.to_string())
    }
}

fn table_line(addr: SocketAddr, state: &str, inode: u64) -> String {
    let octets = match addr.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = octets.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
    let ip: String = words.map(|word| format!("{word:08X}")).collect();
    let port = addr.port();
    format!(
        "\n   0: {ip}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000    33        0 {inode} 1 \
         0000000000000000 100 0 0 10 0"
    )
}

#[test]
#[cfg(target_endian = "little")]
fn kernel_lines_are_parsed() {
    let v4 = "   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 3186201 1 \
              ffff9d0f06b6a300 100 0 0 10 0";
    let v6 = "   0: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A \
              00000000:00000000 00:00000000 00000000     0        0 21 1 ffff9d0f06b6a300 100 0 0 10 0";
    assert_eq!(
        parse_listener(v4),
        Some(PortListener { addr: "127.0.0.1:8080".parse().unwrap(), inode: 3_186_201 })
    );
    assert_eq!(parse_listener(v6), Some(PortListener { addr: "[::1]:80".parse().unwrap(), inode: 21 }));
}

#[test]
fn lines_without_listener_are_skipped() {
    let connected = table_line("127.0.0.1:80".parse().unwrap(), "01", 7);
    for line in ["", HEADER, &connected, "0: 0100007F:1F90", "0: xyz:1F90 0:0 0A 0:0 0:0 0 0 0 7"] {
        assert_eq!(parse_listener(line), None, "{line}");
    }
}

#[test]
fn addresses_conflict_as_kernel_rules() {
    use PortConflict::{OtherFamilyWildcard, SameAddress, Wildcard};
    for (listening, wanted, expected) in [
        ("127.0.0.1:80", "127.0.0.1:80", Some(SameAddress)),
        ("127.0.0.1:80", "127.0.0.1:81", None),
        ("127.0.0.1:80", "127.0.0.2:80", None),
        ("0.0.0.0:80", "127.0.0.1:80", Some(Wildcard)),
        ("127.0.0.1:80", "0.0.0.0:80", Some(Wildcard)),
        ("[::]:80", "127.0.0.1:80", Some(OtherFamilyWildcard)),
        ("127.0.0.1:80", "[::]:80", Some(OtherFamilyWildcard)),
        ("0.0.0.0:80", "[::]:80", Some(OtherFamilyWildcard)),
        ("0.0.0.0:80", "[::1]:80", None),
        ("[::1]:80", "127.0.0.1:80", None),
        ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", Some(SameAddress)),
        ("[::ffff:0.0.0.0]:80", "127.0.0.1:80", Some(Wildcard)),
        ("[::]:80", "[::1]:80", Some(Wildcard)),
    ] {
        assert_eq!(
            conflict(listening.parse().unwrap(), wanted.parse().unwrap()),
            expected,
            "{listening} {wanted}"
        );
    }
}

#[test]
fn the_holder_is_named() {
    let proc = Proc::new(&[("127.0.0.1:8080", 7)], &[(1, "init", &[]), (123, "nginx", &[6, 7])]);
    assert_eq!(proc.holder("127.0.0.1:8080").as_deref(), Some("nginx (pid 123)"));
    assert_eq!(proc.holder("127.0.0.1:8081"), None);
}

#[test]
fn of_processes_that_share_a_socket_the_first_is_named() {
    let proc =
        Proc::new(&[("[::]:80", 7)], &[(300, "worker", &[7]), (100, "nginx", &[7]), (200, "worker", &[7])]);
    assert_eq!(proc.holder("0.0.0.0:80").as_deref(), Some("nginx (pid 100)"));
}

/// A server can have a lower id than the process that passed it the socket, because ids start again
/// after the highest.
#[test]
fn of_processes_that_share_a_socket_with_this_one_another_is_named() {
    let proc = Proc::new(&[("0.0.0.0:80", 7)], &[(300, "vermeil", &[7]), (32_000, "systemd", &[7])]);
    let holder = who_listens_in(proc.0.path(), "0.0.0.0:80".parse().unwrap(), 300);
    assert_eq!(holder.map(|holder| holder.to_string()).as_deref(), Some("systemd (pid 32000)"));
}

#[test]
fn the_surest_conflict_is_named() {
    let processes: &[(u32, &str, &[u64])] = &[(1, "v6", &[5]), (2, "wild", &[6]), (3, "exact", &[7])];
    let listeners = [("[::]:80", 5), ("0.0.0.0:80", 6), ("127.0.0.1:80", 7)];
    assert_eq!(Proc::new(&listeners, processes).holder("127.0.0.1:80").as_deref(), Some("exact (pid 3)"));
    assert_eq!(Proc::new(&listeners[..2], processes).holder("127.0.0.1:80").as_deref(), Some("wild (pid 2)"));
    assert_eq!(Proc::new(&listeners[..1], processes).holder("127.0.0.1:80").as_deref(), Some("v6 (pid 1)"));
}

#[test]
fn a_holder_without_readable_descriptors_stays_unknown() {
    let proc = Proc::new(&[("127.0.0.1:80", 7)], &[(1, "init", &[])]);
    assert_eq!(proc.holder("127.0.0.1:80"), None);
    assert_eq!(who_listens_in(Path::new("/nonexistent"), "127.0.0.1:80".parse().unwrap(), OWN), None);
}

#[test]
fn a_command_cannot_drive_the_terminal() {
    let proc = Proc::new(&[("127.0.0.1:80", 7)], &[(1, "\u{1b}[2J", &[7])]);
    assert_eq!(proc.holder("127.0.0.1:80").as_deref(), Some("\\u{1b}[2J (pid 1)"));
}

#[test]
fn our_own_sockets_are_seen_and_never_in_the_way() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    assert_eq!(who_listens(addr), None);
    let holder = who_listens_in(Path::new("/proc"), addr, OWN).expect("our own descriptors are readable");
    assert_eq!(holder.pid, std::process::id());
    let others =
        Proc::new(&[("0.0.0.0:80", 7), ("127.0.0.1:80", 8)], &[(OWN, "vermeil", &[8]), (20, "nginx", &[7])]);
    assert_eq!(others.holder("127.0.0.1:80").as_deref(), Some("nginx (pid 20)"));
}

proptest! {
    #[test]
    fn every_address_is_read_back(addr: SocketAddr, inode: u64) {
        let line = table_line(addr, STATE_LISTEN, inode);
        let expected = SocketAddr::new(addr.ip(), addr.port());
        prop_assert_eq!(parse_listener(&line), Some(PortListener { addr: expected, inode }));
    }

    #[test]
    fn no_text_panics(line in "\\PC*", hex in "[0-9A-Fé]{0,40}") {
        parse_listener(&line);
        parse_ip(&hex);
        parse_socket_link(&line);
    }
}
