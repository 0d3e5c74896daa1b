//! ethtool's ioctl (`linux/ethtool.h`): the driver's name, channels, and the hash table of receive
//! queues.
//!
//! Uses the ioctl, because netlink has the hash table only since Linux 6.2. Contains the layouts;
//! `nic.rs` has the meaning of the numbers. Tested against the loopback device here and against
//! cards in a network namespace.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::Channels;

/// `SIOCETHTOOL` of `linux/sockios.h`.
const SIOCETHTOOL: u64 = 0x8946;

/// Commands of `linux/ethtool.h`.
mod command {
    pub(super) const GDRVINFO: u32 = 0x03;
    pub(super) const GRXFHINDIR: u32 = 0x38;
    pub(super) const SRXFHINDIR: u32 = 0x39;
    pub(super) const GCHANNELS: u32 = 0x3c;
    pub(super) const SCHANNELS: u32 = 0x3d;
}

/// Words of `struct ethtool_drvinfo`: five texts of 32 bytes, 12 reserved bytes, and six numbers
/// with the command.
const DRVINFO_WORDS: usize = 49;

/// Words of `struct ethtool_channels`.
const CHANNELS_WORDS: usize = 9;

/// Maximum number of slots in a card's hash table (`u32` words): sixteen times the largest known
/// number, ice's 2,048. A larger number is taken for a damaged answer.
const RSS_SLOTS_MAX: u32 = 1 << 15;

/// `struct ifreq` with the member that this ioctl uses.
#[repr(C)]
struct IfRequest {
    name: [u8; libc::IFNAMSIZ],
    data: *mut c_void,
    rest: [u8; 16],
}

/// Passes `words`, which begin with a command, to the driver of `nic`, which may write into the
/// words.
fn call(nic: &str, words: &mut [u32]) -> io::Result<()> {
    let mut name = [0; libc::IFNAMSIZ];
    if nic.len() >= name.len() {
        return Err(io::ErrorKind::NotFound.into());
    }
    name[..nic.len()].copy_from_slice(nic.as_bytes());
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut request = IfRequest { name, data: words.as_mut_ptr().cast(), rest: [0; 16] };
    // SAFETY: `request` has ifreq's layout on 64-bit Linux. The callers below size `words` for all
    // reads and writes of their command: a fixed structure, or a table with its length inside.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    match result {
        0.. => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Err(io::ErrorKind::Unsupported.into()),
            error => Err(error),
        },
    }
}

pub(crate) fn driver(nic: &str) -> io::Result<String> {
    let mut words = [0; DRVINFO_WORDS];
    words[0] = command::GDRVINFO;
    call(nic, &mut words)?;
    let bytes: Vec<u8> = words[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

pub(crate) fn channels(nic: &str) -> io::Result<Channels> {
    let mut words = [0; CHANNELS_WORDS];
    words[0] = command::GCHANNELS;
    call(nic, &mut words)?;
    let [_, max_rx, max_tx, max_other, max_combined, rx, tx, other, combined] = words;
    Ok(Channels {
        rx: (rx, max_rx),
        tx: (tx, max_tx),
        other: (other, max_other),
        combined: (combined, max_combined),
    })
}

pub(crate) fn set_channels(nic: &str, channels: &Channels) -> io::Result<()> {
    let Channels { rx, tx, other, combined } = *channels;
    let counts = [rx.0, tx.0, other.0, combined.0];
    let mut words = [command::SCHANNELS, rx.1, tx.1, other.1, combined.1, 0, 0, 0, 0];
    words[5..].copy_from_slice(&counts);
    call(nic, &mut words)
}

pub(crate) fn rss(nic: &str) -> io::Result<Vec<u32>> {
    let mut size = [command::GRXFHINDIR, 0];
    call(nic, &mut size)?;
    let slots = size[1].min(RSS_SLOTS_MAX);
    if slots == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut words = vec![0; slots as usize + 2];
    words[0] = command::GRXFHINDIR;
    words[1] = slots;
    call(nic, &mut words)?;
    Ok(words.split_off(2))
}

pub(crate) fn set_rss(nic: &str, table: &[u32]) -> io::Result<()> {
    let mut words = vec![command::SRXFHINDIR, table.len() as u32];
    words.extend_from_slice(table);
    call(nic, &mut words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_has_no_queues_to_speak_of() {
        for refused in [channels("lo").err(), rss("lo").err()] {
            assert_eq!(refused.expect("refused").kind(), io::ErrorKind::Unsupported);
        }
        assert!(driver("no-such-card-here").is_err());
        assert!(driver("nosuch0").is_err());
    }
}
