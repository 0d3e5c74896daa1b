//! The record of a request, and the compact form in a batch.
//!
//! Defines how much of a request is kept, and the byte layout between a core and the log thread.
//! The layout never leaves the process. The line format is in `combined.rs`, the batches are in
//! `batch.rs`. Tested below: an encoded record decodes to the same record, cut at the bounds.

use std::{
    ffi::OsStr,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};
use vermeil_address::Client;

/// Longest path of a host's log, in bytes: two names of the longest length. The configuration
/// refuses a longer path.
pub const FILE_BYTES_MAX: usize = 512;
/// Bytes kept of a `Host`: the longest name (RFC 1035, section 2.3.4) with a port.
pub const HOST_BYTES_MAX: usize = 253 + 6;
/// Bytes kept of the name of a user: an address of mail (RFC 5321, section 4.5.3.1).
const USER_BYTES_MAX: usize = 254;
/// Bytes kept of a request line: half of the longest line that the server accepts by default. The
/// bound of a record follows from the bounds of its fields.
pub const LINE_BYTES_MAX: usize = 4096;
/// Bytes kept of a `Referer`. Browsers send only an origin across sites; 1 KiB holds an origin with
/// the longest host name (253 bytes) and a path of 700 bytes.
pub const REFERER_BYTES_MAX: usize = 1024;
/// Bytes kept of a `User-Agent`: twice the 250 bytes of the longest common browsers.
pub const USER_AGENT_BYTES_MAX: usize = 512;

/// Longest encoded record in bytes.
pub(super) const RECORD_BYTES_MAX: usize = HEAD_BYTES
    + FILE_BYTES_MAX
    + HOST_BYTES_MAX
    + USER_BYTES_MAX
    + LINE_BYTES_MAX
    + REFERER_BYTES_MAX
    + USER_AGENT_BYTES_MAX;

const HEAD_BYTES: usize = 74;
/// Stands for the family of a client at a unix socket.
const UNIX: u8 = 0;

/// The family of a client that a proxy does not name.
const UNKNOWN: u8 = 1;
/// Stands for the time of a program if none was asked.
const NO_PROGRAM: u64 = u64::MAX;
/// Marks a field that was not sent.
const ABSENT: u16 = u16::MAX;
/// Flag in the length of a field that was longer than its bound.
const CUT: u16 = 1 << 15;

/// An answered request for the access log. Bytes are the peer's, unchanged, because the log escapes
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord<'a> {
    /// The client of the request.
    pub peer: LoggedClient,
    /// End of the answer, complete or abandoned: seconds since 1970-01-01 UTC.
    pub unix_seconds: u64,
    /// The host that the client asked for, perhaps with a port, if sent.
    pub host: Option<&'a [u8]>,
    /// The name that the client sent with a password, where passwords are asked for. With the
    /// status 401 the password was wrong.
    pub user: Option<&'a [u8]>,
    /// Method, target and version as received, without line end; empty if none was received.
    pub request_line: &'a [u8],
    /// The answer's status.
    pub status: u16,
    /// Bytes of body sent, framing and headers not counted.
    pub body_bytes: u64,
    /// The `Referer` field, if sent.
    pub referer: Option<&'a [u8]>,
    /// The `User-Agent` field, if sent.
    pub user_agent: Option<&'a [u8]>,
    /// The name of the request in notices; 0 if the format has none.
    pub request_id: u64,
    /// The time that the answer took.
    pub time: AnswerTime,
    /// Whether the answer did not reach its end.
    pub is_aborted: bool,
}

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedClient {
    /// The client; an IPv4 address mapped into IPv6 is written as IPv4.
    pub client: Client,
    /// The port of a `Host` without one: that of the request's scheme.
    pub default_port: u16,
}

/// The time of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerTime {
    /// From the complete head to the end of the answer, in nanoseconds.
    pub duration_ns: u64,
    /// The part of a program, in nanoseconds, if a program was asked.
    pub program_ns: Option<u64>,
}

#[cfg(test)]
impl LogRecord<'_> {
    /// A record of a client that sent nothing.
    pub(super) const EMPTY: Self = Self {
        peer: LoggedClient { client: Client::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)), default_port: 80 },
        unix_seconds: 0,
        host: None,
        user: None,
        request_line: b"",
        status: 200,
        body_bytes: 0,
        referer: None,
        user_agent: None,
        request_id: 0,
        time: AnswerTime { duration_ns: 0, program_ns: None },
        is_aborted: false,
    };
}

/// A kept field: the bytes, and whether some were cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptField<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) cut: bool,
}

/// A record as the log thread reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptRecord<'a> {
    pub(super) peer: LoggedClient,
    pub(super) unix_seconds: u64,
    pub(super) status: u16,
    pub(super) body_bytes: u64,
    pub(super) host: Option<KeptField<'a>>,
    pub(super) user: Option<KeptField<'a>>,
    pub(super) request_line: KeptField<'a>,
    pub(super) referer: Option<KeptField<'a>>,
    pub(super) user_agent: Option<KeptField<'a>>,
    pub(super) request_id: u64,
    pub(super) time: AnswerTime,
    pub(super) is_aborted: bool,
}

/// The first record of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptEntry<'a> {
    pub(super) record: KeptRecord<'a>,
    /// The log of the host; `None` for the common log.
    pub(super) file: Option<&'a Path>,
    /// The batch behind the record.
    pub(super) rest: &'a [u8],
}

impl KeptRecord<'_> {
    /// Whether the answer reached its end, as a word.
    pub(super) fn end_word(&self) -> &'static str {
        if self.is_aborted { "aborted" } else { "complete" }
    }
}

/// The kept part of a field, and the length word.
fn keep(field: &[u8], bytes_max: usize) -> (&[u8], u16) {
    match field.get(..bytes_max) {
        Some(kept) if field.len() > bytes_max => (kept, bytes_max as u16 | CUT),
        _ => (field, field.len() as u16),
    }
}

fn keep_if_sent(field: Option<&[u8]>, bytes_max: usize) -> (&[u8], u16) {
    field.map_or((&[], ABSENT), |field| keep(field, bytes_max))
}

/// Appends `record`, for the log `file` or the common log, to `batch`: a fixed head, then the
/// texts. At most [`RECORD_BYTES_MAX`] bytes.
pub(super) fn encode(batch: &mut Vec<u8>, record: &LogRecord<'_>, file: Option<&Path>) {
    let file = file.map(|file| file.as_os_str().as_bytes());
    let (file, file_len) = keep_if_sent(file, FILE_BYTES_MAX);
    let (host, host_len) = keep_if_sent(record.host, HOST_BYTES_MAX);
    let (user, user_len) = keep_if_sent(record.user, USER_BYTES_MAX);
    let (line, line_len) = keep(record.request_line, LINE_BYTES_MAX);
    let (referer, referer_len) = keep_if_sent(record.referer, REFERER_BYTES_MAX);
    let (agent, agent_len) = keep_if_sent(record.user_agent, USER_AGENT_BYTES_MAX);
    let (family, address) = match record.peer.client {
        Client::Unix => (UNIX, [0; 16]),
        Client::Unknown => (UNKNOWN, [0; 16]),
        Client::Ip(addr) => match addr.to_canonical() {
            IpAddr::V4(v4) => {
                let mut address = [0; 16];
                address[..4].copy_from_slice(&v4.octets());
                (4, address)
            }
            IpAddr::V6(v6) => (6, v6.octets()),
        },
    };
    let mut head = [0; HEAD_BYTES];
    head[0] = family;
    head[1..17].copy_from_slice(&address);
    head[17..25].copy_from_slice(&record.unix_seconds.to_ne_bytes());
    head[25..33].copy_from_slice(&record.body_bytes.to_ne_bytes());
    head[33..35].copy_from_slice(&record.status.to_ne_bytes());
    head[35..37].copy_from_slice(&line_len.to_ne_bytes());
    head[37..39].copy_from_slice(&referer_len.to_ne_bytes());
    head[39..41].copy_from_slice(&agent_len.to_ne_bytes());
    head[41..43].copy_from_slice(&host_len.to_ne_bytes());
    head[43..51].copy_from_slice(&record.request_id.to_ne_bytes());
    head[51..59].copy_from_slice(&record.time.duration_ns.to_ne_bytes());
    head[59..67].copy_from_slice(&record.time.program_ns.unwrap_or(NO_PROGRAM).to_ne_bytes());
    head[67] = record.is_aborted.into();
    head[68..70].copy_from_slice(&user_len.to_ne_bytes());
    head[70..72].copy_from_slice(&file_len.to_ne_bytes());
    head[72..74].copy_from_slice(&record.peer.default_port.to_ne_bytes());
    batch.extend_from_slice(&head);
    batch.extend_from_slice(file);
    batch.extend_from_slice(host);
    batch.extend_from_slice(user);
    batch.extend_from_slice(line);
    batch.extend_from_slice(referer);
    batch.extend_from_slice(agent);
}

/// The first record of `batch`, and the rest behind it; `None` at the end.
///
/// # Panics
/// If [`encode`] did not write `batch`: a bug of this folder.
pub(super) fn decode(batch: &[u8]) -> Option<KeptEntry<'_>> {
    if batch.is_empty() {
        return None;
    }
    let (head, rest) = batch.split_first_chunk::<HEAD_BYTES>().expect("a batch holds whole records");
    let address: [u8; 16] = part(head, 1);
    let client = match head[0] {
        UNIX => Client::Unix,
        UNKNOWN => Client::Unknown,
        4 => Client::Ip(Ipv4Addr::new(address[0], address[1], address[2], address[3]).into()),
        _ => Client::Ip(Ipv6Addr::from(address).into()),
    };
    let (file, rest) = take(rest, u16::from_ne_bytes(part(head, 70)));
    let (host, rest) = take(rest, u16::from_ne_bytes(part(head, 41)));
    let (user, rest) = take(rest, u16::from_ne_bytes(part(head, 68)));
    let (request_line, rest) = take(rest, u16::from_ne_bytes(part(head, 35)));
    let (referer, rest) = take(rest, u16::from_ne_bytes(part(head, 37)));
    let (user_agent, rest) = take(rest, u16::from_ne_bytes(part(head, 39)));
    let record = KeptRecord {
        peer: LoggedClient { client, default_port: u16::from_ne_bytes(part(head, 72)) },
        unix_seconds: u64::from_ne_bytes(part(head, 17)),
        status: u16::from_ne_bytes(part(head, 33)),
        body_bytes: u64::from_ne_bytes(part(head, 25)),
        host,
        user,
        request_line: request_line.unwrap_or(KeptField { bytes: &[], cut: false }),
        referer,
        user_agent,
        request_id: u64::from_ne_bytes(part(head, 43)),
        time: AnswerTime {
            duration_ns: u64::from_ne_bytes(part(head, 51)),
            program_ns: Some(u64::from_ne_bytes(part(head, 59))).filter(|ns| *ns != NO_PROGRAM),
        },
        is_aborted: head[67] != 0,
    };
    let file = file.map(|file| Path::new(OsStr::from_bytes(file.bytes)));
    Some(KeptEntry { record, file, rest })
}

fn part<const N: usize>(head: &[u8; HEAD_BYTES], at: usize) -> [u8; N] {
    *head[at..].first_chunk().expect("the head holds its fields")
}

fn take(rest: &[u8], length: u16) -> (Option<KeptField<'_>>, &[u8]) {
    if length == ABSENT {
        return (None, rest);
    }
    let (bytes, rest) = rest.split_at(usize::from(length & !CUT));
    (Some(KeptField { bytes, cut: length & CUT != 0 }), rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const _: () = assert!(LINE_BYTES_MAX < CUT as usize, "a cut length must differ from an absent field");

    fn kept(field: &[u8], bytes_max: usize) -> KeptField<'_> {
        KeptField { bytes: &field[..field.len().min(bytes_max)], cut: field.len() > bytes_max }
    }

    proptest! {
        #[test]
        fn encoded_record_decodes_unchanged(
            peer: Option<Option<IpAddr>>,
            default_port: u16,
            program_ns in proptest::option::of(0..NO_PROGRAM),
            is_aborted: bool,
            unix_seconds: u64,
            status: u16,
            body_bytes: u64,
            file in proptest::option::of("[a-z/]{1,512}"),
            host in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..2 * HOST_BYTES_MAX)),
            user in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..2 * USER_BYTES_MAX)),
            line in proptest::collection::vec(any::<u8>(), 0..2 * LINE_BYTES_MAX),
            referer in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..2 * REFERER_BYTES_MAX)),
            agent in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..2 * USER_AGENT_BYTES_MAX)),
        ) {
            let client = peer.map_or(Client::Unix, |peer| peer.map_or(Client::Unknown, Client::from));
            let peer = LoggedClient { client, default_port };
            let record = LogRecord {
                peer, unix_seconds, host: host.as_deref(), user: user.as_deref(), request_line: &line, status, body_bytes,
                referer: referer.as_deref(), user_agent: agent.as_deref(),
                request_id: unix_seconds ^ 1, time: AnswerTime { duration_ns: body_bytes, program_ns }, is_aborted,
            };
            let mut batch = Vec::new();
            let file = file.as_deref().map(Path::new);
            encode(&mut batch, &record, file);
            prop_assert!(batch.len() <= RECORD_BYTES_MAX);
            let one = batch.len();
            encode(&mut batch, &record, None);
            let decoded = decode(&batch).unwrap();
            prop_assert_eq!((decoded.file, decoded.rest), (file, &batch[one..]));
            prop_assert_eq!(decode(decoded.rest).unwrap().file, None);
            prop_assert_eq!(decoded.record, KeptRecord {
                peer, unix_seconds, status, body_bytes,
                host: host.as_deref().map(|field| kept(field, HOST_BYTES_MAX)),
                user: user.as_deref().map(|field| kept(field, USER_BYTES_MAX)),
                request_line: kept(&line, LINE_BYTES_MAX),
                referer: referer.as_deref().map(|field| kept(field, REFERER_BYTES_MAX)),
                user_agent: agent.as_deref().map(|field| kept(field, USER_AGENT_BYTES_MAX)),
                request_id: unix_seconds ^ 1, time: AnswerTime { duration_ns: body_bytes, program_ns }, is_aborted,
            });
        }
    }

    #[test]
    fn an_empty_batch_holds_no_record() {
        assert_eq!(decode(&[]), None);
    }
}
