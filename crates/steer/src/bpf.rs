//! bpf(2): maps, programs, and their attachment; only the system call.
//!
//! The programs are in `bpf/*.bpf.c`. `cargo xtask bpf` generates their instructions into
//! `programs.rs`, and the project's tests repeat that, so users need no compiler. Maps and numbers
//! that are known only at run time are marked immediates that [`load`] fills in. Loading needs
//! CAP_BPF, and CAP_PERFMON for programs that read kernel memory; callers explain a fallback in
//! words. Tested here and through the meter and the accept steering.

#![allow(unsafe_code)]

mod programs;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub(crate) use programs::{ACCEPT, CLASSIFY, DROPS, METER, WAKES};

/// From `linux/bpf.h`.
mod number {
    pub(super) const MAP_CREATE: u32 = 0;
    pub(super) const MAP_LOOKUP: u32 = 1;
    pub(super) const MAP_UPDATE: u32 = 2;
    pub(super) const MAP_DELETE: u32 = 3;
    pub(super) const PROG_LOAD: u32 = 5;
    pub(super) const INFO_BY_FD: u32 = 15;
    pub(super) const RAW_TRACEPOINT_OPEN: u32 = 17;
    pub(super) const LINK_CREATE: u32 = 28;
    /// `BPF_XDP` of `enum bpf_attach_type`.
    pub(super) const ATTACH_XDP: u32 = 37;
    /// `BPF_LD | BPF_DW | BPF_IMM`: the only instruction of two words.
    pub(super) const LOAD_WIDE: u8 = 0x18;
    pub(super) const PSEUDO_MAP_FD: u64 = 1;
    pub(super) const SO_ATTACH_REUSEPORT_EBPF: i32 = 52;
    pub(super) const SO_DETACH_REUSEPORT_BPF: i32 = 68;
}

/// The marks in the upper half of an immediate (`bpf/vermeil.h`).
const MARK_MAP: u32 = 0x7e57_aa00;
const MARK_NUMBER: u32 = 0x7e57_bb00;

/// The kind of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapKind {
    /// Values by number.
    Hash = 1,
    /// Values by index.
    Array = 2,
    /// Values by index, one per cpu.
    ArrayPerCpu = 6,
    /// Queues of packets, by the cpu that processes the queue.
    Cpus = 16,
    /// Sockets of a group that shares an address.
    Sockets = 20,
}

/// The kind of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    /// Runs for every packet that a card receives.
    Xdp = 6,
    /// Runs at a tracepoint of the kernel.
    RawTracepoint = 17,
    /// Chooses the socket of a new connection.
    Reuseport = 21,
}

/// Whether user space may map a map's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mappable {
    No = 0,
    /// `BPF_F_MMAPABLE`, since Linux 5.5.
    Yes = 1 << 10,
}

/// `union bpf_attr`, as words of 64 bits; longer than any command here reads.
type BpfAttributes = [u64; 16];

/// Two halves as the kernel lays out two `u32` members.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn handle(fd: impl AsFd) -> u32 {
    fd.as_fd().as_raw_fd().cast_unsigned()
}

/// # Safety
/// Addresses in `attributes` must be valid for all reads and writes of `command`.
unsafe fn bpf(command: u32, attributes: &BpfAttributes) -> io::Result<i32> {
    // SAFETY: the caller guarantees the addresses; the structure has the stated length.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of::<BpfAttributes>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// As [`bpf`], for commands that open a descriptor.
///
/// # Safety
/// As [`bpf`].
unsafe fn bpf_open(command: u32, attributes: &BpfAttributes) -> io::Result<OwnedFd> {
    // SAFETY: the caller's obligation.
    let fd = unsafe { bpf(command, attributes)? };
    // SAFETY: the kernel has just opened the descriptor for this call.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A map whose keys are `u32`.
pub(crate) fn create_map(
    kind: MapKind,
    value_bytes: u32,
    entries: u32,
    mappable: Mappable,
) -> io::Result<OwnedFd> {
    let mut attributes = [0; 16];
    attributes[0] = pair(kind as u32, 4);
    attributes[1] = pair(value_bytes, entries);
    attributes[2] = pair(mappable as u32, 0);
    // SAFETY: the command reads numbers only.
    unsafe { bpf_open(number::MAP_CREATE, &attributes) }
}

/// Sets the value of `key`, which must be as long as the map's values.
pub(crate) fn update(map: BorrowedFd<'_>, key: u32, value: &[u8]) -> io::Result<()> {
    let attributes = entry(map, &key, value.as_ptr() as u64);
    // SAFETY: the key lives on the stack for the call, and the kernel reads as many bytes of the
    // value as the map was made with, which the callers in this crate provide.
    unsafe { bpf(number::MAP_UPDATE, &attributes).map(drop) }
}

/// Removes `key` from a map of sockets.
pub(crate) fn delete(map: BorrowedFd<'_>, key: u32) -> io::Result<()> {
    let attributes = entry(map, &key, 0);
    // SAFETY: the key lives on the stack for the call, which writes nothing.
    unsafe { bpf(number::MAP_DELETE, &attributes).map(drop) }
}

/// Reads the value of `key` into `value`, which must be as long as the map's values, for all cpus
/// if the values are per cpu.
pub(crate) fn lookup(map: BorrowedFd<'_>, key: u32, value: &mut [u8]) -> io::Result<()> {
    let attributes = entry(map, &key, value.as_mut_ptr() as u64);
    // SAFETY: as for `update`, with the kernel writing.
    unsafe { bpf(number::MAP_LOOKUP, &attributes).map(drop) }
}

/// Sum of a count over the `possible` cpus.
pub(crate) fn sum(counts: BorrowedFd<'_>, key: u32, possible: usize) -> u64 {
    let mut bytes = vec![0; possible * 8];
    // The map exists as long as its descriptor.
    lookup(counts, key, &mut bytes).expect("an array of counts with that key");
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight"))).sum()
}

/// The kernel's number of a map.
pub(crate) fn map_id(map: BorrowedFd<'_>) -> io::Result<u32> {
    // The beginning of `struct bpf_map_info`: type and id. The kernel fills as much as fits.
    let mut info = [0u32; 2];
    let mut attributes = [0; 16];
    attributes[0] = pair(handle(map), size_of_val(&info) as u32);
    attributes[1] = info.as_mut_ptr() as u64;
    // SAFETY: `info` lives for the call and has the stated length.
    unsafe { bpf(number::INFO_BY_FD, &attributes)? };
    Ok(info[1])
}

fn entry(map: BorrowedFd<'_>, key: &u32, value: u64) -> BpfAttributes {
    let mut attributes = [0; 16];
    attributes[0] = pair(handle(map), 0);
    attributes[1] = std::ptr::from_ref(key) as u64;
    attributes[2] = value;
    attributes
}

/// Loads a program with its maps and numbers filled in. If the kernel's verifier objects, the error
/// contains the objection.
pub(crate) fn load(
    kind: ProgramKind,
    instructions: &[u64],
    maps: &[BorrowedFd<'_>],
    numbers: &[u32],
) -> io::Result<OwnedFd> {
    let instructions = fill(instructions, maps, numbers);
    // First without a log, because with a small log the kernel refuses valid programs.
    load_filled(kind, &instructions, &mut []).or_else(|error| {
        let mut log = vec![0; LOG_BYTES];
        load_filled(kind, &instructions, &mut log).map_err(|_| match objection(&log) {
            Some(objection) => {
                io::Error::other(format!("the kernel's verifier refuses the program: {objection}"))
            }
            None => error,
        })
    })
}

/// Bytes of the verifier's log: its end since Linux 6.4, its beginning before.
const LOG_BYTES: usize = 64 << 10;

/// The objection in the verifier's log: the last line except lines of statistics.
fn objection(log: &[u8]) -> Option<String> {
    let said = log.split(|&byte| byte == 0).next().unwrap_or_default();
    let said = String::from_utf8_lossy(said);
    let objects = |line: &&str| {
        !line.is_empty()
            && !["processed ", "verification time ", "stack depth "]
                .iter()
                .any(|count| line.starts_with(count))
    };
    said.lines().map(str::trim).rfind(objects).map(str::to_owned)
}

/// Loads a program; the verifier writes to `log`, if `log` is not empty.
fn load_filled(kind: ProgramKind, instructions: &[u64], log: &mut [u8]) -> io::Result<OwnedFd> {
    // Helpers that read kernel memory are only available under such a licence.
    let licence = c"Dual MIT/GPL";
    let mut attributes = [0; 16];
    attributes[0] = pair(kind as u32, instructions.len() as u32);
    attributes[1] = instructions.as_ptr() as u64;
    attributes[2] = licence.as_ptr() as u64;
    if !log.is_empty() {
        attributes[3] = pair(1, log.len() as u32);
        attributes[4] = log.as_mut_ptr() as u64;
    }
    // SAFETY: instructions, licence and log live until the end of this function, and the log has
    // the stated length.
    unsafe { bpf_open(number::PROG_LOAD, &attributes) }
}

/// Replaces marked immediates.
fn fill(instructions: &[u64], maps: &[BorrowedFd<'_>], numbers: &[u32]) -> Vec<u64> {
    let mut filled = instructions.to_vec();
    let mut at = 0;
    while at < filled.len() {
        // On both supported architectures the opcode is the lowest byte, the immediate the upper
        // half.
        let wide = filled[at] as u8 == number::LOAD_WIDE && at + 1 < filled.len();
        if wide {
            let (which, mark) = ((filled[at] >> 32) as usize, (filled[at + 1] >> 32) as u32);
            let opcode = filled[at] & 0xffff_ffff;
            let (source, value) = match mark {
                // The source register, bits 12 to 15, marks the immediate as a map's descriptor.
                MARK_MAP => (number::PSEUDO_MAP_FD << 12, Some(handle(maps[which]))),
                MARK_NUMBER => (0, Some(numbers[which])),
                _ => (0, None),
            };
            if let Some(value) = value {
                filled[at] = opcode | source | u64::from(value) << 32;
                filled[at + 1] = 0;
            }
        }
        at += if wide { 2 } else { 1 };
    }
    filled
}

/// Runs `program` at the tracepoint `name` until the descriptor is closed.
pub(crate) fn attach_raw_tracepoint(name: &CStr, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attributes = [0; 16];
    attributes[0] = name.as_ptr() as u64;
    attributes[1] = pair(handle(program), 0);
    // SAFETY: the name outlives the call.
    unsafe { bpf_open(number::RAW_TRACEPOINT_OPEN, &attributes) }
}

/// The position of a program on the way of a packet (`XDP_FLAGS_*` of `linux/if_link.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum XdpPlace {
    /// In the stack, before any other processing.
    Generic = 1 << 1,
    /// In the driver.
    Native = 1 << 2,
}

/// Runs `program` for every packet that the card with number `nic` receives, until the descriptor
/// is closed. The kernel closes the descriptors of a killed process.
pub(crate) fn attach_xdp(nic: u32, place: XdpPlace, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attributes = [0; 16];
    attributes[0] = pair(handle(program), nic);
    attributes[1] = pair(number::ATTACH_XDP, place as u32);
    // SAFETY: the command reads numbers only.
    unsafe { bpf_open(number::LINK_CREATE, &attributes) }
}

/// The verdict of an XDP program on a synthetic packet (`BPF_PROG_TEST_RUN`).
#[cfg(test)]
pub(crate) fn try_xdp(program: BorrowedFd<'_>, packet: &[u8]) -> io::Result<u32> {
    const TEST_RUN: u32 = 10;
    let mut attributes: BpfAttributes = [0; 16];
    attributes[0] = pair(handle(program), 0);
    attributes[1] = pair(packet.len() as u32, 0);
    attributes[2] = packet.as_ptr() as u64;
    attributes[4] = pair(1, 0);
    let whole = attributes.as_mut_ptr();
    // SAFETY: the packet lives for the call and has the stated length; the kernel writes the answer
    // into the structure.
    let result = unsafe { libc::syscall(libc::SYS_bpf, TEST_RUN, whole, size_of::<BpfAttributes>()) };
    let [_, _, _, _, said @ ..] = attributes[0].to_ne_bytes();
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(u32::from_ne_bytes(said)) }
}

/// Lets `program` choose among the sockets that share the address of `socket`.
pub(crate) fn attach_reuseport(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    set_number(socket, number::SO_ATTACH_REUSEPORT_EBPF, program.as_raw_fd())
}

/// Detaches any program from the sockets that share the address of `socket`. Needs no right.
pub(crate) fn detach_reuseport(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_number(socket, number::SO_DETACH_REUSEPORT_BPF, 0)
}

fn set_number(socket: BorrowedFd<'_>, option: i32, value: i32) -> io::Result<()> {
    let (at, bytes) = ((&raw const value).cast(), size_of_val(&value) as libc::socklen_t);
    // SAFETY: the options read a single number, which outlives the call.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, at, bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_line_is_objection_of_verifier() {
        let log = b"0: R1=ctx() R10=fp0\n0: (95) exit\nR0 !read_ok\nprocessed 1 insns (limit 1000000)\n\0\0 left over";
        assert_eq!(objection(log).as_deref(), Some("R0 !read_ok"));
        assert_eq!(objection(&[0; 8]), None);
        assert_eq!(objection(&[]), None);
    }

    #[test]
    fn marks_are_filled_in_and_nothing_else() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let map = file.as_fd();
        let wide = u64::from(number::LOAD_WIDE) | 0x0100;
        let program = [
            wide | 1 << 32,
            u64::from(MARK_NUMBER) << 32,
            0x95,
            wide,
            u64::from(MARK_MAP) << 32,
            wide | 7 << 32,
            5 << 32,
        ];
        let filled = fill(&program, &[map], &[10, 11]);
        assert_eq!(filled[..3], [wide | 11 << 32, 0, 0x95]);
        assert_eq!(filled[3], wide | 0x1000 | u64::from(handle(map)) << 32);
        assert_eq!(filled[4], 0);
        assert_eq!(filled[5..], program[5..], "an immediate without a mark");
    }
}
