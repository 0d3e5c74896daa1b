//! Two families of generic netlink. netdev (`Documentation/netlink/specs/netdev.yaml`, since Linux
//! 6.8) lists the queues of each polling instance, and the instance's interrupt. ethtool
//! (`ethtool.yaml` there) reports whether a driver adapts interrupts to the load; unlike the ioctl,
//! netlink reports when the driver cannot.
//!
//! Contains a client for these few queries, with only safe sockets. Unknown attributes are skipped;
//! a kernel without the family answers `Unsupported`. The parser is tested here, the dialogue on
//! the loopback device.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use crate::Napi;

/// From `linux/netlink.h`, `linux/genetlink.h` and `linux/netdev.h`.
mod number {
    pub(super) const NLM_F_REQUEST: u16 = 1;
    pub(super) const NLM_F_ACK: u16 = 4;
    pub(super) const NLA_F_NESTED: u16 = 0x8000;
    pub(super) const NLM_F_DUMP: u16 = 0x300;
    pub(super) const NLMSG_ERROR: u16 = 2;
    pub(super) const NLMSG_DONE: u16 = 3;
    pub(super) const GENL_ID_CTRL: u16 = 16;
    pub(super) const CTRL_CMD_GETFAMILY: u8 = 3;
    pub(super) const CTRL_ATTR_FAMILY_ID: u16 = 1;
    pub(super) const CTRL_ATTR_FAMILY_NAME: u16 = 2;
    pub(super) const NETDEV_CMD_QUEUE_GET: u8 = 10;
    pub(super) const NETDEV_CMD_NAPI_GET: u8 = 11;
    pub(super) const QUEUE_ID: u16 = 1;
    pub(super) const QUEUE_IFINDEX: u16 = 2;
    pub(super) const QUEUE_TYPE: u16 = 3;
    pub(super) const QUEUE_NAPI_ID: u16 = 4;
    pub(super) const QUEUE_TYPE_RX: u32 = 0;
    pub(super) const NAPI_IFINDEX: u16 = 1;
    pub(super) const NAPI_ID: u16 = 2;
    pub(super) const NAPI_IRQ: u16 = 3;
    pub(super) const ETHTOOL_MSG_COALESCE_GET: u8 = 19;
    pub(super) const ETHTOOL_MSG_COALESCE_SET: u8 = 20;
    /// For both: the card, and the card's name inside.
    pub(super) const COALESCE_HEADER: u16 = 1;
    pub(super) const HEADER_DEV_NAME: u16 = 2;
    pub(super) const COALESCE_USE_ADAPTIVE_RX: u16 = 11;
}

/// Bytes of a netlink header, and of the generic header behind it.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;

/// The kernel fills at most this much per message of a dump (`NLMSG_GOODSIZE` grows to 32 KiB).
const RECEIVE_BYTES: usize = 32 << 10;

/// The polling instances of the card `index`.
pub(crate) fn napis(index: u32) -> io::Result<Vec<Napi>> {
    let socket = opened()?;
    let family = family(&socket, b"netdev\0")?;
    let mut napis: Vec<Napi> = Vec::new();
    let of_card = attribute(number::NAPI_IFINDEX, &index.to_ne_bytes());
    dump(&socket, family, number::NETDEV_CMD_NAPI_GET, &of_card, |attributes| {
        if let Some(id) = attributes.number(number::NAPI_ID) {
            napis.push(Napi { id, irq: attributes.number(number::NAPI_IRQ), ..Napi::default() });
        }
    })?;
    let of_card = attribute(number::QUEUE_IFINDEX, &index.to_ne_bytes());
    dump(&socket, family, number::NETDEV_CMD_QUEUE_GET, &of_card, |attributes| {
        let (queue, napi) = (attributes.number(number::QUEUE_ID), attributes.number(number::QUEUE_NAPI_ID));
        let (Some(queue), Some(napi)) = (queue, napi) else { return };
        if let Some(napi) = napis.iter_mut().find(|known| known.id == napi) {
            let receives = attributes.number(number::QUEUE_TYPE) == Some(number::QUEUE_TYPE_RX);
            if receives { &mut napi.rx } else { &mut napi.tx }.push(queue);
        }
    })?;
    Ok(napis)
}

/// Whether the card `nic` adapts its receive interrupts to the load.
pub(crate) fn adaptive(nic: &str) -> io::Result<bool> {
    let (socket, card) = (opened()?, card(nic));
    let family = family(&socket, b"ethtool\0")?;
    ask(&socket, family, number::NLM_F_REQUEST, number::ETHTOOL_MSG_COALESCE_GET, &card)?;
    let mut answer = vec![0; RECEIVE_BYTES];
    let (received, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    refusal(&answer[..received])?;
    let (_, body, _) = message(&answer[..received]).ok_or_else(malformed)?;
    // A driver without such a switch is not reported as off.
    let on = NetlinkAttributes(body)
        .get(number::COALESCE_USE_ADAPTIVE_RX)
        .and_then(|value| value.first().copied());
    on.map(|on| on != 0).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Switches that adaptation of the card `nic` on or off.
pub(crate) fn set_adaptive(nic: &str, on: bool) -> io::Result<()> {
    let socket = opened()?;
    let family = family(&socket, b"ethtool\0")?;
    let wanted = [card(nic), attribute(number::COALESCE_USE_ADAPTIVE_RX, &[on.into()])].concat();
    let flags = number::NLM_F_REQUEST | number::NLM_F_ACK;
    ask(&socket, family, flags, number::ETHTOOL_MSG_COALESCE_SET, &wanted)?;
    let mut answer = vec![0; RECEIVE_BYTES];
    let (received, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    refusal(&answer[..received])
}

fn opened() -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(GENERIC))?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// Names a card for the ethtool family.
fn card(nic: &str) -> Vec<u8> {
    let name = attribute(number::HEADER_DEV_NAME, &[nic.as_bytes(), b"\0"].concat());
    attribute(number::COALESCE_HEADER | number::NLA_F_NESTED, &name)
}

/// The error in an answer, if any: an acknowledgement is the error 0.
fn refusal(answer: &[u8]) -> io::Result<()> {
    match message(answer).ok_or_else(malformed)? {
        (number::NLMSG_ERROR, ..) => {
            let code = answer.get(HEADER..HEADER + 4).ok_or_else(malformed)?;
            match -i32::from_ne_bytes(code.try_into().expect("four bytes")) {
                0 => Ok(()),
                libc::EOPNOTSUPP => Err(io::ErrorKind::Unsupported.into()),
                code => Err(io::Error::from_raw_os_error(code)),
            }
        }
        _ => Ok(()),
    }
}

/// This kernel's number of a family, whose name ends in a zero.
fn family(socket: &OwnedFd, name: &[u8]) -> io::Result<u16> {
    let name = attribute(number::CTRL_ATTR_FAMILY_NAME, name);
    ask(socket, number::GENL_ID_CTRL, number::NLM_F_REQUEST, number::CTRL_CMD_GETFAMILY, &name)?;
    let mut answer = vec![0; RECEIVE_BYTES];
    let (received, _) = recv(socket, &mut answer[..], RecvFlags::empty())?;
    let (kind, body, _) = message(&answer[..received]).ok_or_else(malformed)?;
    if kind == number::NLMSG_ERROR {
        return Err(io::ErrorKind::Unsupported.into());
    }
    NetlinkAttributes(body).short(number::CTRL_ATTR_FAMILY_ID).ok_or_else(malformed)
}

fn dump(
    socket: &OwnedFd,
    family: u16,
    command: u8,
    attributes: &[u8],
    mut each: impl FnMut(NetlinkAttributes<'_>),
) -> io::Result<()> {
    ask(socket, family, number::NLM_F_REQUEST | number::NLM_F_DUMP, command, attributes)?;
    let mut answer = vec![0; RECEIVE_BYTES];
    loop {
        let (received, _) = recv(socket, &mut answer[..], RecvFlags::empty())?;
        let mut rest = &answer[..received];
        if rest.is_empty() {
            return Err(malformed());
        }
        while !rest.is_empty() {
            let (kind, body, behind) = message(rest).ok_or_else(malformed)?;
            rest = behind;
            match kind {
                number::NLMSG_DONE => return Ok(()),
                number::NLMSG_ERROR => return Err(io::ErrorKind::Unsupported.into()),
                _ => each(NetlinkAttributes(body)),
            }
        }
    }
}

fn ask(socket: impl AsFd, kind: u16, flags: u16, command: u8, attributes: &[u8]) -> io::Result<()> {
    let length = HEADER + GENERIC_HEADER + attributes.len();
    let mut message = Vec::with_capacity(length);
    message.extend_from_slice(&(length as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&flags.to_ne_bytes());
    // Sequence number and port: one dialogue at a time on a dedicated socket.
    message.extend_from_slice(&[0; 8]);
    // The version of the family is 1 in both; two reserved bytes.
    message.extend_from_slice(&[command, 1, 0, 0]);
    message.extend_from_slice(attributes);
    send(socket, &message, SendFlags::empty())?;
    Ok(())
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len() + 8);
    bytes.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(aligned(bytes.len()), 0);
    bytes
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a netlink answer that makes no sense")
}

/// The first message: the kind, the attributes behind the generic header, and the rest.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(HEADER..length)?;
    let rest = bytes.get(aligned(length)..).unwrap_or_default();
    Some((kind, body.get(GENERIC_HEADER..).unwrap_or_default(), rest))
}

/// The attributes of a message.
struct NetlinkAttributes<'a>(&'a [u8]);

impl NetlinkAttributes<'_> {
    fn get(&self, wanted: u16) -> Option<&[u8]> {
        let mut rest = self.0;
        loop {
            let length = u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?) as usize;
            let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
            let value = rest.get(4..length)?;
            // The two highest bits mean "nested" and "network byte order".
            if kind & 0x3fff == wanted {
                return Some(value);
            }
            rest = rest.get(aligned(length)..)?;
        }
    }

    fn number(&self, wanted: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(self.get(wanted)?.try_into().ok()?))
    }

    fn short(&self, wanted: u16) -> Option<u16> {
        Some(u16::from_ne_bytes(self.get(wanted)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_nonsense_is_not_followed() {
        let bytes = [attribute(1, &7u32.to_ne_bytes()), attribute(2, b"ab"), attribute(3, &[9, 0])].concat();
        let attributes = NetlinkAttributes(&bytes);
        assert_eq!(attributes.number(1), Some(7));
        assert_eq!(attributes.get(2), Some(&b"ab"[..]));
        assert_eq!(attributes.short(3), Some(9));
        assert_eq!(attributes.get(4), None);
        for cut in 0..bytes.len() {
            assert_eq!(NetlinkAttributes(&bytes[..cut]).get(4), None);
        }
        assert_eq!(NetlinkAttributes(&[0, 0, 0, 0]).get(1), None);
        assert!(message(&[255; 12]).is_none());
    }

    #[test]
    fn the_loopback_device_has_no_interrupts_to_adapt() {
        for refused in [adaptive("lo").err(), set_adaptive("lo", true).err()] {
            let kind = refused.expect("refused").kind();
            assert!(matches!(kind, io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied), "{kind:?}");
        }
        assert_ne!(adaptive("no-such-card").unwrap_err().kind(), io::ErrorKind::InvalidData);
        let refused = |code: i32| [&[20, 0, 0, 0, 2, 0][..], &[0; 10], &(-code).to_ne_bytes()].concat();
        assert!(refusal(&refused(0)).is_ok(), "an acknowledgement");
        assert_eq!(refusal(&refused(1)).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn the_loopback_device_polls_nothing() {
        match napis(1) {
            Ok(napis) => assert_eq!(napis, []),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported),
        }
    }
}
